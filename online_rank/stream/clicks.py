"""Simulated users, who click on what they are shown: from any stream of graded queries to a stream of clicks.

A user sees only the grades of the documents shown, in order. `user` makes users of these kinds:

- `CascadeUser`: reads from the top down; probabilities of a click, and of being satisfied and leaving after it, depend on the
  grade. The users "perfect", "navigational" and "informational" of the literature are of this kind;
- `PositionUser`: examines position p with probability p^-eta, independently of the rest;
- `TrustUser`: the same, but trusts the order, and also clicks on irrelevant documents near the top;
- `DependentUser`: reads from the top down; after a click continues with a probability that falls with the position;
- `BayesianUser`: reads from the top down; may lose patience at any document, and leaves when a click satisfies;
- `BrowsingUser`: examines positions depending on the distance to the last click;
- `SatisfiedUser`: reads from the top down until the clicked documents are enough.
"""

import abc
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from online_rank import arguments
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Schema
from online_rank.feedback.impressions import Clicks, Impression

__all__ = ["User", "click_stream", "user"]

#: Probabilities of a click, and of leaving after one, by grade, for 2, 3 and 5 grades, from table 2 of Oosterhuis & de Rijke
#: (2018), after Guo, Liu & Wang (2009) and Hofmann, Whiteson & de Rijke (2013).
_CASCADE = {
    "perfect": {
        1: ((0.0, 1.0), (0.0, 0.0)),
        2: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        4: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0,) * 5),
    },
    "navigational": {
        1: ((0.05, 0.95), (0.2, 0.9)),
        2: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        4: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        1: ((0.4, 0.9), (0.1, 0.5)),
        2: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        4: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
}


