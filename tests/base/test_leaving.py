"""Features leave: a model knows `max_features` at most, and what it keeps is what it knew before."""

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    GradientRanker,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.base.reader import columns_of
from online_rank.base.schema import declared_state
from online_rank.storage.files import from_bytes, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore:.*least recently used leave.*:UserWarning")


def stream(n, seed=0, m=4, per_document=3):
    """Queries over names of which a few are in use at a time: most of the 20 latest, and three that stay."""
    rng = np.random.default_rng(seed)
    for t in range(n):
        names = [*("abc"), *(f"item {j}" for j in rng.integers(t, t + 20, m))]
        yield [{name: float(rng.normal()) for name in rng.choice(names, per_document)} for _ in range(m)], rng.integers(0, 3, m)


class Recent:
    """Names by their last use, as slowly as can be."""

    def __init__(self, most):
        self.most, self.last, self.t = most, {}, 0

    def meet(self, names):
        """The names that leave when the names of a query come."""
        self.t += 1
        new = [name for name in names if name not in self.last]
        beyond = len(self.last) + len(new) - self.most
        gone = []
        if beyond > 0:
            others = [name for name in self.last if name not in names]
            gone = sorted(others, key=lambda name: self.last[name])[: max(beyond, self.most // 8)]
            for name in gone:
                del self.last[name]
        self.last |= dict.fromkeys(names, self.t)
        return gone


@pytest.mark.parametrize(
    "kind", [PerceptronRanker, lambda: GradientRanker("lambdarank", optimizer="adam")], ids=["perceptron", "gradient"]
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_leaves_is_least_recently_used_and_what_stays_is_projected(kind, is_sparse):
    """A twin without a bound, whose weights of features that leave are set to 0: the projection on the features that stay."""
    both = model, twin = kind(), kind()
    recent = Recent(24)
    model.max_features = 24
    if is_sparse:
        for each in both:
            each._make_sparse()
    for x, y in stream(120):
        names = list(dict.fromkeys(name for document in x for name in document))
        gone = recent.meet(names)
        columns = columns_of(twin, tuple(gone)) if gone else []
        for array in (declared_state(twin).weights, declared_state(twin).average, getattr(twin, "_state", np.zeros((0, 0))).T):
            if len(array):
                array[columns] = 0.0
        if declared_state(twin).rows is not None:
            declared_state(twin).rows[columns] = 0.0
        model.learn_one(x, y)
        twin.learn_one(x, y)
        assert set(model.feature_names) == set(recent.last)
        for values in ("weights", "served_weights"):
            mine, others = (dict(zip(each.feature_names, getattr(each, values).tolist(), strict=True)) for each in both)
            assert mine == pytest.approx({name: others[name] for name in mine}, rel=1e-12, abs=1e-14)
    assert model.n_features <= 24
    assert model.n_left_features > 60


MODELS = {
    "perceptron": PerceptronRanker,
    "gradient": lambda: GradientRanker("lambdarank", optimizer="adam"),
    "scaler": lambda: StreamScaler() | PerceptronRanker(),
    "largest": lambda: MaxAbsStreamScaler() | PerceptronRanker(),
    "map": lambda: StreamQuantileMap() | PerceptronRanker(),
    "additive": AdditiveRanker,
}


def bounded(make, most=24):
    model = make()
    steps = [*model.steps.values()] if hasattr(model, "steps") else [model]
    for step in steps:
        # The map makes two columns of each feature.
        step.max_features = most * (1 + (step._is_ranker and type(steps[0]) is StreamQuantileMap))
    return model


@pytest.mark.first(1)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_files_continue_and_refused_queries_change_nothing(make):
    model = bounded(make)
    for t, (x, y) in enumerate(stream(60)):
        if t % 7 == 3:
            before, again = to_bytes(model), from_bytes(to_bytes(model))
            for bad in ([{**x[0], "new": np.inf}, *x[1:]], [{**x[0], **{f"new {j}": 1.0 for j in range(9)}}, {"a": -np.inf}]):
                with pytest.raises(ValueError, match="inf"):
                    model.learn_one(bad, y[: len(bad)])
                assert to_bytes(model) == before
            again.learn_one(x, y)
            model.learn_one(x, y)
            assert to_bytes(again) == to_bytes(model)
        else:
            model.learn_one(x, y)
        scores = model.predict_one(x)
        assert np.isfinite(scores).all()
    steps = [*model.steps.values()] if hasattr(model, "steps") else [model]
    assert all(step.n_features <= step.max_features for step in steps)
    assert all(step.n_left_features for step in steps)


def test_curves_of_what_stays_are_as_before():
    model = bounded(AdditiveRanker)
    for x, y in stream(40):
        model.learn_one(x, y)
    kept = [[dict(zip("abc", values, strict=True))] for values in np.random.default_rng(3).normal(size=(5, 3)).tolist()]
    before = [model.curve(name)[1] for name in "abc"]
    columns = np.sort(declared_state(model).columns.of(("a", "b", "c")))
    model._keep_only(columns)
    model._columns = type(declared_state(model).columns)(declared_state(model).columns.names[j] for j in columns)
    model._n_features, model._used = 3, declared_state(model).used[columns]
    for name, curve in zip("abc", before, strict=True):
        assert np.array_equal(model.curve(name)[1], curve)
    model._check_state()
    assert all(np.isfinite(model.predict_one(x)).all() for x in kept)
    gram = np.zeros((len(declared_state(model).pending),) * 2)
    gram[np.triu_indices(len(gram))] = declared_state(model).gram
    assert (np.linalg.eigvalsh(gram + gram.T - np.diag(gram.diagonal())) > -1e-9).all()


def learn(model, queries):
    for x, y in queries:
        model.learn_one(x, y)


def test_it_warns_once_and_counts():
    model = PerceptronRanker()
    model.max_features = 4
    queries = [([{f"n{t}": 1.0, "a": 2.0}, {"a": 1.0}], [1, 0]) for t in range(8)]
    with pytest.warns(UserWarning, match="takes, 4 .attribute max_features.: the least recently used leave") as told:
        learn(model, queries)
    assert len(told) == 1
    assert model.feature_names == ("a", "n5", "n6", "n7")
    assert (model.n_left_features, model.n_ignored_features) == (5, 0)


@pytest.mark.parametrize("most", [0, -3, 2.5, True, "9", None])
@pytest.mark.parametrize("x", [[{"a": 1.0}, {"a": 2.0}], np.ones((2, 3))], ids=["dicts", "array"])
def test_a_bad_number_of_features_is_refused_where_it_is_used(most, x):
    model = PerceptronRanker()
    model.max_features = most
    with pytest.raises((TypeError, ValueError), match="max_features is"):
        model.learn_one(x, [0, 1])
    assert model.n_features == 0


def test_one_query_with_more_names_than_room_has_the_rest_ignored():
    model = PerceptronRanker()
    model.max_features = 3
    with pytest.warns(UserWarning, match="new ones are ignored"):
        model.learn_one([dict.fromkeys("abcde", 1.0), {}], [1, 0])
    assert (model.feature_names, model.n_ignored_features) == (("a", "b", "c"), 2)


def test_under_a_tracker_nothing_leaves():
    """Its account is of fixed columns, so its bounds hold for every comparator."""
    model = LossTracker(PerceptronRanker())
    model.max_features = 4
    queries = [([{f"n{t}": 1.0, "a": 2.0}, {"a": 1.0}], [1, 0]) for t in range(8)]
    with pytest.warns(UserWarning, match="new ones are ignored"):
        learn(model, queries)
    assert set(model.feature_names) == {"a", "n0", "n1", "n2"}


def test_the_default_takes_documents_with_few_of_many_names():
    """They are missing there: as in a twin that gets every document with all names, None where it has no value."""
    model, twin = AdditiveRanker(), AdditiveRanker()
    names = [f"item {j}" for j in range(300)]
    whole = [{name: float(i % 3) if i % 7 else None for i, name in enumerate(names)}, dict.fromkeys(names, 1.0)]
    few = [{"item 1": 2.0, "item 2": 1.0}, {"item 2": 3.0}, {"item 3": 1.0}]
    for each, x in ((model, few), (twin, [{**dict.fromkeys(names), **document} for document in few])):
        each.learn_one(whole, [0, 1])
        each.learn_one(x, [2, 0, 1])
    assert model.predict_one(few) == twin.predict_one(few)
