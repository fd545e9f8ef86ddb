"""`SwapRanker` compared with PDGD: the same users, queries and draws."""

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._clicks_data import GAMMA, offline, parts, queries_of
from benchmarks._common import table
from benchmarks._kept import Kept
from benchmarks._simulation import Chance, beginner, chance, pdgd_rounds, queries_in_one, swap_rounds, tables
from online_rank import PlackettLuce, SwapRanker
from online_rank.evaluate import Spread
from online_rank.stream.clicks import User, user

USERS = ("perfect", "navigational", "informational", "trust", "position")
SLOTS = (10, 3, 2, 1)
CHECKPOINTS = (100, 1000, 10_000)
#: Runs of each user: up to 10,000 impressions, and, with ten slots, up to 1,000.
LONG, SHORT = 40, 100
OURS, THEIRS = "SwapRanker()", "PDGD"
#: A difference below zero by more standard errors than this is "behind".
BAR = 2.5


#: Columns: NDCG@10 or what was shown, at which checkpoint, digits.
_COLUMNS = {
    "online": (1, 2, 1),
    "online, first 1,000": (1, 1, 1),
    **{f"after {n:,}": (0, place, 3) for place, n in enumerate(CHECKPOINTS)},
}

Found = dict[str, list[list[float]]]


class Trial(NamedTuple):
    """One user, fold and seed, the number of documents shown, and the number of impressions."""

    user: str
    slots: int
    fold: int
    seed: int
    impressions: int


def trials() -> list[Trial]:
    """All runs, those first that make a balanced beginning."""
    found = []
    for number in range(SHORT):
        fold, seed = number % 5, 10 + number // 5
        for slots in SLOTS:
            if number < LONG or slots == 10:
                impressions = CHECKPOINTS[-1 if number < LONG else -2]
                cost = number * {10: 1, 3: 2, 2: 2, 1: 3}[slots] if number < LONG else 15 + number / 10
                found += [(cost, Trial(name, slots, fold, seed, impressions)) for name in USERS]
    return [trial for _, trial in sorted(found, key=lambda pair: pair[0])]


def measured(folder: Path, trial: Trial) -> Found:
    """For each ranker, at each checkpoint: NDCG@10 on the test part, and the discounted sum of what was shown so far."""
    data = parts(folder)
    train = queries_of([data[(trial.fold + i) % 5] for i in range(3)])
    test = queries_of([data[(trial.fold + 4) % 5]], relevant=True)
    drawn = np.random.default_rng([trial.seed, trial.fold, 7]).integers(len(train), size=trial.impressions)
    seed = 1000 * trial.fold + trial.seed
    who, block = user(trial.user, max_grade=2, seed=1_000_000 + seed), queries_in_one(train, trial.slots)
    stops = [c for c in CHECKPOINTS if c <= trial.impressions]
    counted = chance(block, drawn, who, seed, True, trial.slots)
    # PDGD draws its own noise; the users draw the same.
    own = Chance(drawn, chance(block, drawn, who, seed, False, trial.slots).noise, counted.users)
    looks = tables(who, 3)
    swap = functools.partial(compiled, swap_rounds, block, counted, looks, 0.1)
    found = {
        OURS: swap(stops) if trial.slots > 2 else by_the_interface(trial, train, block.ideal, drawn, who, seed, stops),
        THEIRS: compiled(pdgd_rounds, block, own, looks, 0.9999977, stops),
    }
    discounts = GAMMA ** np.arange(trial.impressions)
    return {
        name: [
            [offline(lambda X, w=w: X @ w, test) for w in weights],  # type: ignore[misc]
            [float(quality[:stop] @ discounts[:stop]) for stop in stops],
        ]
        for name, (weights, quality) in found.items()
    }


def compiled(
    rounds: Callable[..., None], block: Any, draws: Chance, looks: Any, constant: float, stops: Sequence[int]
) -> tuple[list[np.ndarray], np.ndarray]:
    """The weights at each stop, and the NDCG of each list, of a ranker in compiled form."""
    learner, quality, weights = beginner(block.X.shape[1]), np.empty(len(draws.queries)), []
    for first, stop in itertools.pairwise([0, *stops]):
        rounds(block, draws, *looks, True, constant, learner, first, stop, quality)
        weights.append(learner.w.copy())
    return weights, quality


def by_the_interface(
    trial: Trial, train: Any, ideal: np.ndarray, drawn: np.ndarray, who: User, seed: int, stops: Sequence[int]
) -> tuple[list[np.ndarray], np.ndarray]:
    """The same of `SwapRanker`, called query by query: with one or two slots it learns from documents that it holds back."""
    model, quality, weights = SwapRanker(PlackettLuce(trial.slots, seed=seed)), np.empty(len(drawn)), []
    discounts = 1.0 / np.log2(np.arange(2, trial.slots + 2))
    for t, q in enumerate(drawn.tolist()):
        X, y = train[q]
        shown = model.show_one(X)
        gains = 2.0 ** y[list(shown.order)] - 1.0
        quality[t] = gains @ discounts[: len(gains)] / ideal[q] if ideal[q] > 0.0 else 0.0
        model.learn_one(X, who.clicks(shown, y, t))
        if t + 1 in stops:
            weights.append(np.array(model.weights))
    return weights, quality


def section(folder: Path, minutes: float, kept: Kept) -> str:
    """Measure what is missing, for some minutes, and write the section."""
    until, found, names = time.monotonic() + 60.0 * minutes, [], []
    for trial in trials():
        name = str(trial)
        if name in kept or time.monotonic() < until:
            found.append((trial, kept.part(name, functools.partial(measured, folder, trial))))
            names.append(name)
            print(trial, flush=True)
    rows = [[slots, name, *_row(found, slots, name)] for slots in SLOTS for name in (*USERS, "pooled")]
    behind = sum(str(cell).endswith("*") for row in rows for cell in row[3:])
    header = ("slots", "users", "runs", *(f"{column}, less {THEIRS}" for column in _COLUMNS))
    return f"""## Compared with PDGD

MQ2008. *Online*: the sum of NDCG of what was shown, discounted by {GAMMA}, up to 10,000 impressions, and up to 1,000. *After*:
NDCG@10 on the test part of the ranking by scores. `SwapRanker()` less PDGD, paired by fold and seed, ± standard
error; a star: behind by more than {BAR} standard errors. Runs: to 10,000 impressions / to 1,000; the full campaign has
{LONG} / {SHORT} with ten slots, {LONG} elsewhere. *Pooled*: the mean over users. {behind} cells have a star.
{kept.code_of(*names)}

{table(header, rows)}
"""


def _row(found: Sequence[tuple[Trial, Found]], slots: int, name: str) -> list[str]:
    """How many runs, then the differences for each column."""
    runs = [values for trial, values in found if trial.slots == slots and name in (trial.user, "pooled")]
    cells = []
    for kind, checkpoint, digits in _COLUMNS.values():
        both = [(values[OURS][kind], values[THEIRS][kind]) for values in runs]
        cells.append(_difference([a[checkpoint] - b[checkpoint] for a, b in both if len(a) > checkpoint], digits))
    return [f"{sum(len(values[OURS][0]) == len(CHECKPOINTS) for values in runs)} / {len(runs)}", *cells]


def _difference(values: Sequence[float], digits: int) -> str:
    """Mean, its standard error, and a star if it is behind."""
    if len(values) < 2:
        return ""
    found = Spread.of(values)
    return f"{found:+.{digits}f}{'*' if found.mean < -BAR * found.error else ''}"
