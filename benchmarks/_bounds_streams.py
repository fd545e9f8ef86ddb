"""Sections of `benchmarks.bounds` that check statements on thousands of streams: limits, blends, pairs, exploring."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks._common import table
from online_rank import LossTracker, PerceptronRanker
from online_rank.bounds.blends import blend_path_bound
from online_rank.rankers import growing_trees
from tests.reference import trees_account
from tests.reference.additive_account import Check, checks

STREAMS = 1000


class Tally:
    """Checks of one statement: on which streams, how many, how many failed, and how near the tightest came."""

    def __init__(self) -> None:
        self.n = self.violated = 0
        self.ratio = 0.0
        self.streams: set[int] = set()

    def add(self, stream: int, smaller: float, larger: float, size: float) -> None:
        """Count a check on a stream that `smaller` is at most `larger`, up to rounding of numbers of this size."""
        self.n += 1
        self.streams.add(stream)
        self.violated += not smaller <= larger + 1e-9 * (1.0 + size)
        if larger > 1e-6 * (1.0 + size):
            self.ratio = max(self.ratio, smaller / larger)

    def row(self, name: str) -> tuple[str, ...]:
        """The row of a table; a violated statement ends the benchmark."""
        if self.violated:
            raise SystemExit(f"{name}: violated in {self.violated} of {self.n} checks")
        return name, f"{len(self.streams):,}", f"{self.n:,}", str(self.violated), f"{self.ratio:.4f}"


HEADER = ("statement", "streams", "checks", "violated", "largest ratio")


def seeds_for(*tallies: Tally) -> Iterator[int]:
    """Seeds of streams, until each statement was checked on `STREAMS` of them: some streams have nothing to say of some."""
    seed = 0
    while any(len(tally.streams) < STREAMS for tally in tallies):
        yield seed
        seed += 1


def random_stream(rng: np.random.Generator, d: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Queries with a teacher, noise, adversarial grades or ties; the teacher comes along."""
    teacher, kind = rng.normal(size=d), rng.integers(4)
    for _ in range(int(rng.integers(3, 25))):
        m = int(rng.integers(2, 8))
        X = rng.integers(-2, 3, (m, d)).astype(float) if kind == 3 else rng.normal(size=(m, d))
        noise = (0.0, 0.5, 5.0, 0.5)[kind]
        yield X, np.digitize(X @ teacher + noise * rng.normal(size=m), [0.0, 1.5]), teacher


SETTINGS = (
    {}, {"credit": "spread"}, {"credit": "argmax"}, {"credit": "sort"},
    {"credit": "spread", "relative_margin": 1.0},
)  # fmt: skip


def limits() -> str:
    """What certificates say without a comparator, and of runs that begin with given weights (statements 3 and 4)."""
    tallies = {name: Tally() for name in ("V <= F(u) + <u, w>", "F(u) >= V - ‖u‖ ‖w‖", "duality gap", "norm form, given w0",
                                          "distance form, given w0", "hindsight form, given w0")}  # fmt: skip
    for seed in seeds_for(*tallies.values()):
        rng = np.random.default_rng([17, seed])
        d = int(rng.integers(1, 5))
        queries = list(random_stream(rng, d))
        teacher = queries[0][2]
        comparators = {"teacher": 2.0 * teacher, "small": 0.1 * teacher, "other": rng.normal(size=d), "zero": np.zeros(d)}
        begun = [np.zeros(d), teacher * rng.exponential(), -3.0 * teacher, rng.normal(size=d)][seed % 4]
        ranker = PerceptronRanker("ndcg", **SETTINGS[seed % len(SETTINGS)])
        if begun.any():
            ranker = PerceptronRanker.from_weights(begun, measure="ndcg", **SETTINGS[seed % len(SETTINGS)])
        tracker = LossTracker(ranker, comparators)
        for X, y, _ in queries:
            tracker.learn_one(X, y)
        certificates = {name: tracker.certificate(name) for name in comparators}
        for c in certificates.values():
            V, F, size = (
                c.totals["mass"],
                c.pair_loss,
                c.pair_loss + c.norm * (c.facts["weight_norm"] + c.facts["beginning_norm"]),
            )
            tallies["V <= F(u) + <u, w>"].add(seed, V, F + c.facts["inner_product"], size)
            if V > 0.0:
                least = max(0.0, V - c.norm * c.facts["weight_norm"])
                tallies["F(u) >= V - ‖u‖ ‖w‖"].add(seed, least, F, size)
                gap = max(0.0, F + c.norm * c.facts["weight_norm"] - V)
                for u in certificates.values():
                    if u.norm <= c.norm:
                        tallies["duality gap"].add(seed, F - u.pair_loss, gap, size)
            if begun.any():
                tallies["norm form, given w0"].add(seed, V, c.bound("beginning_data_bound"), size)
                tallies["distance form, given w0"].add(seed, V, c.bound("beginning_distance_bound"), size + c.norm**2)
                tallies["hindsight form, given w0"].add(seed, V, c.bound("mass_hindsight_bound"), size)
    rows = [tally.row(name) for name, tally in tallies.items()]
    return table(HEADER, rows)


