"""What click rankers learn from a log of every shape, compared with learning from grades."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._clicks_data import K, Queries, offline, parts, queries_of
from benchmarks._common import table
from benchmarks._kept import Kept
from online_rank import ClickPerceptron, Clicks, PerceptronRanker, PlackettLuce, StreamScaler, SwapRanker
from online_rank.evaluate import Spread
from online_rank.feedback import Impression, NaturalVariation
from online_rank.stream.clicks import User, user

__all__ = ["section"]

LISTS = 4000
USERS = ("navigational", "position")
#: Columns of MQ2008: BM25 and a language model, of the whole document.
_TODAY = (24, 39)
#: The positions of the documents on a page with advertisements at 2, 3 and 7.
_ON_PAGE = (1, 4, 5, 6, 8, 9, 10, 11, 12, 13)


class Log(NamedTuple):
    """Lists of a log: the query of each, and the clicks."""

    topics: list[int]
    lists: list[Clicks]


def _answered(who: User, shown: Impression, y: np.ndarray, t: int) -> Clicks:
    """The clicks of a user on a page, whose gaps are advertisements without any relevance."""
    if shown.positions is None:
        return who.clicks(shown, y, t)
    page = np.zeros(shown.positions[-1], np.int64)
    places = np.array(shown.positions) - 1
    page[places] = y[list(shown.order)]
    gains = np.array(who.clicks(Impression(range(len(page))), page, t).gains)
    return Clicks(shown, tuple(gains[places].tolist()))


def _of_today(X: np.ndarray, t: int) -> np.ndarray:
    """Scores of one of two rankers in turn."""
    return X[:, _TODAY[t // 50 % 2]]


def _random(X: np.ndarray, t: int, rng: np.random.Generator) -> Impression:
    return Impression.shuffled(rng.permutation(len(X))[:K].tolist(), len(X))


def _propensities(X: np.ndarray, t: int, rng: np.random.Generator, k: int = K) -> Impression:
    shown = PlackettLuce(k, seed=1).show(_of_today(X, t), t, confidence=0.5)
    return Impression(shown.order, propensities=shown.chances)


def _placements(X: np.ndarray, t: int, rng: np.random.Generator) -> Impression:
    shown = rng.permutation(len(X))[:K].tolist()
    return Impression(shown, placements=[1.0 / len(X)] * len(shown))


def _fixed(X: np.ndarray, t: int, rng: np.random.Generator) -> Impression:
    return Impression(np.argsort(-_of_today(X, t), kind="stable")[:K].tolist())


def _slot(X: np.ndarray, t: int, rng: np.random.Generator) -> Impression:
    drawn = rng.permutation(len(X))[:5].tolist()
    return Impression.shuffled(drawn[:1], len(X), held_back=drawn[1:])


def _slot_with_propensity(X: np.ndarray, t: int, rng: np.random.Generator) -> Impression:
    return Impression([int(rng.integers(len(X)))], propensities=[1.0 / len(X)])


def _gaps(X: np.ndarray, t: int, rng: np.random.Generator) -> Impression:
    shown = _random(X, t, rng)
    return Impression(shown.order, shown.logits, shown.rest, positions=_ON_PAGE[: len(shown.order)])


def _swap(log: Log, seed: int) -> Any:
    return SwapRanker()


def _by_propensities(log: Log, seed: int) -> Any:
    return StreamScaler() | ClickPerceptron(credit="propensity")


def _by_harvest(log: Log, seed: int) -> Any:
    """Examination from the same documents at different positions."""
    positions = NaturalVariation(K)
    for topic, clicks in zip(log.topics, log.lists, strict=True):
        positions.update(topic, clicks)
    return StreamScaler() | ClickPerceptron(credit="propensity", examination=positions.examination)


Draw = Callable[[np.ndarray, int, np.random.Generator], Impression]
PERCEPTRON, HARVEST = '`ClickPerceptron(credit="propensity")`', "the same, with `NaturalVariation`"
#: Of logs of others: how lists came about, what the log says of it, who learns from it.
SHAPES: dict[str, tuple[Draw, str, str, Callable[[Log, int], Any]]] = {
    "uniform order": (_random, "`Impression.shuffled`", "`SwapRanker()`", _swap),
    "uniform order, with gaps": (_gaps, "`Impression.shuffled`, `positions`", "`SwapRanker()`", _swap),
    "drawn around today's rankers": (_propensities, "`propensities`", PERCEPTRON, _by_propensities),
    "the same, three shown": (functools.partial(_propensities, k=3), "`propensities`", PERCEPTRON, _by_propensities),
    "probabilities at each position": (_placements, "`placements`", PERCEPTRON, _by_propensities),
    "today's rankers in turn, no chance": (_fixed, "nothing", HARVEST, _by_harvest),
    "one slot, uniform": (_slot, "`Impression.shuffled`, `held_back`", "`SwapRanker()`", _swap),
    "one slot, with its probability": (_slot_with_propensity, "`propensities`", PERCEPTRON, _by_propensities),
    "one ranker, no chance": (lambda X, t, rng: _fixed(X, 0, rng), "nothing", HARVEST, _by_harvest),
}
OURS = {"ours": K, "ours, one slot": 1}


def _queries(folder: Path, fold: int) -> tuple[Queries, Queries, np.ndarray]:
    """Queries to learn from, those to test on, and which come one after the other."""
    data = parts(folder)
    train = queries_of([data[(fold + i) % 5] for i in range(3)])
    test = queries_of([data[(fold + 4) % 5]], relevant=True)
    return train, test, np.random.default_rng([fold, 41]).integers(len(train), size=LISTS)


def measured(folder: Path, shape: str, name: str, fold: int) -> float | str:
    """NDCG@10 on the test part after all lists; or why nothing is learned from this log."""
    train, test, drawn = _queries(folder, fold)
    who, rng = user(name, max_grade=2, seed=500 + fold), np.random.default_rng([fold, 42])
    if shape in OURS:
        model: Any = SwapRanker(PlackettLuce(OURS[shape], seed=fold))
        for t, q in enumerate(drawn.tolist()):
            X, y = train[q]
            model.learn_one(X, who.clicks(model.show_one(X), y, t))
        return offline(model.predict_one, test)
    draw, _, _, make = SHAPES[shape]
    shown = [draw(train[q][0], t, rng) for t, q in enumerate(drawn.tolist())]
    log = Log(
        drawn.tolist(), [_answered(who, each, train[q][1], t) for t, (each, q) in enumerate(zip(shown, drawn, strict=True))]
    )
    try:
        model = make(log, fold)
    except ValueError:
        return "refused"
    for q, clicks in zip(log.topics, log.lists, strict=True):
        model.learn_one(train[q][0], clicks)
    return offline(model.predict_one, test)


def from_grades(folder: Path, fold: int) -> float:
    """NDCG@10 after the same queries with all of their grades."""
    train, test, drawn = _queries(folder, fold)
    model = StreamScaler() | PerceptronRanker()
    for q in drawn.tolist():
        model.learn_one(*train[q])
    return offline(model.predict_one, test)


def today(folder: Path, column: int, fold: int) -> float:
    """NDCG@10 of one of the rankers that made the logs."""
    return offline(lambda X: X[:, column], _queries(folder, fold)[1])


def _cell(found: list[Any]) -> str:
    if "refused" in found:
        return f"refused in {found.count('refused')} of {len(found)}" if set(found) != {"refused"} else "refused"
    return f"{Spread.of(found):.3f}"


def section(folder: Path, kept: Kept) -> str:
    """Measure what is missing, and write the section."""

    def all_folds(name: str, measure: Callable[[int], Any]) -> str:
        found = [kept.part(f"logs, {name}, {fold}", functools.partial(measure, fold)) for fold in range(5)]
        print(name, _cell(found), flush=True)
        return _cell(found)

    rows = []
    for shape in (*OURS, *SHAPES):
        given, learned = SHAPES[shape][1:3] if shape in SHAPES else ("the `Impression` of `show_one`", "`SwapRanker()`")
        cells = [all_folds(f"{shape}, {name}", functools.partial(measured, folder, shape, name)) for name in USERS]
        rows.append([shape, given, learned, *cells])
    grades = all_folds("grades", functools.partial(from_grades, folder))
    rankers = [all_folds(f"today's {column}", functools.partial(today, folder, column)) for column in _TODAY]
    return f"""## Logs of every shape

MQ2008, five folds, {LISTS:,} simulated lists of ten documents, or of one. NDCG@10 on the test part of the ranking by scores, ±
standard error over the folds. Learning from all grades of the same queries, `StreamScaler() | PerceptronRanker()`: {grades}.
The two rankers that made the logs not drawn by us or at random: {rankers[0]} and {rankers[1]}. `placements` and
`NaturalVariation` assume users of the kind "position", who look at position p with probability 1/p; with others they are
as good as that assumption. Advertisements are at positions 2, 3 and 7 of pages with gaps.

{table(("the log", "says", "learned by", *(f"users: {name}" for name in USERS)), rows)}
"""
