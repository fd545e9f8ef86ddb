"""How good is a ranker that is taught by clicks alone, and what do users see while it learns?

    python -m benchmarks.clicks [--seeds 10 11 12 13] [--impressions 10000] [--users perfect ...] [--methods ...] [--runs DIR]

Users are simulated (`online_rank.stream.clicks`) on MQ2008: a query of the training part is drawn, a ranker shows ten
documents, the user clicks, the ranker learns. *Offline*: NDCG@10 on the test part of the ranking by scores. *Online*: the sum
of the NDCG@10 of what was shown, discounted by 0.9995 an impression; a query without a relevant document counts 0. Every
ranker meets the same queries, fold by fold and seed by seed, so that differences are paired. PDGD is our port of the reference
method of the field with its authors' settings (`benchmarks/_pdgd.py`); "click > skip" the same without the weight of pairs.
Nothing is tuned on these runs. Four methods run compiled (`benchmarks/_simulation.py`), draw by draw as by the interface.

With `--runs DIR` runs are kept in a folder, and those that it has are not made again; so users and methods can be run one
after the other, and `python -m benchmarks.clicks --runs DIR` ends with the whole result. Other parts, `--part NAME`, with
`--keep FILE` to go on later:

- bar: `SwapRanker` beside PDGD and, given a checkout of 3a8f3e3 (`--before`), beside its earlier self, for 10, 3, 2, 1 slots;
- equal: are equal rankers told apart, if everybody draws with the same seed?
- peers: `SwapRanker` beside PDGD, DBGD, MGD and COLTR;
- logs: what is learned from a log of every shape, beside learning from grades;
- speed: learning and showing, beside a checkout of 3a8f3e3 (`--before`);
- tenants: a hundred tenants, with shared weights, own weights, and both.
"""

import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._clicks_bar import section as beside_others
from benchmarks._clicks_data import GAMMA, K, Queries, ndcg_shown, offline, parts, queries_of
from benchmarks._clicks_logs import section as of_logs
from benchmarks._clicks_peers import section as beside_peers
from benchmarks._clicks_speed import section as beside_in_speed
from benchmarks._clicks_tenants import section as of_tenants
from benchmarks._common import RESULTS, parser, table
from benchmarks._common import save as save_result
from benchmarks._data import data_folder
from benchmarks._kept import Kept, add_keep
from benchmarks._pdgd import PDGD, ClickSkip
from benchmarks._simulation import beginner, chance, pdgd_rounds, queries_in_one, swap_rounds, tables
from online_rank import (
    ClickPerceptron,
    Clicks,
    Impression,
    PerceptronRanker,
    PlackettLuce,
    PositionBias,
    QueryRanks,
    StreamScaler,
    SwapRanker,
    load,
    save,
)
from online_rank._progress import progress
from online_rank.metrics import TeamDraft
from online_rank.stream.clicks import User, user

CHECKPOINTS = (100, 1000, 10_000)
ROUNDS = 9
USERS = ("perfect", "navigational", "informational", "trust", "position", "dependent")
REFERENCE = "PDGD (port)"
OURS = "SwapRanker()"
PARTS = ("bar", "equal", "logs", "peers", "speed", "tenants")


class Plain:
    """A learner of `benchmarks._pdgd` behind the interface of a ranker."""

    def __init__(self, learner: PDGD) -> None:
        self.learner = learner

    def show_one(self, x: np.ndarray) -> Impression:
        return Impression(tuple(self.learner.show(x).tolist()))

    def learn_one(self, x: np.ndarray, y: Clicks) -> None:
        self.learner.learn(x, np.array(y.impression.order), np.array(y.gains) > 0.0)

    def predict_one(self, x: np.ndarray) -> list[float]:
        return self.learner.scores(x).tolist()


class WithoutRho(SwapRanker):
    """`SwapRanker` that believes that every ranking was as likely as every other: all pairs weigh 1/2."""

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        order = y.impression.order
        super().learn_one(x, Clicks(Impression(order, logits=(0.0,) * len(order), rest=0.0), y.gains), w)


