"""Is one default enough? Eight streams, the default without a setting and what people might choose instead.

    python -m benchmarks.default [--queries 600] [--orders 2] [--streams mq2008 ...] [--keep FILE]

On development data alone (`benchmarks/_development.py`). Every online ranker learns the queries to learn from once, then ranks
the held-out ones. LightGBM is trained on all of the former: first its rounds are chosen on the last fifth of them, then it is
trained again with these rounds on all. `--keep` continues from the streams that FILE has.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._development import STREAMS, Query, parts_of
from benchmarks._kept import Kept, add_keep
from online_rank import (
    AdditiveRanker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    StreamQuantileMap,
    StreamScaler,
    measure,
)
from online_rank.evaluate import Spread
from online_rank.query import SparseRows

Scores = Callable[[Any], Any]

DEFAULT, LIGHTGBM = "default: AdditiveRanker()", "LightGBM"
CONTESTANTS: dict[str, Callable[[], Any]] = {
    DEFAULT: AdditiveRanker,
    "map \\| PerceptronRanker()": lambda: StreamQuantileMap() | PerceptronRanker(),
    "scaler \\| PerceptronRanker()": lambda: StreamScaler() | PerceptronRanker(),
}
#: Text stays sparse: it has another scaler.
SPARSE = {"scaler \\| PerceptronRanker()": lambda: MaxAbsStreamScaler() | PerceptronRanker()}
MOST_ROUNDS = 300


def taught(make: Callable[[], Any], train: list[Query]) -> Any:
    """An online ranker after one pass."""
    model = make()
    for X, y in train:
        model.learn_one(X, y)
    return model


def trained(train: list[Query]) -> Scores:
    """What LightGBM ranks by that was trained on all queries."""
    import lightgbm

    def matrix(queries: list[Query]) -> Any:
        if not isinstance(queries[0][0], SparseRows):
            return np.concatenate([X for X, _ in queries])
        from scipy import sparse

        return sparse.vstack([sparse.csr_matrix((X.values, X.columns, X.starts), shape=X.shape) for X, _ in queries])

    def fitted(queries: list[Query], rounds: int, **extra: Any) -> Any:
        model = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=rounds, verbose=-1, n_jobs=1)
        y = np.concatenate([y for _, y in queries])
        return model.fit(matrix(queries), y, group=[len(y) for _, y in queries], **extra)

    cut = len(train) - len(train) // 5
    checked = train[cut:]
    found = fitted(
        train[:cut], MOST_ROUNDS, eval_X=matrix(checked), eval_y=np.concatenate([y for _, y in checked]),
        eval_group=[[len(y) for _, y in checked]], eval_at=[10],
        callbacks=[lightgbm.early_stopping(30, verbose=False)],
    )  # fmt: skip
    model = fitted(train, max(1, found.best_iteration_))
    return lambda X: model.predict(matrix([(X, X)]))


def measured(stream: str, n_queries: int, orders: int) -> dict[str, Any]:
    """NDCG@10 of each held-out query by everybody, and milliseconds a query learned, processor time."""
    ndcg = measure("ndcg@10")
    makers = CONTESTANTS | (SPARSE if stream == "text" else {})
    values: dict[str, list[float]] = {name: [] for name in (*makers, LIGHTGBM)}
    seconds, n_learned = dict.fromkeys(values, 0.0), 0
    for order in range(orders):
        for train, held_out in parts_of(stream, n_queries, order):
            n_learned += len(train)
            for name in values:
                start = time.process_time()
                scores = trained(train) if name == LIGHTGBM else taught(makers[name], train).predict_one
                seconds[name] += time.process_time() - start
                values[name] += [ndcg.value(np.asarray(scores(X)), y) for X, y in held_out if y.any()]
        print(
            f"{stream}: order {order + 1} of {orders}", {name: round(np.mean(v), 4) for name, v in values.items()}, flush=True
        )
    return {"values": values, "milliseconds": {name: 1e3 * spent / n_learned for name, spent in seconds.items()}}


def cells(found: dict[str, Any]) -> dict[str, str]:
    """Mean NDCG@10 of each, and what the default is better by, ± the standard error of the paired difference."""
    values = {name: np.array(own) for name, own in found["values"].items()}
    shown = {}
    for name, own in values.items():
        shown[name] = f"{own.mean():.4f}" + ("" if name == DEFAULT else f" ({Spread.of(values[DEFAULT] - own):+.4f})")
    return shown


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=600)
    arguments.add_argument("--orders", type=int, default=2)
    arguments.add_argument("--streams", nargs="+", default=[*STREAMS], choices=STREAMS)
    add_keep(arguments)
    chosen = arguments.parse_args()
    kept = Kept(chosen.keep)
    found = {stream: kept.part(stream, partial(measured, stream, chosen.queries, chosen.orders)) for stream in chosen.streams}
    columns = [cells(found[stream]) for stream in chosen.streams]
    names = [*dict.fromkeys(name for column in columns for name in column)]
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    milliseconds = [found[stream]["milliseconds"] for stream in chosen.streams]
    spent = [[name, *(f"{own[name]:.2f}" if name in own else "" for own in milliseconds)] for name in names]
    save("default", page(chosen, rows, spent))


def page(chosen: Any, rows: list[list[str]], spent: list[list[str]]) -> str:
    """The page of results."""
    return f"""# Is one default enough?

NDCG@10 of held-out queries of development data, after one pass over {chosen.queries} queries (mq2008, lightgbm: over the
training part), {chosen.orders} orders; in parentheses what the default is better by, ± the standard error of the difference,
paired over queries. Text of 20,000 words is behind `MaxAbsStreamScaler` where it is scaled, and passes the map as it is.
{environment("lightgbm")}

{table(["", *chosen.streams], rows)}

Milliseconds of processor time a query learned, training of LightGBM included:

{table(["", *chosen.streams], spent)}
"""


if __name__ == "__main__":
    main()
