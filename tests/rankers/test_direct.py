import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import load, save
from online_rank._kernels import network as network_kernels
from online_rank._kernels.codes import ACTIVATIONS
from online_rank._kernels.optimizers import descend as inner_descend
from online_rank.base.schema import declared_state
from online_rank.rankers.breaks import natural_breaks
from online_rank.rankers.direct import DirectRanker
from online_rank.surrogates import Surrogate
from tests.helpers import as_block, linear_queries, state_of
from tests.kernels.calling import Module, from_python
from tests.reference import direct as reference
from tests.reference.optimizers import OPTIMIZERS

network, descend = Module(network_kernels), from_python(inner_descend)

COSTS = ["squared", "logistic", "lambdarank", "listnet", "slam", "hinge"]
#: Kernels of float64 take ten seconds to compile.
IN_FLOAT64 = pytest.param("float64", marks=pytest.mark.slow)
OUTPUTS = ["identity", "tanh", "half_tanh"]
# A lively network: the first weights of a new one are small.
small = {"hidden": (6, 3), "learning_rate": 0.05, "half_life": 0, "seed": 0}


def trained(queries=None, **arguments):
    model = DirectRanker(**{**small, **arguments})
    model.learn_many(*as_block(queries or linear_queries(20)))
    return model


@pytest.mark.parametrize("hidden", [(1,), (9, 4), (5, 8, 2)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float32", IN_FLOAT64])
def test_scores_equal_the_network(hidden, activation, dtype):
    for d in (1, 4, 7):
        model = trained(linear_queries(20, d), hidden=hidden, activation=activation, dtype=dtype)
        X = np.random.default_rng(d).normal(size=(9, d))
        expected = [reference.score(x, declared_state(model).weights, model._widths.tolist(), activation) for x in X]
        assert model.predict_one(X) == pytest.approx(expected, rel=1e-12 if dtype == "float64" else 1e-4, abs=1e-6)
        if activation == "tanh":
            widths = [X.shape[1], *model.hidden]
            n = sum(above * (below + 1) for below, above in itertools.pairwise(widths)) + widths[-1]
            assert np.count_nonzero(declared_state(model).weights) == n


def plain_steps(model):
    """Let the model continue with steps of gradient descent of size 1, which keep nothing."""
    model._config[0], model._constants[0] = 0, 1.0
    model._state = declared_state(model).state[:0]


def first_step(surrogate, query, **arguments):
    """A float64 model, and its parameters before and after one step of gradient descent of size 1 on `query`."""
    model = copy.deepcopy(trained(surrogate=surrogate, dtype="float64", **arguments))
    plain_steps(model)
    before = declared_state(model).weights.copy()
    model.learn_one(*query)
    return model, before, declared_state(model).weights


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", COSTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_step_is_the_gradient_of_finite_differences(surrogate, activation):
    X, y = np.random.default_rng(8).normal(size=(11, 4)), np.array([0, 2, 1, 0, 0, 1, 3, 0, 2, 0, 0])
    model, before, after = first_step(surrogate, (X, y), activation=activation)
    surrogate = Surrogate(surrogate, pair_weight="difference")

    def value(parameters):
        scores = np.empty(len(X))
        network.score(X, parameters, model._widths, ACTIVATIONS.index(activation), scores)
        return surrogate.value(scores, y)

    gradient = np.array(reference.gradient(value, before))
    # Units that only fill up have no weights, which must stay so, and no biases either.
    gradient[before == 0.0] = 0.0
    assert before - after == pytest.approx(gradient, abs=1e-6 * (1.0 + np.abs(gradient).max()))
    assert model.last_round.squared_gradient_norm == pytest.approx(gradient @ gradient, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_optimizers_in_either_precision(name, dtype):
    rng = np.random.default_rng(0)
    parameters, kept = np.zeros(20, dtype), np.zeros((2, 20), dtype)
    twins = [OPTIMIZERS[name](0.1) for _ in range(20)]
    for step in range(1, 30):
        gradient = (rng.normal(size=20) * 10.0 ** np.linspace(-6, 6, 20)).astype(dtype)
        gradient[3] = 0.0
        descend(list(OPTIMIZERS).index(name), 0.1, step, gradient, parameters, kept)
        for twin, g in zip(twins, gradient.tolist(), strict=True):
            twin.step(g)
    expected = np.array([twin.value for twin in twins])
    assert parameters == pytest.approx(expected, rel=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.first(4)
@pytest.mark.parametrize(("surrogate", "output"), list(itertools.product(COSTS, OUTPUTS)))
@settings(max_examples=8)
@given(st.integers(0, 50), st.sampled_from(ACTIVATIONS), st.sampled_from([1e-3, 1.0, 1e3]))
def test_comparisons_are_an_order(surrogate, output, seed, activation, scale):
    model = trained(linear_queries(5, seed=seed), surrogate=surrogate, output=output, activation=activation)
    rng = np.random.default_rng(seed)
    documents = np.append(scale * rng.normal(size=(5, 4)), np.zeros((2, 4)), axis=0)
    r = [[model.compare_one(a, b) for b in documents] for a in documents]
    for i, j, k in itertools.product(range(7), repeat=3):
        assert r[i][j] == -r[j][i]
        if r[i][j] >= 0 and r[j][k] >= 0:
            assert r[i][k] >= 0
        assert (r[i][j] > 0) <= (model.predict_one(documents[[i, j]])[0] > model.predict_one(documents[[i, j]])[1])
    assert all(r[i][i] == 0.0 for i in range(7))
    assert r[5][6] == 0.0
    bound = math.inf if output == "identity" else 1.0
    assert all(abs(value) <= bound for row in r for value in row)


def test_ranknet_is_half_tanh_with_the_logistic_cost():
    log_odds, probability, steeper = (trained(surrogate="logistic", output=output) for output in [*OUTPUTS[::2], "tanh"])
    assert np.array_equal(declared_state(log_odds).weights, declared_state(probability).weights)
    assert not np.array_equal(declared_state(log_odds).weights, declared_state(steeper).weights)
    a, b = np.random.default_rng(0).normal(size=(2, 4))
    x = log_odds.compare_one(a, b)
    # Half of 1 + r is the probability that a is better.
    assert (1 + probability.compare_one(a, b)) / 2 == pytest.approx(1 / (1 + math.exp(-x)))


@pytest.mark.parametrize("surrogate", COSTS)
def test_the_cost_falls_on_a_fixed_query(surrogate):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 5))
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.0, 1.5])
    model = DirectRanker((16, 4), surrogate=surrogate, learning_rate=5e-3, half_life=0, seed=1)
    cost = Surrogate(surrogate, pair_weight="difference")
    values = []
    for _ in range(500):
        model.learn_one(X, y)
        values.append(cost.value(model.predict_one(X), y))
    assert values[-1] < values[30] < values[0]
    assert model.last_round.loss < 0.2


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        pytest.param({"dtype": "float64", "half_life": 5.0}, marks=pytest.mark.slow),
        {"half_life": None, "surrogate": "logistic"},
        {"optimizer": "adagrad", "l2": 0.1, "activation": "relu", "half_life": 0},
        {"optimizer": "sgd"},
    ],
)
def test_a_block_is_the_loop_bit_for_bit_and_a_seed_decides_all(arguments):
    queries = linear_queries(25)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(queries))
    one, many, other = (DirectRanker(**{**small, **arguments, "seed": seed}) for seed in (4, 4, 5))
    for (X, y), w in zip(queries, weights, strict=True):
        one.learn_one(X, y, w)
    many.learn_many(*as_block(queries), w=weights)
    other.learn_many(*as_block(queries), w=weights)
    assert state_of(one) == state_of(many)
    assert declared_state(one).weights.tobytes() != declared_state(other).weights.tobytes()
    together = one.predict_many(*as_block(queries)[::2])
    assert together.tolist() == [score for X, _ in queries for score in one.predict_one(X)]
    for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        twin.learn_one(*queries[0])
        many.learn_one(*queries[0])
        assert declared_state(twin).weights.tobytes() == declared_state(many).weights.tobytes()
        many = copy.deepcopy(one)


