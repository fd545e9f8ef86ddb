"""How fast are NDCG@10 and MAP of many queries, and do the libraries agree on them?

`python -m benchmarks.metrics` prints two tables and writes them to benchmarks/results/metrics.md. All contestants are timed in
turn, round after round; a figure is the median over rounds. Libraries that are not installed get a row that says so:
`pip install scikit-learn ranx pytrec_eval-terrier`.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._timing import medians
from online_rank import metrics

N_QUERIES, N_DOCUMENTS, ROUNDS = 2000, 120, 5

Values = Callable[[], np.ndarray]


class Data(NamedTuple):
    """A block of queries of equal length, with grades distributed about as in web search."""

    scores: np.ndarray
    grades: np.ndarray
    qid: np.ndarray

    @property
    def rows(self):
        """Scores and grades, one row a query."""
        return self.scores.reshape(N_QUERIES, -1), self.grades.reshape(N_QUERIES, -1)


def web_search(decimals: int | None = None, order: str = "random") -> Data:
    """Scores of a fair ranker; rounded, they tie."""
    rng = np.random.default_rng(0)
    grades = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=(N_QUERIES, N_DOCUMENTS))
    scores = grades + 2.0 * rng.normal(size=grades.shape)
    if decimals is not None:
        scores = scores.round(decimals)
    if order == "worst first":
        scores.sort(axis=1)
    elif order == "all tied":
        scores[:] = 0.0
    return Data(scores.ravel(), grades.ravel(), np.repeat(np.arange(N_QUERIES), N_DOCUMENTS))


# Contestants: from the data, the two functions to be timed, each giving one value a query. What is prepared is not timed.


def ours(data: Data) -> tuple[Values, Values]:
    arguments = data.grades, data.scores, data.qid
    return functools.partial(metrics.NDCG().value_many, *arguments), functools.partial(metrics.MAP().value_many, *arguments)


def ours_one_by_one(data: Data) -> tuple[Values, Values]:
    scores, grades = data.rows

    def values(metric):
        return np.array([metric.value_one(y, s) for y, s in zip(grades, scores, strict=True)])

    return lambda: values(metrics.NDCG()), lambda: values(metrics.MAP())


@numba.njit
def _full_sort_ndcg(scores, grades, k, discounts, gains, values):
    for q in range(len(scores)):
        order = np.argsort(-scores[q])
        best = np.sort(grades[q])[::-1]
        dcg = ideal = 0.0
        for p in range(k):
            dcg += gains[grades[q, order[p]]] * discounts[p]
            ideal += gains[best[p]] * discounts[p]
        values[q] = dcg / ideal


@numba.njit
def _full_sort_ap(scores, grades, values):
    for q in range(len(scores)):
        order = np.argsort(-scores[q])
        relevant = 0
        total = 0.0
        for p in range(len(order)):
            if grades[q, order[p]] > 0:
                relevant += 1
                total += relevant / (p + 1)
        values[q] = total / relevant


def full_sort(data: Data) -> tuple[Values, Values]:
    scores, grades = data.rows
    discounts, gains = 1 / np.log2(np.arange(10) + 2.0), np.exp2(np.arange(5.0)) - 1
    values = np.empty(N_QUERIES)

    def ndcg():
        _full_sort_ndcg(scores, grades, 10, discounts, gains, values)
        return values.copy()

    def ap():
        _full_sort_ap(scores, grades, values)
        return values.copy()

    return ndcg, ap


def scikit_learn(data: Data) -> tuple[Values, Values]:
    from sklearn.metrics import average_precision_score, ndcg_score

    scores, grades = data.rows
    gains, relevant = 2**grades - 1, grades > 0
    return (
        lambda: np.array([ndcg_score(g[None], s[None], k=10) for g, s in zip(gains, scores, strict=True)]),
        lambda: np.array([average_precision_score(r, s) for r, s in zip(relevant, scores, strict=True)]),
    )


def _as_dicts(data: Data, gain: Callable) -> tuple[dict, dict]:
    """`{query: {document: grade}}` and `{query: {document: score}}`, as trec_eval's wrappers take them."""
    scores, grades = data.rows
    ids = [f"d{i:03d}" for i in range(N_DOCUMENTS)]
    qrels = {f"q{q:05d}": dict(zip(ids, gain(y).tolist(), strict=True)) for q, y in enumerate(grades)}
    run = {f"q{q:05d}": dict(zip(ids, s.tolist(), strict=True)) for q, s in enumerate(scores)}
    return qrels, run


def pytrec_eval(data: Data) -> tuple[Values, Values]:
    import pytrec_eval

    qrels, run = _as_dicts(data, lambda y: 2**y - 1)

    def values(measure, key):
        result = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
        return np.array([result[q][key] for q in run])

    return lambda: values("ndcg_cut.10", "ndcg_cut_10"), lambda: values("map", "map")


