"""The contract, run over every public ranker and transformer; and every check, shown to catch what it is for."""

import contextlib
import importlib
import inspect
import math
import pkgutil
import types

import numpy as np
import pytest
from river import preprocessing

import online_rank
from online_rank import (
    PerceptronRanker,
    Ranker,
    StreamScaler,
    TorchRanker,
    measure,
    save,
)
from online_rank.base.transformer import QueryTransformer
from online_rank.checks import CheckFailed, check_ranker, check_transformer, yield_checks
from tests.models import HAS_TORCH, NOT_CHECKED, NOT_SAVED, REGISTRY, is_ranker, parts_of


@pytest.mark.parametrize("name", REGISTRY)
def test_contract(name):
    model = REGISTRY[name]()
    (check_ranker if is_ranker(model) else check_transformer)(model)


def test_every_public_class_is_in_the_registry():
    found = set()
    for info in pkgutil.walk_packages(online_rank.__path__, "online_rank."):
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            steps = inspect.isclass(value) and issubclass(value, Ranker | QueryTransformer) and not inspect.isabstract(value)
            if steps and not name.startswith("_") and value.__module__.startswith("online_rank"):
                found.add(value)
    assert PerceptronRanker in found
    assert StreamScaler in found
    if not HAS_TORCH:
        found.discard(TorchRanker)
    covered = {type(part) for make in REGISTRY.values() for part in parts_of(make())}
    assert sorted(cls.__name__ for cls in found - covered - NOT_CHECKED) == []


@pytest.mark.parametrize("name", REGISTRY)
def test_all_but_the_named_ones_can_be_saved(name, tmp_path):
    try:
        save(REGISTRY[name](), tmp_path / "model.npz")
    except TypeError:
        assert name in NOT_SAVED or "torch" in name or "pointwise" in name or "pairwise" in name
    else:
        assert name not in NOT_SAVED


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="check_ranker checks rankers"):
        check_ranker(StreamScaler())
    with pytest.raises(TypeError, match="check_transformer checks transformers"):
        check_transformer(StreamScaler() | PerceptronRanker())
    with pytest.raises(TypeError, match="check_transformer checks transformers"):
        check_transformer(preprocessing.StandardScaler())


class Plain(Ranker):
    """A correct ranker without any kernel: w += sum of (y_i - mean y) x_i. Each class below spoils one thing."""

    def __init__(self):
        super().__init__()
        self._weights = np.empty(0)

    def _grow(self, n_new):
        self._weights = np.concatenate([self._weights, np.zeros(n_new)])

    def _score(self, X):
        return np.array([math.fsum(w * x for w, x in zip(self._weights, row, strict=True)) for row in X.tolist()])

    def _learn(self, block, rounds):
        for t, query in enumerate(block.each()):
            rows, grades, w = query.X.astype(np.float64), query.y, query.w[0]
            if not ((np.abs(rows) < 1e100).all() and (grades >= 0).all() and 0 <= w < 1e100):
                return t
            loss = measure("ndcg@10").loss(self._score(rows), grades, ties="pessimistic")
            for row, grade in zip(rows, grades, strict=True):
                self._weights += 0.01 * w * (grade - grades.mean()) * row
            largest = max([0.0, *np.linalg.norm(rows, axis=1)])
            rounds[t] = loss, np.nan, 0.0, 0.0, 0.0, w, len(rows), largest, 0.0, False
        return len(block.w)


class Scores(Plain):
    def predict_one(self, x):
        return np.asarray(super().predict_one(x))


class ReadsOrder(Plain):
    def _score(self, X):
        return super()._score(X) + np.arange(len(X))


class ByName(Plain):
    def _learn(self, block, rounds):
        return super()._learn(block._replace(X=2 * block.X) if self.feature_names else block, rounds)


class NoFrames(Plain):
    def learn_one(self, x, y, w=1.0):
        if type(x).__name__ == "DataFrame":
            raise NotImplementedError("no frames")
        super().learn_one(x, y, w)


class NeedsTwo(Plain):
    def learn_one(self, x, y, w=1.0):
        if len(y) == 1:
            raise ValueError("one document")
        super().learn_one(x, y, w)


