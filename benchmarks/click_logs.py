"""What does a log of displayed lists teach, next to LightGBM with the position as a feature?

    python -m benchmarks.click_logs [--seeds 5] [--lists 15000] [--keep FILE]

Worlds with few texts and many lists, many texts and few lists, and no two lists alike (`_clicks_worlds`), with a truth that is
a sum of curves, or has interactions. `ClickBlendRanker` reads each log once. LightGBM has the position as a feature, the first
for all documents that are ranked, and the setting that foretells the clicks on the last 15 % of the lists best; then it learns
the whole log. The page is benchmarks/results/click_logs.md.
"""

import argparse
import functools
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._clicks_worlds import LENGTH, N_FEATURES, NAMES, WORLDS, Log, World, examination, ndcg
from benchmarks._common import parser, save, table
from benchmarks._kept import Kept, add_keep
from online_rank import AdditiveRanker, ClickBlendRanker, ExaminedRanker, Impression, load
from online_rank.evaluate import Spread
from online_rank.feedback import NaturalVariation

#: Leaves, learning rate and rounds of LightGBM.
_SIZES = ((15, 0.05, 200), (7, 0.05, 300), (31, 0.05, 200), (15, 0.03, 200), (31, 0.1, 100), (7, 0.1, 300))
SETTINGS = [(objective, *size) for size, objective in itertools.product(_SIZES, ("binary", "lambdarank"))]
_KEPT_FOR_CHOICE = 0.15
#: The share of users who click the first document because it is the first.
_TRUST = 0.3


def taught(model: Any, log: Log) -> Any:
    """A model that has learned a log."""
    shown = Impression(tuple(range(LENGTH)))
    for X, clicked in zip(log.X, log.clicks, strict=True):
        model.learn_one(X, shown.clicked(np.flatnonzero(clicked).tolist()))
    return model


def quality(scores: Any, held_out: Log) -> float:
    """The mean NDCG@10 on true grades."""
    return float(ndcg(np.array([scores(X) for X in held_out.X]), held_out.grades).mean())


def by_propensities(log: Log) -> Any:
    """The ranker of earlier versions: inverse propensities, measured by documents that moved; None without any."""
    positions = NaturalVariation(LENGTH)
    for text, documents, clicked in zip(log.texts.tolist(), log.documents.tolist(), log.clicks, strict=True):
        shown = Impression(tuple(documents))
        positions.update(text, shown.clicked([documents[i] for i in np.flatnonzero(clicked)]))
    try:
        examined = positions.known_examination
    except ValueError:
        return None
    return taught(ExaminedRanker(AdditiveRanker(), examination=examined), log)


def boosted(log: Log, setting: tuple[str, int, float, int]) -> Any:
    """LightGBM with the position as a feature."""
    import lightgbm

    objective, leaves, rate, rounds = setting
    given = {"objective": objective, "num_leaves": leaves, "learning_rate": rate, "verbose": -1, "num_threads": 1, "seed": 1}
    given |= {"feature_fraction": 0.7, "bagging_fraction": 0.8, "bagging_freq": 1, "min_data_in_leaf": 50}
    n = len(log.X)
    X = np.column_stack([log.X.reshape(-1, N_FEATURES), np.tile(np.arange(1.0, LENGTH + 1.0), n)])
    data = lightgbm.Dataset(X, log.clicks.reshape(-1).astype(int), group=[LENGTH] * n, params=given)
    return lightgbm.train(given, data, rounds)


def foretold(model: Any, log: Log) -> float:
    """The loss of the clicks among the documents of their list, by scores with the position, on the best scale."""
    n = len(log.X)
    X = np.column_stack([log.X.reshape(-1, N_FEATURES), np.tile(np.arange(1.0, LENGTH + 1.0), n)])
    scores = model.predict(X, raw_score=True).reshape(n, LENGTH)
    losses = []
    for scale in 2.0 ** np.arange(-3.0, 3.5, 0.5):
        odds = scale * (scores - scores.max(axis=1, keepdims=True))
        log_chances = odds - np.log(np.exp(odds).sum(axis=1, keepdims=True))
        losses.append(-log_chances[log.clicks].mean())
    return float(min(losses))


def measured(world: World, lists: int) -> list[float]:
    """NDCG@10 of today's ranking and of ours, the examination at place 2, and seconds of the processor."""
    log, held_out = world.log(lists), world.held_out()
    begun = time.process_time()
    ours = taught(ClickBlendRanker(), log)
    seconds = time.process_time() - begun
    return [quality(lambda X: X[:, -1], held_out), quality(ours.predict_one, held_out), ours.examined[1], seconds]


