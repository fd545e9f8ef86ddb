"""What the folder of a service gives back after a kill, a crash of the machine, and damage to each of its files."""

import ctypes
import json
import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys

import numpy as np
import pytest

from online_rank import PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.base.schema import declared_state
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.storage.checkpoint import CheckpointDirectory
from online_rank.storage.database import digest_of
from online_rank.storage.files import ModelFileError, to_bytes
from online_rank.storage.folder import CheckpointError
from online_rank.storage.generations import taken
from online_rank.storage.saved import chained, digest_of_query

ASK = [b'{"id": %d, "docs": {"a": {"x": 3}, "b": {"x": 1, "y": 2}}}' % i for i in range(6)]
GRADE = [b'{"id": %d, "grades": {"a": 0, "b": 2}}' % i for i in range(6)]
PAIRS = [line for pair in zip(ASK, GRADE, strict=True) for line in pair]


def serving(place, every=1000):
    return DurableService(RankingService(PerceptronRanker()), place, every)


def handled(durable, lines):
    replies = [durable.service.handle(line) for line in lines]
    durable.append([reply.outcome for reply in replies], any(reply.learned for reply in replies))
    durable.between_commits()
    return replies


def left(place, saved, more=()):
    """What a service leaves that handled some lines, was saved, and handled more."""
    durable = serving(place)
    handled(durable, saved)
    durable.save()
    if more:
        handled(durable, more)
    durable.close()


def changed(place, statement):
    """How many rows of a folder a statement changed."""
    with sqlite3.connect(place / "state.db") as editor:
        return editor.execute(statement).rowcount


def killed(durable):
    """Let the process end here, as far as others can see: nothing is closed in good order."""
    durable.store._give_up()