METHODS: dict[str, Callable[[int], Any]] = {
    REFERENCE: lambda seed: Plain(PDGD(46, seed=seed)),
    OURS: lambda seed: SwapRanker(PlackettLuce(K, seed=seed)),
    "QueryRanks() | StreamScaler() | SwapRanker()": lambda seed: (
        QueryRanks() | StreamScaler() | SwapRanker(PlackettLuce(K, seed=seed))
    ),
    "StreamScaler() | ClickPerceptron()": lambda seed: StreamScaler() | ClickPerceptron(PlackettLuce(K, seed=seed)),
    "SwapRanker() without rho": lambda seed: WithoutRho(PlackettLuce(K, seed=seed)),
    "click > skip": lambda seed: Plain(ClickSkip(46, seed=seed)),
}
#: Methods that have a compiled form: whether it is that of PDGD, whether pairs have weights, decay or wealth.
COMPILED = {
    REFERENCE: (True, True, 0.9999977),
    OURS: (False, True, 0.1),
    "SwapRanker() without rho": (False, False, 0.1),
    "click > skip": (True, False, 0.9999977),
}


class Case(NamedTuple):
    """One ranker with one user, fold and seed, for so many impressions."""

    user: str
    method: str
    fold: int
    seed: int
    impressions: int


class Run(NamedTuple):
    """What came of a case: NDCG@10 on the test part at each checkpoint; discounted sum, and each, of what was shown."""

    offline: tuple[float, ...]
    online: float
    shown: np.ndarray
    bias: PositionBias


Runs = dict[str, dict[str, list[Run]]]


def simulate(folder: Path, case: Case) -> Run:
    """Let a user teach a ranker."""
    data = parts(folder)
    train = queries_of([data[(case.fold + i) % 5] for i in range(3)])
    test = queries_of([data[(case.fold + 4) % 5]], relevant=True)
    drawn = np.random.default_rng([case.seed, case.fold, 7]).integers(len(train), size=case.impressions)
    seed = 1000 * case.fold + case.seed
    who = user(case.user, max_grade=2, seed=1_000_000 + seed)
    rounds = compiled if case.method in COMPILED else by_the_interface
    values, quality, bias = rounds(case.method, seed, train, test, drawn, who)
    return Run(tuple(values), float(quality @ GAMMA ** np.arange(len(quality))), quality.astype(np.float32), bias)


def compiled(
    method: str, seed: int, train: Queries, test: Queries, drawn: np.ndarray, who: User
) -> tuple[list[float], np.ndarray, PositionBias]:
    """The impressions of a method of `COMPILED`, as by the interface."""
    block, d, quality, values, first = queries_in_one(train), train[0][0].shape[1], np.empty(len(drawn)), [], 0
    reference, with_rho, constant = COMPILED[method]
    learner = beginner(d)
    draws, user_tables = chance(block, drawn, who, seed, counted=not reference), tables(who, 3)
    for stop in (c for c in (*CHECKPOINTS, len(drawn)) if c <= len(drawn)):
        rounds = pdgd_rounds if reference else swap_rounds
        rounds(block, draws, *user_tables, with_rho, constant, learner, first, stop, quality)
        first = stop
        if stop in CHECKPOINTS:
            values.append(offline(lambda X: X @ learner.w, test))
    bias = PositionBias(K)
    bias._wins = learner.wins
    return values[: sum(c <= len(drawn) for c in CHECKPOINTS)], quality, bias


def by_the_interface(
    method: str, seed: int, train: Queries, test: Queries, drawn: np.ndarray, who: User
) -> tuple[list[float], np.ndarray, PositionBias]:
    """NDCG@10 on the test part at each checkpoint, that of what was shown, and the position bias."""
    model, quality, values, bias = METHODS[method](seed), np.empty(len(drawn)), [], PositionBias(K)
    for t, q in enumerate(drawn):
        X, y = train[q]
        shown = model.show_one(X)
        quality[t] = ndcg_shown(y, shown.order)
        clicks = who.clicks(shown, y, t)
        model.learn_one(X, clicks)
        if shown.logits is not None:
            bias.update(clicks)
        if t + 1 in CHECKPOINTS:
            values.append(offline(model.predict_one, test))
    return values, quality, bias


def from_grades(folder: Path, seed: int) -> float:
    """Mean over the folds of learning from all grades, once through the training part."""
    data, values = parts(folder), []
    for fold in range(5):
        train, model = queries_of([data[(fold + i) % 5] for i in range(3)]), StreamScaler() | PerceptronRanker()
        for q in np.random.default_rng([seed, fold]).permutation(len(train)):
            model.learn_one(*train[q])
        values.append(offline(model.predict_one, queries_of([data[(fold + 4) % 5]], relevant=True)))
    return statistics.fmean(values)


