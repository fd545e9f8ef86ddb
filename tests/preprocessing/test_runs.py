import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank import PerceptronRanker, RunFeatures, Runs, hybrid
from online_rank.preprocessing.runs import PARTS

# In thousandths, so that no square of a difference underflows.
SCORES = st.integers(-(10**9), 10**9).map(lambda value: value / 1000)
RUNS = st.dictionaries(
    st.sampled_from(["bm25", "vector", "recent"]),
    st.dictionaries(st.integers(0, 9), SCORES, max_size=8),
    min_size=1,
    max_size=3,
)


def by_hand(run, documents, part, k):
    """A part of a run, document by document, from its definition."""
    values = list(run.values())
    if part == "found":
        return [float(d in run) for d in documents]
    if part == "reciprocal_rank":
        order = sorted(run, key=lambda d: -run[d])
        return [1 / (k + order.index(d) + 1) if d in run else 0.0 for d in documents]
    if part == "minmax":
        low, high = min(values, default=0.0), max(values, default=0.0)
        return [((run[d] - low) / (high - low) if high > low else 1.0) if d in run else 0.0 for d in documents]
    # The mean of equal numbers, rounded, is not always that number.
    if len(set(values)) < 2:
        return [0.0] * len(documents)
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    z = {d: (v - mean) / deviation for d, v in run.items()}
    return [z.get(d, min(z.values())) for d in documents]


@pytest.mark.slow
@given(RUNS, st.sampled_from([0.0, 1.0, 60.0]))
def test_every_part_is_its_definition(runs, k):
    query = Runs(runs)
    found = RunFeatures([*runs], parts=PARTS, k=k).transform_one(query)
    for name, run in runs.items():
        # Ties of a run stand in its own order.
        ordered = dict(sorted(run.items(), key=lambda item: -item[1]))
        for part in PARTS:
            expected = by_hand(ordered, query.ids, part, k)
            got = [found[d][f"{name} {part}"] for d in query.ids]
            # Differences of nearly equal scores: the two ways round differently.
            near = max(run.values(), default=0.0) - min(run.values(), default=0.0) < 1e-6 * max(
                map(abs, run.values()), default=0.0
            )
            assert got == pytest.approx(expected, abs=1e-3 if near else 1e-7), part


def test_worked_by_hand():
    query = Runs({"bm25": [("a", 9.0), ("b", 5.0), ("c", 1.0)], "vector": [("c", 0.5)]})
    found = RunFeatures(parts=PARTS, k=60).transform_one(query)
    third = math.sqrt(((9 - 5) ** 2 + 0 + (1 - 5) ** 2) / 3)
    assert found["a"] == pytest.approx(
        {
            "bm25 minmax": 1.0,
            "bm25 zscore": (9 - 5) / third,
            "bm25 reciprocal_rank": 1 / (60 + 1),
            "bm25 found": 1.0,
            "vector minmax": 0.0,
            "vector zscore": 0.0,
            "vector reciprocal_rank": 0.0,
            "vector found": 0.0,
        }
    )
    assert found["c"]["vector minmax"] == 1.0


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_extreme_scores_stay_finite(scale):
    found = RunFeatures(parts=PARTS).transform_one({"a": {"r": -1.7 * scale}, "b": {"r": 1.7 * scale}, "c": {"r": 0.0}})
    assert found["c"]["r minmax"] == pytest.approx(0.5)
    assert all(math.isfinite(value) for x in found.values() for value in x.values())


def test_scores_whose_halves_are_equal_are_equal():
    """They were divided by a range of 0."""
    step = RunFeatures(parts=("minmax", "zscore"))
    with np.errstate(divide="raise", invalid="raise"):
        made = step.transform_one(Runs({"bm25": {"a": 0.0, "b": 5e-324}}))
    assert [[*features.values()] for features in made.values()] == [[1.0, 0.0], [1.0, 0.0]]


def test_ties_keep_the_order_of_their_list():
    query = Runs({"bm25": [("a", 1.0)], "vector": [("b", 0.5), ("a", 0.5)]})
    found = RunFeatures(parts=("reciprocal_rank",), k=0).transform_one(query)
    assert (found["b"]["vector reciprocal_rank"], found["a"]["vector reciprocal_rank"]) == (1.0, 1 / 2)


def test_equal_scores_without_a_list_share_their_ranks():
    found = RunFeatures(parts=("reciprocal_rank",), k=0).transform_one([{"r": 3.0}, {"r": 5.0}, {"r": 3.0}, {}])
    assert [x["r reciprocal_rank"] for x in found] == pytest.approx([1 / 2.5, 1.0, 1 / 2.5, 0.0], abs=1e-13)


def test_features_of_documents_are_no_runs():
    query = Runs({"bm25": [("a", 2.0), ("b", 1.0)]}, {"a": {"price": 7.0}})
    found = RunFeatures(parts=("minmax",)).transform_one(query)
    assert found == {"a": {"bm25 minmax": 1.0, "price": 7.0}, "b": {"bm25 minmax": 0.0, "price": 0.0}}