def copied(place, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(place, to)
    return to


@pytest.mark.parametrize("every", [*(pytest.param(every, marks=pytest.mark.slow) for every in (1, 3)), 1000])
@pytest.mark.parametrize("make", [PerceptronRanker, lambda: SwapRanker(PlackettLuce(2, seed=3))])
def test_a_service_continues_equal_to_the_bit_wherever_it_is_killed(tmp_path, every, make):
    durable = DurableService(RankingService(make()), tmp_path / "run", every)
    for i, line in enumerate([*PAIRS, GRADE[0], ASK[0], *ASK[3:]]):
        handled(durable, [line])
        # With the queries that wait, the ids that were learned, and all counts.
        again = DurableService(RankingService(make()), copied(tmp_path / "run", tmp_path / "copy"), every)
        assert to_bytes(again.service) == to_bytes(durable.service)
        assert again.service.stats() == durable.service.stats()
        asked = b'{"id": "new", "docs": {"a": {"x": %d}, "b": {"x": 1}, "c": {}}}' % i
        drawn = RankingService.handle(again.service, asked).answer
        assert (
            drawn
            == DurableService(RankingService(make()), copied(tmp_path / "run", tmp_path / "other")).service.handle(asked).answer
        )
        again.close()
    durable.close()


def test_replay_draws_nothing(tmp_path, monkeypatch):
    durable = DurableService(RankingService(SwapRanker(PlackettLuce(2, seed=3))), tmp_path, 1000)
    handled(durable, ASK)
    expected = to_bytes(durable.service)
    killed(durable)
    monkeypatch.setattr(SwapRanker, "_show", None)
    again = DurableService(RankingService(SwapRanker(PlackettLuce(2, seed=3))), tmp_path, 1000)
    assert to_bytes(again.service) == expected
    again.close()


def test_a_query_that_is_too_large_draws_nothing(tmp_path):
    def make():
        return RankingService(SwapRanker(PlackettLuce(2, seed=3)), wait_bytes=2000)

    durable = DurableService(make(), tmp_path / "run")
    large = b'{"id": 9, "docs": {%s}}' % b",".join(b'"d%d": {"x": 1}' % i for i in range(100))
    before = to_bytes(durable.service)
    assert "all waiting queries together may take" in durable.service.handle(large).answer["error"]
    assert to_bytes(durable.service) == before
    handled(durable, ASK[:3])
    expected = to_bytes(durable.service)
    killed(durable)
    again = DurableService(make(), tmp_path / "run")
    assert to_bytes(again.service) == expected
    again.close()


@pytest.mark.parametrize("fails", ["Impression.to_dict", "PendingQueries.put"])
def test_memory_that_runs_out_after_a_draw_leaves_the_draws_as_they_were(monkeypatch, fails):
    from online_rank.feedback import Impression
    from online_rank.serving.pending import PendingQueries

    service, other = (RankingService(SwapRanker(PlackettLuce(2, seed=3))) for _ in range(2))
    before = to_bytes(service)

    def full(*arguments):
        raise MemoryError

    with monkeypatch.context() as patch:
        owner = Impression if fails.startswith("I") else PendingQueries
        patch.setattr(owner, fails.partition(".")[2], full)
        assert "not enough memory" in service.handle(ASK[0]).answer["error"]
    assert to_bytes(service) == before
    assert service.handle(ASK[1]).answer == other.handle(ASK[1]).answer


@pytest.mark.slow
def test_a_checkpoint_of_many_waiting_queries_can_be_read_back(tmp_path):
    """They stood in a header, which the reader limited and the writer did not."""
    durable = DurableService(RankingService(PerceptronRanker()), tmp_path, 10**6)
    many = [b'{"id": %d, "docs": {"a": {}, "b": {}}}' % i for i in range(30_000)]
    durable.append([durable.service.handle(line).outcome for line in many], sync=True)
    durable.save()
    expected = durable.service.stats()
    durable.close()
    again = DurableService(RankingService(PerceptronRanker()), tmp_path)
    assert again.service.stats() == expected
    assert again.service.handle(b'{"id": 17, "grades": {"a": 0, "b": 1}}').answer["learned"]
    again.close()


def are_on_disk(durable):
    """Whether each query that waits has left the memory."""
    return [query is None for *_, query in declared_state(declared_state(durable.service).pending).queries.values()]


def test_queries_that_no_longer_fit_into_memory_are_read_from_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("online_rank.serving.waiting._IN_MEMORY", 3000)
    durable, alone = serving(tmp_path, 5), RankingService(PerceptronRanker())
    for line in ASK:
        line = line[:-1] + b', "ts": 1}'
        handled(durable, [line])
        alone.handle(line)
    assert sum(are_on_disk(durable)) >= 2
    durable.service._read.clear()
    for line in GRADE:
        assert handled(durable, [line])[0].answer == alone.handle(line).answer
    alone.take_learned()  # The other's are on the disk.
    assert to_bytes(durable.service) == to_bytes(alone)
    durable.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into the library that Python uses")
def test_a_folder_takes_the_same_memory_however_large_it_is(tmp_path):
    """SQLite kept 2 MB of each folder, so that the memory of many models grew with their files."""
    with open("/proc/self/maps") as maps:
        library = next((line.split()[-1] for line in maps if "libsqlite3" in line), None)
    if library is None:
        pytest.skip("SQLite is not a separate library here")
    used = ctypes.CDLL(library).sqlite3_memory_used
    used.restype = ctypes.c_int64
    before = used()
    durable = serving(tmp_path / "state")
    for i in range(0, 600, 20):
        handled(durable, [b'{"id": %d, "docs": {"a": {"x": 3}}, "meta": "%s"}' % (n, b"x" * 5000) for n in range(i, i + 20)])
    durable.save()
    assert (tmp_path / "state" / "state.db").stat().st_size + (tmp_path / "state" / "state.db-wal").stat().st_size > 3e6
    assert used() - before < 600_000
    durable.close()


def test_what_a_checkpoint_covers_is_deleted(tmp_path):
    durable = serving(tmp_path, every=10**6)
    handled(durable, PAIRS)
    handled(durable, ASK)  # again: learned already, so that none waits
    assert durable.journal_bytes > 0
    durable.save()
    assert durable.journal_bytes == 0
    with sqlite3.connect(tmp_path / "state.db") as reader:
        assert [reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("journal", "query", "learned")] == [
            0, 0, 6,
        ]  # fmt: skip
        assert reader.execute("SELECT count(*) FROM generation").fetchone() == (1,)
    durable.close()


def test_only_pieces_that_changed_are_written(tmp_path):
    import numpy as np

    from online_rank.storage.checkpoint import CheckpointDirectory

    values = np.arange(100_000.0)
    with CheckpointDirectory(tmp_path) as place:
        place.write({"values": values})
        before = place.database.connection.total_changes
        values[50_000] = -1.0
        place.write({"values": values})
        # A piece and a generation, new and old; the header is the same.
        assert place.database.connection.total_changes - before == 4
        assert (place.read()["values"] == values).all()


def test_a_service_that_is_killed_again_and_again_writes_checkpoints_all_the_same(tmp_path):
    replayed = []
    for life in range(6):
        durable = serving(tmp_path, every=5)
        replayed.append(durable.service.n_changes - durable.saved_at)
        handled(durable, [b'{"id": "%d %d", "docs": {"a": {"x": 3}, "b": {"x": 1}}}' % (life, i) for i in range(3)])
        killed(durable)
    # Two lives of three changes are more than five: a checkpoint.
    assert replayed == [0, 3, 0, 3, 0, 3]


# Order: what is synced before what is acknowledged.


def test_nothing_is_counted_as_acknowledged_before_it_was_synced(tmp_path, monkeypatch):
    durable, order = serving(tmp_path), []
    transaction, count = durable.store.database.transaction, durable.store._acknowledge

    def watched(wait, n_bytes=0):
        order.append(f"commit, {wait}")
        return transaction(wait, n_bytes)

    monkeypatch.setattr(durable.store.database, "transaction", watched)
    monkeypatch.setattr(durable.store, "_acknowledge", lambda *last: (order.append("counted"), count(*last)))
    handled(durable, ASK[:1])
    assert order == ["commit, False"]
    handled(durable, GRADE[:1])
    assert order == ["commit, False", "commit, True", "counted"]
    level = durable.store.database.connection.execute("PRAGMA synchronous").fetchone()
    assert level == (2,)  # FULL
    durable.close()


def test_the_folder_and_the_one_around_it_are_synced(tmp_path, monkeypatch):
    """The names of all files are on the disk before anything is answered."""
    synced, real = {}, os.fsync

    def watched(file):
        path = os.readlink(f"/proc/self/fd/{file}")
        synced[path] = {*os.listdir(path)} if os.path.isdir(path) else set()
        real(file)

    monkeypatch.setattr(os, "fsync", watched)
    durable = serving(tmp_path / "run")
    durable.close()
    assert "run" in synced[str(tmp_path)]
    assert synced[str(tmp_path / "run")] >= {"state.db", "acknowledged"}
    assert str(tmp_path / "run" / "acknowledged") in synced
    with CheckpointDirectory(tmp_path / "train"):
        assert "state.db" in synced[str(tmp_path / "train")]


def test_the_state_of_a_service_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        durable = serving(tmp_path / "run")
        handled(durable, PAIRS)
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
        assert files == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm", "acknowledged", "owner"), 0o600)
        durable.close()
    finally:
        os.umask(before)


# Who may write.


def test_a_second_writer_is_refused_after_any_deletion(tmp_path):
    durable = serving(tmp_path)
    for name in ("nothing", "owner", "lock"):
        (tmp_path / name).unlink(missing_ok=True)
        with pytest.raises(CheckpointError, match="in use by another process"):
            serving(tmp_path)
    durable.close()
    serving(tmp_path).close()


@pytest.mark.slow
def test_others_read_while_one_writes(tmp_path):
    durable = serving(tmp_path, every=4)
    for line in PAIRS:
        handled(durable, [line])
        assert to_bytes(read_service(tmp_path)) == to_bytes(durable.service)
    code = f"from online_rank.serving.durable import read_service; print(read_service({str(tmp_path)!r}).stats()['learned'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=os.getcwd())
    assert done.stdout == b"6\n"
    handled(durable, ASK)
    durable.close()
    with pytest.raises(FileNotFoundError):
        read_service(tmp_path / "none")


def _in_child(durable, answers):
    try:
        durable.append([], sync=True)
        answers.put("wrote")
    except CheckpointError as error:
        answers.put(str(error))
    durable.close()


def test_a_forked_child_neither_writes_nor_keeps_the_lock(tmp_path):
    durable = serving(tmp_path)
    handled(durable, PAIRS[:4])
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_child, args=(durable, answers))
    child.start()
    assert "forked from" in answers.get(timeout=60)
    child.join(60)
    handled(durable, PAIRS[4:])
    expected = to_bytes(durable.service)
    sleeping = context.Process(target=__import__("time").sleep, args=(60,))
    sleeping.start()
    durable.close()
    again = serving(tmp_path)  # although the child lives
    assert to_bytes(again.service) == expected
    again.close()
    sleeping.kill()
    sleeping.join()


