"""The closed form of a model compared with the model."""

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickBlendRanker,
    DirectRanker,
    ForEachDocument,
    GradientRanker,
    HashedFeatures,
    KernelPerceptronRanker,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.base.closed import form_of
from online_rank.base.form import Take, Tree, first_at_least, full_tree, sources_of
from online_rank.rankers.click_trees import ClickTrees
from tests.reference.forms import columns, leaf, scores

MODELS = {
    "perceptron": lambda: PerceptronRanker(),
    "perceptron behind a scaler": lambda: StreamScaler() | PerceptronRanker(),
    "centred only": lambda: StreamScaler(with_std=False) | PerceptronRanker(),
    "gradient behind two scalers": lambda: StreamScaler() | MaxAbsStreamScaler() | GradientRanker("logistic"),
    "ridge behind a scaler": lambda: StreamScaler() | RidgeRanker(),
    "perceptron on quantiles": lambda: StreamQuantileMap() | PerceptronRanker(),
    "standard in the query": lambda: QueryNormalizer() | PerceptronRanker(),
    "minmax in the query": lambda: QueryNormalizer("minmax") | PerceptronRanker(),
    "trees on quantiles": lambda: StreamQuantileMap() | ClickTrees(),
    "trees behind a scaler": lambda: StreamScaler() | ClickTrees(),
    "network": lambda: StreamScaler() | DirectRanker(dtype="float64"),
    "curves": lambda: AdditiveRanker(relative=False),
    "curves and ranks": lambda: AdditiveRanker(),
    "blend of clicks": lambda: ClickBlendRanker(relative=False),
    "blend of clicks with ranks": lambda: ClickBlendRanker(),
    "blend of pipelines": lambda: BlendRanker([StreamScaler() | PerceptronRanker(), StreamScaler() | RidgeRanker()]),
    "tracked": lambda: StreamScaler() | LossTracker(PerceptronRanker()),
}


def queries(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(2, 12))
        X = np.column_stack([rng.normal(size=(m, d - 2)), np.exp(2 * rng.normal(size=m)), rng.integers(0, 3, m)])
        yield X, np.digitize(X[:, 0] + 0.3 * np.log1p(X[:, -2]) + rng.normal(size=m), [0.5, 1.5])


def dicts(X):
    return [{f"x{j}": value for j, value in enumerate(row)} for row in X.tolist()]


@pytest.mark.first(3)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_form_scores_as_the_model_does(name, named):
    model = MODELS[name]()
    for t, (X, y) in enumerate(queries()):
        model.learn_one(dicts(X if t else X[:, ::-1]) if named else X, y)
    form = form_of(model)
    if named:
        assert sorted(form.names) == ["x0", "x1", "x2", "x3", "x4"]
    for X, _ in queries(10, seed=1):
        X = np.concatenate([X, [[1e9, -1e9, 0.0, 0.0, 0.0]]])
        order = [int(name[1:]) for name in form.names] if named else range(5)
        expected = model.predict_one(dicts(X) if named else X)
        # Maps of quantiles give single precision.
        tolerance = 2e-6 if "StreamQuantileMap" in str(model) or name.startswith(("blend", "curves")) else 1e-9
        np.testing.assert_allclose(scores(form, X[:, order]), expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(form(X[:, order]), scores(form, X[:, order]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_every_column_goes_back_to_its_feature(name):
    model = MODELS[name]()
    for X, y in queries():
        model.learn_one(X, y)
    form = form_of(model)
    sources = sources_of(form.layers, form.n_features)
    X, _ = next(queries(1, seed=3))
    X[0, 0] = np.nan if form.takes_missing else X[0, 0]
    before = columns(form.layers, X)
    for j in range(form.n_features):
        changed = X.copy()
        changed[0, j] += 1.0
        moved = (np.nan_to_num(columns(form.layers, changed)) != np.nan_to_num(before)).any(axis=0)
        assert set(np.flatnonzero(moved)) <= set(np.flatnonzero(sources == j))


def test_features_that_a_ranker_has_not_met_do_not_count():
    scaler, ranker = StreamScaler(), PerceptronRanker.from_weights({"a": 2.0})
    scaler.learn_one([{"b": 0.0, "a": 0.0}, {"b": 2.0, "a": 4.0}])
    form = form_of(scaler | ranker)
    assert [type(layer) for layer in form.layers][1:] == [Take]
    assert scores(form, np.array([[7.0, 4.0]])).tolist() == [2.0 * (4.0 - 2.0) / 2.0]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (HashedFeatures(16) | PerceptronRanker(), "HashedFeatures has no closed form"),
        (KernelPerceptronRanker(), "KernelPerceptronRanker has no closed form"),
        (StreamScaler() | KernelPerceptronRanker(), "KernelPerceptronRanker has no closed form"),
    ],
)
def test_what_has_no_form_is_named(model, reason):
    for X, y in queries(5):
        model.learn_one(dicts(X), y)
    with pytest.raises(TypeError, match=reason):
        form_of(model)


def test_lifted_transformers_have_no_form():
    from river import preprocessing

    model = ForEachDocument(preprocessing.StandardScaler()) | SwapRanker()
    with pytest.raises(ValueError, match="has met no feature"):
        form_of(model)
    model = ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker()
    for X, y in queries(5):
        model.learn_one(X, y)
    with pytest.raises(TypeError, match="ForEachDocument has no closed form"):
        form_of(model)


def test_a_full_tree_by_hand():
    # Node 1 does not split; column 0 decides at the root, column 1 at node 2.
    tree = full_tree(np.array([0, 9, 1]), np.array([0.5, np.inf, -1.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert isinstance(tree, Tree)
    X = np.array([[0.4, 0.0], [0.5, -2.0], [0.5, -1.0]])
    assert [leaf(tree, x) for x in X] == [1.0, 3.0, 4.0]


def test_the_first_float_that_reaches_a_target():
    targets = np.array([0.0, 1.0, 2.0, 3.0])
    found = first_at_least(lambda x: np.clip(np.floor(x / 0.1), -1.0, 2.0), targets)
    assert found[3] == np.inf
    for x, target in zip(found[:3], targets, strict=False):
        assert np.floor(x / 0.1) >= target > np.floor(np.nextafter(x, -np.inf) / 0.1)
