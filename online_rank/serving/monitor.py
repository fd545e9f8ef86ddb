"""Monitors a service for its page and metrics, in constant memory, since the process began."""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.base import ranker_of, serving_ranker
from online_rank.feedback import Clicks, PositionBias
from online_rank.intervals import LossInterval
from online_rank.measures.learned import AnyMeasure
from online_rank.measures.learned import measure as parse_measure
from online_rank.rankers.shapes import has_shapes
from online_rank.serving.clock import CLOCK
from online_rank.serving.protocol import Reply
from online_rank.serving.reading import DAY

_MAX_POINTS = 300
_MAX_MARKS = 50
_SHOWN_DECISIONS = 20
_RECENT_HALF_LIFE = 100.0
_SHOWN_QUERIES = 6
_SHOWN_DOCUMENTS = 5
_SHOWN_WEIGHTS = 16
_SECONDS_BETWEEN_SHOWN = 0.25
_LARGEST_COMPARED = 10_000
_MAX_POSITIONS = 10
_LONGEST_NAME = 300
_CLICKED = "reciprocal rank of the first click"
#: Confidence of the interval.
_LEVEL = 0.95
_FORGET = 0.5 ** (1.0 / _RECENT_HALF_LIFE)


class Course:
    """Rows of numbers over time; when there are too many, every other row is dropped, and only every other one is recorded.

    Parameters
    ----------
    max_points
        Most rows kept.

    Examples
    --------
    >>> course = Course(max_points=4)
    >>> for t in range(1, 10):
    ...     if course.is_due(t):
    ...         course.add((t,))
    >>> course.rows
    [(2,), (4,), (6,), (8,)]
    """

    def __init__(self, max_points: int = _MAX_POINTS) -> None:
        self.rows: list[tuple[float, ...]] = []
        self._max_points = max_points
        self._stride = 1

    def is_due(self, t: int) -> bool:
        """Whether the row of time t is recorded."""
        return t % self._stride == 0

    def add(self, row: tuple[float, ...]) -> None:
        """Add a row."""
        self.rows.append(row)
        if len(self.rows) > self._max_points:
            self._stride *= 2
            self.rows = self.rows[1::2]


class Today:
    """What a service has counted since midnight (UTC), or since it was loaded into memory if that was later.

    Parameters
    ----------
    counts
        What it has counted so far.
    """

    def __init__(self, counts: Mapping[str, float]) -> None:
        self._since = CLOCK.now()
        self._begun = self._last = counts

    def take(self, counts: Mapping[str, float]) -> None:
        """Take the counts after a request; the first one of a day begins it with the counts before that request."""
        midnight = CLOCK.now() // DAY * DAY
        if midnight > self._since:
            self._since, self._begun = midnight, self._last
        self._last = counts

    def figures(self) -> dict[str, Any]:
        """When it began, in seconds since 1970, and what has been counted since, for JSON."""
        return {"since": self._since, **{name: count - self._begun[name] for name, count in self._last.items()}}


