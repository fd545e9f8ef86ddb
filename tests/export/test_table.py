"""Each cell of the table of models by target in docs/export.md: the target takes the model, or gives the reason."""

import re
from pathlib import Path

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    BoostedRanker,
    ClickPerceptron,
    CrossFeatures,
    DirectRanker,
    GradientRanker,
    HashedFeatures,
    History,
    KernelPerceptronRanker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    RunFeatures,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.base import steps_of
from online_rank.export import TARGETS, export
from online_rank.query import Runs

#: By which targets that fuse find the nearest weights.
LISTS = Runs({"text": {"a": 3.0, "b": 2.0, "c": 1.0}, "vector": {"c": 0.9, "a": 0.5, "d": 0.2}})
PAGE = Path(__file__).parents[2] / "docs" / "export.md"

_relative = r"scores documents relative to their query, and the target sees one document at a time; relative=False does not"
_in_query = "scales by what else is in the query, and the target sees one document at a time"
#: For each row, by its first words: models, and what targets say that do not take them; FIRST is the first step.
ROWS = {
    "`AdditiveRanker()`": ([AdditiveRanker, BlendRanker], _relative),
    "`AdditiveRanker(relative=False)`": (
        [lambda: AdditiveRanker(relative=False), lambda: BlendRanker(relative=False)],
        "it is one of sums of curves and trees on raw features",
    ),
    "`BoostedRanker`": (
        [lambda: StreamScaler() | BoostedRanker(), lambda: BlendRanker([StreamScaler() | BoostedRanker(), BoostedRanker()])],
        "it is one of sums of trees on raw features",
    ),
    "linear": (
        [
            lambda: StreamScaler() | PerceptronRanker(),
            lambda: MaxAbsStreamScaler() | GradientRanker(),
            lambda: BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()]),
        ],
        "it is one of weighted sums of raw features",
    ),
    "`ClickPerceptron`": (
        [lambda: StreamScaler() | ClickPerceptron(), lambda: StreamScaler() | SwapRanker()],
        "it is one of weighted sums of raw features",
    ),
    "`DirectRanker`": (
        [
            lambda: StreamScaler() | DirectRanker(hidden=(3,), dtype="float64"),
            lambda: BlendRanker([PerceptronRanker(), BoostedRanker()]),
        ],
        "it is one of other scores of one document at a time",
    ),
    "behind `StreamQuantileMap`": (
        [
            lambda: StreamQuantileMap() | PerceptronRanker(),
            lambda: QueryNormalizer() | RidgeRanker(),
            lambda: BlendRanker([QueryNormalizer() | PerceptronRanker(), StreamScaler() | RidgeRanker()]),
        ],
        _in_query,
    ),
    "behind `RunFeatures`": (
        [lambda: RunFeatures() | PerceptronRanker.from_rule("minmax", ["text", "vector"])],
        "RunFeatures makes features of the lists of retrievers",
    ),
    "`KernelPerceptronRanker`": (
        [
            lambda: KernelPerceptronRanker(budget=5),
            lambda: HashedFeatures(bits=6) | PerceptronRanker(),
            lambda: CrossFeatures("user") | PerceptronRanker(),
            lambda: History("a", half_life=1000) | PerceptronRanker(),
        ],
        r"FIRST has no closed form|FIRST\(.*\) makes features of earlier feedback",
    ),
}


def cells():
    """The rows of the table: first cell, and which targets take the models."""
    lines = re.search(r"(?m)^\| models \|.*\n(?:\|.*\n)+", PAGE.read_text()).group().splitlines()
    header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    fusing = [name for name, target in TARGETS.items() if "fusion" in target.kinds]
    columns = [fusing if "that fuse" in cell else cell.split(", ") for cell in header[1:]]
    assert sorted(name for column in columns for name in column) == sorted(TARGETS)
    return [
        (first, [name for column, cell in zip(columns, own, strict=True) if cell for name in column]) for first, *own in rows
    ]


def taught(make):
    """A model that has learned a few queries, from clicks where it takes no grades."""
    model, rng = make(), np.random.default_rng(0)
    for _ in range(0 if "RunFeatures" in str(model) else 30):
        X = np.exp(rng.normal(size=(6, 2)))
        y, query = np.digitize(X[:, 0], [1.0, 2.0]), [dict(zip("ab", row, strict=True)) for row in X.tolist()]
        if model.abilities.takes_clicks and model.abilities.draws:
            shown = model.show_one(query)
            model.learn_one(query, shown.clicked([i for i in shown.order if y[i] > 0]))
        else:
            model.learn_one(query, y, **({"context": {"user": "ada"}} if "CrossFeatures" in str(model) else {}))
    return model


@pytest.mark.first(1)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("first", "takers"), [pytest.param(*cell, id=cell[0]) for cell in cells()])
def test_a_cell(first, takers):
    makes, of_all = next(row for words, row in ROWS.items() if first.startswith(words))
    for model in map(taught, makes):
        reason = of_all.replace("FIRST", type(steps_of(model)[0]).__name__)
        for to in TARGETS:
            fuses = "fusion" in TARGETS[to].kinds
            options = {"queries": [LISTS]} if fuses else {}
            if to in takers:
                assert export(model, to, **options)
            else:
                with pytest.raises(TypeError, match=f"RunFeatures|{reason}" if fuses else reason):
                    export(model, to, **options)
