"""Faults planted in a ranker that is otherwise correct, and the check that finds each.

Each class below `Plain` has one fault that an author of a ranker could make.
"""

import contextlib
import math
import re
import sys
import types
from pathlib import Path

import numpy as np

from online_rank import PerceptronRanker, Ranker, measure
from online_rank.base import Reader

#: A line of the ranker that docs/extending.md shows, and a bug that the issues of this library knew by name.
_RIGHT = "self._weights = np.append(self._weights, np.zeros(n_new))"
_WRONG = "self._weights = np.zeros(len(self._weights) + n_new)"


def documented_ranker(*, spoiled: bool) -> type:
    """The ranker that the documentation shows, with or without the bug."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    source = next(code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Rocchio" in code)
    source = source[: source.index("model = ")].replace('@register("docs.rocchio")\n', "")
    assert _RIGHT in source
    # A module, since pickles name the module of a class.
    module = sys.modules["documented"] = types.ModuleType("documented")
    exec(source.replace(_RIGHT, _WRONG if spoiled else _RIGHT), vars(module))
    return module.Rocchio


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
    """Answers an array in place of a list."""

    def predict_one(self, x):
        return np.asarray(super().predict_one(x))


class ReadsOrder(Plain):
    """A score depends on the place of its document."""

    def _score(self, X):
        return super()._score(X) + np.arange(len(X))


class ByName(Plain):
    """Named features are learned at twice their value."""

    def _learn(self, block, rounds):
        return super()._learn(block._replace(X=2 * block.X) if self.feature_names else block, rounds)


class NoFrames(Plain):
    """Frames of pandas are refused."""

    def learn_one(self, x, y, w=1.0):
        if type(x).__name__ == "DataFrame":
            raise NotImplementedError("no frames")
        super().learn_one(x, y, w)


class NeedsTwo(Plain):
    """A query with one document raises."""

    def learn_one(self, x, y, w=1.0):
        if len(y) == 1:
            raise ValueError("one document")
        super().learn_one(x, y, w)


class CountsPredictions(Plain):
    """Scoring changes the model."""

    n = 0

    def _score(self, X):
        self.n += 1
        return super()._score(X)


class KeepsInput(Plain):
    """The grades given are kept, not copied."""

    def learn_one(self, x, y, w=1.0):
        super().learn_one(x, y, w)
        self._last = y


class WritesToInput(Plain):
    """The features given are overwritten."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        if block.X.flags.writeable:
            block.X[:1] = 0.0
        return learned


class BlockAtOnce(Plain):
    """A block is learned as one query."""

    def learn_many(self, X, y, qid, *, w=None):
        self.learn_one(X, y)


class LearnsBeforeItLooks(Plain):
    """A refused query is counted."""

    n = 0

    def learn_one(self, x, y, w=1.0):
        self.n += 1
        super().learn_one(x, y, w)


class Swallows(Plain):
    """Bad input is silently ignored."""

    def learn_one(self, x, y, w=1.0):
        with contextlib.suppress(ValueError):
            super().learn_one(x, y, w)


class Vague(Plain):
    """The error does not name document and feature."""

    def learn_one(self, x, y, w=1.0):
        try:
            super().learn_one(x, y, w)
        except ValueError:
            raise ValueError("bad input") from None


class Amnesiac(Plain):
    """A pickle has no weights."""

    def __getstate__(self):
        return {**vars(self), "_weights": np.zeros_like(self._weights)}


class TrustsOrder(Plain):
    """Features are taken in the order in which they come."""

    class _TrustingReader(Reader):
        def align(self, step, block, grow=False):
            renamed = grow and step.feature_names
            return super().align(step, block._replace(names=step.feature_names) if renamed else block, grow)

    _reader = _TrustingReader()


