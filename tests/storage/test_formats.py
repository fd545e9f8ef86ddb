"""Files that earlier versions wrote are read, and their models rank and learn as they did (`tests.reference.formats`)."""

import json
import shutil

import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from online_rank.storage import generations
from online_rank.storage.files import ModelFileError, from_bytes, load, to_bytes
from online_rank.storage.folder import CheckpointError
from tests.reference.formats import ANSWERS, FOLDER, MODELS, answers
from tests.reference.service_formats import FOLDERS, handled

FILES = sorted(FOLDER.glob("*/*.npz"))
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


def test_every_kind_of_model_is_among_the_files():
    assert {path.stem for path in FILES} == set(MODELS)


@pytest.fixture(params=sorted(FOLDERS.glob("*/service")), ids=lambda path: path.parent.name)
def earlier(request, tmp_path):
    """A copy of a service's folder as a version left it, and what it answered then."""
    shutil.copytree(request.param, tmp_path / "service")
    return tmp_path / "service", json.loads((request.param / ANSWERS).read_text())


def test_a_service_of_an_earlier_version_continues_with_the_same_command(earlier):
    """The default had no trees then: the folder was refused as one with other options."""
    folder, then = earlier
    with pytest.warns(UserWarning, match="AdditiveRanker keeps trees=0, with which it began; the default is trees=400"):
        durable = DurableService(RankingService(AdditiveRanker()), folder)
    for number in (1, 2):
        now = handled(durable, {"id": f"probe {number}", "docs": then["probe"]})
        assert now["ranking"] == then["ranking"]
        np.testing.assert_allclose(now["scores"], then["scores"], rtol=_CLOSE, atol=_CLOSE)
    for waiting in then["waiting"]:
        assert handled(durable, {"id": waiting, "grades": {f"d{i}": i % 2 for i in range(6)}})["learned"]
    durable.save()
    now = handled(durable, {"id": "last", "docs": then["probe"]})
    durable.close()
    with pytest.warns(UserWarning, match="keeps trees=0"):
        again = DurableService(RankingService(AdditiveRanker()), folder)
    assert handled(again, {"id": "again", "docs": then["probe"]})["scores"] == now["scores"]
    again.close()


def test_another_setting_is_refused_as_before(earlier):
    folder, _ = earlier
    with pytest.raises(CheckpointError, match=r"other options: AdditiveRanker\.trees is 0, here 20"):
        DurableService(RankingService(AdditiveRanker(trees=20)), folder)


def test_a_folder_of_a_later_version_is_refused_with_the_version_it_needs(earlier, monkeypatch):
    folder, then = earlier
    with monkeypatch.context() as later:
        later.setattr(generations, "FORMAT_VERSION", 99)
        later.setattr(generations, "__version__", "7.1.0")
        durable = DurableService(RankingService(AdditiveRanker(trees=0)), folder)
        handled(durable, {"id": "new", "docs": then["probe"]})
        durable.save()
        durable.close()
    before = sorted((path.name, path.stat().st_size) for path in folder.iterdir())
    with pytest.raises(ModelFileError, match=r"format 99 was written by online_rank 7\.1\.0.*upgrade online_rank"):
        DurableService(RankingService(AdditiveRanker()), folder)
    assert sorted((path.name, path.stat().st_size) for path in folder.iterdir()) == before
