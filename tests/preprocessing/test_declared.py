"""Declared features: unknown names are refused, missing ones are counted."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from online_rank import DeclaredFeatures, PerceptronRanker, StreamScaler, load, save
from online_rank.export import export
from online_rank.stream.synth import NoisyTeacher

NAMES = ("price", "stars", "sold")


def new():
    return DeclaredFeatures(list(NAMES)) | StreamScaler() | PerceptronRanker()


def test_an_unknown_name_is_refused_before_anything_is_learned():
    model = new()
    model.learn_one([{"price": 1.0, "stars": 2.0, "sold": 3.0}, {"price": 2.0, "stars": 1.0, "sold": 1.0}], [0, 1])
    weights, misspelt = model["PerceptronRanker"].weights.tolist(), [{"price": 1.0}, {"prise": 2.0}]
    told = "x: document 1 has a feature 'prise', which is not declared; the nearest that is: 'price'"
    for call in (lambda: model.learn_one(misspelt, [0, 1]), lambda: model.rank_one(misspelt)):
        with pytest.raises(ValueError, match="not declared") as error:
            call()
        assert str(error.value) == told
    frame = pd.DataFrame({"price": [1.0, 2.0], "colour": [0.0, 1.0]})
    with pytest.raises(ValueError, match="x has a feature 'colour', which is not declared"):
        model.learn_many(frame, [0, 1], [7, 7])
    assert model["PerceptronRanker"].weights.tolist() == weights
    assert sum(model["DeclaredFeatures"].n_missing.values()) == 0


def test_missing_features_are_counted_by_document_and_are_zero():
    model, whole = new(), new()
    model.learn_one({"a": {"stars": 2.0, "price": 1.0}, "b": {"price": 2.0, "sold": 1.0}}, {"a": 0, "b": 1})
    whole.learn_one(np.array([[1.0, 2.0, 0.0], [2.0, 0.0, 1.0]]), [0, 1])
    assert model["DeclaredFeatures"].n_missing == {"price": 0, "stars": 1, "sold": 1}
    assert model["PerceptronRanker"].weights.tolist() == whole["PerceptronRanker"].weights.tolist()
    assert model["PerceptronRanker"].feature_names == whole["PerceptronRanker"].feature_names == NAMES
    model.learn_many(pd.DataFrame({"stars": [1.0, 2.0, 3.0]}), [0, 1, 0], [1, 1, 2])
    assert model["DeclaredFeatures"].n_missing == {"price": 3, "stars": 1, "sold": 4}
    model.rank_one([{"price": 1.0}])  # Asking is not learning.
    assert model["DeclaredFeatures"].n_missing == {"price": 3, "stars": 1, "sold": 4}


def test_any_form_gives_the_same_model():
    arrays, dicts, frames, plain = new(), new(), new(), StreamScaler() | PerceptronRanker()
    for X, y in NoisyTeacher(30, n_features=3, seed=2):
        arrays.learn_one(X, y)
        plain.learn_one(X, y)
        dicts.learn_one([dict(zip(NAMES[::-1], row[::-1], strict=True)) for row in X.tolist()], y)
        frames.learn_one(pd.DataFrame(X, columns=NAMES), y)
    expected = plain["PerceptronRanker"].weights.tolist()
    for model in (arrays, dicts, frames):
        assert model["PerceptronRanker"].weights.tolist() == expected
    with pytest.raises(ValueError, match="x has 4 columns, but 3 features are declared"):
        arrays.rank_one(np.zeros((2, 4)))


def test_it_travels_and_is_exported_by_name(tmp_path):
    model = new()
    X, y = next(iter(NoisyTeacher(1, n_features=3, seed=2)))
    model.learn_one(X, y)
    save(model, tmp_path / "m.npz")
    for other in (load(tmp_path / "m.npz"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.predict_one(X) == model.predict_one(X)
        assert other["DeclaredFeatures"].n_missing == dict.fromkeys(NAMES, 0)
    assert '"price"' in export(model, "solr", name="m")
    x = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
    assert set(model.explain_one(x, 0, 1).contributions) <= set(NAMES)


@pytest.mark.parametrize(
    ("features", "error", "told"),
    [
        ("price", TypeError, "a list of names"),
        ([], ValueError, "features is empty"),
        (["a", "b", "a"], ValueError, "names 'a' more than once"),
    ],
)
def test_declarations_that_make_no_sense(features, error, told):
    with pytest.raises(error, match=told):
        DeclaredFeatures(features)
