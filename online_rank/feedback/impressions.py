"""Rankings shown to users, and their clicks."""

import dataclasses
import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.limits import FORMAT_VERSION, is_integer
from online_rank.query.blocks import require_no_tiny
from online_rank.query.grades import Feedback

#: Logits are cut this far below the largest, as kernels cut them.
_DEEPEST = 600.0
#: The most rounds of a draft over whose coins a vote is averaged; of more, as the coins fell.
_MOST_COINS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Impression:
    """A ranking as it was shown, with everything needed to learn from its clicks, however late they come.

    `show_one` of a ranker makes one. It contains only strings, numbers and tuples of them, so `to_dict` is ready for JSON if
    the document ids are.

    For lists shown by another system, give `propensities` or `placements`, use `Impression.shuffled`, or give nothing;
    `online_rank.feedback` says what can be learned from each.

    Parameters
    ----------
    order
        The ids of the k documents shown, best first; positions in the query for documents without ids.
    logits
        Logits of the documents `drawn`, in the Plackett-Luce distribution that the ranking was drawn from;
        None if another law drew it.
    rest
        logsumexp of the logits of the documents that were not drawn; None if all were drawn, or there are no logits.
    pairs_from
        For a ranking of `FairPairs`: the position (0 or 1) of the first of the pairs of neighbours that were put in random
        order.
    teams
        For a ranking drafted by several rankers: the ranker that picked each document, a string or an integer.
    alike
        Of such a ranking the positions, from 0, at which rounds begin that give the same documents whoever picks first: a coin
        alone says whose they are.
    held_back
        Documents that were drawn next but not shown. If only one or two are shown, they are compared with these.
    newcomer
        Whether the last document shown was not drawn, but took the place of the first one held back (`PlackettLuce`).
        It has no logit, and its clicks are not compared with others; it needs `propensities`.
    positions
        The positions of the documents on the page, from 1, rising; None for 1 to k. Gaps are advertisements, pinned documents
        and anything else that was not ranked.
    pinned
        The pinned documents, as pairs of a position and a document. They were not drawn; clicks on them are accepted, and teach
        nothing.
    propensities
        The probability of each document at its position, given those above it.
    placements
        The marginal probability of each document at its position.
    kept
        What exploring costs: lower bound, from 0 to 1, on the expected DCG@k of such a draw, for these scores, as a share of
        the greedy list's; None if it is not known.

    Raises
    ------
    TypeError, ValueError
        A document occurs twice in `order`, or the fields contradict one another.

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
    held_back: tuple[Hashable, ...] = ()
    positions: tuple[int, ...] | None = None
    propensities: tuple[float, ...] | None = None
    placements: tuple[float, ...] | None = None
    kept: float | None = None
    newcomer: bool = False
    pinned: tuple[tuple[int, Hashable], ...] = ()
    alike: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("order", "held_back"):
            value = getattr(self, name)
            if type(value) is not tuple:
                if isinstance(value, str | bytes) or not isinstance(value, Iterable):
                    raise TypeError(f"{name} is of type {type(value).__name__}; it is ids of documents, best first")
                object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "pinned", _pinned(self.pinned))
        known = self.order + self.held_back + tuple([document for _, document in self.pinned])
        if len(set(known)) < len(known):
            raise ValueError(f"order shows document {next(d for d in known if known.count(d) > 1)!r} twice")
        if type(self.newcomer) is not bool:
            raise TypeError(f"newcomer is {self.newcomer!r}; it is True or False")
        if self.newcomer and not (self.logits is not None and self.propensities is not None and self.order and self.held_back):
            raise ValueError("newcomer goes with logits, propensities and held_back: the document whose place it took")
        n = len(self.order)
        for name, convert, count in (
            ("logits", _floats, len(self.drawn)),
            ("teams", _names, n),
            ("positions", _positions, n),
            ("propensities", _floats, n),
            ("placements", _floats, n),
        ):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, values := convert(name, getattr(self, name)))
                if len(values) != count:
                    raise ValueError(f"{name} has {len(values)} values for {count} documents")
        if self.rest is not None and (self.logits is None or not math.isfinite(self.rest)):
            raise ValueError(f"rest is {self.rest}; it is a finite number and comes with logits, or None")
        if self.pairs_from is not None and (self.pairs_from not in (0, 1) or self.logits is not None):
            raise ValueError(f"pairs_from is {self.pairs_from}; it is 0 or 1 for a ranking without logits, or None")
        if self.held_back and self.logits is None and self.pairs_from is None:
            raise ValueError("held_back goes with logits or pairs_from: other documents cannot be compared")
        for name in ("propensities", "placements"):
            values = getattr(self, name) or ()
            if values and not 0.0 < min(values) <= max(values) <= 1.0:
                wrong = next(value for value in values if not 0.0 < value <= 1.0)
                raise ValueError(f"{name} has {wrong}; it is one probability > 0 a document")
        object.__setattr__(self, "alike", tuple(self.alike))
        if not all(is_integer(place, 0, n - 1) for place in self.alike) or (self.alike and self.teams is None):
            raise ValueError(f"alike is {self.alike!r:.80}; it is positions of a drafted ranking, from 0")
        if self.kept is not None:
            arguments.number("kept", self.kept, 0.0, 1.0)
            object.__setattr__(self, "kept", float(self.kept))  # also where a policy computed it with NumPy: files have numbers

    @classmethod
    def shuffled(
        cls,
        order: Iterable[Hashable],
        n_candidates: int | None = None,
        *,
        held_back: Iterable[Hashable] = (),
        **fields: Any,
    ) -> "Impression":
        """A list in uniformly random order.

        Parameters
        ----------
        order
            The documents shown, best first.
        n_candidates
            The number of documents they were drawn from; None if a given set of documents was put in random order.
        held_back
            Some of the other candidates, in random order too. A list of one or two documents is compared with them.
        fields
            Other fields.

        Examples
        --------
        >>> Impression.shuffled(("b", "a"), n_candidates=3).chances  # 1 of 3, and then 1 of the 2 that are left
        (0.333..., 0.5)
        """
        shown, others = tuple(order), tuple(held_back)
        n = len(shown) + len(others)
        if n_candidates is not None:
            arguments.integer("n_candidates", n_candidates, n)
        rest = math.log(n_candidates - n) if n_candidates is not None and n_candidates > n else None
        return cls(shown, (0.0,) * n, rest, held_back=others, **fields)

    @property
    def n_compared(self) -> int:
        """How many of the documents shown, the first ones, can be compared with others: all but a newcomer."""
        return len(self.order) - self.newcomer

    @property
    def drawn(self) -> tuple[Hashable, ...]:
        """The documents that were drawn, in the order of the draw: those shown, without a newcomer, then those held back."""
        return self.order[: self.n_compared] + self.held_back

    @property
    def page(self) -> tuple[Hashable, ...]:
        """The documents in the order of the page, with those that are pinned."""
        if not self.pinned:
            return self.order
        places = range(1, len(self.order) + 1) if self.positions is None else self.positions
        at = {**dict(zip(places, self.order, strict=True)), **dict(self.pinned)}
        return tuple([at[place] for place in sorted(at)])

    @property
    def chances(self) -> tuple[float, ...] | None:
        """The probability of each document at its position given those above it, from `propensities` or the logits; otherwise
        None.
        """
        if self.propensities is not None or self.logits is None:
            return self.propensities
        # From the end: the sum over the documents left at each position.
        largest = max((*self.logits, -math.inf if self.rest is None else self.rest), default=0.0)
        left = 0.0 if self.rest is None else math.exp(self.rest - largest)
        chances = []
        for logit in reversed(self.logits):
            e = math.exp(max(logit - largest, -_DEEPEST))
            left += e
            chances.append(e / left)
        return tuple(chances[::-1][: len(self.order)])

    @classmethod
    def drafted(cls, rankings: Mapping[Any, Sequence[Hashable]], k: int | None, rng: np.random.Generator) -> "Impression":
        """Two rankings, drafted into one as captains pick teams: a coin decides in each round which of them picks first.

        Parameters
        ----------
        rankings
            Two rankings of documents, best first, by the names of their rankers: strings or integers.
        k
            The most documents of the list; None for all.
        rng
            Throws the coins.

        Returns
        -------
        An impression whose `teams` say which ranker picked each document (Radlinski, Kurup & Joachims 2008).

        Examples
        --------
        >>> shown = Impression.drafted({"a": ["p", "q"], "b": ["q", "r"]}, 2, np.random.default_rng(1))
        >>> shown.order, shown.teams
        (('q', 'p'), ('b', 'a'))
        """
        order: list[Hashable] = []
        teams: list[Any] = []
        alike: list[int] = []
        left = {team: _Left(ranking) for team, ranking in rankings.items()}
        first, second = left
        n = len(set().union(*rankings.values()))
        length = n if k is None else min(k, n)
        taken: set[Hashable] = set()
        while len(order) < length:
            room = min(2, length - len(order))
            segments = {a: _picked(left[a], left[b], taken)[:room] for a, b in ((first, second), (second, first))}
            begins, follows = (first, second) if rng.random() < 0.5 else (second, first)
            one, other = segments[first], segments[second]
            # Of a ranker that continues alone they are, whoever begins.
            if [document for _, document in one] == [document for _, document in other] and one[0][0] == other[0][0]:
                alike.append(len(order))
            for own, document in segments[begins]:
                order.append(document)
                teams.append(begins if own else follows)
                taken.add(document)
        return cls(tuple(order), teams=tuple(teams), alike=tuple(alike))

    def clicked(self, clicks: Iterable[Hashable] | Mapping[Hashable, float]) -> "Clicks":
        """The user's clicks on this ranking.

        Parameters
        ----------
        clicks
            The ids of the documents clicked, in any order; an empty list means that the user looked and clicked nothing, which
            is not the same as no answer. Or `{id: engagement}` with numbers >= 0 (dwell time, 0 or 1 for a purchase, ...).

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
        for _, document in self.pinned:
            gains.pop(document, None)
        if gains:
            raise ValueError(f"clicks: document {next(iter(gains))!r} was not shown")
        return Clicks(self, values)

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, as lists and numbers, for JSON, and the `format` that all of this library's files have."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        is_set = {name: value not in ((), None) and value is not False for name, value in fields.items()}
        set_ones = {name: value for name, value in fields.items() if name == "order" or is_set[name]}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in set_ones.items()}
        return {"format": FORMAT_VERSION, **plain}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Impression":
        """An impression from what `to_dict` gave, in this version or an older one: a field that it lacks has its default.

        Raises ValueError for a newer format, and for fields that an impression does not have.
        """
        given = dict(fields)
        version = given.pop("format", FORMAT_VERSION)
        if not is_integer(version, 1, FORMAT_VERSION):
            raise ValueError(f"format is {version!r}; this online_rank reads impressions of formats 1 to {FORMAT_VERSION}")
        unknown = given.keys() - {field.name for field in dataclasses.fields(cls)}
        if unknown or "order" not in given:
            raise ValueError(f"an impression has no field {min(unknown)!r}" if unknown else "an impression needs its order")
        return cls(**given)


