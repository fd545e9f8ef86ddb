"""Backups: one file that has the whole state of a service, taken while it learns."""

import contextlib
import json
import os
import stat
import threading

import pytest

from online_rank import PerceptronRanker, StreamScaler
from online_rank.cli.service import forget
from online_rank.serving import FeedbackPlan, RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.storage import CheckpointError, ModelFileError
from online_rank.storage.backup import back_up, restore
from online_rank.storage.files import to_bytes
from tests.helpers import run_command

DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0, "y": 2.0}}


def make():
    plan = FeedbackPlan(window=100.0, events={"click": 1})
    return RankingService(StreamScaler() | PerceptronRanker(), plan=plan)


def send(state, *requests):
    outcomes = [outcome for each in requests for outcome in state.service.handle(json.dumps(each).encode()).outcomes]
    state.append(outcomes, sync=True)


def query(i):
    return (
        {"id": i, "docs": DOCS, "ts": 10 * i},
        {"id": i, "event": "click", "doc": "ab"[i % 2], "ts": 10 * i + 1},
    )


@contextlib.contextmanager
def running(folder, n=30):
    with contextlib.closing(DurableService(make(), folder, every=20)) as state:
        for i in range(n):
            send(state, *query(i))
            state.between_commits()
        yield state


def same(one, other):
    assert (one.counts(), one.now, one.n_waiting) == (other.counts(), other.now, other.n_waiting)
    assert to_bytes(one.model) == to_bytes(other.model)
    for i in range(30, 60):
        for request in query(i):
            line = json.dumps(request).encode()
            assert one.handle(line).answer == other.handle(line).answer
    assert to_bytes(one.model) == to_bytes(other.model)


def test_a_service_continues_from_a_backup_as_it_would_have(tmp_path):
    with running(tmp_path / "state") as state:
        assert back_up(tmp_path / "state", tmp_path / "copy.db") == state.service.n_changes
        assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
        assert sorted(os.listdir(tmp_path)) == ["copy.db", "state"]
        assert restore(tmp_path / "copy.db", tmp_path / "new") == state.service.n_changes
        same(read_service(tmp_path / "new"), state.service)
    again = DurableService(make(), tmp_path / "new")
    send(again, *query(30))
    again.close()
    assert read_service(tmp_path / "new").n_changes == again.service.n_changes


@pytest.mark.slow
def test_each_backup_during_learning_has_a_state_that_existed(tmp_path):
    stopped, states = threading.Event(), {}
    with running(tmp_path / "state", 0) as state:

        def learn():
            for i in range(400):
                if stopped.is_set():
                    return
                send(state, *query(i))
                states[state.service.n_changes] = state.service.counts()
                state.between_commits()

        learner = threading.Thread(target=learn)
        learner.start()
        try:
            while len(states) < 3:
                pass
            for i in range(10):
                change = back_up(tmp_path / "state", tmp_path / "copy.db")
                restore(tmp_path / "copy.db", tmp_path / f"new {i}")
                assert read_service(tmp_path / f"new {i}").n_changes == change
        finally:
            stopped.set()
            learner.join()
        for i in range(10):
            found = read_service(tmp_path / f"new {i}")
            assert found.counts() == states[found.n_changes]


def test_a_damaged_state_replaces_no_backup(tmp_path):
    with running(tmp_path / "state"):
        pass
    back_up(tmp_path / "state", tmp_path / "copy.db")
    good = (tmp_path / "copy.db").read_bytes()
    database = tmp_path / "state" / "state.db"
    content = bytearray(database.read_bytes())
    for at in range(len(content) // 2, len(content), 97):
        content[at] ^= 0xFF
    database.write_bytes(content)
    with pytest.raises((CheckpointError, ModelFileError)):
        back_up(tmp_path / "state", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == good
    assert sorted(os.listdir(tmp_path)) == ["copy.db", "state"]
    (tmp_path / "cut.db").write_bytes(good[: len(good) // 2])
    with pytest.raises((CheckpointError, ModelFileError)):
        restore(tmp_path / "cut.db", tmp_path / "new")
    assert not (tmp_path / "new" / "state.db").exists()
    restore(tmp_path / "copy.db", tmp_path / "new")
    with pytest.raises(CheckpointError, match="has a state already"):
        restore(tmp_path / "copy.db", tmp_path / "new")


def test_a_database_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = "postgresql://me:secret@host/shop"
    for refused in (lambda: back_up(place, "b"), lambda: restore("b", place), lambda: forget(place, ["q1"], None, None)):
        with pytest.raises(ValueError, match=r"^postgresql://host/shop is a database, not a folder: (back it up|send POST)"):
            refused()
    assert not [*tmp_path.iterdir()]


def test_without_a_state_nothing_is_written(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "none"):
        with pytest.raises(OSError, match="there is no state"):
            back_up(tmp_path / folder, tmp_path / "copy.db")
    with pytest.raises(OSError, match="there is no state"):
        restore(tmp_path / "copy.db", tmp_path / "new")
    assert not (tmp_path / "copy.db").exists()


def test_killed_before_the_end_a_restored_folder_is_refused_and_can_be_restored_again(tmp_path, monkeypatch):
    with running(tmp_path / "state") as state:
        back_up(tmp_path / "state", tmp_path / "copy.db")

        def killed(source, target, replace=os.replace):
            if target.name == "state.db":
                raise KeyboardInterrupt
            replace(source, target)

        with monkeypatch.context() as patched:
            patched.setattr("online_rank.storage.files.os.replace", killed)
            with pytest.raises(KeyboardInterrupt):
                restore(tmp_path / "copy.db", tmp_path / "new")
        with pytest.raises(CheckpointError, match="its first generation is missing"):
            DurableService(make(), tmp_path / "new")
        (tmp_path / "new" / "state.db").unlink()  # An empty one.
        for name in ("state.db-wal", "state.db-shm"):
            (tmp_path / "new" / name).unlink(missing_ok=True)
        restore(tmp_path / "copy.db", tmp_path / "new")
        same(read_service(tmp_path / "new"), state.service)


def test_the_commands(tmp_path, capsys):
    with running(tmp_path / "state") as state:
        for command, source, target in (("backup", "state", "copy.db"), ("restore", "copy.db", "new")):
            code, out, _ = run_command(capsys, command, tmp_path / source, tmp_path / target)
            assert code == 0
            assert f"with {state.service.n_changes:,} changes" in out
        same(read_service(tmp_path / "new"), state.service)
