import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank._kernels import codes
from online_rank._kernels import metrics as kernels
from online_rank.measures.learned import TIES, discounts, gains
from tests.reference import metrics as reference

# Kernel code, reference, and which of k and threshold it has.
METRICS = {
    "ndcg": (codes.NDCG, reference.ndcg, {"k"}),
    "ap": (codes.AP, reference.average_precision, {"k", "threshold"}),
    "linear_ndcg": (codes.LINEAR_NDCG, reference.linear_ndcg, set()),
    "rr": (codes.RECIPROCAL_RANK, reference.reciprocal_rank, {"k", "threshold"}),
    "precision": (codes.PRECISION, reference.precision, {"k", "threshold"}),
    "err": (codes.ERR, reference.err, {"k"}),
    "dcg": (codes.DCG, reference.dcg, {"k"}),
    "recall": (codes.RECALL, reference.recall, {"k", "threshold"}),
    "hit_rate": (codes.HIT_RATE, reference.hit_rate, {"k", "threshold"}),
    "ap_attainable": (codes.AP_ATTAINABLE, reference.attainable_average_precision, {"k", "threshold"}),
    "pairwise": (codes.PAIRWISE_ACCURACY, reference.pairwise_accuracy, set()),
}
STOP = gains()[:5] / 2**4
STOP.flags.writeable = False


def values(name, scores, grades, ties, offsets=None, k=None, threshold=1):
    scores, grades = np.asarray(scores, dtype=np.float64), np.asarray(grades, dtype=np.int64)
    offsets = np.array([0, len(scores)] if offsets is None else offsets)
    out = np.full(len(offsets) - 1, -7.0)
    gain = STOP if name == "err" else gains()
    table = discounts(len(scores))
    n = kernels.metric_values(METRICS[name][0], k or 0, threshold, TIES[ties], scores, grades, offsets, gain, table, out)
    return n, out


def expect(name, scores, grades, ties, k=None, threshold=1):
    _, metric, offered = METRICS[name]
    parameters = {key: v for key, v in (("k", k), ("threshold", threshold)) if key in offered}
    value = reference.value(metric, list(scores), list(grades), ties, **parameters)
    return math.nan if value is None else value


def cases():
    return [(name, ties) for name in METRICS for ties in TIES if ties != "ignored" and (name, ties) != ("err", "expected")]


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "ties"), cases())
@settings(max_examples=40)
@given(
    query=st.lists(st.tuples(st.sampled_from([-1.5, 0.0, 1e-300, 2.0]), st.integers(0, 4)), max_size=6),
    k=st.integers(1, 8),
    threshold=st.integers(1, 3),
)
def test_every_tie_break_of_short_queries(name, ties, query, k, threshold):
    scores, grades = [s for s, _ in query], [g for _, g in query]
    n, out = values(name, scores, grades, ties, k=k, threshold=threshold if "threshold" in METRICS[name][2] else 1)
    assert n == 1
    np.testing.assert_allclose(out[0], expect(name, scores, grades, ties, k, threshold), rtol=1e-13)


@pytest.mark.first(8)
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("ties", ["optimistic", "pessimistic"])
def test_long_queries_sorted_and_selected(name, ties):
    rng = np.random.default_rng(7)
    lengths = [1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 200]
    offsets = np.cumsum([0, *lengths])
    grades = rng.integers(0, 5, offsets[-1])
    for scores in (
        rng.normal(size=offsets[-1]),
        rng.integers(0, 9, offsets[-1]),
        np.arange(offsets[-1]),
        np.zeros(offsets[-1]),
    ):
        for k in (3, 32, 33, 500):
            n, out = values(name, scores, grades, ties, offsets, k=k)
            assert n == len(lengths)
            for q, (a, b) in enumerate(itertools.pairwise(offsets)):
                want = expect(name, scores[a:b].tolist(), grades[a:b].tolist(), ties, k)
                np.testing.assert_allclose(out[q], want, rtol=1e-12, err_msg=f"query {q}, k {k}")


def test_without_ties_all_policies_agree():
    rng = np.random.default_rng(3)
    scores, grades = rng.permutation(300), rng.integers(0, 4, 300)
    for name in METRICS:
        if name != "err":
            for k in (None, 10, 100):
                low, mean, high = (
                    values(name, scores, grades, ties, k=k)[1][0] for ties in ("pessimistic", "expected", "optimistic")
                )
                np.testing.assert_allclose([low, high], mean, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 40, 5000])