@dataclasses.dataclass(frozen=True, slots=True)
class Clicks(Feedback):
    """A user's clicks on a ranking: the feedback that rankers for clicks learn from, as others learn from grades.

    A pair of documents with different gains favours the one with the larger gain, weighted by the difference.

    Parameters
    ----------
    impression
        The ranking that was shown.
    gains
        One number >= 0 for each document shown, in the order shown; 0 for no action, 1 for a click.

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
        require_no_tiny("gains", np.array(gains))
        if gains and min(gains) < 0.0:
            i = gains.index(min(gains))
            raise ValueError(f"gains: document {self.impression.order[i]!r} has {gains[i]}; gains are numbers >= 0")

    @property
    def any(self) -> bool:
        """Whether anything was clicked."""
        return any(self.gains)

    def vote(self, team: str | int) -> float:
        """1 if the clicks on a drafted ranking prefer `team`, 0 if they prefer the other, 1/2 for neither.

        If a coin alone says whose documents of a round are (`Impression.alike`), it is the mean over what the coin could have
        said: the same in expectation, with less chance in it.
        """
        teams = self.impression.teams or ()
        signed = [gain if picked == team else -gain for gain, picked in zip(self.gains, teams, strict=True)]
        coins: list[float] = []
        for place in self.impression.alike:
            difference = sum(signed[place : place + 2])
            if difference and len(coins) < _MOST_COINS:
                coins.append(difference)
                signed[place : place + 2] = [0.0] * len(signed[place : place + 2])
        lead, votes = sum(signed), 0.0
        for signs in itertools.product((1.0, -1.0), repeat=len(coins)):
            given = lead + sum(sign * difference for sign, difference in zip(signs, coins, strict=True))
            votes += 0.5 + 0.5 * (given > 0) - 0.5 * (given < 0)
        return votes / 2.0 ** len(coins)


class _Left:
    """What a ranker has not seen picked yet of its ranking."""

    def __init__(self, ranking: Sequence[Hashable]) -> None:
        self._ranking, self._at = ranking, 0

    def best(self, taken: set[Hashable], but: Hashable = None) -> tuple[Hashable, ...]:
        """Its best document that is not taken, and is not another one; none at the end."""
        while self._at < len(self._ranking) and self._ranking[self._at] in taken:
            self._at += 1
        for document in itertools.islice(self._ranking, self._at, None):
            if document not in taken and document != but:
                return (document,)
        return ()


def _picked(first: _Left, second: _Left, taken: set[Hashable]) -> list[tuple[bool, Hashable]]:
    """What two rankers pick in a round, each with whether the first of them picked it."""
    one = first.best(taken)
    other = second.best(taken, *one)
    return [*((True, document) for document in one), *((False, document) for document in other)]


def _names(name: str, values: Any) -> tuple[str | int, ...]:
    """Names of rankers."""
    if not isinstance(values, list | tuple) or not all(type(value) in (str, int) for value in values):
        raise TypeError(f"{name} is {str(values)[:80]}; it is one string or integer a document")
    return tuple(values)


def _pinned(values: Any) -> tuple[tuple[int, Hashable], ...]:
    """Pairs of a position and a document."""
    if not isinstance(values, list | tuple) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in values):
        raise TypeError(f"pinned is {str(values)[:80]}; it is pairs of a position and a document")
    for place, _ in values:
        arguments.integer("pinned", place, 1)
    return tuple([(int(place), document) for place, document in values])


def _positions(name: str, values: Any) -> tuple[int, ...]:
    """Positions on a page, from 1, rising."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, list | tuple):
        raise TypeError(f"{name} is {str(values)[:80]}; it is one integer >= 1 a document")
    for value in values:
        arguments.integer(name, value, 1)
    if any(b <= a for a, b in itertools.pairwise(values)):
        raise ValueError(f"{name} is {str(values)[:80]}; they rise from document to document")
    return tuple(map(int, values))


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
