"""ranx's fusion methods on the same lists, weighted ones optimised again as judgements come, and what fusion costs."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from benchmarks._common import environment, table
from benchmarks._retrievers import Fused
from online_rank import PerceptronRanker, RunFeatures, Runs, hybrid

#: Methods without parameters, and with parameters that are optimised on judged queries, with those before the first.
FIXED = ("sum", "mnz", "max", "med", "anz", "isr", "log_isr", "rrf", "bordafuse", "condorcet")
OPTIMISED: dict[str, Callable[[int], dict[str, Any]]] = {
    "wsum": lambda n: {"weights": [1.0 / n] * n},
    "wmnz": lambda n: {"weights": [1.0 / n] * n},
    "gmnz": lambda n: {"gamma": 1.0},
    "rbc": lambda n: {"phi": 0.9},
    "logn_isr": lambda n: {"sigma": 0.5},
    "rrf": lambda n: {"k": 60},
}
#: ranx tries all parameters on a grid: weights by quarters, k by tens, others by tenths.
STEPS = {"wsum": 0.25, "wmnz": 0.25, "rrf": 10}
#: Parameters are optimised on all past queries whenever so many have come.
EVERY = 25
MEASURE = "ndcg_burges@10"
#: ranx refuses empty lists.
NONE = "none"


def beside_ranx(
    queries: Sequence[Fused],
    names: Sequence[str],
    orders: int,
    ndcg: Callable[[list[Any], Fused], float],
    row: Callable[[str, np.ndarray, np.ndarray, float], tuple[str, ...]],
) -> list[tuple[str, ...]]:
    """The rows of ranx's methods; `row` makes one from values and places (orders, questions) and seconds for a question."""
    # All threads count as processor time, so one that waits must not spin.
    numba.set_num_threads(1)
    of_query = [{name: {str(d): s for d, s in _listed(query.runs, name)} or {NONE: 0.0} for name in names} for query in queries]
    places = np.array([np.argsort(np.random.default_rng(number).permutation(len(queries))) for number in range(orders)])
    rows = []
    for method in FIXED:
        _fused(of_query[:2], method, {})
        start = time.process_time()
        rankings = _fused(of_query, method, {})
        seconds = (time.process_time() - start) / len(queries)
        values = np.array([ndcg(ranking, query) for ranking, query in zip(rankings, queries, strict=True)])
        rows.append(row(f"ranx `{method}`", np.tile(values, (orders, 1)), places, seconds))
        print("|".join(rows[-1]), flush=True)
    for method, before in OPTIMISED.items():
        values, spent = np.empty(places.shape), 0.0
        _optimised(of_query[:2], queries[:2], method)
        for number in range(orders):
            order = np.argsort(places[number])
            for first in range(0, len(order), EVERY):
                past, block = order[:first].tolist(), order[first : first + EVERY].tolist()
                start = time.process_time()
                known = [of_query[i] for i in past], [queries[i] for i in past]
                parameters = _optimised(*known, method) if past else before(len(names))
                rankings = _fused([of_query[i] for i in block], method, parameters)
                spent += time.process_time() - start
                values[number, block] = [ndcg(ranking, queries[i]) for i, ranking in zip(block, rankings, strict=True)]
        rows.append(row(f"ranx `{method}`, optimised", values, places, spent / values.size))
        print("|".join(rows[-1]), flush=True)
    return rows


def _listed(runs: Runs, name: str) -> list[tuple[Any, float]]:
    """The list of a retriever, best first."""
    found = [(d, known[name]) for d, known in runs.documents.items() if name in known]
    return [(d, entry.score) for d, entry in sorted(found, key=lambda pair: pair[1].rank)]


def _ranx_runs(of_query: Sequence[dict[str, dict[str, float]]]) -> list[Any]:
    from ranx import Run

    return [Run({str(i): lists[name] for i, lists in enumerate(of_query)}, name=name) for name in of_query[0]]


def _fused(of_query: Sequence[dict[str, dict[str, float]]], method: str, parameters: dict[str, Any]) -> list[list[str]]:
    """What ranx ranks for each query."""
    from ranx import fuse

    fused = fuse(_ranx_runs(of_query), norm="min-max", method=method, params=parameters).to_dict()
    return [[d for d in fused[str(i)] if d != NONE] for i in range(len(of_query))]


def _optimised(of_query: Sequence[dict[str, dict[str, float]]], queries: Sequence[Fused], method: str) -> dict[str, Any]:
    """The parameters that ranx finds best on judged queries."""
    from ranx import Qrels, optimize_fusion

    qrels = Qrels({str(i): {d: g for d, g in query.grades.items() if g} or {NONE: 1} for i, query in enumerate(queries)})
    runs = _ranx_runs(of_query)
    return optimize_fusion(qrels, runs, norm="min-max", method=method, metric=MEASURE, step=STEPS.get(method, 0.1))


def costs(n: int = 200, depth: int = 100) -> str:
    """Processor time of five random runs, fused, ranked, and learned."""
    numba.set_num_threads(1)
    rng = np.random.default_rng(0)
    names = [f"r{r}" for r in range(5)]
    lists = []
    for _ in range(n):
        drawn = {
            x: (rng.permutation(4 * depth)[:depth].tolist(), np.sort(rng.normal(size=depth))[::-1].tolist()) for x in names
        }
        lists.append({x: {f"d{d}": s for d, s in zip(*drawn[x], strict=True)} for x in names})
    grades = [{d: int(rng.integers(3)) for d in {d for entries in query.values() for d in entries}} for query in lists]
    features = RunFeatures(names, parts=("reciprocal_rank",))
    models = {
        'a perceptron begun with RRF, `PerceptronRanker.from_rule("rrf", runs)`': features
        | PerceptronRanker.from_rule("rrf", names),
        "`hybrid(runs, today='rrf')`": hybrid(names, today="rrf"),
    }
    rows = []
    for label, model in models.items():
        spent = np.zeros(2)
        for number, (query, y) in enumerate(zip(lists, grades, strict=True)):
            marks = [time.process_time()]
            asked = Runs(query)
            model.rank_one(asked)
            marks.append(time.process_time())
            model.learn_one(asked, y)
            marks.append(time.process_time())
            if number >= n // 10:
                spent += np.diff(marks)
        rows.append((label, *(f"{1e3 * x / (n - n // 10):.2f}" for x in spent)))
    _fused_rrf(lists[:2])
    marks = [time.process_time()]
    for query in lists:
        _fused_rrf([query])
    marks.append(time.process_time())
    _fused_rrf(lists)
    marks.append(time.process_time())
    one, whole = (1e3 * np.diff(marks) / n).tolist()
    rows += [("ranx's RRF, one query at a time", f"{one:.2f}", ""), (f"ranx's RRF, {n} queries at once", f"{whole:.2f}", "")]
    return f"""## Cost beside ranx

Five runs of {depth} documents out of {4 * depth}: processor time for a query in ms, from dicts of scores to the ranking.
One thread. {environment("ranx")}

{table(("", "fused and ranked", "learned"), rows)}
"""


def _fused_rrf(lists: Sequence[dict[str, dict[str, float]]]) -> Any:
    from ranx import fuse

    return fuse(_ranx_runs(lists), norm=None, method="rrf", params={"k": 60}).to_dict()
