"""Files that earlier versions wrote are read, and their models rank and learn as they did (`tests.reference.formats`)."""

import contextlib
import json
import shutil

import numpy as np
import pytest

from online_rank import AdditiveRanker, __version__
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from online_rank.storage import generations
from online_rank.storage.backup import back_up, restore
from online_rank.storage.checkpoint import _sealed
from online_rank.storage.files import ModelFileError, from_bytes, load, to_bytes
from online_rank.storage.folder import CheckpointError
from tests.reference import postgresql, service_formats
from tests.reference.formats import ANSWERS, FOLDER, MODELS, REFUSED, answers
from tests.reference.service_formats import DUMP, FOLDERS, dumped, handled

FILES = sorted(path for path in FOLDER.glob("*/*.npz") if path.stem not in REFUSED)
#: The last bits of exponentials, logarithms and products of matrices depend on the machine.
_CLOSE = 1e-12


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_file_of_an_earlier_version_is_read_and_ranks_and_learns_as_then(path):
    expected = json.loads((path.parent / ANSWERS).read_text())[path.stem]
    model = load(path)
    again = from_bytes(to_bytes(model))
    for found in (answers(path.stem, model), answers(path.stem, again)):
        for then, now in zip(expected, found, strict=True):
            np.testing.assert_allclose(now, then, rtol=_CLOSE, atol=_CLOSE)
            assert np.argsort(now, kind="stable").tolist() == np.argsort(then, kind="stable").tolist()


def test_every_kind_of_model_is_among_the_files_of_this_version():
    assert {path.stem for path in FILES if path.parent.name == __version__} == set(MODELS)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_a_file_of_a_class_that_is_gone_is_refused_with_what_to_do(version, name):
    with pytest.raises(ModelFileError, match=r"BoostedRanker, which this version.* no longer has: teach an AdditiveRanker\(\)"):
        load(FOLDER / version / f"{name}.npz")


def test_this_version_has_a_services_folder_and_a_dump_of_postgres():
    assert (FOLDERS / __version__ / "service" / "state.db").exists()
    assert (FOLDERS / __version__ / "postgresql" / DUMP).exists()


def told_in(folder):
    """What a service answered when a version left its state; `trees`, those that the default had then."""
    return {**json.loads((folder / ANSWERS).read_text()), "trees": 0 if folder.parent.name == "0.1.0" else 400}


def begins(then):
    """A service begins with the state of a version; it warns if the default has other trees by now."""
    if then["trees"] == 400:
        return contextlib.nullcontext()
    return pytest.warns(UserWarning, match="AdditiveRanker keeps trees=0, with which it began; the default is trees=400")


@pytest.fixture(params=sorted(FOLDERS.glob("*/service")), ids=lambda path: path.parent.name)
def earlier(request, tmp_path):
    """A copy of a service's folder as a version left it, and what it answered then."""
    shutil.copytree(request.param, tmp_path / "service")
    return tmp_path / "service", told_in(request.param)


def test_a_service_of_an_earlier_version_continues_with_the_same_command(earlier):
    """The default had no trees in 0.1.0: the folder was refused as one with other options."""
    folder, then = earlier
    with begins(then):
        scores = continued(folder, then)
    with begins(then):
        again = DurableService(RankingService(AdditiveRanker()), folder)
    assert handled(again, {"id": "again", "docs": then["probe"]})["scores"] == scores
    again.close()


def continued(place, then):
    """The scores of a query, once a service has answered as then and learned what waited."""
    durable = DurableService(RankingService(AdditiveRanker()), place)
    for number in (1, 2):
        now = handled(durable, {"id": f"probe {number}", "docs": then["probe"]})
        assert now["ranking"] == then["ranking"]
        np.testing.assert_allclose(now["scores"], then["scores"], rtol=_CLOSE, atol=_CLOSE)
    for waiting in then["waiting"]:
        assert handled(durable, {"id": waiting, "grades": {f"d{i}": i % 2 for i in range(6)}})["learned"]
    durable.save()
    now = handled(durable, {"id": "last", "docs": then["probe"]})
    durable.close()
    assert now["scores"] != then["scores"]
    return now["scores"]


