"""What other roles and programs of a PostgreSQL database can do to a service: the threats that SECURITY.md names."""

import contextlib
import shutil
import socket
import subprocess
import threading
import time

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.messages import Forget
from online_rank.storage.folder import CheckpointError
from online_rank.storage.postgres import PostgresState
from online_rank.storage.rights import grants
from tests.reference import postgresql
from tests.storage.test_state import ASK, GRADE, PAIRS, handled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running() as found:
        execute(found.address, "CREATE ROLE stranger LOGIN")
        execute(found.address, "CREATE DATABASE shop")
        execute(as_role(found, "tester"), grants("ranker", "shop"))
        yield found


def as_role(server, role):
    """The address of the database of a shop, for a role."""
    return f"postgresql://{role}@/shop?host={server.folder}"


@contextlib.contextmanager
def connected(place):
    import psycopg

    with contextlib.closing(psycopg.connect(place, autocommit=True)) as connection:
        yield connection


def execute(place, statement):
    with connected(place) as connection:
        found = connection.execute(statement)
        return found.fetchall() if found.description else None


@pytest.fixture
def place(server):
    admin = as_role(server, "tester")
    execute(admin, "SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS online_rank CASCADE")
    execute(admin, "\n".join(grants("ranker", "shop").splitlines()[2:]))
    return as_role(server, "ranker")


def serving(place):
    return DurableService(RankingService(PerceptronRanker()), place)


def test_the_printed_grants_are_enough_and_a_stranger_can_read_and_lock_nothing(server, place):
    import psycopg

    durable = serving(place)
    handled(durable, PAIRS)
    durable.save()
    durable.close()
    assert read_service(place).counts()["learned"] > 0
    for statement in ("SELECT * FROM online_rank.leader", "LOCK TABLE online_rank.lead IN EXCLUSIVE MODE"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(as_role(server, "stranger"), f"BEGIN; {statement}")


def test_a_stranger_cannot_take_the_lead_by_a_lock(server, place):
    """An advisory lock of a known number kept every server from leading."""
    execute(as_role(server, "tester"), "GRANT USAGE ON SCHEMA online_rank TO stranger")
    serving(place).close()
    execute(place, "GRANT SELECT ON online_rank.lead TO stranger")
    with connected(as_role(server, "stranger")) as stranger:
        stranger.execute("SELECT pg_advisory_lock(%s)", (int.from_bytes(b"online_r"),))
        stranger.execute("BEGIN")
        stranger.execute("LOCK TABLE online_rank.lead IN ACCESS SHARE MODE")
        serving(place).close()


def test_without_rights_the_error_has_the_grants(server):
    execute(as_role(server, "tester"), "SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS online_rank CASCADE")
    with pytest.raises(CheckpointError, match='CREATE SCHEMA online_rank AUTHORIZATION "ranker"'):
        serving(as_role(server, "ranker"))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("ALTER SCHEMA online_rank OWNER TO stranger", "the schema online_rank belongs to the role stranger"),
        ("ALTER TABLE online_rank.journal OWNER TO stranger", "the table journal belongs to the role stranger"),
        ("CREATE FUNCTION online_rank.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; "
         "ALTER FUNCTION online_rank.f OWNER TO stranger", "the function f belongs to the role stranger"),
        ("CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; "
         "CREATE TRIGGER t BEFORE INSERT ON online_rank.journal FOR EACH ROW EXECUTE FUNCTION public.f()", "the trigger t"),
        ("CREATE RULE r AS ON INSERT TO online_rank.journal DO ALSO SELECT 1", "the rule r"),
        ("CREATE FUNCTION online_rank.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "the function f in the schema"),
    ],
)  # fmt: skip
def test_a_schema_in_which_others_have_put_something_is_refused(server, place, made, message):
    serving(place).close()
    execute(as_role(server, "tester"), f"DROP FUNCTION IF EXISTS public.f CASCADE; {made}")
    with pytest.raises(CheckpointError, match=message):
        serving(place)
    execute(as_role(server, "tester"), "DROP FUNCTION IF EXISTS public.f CASCADE")


def test_tables_of_a_temporary_schema_do_not_take_the_place_of_the_services(place):
    state = PostgresState(place)
    for rows in state._connections:
        rows.connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS file(name TEXT PRIMARY KEY, content BYTEA)")
    state.put_file("a", b"1")
    state.close()
    assert execute(place, "SELECT content FROM online_rank.file") == [(b"1",)]


def test_forgetting_next_to_a_dump_ends_soon_and_learning_continues(place):
    """VACUUM FULL waited for `pg_dump` under the lock of the writer."""
    durable = serving(place)
    handled(durable, PAIRS)
    with connected(place) as dump:
        dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        dump.execute("SELECT count(*) FROM online_rank.learned, online_rank.journal, online_rank.piece")
        durable.forget(Forget(ids=["0", 0]))
        began, failed = time.monotonic(), []

        def save():
            try:
                durable.save()
            except OSError as error:
                failed.append(str(error))

        saving = threading.Thread(target=save)
        saving.start()
        saving.join(timeout=20)
        assert not saving.is_alive()
        assert time.monotonic() - began < 20
        assert "is being read, and keeps" in failed[0]
        assert durable.checkpoint_failure is not None
        assert handled(durable, [*ASK[-1:], *GRADE[-1:]])[0].answer
        assert durable.store.failure is None
    durable.save()
    assert durable.checkpoint_failure is None
    durable.close()


