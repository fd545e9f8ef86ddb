"""Files that earlier versions wrote are read, and their models rank and learn as they did (`tests.reference.formats`)."""

import json

import numpy as np
import pytest

from online_rank.storage.files import from_bytes, load, to_bytes
from tests.reference.formats import ANSWERS, FOLDER, MODELS, answers

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