def rivalled(world: World, lists: int, settings: list[int]) -> list[list[float]]:
    """NDCG@10 of LightGBM with the position and seconds of the processor, and the loss of each setting on held-out clicks.

    The setting that foretells the last lists best learns the whole log; only its seconds count. A single one needs no choice.
    """
    log, held_out = world.log(lists), world.held_out()
    cut = int((1.0 - _KEPT_FOR_CHOICE) * len(log.X))
    first, last = Log(*(part[:cut] for part in log)), Log(*(part[cut:] for part in log))
    losses = [foretold(boosted(first, SETTINGS[setting]), last) for setting in settings] if len(settings) > 1 else [0.0]
    begun = time.process_time()
    rival = boosted(log, SETTINGS[settings[int(np.argmin(losses))]])
    seconds = time.process_time() - begun

    def with_first(X: np.ndarray) -> Any:
        return rival.predict(np.column_stack([X, np.ones(len(X))]), raw_score=True)

    return [[quality(with_first, held_out), seconds], losses]


def by_door(world: World, lists: int, door: str) -> list[Any]:
    """NDCG@10 of what a command of the shell makes of the log, None if it refuses; what it said; seconds of the processor.

    The door `clicks` is `train --clicks moved`, `grades` is `grades --features last`, and `train` on these.
    """
    log, held_out = world.log(lists), world.held_out()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _write(log, folder / "log.parquet")
        if door == "clicks":
            code, said = _run("train", folder / "log.parquet", "--clicks", "moved", "--topic", "text", "--save", folder / "m")
        else:
            options = "--topic", "text", "--features", "last", "--out", folder / "j.csv"
            code, said = _run("grades", folder / "log.parquet", *options)
            if code == 0:
                named = "--query", "query", "--document", "document", "--grade", "grade"
                code, more = _run("train", folder / "j.csv", *named, "--save", folder / "m")
                said += more
        model = load(folder / "m") if code == 0 else None
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def scores(X: np.ndarray) -> Any:
        found = model.predict_one({i: dict(zip(NAMES, row, strict=True)) for i, row in enumerate(X.tolist())})
        return [found[i] for i in range(len(X))]

    return [None if model is None else quality(scores, held_out), said, seconds]


