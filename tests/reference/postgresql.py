"""A PostgreSQL server of the system's own programs, for as long as a test takes."""

import contextlib
import csv
import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

#: A server does not run as root, and Debian brings this user.
USER = "postgres" if hasattr(os, "geteuid") and os.geteuid() == 0 else None


def programs():
    """The folder of the server's programs, the newest; None if it is not installed."""
    found = shutil.which("initdb")
    here = [Path(found).resolve().parent] if found else [*Path("/usr/lib/postgresql").glob("*/bin")]
    return max((folder for folder in here if (folder / "psql").exists()), default=None)


class Database:
    """A table of one test, with what `sqlite3` has of `execute` and `executemany`."""

    def __init__(self, psql):
        self._psql, self._rows = psql, []

    def execute(self, statement):
        done = subprocess.run(self._psql, input=statement, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        self._rows = [tuple(map(float, row)) for row in csv.reader(io.StringIO(done.stdout))]
        return self

    def executemany(self, statement, rows):
        def literal(x):
            if isinstance(x, str):
                return "'" + x.replace("'", "''") + "'"
            return "NULL" if x is None else "'NaN'" if x != x else repr(x)

        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
        self.execute(f"{statement.partition('VALUES')[0]}VALUES {values}")

    def fetchall(self):
        return self._rows


@contextlib.contextmanager
def server():
    """A function that gives an empty `Database`."""
    folder, bin_ = Path(tempfile.mkdtemp(prefix="pg")), programs()
    data = folder / "data"
    if USER:
        shutil.chown(folder, USER)

    def run(program, *arguments):
        subprocess.run([bin_ / program, *arguments], check=True, user=USER, cwd=folder, stdout=subprocess.DEVNULL)

    try:
        run("initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync")
        run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", f"-c listen_addresses= -k {folder} -F", "start")
        psql = [bin_ / "psql", "-X", "-q", "--csv", "-t", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", "tester", "postgres"]

        def empty():
            Database(psql).execute("DROP TABLE IF EXISTS online_rank")
            return Database(psql)

        try:
            yield empty
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