def _ranx(data: Data, prepared: bool) -> tuple[Values, Values]:
    import ranx

    qrels, run = _as_dicts(data, lambda y: y)
    ready = ranx.Qrels(qrels), ranx.Run(run)

    def values(metric):
        return ranx.evaluate(ready[0], ready[1] if prepared else ranx.Run(run), metric, return_mean=False)

    return lambda: values("ndcg_burges@10"), lambda: values("map")


def ranx_prepared(data: Data) -> tuple[Values, Values]:
    return _ranx(data, prepared=True)


def ranx_from_scores(data: Data) -> tuple[Values, Values]:
    return _ranx(data, prepared=False)


# Name, function, the package it needs, and what its figures are about.
CONTESTANTS = [
    ("online_rank, a block (`value_many`)", ours, None, "ties expected; checks its input"),
    ("online_rank, one query a call (`value_one`)", ours_one_by_one, None, "ties expected; checks its input"),
    ("numba, plain full sort", full_sort, None, "ties broken arbitrarily; checks nothing"),
    ("scikit-learn, one query a call", scikit_learn, "sklearn", "NDCG: ties expected, gains given; AP: one threshold a tie"),
    ("pytrec_eval, dicts built before", pytrec_eval, "pytrec_eval", "gains given; scores in float32, ties by document id"),
    ("ranx, `Run` sorted before", ranx_prepared, "ranx", "two threads; scores already sorted; ties in sorting order"),
    ("ranx, from dicts of scores", ranx_from_scores, "ranx", "two threads; builds and sorts the `Run`"),
]


def compare() -> str:
    """All contestants on scores without ties, and how far they are from ours with and without."""
    plain, tied = web_search(), web_search(decimals=1)
    functions: dict[str, Values] = {}
    differences, absent = {}, {}
    expected = {data: [f() for f in ours(values)] for data, values in (("plain", plain), ("tied", tied))}
    for name, contestant, package, _ in CONTESTANTS:
        if package and not importlib.util.find_spec(package):
            absent[name] = package
            continue
        on_plain, on_tied = contestant(plain), contestant(tied)
        for i, metric in enumerate(("NDCG@10", "MAP")):
            functions[f"{name} {metric}"] = on_plain[i]
            differences[name, metric] = [
                np.abs(value() - want[i]).max()
                for value, want in ((on_plain[i], expected["plain"]), (on_tied[i], expected["tied"]))
            ]
    seconds = medians(functions, ROUNDS)
    reference = {metric: seconds[f"numba, plain full sort {metric}"] for metric in ("NDCG@10", "MAP")}
    header = [
        "",
        *(
            f"{metric} {cell}"
            for metric in ("NDCG@10", "MAP")
            for cell in ("queries/s", "to full sort", "differs", "with ties")
        ),
    ]
    rows = []
    for name, _, _, remark in CONTESTANTS:
        if name in absent:
            rows.append([name, *[""] * 8, f"`{absent[name]}` is not installed"])
            continue
        cells = []
        for metric in ("NDCG@10", "MAP"):
            time_taken = seconds[f"{name} {metric}"]
            cells += [f"{N_QUERIES / time_taken:,.0f}", f"{reference[metric] / time_taken:.2f}"]
            cells += ["0" if d == 0 else f"{d:.0e}" for d in differences[name, metric]]
        rows.append([name, *cells, remark])
    return table([*header, "remark"], rows)


def every_metric() -> str:
    """All our metrics, on scores in random order and on the orders that are hard for a partial selection."""
    blocks = {"random": web_search(), "worst first": web_search(order="worst first"), "all tied": web_search(order="all tied")}
    names = ["ndcg@10", "ndcg", "map", "mrr", "p@10", "err@20", "linear_ndcg", "pairwise_accuracy"]
    functions: dict[str, Values] = {
        f"{name} {order}": functools.partial(metrics.metric(name).value_many, data.grades, data.scores, data.qid)
        for name in names
        for order, data in blocks.items()
    }
    next(iter(functions.values()))()
    seconds = medians(functions, ROUNDS)
    rows = [
        [metrics.metric(name).name, *(f"{N_QUERIES / seconds[f'{name} {order}']:,.0f}" for order in blocks)] for name in names
    ]
    return table(["metric", *blocks], rows)


def main() -> None:
    parser(__doc__).parse_args()
    save(
        "metrics",
        f"""# Ranking metrics

{N_QUERIES:,} queries of {N_DOCUMENTS} documents, grades 0 to 4; medians of {ROUNDS} interleaved rounds. {environment()}.
`python -m benchmarks.metrics`

"Differs" is the largest difference of one query's value from online_rank's expected one, on scores without ties; "with ties" is
the same after rounding the scores to one decimal. There definitions part: where a tie is broken by order or by document id,
that order counts as if the ranker had meant it.

{compare()}

Queries/s of every metric of online_rank (`value_many`), by the order in which the scores come:

{every_metric()}
""",
    )


if __name__ == "__main__":
    main()
