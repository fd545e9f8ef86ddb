"""The section of `benchmarks.bounds` on what cannot be certified of rankers that learn from swaps."""

import itertools

import numpy as np
from scipy.optimize import minimize

from benchmarks._common import table
from benchmarks._data import MQ2008, data_folder, mq2008_parts, offsets_of
from online_rank import SwapRanker, read
from online_rank._kernels import clicks as kernels
from online_rank.feedback import PlackettLuce
from online_rank.preprocessing import StreamQuantileMap
from online_rank.stream.clicks import user

__all__ = ["misled", "swaps"]

#: The hinge is rounded off over this distance: the smooth one is nowhere larger.
_ROUNDED = 0.1
_USERS = ("perfect", "navigational", "informational", "trust", "position")


def misled(rounds: int = 40) -> tuple[int, int]:
    """Errors of `SwapRanker`, and of the best weights in hindsight, where users click what it ranks last.

    Documents are (0, 0) and (1, -x), with x in the middle of the thetas for which the weights (theta, 1) have made no error.
    """
    model, low, high, errors = SwapRanker(PlackettLuce(k=2)), 0.0, 1.0, 0
    asked = []
    for _ in range(rounds):
        x = (low + high) / 2.0
        X = np.array([[0.0, 0.0], [1.0, -x]])
        last = model.rank_one(X)[-1]
        low, high = (x, high) if last == 1 else (low, x)
        model.learn_one(X, model.show_one(X).clicked([last]))
        asked.append((x, last))
        errors += 1
    theta = (low + high) / 2.0
    return errors, sum((theta > x) != (last == 1) for x, last in asked)


def _swap_weights(shown: object) -> np.ndarray:
    """rho of each pair of positions a < b of a drawn list, (n, n)."""
    logits = np.array(shown.logits)  # type: ignore[attr-defined]
    n, rest = len(logits), shown.rest  # type: ignore[attr-defined]
    e, rho = np.empty(n), np.zeros((n, n))
    unshown = kernels.exponentials(logits, -np.inf if rest is None else rest, e)
    for a, b in itertools.combinations(range(n), 2):
        rho[a, b] = kernels.swap_weight(e, unshown, float(e[b + 1 :].sum()), a, b)
    return rho


def _learned(name: str, rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs that differ in clicks: differences of features (p, d) and weights (p,); then whether the served scores, and the
    grades, order each against the clicks (p,), .5 for equal ones.
    """
    raw = read(*mq2008_parts(data_folder() / MQ2008)).all()
    front = StreamQuantileMap()
    front.learn_many(raw.X, None, raw.qid)
    mapped = front.transform_many(raw.X, raw.qid)
    offsets, rng = offsets_of(raw), np.random.default_rng(seed)
    model, who = SwapRanker(PlackettLuce(k=10, seed=seed)), user(name, seed=seed)
    D, q, wrong, upside = [], [], [], []
    for t in range(rounds):
        k = int(rng.integers(len(offsets) - 1))
        rows = slice(offsets[k], offsets[k + 1])
        x, y = mapped[rows], raw.y[rows]
        scores = np.array(model.predict_one(x))
        shown = model.show_one(x)
        found = who.clicks(shown, y, t)
        rho, gains = _swap_weights(shown), np.array(found.gains)
        for a, b in zip(*np.nonzero(np.triu(gains[:, None] != gains, 1)), strict=True):
            i, j = (shown.order[a], shown.order[b]) if gains[a] > gains[b] else (shown.order[b], shown.order[a])
            D.append(x[i] - x[j])
            q.append(rho[a, b] * abs(gains[a] - gains[b]))
            wrong.append(0.5 - 0.5 * np.sign(scores[i] - scores[j]))
            upside.append(0.5 - 0.5 * np.sign(y[i] - y[j]))
        model.learn_one(x, found)
    return np.array(D), np.array(q), np.array(wrong), np.array(upside)


def _least_hinge(D: np.ndarray, q: np.ndarray) -> float:
    """An estimate of the least hinge loss of weights on pairs (p, d) with weights q (p,), by a smooth function below it."""

    def smooth(u: np.ndarray) -> tuple[float, np.ndarray]:
        lack = 1.0 - D @ u
        slope = np.clip(lack / _ROUNDED, 0.0, 1.0)
        value = np.where(lack > _ROUNDED, lack - _ROUNDED / 2.0, slope * np.maximum(lack, 0.0) / 2.0)
        return float(q @ value), -(q * slope) @ D

    return float(minimize(smooth, np.zeros(D.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 300}).fun)


def swaps(runs: int = 2, rounds: int = 1000) -> str:
    """Why no regret of `SwapRanker` is certified: what is lost on swaps, and the least hinge loss of linear weights."""
    rows = []
    for name in _USERS:
        found = []
        for seed in range(runs):
            D, q, wrong, upside = _learned(name, rounds, seed)
            found.append([*(float(q @ each) / q.sum() for each in (wrong, upside, 1.0 - upside)), _least_hinge(D, q) / q.sum()])
        rows.append((name, *(f"{value:.3f}" for value in np.mean(found, axis=0))))
    errors, best = misled()
    header = ("users", "as served", "ordered by the grades", "ordered against them", "least hinge of linear weights")
    return (
        f"MQ2008, {rounds:,} impressions of ten, mean over {runs} runs. Shares of the weight rho |g_i - g_j| of pairs that a "
        "ranking orders against the clicks, equal ones half; and the hinge losses of the best linear weights on the same pairs "
        f"(a smooth function below them, minimised by L-BFGS).\n\n{table(header, rows)}\n\nOn {errors} pairs that are chosen "
        f"while it learns, `SwapRanker` makes {errors} errors where some weights make {best}."
    )
