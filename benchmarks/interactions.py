"""Does the default see interactions, and is it level with plainer learners on data without them? What does it cost?

    python -m benchmarks.interactions [--other PYTHON] [--cache FOLDER] [--model EXPRESSION] [--development]
                                      [--part trees level plain judged hostile pairs cost size]
                                      [--seeds 5] [--queries 1000 4000]

The default, `AdditiveRanker()` or EXPRESSION, learns each stream once. `trees` has forests and products, held out, and
LightGBM of 200 rounds. `level` has streams on which curves are good, and `plain` streams on which a plain learner is better.
`judged` has a hundred judged queries, and 72 queries of 136 features. `hostile` has ten queries that contradict 3,000, and
`pairs` a stream that was written for comparisons with other libraries. `cost` and `size` are of the default.

PYTHON is the interpreter of an earlier checkout, whose `AdditiveRanker()` and `BlendRanker()` are the comparators; without it
they are `AdditiveRanker(trees=0)` and the figures of FOLDER. FOLDER keeps the figures of all comparators, so that another
default is measured quickly. Seeds are 40 and on, with --development 100 and on; settings are chosen on the latter, and so is
the plain learner of each stream. All differences are paired. A bar is missed if the figure is more than two standard errors
beyond it.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _interaction_cost
from benchmarks._additive_streams import GRADUAL, TURNS
from benchmarks._common import parser, save, table
from benchmarks._interaction_runs import BASE, BLEND, DEFAULT, LIGHTGBM, PLAIN, Difference, Figures, Runs, difference
from benchmarks._kept import commit
from benchmarks._other import add_other, commit_of
from online_rank.evaluate import Spread

_FIRST, _FIRST_DEVELOPMENT = 40, 100
#: Development seeds on which a plain learner is chosen, and test seeds of plain streams.
_CHOSEN_ON, _PLAIN_SEEDS = 5, 20
#: Bars over the blend and LightGBM by group and number of queries; None: only shown.
_TREES = {
    "forest:1000": (-0.010, -0.02), "products:1000": (-0.010, -0.04), "forest:4000": (0.0, None), "products:4000": (0.0, None),
}  # fmt: skip
#: Streams of `level`, and what the standard error is over.
_LEVEL = {
    **dict.fromkeys(("additive:1000", "linear:1000"), "queries"),
    **dict.fromkeys((TURNS, GRADUAL, "growth, day", "growth, running sum"), "seeds"),
    **dict.fromkeys(("missing at random", "missing where high", "shop"), "seeds"),
    **dict.fromkeys(("MQ2008", "LightGBM's set"), "orders"),
}
_LEAST = -0.003
#: Streams of `plain`, and how many of the first queries count; None: all.
_PLAIN_STREAMS = (
    ("label noise", None),
    ("two documents", None),
    ("many features", None),
    ("linear:200", 50),
    ("linear:200", 200),
)
_HOSTILE, _PAIRS = 0.95, 0.87
_HEAD = """# One default that sees interactions