class Unseeded(Plain):
    """Steps are random without a seed."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        self._weights = self._weights + np.random.default_rng().normal(size=self._weights.shape)
        return learned


class CastsToSingle(Plain):
    """float32 features are scored otherwise."""

    def _score(self, X):
        return super()._score(X) * (1.0 if X.dtype == np.float64 else 1.01)


class NeedsContiguous(Plain):
    """Strided arrays are read in the wrong order."""

    def learn_one(self, x, y, w=1.0):
        if isinstance(x, np.ndarray) and not x.flags.c_contiguous:
            x = x[::-1]
        super().learn_one(x, y, w)


class KnowsAllFeatures(Plain):
    """A feature never learned raises."""

    def predict_one(self, x):
        if isinstance(x, dict) and "i" in x and "never" in x["i"]:
            raise KeyError("never")
        return super().predict_one(x)


class WorstFirst(Plain):
    """The ranking is upside down."""

    def rank_one(self, x):
        return super().rank_one(x)[::-1]


class ForgetsWeight(Plain):
    """The reported weight is always 1."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        rounds[:, 5] = 1.0
        return learned


class Hoards(Plain):
    """Something of every query is kept for ever."""

    def __init__(self):
        super().__init__()
        self._losses = ()

    def _learn(self, block, rounds):
        self._losses = (*self._losses, *block.w)
        return super()._learn(block, rounds)


class GrowsWithoutMemory(Plain):
    """New features make it forget the weights of the others."""

    def _grow(self, n_new):
        self._weights = np.zeros(len(self._weights) + n_new)


class GrowsInFront(Plain):
    """New features come before the known ones."""

    def _grow(self, n_new):
        self._weights = np.concatenate([np.zeros(n_new), self._weights])


class IgnoresWeight(Plain):
    """The weight of a query is ignored."""

    def _learn(self, block, rounds):
        w = block.w.copy()
        learned = super()._learn(block._replace(w=np.ones(len(w))), rounds) if np.isfinite(w).all() and (w >= 0).all() else 0
        rounds[:learned, 5] = w[:learned]
        return learned


class LearnsFromWeightZero(Plain):
    """A query of weight 0 is learned."""

    def _learn(self, block, rounds):
        w = block.w.copy()
        learned = super()._learn(block._replace(w=np.where(w == 0.0, 0.5, w)), rounds)
        rounds[:learned, 5] = w[:learned]
        return learned


class KeepsInfinity(Plain):
    """A number of the state becomes infinite."""

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
    """The reported loss is 1 less the loss."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        rounds[:learned, 0] = 1.0 - rounds[:learned, 0]
        return learned


class MeasuresAfterwards(Plain):
    """The loss is measured after the update."""

    def _learn(self, block, rounds):
        for t, query in enumerate(block.each()):
            if not super()._learn(query, rounds[t : t + 1]):
                return t
            rounds[t, 0] = measure("ndcg@10").loss(self._score(query.X), query.y, ties="pessimistic")
        return len(block.w)


class Unlocked(Plain):
    """A public method does not take the lock."""

    def norm(self):
        return float(np.linalg.norm(self._weights))


class HoldsWithoutSharing(Plain):
    """A ranker inside has another lock."""

    def __init__(self):
        super().__init__()
        self._spare = PerceptronRanker()


class NeedsAllFeatures(Plain):
    """A document without a feature raises."""

    def predict_one(self, x):
        if isinstance(x, dict) and any(len(document) < 4 for document in x.values()):
            raise KeyError("clicks")
        return super().predict_one(x)


class LosesAFeature(Plain):
    """Features that appear after the first query are ignored."""

    def _score(self, X):
        return super()._score(X * (np.arange(X.shape[1]) < getattr(self, "_first", X.shape[1])))

    def _learn(self, block, rounds):
        self._first = getattr(self, "_first", block.X.shape[1])
        return super()._learn(block._replace(X=block.X * (np.arange(block.X.shape[1]) < self._first)), rounds)


class GrowsAtRandom(Plain):
    """New weights are random, not 0."""

    def _grow(self, n_new):
        new = np.random.default_rng(len(self._weights)).normal(size=n_new) * (len(self._weights) > 0)
        self._weights = np.concatenate([self._weights, new])


class ForgetsItsOptimizer(Plain):
    """Sums of squares begin again whenever features come."""

    def __init__(self):
        super().__init__()
        self._squares = np.empty(0)

    def _grow(self, n_new):
        super()._grow(n_new)
        self._squares = np.zeros(len(self._weights))

    def _learn(self, block, rounds):
        before = self._weights.copy()
        learned = super()._learn(block, rounds)
        step = self._weights - before
        self._squares = self._squares + step**2
        self._weights = before + step / np.sqrt(1.0 + 100.0 * self._squares)
        return learned


class WeightsTheLoss(Plain):
    """The reported loss is multiplied by the weight of the query."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        rounds[:learned, 0] = np.minimum(rounds[:learned, 0] * rounds[:learned, 5], 1.0)
        return learned