def test_the_lock_is_given_back_before_a_forked_child_has_run(tmp_path):
    durable = serving(tmp_path)
    copied = os.dup(durable.store._lock)  # What a child has until it runs.
    durable.close()
    serving(tmp_path).close()
    os.close(copied)


@pytest.mark.parametrize("name", ["state.db", "state.db-wal", "acknowledged"])
def test_links_are_not_followed(tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").write_text("")
    (tmp_path / "run" / name).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"symbolic links|not a regular"):
        serving(tmp_path / "run")
    assert (tmp_path / "mine").read_text() == ""


# Damage.


@pytest.mark.parametrize("what", ["folder", "state.db", "state.db-wal", "acknowledged", "replaced", "cut"])
def test_a_state_that_goes_away_while_the_service_runs_is_noticed_before_the_next_acknowledgement(tmp_path, what):
    place = tmp_path / "run"
    durable = serving(place)
    handled(durable, ASK[:2])
    handled(durable, GRADE[:1])
    if what == "folder":
        shutil.rmtree(place)
    elif what == "replaced":
        content = (place / "state.db").read_bytes()
        (place / "state.db").unlink()
        (place / "state.db").write_bytes(content)
    elif what == "cut":
        os.truncate(place / "state.db-wal", 0)
    else:
        (place / what).unlink()
    with pytest.raises(CheckpointError, match=r"removed while|replaced while|cut short while"):
        handled(durable, GRADE[1:2])