NDCG@10, ties expected, after one pass, mean over seeds, each of which is another truth. *This* is `AdditiveRanker()`;
*before* are learners of an earlier commit. Differences are paired, ± their standard errors: over the queries of all seeds
where each seed is listed, over the queries of one test part for orders of real data, else over seeds. A bar is missed if the
figure is more than two standard errors below it. Bars speak of test seeds; settings were chosen on other seeds."""


def _told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _all(runs: Runs, who: str, name: str, seeds: Sequence[int]) -> list[Figures]:
    found = [runs.figures(who, name, seed) for seed in seeds]
    means = " ".join(f"{progressive:.4f}/{held_out:.4f}" for progressive, held_out in (each.means for each in found))
    _told(f"{name}, {who}: {means}")
    return found


def _both(runs: Runs, others: Sequence[str], name: str, seeds: Sequence[int]) -> dict[str, list[Figures]]:
    """Figures of the default and others; each stream is made once."""
    for seed in seeds:
        for who in (DEFAULT, *others):
            runs.figures(who, name, seed)
    return {who: _all(runs, who, name, seeds) for who in (DEFAULT, *others)}


def _held_out(found: list[Figures]) -> list[np.ndarray]:
    return [each.held_out for each in found]


def _cells(away: Difference, bar: float | None) -> tuple[str, str, str]:
    each = " / ".join(f"{one:+.3f}" for one in away.each)
    return f"{away} ({each})", "shown" if bar is None else f"{bar:+.3f}", "" if bar is None else away.verdict(bar)


def trees(given: Any) -> str:
    """Held-out queries of forests and products."""
    rows = []
    for name, bars in _TREES.items():
        if int(name.split(":")[1]) not in given.queries:
            continue
        found = _both(given.runs, (BLEND, LIGHTGBM), name, given.seeds)
        own = _held_out(found[DEFAULT])
        for who, bar in zip((BLEND, LIGHTGBM), bars, strict=True):
            other = _held_out(found[who])
            values = [f"{np.mean([np.nanmean(each) for each in held_out]):.4f}" for held_out in (own, other)]
            rows.append((name, who, *values, *_cells(difference(own, other), bar)))
    return table(("stream", "compared with", "this", "the other", "this less it (each seed)", "at least", ""), rows)


def level(given: Any) -> str:
    """Progressive figures, and held-out ones if the stream has held-out queries."""
    rows = []
    for name, over in _LEVEL.items():
        seeds = given.seeds[:3] if over == "orders" else given.seeds
        found = _both(given.runs, (BASE,), name, seeds)
        own, other = found[DEFAULT], found[BASE]
        kinds = [("progressive", [each.progressive for each in own], [each.progressive for each in other])]
        if len(own[0].held_out):
            kinds.append(("held out", _held_out(own), _held_out(other)))
        for kind, a, b in kinds:
            # In another order a query is learned elsewhere: only held-out queries are the same.
            error = "seeds" if over == "seeds" or (over == "orders" and kind == "progressive") else over
            values = [f"{np.mean([np.nanmean(each) for each in both]):.4f}" for both in (a, b)]
            rows.append((f"{name}, {kind}", *values, *_cells(difference(a, b, error), _LEAST)))
    return table(("stream", "this", BASE, "this less it (each seed)", "at least", ""), rows)


def best_plain(runs: Runs, name: str, first: int | None) -> str:
    """The plain learner that is best on development seeds."""
    seeds = range(_FIRST_DEVELOPMENT, _FIRST_DEVELOPMENT + _CHOSEN_ON)
    means = {who: np.mean([np.nanmean(runs.figures(who, name, seed).progressive[:first]) for seed in seeds]) for who in PLAIN}
    return max(means, key=lambda who: float(means[who]))


def plain(given: Any) -> str:
    """Progressive figures over the best plain learner of each stream."""
    rows, seeds = [], range(given.seeds[0], given.seeds[0] + (given.plain_seeds or _PLAIN_SEEDS))
    for name, first in _PLAIN_STREAMS:
        who = best_plain(given.runs, name, first)
        found = _both(given.runs, (who, BASE), name, seeds)
        own, other, before = ([each.progressive[:first] for each in found[each]] for each in (DEFAULT, who, BASE))
        away = difference(own, other, "seeds")
        values = [f"{np.mean([np.nanmean(each) for each in both]):.4f}" for both in (own, other, before)]
        away_held = ""
        if len(found[DEFAULT][0].held_out):
            away_held = str(difference(_held_out(found[DEFAULT]), _held_out(found[who]), "seeds"))
        title = name if first is None else f"linear, first {first}"
        rows.append((title, who.replace("|", r"\|"), *values, str(away), f"{_LEAST:+.3f}", away.verdict(_LEAST), away_held))
    header = ("stream", "plain learner", "this", "plain", BASE, "this less plain", "at least", "", "held out")
    return table(header, rows)


def judged(given: Any) -> str:
    """Held-out queries after few judged ones."""
    rows = []
    for name, who, bar in (("judged", BLEND, 0.0), ("judged", BASE, None), ("few queries", BASE, _LEAST)):
        found = _both(given.runs, (who,), name, given.seeds)
        own, other = _held_out(found[DEFAULT]), _held_out(found[who])
        values = [f"{np.mean([np.nanmean(each) for each in both]):.4f}" for both in (own, other)]
        rows.append((name, who, *values, *_cells(difference(own, other), bar)))
    return table(("stream", "compared with", "this", "the other", "this less it (each seed)", "at least", ""), rows)


def hostile(given: Any) -> str:
    """NDCG@10 of a hundred clean queries after ten hostile ones."""
    rows = []
    for who in (DEFAULT, BASE):
        means = [[each.means[1] for each in _all(given.runs, who, name, given.seeds)] for name in ("clean", "hostile")]
        mean = _mean(means[1])
        bars = (f"{_HOSTILE}", mean.verdict(_HOSTILE)) if who == DEFAULT else ("", "")
        each = (" / ".join(f"{one:.3f}" for one in seeds) for seeds in means)
        rows.append((who, *each, f"{mean.mean:.3f} ± {mean.error:.3f}", *bars))
    return table(("ranker", "after 3,000 clean queries", "and ten hostile ones", "mean", "at least", ""), rows)


def _mean(each: Sequence[float]) -> Difference:
    """The mean over seeds, and its standard error."""
    spread = Spread.of(each)
    return Difference(spread.mean, spread.error, tuple(each))


def pairs(given: Any) -> str:
    """Progressive NDCG@10 of a stream of pairs."""
    rows, others = [], (BASE, BLEND)
    found = _both(given.runs, others, "pairs", given.seeds)
    for who, figures in found.items():
        each = [one.means[0] for one in figures]
        mean = _mean(each)
        bars = (f"{_PAIRS}", mean.verdict(_PAIRS)) if who == DEFAULT else ("", "")
        rows.append((who, f"{mean.mean:.4f} ± {mean.error:.4f}", " / ".join(f"{one:.3f}" for one in each), *bars))
    return table(("ranker", "NDCG@10", "each seed", "at least", ""), rows)


PARTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "trees": ("Forests and products, held out", trees),
    "level": ("Where curves are good", level),
    "plain": ("Where a plain learner is better than curves", plain),
    "judged": ("Few judged queries, held out", judged),
    "hostile": ("Ten hostile queries after 3,000 clean ones", hostile),
    "pairs": ("A stream of pairs, 900 queries, progressive", pairs),
    **{part: (title, lambda given, shown=shown: shown(given.runs)) for part, (title, shown) in _interaction_cost.PARTS.items()},
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS])
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--plain-seeds", type=int, metavar="N", help=f"of the part plain; {_PLAIN_SEEDS} if left out")
    arguments.add_argument("--queries", type=int, nargs="+", default=[1000, 4000], help="lengths of the streams of trees")
    arguments.add_argument("--model", default="AdditiveRanker()", metavar="EXPRESSION", help="the default that is measured")
    arguments.add_argument("--development", action="store_true", help="development seeds; nothing is written")
    arguments.add_argument("--cache", type=Path, metavar="FOLDER", help="keep figures of comparators here")
    add_other(arguments)
    given = arguments.parse_args()
    first = _FIRST_DEVELOPMENT if given.development else _FIRST
    given.seeds = range(first, first + given.seeds)
    given.runs = Runs(given.model, given.other, given.cache)
    before = "" if given.other is None else f" The learners before are from commit {commit_of(given.other)}."
    sections = []
    for part in given.part:
        title, shown = PARTS[part]
        sections.append(f"## {title}\n\n{shown(given)}\n\nMeasured on commit {commit()}, `{given.model}`.{before}")
        _told(sections[-1])
    text = "\n\n".join((_HEAD, *sections))
    if not given.development and given.model == "AdditiveRanker()":
        save("interactions", text, part=True)


if __name__ == "__main__":
    main()
