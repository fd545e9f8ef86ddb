"""Held-out queries through the engines themselves, and what a model takes there: bytes and time, with trees and without."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import environment, table
from online_rank import AdditiveRanker, export
from online_rank.export import probes
from online_rank.export.cells import cell
from online_rank.export.probing import Probe, Probes
from online_rank.export.reading import prepared
from online_rank.export.table import TARGETS
from online_rank.export.verifying.asking import _ADDRESSES, _FILES
from online_rank.export.verifying.databases import duckdb
from tests.export import stub_engines
from tests.reference import postgresql

_LEARNED, _M, _SINGLE = 400, 20, ("solr", "elasticsearch", "opensearch", "xgboost")
_READ = ("elasticsearch", "opensearch", "painless", "solr", "vespa")
#: Asked last.
_LONG = ("duckdb", "postgresql")
_FEATURES = [target for target in TARGETS if "fusion" not in TARGETS[target].kinds]
_Query = tuple[list[dict[str, Any]], np.ndarray, dict[str, Any] | None]


def shop(n: int, seed: int, vectors: bool, missing: bool = True) -> Iterator[_Query]:
    """Queries of a shop: prices that are sometimes missing, counts, brands, and vectors of documents and queries."""
    rng, W = np.random.default_rng(seed), np.random.default_rng(5).normal(size=(16, 16)) / 4.0
    for _ in range(n):
        price, clicks = np.exp(rng.normal(size=_M)), rng.poisson(3.0, _M).astype(float) + 1.0
        fresh, brand = rng.random(_M) + 0.1, rng.choice(["acme", "best", "core", "dune", "échos"], _M)
        q, D = rng.normal(size=16).astype(np.float32), rng.normal(size=(_M, 16)).astype(np.float32)
        s = np.log(clicks) - 0.5 * np.log(price) + (brand == "acme") * (price < 1.0) + 2.0 * (clicks > 3.0) * (fresh > 0.5)
        if vectors:
            s = s + 2.0 * (D @ (q @ W)) / np.linalg.norm(D, axis=1) / np.linalg.norm(q)
        y = np.digitize(s + 0.5 * rng.normal(size=_M), [0.5, 1.5, 2.5])
        x: list[dict[str, Any]] = []
        for i in range(_M):
            own = {"price": _single(price[i]), "clicks": clicks[i], "fresh": _single(fresh[i]), "brand": str(brand[i])}
            if missing and rng.random() < 0.15:
                del own["price"]
            x.append(own | ({"embedding": D[i].tolist()} if vectors else {}))
        yield x, y, {"embedding": q.tolist()} if vectors else None


def _single(value: float) -> float:
    return float(np.float32(value))


def taught(queries: Iterator[_Query], **settings: Any) -> AdditiveRanker:
    """A model that has learned queries."""
    model = AdditiveRanker(**settings)
    for x, y, context in queries:
        model.learn_one(x, y, context=context)
    return model


def asked_of(model: Any, to: str, queries: list[_Query]) -> Probes:
    """Queries as probes, whose scores are the model's own."""
    given, made, contexts, number = prepared(model, to), [], [], 0
    for x, _, context in queries:
        scores = model.predict_one(x, context=context)
        query = []
        for fields, score in zip(x, scores, strict=True):
            query.append(Probe(f"p{number}", fields, score, score, 0.0))
            number += 1
        made.append(query)
        fields, parameters = {}, {}
        for own in given.vectors:
            asked = (context or {}).get(own.name)
            parameters |= own.parameters(asked)
            fields |= {} if asked is None else {own.query_field: asked}
        contexts.append({"fields": fields, "parameters": parameters})
    return probes(model, to, name="shop")._replace(queries=made, contexts=contexts)


def answered(to: str, content: str | bytes, given: Probes, model: Any, address: str) -> list[list[float]]:
    """The scores of an engine, or of the reader of its format."""
    data = content if isinstance(content, bytes) else content.encode()
    if to in ("duckdb", "duckdb-tables"):
        return duckdb(given, data, None)[1]
    if to == "postgresql":
        return _ADDRESSES[to](given, data, address)[1]
    if to in _FILES:
        return _FILES[to](given, data)[1]
    from tests.export.test_cells import plain_scores, stub_of

    if to == "json":
        return [np.asarray(scores).tolist() for scores in plain_scores(json.loads(content), given)]
    stub, after = stub_of(to, model, content, [feature["name"] for feature in given.features], None)
    with stub_engines.running(stub) as host:
        return _ADDRESSES[to](given, data, f"http://{host}{after}")[1]