def damaged(place, to, name, content):
    copied(place, to)
    (to / name).write_bytes(content)
    durable = serving(to)
    try:
        return to_bytes(durable.service)
    finally:
        durable.close()


@pytest.mark.slow
def test_changed_bytes_and_cuts_are_refused_or_change_nothing(tmp_path):
    place = tmp_path / "run"
    durable = serving(place, every=5)
    handled(durable, PAIRS[:8])
    handled(durable, ASK)
    handled(durable, PAIRS[8:])
    expected = to_bytes(durable.service)
    copied(place, tmp_path / "live")  # with the log, as after a kill
    durable.close()
    silent, refused = [], 0
    for folder_ in ("live", "run"):
        names = [path.name for path in (tmp_path / folder_).iterdir() if path.name not in ("owner", "state.db-shm")]
        for name in names:
            whole = (tmp_path / folder_ / name).read_bytes()
            for i in range(0, len(whole), 1 if name == "acknowledged" else 997):
                for content in (whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :], whole[:i]):
                    try:
                        if damaged(tmp_path / folder_, tmp_path / "copy", name, content) != expected:
                            silent.append((folder_, name, i, len(content)))
                    except (CheckpointError, ModelFileError, OSError):
                        refused += 1
    assert silent == []
    assert refused > 50


@pytest.mark.parametrize("name", ["state.db", "acknowledged"])
@pytest.mark.parametrize("content", [None, b"", b"\0" * 200])
def test_a_file_that_is_missing_or_empty_is_no_new_service(tmp_path, name, content):
    place = tmp_path / "run"
    left(place, PAIRS)
    (place / name).unlink()
    if content is not None:
        (place / name).write_bytes(content)
    with pytest.raises((CheckpointError, OSError), match=r"missing|empty|damaged|not a database"):
        serving(place)


def test_an_older_database_is_noticed(tmp_path):
    place = tmp_path / "run"
    durable = serving(place)
    handled(durable, PAIRS[:4])
    durable.close()
    older = (place / "state.db").read_bytes()
    durable = serving(place)
    handled(durable, PAIRS[4:])
    durable.close()
    (place / "state.db").write_bytes(older)
    with pytest.raises(CheckpointError, match="8 acknowledged changes are missing"):
        serving(place)


def test_a_count_of_another_run_is_noticed(tmp_path):
    for name in ("one", "other"):
        durable = serving(tmp_path / name)
        handled(durable, PAIRS)
        durable.close()
    shutil.copy(tmp_path / "one" / "acknowledged", tmp_path / "other" / "acknowledged")
    with pytest.raises(CheckpointError, match="of another run"):
        serving(tmp_path / "other")