def test_one_relevant_document_in_one_large_tie(n):
    # Every position has probability 1/n.
    scores, grades = np.zeros(n), np.zeros(n, dtype=np.int64)
    grades[n // 3] = 1
    harmonic = sum(1 / p for p in range(1, n + 1))
    assert values("rr", scores, grades, "expected")[1][0] == pytest.approx(harmonic / n)
    assert values("ap", scores, grades, "expected")[1][0] == pytest.approx(harmonic / n)
    assert values("rr", scores, grades, "expected", k=2)[1][0] == pytest.approx((1 + 1 / 2) / n)
    assert values("precision", scores, grades, "expected", k=2)[1][0] == pytest.approx((2 / n) / 2)
    assert values("ndcg", scores, grades, "expected", k=2)[1][0] == pytest.approx((1 + 1 / math.log2(3)) / n)
    assert values("pairwise", scores, grades, "expected")[1][0] == 0.5
    assert values("linear_ndcg", scores, grades, "expected")[1][0] == pytest.approx((n - (n + 1) / 2) / (n - 1))


def test_a_tie_across_the_cutoff_counts_as_a_whole():
    # One document above, then four tied ones with gains 0, 1, 3, 0; two of them fall within the first three.
    scores, grades = [2.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0, 0, 1, 2, 0, 4]
    mean = (0 + 1 + 3 + 0) / 4
    want = mean * (1 / math.log2(3) + 1 / math.log2(4)) / (15 + 3 / math.log2(3) + 1 / math.log2(4))
    assert values("ndcg", scores, grades, "expected", k=3)[1][0] == pytest.approx(want, rel=1e-14)


def test_best_ranking_is_exactly_one_and_never_more():
    rng = np.random.default_rng(5)
    for _ in range(50):
        grades = rng.integers(0, 60, 40)
        for name in ("ndcg", "ap", "linear_ndcg", "pairwise"):
            assert values(name, grades * 0.1, grades, "expected")[1][0] == 1.0


def test_documents_not_retrieved_earn_nothing():
    never = -math.inf
    scores, grades = [3.0, 2.0, never, never], [0, 1, 1, 0]
    assert values("rr", scores, grades, "expected")[1][0] == 1 / 2
    assert values("ap", scores, grades, "expected")[1][0] == (1 / 2 + 0) / 2
    assert values("ndcg", scores, grades, "expected")[1][0] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert values("ndcg", scores, grades, "pessimistic", k=3)[1][0] == pytest.approx(
        (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    )
    assert values("precision", scores, grades, "expected", k=3)[1][0] == 1 / 3
    # Correct: (2nd, 4th). Tied at the end: (3rd, 4th). Wrong: (2nd, 1st), (3rd, 1st).
    assert values("pairwise", scores, grades, "expected")[1][0] == (1 + 0.5) / 4
    # Positions 3 and 4 are shared: (4 - 2) + (4 - 3.5), over (4 - 1) + (4 - 2).
    assert values("linear_ndcg", scores, grades, "expected")[1][0] == (2 + 0.5) / (3 + 2)


def test_degenerate_queries_are_nan_and_huge_grades_finite():
    for name in METRICS:
        assert np.isnan(values(name, [], [], "pessimistic")[1]).all()
        assert np.isnan(values(name, [1.0, 2.0], [0, 0], "pessimistic")[1]).all()
    for name in ("linear_ndcg", "pairwise"):
        assert np.isnan(values(name, [1.0], [3], "expected")[1]).all()
    assert values("ndcg", [1.0, 2.0, 3.0], [1000, 0, 1000], "expected")[1][0] == pytest.approx(1.5 / (1 + 1 / math.log2(3)))


@pytest.mark.parametrize(
    ("scores", "grades"), [([0, math.nan], [0, 1]), ([0, math.inf], [0, 1]), ([0, 0], [0, -1]), ([0, 0], [1001, 0])]
)
def test_stops_before_a_bad_query(scores, grades):
    n, out = values("ndcg", [1, 0, *scores, 1, 0], [1, 0, *grades, 1, 0], "expected", offsets=[0, 2, 4, 6])
    assert n == 1
    assert out[0] == 1.0


def test_a_query_leaves_nothing_behind_for_the_next():
    rng = np.random.default_rng(11)
    offsets = np.cumsum([0, *rng.integers(0, 30, 60)])
    grades = rng.integers(0, 5, offsets[-1]) * rng.integers(0, 2, offsets[-1])
    scores = rng.integers(0, 6, offsets[-1])
    for name, ties in cases():
        together = values(name, scores, grades, ties, offsets, k=4)[1]
        alone = [values(name, scores[a:b], grades[a:b], ties, k=4)[1][0] for a, b in itertools.pairwise(offsets)]
        np.testing.assert_array_equal(together, alone)