def _compared(to: str, given: Probes, found: list[list[float]]) -> tuple[int, float]:
    """How many queries are ranked otherwise, and the largest difference of scores over the largest score of a query."""
    otherwise, worst = 0, 0.0
    for query, scores in zip(given.queries, found, strict=True):
        own, there = np.array([probe.score for probe in query]), np.array(scores)
        if to == "painless":
            there = np.where(there >= 1.0, there - 1.0, 1.0 - 1.0 / np.maximum(there, 1e-300))
        if to in _SINGLE:
            there = there - np.median(there - own)
        size = max(float(np.abs(own).max()), 1e-12)
        worst = max(worst, float(np.abs(own - there).max()) / size)
        order = np.argsort(-there, kind="stable")
        least = np.minimum.accumulate(own[order])
        otherwise += bool((own[order] > least + 1e-6 * size).any())
    return otherwise, worst


_MODELS: dict[str, tuple[bool, dict[str, Any]]] = {
    "default, with trees and categories": (False, {}),
    "default, with vectors": (True, {}),
    "relative=False, with trees and categories": (False, {"relative": False}),
    "relative=False, with vectors": (True, {"relative": False}),
}


def show_served(arguments: Any) -> str:
    """Held-out queries of each model through every target: 500 through engines, 60 through readers of formats."""
    until, rows, skipped = time.monotonic() + 60.0 * arguments.minutes, [], []
    models = {name: taught(shop(_LEARNED, 0, vectors), **settings) for name, (vectors, settings) in _MODELS.items()}
    with postgresql.running() as server:
        for to in sorted(_FEATURES, key=lambda target: (target in _LONG, target)):
            for name, (vectors, settings) in _MODELS.items():
                part = "vectors" if vectors else "curves"
                if not cell(to, part).how or not (settings or cell(to, "relative").how):
                    continue
                if time.monotonic() > until:
                    skipped.append(f"{name} to {to}")
                    continue
                n = 60 if to in (*_READ, "json") else 500
                queries = list(shop(min(arguments.queries, n), 1, vectors))
                rows.append((name, *_row(models[name], to, queries, server.address)))
                print(*rows[-1], flush=True)
    left = f" Left out for lack of time: {', '.join(skipped)}." if skipped else ""
    return f"""Held-out queries of {_M} documents of a synthetic shop, after {_LEARNED} queries: prices of which 15 % are
missing, counts, five brands, and vectors of 16 numbers. A query is ranked otherwise if two documents further apart than 1e-6 of
the largest score stand in the other order. The last column is the largest difference of scores over a query's
largest score.{left}

{table(("model", "target", "who answers", "ranked otherwise", "difference"), rows)}

{environment("onnxruntime", "duckdb", "psycopg", "lightgbm")}"""


def _row(model: Any, to: str, queries: list[_Query], address: str) -> tuple[str, ...]:
    """What a target made of queries; or why the model is refused."""
    try:
        content, given = export.export(model, to, name="shop"), asked_of(model, to, queries)
        otherwise, worst = _compared(to, given, answered(to, content, given, model, address))
    except (ValueError, ImportError) as error:
        return to, "", f"not asked: {str(error).partition(':')[0]}", ""
    who = "a reader of its format" if to in (*_READ, "json") else "the engine"
    as_trees = " (curves as trees)" if cell(to, "curves").how == "as trees" else ""
    return to + as_trees, who, f"{otherwise} of {len(queries)}", f"{worst:.0e}"


