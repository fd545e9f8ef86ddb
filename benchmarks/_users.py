"""Users of the literature that no guide needs: for benchmarks and tests, next to those of `online_rank.stream.clicks`."""

from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.stream import clicks
from online_rank.stream.clicks import User, by_grade, cascade, probability_of_good, until


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
        clicked = click < by_grade(self.click, grades)
        return until(clicked, clicked & (leave >= self.persistence / np.arange(1.0, len(grades) + 1.0)))


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
        clicked = click < by_grade(self.click, grades)
        satisfied = clicked & (satisfies < by_grade(self.satisfaction, grades))
        return until(clicked, satisfied | (goes_on >= self.perseverance))


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
        draws, attraction = rng.random(len(grades)), by_grade(self.click, grades)
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
        clicked = rng.random(len(grades)) < by_grade(self.click, grades)
        # With a tolerance for sums of fractions such as 1/3.
        return until(clicked, np.cumsum(clicked * by_grade(self.gain, grades)) >= self.need - 1e-12)


def _eager(max_grade: int) -> dict[str, tuple[float, ...]]:
    """Clicks, and satisfaction after them, of navigational users."""
    click, satisfaction = cascade("navigational", max_grade)
    return {"click": click, "satisfaction": satisfaction}


#: Their classes, and their settings for a stream whose best grade is given.
_OTHERS: dict[str, Any] = {
    "dependent": (DependentUser, lambda best: {"click": probability_of_good(best)}),
    "dbn": (BayesianUser, _eager),
    "ubm": (BrowsingUser, lambda best: {"click": _eager(best)["click"]}),
    "satisfied": (SatisfiedUser, lambda best: {"click": _eager(best)["click"], "gain": probability_of_good(best)}),
}


def user(name: str, *, max_grade: int = 2, seed: int = 0, **settings: Any) -> User:
    """As `clicks.user`, also for the users of this file."""
    if name not in _OTHERS:
        return clicks.user(name, max_grade=max_grade, seed=seed, **settings)
    cls, usual = _OTHERS[name]
    return cls(**{**usual(max_grade), **settings}, seed=seed)
