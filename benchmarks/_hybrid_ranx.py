"""ranx's fusion methods on the same lists, weighted ones optimised again as judgements come, and what fusion costs."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numba
import numpy as np

from benchmarks._common import environment, table
from benchmarks._kept import Kept
from benchmarks._retrievers import Fused
from online_rank import PerceptronRanker, RunFeatures, Runs, hybrid

#: Methods without parameters.
FIXED = ("min", "max", "med", "sum", "anz", "mnz", "isr", "log_isr", "bordafuse", "condorcet", "rrf")


class Optimised(NamedTuple):
    """A method with parameters.

    Attributes
    ----------
    before
        The parameters until queries are judged, from the number of retrievers; None for `sum` in its place.
    grid
        What ranx tries on judged queries; nothing for methods that are estimated.
    """

    before: Callable[[int], dict[str, Any]] | None = None
    grid: Mapping[str, float] = MappingProxyType({})


def _equal(n: int) -> dict[str, Any]:
    return {"weights": [1.0 / n] * n}


#: Methods whose parameters are optimised or estimated on judged queries. `w_condorcet` is missing: a fusion takes 50 ms.
OPTIMISED = {
    **{name: Optimised() for name in ("bayesfuse", "mapfuse", "posfuse", "segfuse")},
    "rrf": Optimised(lambda n: {"k": 60}, {"step": 10}),
    "gmnz": Optimised(lambda n: {"gamma": 1.0}, {"step": 0.1}),
    "rbc": Optimised(lambda n: {"phi": 0.9}, {"step": 0.1}),
    "logn_isr": Optimised(lambda n: {"sigma": 0.5}, {"step": 0.1}),
    "probfuse": Optimised(grid={"max_n_segments": 20}),
    "slidefuse": Optimised(grid={"max_w": 20}),
    **{name: Optimised(_equal, {"step": 0.25}) for name in ("wsum", "wmnz", "mixed")},
    "w_bordafuse": Optimised(_equal, {"step": 0.5}),
}
#: The number of queries after which parameters are optimised again, on all past queries.
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
    kept: Kept,
) -> list[tuple[str, ...]]:
    """The rows of ranx's methods; `row` makes one from values and places (orders, questions) and seconds for a question.

    Each method is kept, and each order of one that is optimised.
    """
    # All threads count as processor time, so one that waits must not spin.
    numba.set_num_threads(1)
    of_query = [{name: {str(d): s for d, s in _listed(query.runs, name)} or {NONE: 0.0} for name in names} for query in queries]
    in_order = [np.random.default_rng(number).permutation(len(queries)) for number in range(orders)]
    places = np.array([np.argsort(order) for order in in_order])

    def judged(rankings: Sequence[list[Any]], of: Sequence[int]) -> list[float]:
        return [ndcg(ranking, queries[i]) for ranking, i in zip(rankings, of, strict=True)]

    def fixed(method: str) -> dict[str, Any]:
        _fused(of_query[:2], method, {})
        start = time.process_time()
        rankings = _fused(of_query, method, {})
        return {"seconds": time.process_time() - start, "values": judged(rankings, range(len(queries)))}

    def optimised(method: str, order: np.ndarray) -> dict[str, Any]:
        before, spent, values = OPTIMISED[method].before, 0.0, np.empty(len(queries))
        # So that nothing is compiled later.
        _fused(of_query[:2], method, _optimised(of_query[:2], queries[:2], method))
        for first in range(0, len(order), EVERY):
            past, block = order[:first].tolist(), order[first : first + EVERY].tolist()
            start = time.process_time()
            lists = [of_query[i] for i in block]
            if past:
                rankings = _fused(lists, method, _optimised([of_query[i] for i in past], [queries[i] for i in past], method))
            else:
                rankings = _fused(lists, method, before(len(names))) if before else _fused(lists, "sum", {})
            spent += time.process_time() - start
            values[block] = judged(rankings, block)
        return {"seconds": spent, "values": values.tolist()}

    rows = []
    for method in FIXED:
        found = [kept.part(method, functools.partial(fixed, method))] * orders
        rows.append(_row(f"ranx `{method}`", found, places, row))
    courses: dict[str, list[dict[str, Any]]] = {method: [] for method in OPTIMISED}
    for number, order in enumerate(in_order):
        for method, of_method in courses.items():
            of_method.append(kept.part(f"{method} {number}", functools.partial(optimised, method, order)))
            print(method, number, f"{of_method[-1]['seconds']:.0f} s", flush=True)
    return rows + [_row(f"ranx `{method}`, optimised", found, places, row) for method, found in courses.items()]


def _row(
    label: str,
    found: Sequence[Mapping[str, Any]],
    places: np.ndarray,
    row: Callable[[str, np.ndarray, np.ndarray, float], tuple[str, ...]],
) -> tuple[str, ...]:
    """The row of one method, from what was measured in each order."""
    values = np.array([one["values"] for one in found])
    return row(label, values, places, sum(one["seconds"] for one in found) / values.size)


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
    options = {"show_progress": False, **OPTIMISED[method].grid} if OPTIMISED[method].grid else {}
    return optimize_fusion(qrels, runs, norm="min-max", method=method, metric=MEASURE, **options)


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
    return f"""## Cost compared with ranx

Five runs of {depth} documents out of {4 * depth}: processor time for a query in ms, from dicts of scores to the ranking.
One thread. {environment("ranx")}

{table(("", "fused and ranked", "learned"), rows)}
"""


def _fused_rrf(lists: Sequence[dict[str, dict[str, float]]]) -> Any:
    from ranx import fuse

    return fuse(_ranx_runs(lists), norm=None, method="rrf", params={"k": 60}).to_dict()