BLOBS = [
    *(("piece", "content"), ("query", "content"), ("query", "digest"), ("learned", "digest")),
    *(("journal", "outcome"), ("journal", "digest")),
    *(("generation", "notes"), ("generation", "manifest"), ("generation", "digest")),
]


@pytest.mark.parametrize("table", ["piece", "query", "learned", "journal", "generation"])
def test_a_row_whose_digest_does_not_match_is_noticed(tmp_path, table):
    place = tmp_path / "run"
    left(place, PAIRS[:6], ASK[3:])
    column = {"piece": "content", "query": "content", "learned": "id", "journal": "outcome", "generation": "notes"}[table]
    assert (
        changed(place, f"UPDATE {table} SET {column} = CAST({column} || ' ' AS {'TEXT' if table == 'learned' else 'BLOB'})") > 0
    )
    with pytest.raises((CheckpointError, ModelFileError)):
        serving(place)


def test_each_piece_is_compared_with_its_digest(tmp_path):
    """A flipped bit of a weight leaves a weight: only the digest tells."""
    left(tmp_path / "run", PAIRS[:6])
    with sqlite3.connect(tmp_path / "run" / "state.db") as editor:
        pieces = editor.execute("SELECT digest, content FROM piece WHERE length(content) > 0").fetchall()
    assert len(pieces) > 3
    for i, (digest, content) in enumerate(pieces):
        shutil.copytree(tmp_path / "run", tmp_path / f"{i}")
        with sqlite3.connect(tmp_path / f"{i}" / "state.db") as editor:
            editor.execute("UPDATE piece SET content = ? WHERE digest = ?", (bytes([content[0] ^ 1]) + content[1:], digest))
        with pytest.raises(ModelFileError, match="a piece of it is missing or damaged"):
            read_service(tmp_path / f"{i}")


@pytest.mark.first(8)
@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [(table, column, kind) for table, column in BLOBS for kind in ("TEXT", "REAL")]
    + [("learned", "id", "BLOB"), ("learned", "at", "BLOB"), ("journal", "number", "BLOB"), ("generation", "change", "BLOB")],
)
def test_a_value_of_another_kind_is_refused(tmp_path, table, column, kind):
    """One damaged bit makes a text of a blob with the same bytes."""
    left(tmp_path, PAIRS[:6], ASK[3:])
    assert changed(tmp_path, f"UPDATE {table} SET {column} = CAST({column} AS {kind}) WHERE {column} IS NOT NULL") > 0
    for begin in (serving, read_service):
        with pytest.raises(CheckpointError, match=r"state\.db.* (damaged|missing)"):
            begin(tmp_path)


@pytest.mark.parametrize("how", ["UPDATE learned SET id = id || ' '", "DELETE FROM learned"])
def test_an_id_learned_since_the_checkpoint_is_checked_before_the_journal_goes(tmp_path, how):
    """The journal has it, too, so that the service began; its next checkpoint could not be read any more."""
    left(tmp_path, PAIRS[:6], PAIRS[6:])
    assert changed(tmp_path, f"{how} WHERE change = (SELECT max(change) FROM learned)") == 1
    for begin in (serving, read_service):
        with pytest.raises(CheckpointError, match=r"the id learned by change 12 is (damaged|missing)"):
            begin(tmp_path)


def test_a_query_that_was_damaged_meanwhile_is_not_learned(tmp_path):
    durable = serving(tmp_path)
    handled(durable, PAIRS[:3])
    assert changed(tmp_path, "UPDATE query SET content = CAST(replace(content, '\"y\": 2', '\"y\": 9') AS BLOB)") == 2
    number = int(declared_state(durable.service).pending.numbers()[0])
    with pytest.raises(CheckpointError, match=f"query {number} is missing or damaged"):
        durable.store.query(number)
    durable.close()


@pytest.mark.parametrize("table", ["piece", "query", "learned", "journal"])
def test_a_row_that_is_missing_is_noticed(tmp_path, table):
    place = tmp_path / "run"
    durable = serving(place)
    handled(durable, PAIRS[:6])
    handled(durable, ASK[5:])
    durable.save()
    handled(durable, ASK[3:4])
    handled(durable, GRADE[3:4])
    durable.close()
    with sqlite3.connect(place / "state.db") as editor:
        editor.execute(f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})" if table != "piece" else
                       "DELETE FROM piece WHERE digest = (SELECT min(digest) FROM piece)")  # fmt: skip
    with pytest.raises((CheckpointError, ModelFileError), match="missing"):
        serving(place)


