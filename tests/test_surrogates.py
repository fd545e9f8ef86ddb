import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import surrogates
from online_rank._kernels import pairwise, vector_math
from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import LOGISTIC
from online_rank.surrogates import Surrogate, hinge, lambdarank, listnet, logistic, slam, squared
from tests.kernels.calling import from_python
from tests.reference import surrogates as reference
from tests.reference.l1_constants import l1_constant

scores = st.floats(-6, 6) | st.sampled_from([0.0, 1.0, -1.0])


@st.composite
def queries(draw, most=7, highest=3):
    y = draw(st.lists(st.integers(0, highest), min_size=2, max_size=most))
    return draw(st.lists(scores, min_size=len(y), max_size=len(y))), y


def mixed(y):
    return len(set(y)) > 1


TAU = {"identity": lambda x: x, "tanh": math.tanh, "half_tanh": lambda x: math.tanh(x / 2)}
PAIRS = list(itertools.product(("all", "neighbours"), ("none", "grade", "difference"), ("mean", "sum")))


@pytest.mark.parametrize(("pairs", "weight", "how"), PAIRS)
@settings(max_examples=12)
@given(query=queries(most=12))
def test_pairwise_values_equal_the_pair_loops(query, pairs, weight, how):
    s, y = query
    if not mixed(y):
        return
    options = {"neighbours": pairs == "neighbours", "weighting": weight, "mean": how == "mean"}
    shared = {"pairs": pairs, "pair_weight": weight, "reduction": how}
    for by_gap in (False, True):
        value = hinge(margin=0.75, margin_scale="grade" if by_gap else "constant", **shared).value(s, y)
        assert value == pytest.approx(reference.hinge(s, y, 0.75, by_gap, **options), rel=1e-9, abs=1e-12)
    for output, slope in (("half_tanh", 1.0), ("identity", 1.0), ("tanh", 2.0)):
        assert logistic(output=output, **shared).value(s, y) == pytest.approx(
            reference.logistic(s, y, slope, **options), rel=1e-12
        )
    for output, tau in TAU.items():
        assert squared(output=output, **shared).value(s, y) == pytest.approx(
            reference.squared(s, y, tau, **options), rel=1e-9, abs=1e-14
        )


@settings(max_examples=60)
@given(query=queries())
def test_listwise_values_equal_the_equations(query):
    s, y = query
    if not mixed(y):
        return
    binary = [int(r > 1) for r in y]
    assert listnet().value(s, y) == pytest.approx(reference.listnet(s, y), rel=1e-12)
    assert slam("ndcg").value(s, y) == pytest.approx(reference.slam(s, y, reference.weight_vector(y, "ndcg")), abs=1e-12)
    assert slam("ndcg@2").value(s, y) == pytest.approx(reference.slam(s, y, reference.weight_vector(y, "ndcg", 2)), abs=1e-12)
    assert lambdarank("ndcg").value(s, y) == pytest.approx(reference.lambdarank(s, y, reference.ndcg), abs=1e-12)
    assert lambdarank("ndcg@2", output="tanh").value(s, y) == pytest.approx(
        reference.lambdarank(s, y, lambda r, y: reference.ndcg(r, y, 2), 2.0), abs=1e-12
    )
    assert lambdarank("linear_ndcg").value(s, y) == pytest.approx(reference.lambdarank(s, y, reference.linear_ndcg), abs=1e-12)
    if mixed(binary):
        v = reference.weight_vector(binary, "ap")
        assert slam("ap>=2", margin=0.5).value(s, y) == pytest.approx(reference.slam(s, binary, v, 0.5), abs=1e-12)
        expected = reference.lambdarank(s, binary, reference.average_precision)
        assert lambdarank("ap>=2").value(s, y) == pytest.approx(expected, abs=1e-12)


def test_values_by_hand():
    s, y = [3.0, 1.0, 2.0], [1, 0, 1]
    assert hinge(reduction="sum").value(s, y) == 0.0
    assert hinge(margin=3.0, reduction="sum").value(s, y) == (3.0 - 3.0 + 1.0) + (3.0 - 2.0 + 1.0)
    assert squared(reduction="sum").value(s, y) == (1.0 - (3.0 - 1.0)) ** 2 + (1.0 - (2.0 - 1.0)) ** 2
    assert squared().value(s, [3, 0, 1]) == (3 * (1.0 - 2.0) ** 2 + 2 * (1.0 - 1.0) ** 2 + 1 * 0.0) / (3 + 2 + 1)
    assert logistic(reduction="sum").value([0.0, 0.0, 0.0], y) == pytest.approx(2 * math.log(2.0))
    assert listnet().value([0.0, 0.0, 0.0], y) == pytest.approx(math.log(3.0))
    # v of the relevant document is 1 - 1/2 = (G(1) - G(0)) (D(1) - D(3)) / Z; its best violator is 0.5 above.
    assert slam("ndcg").value([0.0, 0.5, -1.0], [1, 0, 0]) == pytest.approx((1.0 - 0.5) * 1.5)