def wide(n: int, seed: int, d: int, m: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Queries of numbers above 0."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = np.exp(rng.normal(size=(m, d))).astype(np.float32).astype(float)
        yield X, np.digitize((X[:, 0] > 1.0) * (X[:, 1] > 1.0) + np.log(X[:, 2]) + rng.normal(size=m), [0.5, 1.5])


def show_sizes(arguments: Any) -> str:
    """Bytes of each export, and milliseconds of a query of 50 documents, with 400 trees and with none."""
    until, d, m, rows, counts = time.monotonic() + 60.0 * arguments.minutes, 100, 50, [], []
    sizes: dict[str, list[tuple[int, str]]] = {}
    with postgresql.running() as server:
        for trees in (400, 0):
            model = AdditiveRanker(relative=False, trees=trees)
            for X, y in wide(600, 0, d, m):
                model.learn_one(X, y)
            counts.append(model.n_trees)
            asked: list[_Query] = [
                ([{f"f{j + 1}": v for j, v in enumerate(row)} for row in X.tolist()], y, None) for X, y in wide(1, 1, d, m)
            ]
            for to in sorted(_FEATURES, key=lambda target: (target in _LONG, target)):
                content = export.export(model, to, name="shop")
                given = _of_arrays(model, to, asked)
                taken = _shown(to, content, given, server.address) if time.monotonic() < until else "not measured"
                sizes.setdefault(to, []).append((len(content if isinstance(content, bytes) else content.encode()), taken))
                print(to, trees, sizes[to][-1], flush=True)
    for to, ((grown, slow), (without, fast)) in sizes.items():
        rows.append((to, f"{grown / 1e3:,.0f}", f"{without / 1e3:,.0f}", slow, fast, cell(to, "curves").how))
    return f"""`AdditiveRanker(relative=False)` of {d} features after 600 queries of {m} documents, with
{counts[0]} trees and with none. A query has {m} documents. Times are of the engine alone, the least of several, after the query
was asked once. Times of PostgreSQL and DuckDB include planning. Search engines were not asked.

{table(("target", "kB, trees", "kB, none", "ms, trees", "ms, none", "curves"), rows)}

{environment("onnxruntime", "duckdb", "psycopg", "lightgbm")}"""


def _of_arrays(model: Any, to: str, queries: list[_Query]) -> Probes:
    made = probes(model, to, name="shop")
    query = [Probe(f"p{i}", fields, 0.0, 0.0, 0.0) for i, fields in enumerate(queries[0][0])]
    return made._replace(queries=[query], contexts=[{"fields": {}, "parameters": {}}])


def _shown(to: str, content: str | bytes, given: Probes, address: str) -> str:
    """The milliseconds of a query, if the engine is here."""
    if to in (*_READ, "json"):
        return ""
    try:
        return f"{_milliseconds(to, content, given, address):.2f}"
    except ImportError:
        return "not installed"


def _milliseconds(to: str, content: str | bytes, given: Probes, address: str, turns: int = 5) -> float:
    """The least of several times of a query, after a first one."""
    run = _runner(to, content, given, address)
    taken = []
    run()
    for _ in range(turns):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
        if sum(taken) > 20.0:
            break
    return 1e3 * min(taken)


def _runner(to: str, content: Any, given: Probes, address: str) -> Callable[[], Any]:
    """What asks an engine for the scores of one query, with all that is done once done."""
    from benchmarks._exports_times import compiled
    from online_rank.export.verifying.files import rows_of

    X = rows_of(given, 0)
    if to == "c":
        header, folder = content.replace("shop", "model").replace("SHOP", "MODEL"), Path(tempfile.mkdtemp())
        score = compiled(header, folder, X.shape[1], ("-O2",))
        return lambda: score(X)
    if to == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        return lambda: session.run(["scores"], {"features": X})
    if to == "lightgbm":
        import lightgbm

        booster = lightgbm.Booster(model_str=content)
        return lambda: booster.predict(X, raw_score=True, num_threads=1)
    if to == "xgboost":
        import xgboost

        tree = xgboost.Booster(model_file=bytearray(content.encode()))
        return lambda: tree.predict(xgboost.DMatrix(X, feature_names=tree.feature_names), output_margin=True)
    columns = ", ".join(f'"{feature["name"]}" DOUBLE PRECISION' for feature in given.features)
    rows = [(1, *row) for row in X.tolist()]
    if to == "postgresql":
        import psycopg

        connection: Any = psycopg.connect(address)
        connection.execute("SET jit = off")
        place = "%s"
    else:
        import duckdb as library

        connection, place = library.connect(), "?"
    connection.execute(f'CREATE TEMPORARY TABLE "shop_candidates" ("query" INTEGER, {columns})')
    cursor = connection.cursor() if to == "postgresql" else connection
    cursor.executemany(f'INSERT INTO "shop_candidates" VALUES ({", ".join([place] * len(rows[0]))})', rows)
    connection.execute('ANALYZE "shop_candidates"')
    if to == "duckdb-tables":
        connection.execute(content)
        return lambda: connection.execute("FROM \"shop\"('shop_candidates')").fetchall()
    text = content.replace('"shop"', '"shop_candidates"')
    return lambda: connection.execute(text).fetchall()
