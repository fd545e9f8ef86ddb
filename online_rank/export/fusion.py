"""What engines can compute of learned fusion: the weights of a model behind `RunFeatures`, or the nearest to it."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import best_first, serving_steps
from online_rank.base.form import Linear
from online_rank.export.door import opened
from online_rank.export.reading import simplified
from online_rank.export.table import TARGETS
from online_rank.preprocessing import RunFeatures
from online_rank.query import Runs


class Engine(NamedTuple):
    """What an engine makes of result lists, from its documentation.

    Attributes
    ----------
    parts
        The parts of `RunFeatures` that it can add up.
    column
        Its own version of a part: `column(scores, part, k, floor)`, float64 (m,). The scores are a run's in the order of its
        list, then NaN for each candidate that the run lacks.
    signed
        Whether weights may be negative.
    takes_features
        Whether features of documents can be added.
    whole_k
        Whether the constant of the reciprocal rank must be an integer >= 1.
    floor
        The min-max score that it gives the smallest score of a run; None if it follows the model, or has another scale.
    differs
        How its columns differ from the columns of `RunFeatures`; None if they are the same.
    """

    parts: tuple[str, ...]
    column: Callable[[np.ndarray, str, float, float], np.ndarray]
    signed: bool
    takes_features: bool = False
    whole_k: bool = False
    floor: float | None = None
    differs: str | None = None


class Weights(NamedTuple):
    """The weights of a fused model for an engine.

    Attributes
    ----------
    runs
        Names of the retrievers.
    weights
        Of each part that the engine adds up, float64 (r,).
    features
        Weights of features of documents.
    k, floor
        As in `RunFeatures`.
    why_fitted
        Why they are the nearest weights rather than the model's own; None if they are its own.
    note
        How the engine differs from `RunFeatures` all the same; None where it does not.
    changed, changed_first
        The share of the given queries whose ranking by the engine differs from the model's, in all places and in the first
        ten; None without queries.
    """

    runs: tuple[str, ...]
    weights: dict[str, np.ndarray]
    features: dict[str, float]
    k: float
    floor: float
    why_fitted: str | None = None
    note: str | None = None
    changed: float | None = None
    changed_first: float | None = None


def _reciprocal_rank(scores: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    return np.where(np.isnan(scores), 0.0, 1.0 / (k + 1.0 + np.arange(len(scores))))


def _minmax(scores: np.ndarray, floor: float = 0.0, constant: float = 1.0) -> np.ndarray:
    """Min-max scores, 0 for a missing score; the constant if all scores are equal."""
    known = scores[~np.isnan(scores)]
    low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
    if not high > low:
        return np.nan_to_num(0.0 * scores + constant, nan=0.0)
    unit = (0.5 * scores - 0.5 * low) / (0.5 * high - 0.5 * low)
    return np.nan_to_num(np.where(unit == 0.0, floor, unit), nan=0.0)


def _of_elasticsearch(scores: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    return _minmax(scores)


def _of_opensearch(scores: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    return _minmax(scores, _OPENSEARCH_FLOOR)


def _of_solr(scores: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    """`scale` takes the extremes of all documents of the index, of which most do not match, with a score of 0."""
    whole = np.append(np.nan_to_num(scores, nan=0.0), 0.0)
    return _minmax(whole, constant=0.0)[:-1]


def _of_vespa(scores: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    """Rank features are 0 where a document was not matched, and take part in the normalisation."""
    whole = np.nan_to_num(scores, nan=0.0)
    if part == "found":
        return (whole != 0.0).astype(np.float64)
    if part == "minmax":
        return _minmax(whole, constant=0.5)
    column = np.empty(len(whole))
    column[np.argsort(-whole, kind="stable")] = 1.0 / (k + 1.0 + np.arange(len(whole)))
    return column


def _of_sql(scores: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    """Equal scores share the mean of their ranks, as in `RunFeatures` for queries that are not `Runs`."""
    known = ~np.isnan(scores)
    if part == "found":
        return known.astype(np.float64)
    if part == "minmax":
        return _minmax(scores, floor)
    if part == "zscore":
        unit = _minmax(scores, constant=0.0)
        return (unit - unit[known].mean()) / unit[known].std() if unit.any() else unit
    better = (scores[:, None] < scores).sum(axis=1)
    equal = (scores[:, None] == scores).sum(axis=1)
    return np.where(known, 1.0 / (k + better + 0.5 * (equal + 1)), 0.0)


_OPENSEARCH_FLOOR = 0.001

#: What each target of the kind "fusion" computes.
ENGINES = {
    "elasticsearch-linear": Engine(
        ("minmax",),
        _of_elasticsearch,
        signed=False,
        floor=0.0,
        differs="before 8.18.3 and 9.1 it adds the scores themselves of a run in which all are equal",
    ),
    "elasticsearch-rrf": Engine(("reciprocal_rank",), _reciprocal_rank, signed=False, whole_k=True),
    "langchain": Engine(("reciprocal_rank",), _reciprocal_rank, signed=True),
    "opensearch-pipeline": Engine(("minmax",), _of_opensearch, signed=False, floor=_OPENSEARCH_FLOOR),
    "solr-function": Engine(
        ("minmax",), _of_solr, signed=True, differs="it scales from the score 0 of documents that do not match"
    ),
    "sql": Engine(
        ("minmax", "zscore", "reciprocal_rank", "found"),
        _of_sql,
        signed=True,
        takes_features=True,
        differs="equal scores share the mean of their ranks",
    ),
    "vespa-global": Engine(
        ("minmax", "reciprocal_rank", "found"),
        _of_vespa,
        signed=True,
        differs="documents that do not match have the score 0, and are normalised with the others",
    ),
}


def fusion_weights(model: Any, to: str, *, queries: Sequence[Runs] | None = None) -> Weights:
    """The weights of a model for an engine: its own if the engine can add up what the model does, else the nearest.

    The nearest weights have scores with the least squared distance to the model's. They are >= 0 if the engine takes no others.
    Both scores are centred within each query, and the model's are scaled to the deviation of the others. Documents are weighted
    by 1 / log2(1 + rank). The scales and the weights are computed in turn.

    Parameters
    ----------
    model
        A pipeline of `RunFeatures` and a ranker.
    to
        One of `ENGINES`.
    queries
        Queries like those to come, by which the nearest weights are fitted, and changed rankings are counted.

    Raises
    ------
    TypeError
        `model` does not begin with `RunFeatures`; or the engine cannot add up what it does, and there are no queries.
    ValueError
        No weight is other than 0, or weights must be fitted, and a run of the model is in none of the queries.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, RunFeatures
    >>> model = RunFeatures() | PerceptronRanker.from_rule("minmax", ["bm25", "vector"], weights=[0.3, 0.7])
    >>> fusion_weights(model, "opensearch-pipeline").weights
    {'minmax': array([0.3, 0.7])}
    """
    engine, title = ENGINES[to], TARGETS[to].title
    steps = serving_steps(model)
    if type(steps[0]) is not RunFeatures:
        kind = simplified(opened(model).form)[1]
        others = ", ".join(name for name, target in TARGETS.items() if kind in target.kinds)
        raise TypeError(f"{title} cannot compute this model: it does not begin with RunFeatures. Targets that can: {others}")
    features = steps[0]
    exact = _own_weights(steps)
    problem = "its scores are not a weighted sum of features of runs" if exact is None else _problem(exact, engine)
    if exact is not None and problem is None:
        found = exact._replace(weights={part: exact.weights[part] for part in engine.parts}, note=_note(exact, engine))
    elif queries is None:
        raise TypeError(
            f"{title} cannot compute this model: {problem}. Give queries (in the shell: --run FILE), to fit the nearest model "
            "that it can compute"
        )
    else:
        found = _fitted(model, features, engine, _runs_of(features, queries), queries)._replace(why_fitted=problem)
    if not any(column.any() for column in found.weights.values()):
        raise ValueError("all weights are 0; let the model learn, or begin it with weights")
    return found if queries is None else _compared(found, model, engine, queries)


def normalised(weights: np.ndarray) -> list[float]:
    """Weights with absolute values that add up to 1."""
    return (weights / math.fsum(np.abs(weights).tolist())).tolist()


def _own_weights(steps: Sequence[Any]) -> Weights | None:
    """The weights of a linear ranker behind `RunFeatures`; None for others."""
    features, ranker = steps[0], steps[-1]
    if len(steps) > 2:
        return None
    try:
        head = ranker._head()
    except TypeError:
        return None
    names = getattr(ranker, "feature_names", None)
    if not isinstance(head, Linear) or names is None:
        return None
    known = dict(zip(map(str, names), head.weights.tolist(), strict=True))
    runs = features.runs or dict.fromkeys(
        name.rpartition(" ")[0] for name in known if name.rpartition(" ")[2] in features.parts
    )
    columns = {f"{run} {part}" for run in runs for part in features.parts}
    weights = {part: np.array([known.get(f"{run} {part}", 0.0) for run in runs]) for part in _PARTS}
    others = {name: weight for name, weight in known.items() if name not in columns and weight != 0.0}
    return Weights(tuple(runs), weights, others, features.k, features.floor)


_PARTS = ("minmax", "zscore", "reciprocal_rank", "found")


def _problem(own: Weights, engine: Engine) -> str | None:
    """Why an engine cannot carry weights; None if it can."""
    for part, column in own.weights.items():
        if part not in engine.parts and column.any():
            return f"it has weights on {part}, and the target adds up {', '.join(engine.parts)}"
    if own.features and not engine.takes_features:
        return f"it has a weight on the feature {next(iter(own.features))!r}, and the target fuses runs alone"
    if not engine.signed and any((column < 0.0).any() for column in own.weights.values()):
        return "it has negative weights"
    if engine.whole_k and own.k != _k_of(engine, own.k):
        return f"its k is {own.k:g}, and the target takes integers from 1"
    return None


def _note(own: Weights, engine: Engine) -> str | None:
    """How an engine differs that carries the weights."""
    if engine.floor is not None and engine.floor != own.floor:
        return f"the min-max of the smallest score of a run is {engine.floor:g} there, and {own.floor:g} here"
    return engine.differs


def _k_of(engine: Engine, k: float) -> float:
    """The nearest constant of the reciprocal rank that an engine takes."""
    return max(1.0, float(round(k))) if engine.whole_k else float(k)


def _runs_of(features: RunFeatures, queries: Sequence[Runs]) -> tuple[str, ...]:
    """Names of the runs."""
    if features.runs is not None:
        return tuple(features.runs)
    met = dict.fromkeys(str(name) for query in queries for _, name in _entries(query))
    if not met:
        raise ValueError("queries have no runs")
    return tuple(met)


def _entries(query: Runs) -> list[tuple[Hashable, Hashable]]:
    """(document, run) of every entry."""
    return [(d, name) for d, known in query.documents.items() for name, value in known.items() if hasattr(value, "rank")]


def _columns(query: Runs, runs: Sequence[str], engine: Engine, k: float, floor: float) -> np.ndarray:
    """What the engine adds up, float64 (m, parts x r)."""
    documents = [*query.documents.values()]
    columns = []
    for part in engine.parts:
        for run in runs:
            found = [i for i, known in enumerate(documents) if run in known]
            order = sorted(found, key=lambda i, run=run: documents[i][run].rank)  # type: ignore[misc]
            order += [i for i, known in enumerate(documents) if run not in known]
            scores = np.array([documents[i][run].score if run in documents[i] else np.nan for i in order])
            column = np.empty(len(documents))
            column[order] = engine.column(scores, part, k, floor)
            columns.append(column)
    return np.column_stack(columns)


class _Sample(NamedTuple):
    """A query to fit: the engine's columns (m, n) and the model's scores (m,), both centred; weights of its documents (m,)."""

    columns: np.ndarray
    scores: np.ndarray
    shares: np.ndarray


def _fitted(model: Any, features: RunFeatures, engine: Engine, runs: tuple[str, ...], queries: Sequence[Runs]) -> Weights:
    """The nearest weights that an engine can have."""
    met = {name for query in queries for _, name in _entries(query)}
    if absent := [run for run in runs if run not in met]:
        raise ValueError(f"no query has a document of the run {absent[0]!r}, so that its weight cannot be fitted")
    k, samples = _k_of(engine, features.k), []
    for query in queries:
        C = _columns(query, runs, engine, k, features.floor)
        scores = np.array([*model.predict_one(query).values()])
        share = np.empty(len(scores))
        share[np.argsort(-scores, kind="stable")] = 1.0 / np.log2(2.0 + np.arange(len(scores)))
        share /= share.sum()
        C, scores = C - share @ C, scores - share @ scores
        if (deviation := math.sqrt(share @ scores**2)) > 0.0:
            samples.append(_Sample(C, scores / deviation, share))
    values = _solved(samples, [1.0] * len(samples), engine)
    for _ in range(_ROUNDS if values.any() else 0):
        scales = [math.sqrt(share @ (C @ values) ** 2) for C, _, share in samples]
        values = _solved(samples, scales, engine)
    # Rounded, so that equal weights are equal, and ties stay ties.
    values = np.round(values / max(np.abs(values).max(), 1e-300), 9)
    weights = {part: values[i * len(runs) : (i + 1) * len(runs)] for i, part in enumerate(engine.parts)}
    return Weights(runs, weights, {}, k, features.floor)


#: How often the scale of each query is adapted to the weights.
_ROUNDS = 30


def _solved(samples: Sequence[_Sample], scales: Sequence[float], engine: Engine) -> np.ndarray:
    """Least squares for the model's scores, times the scale of each query; absolute values add up to 1."""
    gram: Any = sum((C.T * share) @ C for C, _, share in samples)
    target: Any = sum(scale * (C.T @ (share * scores)) for (C, scores, share), scale in zip(samples, scales, strict=True))
    if not samples:
        raise ValueError("queries have no documents that the model scores differently")
    values = np.linalg.lstsq(gram, target)[0] if engine.signed else _nonnegative(gram, target)
    return values / max(math.fsum(np.abs(values).tolist()), 1e-300)