def test_a_run_that_nobody_is_in_keeps_its_columns():
    found = RunFeatures(["bm25", "vector"], parts=("minmax", "found")).transform_one(
        {"a": {"bm25": 2.0, "price": 3.0}, "b": {}}
    )
    assert found["a"] == {"bm25 minmax": 1.0, "bm25 found": 1.0, "vector minmax": 0.0, "vector found": 0.0, "price": 3.0}
    assert found["b"] == dict.fromkeys(found["a"], 0.0)


def test_a_linear_ranker_with_weights_of_one_is_reciprocal_rank_fusion():
    rng = np.random.default_rng(3)
    model = PerceptronRanker.from_weights({f"{run} reciprocal_rank": 1.0 for run in "xyz"})
    fused = RunFeatures(["x", "y", "z"], parts=("reciprocal_rank",)) | model
    for _ in range(200):
        runs = {run: dict(zip(rng.permutation(30)[:12].tolist(), rng.normal(size=12).tolist(), strict=True)) for run in "xyz"}
        query = Runs(runs)
        ranks = {run: sorted(scores, key=lambda d, s=scores: -s[d]) for run, scores in runs.items()}
        expected = {d: sum(1 / (61 + ranks[run].index(d)) for run in "xyz" if d in ranks[run]) for d in query.ids}
        assert fused.predict_one(query) == pytest.approx(expected, abs=1e-12)
        assert fused.rank_one(query) == sorted(query.ids, key=lambda d, e=expected: -round(e[d], 12))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"a": {"r": math.inf}}, r"feature 'r' of document 'a' is inf"),
        ({"a": {"r": 10**400}}, r"feature 'r' of document 'a' is too large for a float"),
        ([[1.0], [math.nan]], r"feature 0 of document 1"),
    ],
)
def test_bad_numbers_are_refused(query, message):
    with pytest.raises(ValueError, match=message):
        RunFeatures().transform_one(query)


@pytest.mark.parametrize("value", ["high", "3", None, [1.0]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match="feature 'r' of document 'b' is"):
        RunFeatures().transform_one({"a": {"r": 1.0}, "b": {"r": value}})


def test_a_run_that_is_not_named_is_refused():
    # As a feature it would be a raw score, and 0 where it is missing.
    model = hybrid(["bm25", "vector"])
    with pytest.raises(ValueError, match="x has the run 'vectr', but runs names 'bm25', 'vector'"):
        model.rank_one(Runs({"bm25": [("a", 1.0)], "vectr": [("a", 0.5)]}))


def test_the_floor_is_for_the_smallest_score_alone():
    query = Runs({"r": [("a", 1.0), ("b", 0.0001), ("c", 0.0)], "one": [("d", -3.0)]})
    found = RunFeatures(parts=("minmax",), floor=0.001).transform_one(query)
    assert [x["r minmax"] for x in found.values()] == pytest.approx([1.0, 0.0001, 0.001, 0.0], abs=1e-13)
    assert found["d"]["one minmax"] == 1.0


def test_columns_that_would_share_a_name_are_refused():
    with pytest.raises(ValueError, match="'r found'"):
        RunFeatures(["r"]).transform_one([{"r": 1.0, "r found": 2.0}])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"runs": "bm25"}, TypeError),
        ({"runs": ["a", "a"]}, ValueError),
        ({"runs": []}, ValueError),
        ({"parts": ("minmax", "minmax")}, ValueError),
        ({"parts": ("max",)}, ValueError),
        ({"k": -1}, ValueError),
        ({"k": "60"}, TypeError),
        ({"floor": -0.1}, ValueError),
        ({"floor": 1.5}, ValueError),
    ],
)
def test_bad_arguments(arguments, error):
    with pytest.raises(error, match=next(iter(arguments))):
        RunFeatures(**arguments)


def test_lists_of_retrievers_in_a_bare_dict_are_refused():
    """It has the shape of documents: their names were ranked, and the documents learned as features."""
    model = hybrid(["bm25", "vector"])
    for query in ({"bm25": {"d1": 2.0, "d2": 1.0}, "vector": {"d2": 0.5}}, {"d1": {"age": 3.0}}):
        with pytest.raises(ValueError, match="no document has a score of 'bm25' or 'vector'; give lists of retrievers as Runs"):
            model.rank_one(query)
        with pytest.raises(ValueError, match="as Runs"):
            model.learn_one(query, dict.fromkeys(query, 1))
    assert model.rank_one({}) == model.rank_one(Runs({"bm25": [], "vector": []})) == []
    assert model.rank_one({"d1": {"bm25": 1.0}, "d2": {"bm25": 2.0}}) == ["d2", "d1"]


def test_features_that_most_documents_lack_make_no_huge_array():
    lists = Runs({f"r{i}": [(f"d{i}", 1.0)] for i in range(5000)})
    with pytest.raises(ValueError, match="5000 documents of 5000 features, of which few are filled; RunFeatures needs them"):
        RunFeatures().transform_one(lists)


@pytest.mark.slow
def test_thousands_of_runs_take_little_time():
    lists = Runs({f"r{i}": [("a", 1.0), ("b", 0.5)] for i in range(20_000)})
    start = time.process_time()
    RunFeatures(parts=("found",)).transform_one(lists)
    assert time.process_time() - start < 1.0  # A set of them all for each one took 6 s.