class CountsPredictions(Plain):
    n = 0

    def _score(self, X):
        self.n += 1
        return super()._score(X)


class KeepsInput(Plain):
    def learn_one(self, x, y, w=1.0):
        super().learn_one(x, y, w)
        self._last = y


class WritesToInput(Plain):
    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        if block.X.flags.writeable:
            block.X[:1] = 0.0
        return learned


class BlockAtOnce(Plain):
    def learn_many(self, X, y, qid, *, w=None):
        self.learn_one(X, y)


class LearnsBeforeItLooks(Plain):
    n = 0

    def learn_one(self, x, y, w=1.0):
        self.n += 1
        super().learn_one(x, y, w)


class Swallows(Plain):
    def learn_one(self, x, y, w=1.0):
        with contextlib.suppress(ValueError):
            super().learn_one(x, y, w)


class Vague(Plain):
    def learn_one(self, x, y, w=1.0):
        try:
            super().learn_one(x, y, w)
        except ValueError:
            raise ValueError("bad input") from None


class Amnesiac(Plain):
    def __getstate__(self):
        return {**vars(self), "_weights": np.zeros_like(self._weights)}


class TrustsOrder(Plain):
    def _align_and_grow(self, query):
        return super()._align_and_grow(query._replace(names=self.feature_names) if self.feature_names else query)


class Unseeded(Plain):
    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        self._weights = self._weights + np.random.default_rng().normal(size=self._weights.shape)
        return learned


class CastsToSingle(Plain):
    def _score(self, X):
        return super()._score(X) * (1.0 if X.dtype == np.float64 else 1.01)


class NeedsContiguous(Plain):
    def learn_one(self, x, y, w=1.0):
        if isinstance(x, np.ndarray) and not x.flags.c_contiguous:
            x = x[::-1]
        super().learn_one(x, y, w)


class KnowsAllFeatures(Plain):
    def predict_one(self, x):
        if isinstance(x, dict) and "i" in x and "never" in x["i"]:
            raise KeyError("never")
        return super().predict_one(x)


class WorstFirst(Plain):
    def rank_one(self, x):
        return super().rank_one(x)[::-1]


class ForgetsWeight(Plain):
    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        rounds[:, 5] = 1.0
        return learned


class Hoards(Plain):
    def __init__(self):
        super().__init__()
        self._losses = ()

    def _learn(self, block, rounds):
        self._losses = (*self._losses, *block.w)
        return super()._learn(block, rounds)


class GrowsWithoutMemory(Plain):
    def _grow(self, n_new):
        self._weights = np.zeros(len(self._weights) + n_new)


class GrowsInFront(Plain):
    def _grow(self, n_new):
        self._weights = np.concatenate([np.zeros(n_new), self._weights])


class IgnoresWeight(Plain):
    def _learn(self, block, rounds):
        w = block.w.copy()
        learned = super()._learn(block._replace(w=np.ones(len(w))), rounds) if np.isfinite(w).all() and (w >= 0).all() else 0
        rounds[:learned, 5] = w[:learned]
        return learned


class LearnsFromWeightZero(Plain):
    def _learn(self, block, rounds):
        w = block.w.copy()
        learned = super()._learn(block._replace(w=np.where(w == 0.0, 0.5, w)), rounds)
        rounds[:learned, 5] = w[:learned]
        return learned


class KeepsInfinity(Plain):
    def __init__(self):
        super().__init__()
        self._largest = np.zeros(1)

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        if learned:
            self._largest = self._largest + np.exp(np.minimum(np.abs(block.X).max(initial=0.0), 1000.0) - 300.0)
            self._largest = np.where(self._largest > 1e30, np.inf, self._largest)
        return learned


class InvertsTheLoss(Plain):
    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        rounds[:learned, 0] = 1.0 - rounds[:learned, 0]
        return learned


class MeasuresAfterwards(Plain):
    def _learn(self, block, rounds):
        for t, query in enumerate(block.each()):
            if not super()._learn(query, rounds[t : t + 1]):
                return t
            rounds[t, 0] = measure("ndcg@10").loss(self._score(query.X), query.y, ties="pessimistic")
        return len(block.w)


