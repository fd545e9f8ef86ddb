"""Sections of `benchmarks.bounds` on clicks: values of other rankers from a log, and exchanges of documents that are alike."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks._common import table
from online_rank._kernels import clicks
from online_rank._kernels.codes import PLACKETT_LUCE
from online_rank.intervals.losses import largest_deviation
from tests.kernels.calling import Module
from tests.reference import clicks as reference

__all__ = ["exchanges", "off_policy"]

_LEVEL, _TIMES = 0.95, 500
_ATTRACTION = np.array([0.1, 0.7, 0.3, 0.5, 0.2])
_SATISFIES = 0.4
_WISHED = np.array([1, 3, 2, 0, 4])
kernels = Module(clicks)  # `baseline_credit` is called by kernels only.


def off_policy(n_streams: int = 2000) -> str:
    """Values of another ranker from a log: the interval at every time"""
    rows = []
    for name, weights, logits, learns in (
        ("first position, logger indifferent", (1.0,), np.zeros(5), False),
        ("three positions, logger learns from its clicks", (0.5, 0.3, 0.2), np.zeros(5), True),
        ("three positions, the favourites are hardly shown", (0.5, 0.3, 0.2), np.array([3.0, -1.0, 1.0, -1.0, 2.0]), False),
    ):
        X, other, W = _log(n_streams, np.array(weights), logits, learns)
        value = _value(np.array(weights))
        missed = _ever_missed(X, value) | _ever_missed(other, 1.0 - value)
        mean = X.mean(axis=1)
        size = W.sum(axis=1) ** 2 / np.maximum((W**2).sum(axis=1), 1e-300)
        widths = [_width(x, y) for x, y in zip(X[:200], other[:200], strict=True)]
        coverage = 1.0 - missed.mean()
        if coverage < _LEVEL:
            raise SystemExit(f"{name}: coverage {coverage:.4f}")
        bias = f"{mean.mean() - value:+.4f} ± {mean.std() / n_streams**0.5:.4f}"
        rows.append((name, f"{value:.4f}", bias, f"{coverage:.4f}", f"{np.median(widths):.3f}", f"{(size < 100).mean():.3f}"))
    header = ("setting", "value", "bias", f"coverage at all of {_TIMES} times", "width at the end", "estimates refused")
    note = f"{n_streams:,} streams each; users read downwards and leave satisfied. Nominal coverage {_LEVEL}."
    return f"{table(header, rows)}\n\n{note}"


def _log(n: int, weights: np.ndarray, logits: np.ndarray, learns: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, X' and the weights W of the lowest position, (n, times)."""
    rng, k = np.random.default_rng(len(weights) + int(learns) + int(logits.any())), len(weights)
    X, other, lowest = (np.zeros((n, _TIMES)) for _ in range(3))
    law, each = np.tile(logits, (n, 1)), np.arange(n)
    for t in range(_TIMES):
        order = np.argsort(-(law + rng.gumbel(size=law.shape)), axis=1)
        e = np.exp(np.take_along_axis(law, order, axis=1))
        chances = e / e[:, ::-1].cumsum(axis=1)[:, ::-1]
        reads, W = np.ones(n, bool), np.ones(n)
        for p in range(k):
            shown = order[:, p]
            clicked = reads & (rng.random(n) < _ATTRACTION[shown])
            W = np.where(shown == _WISHED[p], W / chances[:, p], 0.0)
            X[:, t] += weights[p] * W * clicked
            other[:, t] += weights[p] * W * ~clicked
            if learns:
                law[each, shown] = np.clip(law[each, shown] + 0.05 * (clicked - 0.3), -1.0, 1.0)
            reads &= ~(clicked & (rng.random(n) < _SATISFIES))
        lowest[:, t] = W
    return X, other, lowest


def _value(weights: np.ndarray) -> float:
    """What the other ranker earns in expectation."""
    value, reads = 0.0, 1.0
    for weight, document in zip(weights, _WISHED, strict=False):
        value += weight * reads * _ATTRACTION[document]
        reads *= 1.0 - _ATTRACTION[document] * _SATISFIES
    return float(value)


