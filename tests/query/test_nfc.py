"""Names of features, categories and words are the same however a program has composed their characters (Unicode, form C)."""

import unicodedata

import numpy as np
import pandas
import pytest
from river import compose, preprocessing

from online_rank import (
    AdditiveRanker,
    DeclaredFeatures,
    ForEachDocument,
    HashedFeatures,
    PerceptronRanker,
    RunFeatures,
    Runs,
    StreamScaler,
)
from online_rank.cli.runs import names_of
from online_rank.cli.settings import Settings
from online_rank.export import to_json
from online_rank.query import read_query
from online_rank.rankers.fixed import FixedRanker

CAFE, DECOMPOSED = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def _query(name, other="tea"):
    return {"a": {name: 1.0, other: 0.0}, "b": {name: 0.0, other: 1.0}}


MODELS = {
    "linear": PerceptronRanker,
    "scaled": lambda: StreamScaler() | PerceptronRanker(),
    "additive": AdditiveRanker,
    "hashed": lambda: HashedFeatures(10) | PerceptronRanker(),
    "declared": lambda: DeclaredFeatures([DECOMPOSED, "tea"]) | PerceptronRanker(),
    "signs": lambda: PerceptronRanker(signs={DECOMPOSED: 1}),
    "lifted": lambda: ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", ["dicts", "ragged", "frame"])
def test_names_of_features(model, form):
    made = MODELS[model]()
    for _ in range(3):
        made.learn_one(_query(CAFE), {"a": 1, "b": 0})
    expected = made.predict_one(_query(CAFE))
    given = {
        "dicts": _query(DECOMPOSED),
        "ragged": {"a": {DECOMPOSED: 1.0, "tea": 0.0}, "b": {"tea": 1.0, CAFE: 0.0}},
        "frame": pandas.DataFrame({DECOMPOSED: [1.0, 0.0], "tea": [0.0, 1.0]}),
    }[form]
    found = made.predict_one(given)
    assert (found if form == "frame" else [*found.values()]) == [*expected.values()]
    assert expected["a"] != expected["b"]


def test_categories_and_words():
    def query(text):
        return {"a": {"t": text}, "b": {"t": "tea"}}

    for made in (
        AdditiveRanker(),
        HashedFeatures(10) | PerceptronRanker(),
        HashedFeatures(10, text=("t",)) | PerceptronRanker(),
        ForEachDocument(compose.Select("t") | preprocessing.OneHotEncoder()) | PerceptronRanker(),
    ):
        for _ in range(3):
            made.learn_one(query(CAFE), {"a": 1, "b": 0})
        assert made.predict_one(query(DECOMPOSED)) == made.predict_one(query(CAFE))
    lists = [{"t": [CAFE, "new"]}, {"t": [DECOMPOSED]}]
    assert HashedFeatures(10).transform_one(lists)[1].items() <= HashedFeatures(10).transform_one(lists)[0].items()


@pytest.mark.parametrize("model", MODELS)
def test_names_that_become_one_are_refused(model):
    both = {DECOMPOSED: 1.0, CAFE: 2.0}
    with pytest.raises(ValueError, match=r"has 'cafe\\u0301' and 'caf\\xe9', which Unicode takes for the same text"):
        MODELS[model]().learn_one([both, both, {"tea": 1.0}], [1, 0, 0])


def test_names_that_become_one_elsewhere():
    message = r"'cafe\\u0301' and 'caf\\xe9'(, which Unicode takes for the same text| have the same name as text)"
    both = {DECOMPOSED: 1, CAFE: -1}
    for make in (
        lambda: read_query(pandas.DataFrame(np.ones((2, 2)), columns=[*both])),
        lambda: PerceptronRanker.from_weights(both),
        lambda: PerceptronRanker(signs=both),
        lambda: DeclaredFeatures([*both]),
        lambda: HashedFeatures(10, text=(*both,)),
        lambda: RunFeatures([*both]),
        lambda: (RunFeatures() | PerceptronRanker()).learn_one(Runs({name: [("a", 1.0)] for name in both}), {"a": 1}),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_weights_rules_exports_and_options():
    assert PerceptronRanker.from_weights({DECOMPOSED: 1.0}).feature_names == (CAFE,)
    assert FixedRanker({DECOMPOSED: 1.0}).feature_names == (CAFE,)
    runs = RunFeatures([DECOMPOSED]) | PerceptronRanker.from_rule("rrf", [DECOMPOSED])
    assert runs.predict_one(Runs({CAFE: [("a", 1.0)]}))["a"] > 0.0
    made = to_json(PerceptronRanker.from_weights({CAFE: 1.0}), names={DECOMPOSED: "coffee"})
    assert made["features"] == ["coffee"]
    assert Settings(sign=[f"{DECOMPOSED}=+"]).signs == {CAFE: 1}


def test_tuples_and_ids():
    block = read_query({DECOMPOSED: {("x", DECOMPOSED): 1.0, 7: 2.0}})
    assert block.names == (("x", CAFE), 7)
    assert block.ids == (DECOMPOSED,)


def test_runs_are_called_as_their_files():
    """macOS decomposes the names of files."""
    assert names_of([f"runs/{DECOMPOSED}.run", "runs/tea.run"]) == [CAFE, "tea"]
