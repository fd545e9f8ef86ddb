"""A server that starts in a bad moment: what it answers then. Each cell of the table in docs/safety.md is a test."""

import contextlib
import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from online_rank.storage.checkpoint import STATE, _sealed
from tests.reference import postgresql
from tests.serving.test_full_disk import filled, small_disk

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")]

ROOT = Path(__file__).parents[2]
COLUMNS = ("/rank", "/learn", "/readyz", "exit status")
DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0, "y": 2.0}}
OPTIONS = ("--ranker", "perceptron")


class Server:
    """A process of `online-rank serve`, which listens or has ended."""

    #: What it is asked to rank, and how one ranks that has learned.
    documents, learned = DOCS, ["b", "a"]

    def __init__(self, *options, environment=(), before=(), port="0"):
        command = [*before, sys.executable, "-m", "online_rank", "serve", *OPTIONS, "--port", port, *map(str, options)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **dict(environment)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"listening on http://127.0.0.1:(\d+)/", line):
                self.port = int(found[1])
                return
        self.process.wait(60)

    @property
    def text(self):
        return "".join(self.lines)

    def asked(self, method, path, body=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def until(self, condition, seconds=30.0):
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.1)

    def ended(self, number=signal.SIGTERM):
        """The exit status; by a signal if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        with self.process:
            self.lines += self.process.stderr
        return self.process.returncode


@functools.cache
def learned():
    """The folder of a service that was killed: it ranks b first, a new one ranks a first."""
    folder = Path(tempfile.mkdtemp(prefix="online_rank")) / "state"
    server = Server("--checkpoint", folder, "--snapshots", 1)
    for query_id in ("q1", "q2"):
        assert server.asked("POST", "/learn", {"id": query_id, "docs": DOCS, "grades": {"a": 0, "b": 2}})[0] == 200
    assert server.asked("POST", "/rank", {"id": "q3", "docs": DOCS})[1]["ranking"] == ["b", "a"]
    content = model_of(server)
    server.ended(signal.SIGKILL)
    (folder / "model.npz").write_bytes(content)
    return folder


def model_of(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", "/model")
        return connection.getresponse().read()


def copied(tmp_path, with_model=False):
    """A copy of that folder; without the models that it keeps, unless `with_model`."""
    folder = Path(shutil.copytree(learned(), tmp_path / "state"))
    content = (folder / "model.npz").read_bytes()
    for kept in folder.glob("*.npz"):
        kept.unlink()
    if with_model:
        (folder / "snapshot-2026-01-02.npz").write_bytes(content)
    return folder


@contextlib.contextmanager
def full_disk(tmp_path):
    with small_disk(tmp_path / "disk"):
        folder = copied(tmp_path / "disk")
        with filled(tmp_path / "disk" / "nobody", None):
            yield Server("--checkpoint", folder)


@contextlib.contextmanager
def new_on_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk"), filled(tmp_path / "disk" / "state", None):
        yield Server("--checkpoint", tmp_path / "disk" / "state")


@contextlib.contextmanager
def no_rights(tmp_path):
    folder = copied(tmp_path)
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path == folder else 0o444)
    # Root has rights to everything, unless it gives them up.
    less = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"] if os.geteuid() == 0 else []
    if less and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    try:
        yield Server("--checkpoint", folder, before=less)
    finally:
        folder.chmod(0o700)


def damage(folder):
    """The model and its journal are there; a piece of the generation is not what it was."""
    with contextlib.closing(sqlite3.connect(folder / STATE)) as database, database:
        database.execute("UPDATE piece SET content = zeroblob(length(content))")


@contextlib.contextmanager
def damaged_with_a_day(tmp_path):
    folder = copied(tmp_path, with_model=True)
    damage(folder)
    yield Server("--checkpoint", folder)


@contextlib.contextmanager
def damaged(tmp_path):
    folder = copied(tmp_path)
    damage(folder)
    yield Server("--checkpoint", folder)


def cache_in(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    shutil.copy(learned() / "model.npz", cache / "model.npz")
    (cache / "model.npz").chmod(0o600)
    return cache


@contextlib.contextmanager
def no_database(tmp_path):
    pytest.importorskip("psycopg")
    yield Server("--checkpoint", "postgresql://ranker@127.0.0.1:9/ranker")


@contextlib.contextmanager
def no_database_and_a_cache(tmp_path):
    pytest.importorskip("psycopg")
    server = Server("--checkpoint", "postgresql://ranker@127.0.0.1:9/ranker", "--cache", cache_in(tmp_path))
    server.until(lambda: server.asked("POST", "/rank", {"id": 0, "docs": DOCS})[0] == 200)
    yield server


@contextlib.contextmanager
def wrong_password(tmp_path):
    pytest.importorskip("psycopg")
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL")
    with postgresql.running() as database:
        access = database.folder / "data" / "pg_hba.conf"
        database.run("psql", "-h", database.folder, "-U", "tester", "postgres", "-c", "ALTER USER tester PASSWORD 'right'")
        access.write_text("local all all scram-sha-256\n")
        database.run("pg_ctl", "-D", database.folder / "data", "reload")
        address = database.address.replace("tester@", "tester:wrong@")
        server = Server("--checkpoint", address, "--cache", cache_in(tmp_path))
        server.until(lambda: server.asked("POST", "/rank", {"id": 0, "docs": DOCS})[0] == 200)
        assert "password authentication failed" in server.asked("GET", "/readyz")[1]["read_only"]
        yield server


@contextlib.contextmanager
def port_taken(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = Server("--checkpoint", copied(tmp_path), port=str(other.getsockname()[1]))
        assert "cannot listen on 127.0.0.1 port" in server.text
        yield server


@contextlib.contextmanager
def format_before(tmp_path):
    """The folder of a default service of an earlier release."""
    (folder,) = (ROOT / "tests" / "storage" / "formats").glob("0.1.0/service")
    shutil.copytree(folder, tmp_path / "state")
    then = json.loads((folder / "answers.json").read_text())
    server = Server("--ranker", "additive", "--checkpoint", tmp_path / "state")
    server.documents, server.learned = then["probe"], then["ranking"]
    yield server


@contextlib.contextmanager
def later_format(tmp_path):
    folder = copied(tmp_path)
    with contextlib.closing(sqlite3.connect(folder / STATE)) as database, database:
        change, notes, manifest = database.execute("SELECT change, notes, manifest FROM generation").fetchone()
        manifest = json.dumps({**json.loads(manifest), "format": 99, "library": "7.1.0"}).encode()
        database.execute("UPDATE generation SET manifest = ?, digest = ?", (manifest, _sealed(change, notes, manifest)))
    server = Server("--checkpoint", folder)
    assert "format 99 was written by online_rank 7.1.0" in server.text
    yield server


@contextlib.contextmanager
def clock_behind(tmp_path):
    """The state was written a day ahead of the clock."""
    folder = tmp_path / "state"
    first = Server("--checkpoint", folder, "--clock-skew", "7d")
    first.asked("POST", "/rank", {"id": "q", "docs": DOCS, "ts": time.time() + 86_400.0})
    assert first.ended() == 0
    yield Server("--checkpoint", folder)


@contextlib.contextmanager
def lock_held(tmp_path):
    folder = copied(tmp_path)
    first = Server("--checkpoint", folder)
    try:
        server = Server("--checkpoint", folder)
        assert f"is in use by another process (id {first.process.pid})" in server.text
        yield server
    finally:
        first.ended()


@contextlib.contextmanager
def no_memory_for_threads(tmp_path):
    code = (
        "import threading, sys; start = threading.Thread.start\n"
        "def refuse(self):\n"
        "    if 'online_rank' in self.name: raise RuntimeError(\"can't start new thread\")\n"
        "    start(self)\n"
        "threading.Thread.start = refuse\n"
    )
    (tmp_path / "sitecustomize.py").write_text(code)
    server = Server("--checkpoint", copied(tmp_path), environment={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert "no further thread can be started: give this process more memory" in server.text
    yield server


@contextlib.contextmanager
def kernels_of_another_user(tmp_path):
    objects = Path(os.environ.get("ONLINE_RANK_CACHE_DIR") or Path.home() / ".cache" / "online_rank")
    if not objects.is_dir() or not any(objects.glob("*.o")):
        pytest.skip("needs kernels compiled ahead")
    shutil.copytree(objects, tmp_path / "objects", dirs_exist_ok=True)
    for path in (tmp_path / "objects").iterdir():
        os.chown(path, 65534, 65534)
    server = Server("--checkpoint", copied(tmp_path), environment={"ONLINE_RANK_CACHE_DIR": str(tmp_path / "objects")})
    assert "belongs to another user" in server.text
    yield server


FAULTS = {
    "the disk is full": full_disk,
    "the disk is full, and the service is new": new_on_a_full_disk,
    "nobody may write to the folder": no_rights,
    "the state is damaged, and the model of a day is kept": damaged_with_a_day,
    "the state is damaged, and no model is kept": damaged,
    "no database answers": no_database,
    "no database answers, with `--cache`": no_database_and_a_cache,
    "the password of the database is wrong, with `--cache`": wrong_password,
    "the port is taken": port_taken,
    "the format is of an earlier release": format_before,
    "the format is of a later release": later_format,
    "the clock is behind by a day": clock_behind,
    "another process holds the lock of the folder": lock_held,
    "there is no memory for threads": no_memory_for_threads,
    "the compiled kernels belong to another user": kernels_of_another_user,
}
_FOUND = {}


def found(fault, tmp_path):
    """The cells of the row of a fault, as they are."""
    if fault in _FOUND:
        return _FOUND[fault]
    with FAULTS[fault](tmp_path) as server:
        cells = dict.fromkeys(COLUMNS, "")
        if server.process.poll() is not None:
            cells["exit status"] = f"{server.ended()} at once"
        else:
            try:
                for column in COLUMNS[:3]:
                    cells[column] = ASKED[column](server)
            finally:
                status = server.ended()
            cells["exit status"] = f"{status} when stopped"
    return _FOUND.setdefault(fault, cells)


def ranked(server):
    status, answer = server.asked("POST", "/rank", {"id": "asked", "docs": server.documents})
    if status != 200:
        return f"{status}"
    by = "learned" if answer["ranking"] == server.learned else "as by a new service"
    return f"{status}, {by}{', greedy' if answer.get('greedy') else ''}"


def taught(server):
    return f"{server.asked('POST', '/learn', {'id': 'taught', 'docs': DOCS, 'grades': {'a': 1, 'b': 0}})[0]}"


def readiness(server):
    status, answer = server.asked("GET", "/readyz")
    assert answer["ok"] is (status == 200)
    why = [f"`{name}`" for name in answer if name in ("disk_full", "read_only", "error", "seconds_ahead")]
    return ", ".join([f"{status}", *why])


ASKED = {"/rank": ranked, "/learn": taught, "/readyz": readiness}


def table():
    """The rows of the table in docs/safety.md, by fault."""
    text = (ROOT / "docs" / "safety.md").read_text()
    lines = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("|")]
    begin = next(i for i, cells in enumerate(lines) if cells[1:] == [f"`{c}`" if c[0] == "/" else c for c in COLUMNS])
    rows = {}
    for cells in lines[begin + 2 :]:
        if len(cells) != len(COLUMNS) + 1:
            break
        rows[cells[0]] = dict(zip(COLUMNS, (cell.strip().strip("–") for cell in cells[1:]), strict=True))
    return rows


def test_the_table_has_these_rows():
    assert [*table()] == [*FAULTS]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_cell_is_what_a_server_answers(fault, column, tmp_path):
    if fault == "the compiled kernels belong to another user" and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    assert found(fault, tmp_path)[column] == table()[fault][column]