class User(base.Base, abc.ABC):
    """Base class of simulated users. Answer number t of a seed is always the same."""

    _schema = Schema()

    def __init__(self, seed: int, **probabilities: tuple[float, ...]) -> None:
        for name, values in probabilities.items():
            if not isinstance(values, tuple) or not values or not all(0.0 <= value <= 1.0 for value in values):
                raise ValueError(f"{name} is {values!r}; it is a tuple of probabilities, one a grade")
        arguments.seed(seed)
        self.seed = seed

    def clicks(self, shown: Impression, y: Sequence[int] | np.ndarray | Mapping[Hashable, int], draw: int) -> Clicks:
        """The clicks of this user on a ranking.

        Parameters
        ----------
        shown
            The ranking.
        y
            The grades of the documents of the query: by position, or `{document id: grade}`.
        draw
            Number of the answer: the same number gives the same randomness.
        """
        grades = np.array([y[document] for document in shown.order], np.int64)  # type: ignore[call-overload]
        clicked = self.browse(grades, counted_generator(self, self.seed, draw))
        return Clicks(shown, tuple(clicked.astype(np.float64).tolist()))

    @abc.abstractmethod
    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Which of the documents shown are clicked: what a user of your own writes.

        Parameters
        ----------
        grades
            Grades (k,) of the documents shown, from the top down, int64.
        rng
            Where all randomness comes from.

        Returns
        -------
        np.ndarray
            Bools (k,).
        """


class CascadeUser(User):
    """Reads from the top down, clicks by the grade, and after a click may be satisfied, and leave.

    Parameters
    ----------
    click
        Probability of a click on a document of grade 0, 1, 2, ...; higher grades have the last one.
    stop
        Probability of leaving after a click on it.
    seed
        Seed of the answers.

    Examples
    --------
    >>> from online_rank.feedback import Impression
    >>> from online_rank.stream.clicks import CascadeUser
    >>> eager = CascadeUser(click=(0.0, 1.0), stop=(0.0, 1.0))
    >>> eager.clicks(Impression((2, 1, 0)), [1, 1, 0], draw=0).gains  # not the first, the second, and then no more
    (0.0, 1.0, 0.0)
    """

    def __init__(self, click: tuple[float, ...], stop: tuple[float, ...], *, seed: int = 0) -> None:
        super().__init__(seed, click=click, stop=stop)
        if len(click) != len(stop):
            raise ValueError(f"click has {len(click)} grades, but stop has {len(stop)}")
        self.click = click
        self.stop = stop

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        click, leave = rng.random((2, len(grades)))
        clicked = click < _by_grade(self.click, grades)
        return _until(clicked, clicked & (leave < _by_grade(self.stop, grades)))


class PositionUser(User):
    """Examines position p with probability p^-eta, and clicks by the grade (the position-based model).

    Parameters
    ----------
    click
        Probability of a click on a document of grade 0, 1, 2, ... that is looked at.
    eta
        How fast attention falls: 0 not at all, 1 as 1/p, 2 as 1/p^2.
    seed
        Seed of the answers.
    """

    def __init__(self, click: tuple[float, ...] = (0.0, 0.5, 1.0), *, eta: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed, click=click)
        arguments.number("eta", eta, 0.0)
        self.click = click
        self.eta = eta

    def examination(self, k: int) -> np.ndarray:
        """The probability that each of the first `k` positions is examined, (k,)."""
        return np.arange(1.0, k + 1.0) ** -self.eta

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        return rng.random(len(grades)) < self.examination(len(grades)) * _by_grade(self.click, grades)


class TrustUser(User):
    """Examines positions like a `PositionUser`, and takes some irrelevant documents near the top for relevant ones.

    An examined document at position p is clicked with probability 1 - (p + 1)/100 if it is relevant, and 0.65/p if it is not.
    The model is from Agarwal, Wang, Li, Bendersky & Najork, *Addressing Trust Bias for Unbiased
    Learning-to-Rank*, 2019. The values are from Vardasbi, Oosterhuis & de Rijke, *When Inverse Propensity Scoring does not
    Work*, 2020, for whom grades 3 and 4 of 4 are relevant, and no others.

    Parameters
    ----------
    relevant
        Probability that a document of grade 0, 1, 2, ... is relevant to this user.
    eta
        How fast attention falls with the position.
    seed
        Seed of the answers.
    """

    def __init__(self, relevant: tuple[float, ...] = (0.0, 0.0, 1.0), *, eta: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed, relevant=relevant)
        arguments.number("eta", eta, 0.0)
        self.relevant = relevant
        self.eta = eta

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        position = np.arange(1.0, len(grades) + 1.0)
        relevant = _by_grade(self.relevant, grades)
        click = relevant * np.maximum(1.0 - (position + 1.0) / 100.0, 0.0) + (1.0 - relevant) * 0.65 / position
        return rng.random(len(grades)) < position**-self.eta * click


class DependentUser(User):
    """Reads from the top down; after a click at position p continues with probability `persistence` / p.

    This is the dependent click model of Guo, Liu & Wang (2009): whether the user reads on depends only on the position of the
    click.

    Parameters
    ----------
    click
        Probability of a click on a document of grade 0, 1, 2, ... that is read.
    persistence
        Probability of reading on after a click on the first document.
    seed
        Seed of the answers.
    """

    def __init__(self, click: tuple[float, ...] = (0.0, 0.5, 1.0), *, persistence: float = 0.9, seed: int = 0) -> None:
        super().__init__(seed, click=click)
        arguments.number("persistence", persistence, 0.0, 1.0)
        self.click = click
        self.persistence = persistence

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        click, leave = rng.random((2, len(grades)))
        clicked = click < _by_grade(self.click, grades)
        return _until(clicked, clicked & (leave >= self.persistence / np.arange(1.0, len(grades) + 1.0)))


class BayesianUser(User):
    """Reads from the top down; a click may satisfy, which ends the search; otherwise the user continues with a fixed
    probability.

    The dynamic Bayesian network model (DBN) of Chapelle & Zhang, *A Dynamic Bayesian Network Click Model for Web Search
    Ranking*, 2009; section 3.7 of Chuklin, Markov & de Rijke, *Click Models for Web Search*, 2015. A document that is read is
    clicked with probability alpha, and satisfies after a click with probability sigma; a user who is not satisfied reads the
    next one with probability gamma.

    Parameters
    ----------
    click
        alpha of a document of grade 0, 1, 2, ...
    satisfaction
        sigma of it.
    perseverance
        gamma.
    seed
        Seed of the answers.
    """

    def __init__(
        self,
        click: tuple[float, ...] = (0.05, 0.5, 0.95),
        *,
        satisfaction: tuple[float, ...] = (0.2, 0.5, 0.9),
        perseverance: float = 0.9,
        seed: int = 0,
    ) -> None:
        super().__init__(seed, click=click, satisfaction=satisfaction)
        arguments.number("perseverance", perseverance, 0.0, 1.0)
        if len(click) != len(satisfaction):
            raise ValueError(f"click has {len(click)} grades, but satisfaction has {len(satisfaction)}")
        self.click = click
        self.satisfaction = satisfaction
        self.perseverance = perseverance

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        click, satisfies, goes_on = rng.random((3, len(grades)))
        clicked = click < _by_grade(self.click, grades)
        satisfied = clicked & (satisfies < _by_grade(self.satisfaction, grades))
        return _until(clicked, satisfied | (goes_on >= self.perseverance))


class BrowsingUser(User):
    """Examines positions depending on their distance below the last click, and clicks by the grade.

    The user browsing model (UBM) of Dupret & Piwowarski, *A User Browsing Model to Predict Search Engine Click Data from Past
    Observations*, 2008; section 3.4 of Chuklin, Markov & de Rijke, 2015. Position r is examined with probability gamma_{r r'},
    where r' is the position of the last click above it, 0 for none.

    Parameters
    ----------
    click
        Probability of a click on a document of grade 0, 1, 2, ... that is looked at.
    eta
        gamma_{r r'} = (r - r')^-eta.
    seed
        Seed of the answers.
    """

    def __init__(self, click: tuple[float, ...] = (0.05, 0.5, 0.95), *, eta: float = 0.5, seed: int = 0) -> None:
        super().__init__(seed, click=click)
        arguments.number("eta", eta, 0.0)
        self.click = click
        self.eta = eta

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        draws, attraction = rng.random(len(grades)), _by_grade(self.click, grades)
        clicked, last = np.zeros(len(grades), np.bool_), 0
        for position in range(1, len(grades) + 1):
            if draws[position - 1] < attraction[position - 1] * (position - last) ** -self.eta:
                clicked[position - 1], last = True, position
        return clicked


class SatisfiedUser(User):
    """Reads from the top down and clicks by the grade, until the gains of the clicked documents reach a target.

    Parameters
    ----------
    click
        Probability of a click on a document of grade 0, 1, 2, ...
    gain
        The gain of a click on such a document.
    need
        The sum at which the session ends.
    seed
        Seed of the answers.
    """

    def __init__(
        self,
        click: tuple[float, ...] = (0.05, 0.5, 0.95),
        *,
        gain: tuple[float, ...] = (0.0, 0.5, 1.0),
        need: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(seed, click=click, gain=gain)
        if len(click) != len(gain):
            raise ValueError(f"click has {len(click)} grades, but gain has {len(gain)}")
        arguments.number("need", need, above=0.0)
        self.click = click
        self.gain = gain
        self.need = need

    def browse(self, grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """As `User.browse`."""
        clicked = rng.random(len(grades)) < _by_grade(self.click, grades)
        # With a tolerance for sums of fractions such as 1/3.
        return _until(clicked, np.cumsum(clicked * _by_grade(self.gain, grades)) >= self.need - 1e-12)


def user(name: str, *, max_grade: int = 2, seed: int = 0, **settings: Any) -> User:
    """A user of the literature.

    Parameters
    ----------
    name
        `"perfect"`, `"navigational"`, `"informational"`: cascades; `"position"`: eta = 1; `"position2"`: eta = 2; `"trust"`;
        `"dependent"`; `"dbn"`, `"satisfied"` and `"ubm"`, with the click probabilities of navigational users.
    max_grade
        The best grade of the stream. The probabilities of the cascades are published for 1, 2 and 4; for others they are
        interpolated between the ones for 4. To users who trust, documents with at least 3/4 of it are relevant; the others take
        a document of grade g for good with probability g / max_grade.
    seed
        Seed of the answers.
    settings
        Settings of the user that differ from the literature, such as `eta`.

    Examples
    --------
    >>> from online_rank.stream.clicks import user
    >>> user("navigational", max_grade=2).stop
    (0.2, 0.5, 0.9)
    >>> user("position", max_grade=2, eta=0.5).click
    (0.0, 0.5, 1.0)
    """
    arguments.integer("max_grade", max_grade, 1)
    arguments.seed(seed)
    arguments.choice("name", name, USERS)
    cls, usual = USERS[name]
    return cls(**{**usual(max_grade), **settings}, seed=seed)


def _cascade(name: str, leaving: str, max_grade: int) -> dict[str, tuple[float, ...]]:
    """Probabilities of a click and, under the name `leaving`, of the end after it, by grade."""
    published, grades = _CASCADE[name], np.linspace(0, 4, max_grade + 1)
    found = published.get(max_grade) or [tuple(np.interp(grades, range(5), five).tolist()) for five in published[4]]
    return dict(zip(("click", leaving), found, strict=True))


def _probability_of_good(max_grade: int) -> tuple[float, ...]:
    return tuple(grade / max_grade for grade in range(max_grade + 1))


#: Clicks, and satisfaction after them, of navigational users.
_eager = functools.partial(_cascade, "navigational", "satisfaction")

#: The users that `user` makes, by name: class, and its arguments for a stream whose best grade is given.
USERS: dict[str, tuple[Callable[..., User], Callable[[int], dict[str, Any]]]] = {
    **{name: (CascadeUser, functools.partial(_cascade, name, "stop")) for name in _CASCADE},
    "position": (PositionUser, lambda best: {"click": _probability_of_good(best)}),
    "position2": (PositionUser, lambda best: {"click": _probability_of_good(best), "eta": 2.0}),
    "trust": (TrustUser, lambda best: {"relevant": tuple(float(share >= 0.75) for share in _probability_of_good(best))}),
    "dependent": (DependentUser, lambda best: {"click": _probability_of_good(best)}),
    "dbn": (BayesianUser, _eager),
    "ubm": (BrowsingUser, lambda best: {"click": _eager(best)["click"]}),
    "satisfied": (SatisfiedUser, lambda best: {"click": _eager(best)["click"], "gain": _probability_of_good(best)}),
}


def click_stream(queries: Iterable[tuple[Any, Any]], model: Any, user: User) -> Iterator[tuple[Any, Clicks]]:
    """Queries and the clicks on what a model shows of them: `for x, clicks in click_stream(...): model.learn_one(x, clicks)`.

    Parameters
    ----------
    queries
        Pairs of a query and its grades.
    model
        A ranker or pipeline with a policy; each query is shown when the next pair is requested.
    user
        The user who clicks.

    Examples
    --------
    >>> from online_rank import StreamScaler, SwapRanker
    >>> from online_rank.stream.clicks import click_stream, user
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> model = StreamScaler() | SwapRanker()
    >>> for x, clicks in click_stream(NoisyTeacher(n_queries=50), model, user("perfect", max_grade=4)):
    ...     model.learn_one(x, clicks)
    """
    for draw, (x, y) in enumerate(queries):
        yield x, user.clicks(model.show_one(x), y, draw)


def _until(clicked: np.ndarray, leaves: np.ndarray) -> np.ndarray:
    """The clicks up to the first position after which the user leaves."""
    last = leaves.argmax() if leaves.any() else len(leaves)
    return clicked & (np.arange(len(clicked)) <= last)


def _by_grade(probabilities: tuple[float, ...], grades: np.ndarray) -> np.ndarray:
    return np.array(probabilities)[np.minimum(grades, len(probabilities) - 1)]