CONVEX = [
    logistic(),
    logistic(output="tanh", pairs="neighbours", pair_weight="difference", reduction="sum"),
    squared(),
    squared(output="identity", pairs="neighbours", pair_weight="grade"),
    listnet(),
    slam("ndcg"),
    slam("ndcg@5", margin=2.0),
    slam("ap"),
    slam("linear_ndcg"),
    slam(within_grade="document", margin_scale="grade"),
    hinge(),
    hinge(margin=2.0, margin_scale="grade", pairs="neighbours", pair_weight="grade"),
]
ALL = [
    *CONVEX,
    squared(output="tanh"),
    squared(output="half_tanh", pair_weight="none", reduction="sum"),
    lambdarank(),
    lambdarank("ndcg@3", output="tanh"),
    lambdarank("ap>=2"),
    lambdarank("linear_ndcg"),
    slam(within_grade="tight"),
]
label = "{0.name}-{0.measure}-{0.output}-{0.pairs}-{0.pair_weight}-{0.within_grade}".format


@pytest.mark.parametrize("surrogate", ALL, ids=label)
def test_gradient_equals_finite_differences(surrogate):
    rng = np.random.default_rng(5)
    for _ in range(25):
        # Random scores are away from kinks, and from swaps of the ranking, by far more than the step.
        m = int(rng.integers(2, 14))
        s = rng.normal(size=m) * rng.choice([0.1, 1.0, 3.0])
        y = rng.integers(0, 4, m)
        gradient = surrogate.gradient(s, y)
        step = 1e-6
        for i in range(m):
            e = step * np.eye(m)[i]
            difference = (surrogate.value(s + e, y) - surrogate.value(s - e, y)) / (2 * step)
            assert gradient[i] == pytest.approx(difference, abs=1e-7 * (1.0 + np.abs(gradient).max()))


@pytest.mark.first(6)
@pytest.mark.parametrize("surrogate", ALL, ids=label)
@settings(max_examples=25)
@given(query=queries(most=15, highest=4))
def test_gradient_sums_to_zero_and_keeps_its_l1_constant(surrogate, query):
    s, y = query
    value, gradient = surrogate.value_and_gradient(s, y)
    size = np.abs(gradient).sum()
    assert value >= -1e-9
    assert abs(gradient.sum()) <= 1e-12 * max(1.0, size)
    assert size <= l1_constant(surrogate, y) * (1 + 1e-12)


@pytest.mark.parametrize("surrogate", CONVEX, ids=label)
def test_value_lies_above_its_tangents(surrogate):
    rng = np.random.default_rng(2)
    for _ in range(50):
        m = int(rng.integers(2, 12))
        y = rng.integers(0, 4, m)
        a, b = rng.normal(size=(2, m)) * 2
        value, gradient = surrogate.value_and_gradient(a, y)
        assert surrogate.value(b, y) >= value + gradient @ (b - a) - 1e-9


@pytest.mark.parametrize("kind", ["ndcg", "ndcg@3", "ap", "linear_ndcg"])
@settings(max_examples=60)
@given(query=queries(most=10))
def test_slam_bounds_the_pessimistic_loss(kind, query):
    s, y = query
    y = [min(r, 1) for r in y] if kind == "ap" else y
    if not mixed(y):
        return
    k = int(kind[5:] or 0) if kind.startswith("ndcg@") else None
    ranking = reference.pessimistic_ranking(s, y)
    achieved = {"ap": reference.average_precision, "linear_ndcg": reference.linear_ndcg}.get(
        kind, lambda r, y: reference.ndcg(r, y, k)
    )(ranking, y)
    assert slam(kind).value(s, y) >= 1.0 - achieved - 1e-9
    assert slam(kind, within_grade="tight").value(s, y) <= slam(kind).value(s, y) + 1e-9


@pytest.mark.parametrize("surrogate", ALL, ids=label)
def test_extreme_scores_and_degenerate_queries(surrogate):
    for y in ([0, 0, 0], [2, 2, 2], [3], []):
        value, gradient = surrogate.value_and_gradient(np.arange(len(y), dtype=float), y)
        assert value == 0.0
        assert not gradient.any()
        assert l1_constant(surrogate, y) == 0.0
    y = [2, 0, 2, 0]
    for size in (1e-300, 1e6):
        for sign in (1.0, -1.0):
            value, gradient = surrogate.value_and_gradient(sign * size * np.array([1.0, -1.0, 0.5, 0.0]), y)
            assert math.isfinite(value)
            assert np.isfinite(gradient).all()
    s = np.array([0.25, -1.0, 0.5, 3.0])
    shifted = surrogate.value_and_gradient(s + 2.0**30, y)
    value, gradient = surrogate.value_and_gradient(s, y)
    assert shifted[0] == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert shifted[1] == pytest.approx(gradient, rel=1e-12, abs=1e-12)