def _variation(X: np.ndarray) -> np.ndarray:
    """V at every time."""
    earlier = np.cumsum(X, axis=1) - X
    guesses = np.minimum((0.5 + earlier) / np.arange(1.0, X.shape[1] + 1.0), 1.0)
    return np.cumsum((X - guesses) ** 2, axis=1)


def _ever_missed(X: np.ndarray, value: float) -> np.ndarray:
    """Whether sum X - r(alpha / 2, V) exceeds the sum of the values at any time: whether the mixture does its threshold."""
    surplus, V = np.cumsum(X - value, axis=1), _variation(X)
    pi = 1.0 / np.arange(1.0, 11.0)
    scales = 0.9 * 0.5 ** np.arange(10)
    exponents = [
        np.log(p / pi.sum()) + scale * surplus + (np.log1p(-scale) + scale) * V for p, scale in zip(pi, scales, strict=True)
    ]
    return (np.logaddexp.reduce(exponents) > np.log(2.0 / (1.0 - _LEVEL))).any(axis=1)


def _width(x: np.ndarray, other: np.ndarray) -> float:
    """The width of the interval at the end."""
    limits = []
    for each in (x, other):
        V = float(_variation(each[None])[0, -1])
        limits.append((each.sum() - largest_deviation(V, (1.0 - _LEVEL) / 2.0)) / len(each))
    return float(min(1.0, 1.0 - limits[1]) - max(0.0, limits[0]))


Users = Callable[[list[int]], Iterable[tuple[tuple[float, ...], float]]]

_USERS: dict[str, Users] = {
    "cascade": lambda grades: reference.patterns([(0.1, 0.5, 0.9)[g] for g in grades], [(0.2, 0.5, 0.9)[g] for g in grades]),
    "position": lambda grades: reference.independent_patterns([(0.1, 0.5, 0.9)[g] / (p + 1) for p, g in enumerate(grades)]),
    "trust": lambda grades: reference.independent_patterns(
        [(g / 2 * 0.9 + (1 - g / 2) * 0.65 / (p + 1)) / (p + 1) for p, g in enumerate(grades)]
    ),
}


def exchanges(n_laws: int = 20) -> str:
    """Pairs less the baseline of positions: net push between documents that attract alike"""
    rows = []
    for shown, (name, users) in itertools.product((3, 2, 1), _USERS.items()):
        worst, risen = 0.0, 0
        for law in range(n_laws):
            for grade in range(3):
                worst = max(worst, float(np.abs(_net_credit(law, shown, users, (grade,) * 4)).max()))
            risen += int(_net_credit(law, shown, users, (0, 0, 1, 0))[2] > 0.0)
        if worst > 1e-12 or risen < n_laws:
            raise SystemExit(f"{name}, {shown} shown: {worst}, {risen}")
        rows.append((name, f"{shown} of 3 drawn", f"{worst:.1e}", f"{risen} of {n_laws}"))
    note = (
        f"{n_laws} laws, scores and baselines drawn at random, four documents of one grade each time, or one better: all "
        "rankings and all answers, by the library's kernel."
    )
    return f"{table(('users', 'shown', 'largest net push, all alike', 'the better one rises'), rows)}\n\n{note}"


def _net_credit(seed: int, n_shown: int, users: Users, grades: tuple[int, ...]) -> np.ndarray:
    """The expected credit of each document (m,), over all rankings of three and all answers."""
    rng, m, k = np.random.default_rng(seed), len(grades), 3
    logits, scores = 2.0 * rng.normal(size=m), rng.normal(size=m)
    baseline = np.stack([rng.uniform(0, 9, (kernels.PLACES,) * 2), rng.normal(size=(kernels.PLACES,) * 2)])
    net = np.zeros(m)
    e, c, met = np.empty(k), np.empty(k), np.zeros(baseline.shape)
    for order, p_order in reference.rankings(logits, k):
        drawn, rest = list(order), reference.rest_of(order, logits)
        for gains, p_gains in users([grades[i] for i in order[:n_shown]]):
            given = np.array([*gains, *(0.0,) * (k - n_shown)])
            kernels.baseline_credit(
                PLACKETT_LUCE, given, n_shown, np.arange(k), logits[drawn], rest, scores[drawn], baseline, e, c, met
            )
            net[drawn] += p_order * p_gains * c
    return net
