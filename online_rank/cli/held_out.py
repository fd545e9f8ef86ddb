"""Ways to learn from displayed lists, compared by the clicks that they foretell."""

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Steps of Newton's method, and the ridge of the position terms, in clicks.
_STEPS, _RIDGE = 12, 1.0
#: Positions from this one on share a term: the steps take its cube in time, and its square in memory.
_DEEPEST = 100


class HeldOut:
    """Scores of displayed documents, with the clicks on them, and what they say about these.

    The probability that document i at position p is the one that was clicked, among those displayed, is in proportion to
    exp(a s_i + b_p). The scale a and the terms b are fitted on one half of the lists, every second one; the loss is the mean
    of the negative log probabilities of the clicks on the other half, and the reverse. So every way is measured alike,
    regardless of what it knows about positions.
    """

    def __init__(self) -> None:
        #: Scores, positions from 0, and gains of the documents of each list with a click.
        self.lists: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        #: The number of all lists.
        self.n_lists = 0

    def add(self, model: Any, x: Any, clicks: Any) -> None:
        """Add what a model says of a list, before it learns it."""
        self.n_lists += 1
        if not clicks.any or len(clicks.gains) < 2:
            return
        given = model.predict_one(x)
        scores = given if isinstance(given, dict) else dict(enumerate(given))
        order = clicks.impression.order
        places = np.array(clicks.impression.positions or range(1, len(order) + 1)) - 1
        self.lists.append((np.array([scores[document] for document in order]), places, np.array(clicks.gains)))

    @property
    def n(self) -> int:
        """How many lists with a click there are."""
        return len(self.lists)

    def loss(self) -> float:
        """The mean negative log probability of a click; NaN with fewer than two lists."""
        halves = self.lists[::2], self.lists[1::2]
        if not all(halves):
            return float("nan")
        lost = clicked = 0.0
        for fitted, judged in (halves, halves[::-1]):
            about = _Lists(fitted, self._depth, self._spread)
            other = _Lists(judged, self._depth, self._spread)
            lost += other.lost(about.fitted())
            clicked += float(other.clicked.sum())
        return lost / clicked

    @property
    def _depth(self) -> int:
        return min(max(int(places.max()) for _, places, _ in self.lists) + 1, _DEEPEST)

    @property
    def _spread(self) -> float:
        return float(np.sqrt(np.mean([scores.var() for scores, _, _ in self.lists]))) or 1.0


class _Lists:
    """Lists side by side, padded to the longest: columns (n, m, 1 + depth) of scores and positions."""

    def __init__(self, lists: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], depth: int, spread: float) -> None:
        n, m = len(lists), max(len(scores) for scores, _, _ in lists)
        self.columns = np.zeros((n, m, 1 + depth))
        self.gains, self.padding = np.zeros((n, m)), np.full((n, m), -np.inf)
        for k, (scores, places, gains) in enumerate(lists):
            own = np.arange(len(scores))
            self.columns[k, own, 0] = (scores - scores.mean()) / spread
            self.columns[k, own, 1 + np.minimum(places, depth - 1)] = 1.0
            self.gains[k, own], self.padding[k, own] = gains, 0.0
        self.clicked = self.gains.sum(axis=1)

    def chances(self, weights: np.ndarray) -> np.ndarray:
        odds = self.columns @ weights + self.padding
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def lost(self, weights: np.ndarray) -> float:
        chosen = self.gains > 0.0
        return -float((self.gains[chosen] * np.log(self.chances(weights)[chosen] + 1e-300)).sum())

    def fitted(self) -> np.ndarray:
        """The scale and the terms of positions that foretell these clicks best."""
        d = self.columns.shape[2]
        weights, ridge = np.zeros(d), np.full(d, _RIDGE)
        for _ in range(_STEPS):
            chances = self.chances(weights) * self.clicked[:, None]
            push = np.tensordot(self.gains - chances, self.columns, 2) - ridge * weights
            means = np.einsum("nm,nmd->nd", chances, self.columns)
            curve = np.tensordot(chances[:, :, None] * self.columns, self.columns, ((0, 1), (0, 1)))
            curve -= (means / self.clicked[:, None]).T @ means - np.diag(ridge)
            weights = weights + np.clip(np.linalg.solve(curve, push), -2.0, 2.0)
        return weights
