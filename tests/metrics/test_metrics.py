import copy
import datetime as dt
import itertools
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import compose, evaluate, linear_model, preprocessing, utils
from river import metrics as river_metrics
from sklearn.metrics import ndcg_score, roc_auc_score

from online_rank import metrics as ranking_metrics
from online_rank.base import Ranker
from online_rank.base.schema import declared_state
from online_rank.measures.learned import measure
from online_rank.metrics import (
    DCG,
    ERR,
    MAP,
    MRR,
    NDCG,
    HitRate,
    LinearNDCG,
    PairwiseAccuracy,
    PrecisionAtK,
    RankingMetric,
    RecallAtK,
    metric,
)
from online_rank.preprocessing import QueryNormalizer
from online_rank.storage.files import to_bytes
from tests.reference import metrics as reference

ALL = [NDCG, DCG, MAP, MRR, PrecisionAtK, RecallAtK, HitRate, ERR, LinearNDCG, PairwiseAccuracy]
queries = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 3.0]), st.integers(0, 4)), min_size=2, max_size=6)


class FirstFeature(Ranker):
    """Scores a document by its first feature."""

    def _grow(self, n_new):
        pass

    def _score(self, X):
        return X[:, 0].astype(np.float64)

    def _learn(self, block, rounds):
        rounds[:] = 0.0
        return len(block.w)


def stream(n=60, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(1, 12))
        yield rng.integers(0, 5, (m, 2)).astype(np.float64), rng.integers(0, 3, m).tolist()


def block(n=60, seed=1):
    parts = list(stream(n, seed))
    scores = np.concatenate([x[:, 0] for x, _ in parts])
    qid = np.repeat(np.arange(n), [len(y) for _, y in parts])
    return np.concatenate([y for _, y in parts]), scores, qid


# Values.


@settings(max_examples=60)
@given(query=queries, k=st.integers(1, 7))
def test_ndcg_equals_scikit_learn(query, k):
    scores, grades = np.array([s for s, _ in query]), np.array([g for _, g in query])
    if grades.any():
        exponential = ndcg_score([2**grades - 1], [scores], k=k)
        assert NDCG(k=k).value_one(grades, scores) == pytest.approx(exponential, rel=1e-12)
        assert NDCG(k=k, gain="linear").value_one(grades, scores) == pytest.approx(
            ndcg_score([grades], [scores], k=k), rel=1e-12
        )


@settings(max_examples=60)
@given(query=queries)
def test_pairwise_accuracy_of_two_grades_is_the_area_under_the_roc_curve(query):
    scores, grades = [s for s, _ in query], [int(g > 1) for _, g in query]
    if 0 < sum(grades) < len(grades):
        assert PairwiseAccuracy().value_one(grades, scores) == pytest.approx(roc_auc_score(grades, scores), rel=1e-12)


def test_values_by_hand():
    grades, scores = [2, 0, 1, 0], [1.0, 4.0, 2.0, 3.0]  # ranked: 0, 0, 1, 2
    log2 = math.log2
    assert NDCG(k=3).value_one(grades, scores) == pytest.approx((1 / log2(4)) / (3 / log2(2) + 1 / log2(3)))
    assert NDCG(k=None).value_one(grades, scores) == pytest.approx((1 / log2(4) + 3 / log2(5)) / (3 / log2(2) + 1 / log2(3)))
    assert NDCG(k=3, gain="linear").value_one(grades, scores) == pytest.approx((1 / log2(4)) / (2 / log2(2) + 1 / log2(3)))
    assert MAP().value_one(grades, scores) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert MAP(k=3).value_one(grades, scores) == pytest.approx((1 / 3 + 0) / 2)
    assert MAP(threshold=2).value_one(grades, scores) == 1 / 4
    assert MRR().value_one(grades, scores) == pytest.approx(1 / 3)
    assert MRR(k=2).value_one(grades, scores) == 0.0
    assert PrecisionAtK(k=3).value_one(grades, scores) == pytest.approx(1 / 3)
    assert PrecisionAtK(k=8).value_one(grades, scores) == 2 / 8
    assert ERR(max_grade=2).value_one(grades, scores) == pytest.approx(1 / 3 * 1 / 4 + 1 / 4 * (1 - 1 / 4) * 3 / 4)
    assert LinearNDCG().value_one(grades, scores) == (1 * (4 - 3) + 2 * (4 - 4)) / (2 * 3 + 1 * 2)
    assert PairwiseAccuracy().value_one(grades, scores) == 0 / 5
    assert PairwiseAccuracy().value_one([0, 1, 2], [0.0, 0.0, -1.0]) == (0.5 + 0 + 0) / 3


