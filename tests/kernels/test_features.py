"""Kinds of features: the same documents as an array and as sparse rows, and how a verb finds the kernel of a kind."""

import inspect
from typing import NamedTuple

import numba
import numpy as np
import pytest

from online_rank import ClickPerceptron, FairPairs, GradientRanker, PerceptronRanker, PlackettLuce, SlamRanker, SwapRanker
from online_rank._kernels import features
from online_rank._kernels._jit import Verb, _teach_numba, leaf
from online_rank.query import SparseRows

VERBS = {name: value for name, value in vars(features).items() if isinstance(value, Verb)}


def as_sparse(X):
    """The same documents as sparse rows."""
    i, j = X.nonzero()
    starts = np.searchsorted(i, np.arange(len(X) + 1))
    return SparseRows(starts, j.astype(np.int32), X[i, j], X.shape[1])


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_the_same_arguments_for_each_kind(name):
    verb = VERBS[name]
    assert verb.name == name
    modules = {*features.KINDS.values()}
    kernels = [getattr(module, name) for module in modules]
    assert {verb.choose.dispatch(kind) for kind in features.KINDS} == {*kernels}
    # Entries of an object file have no signature.
    functions = [getattr(kernel, "py_func", kernel) for kernel in kernels]
    counts = {len(inspect.signature(function).parameters) for function in functions if inspect.isfunction(function)}
    assert len(counts) <= 1


class Pair(NamedTuple):
    one: float
    other: float


class Sum(Pair):
    """A kind derived from another one, which has its kernels."""


@leaf
def _of_array(x, factor):
    return x[0] * factor


@leaf
def _of_pair(pair, factor):
    return (pair.one + pair.other) * factor


FIRST = Verb("first", {np.ndarray: _of_array, Pair: _of_pair})


def _doubled(x):
    return FIRST(x, 2.0)


@pytest.mark.parametrize("x", [np.array([3.0]), Pair(1.0, 2.0), Sum(1.0, 2.0)], ids=["array", "pair", "derived"])
def test_the_class_of_the_first_argument_decides(x):
    _teach_numba()
    assert numba.njit(_doubled)(x) == 6.0


def test_a_kind_without_the_verb_is_refused():
    _teach_numba()
    with pytest.raises(TypeError, match="no kernel of this verb is for tuple"):
        _doubled((1.0, 2.0))
    with pytest.raises((numba.core.errors.NumbaError, ValueError)):
        numba.njit(_doubled)((1.0, 2.0))


@pytest.mark.parametrize(
    "make",
    [
        PerceptronRanker,
        lambda: PerceptronRanker(credit="argmax", half_life=0),
        lambda: PerceptronRanker(half_life=2, served="average"),
        SlamRanker,
        GradientRanker,
        lambda: GradientRanker("logistic", optimizer="adagrad", half_life=3),
    ],
)
def test_kinds_learn_the_same(make):
    rng = np.random.default_rng(4)
    models = make(), make()
    for _ in range(30):
        X = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.4)
        y = rng.integers(0, 3, 7)
        for model, x in zip(models, (X, as_sparse(X)), strict=True):
            model.learn_one(x, y)
    one, other = models
    assert one.last_round.loss == other.last_round.loss
    assert one.weights.any()
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.served_weights, other.served_weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "make", [lambda: SwapRanker(policy=PlackettLuce(seed=1)), lambda: ClickPerceptron(policy=FairPairs(seed=1))]
)
def test_kinds_learn_the_same_from_clicks(make):
    rng = np.random.default_rng(5)
    models = make(), make()
    for _ in range(30):
        X = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.4)
        place = rng.integers(0, 7)
        for model, x in zip(models, (X, as_sparse(X)), strict=True):
            shown = model.show_one(x)
            model.learn_one(x, shown.clicked([shown.order[place]]))
    one, other = models
    assert one.weights.any()
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9, atol=1e-12)