class Unlocked(Plain):
    def norm(self):
        return float(np.linalg.norm(self._weights))


class HoldsWithoutSharing(Plain):
    def __init__(self):
        super().__init__()
        self._spare = PerceptronRanker()


class NeedsAllFeatures(Plain):
    def predict_one(self, x):
        if isinstance(x, dict) and any(len(document) < 4 for document in x.values()):
            raise KeyError("clicks")
        return super().predict_one(x)


FAULTS = {
    Scores: "answers_in_kind",
    ReadsOrder: "permutation_equivariance",
    ByName: "forms_agree",
    NoFrames: "frames",
    NeedsTwo: "degenerate_queries",
    CountsPredictions: "prediction_is_pure",
    KeepsInput: "no_aliasing",
    WritesToInput: "no_aliasing",
    BlockAtOnce: "learn_many_is_the_loop",
    LearnsBeforeItLooks: "rejected_input_changes_nothing",
    Swallows: "rejected_input_changes_nothing",
    Vague: "rejected_input_changes_nothing",
    Amnesiac: "copies",
    TrustsOrder: "shuffled_features",
    Unseeded: "clones",
    CastsToSingle: "float32",
    NeedsContiguous: "arrays_of_all_kinds",
    KnowsAllFeatures: "unknown_features",
    WorstFirst: "ranking",
    ForgetsWeight: "last_round",
    Hoards: "bounded_memory",
    GrowsWithoutMemory: "late_features",
    GrowsInFront: "late_features",
    IgnoresWeight: "sample_weights",
    LearnsFromWeightZero: "sample_weights",
    KeepsInfinity: "finite_state",
    InvertsTheLoss: "honest_loss",
    MeasuresAfterwards: "honest_loss",
    Unlocked: "methods_hold_the_lock",
    HoldsWithoutSharing: "one_lock",
    NeedsAllFeatures: "river.check_disappearing_features",
}


def failed(model):
    names = []
    for check in yield_checks(model):
        try:
            check()
        except CheckFailed as error:
            names.append(str(error).removeprefix(f"{type(model).__name__} fails ").partition(": ")[0])
    return names


def test_a_correct_ranker_of_the_users_own_passes():
    assert failed(Plain()) == []


@pytest.mark.parametrize("cls", FAULTS, ids=lambda cls: cls.__name__)
def test_every_fault_is_found(cls):
    assert FAULTS[cls] in failed(cls())


def test_every_check_of_ours_finds_a_fault():
    ours = {check.name for check in yield_checks(Plain()) if not check.name.startswith("river.")}
    assert ours - set(FAULTS.values()) == {"files"}  # A class of the user's own cannot be saved; see below.


def test_files_that_lose_something_are_found(monkeypatch):
    from online_rank.storage import files

    def lossy(path):
        model = load(path)
        model._counters = np.zeros_like(model._counters)
        return model

    load = files.load
    monkeypatch.setattr(files, "load", lossy)
    assert failed(PerceptronRanker()) == ["files"]


class Faulty(QueryTransformer):
    """A transformer with a fault of choice."""

    def __init__(self, fault="none"):
        super().__init__()
        self.fault = fault
        self._seen = 0

    def _transform_block(self, block):
        if not np.isfinite(block.X).all():
            raise ValueError("x: feature 'bm25' of document 'doc2' is not finite")
        if self.fault == "impure":
            self._seen += 1
        return block._replace(X=block.X + (np.arange(len(block.X))[:, None] if self.fault == "order" else 0.0))

    def _learn_block(self, block):
        if self.fault == "learns first":
            self._seen += 1
            return types.SimpleNamespace()
        self._seen += len(block.w) if self.fault != "block" else 1
        return self._transform_block(block)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("impure", "prediction_is_pure"),
        ("order", "permutation_equivariance"),
        ("block", "learn_many_is_the_loop"),
        ("learns first", "rejected_input_changes_nothing"),
    ],
)
def test_faults_of_transformers_are_found(fault, check):
    assert failed(Faulty()) == []
    assert check in failed(Faulty(fault))
