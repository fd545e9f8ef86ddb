"""Sections of `benchmarks.bounds` on what is really served: averages, delay, drift, machines, intervals."""

import itertools

import numpy as np

from benchmarks._common import table
from benchmarks._data import data_folder
from benchmarks._figures import Curve, figure, number, saved
from online_rank import LossTracker, PerceptronRanker, StreamScaler, bounds, plot
from online_rank.bounds import LossInterval, largest_deviation
from online_rank.measures import measure
from online_rank.stream.letor import read_letor
from tests.reference import bound_streams
from tests.reference import intervals as adaptive

__all__ = ["coverage", "drift", "interval", "theorems"]


def theorems(n: int = 1000) -> str:
    """Every theorem on random and adversarial streams, by a learner that shares no code with the library."""
    rows = []
    for name, (streams, violations, ratio) in bound_streams.run(n).items():
        if violations:
            raise SystemExit(f"{name} is violated")
        rows.append((name, f"{streams:,}", violations, f"{ratio:.3f}"))
    note = "A ratio of 1.000 says that some stream attains the bound: no smaller one is true."
    return f"{table(('statement', 'streams', 'violations', 'largest ratio'), rows)}\n\n{note}"


def drift() -> str:
    """A comparator that changes sign now and then: one certificate over the whole run, with and without restarts."""
    rng = np.random.default_rng(0)
    d, m, length, counts = 5, 5, 40, (1, 2, 4, 8, 16, 32, 64)
    teacher = rng.normal(size=d)
    teacher *= 10.0 / np.linalg.norm(teacher)
    plain = LossTracker(PerceptronRanker("ndcg"), {"+": teacher, "-": -teacher})
    segments: list[LossTracker] = []
    F, rows, norm = 0.0, [], float(np.linalg.norm(teacher))
    curves: dict[str, Curve] = {"loss": ([], []), "loss with restarts": ([], [])}
    dashed: dict[str, Curve] = {"path, closed form": ([], []), "restarts, closed form": ([], [])}
    for k in range(1, counts[-1] + 1):
        sign = "+" if k % 2 else "-"
        segments.append(LossTracker(PerceptronRanker("ndcg"), {"u": teacher if k % 2 else -teacher}))
        before = plain.certificate(sign).pair_loss
        for _ in range(length):
            X = rng.normal(size=(m, d))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            s = X @ teacher * (1.0 if k % 2 else -1.0)
            y = np.digitize(s, [-2.0, 2.0])
            for tracker in (plain, segments[-1]):
                tracker.learn_one(X, y)
        F += plain.certificate(sign).pair_loss - before
        if k not in counts:
            continue
        totals, parts = plain.totals, [tracker.totals for tracker in segments]
        path = {"norm": norm, "path_length": 2.0 * (k - 1) * norm, "comparator_loss": F}
        restarted = {
            "norms": [norm] * k,
            "comparator_loss": sum(tracker.certificate().pair_loss for tracker in segments),
        }
        closed = bounds.path_bound(**path, R_X=totals.R_X, largest_mass=totals.largest_mass)
        largest = max(part.largest_mass for part in parts)
        closed_restarts = bounds.restarts_bound(**restarted, R_X=max(part.R_X for part in parts), largest_mass=largest)
        losses = totals.loss, sum(part.loss for part in parts)
        values = (
            losses[0],
            bounds.path_data_bound(**path, squared_gradient_norms=totals.squared_gradient_norms),
            closed,
            losses[1],
            bounds.restarts_data_bound(**restarted, squared_gradient_norms=[p.squared_gradient_norms for p in parts]),
            closed_restarts,
        )
        if values[0] > values[1] or values[3] > values[4]:
            raise SystemExit(f"a bound is violated: {values}")
        rows.append((k, *map(number, values)))
        for name, value in zip((*curves, *dashed), (*losses, closed, closed_restarts), strict=True):
            xs, ys = curves.get(name) or dashed[name]
            xs.append(k)
            ys.append(value)
    image = figure("drift", "Bounds over the number of segments: quadratic along the path, linear with restarts", "segments",
                   curves, dashed)  # fmt: skip
    header = (
        "segments", "loss, unchanged algorithm", "(‖u_T‖ + P) sqrt(Q) + F", "closed form, quadratic in P",
        "loss with restarts", "sum of ‖u_k‖ sqrt(Q_k) + F_k", "closed form, linear",
    )  # fmt: skip
    return f"{table(header, rows)}\n\n{image}"


def coverage(runs: int = 2000, rounds: int = 1500, alpha: float = 0.05) -> str:
    """The interval of the served loss on adaptive streams: how often it misses at any time."""
    rows = []
    for setting in adaptive.ADAPTIVE:
        rng = np.random.default_rng(len(setting))
        means, losses = adaptive.adaptive_losses(rng, setting, runs, rounds)
        n = np.arange(1, rounds + 1)
        guesses = (0.5 + np.cumsum(losses, axis=1) - losses) / n
        variation = np.cumsum((losses - guesses) ** 2, axis=1)
        deviation = np.abs(np.cumsum(means - losses, axis=1))
        # Rounded down to a grid: no larger than the limit itself.
        grid = np.linspace(0.0, float(variation.max()), 2000)
        limits = np.array([largest_deviation(float(v), alpha / 2.0) for v in grid])
        allowed = limits[np.searchsorted(grid, variation, side="right") - 1]
        missed = float(np.mean((deviation > allowed).any(axis=1)))
        widths = [2.0 * float(np.mean(allowed[:, t - 1])) / t for t in (100, rounds)]
        rows.append((setting, f"{100 * missed:.2f} %", *(f"{width:.3f}" for width in widths)))
    header = ("means of the losses", "runs in which it ever misses", "width at n = 100", f"width at n = {rounds:,}")
    return f"{runs:,} runs of {rounds:,} rounds each, 95 %:\n\n{table(header, rows)}"


def interval() -> str:
    """MQ2008, one pass with the default settings: what was served, with its interval at every time."""
    folder = data_folder() / "mq2008"
    if not folder.exists():
        return f"Left out: no {folder.name} in the data folder."
    raw = read_letor(*[folder / f"S{i}.txt" for i in range(1, 6)])
    starts = np.append(np.flatnonzero(np.append(True, raw.qid[1:] != raw.qid[:-1])), len(raw.y))
    model, ndcg, served = StreamScaler() | PerceptronRanker(), measure("ndcg@10"), LossInterval()
    intervals = []
    for first, stop in itertools.pairwise(starts):
        X, y = raw.X[first:stop], raw.y[first:stop]
        scores = model.predict_one(X)
        model.learn_one(X, y)
        if y.min() < y.max():
            served.update(min(1.0, max(0.0, ndcg.loss(scores, y, ties="pessimistic"))))
            intervals.append(served.interval(0.95))
    ax = plot.served_loss(intervals)
    return f"{intervals[-1]}.\n\n{saved(ax, 'interval', 'MQ2008: mean loss of what was served, and its interval')}"
