"""What was shown to a user, and what the user did with it."""

import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from online_rank.query.feedback import Feedback

__all__ = ["Clicks", "Impression"]


@dataclasses.dataclass(frozen=True, slots=True)
class Impression:
    """A ranking as it was shown, with what learning from its clicks will need, however late they come.

    `show_one` of a ranker makes one. It holds only strings, numbers and tuples of them: `to_dict` is ready for JSON when the
    document ids are.

    Parameters
    ----------
    order
        The ids of the k documents shown, best first; positions in the query for documents without ids.
    logits
        Logits of the k documents in the Plackett-Luce law that the ranking was drawn from; None where there was none.
    rest
        logsumexp of the logits of the documents that were not shown; None when all were, or there are no logits.
    pairs_from
        For a ranking of `FairPairs`: the position (0 or 1) of the first of the pairs of neighbours that were put in random
        order.
    teams
        For a ranking that several rankers drafted: which of them picked each document, strings or integers.

    Raises
    ------
    TypeError, ValueError
        A document stands twice in `order`, logits are not finite, or there is not one logit or team a document.

    Examples
    --------
    >>> from online_rank.feedback import Impression
    >>> shown = Impression(("b", "a", "c"))
    >>> shown.clicked(["a"]).gains
    (0.0, 1.0, 0.0)
    >>> shown.clicked({"a": 0.7, "b": 0.1}).gains
    (0.1, 0.7, 0.0)
    >>> Impression.from_dict(shown.to_dict()) == shown
    True
    """

    order: tuple[Hashable, ...]
    logits: tuple[float, ...] | None = None
    rest: float | None = None
    pairs_from: int | None = None
    teams: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.order, str | bytes) or not isinstance(self.order, Iterable):
            raise TypeError(f"order is of type {type(self.order).__name__}; it is the ids of the documents shown, best first")
        order = tuple(self.order)
        object.__setattr__(self, "order", order)
        if len(set(order)) < len(order):
            raise ValueError(f"order shows document {next(d for d in order if order.count(d) > 1)!r} twice")
        if self.logits is not None:
            object.__setattr__(self, "logits", _floats("logits", self.logits))
            if len(self.logits) != len(order):
                raise ValueError(f"logits has {len(self.logits)} values for {len(order)} documents shown")
        if self.rest is not None and (self.logits is None or not math.isfinite(self.rest)):
            raise ValueError(f"rest is {self.rest}; it is a finite number beside logits, or None")
        if self.pairs_from is not None and (self.pairs_from not in (0, 1) or self.logits is not None):
            raise ValueError(f"pairs_from is {self.pairs_from}; it is 0 or 1 for a ranking without logits, or None")
        if self.teams is not None:
            object.__setattr__(self, "teams", _names("teams", self.teams))
            if len(self.teams) != len(order):
                raise ValueError(f"teams names {len(self.teams)} rankers for {len(order)} documents shown")

    def clicked(self, clicks: Iterable[Hashable] | Mapping[Hashable, float]) -> "Clicks":
        """What the user did with this ranking.

        Parameters
        ----------
        clicks
            The ids of the documents clicked, in any order; none means that the user looked and clicked nothing, which is not
            the same as no answer. Or `{id: engagement}` with numbers >= 0 (dwell time, 0 or 1 for a purchase, ...).

        Raises
        ------
        TypeError, ValueError
            A document was not shown, or an engagement is not a finite number >= 0.
        """
        if isinstance(clicks, str | bytes) or not isinstance(clicks, Iterable):
            raise TypeError(
                f"clicks is of type {type(clicks).__name__}; it is the ids of the documents clicked, or {{id: engagement}}"
            )
        gains = dict(clicks) if isinstance(clicks, Mapping) else dict.fromkeys(clicks, 1.0)
        values = tuple([gains.pop(document, 0.0) for document in self.order])
        if gains:
            raise ValueError(f"clicks: document {next(iter(gains))!r} was not shown")
        return Clicks(self, values)

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, as lists and numbers, for JSON."""
        fields = {"order": list(self.order), "logits": self.logits and list(self.logits)}
        fields.update(rest=self.rest, pairs_from=self.pairs_from, teams=self.teams and list(self.teams))  # type: ignore[arg-type]
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Impression":
        """An impression from what `to_dict` gave."""
        return cls(**fields)


@dataclasses.dataclass(frozen=True, slots=True)
class Clicks(Feedback):
    """What a user did with a ranking: the feedback that rankers for clicks learn from, as others learn from grades.

    A pair of documents of which one has more gain speaks for that one, with the difference as its weight.

    Parameters
    ----------
    impression
        What was shown.
    gains
        One number >= 0 for each document shown, in the order in which they were; 0 where nothing was done, 1 for a click.

    Raises
    ------
    TypeError, ValueError
        There is not one finite number >= 0 for each document shown.
    """

    impression: Impression
    gains: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.impression, Impression):
            raise TypeError(
                f"impression is of type {type(self.impression).__name__}; it is an Impression, as show_one gives it"
            )
        gains = _floats("gains", self.gains)
        object.__setattr__(self, "gains", gains)
        if len(gains) != len(self.impression.order):
            raise ValueError(f"gains has {len(gains)} values for {len(self.impression.order)} documents shown")
        if gains and min(gains) < 0.0:
            i = gains.index(min(gains))
            raise ValueError(f"gains: that of document {self.impression.order[i]!r} is {gains[i]}; gains are numbers >= 0")

    @property
    def any(self) -> bool:
        """Whether anything was clicked."""
        return any(self.gains)


def _names(name: str, values: Any) -> tuple[str | int, ...]:
    """Names of rankers."""
    if not isinstance(values, list | tuple) or not all(type(value) in (str, int) for value in values):
        raise TypeError(f"{name} is {str(values)[:80]}; it is one string or integer a document")
    return tuple(values)


def _floats(name: str, values: Any) -> tuple[float, ...]:
    """Finite numbers as floats."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    try:
        numbers = tuple([float(value) for value in values])
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {str(values)[:80]}; it is one number a document") from None
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} has {next(v for v in numbers if not math.isfinite(v))}; it is one finite number a document")
    return numbers