def test_more_values_by_hand():
    grades, scores = [2, 0, 1, 0], [1.0, 4.0, 2.0, 3.0]  # ranked: 0, 0, 1, 2
    assert DCG(k=3).value_one(grades, scores) == 1 / math.log2(4)
    assert DCG(k=None, gain="linear").value_one(grades, scores) == pytest.approx(1 / math.log2(4) + 2 / math.log2(5))
    assert RecallAtK(k=3).value_one(grades, scores) == 1 / 2
    assert [HitRate(k=k).value_one(grades, scores) for k in (2, 3)] == [0.0, 1.0]
    # Three documents tie for two places, one of them is relevant.
    assert HitRate(k=2).value_one([1, 0, 0], [0.0, 0.0, 0.0]) == pytest.approx(2 / 3)
    # AP@2 of relevant, irrelevant, relevant, relevant: the sum 1 over R = 3, or over min(R, 2) = 2.
    assert MAP(k=2).value_one([1, 0, 1, 1], [4.0, 3.0, 2.0, 1.0]) == pytest.approx(1 / 3)
    assert metric("map_attainable@2").value_one([1, 0, 1, 1], [4.0, 3.0, 2.0, 1.0]) == 1 / 2


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "name", ["ndcg@3", "dcg_linear@2", "map", "mrr", "p@2", "recall@2", "hit_rate@2", "err@3", "linear_ndcg"]
)
@settings(max_examples=30)
@given(query=queries)
def test_ignored_ties_go_by_the_order_given(name, query):
    scores, grades = [s for s, _ in query], [g for _, g in query]
    by_position = [-sorted(range(len(scores)), key=lambda i: -scores[i]).index(i) for i in range(len(scores))]
    want = metric(name).value_one(grades, by_position)
    assert metric(name, ties="ignored").value_one(grades, scores) == pytest.approx(want, nan_ok=True)


def test_ignored_ties_leave_bad_scores_and_unretrieved_documents_alone():
    assert metric("p@2", ties="ignored").value_one([1, 1], [-math.inf, 0.0]) == 1 / 2
    with pytest.raises(ValueError, match="nan"):
        metric("p@2", ties="ignored").value_one([1, 1], [math.nan, 0.0])


@settings(max_examples=60)
@given(query=queries)
def test_linear_ndcg_counts_weighted_misordered_pairs(query):
    # [JG]: ideal - DCG_lin = sum over pairs (b - a) [f(x^b) < f(x^a)], ties half; the same, split by split.
    scores, grades = [s for s, _ in query], [g for _, g in query]
    pairs = [(i, j) for i, j in itertools.product(range(len(grades)), repeat=2) if grades[i] > grades[j]]
    wrong = {(i, j): 1.0 if scores[i] < scores[j] else 0.5 if scores[i] == scores[j] else 0.0 for i, j in pairs}
    regret = sum((grades[i] - grades[j]) * wrong[i, j] for i, j in pairs)
    by_split = sum(wrong[i, j] for k in range(4) for i, j in pairs if grades[j] <= k < grades[i])
    ideal = reference.linear_dcg(sorted(grades, reverse=True))
    if ideal:
        assert ideal * (1 - LinearNDCG().value_one(grades, scores)) == pytest.approx(regret, abs=1e-9)
        assert by_split == regret