class Monitor:
    """Watches the requests that a service answers.

    The loss of a ranking is measured when its grades arrive, on the scores with which it was served. The loss of a list with
    clicks is 1 - 1/p, where p is the position of the first click, and 1 without clicks. The figures are for one kind of
    feedback, the first to arrive.

    Parameters
    ----------
    measure
        The measure for grades (`online_rank.measure`).
    clicks
        Whether clicks are expected; used in `figures` until feedback arrives.
    sums
        Sums of earlier losses (`LossInterval`).
    """

    def __init__(
        self,
        measure: str | AnyMeasure = "ndcg@10",
        sums: Any = (0.0, 0.0, 0.0),
        *,
        clicks: bool = False,
    ) -> None:
        from river import drift  # With it come all data sets of river, and scikit-learn and pandas if installed: half a second.

        self._measure = parse_measure(measure) if isinstance(measure, str) else measure
        self.losses = LossInterval(sums)
        self._kind = "clicks" if clicks and not self.losses.n else "grades"
        self._is_settled = self.losses.n > 0
        self.drifts: deque[int] = deque(maxlen=_MAX_MARKS)
        #: What became of the serving model, the latest first: times, in seconds since 1970, and texts.
        self.decisions: deque[tuple[float, str]] = deque(maxlen=_SHOWN_DECISIONS)
        self.n_drifts = 0
        self.version = 0
        self._course = Course()
        self._bias: PositionBias | None = None
        self._detector = drift.ADWIN()
        # Number and mean of the losses since the last detected change.
        self._since = (0, 0.0)
        self._recent = 0.0
        self._recent_weight = 0.0
        self._queries: deque[dict[str, Any]] = deque(maxlen=_SHOWN_QUERIES)
        self._shown_at = -math.inf

    def changed(self) -> None:
        """Something happened."""
        self.version += 1

    def decided(self, text: str) -> None:
        """Another model serves."""
        self.decisions.appendleft((CLOCK.now(), text))
        self.changed()

    def forget(self) -> None:
        """Forget the queries that are shown."""
        self._queries.clear()

    def before_learning(self, model: Any) -> np.ndarray | None:
        """The weights, if the next query will be shown on the page; pass the result to `learned`."""
        if time.monotonic() - self._shown_at < _SECONDS_BETWEEN_SHOWN:
            return None
        weights = _compared(serving_ranker(model))
        return np.empty(0) if weights is None else weights

    def learned(self, reply: Reply, model: Any, before: np.ndarray | None) -> None:
        """Record learned feedback."""
        query_id, grades, scores = reply.answer["id"], reply.feedback, reply.served
        if isinstance(grades, Clicks):
            self._learned_clicks(query_id, grades, model, before)
        elif grades is not None and scores is not None:
            if reply.loss is not None:
                self._count("grades", reply.loss, model)
            best = sorted(scores, key=scores.__getitem__, reverse=True)[:_SHOWN_DOCUMENTS]
            documents = [(name, scores[name], grades[name]) for name in best]
            self._remember(query_id, len(scores), reply.loss, documents, model, before)

    def figures(self, stats: dict[str, Any]) -> dict[str, Any]:
        """Counts of the service, and the measure of served rankings with its mean, interval and recent mean, for JSON."""
        # All are values of the measure that is named: 1 less the loss.
        interval = self.losses.interval(_LEVEL)
        recent = self._recent / self._recent_weight if self._recent_weight else math.nan
        return {
            "stats": {name: _finite(value) for name, value in stats.items()},
            "served": {
                "feedback": self._kind,
                "measure": _CLICKED if self._kind == "clicks" else self._measure.name,
                "n": interval.n,
                "mean": _finite(1.0 - interval.mean),
                "lower": 1.0 - interval.upper,
                "upper": 1.0 - interval.lower,
                "level": _LEVEL,
                "recent": _finite(1.0 - recent),
            },
            "drifts": list(self.drifts),
        }

    def shown(self, model: Any) -> dict[str, Any]:
        """The further data of the page, for JSON."""
        return {
            "course": [list(map(_finite, row)) for row in self._course.rows],
            **_weights(model),
            "has_curves": has_shapes(serving_ranker(model)),
            "bias": self._position_bias(),
            "account": _account(model),
            "decisions": list(self.decisions),
            "queries": list(self._queries),
        }

    def _count(self, kind: str, loss: float, model: Any) -> None:
        """Add up and show a loss, unless it comes from another kind of feedback than the others."""
        if not self._is_settled:
            self._kind, self._is_settled = kind, True
        if kind != self._kind:
            return
        self.losses.update(loss)
        self._recent = _FORGET * self._recent + loss
        self._recent_weight = _FORGET * self._recent_weight + 1.0
        n, mean = self.losses.n, self.losses.mean
        recent = self._recent / self._recent_weight
        count, usual = self._since
        self._since = (count + 1, usual + (loss - usual) / (count + 1))
        self._detector.update(loss)
        if self._detector.drift_detected:
            if recent > usual:
                self.drifts.append(n)
                self.n_drifts += 1
            self._since = (1, recent)
        if self._course.is_due(n):
            interval = self.losses.interval(_LEVEL)
            total, bound = _certified(model)
            self._course.add((n, mean, interval.lower, interval.upper, recent, total, bound))

    def _learned_clicks(self, query_id: Any, clicks: Clicks, model: Any, before: np.ndarray | None) -> None:
        order, gains = clicks.impression.order, clicks.gains
        if clicks.impression.logits is not None or clicks.impression.pairs_from is not None:
            # Other lists were not drawn by a policy, and say nothing of positions.
            if self._bias is None:
                self._bias = PositionBias(max(1, min(len(order), _MAX_POSITIONS)))
            self._bias.update(clicks)
        first = next((p for p, gain in enumerate(gains, start=1) if gain > 0.0), None)
        loss = 1.0 if first is None else 1.0 - 1.0 / first
        self._count("clicks", loss, model)
        documents = [(str(name), None, gain) for name, gain in zip(order, gains, strict=True)][:_SHOWN_DOCUMENTS]
        self._remember(query_id, len(order), loss, documents, model, before)

    def _remember(
        self,
        query_id: Any,
        n: int,
        loss: float | None,
        documents: Sequence[tuple[str, float | None, float]],
        model: Any,
        before: np.ndarray | None,
    ) -> None:
        """Show a query of `n` documents: the names, scores and grades (or clicks, without scores) of its first documents."""
        if before is None:
            return
        self._shown_at = time.monotonic()
        self._queries.appendleft(
            {
                "id": short_name(query_id),
                "n": n,
                "loss": loss,
                "documents": [[short_name(name), score, grade] for name, score, grade in documents],
                "changes": _changes(model, before),
            }
        )

    def _position_bias(self) -> dict[str, Any] | None:
        """The examination of each position with its interval, if the model learns from clicks."""
        if self._bias is None:
            return None
        low, high = self._bias.interval()
        return {"examination": list(self._bias.examination), "low": list(low), "high": list(high)}