def _nonnegative(gram: np.ndarray, target: np.ndarray, rounds: int = 1000) -> np.ndarray:
    """Least squares with weights >= 0, coordinate by coordinate."""
    w = np.zeros(len(target))
    for _ in range(rounds):
        before = w.copy()
        for j in np.flatnonzero(np.diag(gram) > 0.0):
            w[j] = max(0.0, w[j] + (target[j] - gram[j] @ w) / gram[j, j])
        if np.abs(w - before).max(initial=0.0) <= 1e-13 * np.abs(w).max(initial=0.0):
            break
    return w


def _compared(found: Weights, model: Any, engine: Engine, queries: Sequence[Runs]) -> Weights:
    """The weights, with the shares of rankings that they change."""
    flat = np.concatenate([found.weights[part] for part in engine.parts])
    changed, first, n = 0, 0, 0
    for query in queries:
        if not len(query):
            continue
        scores = _columns(query, found.runs, engine, found.k, found.floor) @ flat
        for i, known in enumerate(query.documents.values()):
            scores[i] += math.fsum(weight * known.get(name, 0.0) for name, weight in found.features.items())
        theirs, ours = best_first(scores, query.ids), model.rank_one(query)
        changed, first, n = changed + (theirs != ours), first + (theirs[:10] != ours[:10]), n + 1
    return found._replace(changed=changed / max(n, 1), changed_first=first / max(n, 1))