def test_bipartite_linear_ndcg():
    m, n = 3, 5
    grades = [1] * m + [0] * n
    assert measure("linear_ndcg").ideal(grades) == m * n + m * (m - 1) / 2
    # Upside down: the ideal less one for each of the m n pairs.
    assert LinearNDCG().value_one(grades, list(range(m + n))) == (m * (m - 1) / 2) / (m * n + m * (m - 1) / 2)


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (1, 4), (3, 2), (3, 3)])
def test_few_exchanges_lead_from_the_ideal_ranking_to_any_other(positives, negatives):
    # [JG, Lemma 1]: breadth first over all exchanges of two documents, from the ideal ranking of two grades.
    reached = {(1,) * positives + (0,) * negatives: 0}
    border = list(reached)
    for ranking in border:
        for i, j in itertools.combinations(range(len(ranking)), 2):
            exchanged = list(ranking)
            exchanged[i], exchanged[j] = ranking[j], ranking[i]
            if (found := tuple(exchanged)) not in reached:
                reached[found] = reached[ranking] + 1
                border.append(found)
    assert len(reached) == math.comb(positives + negatives, positives)
    assert max(reached.values()) == min(positives, negatives)


@pytest.mark.parametrize("kind", ALL)
def test_tie_policies_are_ordered(kind):
    rng = np.random.default_rng(2)
    options = {"k": 1} if kind is HitRate else {}
    gaps = []
    for _ in range(50):
        grades, scores = rng.integers(0, 4, 30), rng.integers(0, 5, 30)
        low, high = (kind(**options, ties=ties).value_one(grades, scores) for ties in ("pessimistic", "optimistic"))
        middle = low if kind is ERR else kind(**options, ties="expected").value_one(grades, scores)
        assert low <= middle <= high
        gaps.append(high - low)
    assert max(gaps) > 0


@pytest.mark.parametrize("kind", ALL)
def test_input_order_and_form_do_not_matter(kind):
    rng = np.random.default_rng(4)
    grades, scores = rng.integers(0, 4, 50), rng.integers(-3, 4, 50).astype(np.float64)
    want = kind().value_one(grades, scores)
    p = rng.permutation(50)
    assert kind().value_one(grades[p], scores[p]) == pytest.approx(want, rel=1e-14)
    read_only = scores.copy()
    read_only.flags.writeable = False
    strided = np.repeat(scores, 2)[::2]
    for form in (scores.tolist(), scores.astype(np.float32), scores.astype(int), read_only, strided):
        assert kind().value_one(grades.tolist(), form) == want
    ids = [f"d{i}" for i in range(50)]
    y_true = {ids[i]: int(grades[i]) for i in p}
    y_pred = dict(zip(ids, scores, strict=True))
    assert kind().value_one(y_true, y_pred) == want
    assert kind().value_one(grades.astype(np.float64), y_pred) == want


# Queries without a relevant document.


@pytest.mark.parametrize("kind", ALL)
def test_no_relevant_document(kind):
    skipped = kind()
    for y_true, y_pred in (([0, 0], [1.0, 2.0]), ([], [])):
        skipped.update(y_true, y_pred)
    assert (skipped.get(), skipped.n_queries, skipped.n_skipped) == (0.0, 0, 2)
    for policy, value in (("zero", 0.0), ("one", 1.0)):
        counted = kind(no_relevant=policy)
        counted.update([0, 0], [1.0, 2.0])
        counted.update([1, 0], [2.0, 1.0])
        assert counted.get() == (value + kind().value_one([1, 0], [2.0, 1.0])) / 2
        assert (counted.n_queries, counted.n_skipped) == (2, 0)


def test_threshold_decides_what_is_relevant():
    for kind in (MAP, MRR, PrecisionAtK):
        assert math.isnan(kind(threshold=2).value_one([1, 1], [2.0, 1.0]))


# The mean.