def test_a_lock_on_a_table_is_waited_for_a_limited_time_and_nothing_is_lost(server, place, monkeypatch):
    monkeypatch.setattr("online_rank.storage.postgres._LOCK_MS", 200)
    durable = serving(place)
    with connected(as_role(server, "tester")) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE online_rank.journal IN SHARE MODE")
        outcome, began = durable.service.handle(ASK[0]).outcome, time.monotonic()
        with pytest.raises(OSError, match="lock timeout"):
            durable.append([outcome], sync=True)
        assert time.monotonic() - began < 5
        assert durable.store.failure is None
    durable.append([outcome], sync=True)
    assert handled(durable, [GRADE[0]])[0].answer["learned"]
    durable.close()


def test_a_leader_keeps_no_deleted_row_from_being_vacuumed(place):
    durable = serving(place)
    time.sleep(1.5)  # It has looked whether it leads.
    held = execute(place, "SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()")
    assert held == [(0,)]
    durable.close()


def test_a_long_transaction_disturbs_nothing(server, place):
    with connected(as_role(server, "tester")) as long:
        long.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        long.execute("SELECT count(*) FROM pg_class")
        durable = serving(place)
        handled(durable, PAIRS)
        durable.save()
        durable.close()
        serving(place).close()


def test_a_full_disk_refuses_changes_and_ends_no_lead():
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running() as server, contextlib.ExitStack() as stack:
        small = server.folder / "small"
        small.mkdir()
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=3m", "none", small], check=False, capture_output=True
        ).returncode:
            pytest.skip("needs the right to mount")
        stack.callback(subprocess.run, ["umount", "-l", small], check=True)
        (small / "tables").mkdir()
        shutil.chown(small / "tables", postgresql.USER)
        execute(server.address, f"CREATE TABLESPACE small LOCATION '{small}/tables'")
        durable = serving(server.address)
        execute(server.address, "ALTER TABLE online_rank.query SET TABLESPACE small")
        with contextlib.suppress(OSError), (small / "rest").open("wb", buffering=0) as rest:
            while rest.write(bytes(4096)):
                pass
        outcomes = []
        with pytest.raises(OSError, match="could not extend file"):  # noqa: PT012
            for i in range(1000):
                outcomes = [durable.service.handle(b'{"id": %d, "docs": {"a": {"x": 1}, "b": {"x": 2}}}' % i).outcome]
                durable.append(outcomes, sync=True)
        assert durable.store.failure is None
        (small / "rest").unlink()
        durable.append(outcomes, sync=True)
        durable.close()


def test_a_promoted_standby_continues_in_a_later_epoch_and_a_standby_leads_nobody():
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running(durable=True) as server:
        durable = serving(server.address)
        handled(durable, [ASK[0]])
        epoch = durable.store.epoch
        copy = server.folder / "copy"
        copy.mkdir()
        if postgresql.USER:
            shutil.chown(copy, postgresql.USER)
        server.run("pg_basebackup", "-h", server.folder, "-U", "tester", "-D", copy / "data", "-R", "--checkpoint=fast")
        options = f"-c listen_addresses= -k {copy}"
        server.run("pg_ctl", "-D", copy / "data", "-w", "-l", copy / "log", "-o", options, "start")
        standby = f"postgresql://tester@/postgres?host={copy}"
        try:
            with pytest.raises(OSError, match=r"read-only|not.*writable|hot standby"):
                serving(standby)
            handled(durable, [ASK[1]])
            n_changes, until = durable.store.change, time.monotonic() + 20
            while read_service(standby).n_changes < n_changes and time.monotonic() < until:
                time.sleep(0.05)
            server.kill()
            with pytest.raises(OSError, match=r"connection|terminating"):
                durable.append([durable.service.handle(GRADE[1]).outcome], sync=True)
            assert durable.store.failure is not None
            server.run("pg_ctl", "-D", copy / "data", "-w", "promote")
            after = serving(standby)
            assert (after.store.epoch, after.store.change) == (epoch + 1, n_changes)
            assert handled(after, [GRADE[1]])[0].answer["learned"]
            after.close()
        finally:
            server.run("pg_ctl", "-D", copy / "data", "-m", "immediate", "stop")
        durable.close()


@pytest.mark.parametrize(("mode", "works"), [("session", True), ("transaction", False), ("statement", False)])
def test_a_pooler_must_keep_sessions(server, place, mode, works):
    if shutil.which("pgbouncer") is None:
        pytest.skip("needs pgbouncer: apt-get install pgbouncer")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = server.folder / mode
    folder.mkdir()
    (folder / "users").write_text('"ranker" ""\n')
    (folder / "ini").write_text(
        f"[databases]\nshop = host={server.folder} dbname=shop\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"auth_type = any\nauth_file = {folder}/users\npool_mode = {mode}\nunix_socket_dir =\nlogfile = {folder}/log\n"
    )
    (folder / "ini").write_text((folder / "ini").read_text().replace("auth_type = any", "auth_type = trust"))
    shutil.chown(folder, postgresql.USER)
    pooler = subprocess.Popen(["pgbouncer", "-q", folder / "ini"], user=postgresql.USER, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while time.monotonic() < until and socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
        address = f"postgresql://ranker@127.0.0.1:{port}/shop"
        if works:
            durable = serving(address)
            assert handled(durable, PAIRS)
            durable.close()
        else:
            with pytest.raises((CheckpointError, OSError), match=r"must keep sessions|statement pooling"):
                serving(address)
    finally:
        pooler.terminate()
        pooler.wait()
