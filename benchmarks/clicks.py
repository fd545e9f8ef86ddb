"""How good is a ranker that is taught by clicks alone, and what do users see while it learns?

    python -m benchmarks.clicks [--part NAME] [--before CHECKOUT] [--keep FILE]

Users are simulated (`online_rank.stream.clicks`) on MQ2008: a query of the training part is drawn, a ranker shows ten
documents, the user clicks, the ranker learns. *Offline*: NDCG@10 on the test part of the ranking by scores. *Online*: the sum
of the NDCG@10 of what was shown, discounted by 0.9995 an impression; a query without a relevant document counts 0. Every
ranker meets the same queries, fold by fold and seed by seed, so that differences are paired. PDGD is our port of the reference
method of the field with its authors' settings (`benchmarks/_pdgd.py`). Nothing is tuned on these runs. Rankers run compiled
(`benchmarks/_simulation.py`), draw by draw as by the interface. The parts, each a section of the page; `--keep FILE` goes on
later:

- bar, the default: `SwapRanker` beside PDGD and, given a checkout of 3a8f3e3 (`--before`), beside its earlier self, for 10, 3,
  2, 1 slots;
- bias: what `PositionBias` measures while `SwapRanker` learns;
- equal: are equal rankers told apart, if everybody draws with the same seed?
- logs: what is learned from a log of every shape, beside learning from grades;
- peers: `SwapRanker` beside PDGD, DBGD, MGD and COLTR;
- rate: impressions learned a second, beside PDGD;
- speed: learning and showing, beside a checkout of 3a8f3e3 (`--before`);
- tenants: a hundred tenants, with shared weights, own weights, and both.
"""

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._clicks_bar import section as beside_others
from benchmarks._clicks_data import K, parts, queries_of
from benchmarks._clicks_logs import section as of_logs
from benchmarks._clicks_peers import section as beside_peers
from benchmarks._clicks_speed import section as beside_in_speed
from benchmarks._clicks_tenants import section as of_tenants
from benchmarks._common import RESULTS, parser, table
from benchmarks._common import save as save_result
from benchmarks._data import data_folder
from benchmarks._kept import Kept, add_keep
from benchmarks._pdgd import PDGD
from benchmarks._simulation import beginner, chance, queries_in_one, swap_rounds, tables
from online_rank import PositionBias, SwapRanker
from online_rank.metrics import TeamDraft
from online_rank.stream.clicks import user

ROUNDS = 9
PARTS = ("bar", "bias", "equal", "logs", "peers", "rate", "speed", "tenants")
USERS = ("perfect", "navigational", "informational", "trust", "position", "dependent")


def measured_bias(folder: Path, fold: int, seed: int, n: int) -> PositionBias:
    """The position bias of users who look at position p with probability 1/p, after n impressions of `SwapRanker`."""
    train = queries_of([parts(folder)[(fold + i) % 5] for i in range(3)])
    drawn = np.random.default_rng([seed, fold, 7]).integers(len(train), size=n)
    number = 1000 * fold + seed
    who, block = user("position", max_grade=2, seed=1_000_000 + number), queries_in_one(train)
    draws, learner = chance(block, drawn, who, number, counted=True), beginner(train[0][0].shape[1])
    swap_rounds(block, draws, *tables(who, 3), True, 0.1, learner, 0, n, np.empty(n))
    bias = PositionBias(K)
    bias._wins = learner.wins
    return bias


def position_bias(folder: Path, n: int = 10_000, seeds: Sequence[int] = (10, 11, 12, 13)) -> str:
    """How far `PositionBias` is from the truth, with a picture of the first run."""
    from online_rank import plot

    truth = 1.0 / np.arange(1, K + 1)
    found = [measured_bias(folder, fold, seed, n) for fold in range(5) for seed in seeds]
    errors = [float(np.abs(np.log(bias.examination / truth)).mean()) for bias in found]
    plot.position_bias(found[0], truth=truth).figure.savefig(RESULTS / "clicks_position_bias.png")
    return f"""## Position bias

Users who look at position p with probability 1/p. Mean |log error| of `PositionBias` after {n:,} impressions of `SwapRanker()`:
{level(errors, 3)}; {min(errors):.3f} to {max(errors):.3f} in {len(errors)} runs.

![Position bias of one run, with its interval](clicks_position_bias.png)
"""