# A disk that fails.


def test_a_checkpoint_that_fails_leaves_the_journal_working_and_is_tried_again(tmp_path, monkeypatch):
    durable = serving(tmp_path, every=4)
    clock = [100.0]
    monkeypatch.setattr("online_rank.serving.durable.time.monotonic", lambda: clock[0])
    write = durable.store.generations.writing

    def full(*arguments):
        raise OSError(28, "No space left on device")
        yield

    durable.store.generations.writing = full
    for line in PAIRS[:8]:
        assert handled(durable, [line])[0].changed
    assert durable.checkpoint_failure.errno == 28
    assert 0.0 < durable.seconds_to_wait <= 1.0
    assert to_bytes(read_service(tmp_path)) == to_bytes(durable.service)
    durable.store.generations.writing = write
    clock[0] += 1.1
    handled(durable, PAIRS[8:9])
    assert durable.checkpoint_failure is None
    assert durable.is_saved
    durable.close()


def test_a_state_that_cannot_be_read_back_does_not_replace_the_one_before(tmp_path, monkeypatch):
    durable = serving(tmp_path)
    handled(durable, PAIRS[:4])
    durable.save()
    handled(durable, PAIRS[4:])

    def unreadable(row, rows):
        raise ModelFileError("cannot be read back")

    with monkeypatch.context() as patch:
        patch.setattr("online_rank.storage.checkpoint._value_of", unreadable)
        with pytest.raises(ModelFileError):
            durable.save()
    expected = to_bytes(durable.service)
    with sqlite3.connect(tmp_path / "state.db") as reader:
        assert reader.execute("SELECT count(*) FROM generation").fetchone() == (2,)
        assert reader.execute("SELECT count(*) FROM journal").fetchone() == (8,)
    killed(durable)
    again = serving(tmp_path)
    assert to_bytes(again.service) == expected
    again.save()
    again.close()


def test_a_state_that_breaks_its_declaration_does_not_replace_the_one_before(tmp_path, monkeypatch):
    """The snapshot is taken between two requests, so that it is compared with the declaration when it is read back."""
    durable = serving(tmp_path)
    handled(durable, PAIRS[:4])
    durable.save()
    expected = to_bytes(durable.service)
    scores, durable.service._served = durable.service._served, np.array([np.nan, 0.0, 0.0])
    with monkeypatch.context() as patch:
        patch.setattr("online_rank.storage.tree.check_settled", None)
        generation = durable.generation()
    with pytest.raises(ModelFileError, match="_served has entries that are not finite"):
        [*durable.writing(generation)]
    assert durable.checkpoint_failure is not None
    with pytest.raises(TypeError, match="_served has entries that are not finite"):
        to_bytes(durable.service)
    assert to_bytes(read_service(tmp_path)) == expected
    durable.service._served = scores
    handled(durable, PAIRS[4:])
    durable.save()
    assert durable.checkpoint_failure is None
    expected = to_bytes(durable.service)
    durable.close()
    assert to_bytes(serving(tmp_path).service) == expected


# Opening.


