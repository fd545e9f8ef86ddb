"""Measures of the user's own: the loss of a ranking, as a function of the grades in its order."""

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from online_rank import extensions
from online_rank.query import as_grades

__all__ = ["OwnMeasure", "RankingLoss"]


@runtime_checkable
class RankingLoss(Protocol):
    """What a measure of your own with settings offers; without settings a function of the same form is enough.

    `PerceptronRanker(measure=...)` takes it. To save models with it, register its class (`online_rank.register`): a file
    then holds the name and the arguments of the constructor, which are attributes of the same names, as in a frozen dataclass.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np
    >>> from online_rank import PerceptronRanker, register
    >>> @register("docs.first")
    ... @dataclasses.dataclass(frozen=True)
    ... class FirstRelevant:
    ...     threshold: int = 1
    ...     def loss(self, ranked):
    ...         found = np.flatnonzero(ranked >= min(self.threshold, ranked.max()))
    ...         return 1.0 - 1.0 / (1.0 + found[0])
    >>> isinstance(FirstRelevant(), RankingLoss)
    True
    >>> model = PerceptronRanker(FirstRelevant())
    >>> model.learn_one([[0.0], [0.0], [1.0]], [0, 0, 1])
    >>> model.last_round.loss  # all scores were 0, and ties count as ranked in the worst order: 1 - 1/3
    0.6666666666666667
    """

    def loss(self, ranked: np.ndarray) -> float:
        """The loss of a ranking of one query.

        Parameters
        ----------
        ranked
            (m,) int64 grades >= 0, not all equal, in the order of the ranking, best first; equal scores are in the worst order.

        Returns
        -------
        A number from 0 to 1; 0 if the grades never rise.
        """


class OwnMeasure:
    """A measure of the user's own where the library expects a `Measure`.

    Parameters
    ----------
    given
        The function or object.

    Attributes
    ----------
    given
        As above.
    k
        0: it has no cutoff that the library knows of.
    """

    k = 0

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    def name(self) -> str:
        """Its name in messages: the name that it is registered under, or the name of its class or function."""
        return extensions.called(self.given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnMeasure) and self.given == other.given

    def __hash__(self) -> int:
        return hash(self.name)

    def loss(self, scores: Any, grades: Any, ties: str = "pessimistic") -> float:
        """The loss of the ranking by `scores`; 0 if all grades are equal.

        Parameters
        ----------
        scores
            m numbers; a higher score ranks earlier.
        grades
            m integers >= 0.
        ties
            `"pessimistic"`: equal scores are in the worst order. There is no other.

        Raises
        ------
        TypeError, ValueError
            Bad arguments, or the measure returns no number from 0 to 1.
        """
        if ties != "pessimistic":
            raise ValueError(f"ties is {ties!r}; a measure of your own takes only 'pessimistic'")
        s = np.asarray(scores, dtype=np.float64)
        y = as_grades(grades, len(s))
        if not len(y) or y.min() == y.max():
            return 0.0
        # With the lower grades first where scores are equal.
        return self.loss_of(y[np.lexsort((y, -s))])

    def loss_of(self, ranked: np.ndarray) -> float:
        """The loss of a ranking, by its grades (m,) from the top down, not all equal."""
        value = self.given.loss(ranked) if isinstance(self.given, RankingLoss) else self.given(ranked)
        try:
            loss = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"measure {self.name!r} returned a {type(value).__name__}; it must return a number") from None
        if not 0.0 <= loss <= 1.0:
            raise ValueError(f"measure {self.name!r} returned {loss}; a loss is from 0 to 1")
        return loss

    def losses(self, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """`loss` of each query of a block, float64 (q,): 0 for a query of one grade, 1 if a score is not finite."""
        found = np.zeros(len(offsets) - 1)
        for q, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            own = scores[start:stop]
            found[q] = self.loss(own, grades[start:stop]) if np.isfinite(own).all() else 1.0
        return found


def is_own(measure: Any) -> bool:
    """Whether an argument `measure` is not the name of a measure of the library."""
    return "." in measure if isinstance(measure, str) else callable(measure) or isinstance(measure, RankingLoss)


def own_measure(measure: Any) -> OwnMeasure:
    """The measure that an argument `measure` stands for: a registered name, a function, or a class or object with `loss`.

    Raises
    ------
    ValueError
        The name is not registered.
    """
    return OwnMeasure(extensions.own("measure", measure))


def share(mass_of_loss: bool, loss: float, base: float, name: str) -> float:
    """How much of an update for a loss `base` is due for the loss of a measure called `name`.

    Parameters
    ----------
    mass_of_loss
        Whether the mass of an update is the loss, not its square root.
    loss, base
        The losses, both of one ranking.
    name
        For the message.

    Raises
    ------
    ValueError
        The ranking is ideal, but has a loss.
    """
    if loss == 0.0:
        return 0.0
    if base == 0.0:
        raise ValueError(f"measure {name!r} gives an ideal ranking the loss {loss}; it must be 0")
    ratio = loss / base
    return ratio if mass_of_loss else math.sqrt(ratio)