def test_weighted_mean_and_revert():
    metric = MRR()
    metric.update([1, 0], [2.0, 1.0], 3.0)
    metric.update([0, 1], [2.0, 1.0], w=0.5)
    assert metric.get() == (3.0 * 1 + 0.5 * (1 / 2)) / 3.5
    metric.revert([1, 0], [2.0, 1.0], 3.0)
    assert metric.get() == 1 / 2
    metric.revert([0, 1], [2.0, 1.0], 0.5)
    assert (metric.get(), metric.n_queries) == (0.0, 0)
    with pytest.raises(ValueError, match="more is reverted than was updated"):
        metric.revert([0, 1], [2.0, 1.0])
    assert (metric.get(), metric.n_queries) == (0.0, 0)


def test_revert_undoes_update_to_the_last_bit():
    metric = NDCG()
    rng = np.random.default_rng(9)
    parts = [(rng.integers(0, 4, 8), rng.normal(size=8), float(10.0 ** rng.integers(-12, 12))) for _ in range(300)]
    for part in parts:
        metric.update(*part)
    order = rng.permutation(300)
    for i in order[1:]:
        metric.revert(*parts[i])
    only = NDCG()
    only.update(*parts[order[0]])
    found, expected = declared_state(metric), declared_state(only)
    assert (found.total, found.weight) == (expected.total, expected.weight)


class Given(NDCG):
    """Takes the predictions for the values, so that what is left is the mean."""

    def value_one(self, y_true, y_pred):
        return y_pred


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_a_rolling_mean_does_not_drift_over_many_steps(weighted):
    window, steps = 7, 100_000
    rng = np.random.default_rng(6)
    values = (rng.random(steps) ** 20).tolist()
    weights = (10.0 ** rng.integers(-6, 6, steps)).tolist() if weighted else [1.0] * steps
    rolling, fresh = utils.Rolling(Given, window_size=window), Given()
    for value, w in zip(values, weights, strict=True):
        rolling.update(None, value, w)
    for value, w in zip(values[-window:], weights[-window:], strict=True):
        fresh.update(None, value, w)
    assert (
        rolling.get()
        == fresh.get()
        == math.fsum(v * w for v, w in zip(values[-window:], weights[-window:], strict=True)) / (math.fsum(weights[-window:]))
    )


def test_rolling():
    parts = [(y, x[:, 0].tolist()) for x, y in stream(500, seed=5)]
    rolling, fresh = utils.Rolling(NDCG, window_size=20), NDCG()
    for part in parts:
        rolling.update(*part)
    for part in parts[-20:]:
        fresh.update(*part)
    assert rolling.get() == fresh.get() > 0
    assert (rolling.n_queries, rolling.n_skipped) == (fresh.n_queries, fresh.n_skipped)


def test_time_rolling():
    rolling = utils.TimeRolling(PrecisionAtK, period=dt.timedelta(days=2), k=1)
    day = dt.datetime(2024, 1, 1)
    for t, first_is_relevant in enumerate([1, 1, 0, 0]):
        rolling.update([first_is_relevant, 1], [2.0, 1.0], t=day + dt.timedelta(days=t))
    assert rolling.get() == 0.0
    assert rolling.n_queries == 2


@pytest.mark.parametrize("kind", ALL)
def test_a_block_is_the_loop(kind):
    y, scores, qid = block()
    weights = np.random.default_rng(0).random(60)
    for w in (None, weights):
        loop, many = kind(), kind()
        for q in range(60):
            part = qid == q
            loop.update(y[part], scores[part], 1.0 if w is None else w[q])
        many.update_many(y, scores, qid, w)
        assert many.get() == loop.get() > 0
        assert (many.n_queries, many.n_skipped) == (loop.n_queries, loop.n_skipped)
        assert many.n_skipped > 0
    assert len(kind().value_many([], [], [])) == 0


