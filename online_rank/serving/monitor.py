"""Monitors a service for its page and metrics, in constant memory, since the process began.

A request only leaves what became of it. All that is shown follows from that when somebody asks, or once many have come.
"""

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.base import ranker_of, serving_ranker
from online_rank.feedback import Clicks, PositionBias
from online_rank.intervals import LossInterval
from online_rank.intervals.losses import running_sums
from online_rank.measures.learned import measure as parse_measure
from online_rank.serving.clock import CLOCK
from online_rank.serving.course import Course
from online_rank.serving.protocol import Reply

if TYPE_CHECKING:
    from online_rank.measures.learned import AnyMeasure

#: What is left by requests before it is counted though nobody asks.
MOST_WAITING = 256
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
        measure: "str | AnyMeasure" = "ndcg@10",
        sums: Any = (0.0, 0.0, 0.0),
        *,
        clicks: bool = False,
    ) -> None:
        from river import drift  # With it come all data sets of river, and scikit-learn and pandas if installed: half a second.

        self._measure = parse_measure(measure) if isinstance(measure, str) else measure
        #: Number, sum and variation of the losses that were counted (`LossInterval`).
        self._sums = LossInterval(sums).sums
        self._is_settled = bool(self._sums[0])
        self._kind = "clicks" if clicks and not self._is_settled else "grades"
        self._drifts: deque[int] = deque(maxlen=_MAX_MARKS)
        #: What became of the serving model, the latest first: times, in seconds since 1970, and texts.
        self.decisions: deque[tuple[float, str]] = deque(maxlen=_SHOWN_DECISIONS)
        self._n_drifts = 0
        self.version = 0
        #: Kinds and losses of feedback that was learned and is not counted yet, each with its list of clicks, or None.
        self.waiting: list[tuple[str, float, Any]] = []
        self._course, self._certified = Course(), Course()
        self._n_certified = 0
        self._bias: PositionBias | None = None
        self._detector = drift.ADWIN()
        # Number and mean of the losses since the last detected change.
        self._since = (0, 0.0)
        self._recent = 0.0
        self._recent_weight = 0.0
        self._queries: deque[dict[str, Any]] = deque(maxlen=_SHOWN_QUERIES)
        #: When the next query is due that is shown, by the monotonic clock.
        self.shows_from = -math.inf

    @property
    def losses(self) -> LossInterval:
        """The account of the losses."""
        self._count()
        return LossInterval(self._sums)

    @property
    def drifts(self) -> list[int]:
        """The last numbers of losses after which the loss had risen."""
        self._count()
        return [*self._drifts]

    @property
    def n_drifts(self) -> int:
        """How often the loss has risen."""
        self._count()
        return self._n_drifts

    def decided(self, text: str) -> None:
        """Another model serves."""
        self.decisions.appendleft((CLOCK.now(), text))
        self.version += 1

    def continues(self, before: "Monitor") -> None:
        """Take over what a monitor has of the model that served before."""
        self._n_drifts, self.version, self.decisions = before.n_drifts, before.version + 1, before.decisions

    def forget(self) -> None:
        """Forget the queries that are shown."""
        self._queries.clear()

    def before_learning(self, model: Any) -> np.ndarray | None:
        """The weights, if the next query will be shown on the page; pass the result to `learned`."""
        if time.monotonic() < self.shows_from:
            return None
        weights = _compared(serving_ranker(model))
        return np.empty(0) if weights is None else weights

    def learned(self, reply: Reply, model: Any, before: np.ndarray | None) -> None:
        """Feedback was learned: `losses` and all that is shown has it when somebody asks."""
        is_clicks = type(reply.feedback) is Clicks
        if is_clicks:
            self.waiting.append(("clicks", _loss_of(reply.feedback), reply.feedback))
        elif reply.loss is not None:
            self.waiting.append(("grades", reply.loss, None))
        if len(self.waiting) >= MOST_WAITING:
            self._take(model)
        if before is not None and (is_clicks or reply.served is not None):
            self._remember(reply, model, before)

    def figures(self, stats: dict[str, Any]) -> dict[str, Any]:
        """Counts of the service, and the measure of served rankings with its mean, interval and recent mean, for JSON."""
        # All are values of the measure that is named: 1 less the loss. The losses come first: counting settles the rest.
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
            "drifts": self.drifts,
        }

    def shown(self, model: Any) -> dict[str, Any]:
        """The further data of the page, for JSON."""
        self._take(model)
        return {
            "course": self._course_with_intervals(),
            "certified": [list(map(_finite, row)) for row in self._certified.rows],
            **_weights(model),
            "has_curves": getattr(serving_ranker(model), "has_curves", False),
            "bias": self._position_bias(),
            "account": _account(model),
            "decisions": list(self.decisions),
            "queries": list(self._queries),
        }

    def _take(self, model: Any) -> None:
        """Count what waits, and what a model certifies by now."""
        self._count()
        n = int(self._sums[0])
        if n != self._n_certified:
            self._n_certified = n
            row = _certified(model)
            if not math.isnan(row[0]):
                self._certified.append((n, *row))

    def _count(self) -> None:
        """Count the losses that wait, but none of another kind of feedback than the first."""
        waiting, self.waiting = self.waiting, []
        if waiting and not self._is_settled:
            self._kind, self._is_settled = waiting[0][0], True
        counted = [loss for kind, loss, _ in waiting if kind == self._kind]
        for loss, row in zip(counted, running_sums(self._sums, np.array(counted))[1:], strict=True):
            self._follow(loss, row)
        for kind, _, clicks in waiting:
            if kind == "clicks":
                self._see_positions(clicks)

    def _follow(self, loss: float, sums: np.ndarray) -> None:
        """A loss in its course, whose account is `sums` with it: the recent mean, and whether the losses have risen."""
        self._sums = sums
        self._recent = _FORGET * self._recent + loss
        self._recent_weight = _FORGET * self._recent_weight + 1.0
        recent, n = self._recent / self._recent_weight, int(sums[0])
        count, usual = self._since
        self._since = (count + 1, usual + (loss - usual) / (count + 1))
        self._detector.update(loss)
        if self._detector.drift_detected:
            if recent > usual:
                self._drifts.append(n)
                self._n_drifts += 1
            self._since = (1, recent)
        if self._course.is_due(n):
            self._course.add((*sums.tolist(), recent))

    def _course_with_intervals(self) -> list[list[float | None]]:
        """Number of losses, mean, limits of its interval, and recent mean. Each interval takes a while, and is found once."""
        rows = self._course.rows
        for i, row in enumerate(rows):
            if len(row) == 4:
                interval = LossInterval(row[:3]).interval(_LEVEL)
                rows[i] = (interval.n, interval.mean, interval.lower, interval.upper, row[3])
        return [list(map(_finite, row)) for row in rows]

    def _see_positions(self, clicks: Clicks) -> None:
        """Count at which positions of a list was clicked, if a policy drew it: others say nothing of positions."""
        impression = clicks.impression
        if impression.logits is not None or impression.pairs_from is not None:
            if self._bias is None:
                self._bias = PositionBias(max(1, min(len(impression.order), _MAX_POSITIONS)))
            self._bias.update(clicks)

    def _remember(self, reply: Reply, model: Any, before: np.ndarray) -> None:
        """Show a query: the names, scores and grades (or clicks, without scores) of its first documents."""
        feedback, scores = reply.feedback, reply.served
        loss: float | None
        if isinstance(feedback, Clicks):
            order = feedback.impression.order
            n, loss = len(order), _loss_of(feedback)
            first = [(str(name), None, gain) for name, gain in zip(order, feedback.gains, strict=True)][:_SHOWN_DOCUMENTS]
        else:
            known, grades = scores or {}, feedback or {}
            best = sorted(known, key=known.__getitem__, reverse=True)[:_SHOWN_DOCUMENTS]
            n, loss, first = len(known), reply.loss, [(name, known[name], grades[name]) for name in best]  # type: ignore[misc]
        self.shows_from = time.monotonic() + _SECONDS_BETWEEN_SHOWN
        self._queries.appendleft(
            {
                "id": short_name(reply.answer["id"]),
                "n": n,
                "loss": loss,
                "documents": [[short_name(name), score, grade] for name, score, grade in first],
                "changes": _changes(model, before),
            }
        )

    def _position_bias(self) -> dict[str, Any] | None:
        """The examination of each position with its interval, if the model learns from clicks."""
        if self._bias is None:
            return None
        low, high = self._bias.interval()
        return {"examination": list(self._bias.examination), "low": list(low), "high": list(high)}


def _loss_of(clicks: Any) -> float:
    """The loss of a list with clicks: 1 - 1/p, where p is the position of the first click; 1 without clicks."""
    first = next((p for p, gain in enumerate(clicks.gains, start=1) if gain > 0.0), None)
    return 1.0 if first is None else 1.0 - 1.0 / first


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