def _write(log: Log, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    n = len(log.X)
    columns = {
        "query": np.repeat(np.arange(n), LENGTH),
        "document": log.documents.ravel(),
        "position": np.tile(np.arange(1, LENGTH + 1), n),
        "click": log.clicks.ravel().astype(int),
        "text": [f"text {text}" for text in np.repeat(log.texts, LENGTH).tolist()],
        **{name: log.X[..., j].ravel() for j, name in enumerate(NAMES)},
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _run(*arguments: Any) -> tuple[int, str]:
    """The exit code of a command, and what it wrote to stderr."""
    done = subprocess.run([sys.executable, "-m", "online_rank", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stderr


def positions(world: World, lists: int) -> list[float]:
    """The estimated examination of place 2, the estimated trust in the first place, and NDCG@10."""
    ours = taught(ClickBlendRanker(), world.log(lists))
    return [ours.examined[1], ours.trust, quality(ours.predict_one, world.held_out())]


class _Cells:
    """What is measured of each world."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.kept, self.options = Kept(options.keep), options

    def part(self, cell: str, what: str, measure: Callable[[], Any]) -> Any:
        """A part of a cell."""
        return self.kept.part(f"{cell}, {self.options.lists} lists: {what}", measure)

    def pair(self, name: str, interactions: bool, seed: int) -> tuple[Any, Any]:
        """Ours and LightGBM for one seed: of the first seed all settings are tried, then the best of these."""
        world, cell, lists = World(name, interactions, seed), f"{name}, {_truth(interactions)}, seed {seed}", self.options.lists
        settings = [*range(len(SETTINGS))] if seed == 1 else [int(np.argmin(self.pair(name, interactions, 1)[1][1]))]
        ours = self.part(cell, "ours", lambda: measured(world, lists))
        return ours, self.part(cell, "LightGBM", lambda: rivalled(world, lists, settings))


def _truth(interactions: bool) -> str:
    return "interactions" if interactions else "a sum of curves"


def compared(cells: _Cells) -> str:
    """The table of ours next to LightGBM."""
    rows = []
    for interactions, name in itertools.product((True, False), WORLDS):
        pairs = [cells.pair(name, interactions, seed) for seed in range(1, cells.options.seeds + 1)]
        print(f"{name}, {_truth(interactions)}:", *pairs, flush=True)
        own = np.array([ours for ours, _ in pairs])
        its = np.array([rival[0] for _, rival in pairs])
        figures = [f"{mean:.3f}" for mean in (own[:, 0].mean(), own[:, 1].mean(), its[:, 0].mean())]
        figures += [f"{Spread.of(own[:, 1] - its[:, 0]):+.3f}", f"{(own[:, 3] / its[:, 1]).mean():.1f}"]
        rows.append((f"{name}, {_truth(interactions)}", len(pairs), len(pairs[0][1][1]), *figures))
    header = "world, truth", "seeds", "settings", "today", "`ClickBlendRanker`", "LightGBM, position", "difference", "time"
    return table(header, rows)


def doors(cells: _Cells) -> str:
    """The table of what commands make of the logs of the first seed."""
    rows, lists = [], cells.options.lists
    for name in WORLDS:
        world, cell = World(name, True, 1), f"{name}, interactions, seed 1"
        clicks = cells.part(cell, "door clicks", functools.partial(by_door, world, lists, "clicks"))
        grades = cells.part(cell, "door grades", functools.partial(by_door, world, lists, "grades"))
        inverse = cells.part(cell, "inverse propensities", functools.partial(_by_propensities, world, lists))
        rival = cells.pair(name, True, 1)[1]
        kept = clicks[1].partition("kept: ")[2].partition("\n")[0] or "the only way"
        warned = "yes" if "better door" in grades[1] else "no"
        figures = [each[0] for each in (clicks, grades, inverse, rival[0])]
        rows.append((name, *("" if figure is None else f"{figure:.3f}" for figure in figures), kept, warned))
    header = (
        "world", "`train --clicks moved`", "`grades`, then `train`", "`ExaminedRanker`", "LightGBM, position", "kept",
        "`grades` names the better door",
    )  # fmt: skip
    return table(header, rows)


def _by_propensities(world: World, lists: int) -> list[float | None]:
    found = by_propensities(world.log(lists))
    return [None if found is None else quality(found.predict_one, world.held_out())]


def trusted(cells: _Cells) -> str:
    """The table of estimated positions."""
    rows = []
    for name, trust in itertools.product(WORLDS, (0.0, _TRUST)):
        world, lists = World(name, True, 7, trust), cells.options.lists
        measure = functools.partial(positions, world, lists)
        second, estimated, value = cells.part(f"{name}, interactions, seed 7", f"positions, trust {trust}", measure)
        rows.append((name, trust, f"{estimated:.2f}", f"{second:.3f}", f"{second - examination()[1]:+.3f}", f"{value:.3f}"))
    return table(("world", "trust", "estimated", "place 2", "less the truth", "NDCG@10"), rows)


def report(options: argparse.Namespace) -> str:
    cells = _Cells(options)
    main, shell, places = compared(cells), doors(cells), trusted(cells)
    return f"""# Logs of displayed lists

NDCG@10 on the true grades of 400 other texts with 30 candidates, after a log of {options.lists:,} lists of {LENGTH} documents
with {N_FEATURES} features, of which about 5 % are clicked. *Few texts*: {WORLDS["few texts"]} texts;
*many texts*: {WORLDS["many texts"]:,}; *no two alike*: no text and no document comes again.
{cells.kept.code}

**Next to LightGBM.** It has the position as a feature. *Settings*: the number that was tried for the first seed of a world.
The one that foretells the clicks on the last 15 % of the lists best is taken, for the other seeds too. ± standard errors over
*seeds*. 12: six sizes for clicks and for lambdarank. *Time*: processor time of
one pass of `ClickBlendRanker` over the time of LightGBM with its one setting. Settings of `ClickBlendRanker` were chosen on
seed 0, which is not in the table.

{main}

**By the commands.** The first seed, with interactions. `train --clicks moved` teaches several ways and keeps the one that
foretells held-out clicks best. `grades --features last` makes a table for `train`. `ExaminedRanker(AdditiveRanker())` has the
examination of documents that moved.

{shell}

**Positions.** `ClickBlendRanker.examined` and `.trust`, with interactions, where a share of the users (*trust*) clicks the
first document because it is the first. The examination of place 2 is {examination()[1]:.3f} in truth.

{places}
"""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--lists", type=int, default=15_000)
    add_keep(options)
    save("click_logs", report(options.parse_args()))


if __name__ == "__main__":
    main()
