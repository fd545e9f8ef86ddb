"""What does a log of displayed lists teach, next to LightGBM with the position as a feature?

    python -m benchmarks.click_logs [--seeds 5] [--lists 15000] [--settings 12] [--keep FILE]

Worlds with few texts and many lists, many texts and few lists, and no two lists alike (`_clicks_worlds`), with a truth that is
a sum of curves, or has interactions. `ClickBlendRanker` reads each log once. LightGBM has the position as a feature, the first
for all documents that are ranked, and the setting of 12 that foretells the clicks on the last 15 % of the lists best; then it
learns the whole log. The page is benchmarks/results/click_logs.md.
"""

import argparse
import itertools
import time
from typing import Any

import numpy as np

from benchmarks._clicks_worlds import LENGTH, N_FEATURES, WORLDS, Log, World, examination, ndcg
from benchmarks._common import parser, save, table
from benchmarks._kept import Kept, add_keep
from online_rank import AdditiveRanker, ClickBlendRanker, ExaminedRanker, Impression
from online_rank.feedback import NaturalVariation

#: Leaves, learning rate and rounds of LightGBM.
_SIZES = ((15, 0.05, 200), (7, 0.05, 300), (31, 0.05, 200), (15, 0.03, 200), (31, 0.1, 100), (7, 0.1, 300))
SETTINGS = [(objective, *size) for size, objective in itertools.product(_SIZES, ("binary", "lambdarank"))]
_KEPT_FOR_CHOICE = 0.15


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

    The setting that foretells the last lists best learns the whole log; the seconds are those of this one setting.
    """
    log, held_out = world.log(lists), world.held_out()
    cut = int((1.0 - _KEPT_FOR_CHOICE) * len(log.X))
    first, last = Log(*(part[:cut] for part in log)), Log(*(part[cut:] for part in log))
    losses = [foretold(boosted(first, SETTINGS[setting]), last) for setting in settings]
    begun = time.process_time()
    rival = boosted(log, SETTINGS[settings[int(np.argmin(losses))]])
    seconds = time.process_time() - begun

    def with_first(X: np.ndarray) -> Any:
        return rival.predict(np.column_stack([X, np.ones(len(X))]), raw_score=True)

    return [[quality(with_first, held_out), seconds], losses]


def report(options: argparse.Namespace) -> str:
    kept, rows = Kept(options.keep), []
    for interactions, name in itertools.product((True, False), WORLDS):
        found = np.array(
            [
                kept.part(
                    f"{name} {interactions} {seed} {options.lists} {options.settings}",
                    lambda seed=seed: measured(name, interactions, seed, options.lists, options.settings),  # noqa: B023
                )
                for seed in range(options.seeds)
            ]
        )
        today, ours, rival, earlier, second, own_time, its_time = found.mean(axis=0).tolist()
        less = ours - rival
        error = float((found[:, 1] - found[:, 2]).std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
        truth = "interactions" if interactions else "a sum of curves"
        figures = (f"{today:.3f}", f"{ours:.3f}", f"{rival:.3f}", f"{less:+.3f} ± {error:.3f}", f"{earlier:.3f}")
        rows.append((f"{name}, {truth}", *figures, f"{second:.3f}", f"{own_time / its_time:.1f}"))
        print(*rows[-1], flush=True)
    header = (
        "world, truth", "today", "`ClickBlendRanker`", "LightGBM, position", "difference", "inverse propensities",
        "examination of place 2", "time over LightGBM",
    )  # fmt: skip
    return f"""# Logs of displayed lists

NDCG@10 on the true grades of 400 other texts with 30 candidates, after a log of {options.lists:,} lists of {LENGTH} documents
with {N_FEATURES} features, of which about 5 % are clicked. LightGBM: the best of {options.settings} settings on held-out
clicks. *Inverse propensities*: `ExaminedRanker(AdditiveRanker())` with the examination of documents that moved, nan if no
document is shown twice for a text. The examination of place 2 is {examination()[1]:.3f} in truth. *Time*: processor time of
one pass of `ClickBlendRanker` over the time of LightGBM with one setting. Seeds: {options.seeds}; ± standard errors over them.

{table(header, rows)}
"""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--lists", type=int, default=15_000)
    options.add_argument("--settings", type=int, default=12, choices=range(1, 13), metavar="1..12")
    add_keep(options)
    save("click_logs", report(options.parse_args()))


if __name__ == "__main__":
    main()