def test_rankings_in_place_of_scores():
    grades = {"a": 2, "b": 1, "c": 0, "d": 1}
    ranking = ["c", "a", "x", "b"]  # "x" is not judged, "d" not retrieved
    log2 = math.log2
    ideal = 3 / log2(2) + 1 / log2(3) + 1 / log2(4)
    for kind, want in (
        (NDCG(k=10), (3 / log2(3) + 1 / log2(5)) / ideal),
        (NDCG(k=2), (3 / log2(3)) / (3 / log2(2) + 1 / log2(3))),
        (MAP(), (1 / 2 + 2 / 4 + 0) / 3),
        (MRR(), 1 / 2),
        (PrecisionAtK(k=5), 2 / 5),
    ):
        kind.update(grades, ranking)
        assert kind.get() == pytest.approx(want), kind
    with pytest.raises(ValueError, match="document 'a' occurs more than once"):
        NDCG().update(grades, ["a", "b", "a"])


def test_forms_and_examples_of_the_draft_of_river():
    """The values that river's drafts print: online-ml/river#1996, and its NDCG, whose gain is the grade."""
    for kind in (PrecisionAtK(k=2), RecallAtK(k=2)):
        shown = []
        for found in (["b"], ["a", "b"]):
            kind.update(["a", "b"], found)
            shown.append(kind.get())
        assert shown == [0.5, 0.75], kind
    ndcg, shown = NDCG(k=None, gain="linear", no_relevant="zero"), []
    for grades, ranking in (
        ({"a": 3, "b": 2, "c": 3, "d": 0, "e": 1, "f": 2}, ["a", "b", "c", "d", "e", "f"]),
        ({"a": 1, "b": 0, "c": 0}, ["b", "c", "a"]),
        ({"a": 1, "c": 1}, ["b", "a", "c"]),
    ):
        ndcg.update(grades, ranking)
        shown.append(round(ndcg.get(), 4))
    assert shown == [0.9608, 0.7304, 0.7181]
    for grades, ranking in (({1, 3}, [2, 1, 3]), ({"a", "c"}, ["b", "a", "c"]), (["a", "c"], ("b", "a", "c"))):
        ndcg = NDCG(k=2, gain="linear")
        ndcg.update(grades, ranking)
        assert round(ndcg.get(), 4) == 0.3869
        ndcg.revert(grades, ranking)
        assert ndcg.n_queries == 0
    with pytest.raises(TypeError, match="give y_pred as"):
        ndcg.update({"a": 1, "b": 0}, [0.5, 0.25])


# river.


@pytest.mark.parametrize("kind", ALL)
def test_clone_pickle_deepcopy_and_repr(kind):
    metric = kind(no_relevant="zero")
    metric.update_many(*block(10))
    for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert twin.get() == metric.get()
        twin.update([1, 0], [1.0, 2.0])
        assert twin.n_queries == metric.n_queries + 1
    clone = metric.clone()
    assert (clone.no_relevant, clone.get(), clone.n_queries) == ("zero", 0.0, 0)
    assert repr(metric) == f"{metric.name}: {metric.get():.6f}"
    assert str(metric) == repr(metric)
    assert metric.bigger_is_better
    assert metric > clone


def test_names():
    assert repr(NDCG()) == "NDCG@10: 0.000000"
    shown = [NDCG(k=None), MAP(threshold=2), MRR(k=10), PrecisionAtK(k=5, threshold=3), ERR(), LinearNDCG(), PairwiseAccuracy()]
    names = ["NDCG", "MAP>=2", "MRR@10", "P@5>=3", "ERR@20", "LinearNDCG", "PairwiseAccuracy"]
    assert [m.name for m in shown] == names
    for m in shown:
        parsed = metric(m.name)
        assert (type(parsed), parsed._get_params()) == (type(m), m._get_params())
    assert metric("linear_ndcg").name == "LinearNDCG"
    assert metric("pairwise_accuracy").name == "PairwiseAccuracy"
    assert metric(measure("ap>=2").name).name == "MAP>=2"
    assert metric("err").k is None
    instance = NDCG()
    assert metric(instance) is instance
    for wrong in ("p", "ndcg@0", "ndcg>=2", "linear_ndcg@3", "auc", "", "ndcg@10 "):
        with pytest.raises(ValueError, match="is unknown"):
            metric(wrong)