@pytest.mark.slow
def test_scores_in_other_forms():
    s, y = np.array([0.5, -1.0, 2.0, 0.0]), np.array([0, 1, 2, 0])
    expected = logistic().gradient(s, y)
    read_only = s.copy()
    read_only.flags.writeable = False
    strided = np.repeat(s, 2)[::2]
    for form in (read_only, strided, s.astype(np.float32), s.tolist()):
        assert np.array_equal(logistic().gradient(form, y.tolist()), expected)


def test_many_grades():
    rng = np.random.default_rng(0)
    s, y = rng.normal(size=60), np.append(rng.integers(0, 1001, 58), [0, 1000])
    s, y = s.tolist(), y.tolist()
    assert squared(reduction="sum").value(s, y) == pytest.approx(reference.squared(s, y, weighting="difference", mean=False))
    assert hinge(reduction="sum").value(s, y) == pytest.approx(reference.hinge(s, y, mean=False))
    assert listnet().value(s, y) > 0
    assert 0 < lambdarank().value(s, y) < math.inf


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="document 1 is not finite"):
        hinge().value([0.0, math.nan], [0, 1])
    with pytest.raises(ValueError, match="3 grades"):
        hinge().value([0.0, 1.0], [0, 1, 0])
    with pytest.raises(ValueError, match="document 0 is -1"):
        hinge().value([0.0, 1.0], [-1, 1])
    for wrong in ({"pairs": "some"}, {"pair_weight": "x"}, {"reduction": "max"}, {"margin": 0.0}, {"margin_scale": "m"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            hinge(**wrong)
    with pytest.raises(ValueError, match="surrogate"):
        surrogates.Surrogate("svm")
    with pytest.raises(ValueError, match="output"):
        squared(output="sigmoid")
    with pytest.raises(ValueError, match="measure"):
        slam("mrr")


def _ulps(got, true):
    true = np.asarray(true)
    return np.max(np.abs(got - true) / np.spacing(np.abs(true).astype(got.dtype)).astype(np.longdouble))


@kernel
def _over(function, x, out):
    for i in range(x.shape[0]):
        out[i] = function(x[i])


@pytest.mark.parametrize(
    ("function", "exact", "dtype", "ulps"),
    [
        (vector_math.tanh32, np.tanh, np.float32, 3),
        (vector_math.tanh64, np.tanh, np.float64, 3),
        (vector_math.exp_negative, np.exp, np.float64, 2),
        (vector_math.expm1_negative, np.expm1, np.float64, 2),
        (vector_math.log1p_unit, np.log1p, np.float64, 2),
    ],
)
def test_precision_of_elementary_functions(function, exact, dtype, ulps):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 1, 100_000), rng.uniform(0, 20, 100_000), 10 ** rng.uniform(-30, 0, 100_000), [0.0]])
    if function is vector_math.log1p_unit:
        x = x[x <= 1.0]
    elif function in (vector_math.exp_negative, vector_math.expm1_negative):
        x = -np.append(x, rng.uniform(0, 700, 100_000))
    x = x.astype(dtype)
    out = np.empty_like(x)
    _over(function, x, out)
    assert _ulps(out, exact(x.astype(np.longdouble))) <= ulps
    if exact is np.tanh:
        mirrored = np.empty_like(x)
        _over(function, -x, mirrored)
        assert np.array_equal(mirrored, -out)
        special = np.array([np.nan, np.inf, -np.inf], dtype)
        _over(function, special, special)
        assert np.array_equal(special, [np.nan, 1.0, -1.0], equal_nan=True)


def test_rows_of_pairs_sum_to_the_loop():
    rng = np.random.default_rng(3)
    for n in (0, 1, 7, 33):
        t, weights = rng.normal(size=n) * 30, rng.integers(1, 4, n).astype(float)
        gradient = np.zeros(n)
        costs, forces = np.empty(n), np.empty(n)
        value, pull = from_python(pairwise._smooth_row)(LOGISTIC, 1.5, 0.25, t, weights, True, costs, forces, gradient)
        assert value == pytest.approx(
            math.fsum(w * np.logaddexp(0.0, -1.5 * (0.25 - a)) for w, a in zip(weights, t, strict=True))
        )
        assert pull == pytest.approx(gradient.sum())


def test_a_subclass_is_refused_since_rankers_would_ignore_what_it_overrides():
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Zero", (Surrogate,), {"value_and_gradient": lambda self, s, y: (0.0, s)})
