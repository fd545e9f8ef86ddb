"""The state of a service in PostgreSQL: equal to that in a folder, and written by one server at a time."""

import errno
import time

import pytest

from online_rank import PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.base.schema import declared_state
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.storage.files import to_bytes
from online_rank.storage.folder import CheckpointError, FolderInUse
from online_rank.storage.postgres import PostgresState, shown
from tests.reference import postgresql
from tests.storage.test_state import ASK, GRADE, PAIRS, handled

slow = pytest.mark.slow

#: Ends the session that holds the lead.
END_LEAD = """SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE relation = 'online_rank.lead'::regclass AND mode = 'ExclusiveLock'"""


def test_messages_name_no_user_and_no_password():
    assert shown("postgresql://me:secret@host:5433/shop?options=x") == "postgresql://host:5433/shop"
    assert shown("postgres:///shop") == "postgres:///shop"


@pytest.fixture(scope="module")
def server():
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running() as found:
        yield found


@pytest.fixture
def place(server):
    execute(server, "SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS online_rank CASCADE")
    return server.address


def execute(server, statement):
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as connection:
        found = connection.execute(statement)
        return found.fetchall() if found.description else None


def serving(place, every=1000, make=PerceptronRanker):
    return DurableService(RankingService(make()), place, every)


@slow
@pytest.mark.parametrize("every", [1, 3, 1000])
@pytest.mark.parametrize("make", [PerceptronRanker, lambda: SwapRanker(PlackettLuce(2, seed=3))])
def test_it_continues_like_a_folder_wherever_it_is_closed(place, tmp_path, every, make):
    lines, folder = [*PAIRS, GRADE[0], ASK[0], *ASK[3:]], tmp_path / "run"
    for line in lines:
        answers = []
        for where in (place, folder):
            durable = serving(where, every, make)
            answers.append([reply.answer for reply in handled(durable, [line])])
            durable.close()
        assert answers[0] == answers[1]
    kept, same = read_service(place), read_service(folder)
    assert to_bytes(kept.model) == to_bytes(same.model)
    assert kept.stats() == same.stats()
    again = serving(place, every, make)
    assert again.service.handle(GRADE[0]).answer == {"id": 0, "learned": False, "duplicate": True}
    assert all(again.store.query(number) for number in declared_state(again.service).pending.numbers().tolist())
    again.close()


@slow
def test_one_server_leads_and_a_superseded_one_writes_nothing(place, server):
    first = serving(place)
    handled(first, [ASK[0]])
    with pytest.raises(FolderInUse, match="another server leads"):
        PostgresState(place)
    # Its session with the lock ends, which it has not noticed, and another one takes over.
    execute(server, END_LEAD)
    first.store._ended.set()
    first.store._heart.join()
    first.store._ended.clear()
    second = DurableService(RankingService(PerceptronRanker()), place)
    assert second.store.epoch == first.store.epoch + 1
    outcome = first.service.handle(GRADE[0]).outcome
    with pytest.raises(OSError, match=f"another server leads since epoch {first.store.epoch}") as refused:
        first.append([outcome], sync=True)
    assert refused.value.errno == errno.EIO
    with pytest.raises(OSError, match="another server leads"):
        first.store.put_file("previous.npz", b"")
    assert handled(second, [GRADE[0]])[0].answer["learned"]
    first.close()
    second.close()
    with pytest.raises(CheckpointError, match="is closed"):
        second.store.file("previous.npz")


@slow
def test_it_notices_that_its_session_was_ended(place, server):
    durable = serving(place)
    execute(server, END_LEAD)
    until = time.monotonic() + 10
    while durable.store.failure is None and time.monotonic() < until:
        time.sleep(0.05)
    with pytest.raises(OSError, match="terminating connection"):
        durable.append([], sync=True)
    durable.close()


@slow
def test_a_leader_that_stops_loses_the_lead_to_another_one(place, monkeypatch):
    monkeypatch.setattr("online_rank.storage.postgres._LEASE_MS", 300)
    monkeypatch.setattr("online_rank.storage.postgres._BEAT", 60.0)
    stopped = PostgresState(place)
    time.sleep(0.6)
    other = PostgresState(place)
    with pytest.raises(OSError, match="another server leads"), stopped.database.transaction(wait=True):
        pass
    stopped.close()
    other.close()


@slow
def test_files_are_kept_and_what_was_deleted_is_gone(place):
    with_files = PostgresState(place)
    with_files.put_file("a", b"1")
    with_files.put_file("a", b"\0\xff2")
    with_files.put_file("b", b"")
    assert with_files.file("a") == b"\0\xff2"
    assert sorted(with_files.file_names()) == ["a", "b"]
    with_files.delete_file("a")
    assert with_files.file("a") is None
    assert len([*with_files.purge()]) == 6
    assert with_files.file("b") == b""
    with_files.close()


@slow
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE journal SET outcome = 'x' WHERE change = 2", "change 2 is missing or damaged"),
        ("DELETE FROM journal WHERE change = 1", "change 1 is missing or damaged"),
        ("UPDATE query SET content = 'x'", "is missing or damaged"),
        ("DELETE FROM learned", "the id learned by change 2 is missing or damaged"),
        ("UPDATE piece SET content = 'x'", "damaged"),
    ],
)
def test_damage_is_found(place, server, statement, message):
    durable = serving(place)
    handled(durable, PAIRS)
    durable.close()
    execute(server, f"SET search_path = online_rank; {statement}")
    with pytest.raises(ValueError, match=message):
        serving(place)


@slow
@pytest.mark.parametrize("table", ["journal(n INT)", "leader(n INT)"])
def test_tables_of_another_layout_are_named(place, server, table):
    execute(server, f"CREATE SCHEMA online_rank; CREATE TABLE online_rank.{table}")
    with pytest.raises(
        CheckpointError, match=r"has other tables in the schema online_rank than this release: column .* does not"
    ):
        serving(place)


@slow
def test_a_database_that_is_away_is_an_error_that_names_it(server):
    with pytest.raises(OSError, match=r"postgresql:///nowhere"):
        PostgresState("postgresql:///nowhere?host=/tmp/there-is-none&user=tester")
