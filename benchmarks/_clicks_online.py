"""`SwapRanker` compared with PDGD and with other online learners of the literature: the same users, queries and draws."""

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._clicks_data import GAMMA, ndcg_shown, offline, parts, queries_of
from benchmarks._common import table
from benchmarks._kept import Kept
from benchmarks._pdgd import PDGD
from benchmarks._peers import COLTR, DBGD
from online_rank import Impression, PlackettLuce, SwapRanker
from online_rank.evaluate import Spread
from online_rank.stream.clicks import user

__all__ = ["bar", "impressions", "peers"]

USERS = ("perfect", "navigational", "informational", "trust", "position")
SLOTS = (10, 3, 2, 1)
CHECKPOINTS = (100, 1000, 10_000)
#: Runs of each user: up to 10,000 impressions, and, with ten slots, up to 1,000.
LONG, SHORT = 40, 100
#: Seeds of the peers.
SEEDS = (10, 11, 12, 13)
OURS, THEIRS = "SwapRanker()", "PDGD"
#: A difference below zero by more standard errors than this is "behind".
BAR = 2.5

#: Columns: what was shown (0) or NDCG@10 (1), at which checkpoint, digits.
_COLUMNS = {
    "online": (0, 2, 1),
    "online, first 1,000": (0, 1, 1),
    **{f"after {n:,}": (1, place, 3) for place, n in enumerate(CHECKPOINTS)},
}
#: The discounted sums of what was shown, and NDCG@10 on the test part, at each checkpoint.
Found = list[list[float]]


class Plain:
    """A learner of `_pdgd` or `_peers` with the calls of a ranker."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.predict_one = learner, learner.scores

    def show_one(self, X: np.ndarray) -> Impression:
        """The list of the learner."""
        return Impression(tuple(self.learner.show(X).tolist()))

    def learn_one(self, X: np.ndarray, y: Any) -> None:
        """Learn from clicks on the last list."""
        self.learner.learn(X, np.array(y.impression.order), np.array(y.gains) > 0.0)


LEARNERS: dict[str, Callable[[int, int], Any]] = {
    OURS: lambda k, seed: SwapRanker(PlackettLuce(k, seed=seed)),
    THEIRS: lambda k, seed: Plain(PDGD(46, k, seed=seed)),
    "MGD, 9 candidates": lambda k, seed: Plain(DBGD(46, 9, k, seed=seed)),
    "DBGD": lambda k, seed: Plain(DBGD(46, k=k, seed=seed)),
    "COLTR, 499 candidates": lambda k, seed: Plain(COLTR(46, k=k, seed=seed)),
}


class Trial(NamedTuple):
    """One user, fold and seed, the number of documents shown, and the number of impressions."""

    user: str
    slots: int
    fold: int
    seed: int
    impressions: int


def trials() -> list[Trial]:
    """All runs against PDGD, those first that make a balanced beginning."""
    found = []
    for number in range(SHORT):
        fold, seed = number % 5, 10 + number // 5
        for slots in SLOTS:
            if number < LONG or slots == 10:
                impressions = CHECKPOINTS[-1 if number < LONG else -2]
                cost = number * {10: 1, 3: 2, 2: 2, 1: 3}[slots] if number < LONG else 15 + number / 10
                found += [(cost, Trial(name, slots, fold, seed, impressions)) for name in USERS]
    return [trial for _, trial in sorted(found, key=lambda pair: pair[0])]


def impressions(model: Any, folder: Path, trial: Trial) -> Iterator[tuple[np.ndarray, Any]]:
    """Let a model show lists of the training part and learn the clicks on them: the grades, and the clicks, of each."""
    train = queries_of([parts(folder)[(trial.fold + i) % 5] for i in range(3)])
    drawn = np.random.default_rng([trial.seed, trial.fold, 7]).integers(len(train), size=trial.impressions)
    who = user(trial.user, max_grade=2, seed=1_000_000 + 1000 * trial.fold + trial.seed)
    for t, q in enumerate(drawn.tolist()):
        X, y = train[q]
        clicks = who.clicks(model.show_one(X), y, t)
        model.learn_one(X, clicks)
        yield y, clicks


def measured(folder: Path, name: str, trial: Trial) -> Found:
    """What a learner showed, and how good its ranking is, at each checkpoint."""
    test = queries_of([parts(folder)[(trial.fold + 4) % 5]], relevant=True)
    model = LEARNERS[name](trial.slots, 1000 * trial.fold + trial.seed)
    shown, after = 0.0, list[list[float]]()
    for t, (y, clicks) in enumerate(impressions(model, folder, trial)):
        shown += GAMMA**t * ndcg_shown(y, clicks.impression.order, trial.slots)
        if t + 1 in CHECKPOINTS:
            after.append([shown, offline(model.predict_one, test)])
    return [*map(list, zip(*after, strict=True))]


class _Campaign:
    """Runs that are kept, as far as time lasts."""

    def __init__(self, folder: Path, minutes: float, kept: Kept) -> None:
        self.folder, self.kept, self.until = folder, kept, time.monotonic() + 60.0 * minutes

    def found(self, learners: Sequence[str], trial: Trial) -> list[Found] | None:
        """What is found of each learner; None if it is not kept, and time is over."""
        names = [f"{learner}: {trial}" for learner in learners]
        if not all(name in self.kept for name in names) and time.monotonic() > self.until:
            return None
        print(trial, flush=True)
        measure = [functools.partial(measured, self.folder, learner, trial) for learner in learners]
        return [self.kept.part(*each) for each in zip(names, measure, strict=True)]


def bar(folder: Path, minutes: float, kept: Kept) -> str:
    """Measure what is missing, for some minutes, and write the section on PDGD."""
    campaign = _Campaign(folder, minutes, kept)
    found = [(trial, pair) for trial in trials() if (pair := campaign.found((OURS, THEIRS), trial))]
    rows = [[slots, name, *_row(found, slots, name)] for slots in SLOTS for name in (*USERS, "pooled")]
    behind = sum(str(cell).endswith("*") for row in rows for cell in row[3:])
    header = ("slots", "users", "runs", *(f"{column}, less {THEIRS}" for column in _COLUMNS))
    return f"""## Compared with PDGD