class BreaksTiesWell(Plain):
    """The reported loss breaks ties in favour of the ranker."""

    def _learn(self, block, rounds):
        losses = []
        for query in block.each():
            finite = np.isfinite(query.X).all() and (query.y >= 0).all()
            losses.append(measure("ndcg@10").loss(self._score(query.X), query.y, ties="optimistic") if finite else 0.0)
            if not super()._learn(query, rounds[len(losses) - 1 : len(losses)]):
                return len(losses) - 1
        rounds[: len(losses), 0] = losses
        return len(losses)


class MeasuresAnotherMeasure(Plain):
    """The loss is 1 - AP, although the measure is NDCG@10."""

    def _learn(self, block, rounds):
        for t, query in enumerate(block.each()):
            good = np.isfinite(query.X).all() and (query.y >= 0).all()
            loss = measure("ap").loss(self._score(query.X), query.y, ties="pessimistic") if good else 0.0
            if not super()._learn(query, rounds[t : t + 1]):
                return t
            rounds[t, 0] = loss
        return len(block.w)


class TellsOfTheQueryBefore(Plain):
    """`last_round` belongs to the query before."""

    @property
    def last_round(self):
        told = self.__dict__.get("_told")
        return told

    def learn_one(self, x, y, w=1.0):
        before = super().last_round
        super().learn_one(x, y, w)
        self._told = before or super().last_round


class CountsFeatures(Plain):
    """The number of documents is reported as the number of features."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        rounds[:learned, 6] = block.X.shape[1]
        return learned


class TakesNegativeWeights(Plain):
    """A negative weight is taken as its absolute value."""

    def _learn(self, block, rounds):
        return super()._learn(block._replace(w=np.abs(block.w)), rounds)


class OneStepABlock(Plain):
    """All queries of a block are measured and learned from the weights at its beginning."""

    def _learn(self, block, rounds):
        before, total = self._weights.copy(), np.zeros_like(self._weights)
        for t, query in enumerate(block.each()):
            self._weights = before.copy()
            if not super()._learn(query, rounds[t : t + 1]):
                return t
            total += self._weights - before
        self._weights = before + total
        return len(block.w)


class LearnsSinglesTwice(Plain):
    """A query that is learned alone is learned twice."""

    def _learn(self, block, rounds):
        learned = super()._learn(block, rounds)
        return super()._learn(block, rounds) if learned == len(block.w) == 1 else learned


class SharesAcrossCopies(Plain):
    """A deep copy counts queries with the original, in one dict."""

    def __init__(self):
        super().__init__()
        self._counts = {"queries": 0}

    def _learn(self, block, rounds):
        before = self._weights.copy()
        learned = super()._learn(block, rounds)
        self._counts["queries"] += learned
        self._weights = before + (self._weights - before) / np.sqrt(1.0 + self._counts["queries"])
        return learned

    def __deepcopy__(self, memo):
        twin = self.__class__.__new__(self.__class__)
        vars(twin).update(vars(self))
        return twin


class SharesAcrossInstances(Plain):
    """A counter is in the class, so one model's queries change another's step."""

    seen = np.zeros(1)

    def _learn(self, block, rounds):
        type(self).seen = type(self).seen + len(block.w)
        before = self._weights.copy()
        learned = super()._learn(block, rounds)
        self._weights = before + (self._weights - before) / np.sqrt(type(self).seen[0])
        return learned


class CachesByShape(Plain):
    """Scores of the last query are given again for a query of the same shape."""

    def _score(self, X):
        kept = getattr(self, "_kept", None)
        if kept is None or kept[0] != X.shape:
            self._kept = (X.shape, super()._score(X))
        return self._kept[1]


class SortsDocuments(Plain):
    """Scores come in the order of the documents' names reversed."""

    def predict_one(self, x):
        scores = super().predict_one(x)
        return dict(sorted(scores.items(), reverse=True)) if isinstance(scores, dict) else scores


