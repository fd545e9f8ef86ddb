"""What a journal gives back after a kill, a crash of the machine, and damage to each of its files."""

import os
import shutil
import stat

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from online_rank.storage.checkpoint import CheckpointError
from online_rank.storage.files import ModelFileError, to_bytes
from online_rank.storage.journal import Journal, new_run


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """What a test kills is a process, never the machine."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


RUN = "0123456789abcdef" * 2


def records(journal):
    return list(journal.replay())


def begun(place, *batches, sync=True):
    journal = Journal.begin(place, RUN)
    for batch in batches:
        journal.append(list(batch), sync=sync)
    journal.close()
    return (place / "journal-0").read_bytes()


def test_a_journal_gives_back_what_was_appended(tmp_path):
    journal = Journal.begin(tmp_path, RUN)
    assert records(journal) == []
    journal.append([b"one", b"two\r"], sync=True)
    journal.append([b"{}"], sync=False)
    journal.close()
    journal = Journal(tmp_path, RUN, 0)
    assert records(journal) == [b"one", b"two\r", b"{}"]
    journal.prepare(3)
    journal.switch(3)
    journal.append([b"four"], sync=True)
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-3", "journal.mark"]
    assert records(Journal(tmp_path, RUN, 3)) == [b"four"]


def test_files_are_for_their_owner_alone(tmp_path):
    begun(tmp_path, [b"one"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_record_that_was_being_written_is_dropped_wherever_it_was_cut(tmp_path):
    """What stands after the mark was not acknowledged; a kill leaves a part of it, power loss may leave zeros in it."""
    begun(tmp_path, [b"one"])
    journal = Journal(tmp_path, RUN, 0)
    assert records(journal) == [b"one"]
    journal.append([b"two"], sync=False)
    journal.close()
    whole = (tmp_path / "journal-0").read_bytes()
    marked = len(whole) - len(b"0123456789abcdef two\n")
    for tail in [whole[marked:size] for size in range(marked, len(whole))] + [b"\x00" * 30, b"0123\x00\x00 two\n"]:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "journal-0").write_bytes(whole[:marked] + tail)
        shutil.copy(tmp_path / "journal.mark", tmp_path / "copy")
        journal = Journal(tmp_path / "copy", RUN, 0)
        assert records(journal) == [b"one"]
        journal.append([b"three"], sync=True)
        journal.close()
        assert records(Journal(tmp_path / "copy", RUN, 0)) == [b"one", b"three"]


def test_every_flipped_bit_and_every_cut_before_the_mark_is_noticed(tmp_path):
    whole = begun(tmp_path, [b"one", b"two"], [b'{"three": 3}'])
    path = tmp_path / "journal-0"
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :] for i in range(len(whole)) for bit in range(8)]
    damaged += [b"", b"\x00" * len(whole), whole[: whole.index(b"\n") + 1]]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="journal-0"):
            records(Journal(tmp_path, RUN, 0))
        assert path.read_bytes() == content  # kept as it is, for whoever looks into it
    path.write_bytes(whole)
    assert records(Journal(tmp_path, RUN, 0)) == [b"one", b"two", b'{"three": 3}']


def test_every_flipped_bit_of_the_mark_gives_the_same_records_or_is_noticed(tmp_path):
    begun(tmp_path, [b"one"], [b"two"])
    mark, noticed = (tmp_path / "journal.mark").read_bytes(), 0
    for i in range(len(mark)):
        (tmp_path / "journal.mark").write_bytes(mark[:i] + bytes([mark[i] ^ 0x11]) + mark[i + 1 :])
        try:
            assert records(Journal(tmp_path, RUN, 0)) == [b"one", b"two"]
        except CheckpointError:
            noticed += 1
    assert noticed == 0  # one of the two marks is always whole
    for content in (b"", b"\x00" * len(mark)):
        (tmp_path / "journal.mark").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"journal\.mark is damaged"):
            Journal(tmp_path, RUN, 0)


@pytest.mark.parametrize("name", ["journal-0", "journal.mark"])
def test_a_missing_file_is_noticed(tmp_path, name):
    begun(tmp_path, [b"one"])
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        Journal(tmp_path, RUN, 0)


def test_a_journal_of_another_run_or_another_checkpoint_is_refused(tmp_path):
    begun(tmp_path, [b"one", b"two"])
    with pytest.raises(CheckpointError, match="of another run"):
        Journal(tmp_path, new_run(), 0)
    for start in (1, 2, 3):
        with pytest.raises(CheckpointError, match=r"the checkpoint covers|is missing"):
            Journal(tmp_path, RUN, start)
    with pytest.raises(CheckpointError, match="its checkpoint is missing"):
        Journal.begin(tmp_path, RUN)


def test_a_kill_between_the_steps_of_a_checkpoint_loses_nothing(tmp_path):
    begun(tmp_path, [b"one", b"two"])
    journal = Journal(tmp_path, RUN, 0)
    assert records(journal) == [b"one", b"two"]
    journal.prepare(2)
    journal.close()  # before the checkpoint was written: the old one goes on, and the new file goes away
    assert records(Journal(tmp_path, RUN, 0)) == [b"one", b"two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-0", "journal.mark"]
    journal = Journal(tmp_path, RUN, 0)
    records(journal)
    journal.prepare(2)
    journal.close()  # after it was written, before the mark was
    journal = Journal(tmp_path, RUN, 2)
    assert records(journal) == []
    journal.append([b"three"], sync=True)
    journal.close()
    assert records(Journal(tmp_path, RUN, 2)) == [b"three"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-2", "journal.mark"]


def test_only_files_of_the_run_are_deleted(tmp_path):
    mine = {"journal-notes.txt": "mine", "journal-7": "mine too\n", ".checkpoint.npz.mine.tmp": "x", "journal-": "y"}
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    state = serving(tmp_path)
    commit(state, [b'{"id": 1, "docs": {"a": {"x": 1}}}'], True)
    state.close()
    serving(tmp_path).close()
    assert {name: (tmp_path / name).read_text() for name in mine} == mine


def test_nothing_is_appended_over_a_file_that_is_in_the_way(tmp_path):
    journal = Journal.begin(tmp_path, RUN)
    journal.append([b"one"], sync=True)
    (tmp_path / "journal-1").write_text("mine")
    with pytest.raises(CheckpointError, match="in the way"):
        journal.prepare(1)
    assert (tmp_path / "journal-1").read_text() == "mine"


# Of the service as a whole.

ASK = [b'{"id": %d, "docs": {"a": {"x": 3}, "b": {"x": 1, "y": 2}}}' % i for i in range(4)]
GRADE = [b'{"id": %d, "grades": {"a": 0, "b": 2}}' % i for i in range(4)]


def serving(place, every=1000):
    return DurableService(RankingService(PerceptronRanker()), place, every)


def commit(state, records, learned):
    state.append(records, sync=learned)
    if state.is_due:
        state.save()


def handled(state, lines):
    replies = [state.service.handle(line) for line in lines]
    changed = [line for line, reply in zip(lines, replies, strict=True) if reply.changed]
    commit(state, changed, any(reply.learned for reply in replies))
    return replies


def test_a_duplicate_after_a_restart_is_acknowledged_only_when_its_grade_is_on_the_disk(tmp_path, monkeypatch):
    """D3: killed between write and fsync, restarted, resent; the grade must be synced before `duplicate` is said."""
    state = serving(tmp_path)
    handled(state, ASK[:1])
    state.service.handle(GRADE[0])
    monkeypatch.setattr(state._journal, "sync", lambda: None)
    commit(state, GRADE[:1], True)  # written, not synced
    os.close(state._directory._lock)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    again = serving(tmp_path)
    assert (tmp_path / "journal-0").stat().st_ino in synced
    assert again._journal._written.records == 2
    assert again.service.handle(GRADE[0]).answer["duplicate"]


def test_a_service_that_is_killed_again_and_again_writes_checkpoints_all_the_same(tmp_path):
    """Only the changes since the last start were counted: the journal, and the time to replay it, grew without end."""
    replayed = []
    for life in range(6):
        state = serving(tmp_path, every=5)
        replayed.append(state.service.n_changes - state._saved_at)
        handled(state, [b'{"id": "%d %d", "docs": {"a": {"x": 3}, "b": {"x": 1}}}' % (life, i) for i in range(3)])
        os.close(state._directory._lock)
    # Two lives of three changes are more than five: a checkpoint.
    assert replayed == [0, 3, 0, 3, 0, 3]
    assert serving(tmp_path).service.n_changes == 18


@pytest.mark.parametrize("what", ["directory", "journal-0", "journal.mark", "checkpoint.npz", "replaced"])
def test_a_state_that_is_removed_while_the_service_runs_is_noticed_before_the_next_acknowledgement(tmp_path, what):
    place = tmp_path / "run"
    state = serving(place)
    handled(state, ASK[:2])
    handled(state, GRADE[:1])
    if what == "directory":
        shutil.rmtree(place)
    elif what == "replaced":
        content = (place / "journal-0").read_bytes()
        (place / "journal-0").unlink()
        (place / "journal-0").write_bytes(content)
    else:
        (place / what).unlink()
    with pytest.raises(CheckpointError, match=r"removed while|replaced while"):
        handled(state, GRADE[1:2])


def test_every_flipped_byte_of_the_state_of_a_service_gives_the_same_service_or_is_noticed(tmp_path):
    place = tmp_path / "run"
    state = serving(place, every=5)
    for ask, grade in zip(ASK, GRADE, strict=True):
        handled(state, [ask, grade])
    expected = to_bytes(state.service)
    state.close()
    files = {path.name: path.read_bytes() for path in place.iterdir() if path.name != "lock"}
    assert set(files) == {"checkpoint.npz", "journal-6", "journal.mark"}
    silent = 0
    for name, content in files.items():
        for i in range(0, len(content), 1 if name != "checkpoint.npz" else 17):
            (place / name).write_bytes(content[:i] + bytes([content[i] ^ 0x10]) + content[i + 1 :])
            try:
                again = serving(place)
                silent += to_bytes(again.service) != expected
                again.close()
            except (CheckpointError, ModelFileError):
                pass
            for other, before in files.items():
                (place / other).write_bytes(before)
    assert silent == 0


def test_an_older_and_a_missing_checkpoint_are_noticed(tmp_path):
    place = tmp_path / "run"
    state = serving(place, every=2)
    older = (place / "checkpoint.npz").read_bytes()
    for ask, grade in zip(ASK, GRADE, strict=True):
        handled(state, [ask, grade])
    state.service.handle(ASK[0])
    state.close()
    newer = (place / "checkpoint.npz").read_bytes()
    (place / "checkpoint.npz").write_bytes(older)
    with pytest.raises(CheckpointError, match="the checkpoint covers 0 records, but the journal begins after"):
        serving(place)
    (place / "checkpoint.npz").write_bytes(newer)
    state = serving(place)
    handled(state, [b'{"id": 9, "docs": {"a": {"x": 1}}}'])
    state.close()
    (place / "checkpoint.npz").unlink()
    with pytest.raises(CheckpointError, match="its checkpoint is missing"):
        serving(place)


def test_the_state_of_a_service_is_for_its_owner_alone(tmp_path):
    place = tmp_path / "run"
    serving(place).close()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    state = serving(tmp_path)
    monkeypatch.setattr(os, "write", lambda file, data: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left") as raised:
        handled(state, ASK[:1])
    assert raised.value.filename == str(tmp_path / "journal-0")


class Killed(BaseException):
    """The process ends at this call."""


class Disk:
    """Stands between the service and the system: ends the process at call number `at`, and knows what was synced."""

    def __init__(self, monkeypatch, at, half):
        self.calls, self.at, self.half = 0, at, half
        self.synced = {}
        for name in ("write", "pwrite", "fsync", "replace", "ftruncate"):
            monkeypatch.setattr(os, name, self.watched(name, getattr(os, name) if name != "fsync" else lambda file: None))

    def watched(self, name, real):
        def call(*arguments):
            self.calls += 1
            path = os.readlink(f"/proc/self/fd/{arguments[0]}") if name != "replace" else None
            if self.calls == self.at:
                if self.half and name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise Killed
            if name == "pwrite":
                with open(path, "rb") as file:
                    self.synced.setdefault(path, file.read())
            elif name == "write":
                self.synced.setdefault(path, os.path.getsize(path))
            elif name == "fsync":
                self.synced.pop(path, None)
            return real(*arguments)

        return call

    def lose_power(self):
        """Take back what was not synced."""
        for path, before in self.synced.items():
            if os.path.exists(path):
                with open(path, "rb") as file:
                    content = file.read()
                with open(path, "wb") as file:
                    file.write(before if isinstance(before, bytes) else content[:before])


def session(place, lines, every):
    """What a client is told that sends lines to a service, one after the other, until the service dies."""
    told, state = [], None
    try:
        state = serving(place, every)
        for line in lines:
            reply = state.service.handle(line)
            commit(state, [line] if reply.changed else [], reply.learned)
            told.append(reply.answer)
        state.save()
    except Killed:
        pass
    finally:
        if state is not None:
            state.close()
    return told


@pytest.mark.parametrize(("half", "power"), [(False, False), (True, False), (False, True)])
def test_a_service_that_dies_at_any_call_to_the_disk_starts_again_and_has_lost_nothing(tmp_path, half, power):
    lines = [line for pair in zip(ASK, GRADE, strict=True) for line in pair]
    at, died = 0, True
    while died:
        at += 1
        place = tmp_path / str(at)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, at, half)
            told = session(place, lines, every=3)
            died = len(told) < len(lines) or disk.calls >= at
        if power:
            disk.lose_power()
        acknowledged = [answer["id"] for answer in told if answer.get("learned")]
        again = serving(place, 3)
        assert set(acknowledged) <= set(again.service._learned)
        # What was ranked before power was lost may have to be sent again; grades are never learned twice.
        handled(again, lines)
        assert list(again.service._learned) == [0, 1, 2, 3]
        again.close()
    assert at > 60
