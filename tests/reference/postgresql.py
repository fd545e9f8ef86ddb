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


class Server:
    """A server in a folder, which may be killed and started again."""

    def __init__(self, folder, durable):
        self.folder, self.bin = folder, programs()
        self.address = f"postgresql://tester@/postgres?host={folder}"
        self._options = f"-c listen_addresses= -k {folder}{'' if durable else ' -F'}"
        self.run("initdb", "-D", folder / "data", "-U", "tester", "-A", "trust", "--no-sync")
        self.start()

    def run(self, program, *arguments):
        """Run one of PostgreSQL's programs."""
        call = [self.bin / program, *arguments]
        subprocess.run(call, check=True, user=USER, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self):
        """Start it, and wait until it answers."""
        self.run("pg_ctl", "-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", self._options, "start")

    def kill(self):
        """Let it crash: all its processes end at once, and nothing is written."""
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")


@contextlib.contextmanager
def running(durable=False):
    """A `Server`, for as long as the context lasts; a `durable` one keeps what was written when it is killed."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if USER:
        shutil.chown(folder, USER)
    try:
        server = Server(folder, durable)
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # It may have been killed.
                server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def server():
    """A function that gives an empty `Database`."""
    with running() as found:
        psql = [found.bin / "psql", "-X", "-q", "--csv", "-t", "-v", "ON_ERROR_STOP=1", "-h", found.folder]

        def empty():
            Database([*psql, "-U", "tester", "postgres"]).execute("DROP TABLE IF EXISTS online_rank")
            return Database([*psql, "-U", "tester", "postgres"])

        yield empty