class RanksByPosition(Plain):
    """The ranking of named documents has positions."""

    def rank_one(self, x):
        ranked = super().rank_one(x)
        return list(range(len(ranked))) if isinstance(x, dict) else ranked


class RemembersStrangers(Plain):
    """A feature that was only asked about is remembered as learned."""

    def predict_one(self, x):
        if isinstance(x, dict):
            names = {name for document in x.values() for name in document}
            self._met = getattr(self, "_met", frozenset()) | names
        return super().predict_one(x)


class KeepsHalfAQuery(Plain):
    """A counter in a dict is not put back when a query is refused."""

    def __init__(self):
        super().__init__()
        self._counts = {"documents": 0}

    def _learn(self, block, rounds):
        self._counts["documents"] += len(block.y)
        return super()._learn(block, rounds)


class TruncatesIntegers(Plain):
    """Updates take the dtype of the features, so integers are learned by whole steps."""

    def learn_one(self, x, y, w=1.0):
        whole = isinstance(x, np.ndarray) and x.dtype.kind == "i"
        super().learn_one(x, y, w)
        if whole:
            self._weights = np.trunc(self._weights)


class FailsWithoutDocuments(Plain):
    """A query without documents raises."""

    def _learn(self, block, rounds):
        for query in block.each():
            query.y.max()
        return super()._learn(block, rounds)


class SortsItsInput(Plain):
    """The grades of a list are sorted in place."""

    def learn_one(self, x, y, w=1.0):
        super().learn_one(x, y, w)
        if isinstance(y, np.ndarray) and y.flags.writeable:
            y.sort()


class NotANumberForConstants(Plain):
    """A score is divided by the spread of the query's features, which may be 0."""

    def _score(self, X):
        with np.errstate(all="ignore"):
            return super()._score(X) * (X.max(axis=0) - X.min(axis=0)).min() / (X.max(axis=0) - X.min(axis=0)).min()


class DrawsFromTheGlobalGenerator(Plain):
    """Steps are drawn from numpy's global generator."""

    def _learn(self, block, rounds):
        before = self._weights.copy()
        learned = super()._learn(block, rounds)
        self._weights = before + (self._weights - before) * np.random.rand()  # noqa: NPY002
        return learned


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
    NeedsAllFeatures: "unknown_features",
    LosesAFeature: "late_features",
    GrowsAtRandom: "late_features",
    ForgetsItsOptimizer: "late_features",
    WeightsTheLoss: "honest_loss",
    BreaksTiesWell: "honest_loss",
    MeasuresAnotherMeasure: "honest_loss",
    TellsOfTheQueryBefore: "last_round",
    CountsFeatures: "last_round",
    TakesNegativeWeights: "last_round",
    OneStepABlock: "learn_many_is_the_loop",
    LearnsSinglesTwice: "learn_many_is_the_loop",
    SharesAcrossCopies: "copies",
    SharesAcrossInstances: "clones",
    CachesByShape: "prediction_is_pure",
    SortsDocuments: "answers_in_kind",
    RanksByPosition: "ranking",
    RemembersStrangers: "prediction_is_pure",
    KeepsHalfAQuery: "rejected_input_changes_nothing",
    TruncatesIntegers: "arrays_of_all_kinds",
    FailsWithoutDocuments: "degenerate_queries",
    SortsItsInput: "no_aliasing",
    NotANumberForConstants: "degenerate_queries",
    DrawsFromTheGlobalGenerator: "clones",
}