def paired(ours: Sequence[float], theirs: Sequence[float], digits: int) -> str:
    """Mean difference and its standard error."""
    text = level([a - b for a, b in zip(ours, theirs, strict=True)], digits)
    return text if text.startswith("-") else f"+{text}"


def columns_of(runs: Sequence[Run]) -> list[list[float]]:
    """NDCG@10 at each checkpoint, then the discounted sum: a list over the runs each."""
    return [*map(list, zip(*(run.offline for run in runs), strict=True)), [run.online for run in runs]]


def rows_of(runs: dict[str, list[Run]]) -> list[list[str]]:
    """One row a method: levels, and differences to PDGD."""
    rows, theirs = [], columns_of(runs[REFERENCE])
    for method, of_method in runs.items():
        row = [method.replace("|", "\\|")]
        for own, other in zip(columns_of(of_method), theirs, strict=True):
            digits = 0 if other is theirs[-1] else 3
            difference = "" if method == REFERENCE else f" ({paired(own, other, digits)})"
            row.append(f"{statistics.fmean(own):.{digits}f}{difference}")
        rows.append(row)
    return rows


def summary(runs: Runs) -> str:
    """One row for each kind of users: PDGD and `SwapRanker()`, and the differences at the end."""
    rows = []
    for name, of_user in runs.items():
        if OURS not in of_user or REFERENCE not in of_user:
            continue
        ours, theirs = columns_of(of_user[OURS]), columns_of(of_user[REFERENCE])
        row = [name]
        for columns in (theirs, ours):
            row += [
                " / ".join(f"{statistics.fmean(column):.3f}" for column in columns[:-1]),
                f"{statistics.fmean(columns[-1]):.0f}",
            ]
        rows.append([*row, paired(ours[-2], theirs[-2], 3), paired(ours[-1], theirs[-1], 0)])
    header = ["users", "PDGD", "PDGD, online", f"`{OURS}`", f"`{OURS}`, online", "difference, last", "difference, online"]
    return table(header, rows)


def bias_error(run: Run, eta: float) -> float:
    """Mean |log error| of the position bias after a run."""
    truth = -eta * np.log(np.arange(1, K + 1))
    return float(np.abs(np.log(run.bias.examination) - truth).mean())


def speeds(n: int = 300) -> list[list[object]]:
    """Impressions learned a second, and PDGD's, in interleaved rounds."""
    rows = []
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
    return rows


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


def in_picture(runs: Runs) -> str:
    """The users whose rankings are drawn."""
    return next((name for name in ("trust", "informational") if name in runs), next(iter(runs)))


def picture(runs: Runs) -> None:
    """Cumulative online quality under the noisiest user, and the position bias, as PNG files."""
    from online_rank import plot

    chosen = in_picture(runs)
    shown = {method: np.mean([run.shown for run in of_method], axis=0) for method, of_method in runs[chosen].items()}
    plot.online_quality(shown, every=100).figure.savefig(RESULTS / "clicks_online.png")
    if "position" in runs:
        bias = runs["position"][OURS][0].bias
        plot.position_bias(bias, truth=1.0 / np.arange(1, K + 1)).figure.savefig(RESULTS / "clicks_position_bias.png")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, nargs="*", default=[10, 11, 12, 13])
    arguments.add_argument("--impressions", type=int, default=10_000)
    arguments.add_argument("--users", nargs="*", default=USERS[:5], choices=USERS)
    arguments.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    arguments.add_argument("--runs", type=Path)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--part", choices=PARTS, help="measure this alone; the page keeps its other sections")
    arguments.add_argument("--before", type=Path, metavar="CHECKOUT", help="bar, speed: a checkout of 3a8f3e3")
    arguments.add_argument("--minutes", type=float, default=float("inf"), help="bar: begin no other run after this")
    add_keep(arguments)
    chosen = arguments.parse_args()
    folder = data_folder() / "mq2008"
    if not folder.exists():
        raise SystemExit(f"no data: {folder}")
    if chosen.part is not None:
        kept = Kept(chosen.keep)
        section = {
            "bar": lambda: beside_others(folder, chosen.before, chosen.minutes, kept),
            "equal": equal_rankers,
            "logs": lambda: of_logs(folder, kept),
            "peers": lambda: beside_peers(folder, kept),
            "speed": lambda: beside_in_speed(chosen.before),
            "tenants": lambda: of_tenants(kept),
        }[chosen.part]
        save_result("clicks", section(), part=True)
        return
    cases = [
        Case(name, method, fold, seed, chosen.impressions)
        for name in chosen.users
        for method in (ours_at_position(chosen.methods) if name == "position" else chosen.methods)
        for fold in range(5)
        for seed in chosen.seeds
    ]
    made = dict(read_runs(chosen.runs, cases))
    missing = [case for case in cases if case not in made]
    with ProcessPoolExecutor(chosen.jobs) as pool, progress("clicks", len(missing), "runs") as show:
        for i, (case, run) in enumerate(zip(missing, pool.map(simulate, [folder] * len(missing), missing), strict=True), 1):
            made[case] = run
            keep_run(chosen.runs, case, run)
            show(i)
    runs: Runs = {}
    for case in cases:
        runs.setdefault(case.user, {}).setdefault(case.method, []).append(made[case])
    save_result("clicks", report(folder, runs, chosen.seeds, chosen.impressions), part=True)
    picture(runs)