MQ2008. *Online*: the sum of NDCG of what was shown, discounted by {GAMMA}, up to 10,000 impressions, and up to 1,000. *After*:
NDCG@10 on the test part of the ranking by scores. `SwapRanker()` less PDGD, paired by fold and seed, ± standard
error; a star: behind by more than {BAR} standard errors. Runs: to 10,000 impressions / to 1,000; the full campaign has
{LONG} / {SHORT} with ten slots, {LONG} elsewhere. *Pooled*: the mean over users. {behind} cells have a star.
{kept.code}

{table(header, rows)}
"""


def _row(found: Sequence[tuple[Trial, list[Found]]], slots: int, name: str) -> list[str]:
    """How many runs, then the differences for each column."""
    runs = [pair for trial, pair in found if trial.slots == slots and name in (trial.user, "pooled")]
    cells = []
    for kind, checkpoint, digits in _COLUMNS.values():
        less = [ours[kind][checkpoint] - theirs[kind][checkpoint] for ours, theirs in runs if len(ours[kind]) > checkpoint]
        away = Spread.of(less)
        cells.append(f"{away:+.{digits}f}{'*' * (away.mean < -BAR * away.error)}" if len(less) > 1 else "")
    return [f"{sum(len(ours[0]) == len(CHECKPOINTS) for ours, _ in runs)} / {len(runs)}", *cells]


def peers(folder: Path, minutes: float, kept: Kept) -> str:
    """Measure what is missing, for some minutes, and write the section on the other learners."""
    campaign, found = _Campaign(folder, minutes, kept), dict[str, list[list[Found]]]((who, []) for who in USERS)
    # Seed by seed and fold by fold, so that users have as many runs wherever it ends.
    for seed, fold, who in itertools.product(SEEDS, range(5), USERS):
        if each := campaign.found([*LEARNERS], Trial(who, 10, fold, seed, CHECKPOINTS[-1])):
            found[who].append(each)
    pooled = [run for runs in found.values() for run in runs]
    columns = ("online", *(f"after {n:,}" for n in CHECKPOINTS))
    by_user = [[who, *row] for who, runs in found.items() for row in _rows(runs)]
    return f"""## Peers

The online learners of the literature. MQ2008, {CHECKPOINTS[-1]:,} impressions of ten documents, {len(USERS)} kinds of users;
the full campaign has 5 folds x {len(SEEDS)} seeds, from {SEEDS[0]}.
*Online*: the sum of NDCG@10 of what was shown, discounted by {GAMMA}. *After*: NDCG@10 on the test part of the ranking by
scores. In brackets: `{OURS}` less the learner, paired by user, fold and seed, ± standard error. PDGD, DBGD, MGD and COLTR
are written from their descriptions, with the settings of their authors' code, which has no tests to compare with; nothing was
tuned here.

{table(("all users", "runs", *columns), _rows(pooled))}

{table(("users", "learner", "runs", *columns), by_user)}
"""


def _rows(runs: list[list[Found]]) -> list[list[object]]:
    """A row for each learner, of what the runs have of each of them; ours is the first."""
    rows: list[list[object]] = []
    for place, learner in enumerate(LEARNERS if runs else ()):
        cells = []
        for digits, values in ((0, [[run[0][-1] for run in each] for each in runs]), *((3, _after(runs, n)) for n in range(3))):
            less = Spread.of([each[0] - each[place] for each in values])
            compared = f" ({less:+.{digits}f})" if place and less.n > 1 else ""
            cells.append(f"{np.mean([each[place] for each in values]):.{digits}f}{compared}")
        rows.append([learner, len(runs), *cells])
    return rows


def _after(runs: list[list[Found]], checkpoint: int) -> list[list[float]]:
    """NDCG@10 at a checkpoint, of each run and learner."""
    return [[found[1][checkpoint] for found in each] for each in runs]
