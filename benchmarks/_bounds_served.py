"""Sections of `benchmarks.bounds` on what is really served: averages, delay, drift, machines, intervals."""

import itertools

import numpy as np

from benchmarks._common import table
from benchmarks._data import data_folder
from benchmarks._figures import Curve, figure, number, saved
from online_rank import LossTracker, PerceptronRanker, StreamScaler, plot, read
from online_rank.intervals.losses import largest_deviation
from tests.reference import bound_streams
from tests.reference import intervals as adaptive

__all__ = ["coverage", "delayed", "drift", "interval", "theorems"]


def theorems(n: int = 1000) -> str:
    """Every theorem on random and adversarial streams, by a learner that shares no code with the library."""
    rows = []
    for name, (streams, violations, ratio) in bound_streams.run(n).items():
        if violations:
            raise SystemExit(f"{name} is violated")
        rows.append((name, f"{streams:,}", violations, f"{ratio:.3f}"))
    note = "A ratio of 1.000 says that some stream attains the bound: no smaller one is true."
    return f"{table(('statement', 'streams', 'violations', 'largest ratio'), rows)}\n\n{note}"


def delayed() -> str:
    """Late grades: a stream on which the bound is attained, through the library."""
    rows = []
    curves: dict[str, Curve] = {}
    dashed: dict[str, Curve] = {}
    for T, D in ((20, 0), (20, 3), (10, 9), (20, 9)):
        tracker = LossTracker(PerceptronRanker("ndcg", credit="spread", half_life=0), {"u": np.full(T, 0.5)})
        tracker.learn_one(np.zeros((2, T)), [1, 1])
        rounds: list[float] = []
        losses: list[float] = []
        limits: list[float] = []
        for t in range(T):
            X = np.zeros((2, T))
            X[:, t] = 1.0, -1.0
            # The query is asked D + 1 times before the first of its grades comes.
            for scores in [tracker.predict_one(X) for _ in range(D + 1)]:
                tracker.learn_one(X, [1, 0], served=scores)
            certificate = tracker.certificate(delay=D)
            rounds.append(t + 1)
            losses.append(certificate.loss)
            limits.append(certificate.bound("served_norm_bound"))
        if not certificate.holds:
            raise SystemExit(f"a certificate fails:\n{certificate}")
        c, norm = certificate.totals["largest_mass"], certificate.norm
        delayed_mass = T * c * D * (D + 1) / 2.0
        by_delay = bound_streams.delay_data(
            certificate.pair_loss, norm, certificate.totals["R_X"], c, certificate.loss, delayed_mass
        )
        exact, closed = certificate.bound("mass_hindsight_bound"), certificate.bound("delay_bound")
        rows.append((f"T = {T}, D = {D}", *(f"{x:.4f}" for x in (certificate.loss, exact, limits[-1], by_delay, closed))))
        if T == 20:
            curves[f"loss, D = {D}"] = rounds, losses
            dashed[f"bound, D = {D}"] = rounds, limits
    image = figure("delayed", "Late grades: the bound is attained in the end, and grows with the delay",
                   "different queries, each asked D + 1 times", curves, dashed, log=False)  # fmt: skip
    header = ("stream", "served loss", "F(u) + <u, w>", "F(u) + ‖u‖ ‖w‖", "with measured delays", "closed form")
    return f"{table(header, rows)}\n\n{image}"


def drift() -> str:
    """A comparator that changes sign now and then: one certificate over the whole run, with and without restarts."""
    d, m, length, counts = 5, 5, 40, (1, 2, 4, 8, 16, 32, 64)
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=d)
    teacher *= 10.0 / np.linalg.norm(teacher)
    plain, capped = (
        LossTracker(PerceptronRanker("ndcg", credit="spread", norm_cap=cap), {"u": teacher}) for cap in (None, 0.2)
    )
    segments: list[LossTracker] = []
    rows = []
    curves: dict[str, Curve] = {"loss": ([], []), "loss with restarts": ([], [])}
    dashed: dict[str, Curve] = {"path, closed form": ([], []), "restarts, closed form": ([], [])}
    for k in range(1, counts[-1] + 1):
        sign = 1.0 if k % 2 else -1.0
        segments.append(LossTracker(PerceptronRanker("ndcg", credit="spread"), {"u": sign * teacher}))
        for tracker in (plain, capped) if k > 1 else ():
            tracker.move_comparator("u", sign * teacher)
        for _ in range(length):
            X = rng.normal(size=(m, d))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            for tracker in (plain, capped, segments[-1]):
                tracker.learn_one(X, np.digitize(sign * X @ teacher, [-2.0, 2.0]))
        if k not in counts:
            continue
        moved, held = plain.certificate(), capped.certificate()
        ends = [tracker.certificate() for tracker in segments]
        if not all(certificate.holds for certificate in (moved, held, *ends)):
            raise SystemExit("a certificate fails")
        kind = "path" if k > 1 else "mass"
        data, closed = moved.bound(f"{kind}_data_bound"), moved.bound(f"{kind}_bound")
        restarted, sum_of_closed = (sum(c.bound(f"mass_{form}") for c in ends) for form in ("data_bound", "bound"))
        losses = moved.loss, sum(c.loss for c in ends)
        rows.append((k, *map(number, (losses[0], data, closed, held.loss, held.bound("capped_bound"), losses[1], restarted,
                                      sum_of_closed))))  # fmt: skip
        for name, value in zip((*curves, *dashed), (*losses, closed, sum_of_closed), strict=True):
            xs, ys = curves.get(name) or dashed[name]
            xs.append(k)
            ys.append(value)
    image = figure("drift", "Bounds over the number of segments: quadratic along the path, linear with restarts", "segments",
                   curves, dashed)  # fmt: skip
    header = (
        "segments", "loss, unchanged", "F + (‖u_T‖ + P) sqrt(Q)", "closed form", "loss, cap κ = 0.2", "F + sqrt(Q) (κ P + U/κ)",
        "loss with restarts", "sum of F_k + ‖u_k‖ sqrt(Q_k)", "closed form",
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
    """MQ2008, one pass with credit="spread": what was served, with its interval at every time."""
    folder = data_folder() / "mq2008"
    if not folder.exists():
        return f"Left out: no {folder.name} in the data folder."
    raw = read(*[folder / f"S{i}.txt" for i in range(1, 6)]).all()
    starts = np.append(np.flatnonzero(np.append(True, raw.qid[1:] != raw.qid[:-1])), len(raw.y))
    model = StreamScaler() | LossTracker(PerceptronRanker(credit="spread"), measure_served=True)
    intervals = []
    for first, stop in itertools.pairwise(starts):
        model.learn_one(raw.X[first:stop], raw.y[first:stop])
        intervals.append(model["LossTracker"].served_interval(0.95))
    ax = plot.served_loss(intervals)
    return f"{intervals[-1]}.\n\n{saved(ax, 'interval', 'MQ2008: mean loss of what was served, and its interval')}"
