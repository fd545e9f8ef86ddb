"""`SwapRanker` compared with the online learners of the literature: the same users and queries."""

import functools
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._clicks_bar import CHECKPOINTS, OURS, USERS, compiled
from benchmarks._clicks_data import GAMMA, ndcg_shown, offline, parts, queries_of
from benchmarks._common import table
from benchmarks._kept import Kept
from benchmarks._peers import COLTR, DBGD
from benchmarks._simulation import chance, pdgd_rounds, queries_in_one, swap_rounds, tables
from online_rank import Impression
from online_rank.stream.clicks import user

SEEDS = (10, 11, 12, 13)
#: Both run compiled, draw by draw as by the interface: whether they count their draws, their kernel, its decay or wealth.
COMPILED: dict[str, tuple[bool, Callable[..., None], float]] = {
    OURS: (True, swap_rounds, 0.1),
    "PDGD": (False, pdgd_rounds, 0.9999977),
}
PEERS: dict[str, Callable[[int], Any]] = {
    "MGD, 9 candidates": lambda seed: DBGD(46, 9, seed=seed),
    "DBGD": lambda seed: DBGD(46, seed=seed),
    "COLTR, 499 candidates": lambda seed: COLTR(46, seed=seed),
}


class Run(NamedTuple):
    """One learner with one user, fold and seed."""

    learner: str
    user: str
    fold: int
    seed: int


def measured(folder: Path, run: Run) -> list[float]:
    """The discounted sum of what was shown, then NDCG@10 on the test part at each checkpoint."""
    data = parts(folder)
    train = queries_of([data[(run.fold + i) % 5] for i in range(3)])
    test = queries_of([data[(run.fold + 4) % 5]], relevant=True)
    drawn = np.random.default_rng([run.seed, run.fold, 7]).integers(len(train), size=CHECKPOINTS[-1])
    seed = 1000 * run.fold + run.seed
    who, quality = user(run.user, max_grade=2, seed=1_000_000 + seed), np.empty(len(drawn))
    if run.learner in COMPILED:
        counted, rounds, constant = COMPILED[run.learner]
        block = queries_in_one(train)
        draws = chance(block, drawn, who, seed, counted)
        weights, quality = compiled(rounds, block, draws, tables(who, 3), constant, CHECKPOINTS)
        values = [offline(lambda X, w=w: X @ w, test) for w in weights]  # type: ignore[misc]
    else:
        learner, values = PEERS[run.learner](seed), []
        for t, q in enumerate(drawn.tolist()):
            X, y = train[q]
            shown = learner.show(X)
            quality[t] = ndcg_shown(y, shown)
            clicks = who.clicks(Impression(tuple(shown.tolist())), y, t)
            learner.learn(X, shown, np.array(clicks.gains) > 0.0)
            if t + 1 in CHECKPOINTS:
                values.append(offline(learner.scores, test))
    return [float(quality @ GAMMA ** np.arange(len(quality))), *values]


def section(folder: Path, minutes: float, kept: Kept) -> str:
    """Measure what is missing, for some minutes, and write the section."""
    until = time.monotonic() + 60.0 * minutes
    learners = (*COMPILED, *PEERS)
    found: dict[str, list[list[list[float]]]] = {who: [] for who in USERS}
    # Seed by seed and fold by fold, so that users have as many runs wherever it ends.
    for seed, fold, who in itertools.product(SEEDS, range(5), USERS):
        runs = {f"peers, {run}": run for run in (Run(learner, who, fold, seed) for learner in learners)}
        if all(name in kept for name in runs) or time.monotonic() < until:
            found[who].append([kept.part(name, functools.partial(measured, folder, run)) for name, run in runs.items()])
            print(f"{who}, fold {fold}, seed {seed}", flush=True)
    pooled = [run for values in found.values() for run in values]
    columns = ("online", *(f"after {n:,}" for n in CHECKPOINTS))
    by_user = [[who, *row] for who, values in found.items() for row in _rows(learners, values)]
    return f"""## Peers

The online learners of the literature. MQ2008, {CHECKPOINTS[-1]:,} impressions of ten documents, {len(USERS)} kinds of users;
the full campaign has 5 folds x {len(SEEDS)} seeds, from {SEEDS[0]}.
*Online*: the sum of NDCG@10 of what was shown, discounted by {GAMMA}. *After*: NDCG@10 on the test part of the ranking by
scores. In brackets: `{OURS}` less the learner, paired by user, fold and seed, ± standard error. PDGD, DBGD, MGD and COLTR
are written from their descriptions, with the settings of their authors' code, which has no tests to compare with; nothing was
tuned here.

{table(("all users", "runs", *columns), _rows(learners, pooled))}

{table(("users", "learner", "runs", *columns), by_user)}
"""


def _rows(learners: Sequence[str], runs: list[list[list[float]]]) -> list[list[object]]:
    """A row for each learner, of what the runs have of each of them; ours is the first."""
    rows: list[list[object]] = []
    for place, learner in enumerate(learners if runs else ()):
        ours, theirs = [run[0] for run in runs], [run[place] for run in runs]
        rows.append([learner, len(runs), *(_cell(i, ours, theirs, place > 0) for i in range(len(CHECKPOINTS) + 1))])
    return rows


def _cell(column: int, ours: list[list[float]], found: list[list[float]], beside: bool) -> str:
    """The mean of a column and, next to another learner, the difference."""
    digits = 3 if column else 0
    text = f"{statistics.fmean(values[column] for values in found):.{digits}f}"
    if not beside or len(found) < 2:
        return text
    less = [a[column] - b[column] for a, b in zip(ours, found, strict=True)]
    return f"{text} ({statistics.fmean(less):+.{digits}f} ± {statistics.stdev(less) / len(less) ** 0.5:.{digits}f})"