def test_river_evaluates_rankers_and_pipelines():
    fresh, model = NDCG(), FirstFeature()
    for x, y in stream():
        fresh.update(y, model.predict_one(x))
        model.learn_one(x, y)
    for model in (FirstFeature(), compose.Pipeline(QueryNormalizer(), FirstFeature())):
        assert evaluate.progressive_val_score(stream(), model, NDCG()).get() == fresh.get()
    both = evaluate.progressive_val_score(stream(), FirstFeature(), NDCG() + MAP())
    assert both.get()[0] == fresh.get()
    named = [({f"d{i}": {"f": row[0]} for i, row in enumerate(x)}, {f"d{i}": g for i, g in enumerate(y)}) for x, y in stream()]
    assert evaluate.progressive_val_score(named, FirstFeature(), NDCG()).get() == fresh.get() > 0
    assert evaluate.progressive_val_score(stream(), FirstFeature(), utils.Rolling(NDCG, window_size=60)).get() == fresh.get()


def test_works_with():
    assert NDCG().works_with(FirstFeature())
    assert not NDCG().works_with(linear_model.LogisticRegression())
    assert not NDCG().works_with(preprocessing.StandardScaler() | linear_model.LinearRegression())
    with pytest.raises(ValueError, match="not compatible"):
        evaluate.progressive_val_score(stream(), linear_model.LinearRegression(), NDCG())


def test_metrics_add_up():
    both = NDCG() + MAP()
    assert isinstance(both, river_metrics.base.Metrics)
    both.update([0, 1], [2.0, 1.0], 2.0)
    assert both.get() == [1 / math.log2(3), 1 / 2]
    both = both + MRR()
    assert len(both) == 3
    assert len(both.clone()) == 3
    with pytest.raises(ValueError, match="not compatible"):
        NDCG() + river_metrics.MAE()


def test_an_instance_may_be_rolled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        rolling = utils.Rolling(NDCG(k=3), 2)
    rolling.update([1, 0], [1.0, 2.0])
    assert repr(rolling) == f"NDCG@3: {1 / math.log2(3):.6f}"


# Bad input changes nothing.


@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "message"),
    [
        ([1, 0], [1.0], ValueError, "y_true has 2 grades, but y_pred has 1 scores"),
        ([1, 0], [1.0, math.nan], ValueError, "score of document 1 is nan"),
        ([1, 0], [math.inf, 0.0], ValueError, "score of document 0 is inf"),
        ({"a": 1, "b": 0}, {"a": 1.0, "b": math.nan}, ValueError, "score of document 'b' is nan"),
        ([1, -2], [1.0, 0.0], ValueError, "grade of document 1 is -2"),
        ([1, 0.5], [1.0, 0.0], ValueError, "grade of document 1 is 0.5"),
        ([1, 1001], [1.0, 0.0], ValueError, "grade of document 1 is 1001"),
        ({"a": 1, "b": 0}, {"a": 1.0}, ValueError, "y_pred has no score for document 'b'"),
        ({"a": 1}, {"a": 1.0, "b": 0.0}, ValueError, "y_true has no grade for document 'b'"),
        ({"a": 1}, [1.0], TypeError, "y_pred has no ids"),
        ([1], ["x"], TypeError, "scores have dtype"),
        ([1], [[1.0]], ValueError, "scores have shape"),
        (["x"], [1.0], TypeError, "grades must be integers"),
    ],
)
@pytest.mark.parametrize("change", ["update", "revert"])
def test_bad_queries(y_true, y_pred, error, message, change):
    metric = NDCG()
    metric.update([0, 1], [1.0, 0.0])
    before = pickle.dumps(metric)
    with pytest.raises(error, match=message):
        getattr(metric, change)(y_true, y_pred)
    assert pickle.dumps(metric) == before