def ours_at_position(methods: Sequence[str]) -> list[str]:
    """The methods that measure the position bias: those that draw as they do by default."""
    return [method for method in methods if method == OURS]


def kept_at(folder: Path, case: Case) -> Path:
    """Where the run of a case is kept."""
    name = "-".join(re.sub(r"[^a-z0-9]+", "_", str(part).lower()).strip("_") for part in case)
    return folder / f"{name}.npz"


def read_runs(folder: Path | None, cases: Sequence[Case]) -> Iterator[tuple[Case, Run]]:
    """The runs of these cases that a folder has."""
    for case in cases:
        if folder is not None and (path := kept_at(folder, case)).exists():
            yield case, Run(**load(path))


def keep_run(folder: Path | None, case: Case, run: Run) -> None:
    """Keep a run in a folder."""
    if folder is not None:
        folder.mkdir(exist_ok=True)
        save(run._asdict(), kept_at(folder, case))


def report(folder: Path, runs: Runs, seeds: Sequence[int], n: int) -> str:
    """The result as markdown."""
    reached = [c for c in CHECKPOINTS if c <= n]
    header = ["", *(f"NDCG@10 after {c:,}" for c in reached), "online"]
    sections = [f"## {name}\n\n{table(header, rows_of(of))}" for name, of in runs.items() if name != "position"]
    if OURS in runs.get("position", {}):
        errors = [bias_error(run, 1.0) for run in runs["position"][OURS]]
        sections.append(
            "## Position bias\n\nUsers who look at position p with probability 1/p. Mean |log error| of `PositionBias` after "
            f"{n:,} impressions of `{OURS}`:\n{level(errors, 3)}; {min(errors):.3f} to {max(errors):.3f} in {len(errors)} runs."
            "\n\n![Position bias of one run, with its interval](clicks_position_bias.png)"
        )
    grades = [from_grades(folder, seed) for seed in seeds]
    speed_header = ["documents x features", "block / s", "one by one / s", "PDGD / s", "block : PDGD", "one by one : PDGD"]
    return f"""# Learning from clicks

## Beside PDGD, by methods

MQ2008, 5 folds x {len(seeds)} seeds, {n:,} impressions of ten documents. NDCG@10 on the test part of the rankings by scores,
after {" / ".join(f"{c:,}" for c in reached)} impressions. *Online*: sum of the NDCG@10 of what was shown, discounted
by {GAMMA}. Differences to PDGD are paired, with their standard errors. Learning from all grades, once through:
{level(grades, 3)}.

{summary(runs)}

Mean NDCG@10 of what was shown so far, users "{in_picture(runs)}":

![Mean NDCG@10 of what was shown so far](clicks_online.png)

{chr(10).join(f"{section}{chr(10)}" for section in sections)}
## Speed beside PDGD

Impressions learned a second: medians of {ROUNDS} interleaved rounds, and of the ratios within a round.

{table(speed_header, speeds())}
"""


def level(values: Sequence[float], digits: int) -> str:
    """Mean and its standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    main()