def hedging() -> str:
    """What blends serve, against adversaries (statement 7)."""
    from online_rank._kernels import blend as kernels
    from online_rank.rankers.hedge import BUDGET, HedgeAccount, opening, shares_of, step_of

    path, closed, gaps = Tally(), Tally(), Tally()
    for seed in seeds_for(path, closed, gaps):
        rng = np.random.default_rng([18, seed])
        n, keep, rate = int(rng.integers(1, 13)), float(rng.choice([1.0, 1.0, 0.95])), float(rng.choice([1.0, 0.3]))
        prior = np.full(n, 1.0 / n) if seed % 3 else rng.dirichlet(np.ones(n))
        losses, account, base = np.zeros(n), opening(), rng.random(n)
        for t in range(int(rng.integers(1, 300))):
            step = step_of(account, rate, n, keep < 1.0)
            pi = shares_of(losses, prior, step)
            new = adversary(seed, rng, base, losses, pi, t)
            drawn = bool(account[4] > BUDGET)
            served = (
                float(new[int(rng.choice(n, p=pi / pi.sum()))]) if drawn else float(rng.choice([1.0, pi @ new, rng.random()]))
            )
            kernels.settle(np.append(new, served), 1.0, pi, step, keep, drawn, losses, account)
            a = HedgeAccount(*account.tolist())
            eta = step_of(account, rate, n, keep < 1.0)
            bound = float(np.min(losses - np.log(prior) / eta)) + a.mixability_gap + a.serving_gap + a.luck
            path.add(seed, a.served, bound, a.mixed)
            gaps.add(seed, a.serving_gap, BUDGET + 1.0, 1.0)
            if keep == 1.0 and seed % 3:
                price = blend_path_bound(
                    least_loss=float(losses.min()), n_candidates=n, rate=rate, variance=a.variance, luck=a.luck
                )
                closed.add(seed, a.served, price, a.mixed)
    rows = [
        path.row("served <= min(L(c) + ln(1/pi(c)) / eta) + Delta + G, at all times"),
        closed.row("served <= L* + ln N / eta + 2 sqrt(2 (e - 2) W ln N) + b + 5/4 + luck"),
        gaps.row("G_m <= b + 1"),
    ]
    return table(HEADER, rows)


def adversary(seed: int, rng: np.random.Generator, base: np.ndarray, losses: np.ndarray, pi: np.ndarray, t: int) -> np.ndarray:
    """Losses of one query: random, of fixed quality, against the better half, alternating, or against the favourite."""
    n, style = len(base), seed % 5
    if style == 0:
        return rng.random(n)
    if style == 1:
        return (rng.random(n) < base).astype(float)
    if style == 2:
        return (losses <= np.median(losses)).astype(float)
    if style == 3:
        return (np.arange(n) % 2 == t % 2).astype(float)
    return np.where(np.arange(n) == int(np.argmax(pi)), 1.0, 0.2 * rng.random(n))


def curves() -> str:
    """What an `AdditiveRanker` serves, against adversaries, with 50 digits (statements 1 and 8)."""
    return _told(_of_curves, STREAMS)


def trees() -> str:
    """What curves with trees serve, against adversaries, with 50 digits (statement 9)."""
    note = "In every other stream trees wait for evidence, in the others they are served from the first one on."
    return f"{_told(_of_trees, STREAMS)}\n\n{note}"


def _told(checked: Callable[[int], list[Check]], n: int) -> str:
    """The table of what is checked on n streams."""
    tallies: dict[str, Tally] = {}
    with ProcessPoolExecutor(2) as pool:
        for seed, found in enumerate(pool.map(checked, range(n), chunksize=10)):
            for check in found:
                tallies.setdefault(check.statement, Tally()).add(seed, check.smaller, check.larger, check.size)
    return table(HEADER, [tally.row(name) for name, tally in tallies.items()])


def _of_curves(seed: int) -> list[Check]:
    return list(checks(seed))


def _of_trees(seed: int) -> list[Check]:
    waits = growing_trees._EVIDENCE
    growing_trees._EVIDENCE = waits if seed % 2 else -math.inf
    try:
        return list(trees_account.checks(seed))
    finally:
        growing_trees._EVIDENCE = waits
