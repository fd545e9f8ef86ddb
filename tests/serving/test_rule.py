"""After any accepted request the state can be saved, loaded and gone on from; after any refused one all is as it was."""

import random

import pytest
from river import preprocessing

from benchmarks._rule import sequence
from online_rank import ForEachDocument, PerceptronRanker
from tests.models import NOT_SAVED, REGISTRY, is_ranker

#: Adapters around any model of river can be served, not saved.
ADAPTED = {
    "pointwise, regressor",
    "pointwise, classifier",
    "pairwise",
    "drift, pairwise",
    "best, pairwise",
    "scaler | pairwise",
}
MODELS = {
    name: make
    for name, make in REGISTRY.items()
    if name not in NOT_SAVED | ADAPTED and "torch" not in name and is_ranker(make())
} | {
    "lifted standard": lambda: ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(),
    "lifted maximum": lambda: ForEachDocument(preprocessing.MaxAbsScaler()) | PerceptronRanker(),
    "lifted norm": lambda: ForEachDocument(preprocessing.Normalizer()) | PerceptronRanker(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_the_rule(name):
    result = sequence(MODELS[name], random.Random(name), 60, reopen=0.03)
    assert result.broken == []
    assert result.accepted > 10
    assert result.refused > 2