def test_who_goes_back_restores_the_backup_of_before(earlier, tmp_path):
    folder, then = earlier
    back_up(folder, tmp_path / "before")
    with begins(then):
        continued(folder, then)
    restore(tmp_path / "before", tmp_path / "again")
    with begins(then):
        continued(tmp_path / "again", then)


def test_another_setting_is_refused_as_before(earlier):
    folder, then = earlier
    with pytest.raises(CheckpointError, match=rf"other options: AdditiveRanker\.trees is {then['trees']}, here 20"):
        DurableService(RankingService(AdditiveRanker(trees=20)), folder)


def test_a_folder_of_a_later_version_is_refused_with_the_version_it_needs(earlier, monkeypatch):
    folder, then = earlier
    with monkeypatch.context() as later:
        later.setattr(generations, "FORMAT_VERSION", 99)
        later.setattr(generations, "__version__", "7.1.0")
        durable = DurableService(RankingService(AdditiveRanker(trees=then["trees"])), folder)
        handled(durable, {"id": "new", "docs": then["probe"]})
        durable.save()
        durable.close()
    before = sorted((path.name, path.stat().st_size) for path in folder.iterdir())
    with pytest.raises(ModelFileError, match=r"format 99 was written by online_rank 7\.1\.0.*upgrade online_rank"):
        DurableService(RankingService(AdditiveRanker()), folder)
    assert sorted((path.name, path.stat().st_size) for path in folder.iterdir()) == before


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg")
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running() as found:
        yield found


@pytest.fixture(params=sorted(FOLDERS.glob("*/postgresql")), ids=lambda path: path.parent.name)
def database(request, server):
    """A database with the schema as a version left it, the dump, and what the service answered then."""
    run(server, "DROP SCHEMA IF EXISTS online_rank CASCADE")
    text = (request.param / DUMP).read_text()
    service_formats.restore(server, text)
    return server, text, told_in(request.param)


def run(server, statement):
    """The rows of a statement."""
    import psycopg

    with psycopg.connect(server.address, autocommit=True, options="-c search_path=online_rank") as connection:
        found = connection.execute(statement)
        return found.fetchall() if found.description else None


@pytest.mark.slow
def test_a_postgres_database_of_an_earlier_version_continues_with_the_same_command(database):
    server, _, then = database
    scores = continued(server.address, then)
    again = DurableService(RankingService(AdditiveRanker()), server.address)
    assert handled(again, {"id": "again", "docs": then["probe"]})["scores"] == scores
    again.close()


@pytest.mark.slow
def test_a_postgres_schema_without_what_came_later_gets_it(database):
    """The index was one of a tree, which has no room for long ids; there was no lead, and files had no table."""
    server, _, then = database
    run(server, "DROP INDEX learned_by_hash; CREATE INDEX learned_id ON learned(id); DROP VIEW lead; DROP TABLE file, leader")
    continued(server.address, then)
    (found,) = run(server, "SELECT to_regclass('learned_id') IS NULL, to_regclass('learned_by_hash') IS NOT NULL")
    assert found == (True, True)


@pytest.mark.slow
def test_who_goes_back_restores_the_dump_of_the_postgres_schema_of_before(database):
    server, _, then = database
    text = dumped(server)
    continued(server.address, then)
    run(server, "DROP SCHEMA online_rank CASCADE")
    service_formats.restore(server, text)
    continued(server.address, then)


@pytest.mark.slow
def test_a_postgres_database_of_a_later_version_is_refused_with_the_version_it_needs(database):
    server, *_ = database
    ((number, change, notes, manifest),) = run(server, "SELECT number, change, notes, manifest FROM generation")
    manifest = json.dumps({**json.loads(manifest), "format": 99, "library": "7.1.0"}).encode()
    digest = _sealed(change, notes, manifest)
    run(server, f"UPDATE generation SET manifest = '\\x{manifest.hex()}', digest = '\\x{digest.hex()}'")
    before = [line for line in dumped(server).splitlines() if ".leader" not in line]
    with pytest.raises(ModelFileError, match=r"format 99 was written by online_rank 7\.1\.0.*upgrade online_rank"):
        DurableService(RankingService(AdditiveRanker()), server.address)
    assert [line for line in dumped(server).splitlines() if ".leader" not in line] == before
    assert number >= 1