def rates(n: int = 300) -> str:
    """Impressions learned a second, and PDGD's, in interleaved rounds."""
    rows: list[list[object]] = []
    for m, d in ((20, 46), (120, 136)):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(n * m, d)), rng.choice(3, n * m, p=(0.7, 0.2, 0.1))
        block, queries = np.repeat(np.arange(n), m), [slice(i * m, (i + 1) * m) for i in range(n)]
        model, theirs, who = SwapRanker(), PDGD(d), user("informational")
        shown = [model.show_one(X[q]) for q in queries]
        clicks = [who.clicks(each, y[q], i) for i, (each, q) in enumerate(zip(shown, queries, strict=True))]

        def one_by_one(model: Any = model, X: np.ndarray = X, queries: Any = queries, clicks: Any = clicks) -> None:
            for q, each in zip(queries, clicks, strict=True):
                model.learn_one(X[q], each)

        def pdgd(theirs: PDGD = theirs, X: np.ndarray = X, queries: Any = queries, clicks: Any = clicks) -> None:
            for q, each in zip(queries, clicks, strict=True):
                theirs.learn(X[q], np.array(each.impression.order), np.array(each.gains) > 0.0)

        def at_once(model: Any = model, X: np.ndarray = X, clicks: Any = clicks, block: np.ndarray = block) -> None:
            model.learn_many(X, clicks, block)

        took = {run: [] for run in (at_once, one_by_one, pdgd)}
        for _ in range(ROUNDS):
            for run, seconds in took.items():
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
        a, b, c = map(np.array, took.values())
        ratios = [f"{np.median(c / ours):.0f}" for ours in (a, b)]
        rows.append([f"{m} x {d}", *(f"{n / np.median(seconds):,.0f}" for seconds in (a, b, c)), *ratios])
    header = ["documents x features", "block / s", "one by one / s", "PDGD / s", "block : PDGD", "one by one : PDGD"]
    return f"""## Speed beside PDGD

Impressions learned a second: medians of {ROUNDS} interleaved rounds, and of the ratios within a round; load of the machine
{os.getloadavg()[0]:.1f}.

{table(header, rows)}
"""


class Fixed:
    """A ranker that has one ranking."""

    def rank_one(self, x: Any) -> list[int]:
        return list(range(K))


def equal_rankers(n_runs: int = 40, n_lists: int = 600) -> str:
    """Whether `TeamDraft` tells two equal rankers apart: everything has the same seed, that of the run; the first has 0."""
    rows = []
    for name in USERS:
        means, held = [], 0
        for seed in range(n_runs):
            grades = np.random.default_rng(seed).integers(3, size=K)
            drafts, who = TeamDraft(Fixed(), Fixed(), seed=seed), user(name, seed=seed)
            for t in range(n_lists):
                drafts.update(who.clicks(drafts.show_one(None), grades, t))
            mean, (lower, upper) = drafts.interval().mean, drafts.interval()[:2]
            means.append(mean)
            held += lower <= 0.5 <= upper
        rows.append([name, f"{held} of {n_runs}", level(means, 4)])
        print(*rows[-1], flush=True)
    header = ("users", "intervals that contain 1/2", "mean, ± standard error")
    return f"""## Equal rankers at equal seeds

`TeamDraft` of two rankers with one ranking, {n_lists} lists a run. The seeds of coins and users are equal in every run.

{table(header, rows)}
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", default="bar", choices=PARTS, help="what to measure; the page keeps its other sections")
    arguments.add_argument("--before", type=Path, metavar="CHECKOUT", help="bar, speed: a checkout of 3a8f3e3")
    arguments.add_argument("--minutes", type=float, default=float("inf"), help="bar, peers: begin no other run after this")
    add_keep(arguments)
    chosen = arguments.parse_args()
    folder = data_folder() / "mq2008"
    if not folder.exists():
        raise SystemExit(f"no data: {folder}")
    kept = Kept(chosen.keep)
    section = {
        "bar": lambda: beside_others(folder, chosen.before, chosen.minutes, kept),
        "bias": lambda: position_bias(folder),
        "equal": equal_rankers,
        "logs": lambda: of_logs(folder, kept),
        "peers": lambda: beside_peers(folder, chosen.minutes, kept),
        "rate": rates,
        "speed": lambda: beside_in_speed(chosen.before),
        "tenants": lambda: of_tenants(kept),
    }[chosen.part]
    save_result("clicks", section(), part=True)


def level(values: Sequence[float], digits: int) -> str:
    """Mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