def test_bad_blocks_and_weights():
    metric = NDCG()
    with pytest.raises(ValueError, match="score of document 2 is nan"):
        metric.update_many([1, 0, 1], [1.0, 0.0, math.nan], [1, 1, 2])
    with pytest.raises(ValueError, match="are not contiguous"):
        metric.update_many([1, 0, 1], [1.0, 0.0, 2.0], [1, 2, 1])
    with pytest.raises(ValueError, match="one weight a query"):
        metric.update_many([1, 0, 1], [1.0, 0.0, 2.0], [1, 1, 2], [1.0])
    for w in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="weight of a query is a finite number"):
            metric.update([1, 0], [1.0, 0.0], w)
    with pytest.raises(ValueError, match="grade of document 1 is 5, but max_grade is 4"):
        ERR().update([1, 5], [1.0, 0.0])
    assert (metric.get(), metric.n_queries, metric.n_skipped) == (0.0, 0, 0)


def test_bad_parameters():
    for kind, parameters in (
        (NDCG, {"k": 0}),
        (NDCG, {"k": 2.5}),
        (NDCG, {"k": True}),
        (NDCG, {"gain": "log"}),
        (PrecisionAtK, {"k": None}),
        (MAP, {"threshold": 0}),
        (MRR, {"ties": "best"}),
        (MRR, {"no_relevant": "nan"}),
        (ERR, {"max_grade": 0}),
        (ERR, {"max_grade": 1001}),
    ):
        with pytest.raises((ValueError, TypeError), match=next(iter(parameters))):
            kind(**parameters)
    with pytest.raises(ValueError, match="ERR has no closed form for the expected value"):
        ERR(ties="expected")


# The measures, by the same kernels.


def test_values_of_measures():
    grades, scores = [2, 0, 1], [0.0, 0.0, 1.0]
    for name, same in (("ndcg@2", NDCG(k=2)), ("ap>=2", MAP(threshold=2)), ("linear_ndcg", LinearNDCG())):
        for ties in ("expected", "optimistic", "pessimistic"):
            same.ties = ties
            value = measure(name).value(scores, grades, ties)
            assert value == same.value_one(grades, scores)
            assert measure(name).loss(scores, grades, ties) == 1.0 - value
    assert measure("ndcg").value([1.0, 2.0], [0, 0]) == 1.0
    assert measure("ndcg").loss([], []) == 0.0
    assert measure("ndcg@2").ideal([2, 0, 1, 1]) == 3 + 1 / math.log2(3)
    assert measure("ap>=2").ideal([2, 0, 3, 1]) == 2
    assert measure("ap").ideal([]) == 0.0
    with pytest.raises(ValueError, match="grade of document 1 is -1"):
        measure("ndcg").ideal([0, -1])
    with pytest.raises(ValueError, match="ties is 'best'"):
        measure("ndcg").value([1.0], [1], "best")


def test_a_random_ranking_gets_the_mean_over_all_orders():
    chance, grades = ranking_metrics.RandomRanking("ndcg@2"), [2, 0, 1]
    orders = [NDCG(k=2).value_one(grades, order) for order in itertools.permutations([3.0, 2.0, 1.0])]
    for scores in ([3.0, 2.0, 1.0], [0.0, 5.0, 5.0]):
        assert chance.value_one(grades, scores) == pytest.approx(sum(orders) / 6)
    with pytest.raises(ValueError, match="no closed form"):
        ranking_metrics.RandomRanking("err@5")


def test_every_metric_is_tested():
    public = {getattr(ranking_metrics, name) for name in ranking_metrics.__all__}
    tested_apart = {ranking_metrics.RandomRanking, ranking_metrics.QueryMetric}
    assert set(ALL) | tested_apart == {
        value for value in public if isinstance(value, type) and issubclass(value, RankingMetric)
    } - {RankingMetric}


@pytest.mark.parametrize("w", [1e300, 1.7e308])
def test_weights_that_add_up_to_more_than_files_hold_are_refused_and_change_nothing(w):
    """An OverflowError came out of `math.fsum`, or the metric could not be saved."""
    ndcg = NDCG()
    ndcg.update([1, 0], [1.0, 0.0], w=1e300)
    before = to_bytes(ndcg)
    with pytest.raises(ValueError, match="add up to more"):
        ndcg.update([1, 0], [1.0, 0.0], w=w)
    assert to_bytes(ndcg) == before