@pytest.mark.slow
def test_served_parameters_are_the_average():
    model = DirectRanker(**{**small, "half_life": None}, dtype="float64")
    visited = []
    for query in linear_queries(12):
        model.learn_one(*query)
        if not model.last_round.skipped:
            visited.append(declared_state(model).weights.copy())
    assert declared_state(model).average == pytest.approx(np.mean(visited, axis=0), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_depends_on_its_document_alone_to_the_last_bit(dtype):
    model = trained(linear_queries(20, 13), hidden=(20, 3), dtype=dtype)
    X = np.random.default_rng(0).normal(size=(200, 13))
    scores = model.predict_many(X)
    for m in range(1, 20):
        assert np.array_equal(model.predict_many(X[m : 2 * m + 3]), scores[m : 2 * m + 3])
    order = np.random.default_rng(1).permutation(200)
    assert np.array_equal(model.predict_many(X[order]), scores[order])
    assert model.predict_one(np.asfortranarray(X)) == scores.tolist()


@pytest.mark.parametrize("arguments", [{}, {"activation": "relu"}, {"half_life": None}])
def test_rejected_queries_leave_no_trace(arguments):
    queries = linear_queries(5)
    model = trained(queries, **arguments)
    before = state_of(copy.deepcopy(model))
    X, y = queries[0]
    y = np.arange(len(y)) % 2
    bad = X.copy()
    bad[-1, 2] = np.nan
    for x, w, message in (
        (bad, 1.0, f"feature 2 of document {len(X) - 1}"),
        (X, math.inf, "w is"),
        (X * 1e300, 1.0, "non-finite"),
    ):
        with pytest.raises(ValueError, match=message):
            model.learn_one(x, y, w=w)
    with pytest.raises(ValueError, match="feature 2"):
        model.compare_one(X[0], bad[-1])
    assert state_of(model) == before


def test_features_that_emerge_change_no_score():
    rng = np.random.default_rng(0)
    for arguments in ({}, {"half_life": None}, {"optimizer": "sgd"}):
        model = DirectRanker(**{**small, **arguments})
        for _ in range(20):
            x = [{"a": rng.normal(), "b": rng.normal()} for _ in range(5)]
            model.learn_one(x, [int(document["a"] > 0) for document in x])
        before = model.predict_one(x)
        wider = [{"c": 7.0 * i, **document, "d": 1.0} for i, document in enumerate(x)]
        assert model.predict_one(wider) == before
        model.learn_one(wider, [1] * 5)
        assert model.predict_one(wider) == before
        for _ in range(2):
            model.learn_one(wider, [0, 0, 1, 1, 2])
        assert model.feature_names == ("a", "b", "c", "d")
        assert model.predict_one(wider) != before
        model.learn_one({1: {"d": 1.0}, 2: {}}, {1: 0, 2: 1})


def test_saved_and_loaded_it_continues_alike(tmp_path):
    model = DirectRanker(**{**small, "half_life": 5.0})
    rng = np.random.default_rng(0)
    queries = [[{name: rng.normal() for name in names} for _ in range(4)] for names in ("ab", "bc", "abcd", "ad", "cd")]
    for x in queries:
        model.learn_one(x, [0, 1, 0, 2])
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for x in queries:
        assert again.predict_one(x) == model.predict_one(x)
        again.learn_one(x, [1, 1, 0, 2])
        model.learn_one(x, [1, 1, 0, 2])
    assert state_of(again) == state_of(model)


def test_segments_and_gaps():
    model = trained(linear_queries(200, d=1), hidden=(8,))
    rng = np.random.default_rng(0)
    X = (np.repeat([-1.5, 0.0, 1.5], 20) + 0.02 * rng.normal(size=60))[:, None]
    scores = np.array(model.predict_one(X))
    grades = np.repeat([0, 1, 2], 20)
    expected = grades if scores[-1] > scores[0] else 2 - grades
    # The model has learned from queries with up to three grades.
    assert model.segment_one(X) == expected.tolist()
    assert model.segment_one(X, 3) == expected.tolist()
    assert model.segment_one(X, 1) == [0] * 60
    assert set(model.segment_one(X, 100)) == set(range(60))
    gaps = model.neighbour_gaps_one(X)
    ranked = [scores[i] for i in model.rank_one(X)]
    assert gaps == [a - b for a, b in itertools.pairwise(ranked)]
    assert sorted(np.argsort(gaps)[-2:].tolist()) == [19, 39]
    half = trained(linear_queries(200, d=1), hidden=(8,), surrogate="squared", output="half_tanh")
    assert all(0.0 <= gap < 1.0 for gap in half.neighbour_gaps_one(X))
    assert model.segment_one(np.ones((4, 1)), 3) == [0, 0, 0, 0]
    assert model.segment_one(np.ones((4, 1))) == [0, 0, 0, 0]
    assert model.segment_one(np.empty((0, 1))) == model.neighbour_gaps_one(np.empty((0, 1))) == []
    assert model.segment_one(np.ones((1, 1))) == [0]
    assert model.neighbour_gaps_one(np.ones((1, 1))) == []
    with pytest.raises(ValueError, match="n_grades"):
        model.segment_one(X, 0)
    named = DirectRanker(**small)
    assert named.segment_one([{"f": 1.0}, {"f": 2.0}]) == [0, 0]
    named.learn_one({"a": {"f": 1.0}, "b": {"f": 0.0}}, {"a": 1, "b": 0})
    assert named.segment_one({"a": {"f": 1.0}, "b": {"f": 0.0}}) == {"a": 1, "b": 0}
    assert named.compare_one({"f": 1.0}, {"f": 0.0}) > 0


@settings(max_examples=60)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8), st.integers(1, 5))
def test_natural_breaks_are_the_best_of_all_cuts(values, n_groups):
    def spread(cuts):
        parts = [part for part in np.split(np.sort(values), cuts) if len(part)]
        return sum(((part - part.mean()) ** 2).sum() for part in parts)

    best = min(spread(cuts) for cuts in itertools.combinations_with_replacement(range(len(values) + 1), n_groups - 1))
    groups = natural_breaks(np.array(values, dtype=float), n_groups)
    found = sum(((part - part.mean()) ** 2).sum() for part in (np.array(values)[groups == g] for g in set(groups)))
    assert found == pytest.approx(best, abs=1e-9)
    assert len(set(groups)) == min(n_groups, len(set(values)))
    assert all((groups[i] < groups[j]) <= (values[i] < values[j]) for i, j in itertools.permutations(range(len(values)), 2))


def test_degenerate_queries():
    model = DirectRanker(**small)
    for X, y in [(np.empty((0, 3)), []), (np.ones((1, 3)), [2]), (np.ones((4, 3)), [1, 1, 1, 1])]:
        before = declared_state(model).weights.tobytes() if model.n_features else None
        model.learn_one(X, y)
        assert model.last_round.skipped
        assert before is None or declared_state(model).weights.tobytes() == before
    model.learn_one(np.ones((4, 3)), [1, 1, 0, 0])
    assert model.last_round.loss > 0
    before = declared_state(model).weights.tobytes()
    model.learn_one(np.eye(3), [0, 1, 2], w=0.0)
    assert declared_state(model).weights.tobytes() == before
    assert model.clone().n_features == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"hidden": ()},
        {"hidden": (5, 0)},
        {"activation": "gelu"},
        {"output": "sigmoid"},
        {"surrogate": "mse"},
        {"optimizer": "scale_free"},
        {"learning_rate": 0.0},
        {"l2": math.nan},
        {"measure": "mrr"},
        {"half_life": -1.0},
        {"dtype": "float16"},
    ],
)
def test_bad_arguments_are_named(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        DirectRanker(**arguments)
