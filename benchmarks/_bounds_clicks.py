"""Section of `benchmarks.bounds` on clicks: exchanges of documents that are alike."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks._common import table
from online_rank._kernels import clicks
from online_rank._kernels.codes import PLACKETT_LUCE
from tests.kernels.calling import Module
from tests.reference import clicks as reference

__all__ = ["exchanges"]

kernels = Module(clicks)  # `baseline_credit` is called by kernels only.


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
            ranking = clicks.Drawn(PLACKETT_LUCE, n_shown, np.arange(k), given, np.arange(k), logits[drawn], rest, np.zeros(k))
            kernels.baseline_credit(ranking, scores[drawn], baseline, e, c, met)
            net[drawn] += p_order * p_gains * c
    return net