def test_a_folder_is_opened_by_a_few_statements(tmp_path, monkeypatch):
    """One for each query took five seconds for 11,000 that waited."""
    left(tmp_path, ASK * 20, [line.replace(b'"id": ', b'"id": 1') for line in ASK])
    statements, connect = [], sqlite3.connect

    def watched(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", watched)
    again = serving(tmp_path)
    assert again.service.n_waiting == 12
    assert len(statements) < 40
    assert sum("query" in statement for statement in statements) < 8
    again.close()


def test_changes_that_waited_together_are_written_by_a_few_statements(tmp_path):
    """Each statement gives Python's lock away, for which a busy event loop lets the writing thread wait."""
    durable = serving(tmp_path)
    asked = [b'{"id": %d, "docs": {"a": {"x": %d}, "b": {}}}' % (i, i) for i in range(300)]
    graded = [b'{"id": %d, "grades": {"a": 1, "b": 0}}' % i for i in range(300)]
    statements = []
    durable.store.database.connection.set_trace_callback(statements.append)
    handled(durable, [*asked, *graded])
    assert len(statements) < 20
    durable.save()
    assert len(statements) < 60
    killed(durable)
    again = serving(tmp_path)
    assert again.service.stats()["learned"] == 300
    again.close()


def test_queries_that_waited_before_a_restart_leave_memory_as_others_do(tmp_path, monkeypatch):
    durable = serving(tmp_path)
    handled(durable, ASK)
    durable.close()
    monkeypatch.setattr("online_rank.serving.waiting._IN_MEMORY", 2000)
    again = serving(tmp_path)
    assert are_on_disk(again) == [True] * 4 + [False] * 2
    assert all(again.service.handle(line).answer["learned"] for line in GRADE)
    again.close()


def test_what_was_learned_under_other_limits_is_replayed_under_them(tmp_path):
    """Queries were dropped under the limits of the newest generation, whichever held when they were."""
    durable = serving(tmp_path)
    handled(durable, PAIRS[:8])
    killed(durable)

    def limited():
        return DurableService(RankingService(PerceptronRanker(), wait_bytes=3000), tmp_path, 1000)

    durable = limited()
    handled(durable, PAIRS[8:])
    expected = to_bytes(durable.service)
    killed(durable)
    again = limited()
    assert to_bytes(again.service) == expected
    again.close()


def test_the_log_is_written_again_before_it_is_trusted(tmp_path, monkeypatch):
    """After a failed sync, pages of the system's cache look written, and the next sync succeeds though none was."""
    from online_rank.storage.database import Database

    durable = serving(tmp_path)
    handled(durable, PAIRS)
    killed(durable)
    log = tmp_path / "state.db-wal"
    size, order = log.stat().st_size, []
    write, sync, checkpoint = os.pwrite, os.fsync, Database._checkpoint

    def named(file):
        return os.readlink(f"/proc/self/fd/{file}")

    monkeypatch.setattr(os, "pwrite", lambda f, c, at: (order.append((named(f), at, len(c))), write(f, c, at))[1])
    monkeypatch.setattr(os, "fsync", lambda f: (order.append(named(f)), sync(f))[1])
    monkeypatch.setattr(Database, "_checkpoint", lambda self, kind: (order.append(kind), checkpoint(self, kind))[1])
    serving(tmp_path).close()
    assert order.index((str(log), 0, size)) < order.index(str(log)) < order.index(str(tmp_path)) < order.index("TRUNCATE")


def test_a_count_that_is_cut_short_leaves_the_one_before(tmp_path, monkeypatch):
    """A short write of it left a line that no restart could read: nothing of the folder was usable any more."""
    durable = serving(tmp_path)
    handled(durable, PAIRS[:6])
    write = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda file, content, at: write(file, content[: len(content) // 2], at))
        with pytest.raises(OSError, match="was not written"):
            handled(durable, PAIRS[6:8])
    killed(durable)
    again = serving(tmp_path)
    assert again.service.stats()["learned"] == 4  # on the disk, but never acknowledged
    handled(again, PAIRS[8:])
    again.close()
    assert serving(tmp_path).service.stats()["learned"] == 6


NOTES = [
    b"", b"{", b"\xff", b"[" * 3000, b"[]", b"7", b'["run", "", 1]', b'["run", "", 1, 0, 0]',
    b'{"a": 1, "b": 2, "c": 3, "d": 4}', b'[7, "", 1, 0]', b'["run", 7, 1, 0]', b'["run", "x", 1, 0]',
    b'["run", "", -1, 0]', b'["run", "", 1, true]', b'["run", "", 1.0, 0]', b'["run", "", 1, "0"]',
    b'["run", "", 9223372036854775808, 0]', b"[null, null, null, null]",
]  # fmt: skip
MANIFESTS = [
    b"", b"{", b"\xff", b"[" * 3000, b"[]", b"null", b"{}",
    *(f'{{"format": {version}, "header": [], "arrays": []}}'.encode() for version in ('"1"', "null", "0", "true", "1.5", "99")),
    *(f'{{"format": 1, "header": {names}, "arrays": []}}'.encode() for names in ("null", '"ab"', "[7]", '["x"]', "{}")),
    *(
        f'{{"format": 1, "header": [], "arrays": {arrays}}}'.encode()
        for arrays in (
            "7", "[7]", "[[]]", '[["<f8", [0]]]', '[[7, [0], []]]', '[["O", [0], []]]', '[["zz", [0], []]]', '[["<f8", 0, []]]',
            '[["<f8", [-1], []]]', '[["<f8", [1], []]]', '[["<f8", [1e3], []]]', '[["<f8", [true], []]]',
            '[["<f8", [4611686018427387904, 4], []]]', '[["<f8", [0], 7]]', '[["<f8", [0], [7]]]', '[["<f8", [0], ["x"]]]',
        )
    ),
]  # fmt: skip


@pytest.mark.first(8)
@pytest.mark.parametrize(
    ("column", "content"), [("notes", notes) for notes in NOTES] + [("manifest", manifest) for manifest in MANIFESTS]
)
def test_a_generation_that_says_anything_else_is_refused(tmp_path, column, content):
    """Whoever may write the folder can make the digests right."""
    left(tmp_path, PAIRS[:6])
    with sqlite3.connect(tmp_path / "state.db") as editor:
        editor.execute(f"UPDATE generation SET {column} = ?", (content,))
        for number, change, notes, manifest in editor.execute(
            "SELECT number, change, notes, manifest FROM generation"
        ).fetchall():
            digest = digest_of(b"%d %d " % (change, len(notes)), notes, manifest)
            editor.execute("UPDATE generation SET digest = ? WHERE number = ?", (digest, number))
    for begin in (serving, read_service):
        with pytest.raises((CheckpointError, ModelFileError)):
            begin(tmp_path)


@pytest.mark.parametrize("value", [7, (), (1, 2, 3), {"a": 1}, (1, [2]), (1, np.zeros(2)), (1, np.zeros((2, 2), np.int64))])
def test_a_generation_with_another_value_is_refused(tmp_path, value):
    left(tmp_path, PAIRS[:6])
    with sqlite3.connect(tmp_path / "state.db") as editor:
        notes = editor.execute("SELECT notes FROM generation").fetchone()[0]
    with CheckpointDirectory(tmp_path) as folder:
        for _ in folder.generations.writing(taken(value), 1, notes):
            pass
    for begin in (serving, read_service):
        with pytest.raises((CheckpointError, ModelFileError)):
            begin(tmp_path)


def renumbered(place, old, new):
    """Another number for a query of the journal, with right digests."""
    with sqlite3.connect(place / "state.db") as editor:
        content = editor.execute("SELECT content FROM query WHERE number = ?", (old,)).fetchone()[0]
        editor.execute("UPDATE query SET number = ?, digest = ? WHERE number = ?", (new, digest_of_query(new, content), old))
        editor.execute("UPDATE journal SET number = ? WHERE number = ?", (new, old))
        start, notes = editor.execute("SELECT change, notes FROM generation ORDER BY number DESC").fetchone()
        chain = bytes.fromhex(json.loads(notes)[1])
        rows = editor.execute(
            "SELECT change, outcome, query.digest FROM journal LEFT JOIN query USING (number) WHERE change > ? ORDER BY change",
            (start,),
        )
        for change, outcome, own in rows.fetchall():
            chain = chained(chain, change, outcome, own or b"")
            editor.execute("UPDATE journal SET digest = ? WHERE change = ?", (chain, change))


@pytest.mark.parametrize("number", [-(2**63), -5, 0, 100, 10**9, 2**40, 2**63 - 1])
def test_a_query_of_the_journal_waits_under_the_next_number(tmp_path, number):
    """A byte is kept for each number in between: a gap of 10^9 took 2 GB."""
    left(tmp_path, ASK[:2], ASK[2:3])
    renumbered(tmp_path, 3, number)
    for begin in (serving, read_service):
        with pytest.raises(CheckpointError, match=r"waits under number|is missing or damaged"):
            begin(tmp_path)


@pytest.mark.parametrize("numbers", [(0, 1), (-1, 1), (1, 4), (1, 2**27), (2**62, 2**62 + 1)])
def test_queries_that_wait_have_numbers_that_were_given(numbers):
    """They are the numbers of the state that the journal continues."""
    service = RankingService(PerceptronRanker())
    for line in ASK[:3]:
        service.handle(line)
    waiting = {number: (f"q{number}", 10, None, "{}", [0.0], None) for number in numbers}
    with pytest.raises(ValueError, match=f"queries wait under numbers from {numbers[0]} to {numbers[1]}"):
        service.without_rows().restore(waiting)