def _compared(ranker: Any) -> np.ndarray | None:
    """The weights of features, if they are few enough to be compared; otherwise they are not even copied."""
    if hasattr(type(ranker), "candidates"):
        return None  # Its weights belong to members.
    few = getattr(ranker, "n_features", 0) <= _LARGEST_COMPARED
    weights = getattr(ranker, "weights", None) if few else None
    return weights if isinstance(weights, np.ndarray) and len(weights) <= _LARGEST_COMPARED else None


def _changes(model: Any, before: np.ndarray, most: int = 3) -> list[list[Any]] | None:
    """The features whose weights changed most: name and change. None without weights to compare."""
    ranker = serving_ranker(model)
    after = _compared(ranker)
    if after is None or not len(after) or len(before) > len(after):
        # Also if a model that began again, or another one, ranks by fewer features.
        return None
    change = after - np.concatenate((before, np.zeros(len(after) - len(before))))
    return [pair for pair in _named(ranker, change, _places_of_largest(change, most)) if pair[1]]


def _weights(model: Any) -> dict[str, list[Any]]:
    """The largest weights that serve rankings, name and weight; and those that the ranker began with, for the same features."""
    ranker = serving_ranker(model)
    weights, begun = (getattr(ranker, name, None) for name in ("served_weights", "beginning"))
    if not isinstance(weights, np.ndarray):
        return {"weights": [], "begun": []}
    places = _places_of_largest(weights, _SHOWN_WEIGHTS)
    shown = begun[places].tolist() if isinstance(begun, np.ndarray) and len(begun) == len(weights) and begun.any() else []
    return {"weights": _named(ranker, weights, places), "begun": shown}


def _places_of_largest(values: np.ndarray, most: int) -> list[int]:
    """Where the largest absolute values are, without sorting all of them."""
    sizes = np.abs(values)
    chosen = np.argpartition(-sizes, most - 1)[:most] if len(values) > most else np.arange(len(values))
    return sorted(chosen.tolist(), key=lambda j: (-sizes[j], j))


def _named(ranker: Any, values: np.ndarray, places: list[int]) -> list[list[Any]]:
    """Names and values of the features at the places."""
    names = ranker.feature_names or range(len(values))
    return [[short_name(names[j]), float(values[j])] for j in places]


def short_name(name: Any) -> str:
    """A name for the page, shortened in the middle if it is very long."""
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME // 2]}…{text[-_LONGEST_NAME // 2 :]}"


def _certified(model: Any) -> tuple[float, float]:
    """The cumulative loss that a certificate is about, and the smallest bound on it.

    Of the weights that learn, in a tracker with comparators; of what was served, by the account of a blend. NaN for others.
    """
    certificates = _certificates(model)
    bounds = [bound.value for certificate in certificates for bound in certificate.bounds]
    return (certificates[0].loss, min(bounds, default=math.nan)) if certificates else (math.nan, math.nan)


def _certificates(model: Any) -> list[Any]:
    """The certificates of a model that adds up its losses, all queries alike."""
    ranker = ranker_of(model)
    keeps = getattr(ranker, "comparators", None) or getattr(ranker, "account", None) is not None
    if not keeps or getattr(ranker, "fades", False):
        return []
    from online_rank.bounds.certified import certificates_of

    return certificates_of(model)


def _account(model: Any) -> dict[str, Any] | None:
    """What the account of a blend says of queries that could be ranked wrongly: the losses of what was served and of the member
    that its prior favours, today's rule in `hybrid`, and the bound that follows; None for other models.
    """
    for certificate in _certificates(model):
        if "n_counted" in certificate.totals:
            _, lost, at_most = certificate.facts.get("favoured", (None, None, None))
            counted = certificate.totals["n_counted"]
            gap = certificate.facts["serving_gap"]
            return {"counted": counted, "served": certificate.loss, "favoured": lost, "at_most": at_most, "excess": gap}
    return None


def _finite(value: Any) -> Any:
    """Numbers for JSON, with None for NaN and infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
