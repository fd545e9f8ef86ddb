"""Scores of probes by databases: DuckDB in a file or in memory, and PostgreSQL."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from online_rank.export.engines import quoted
from online_rank.export.probing import Probes
from online_rank.export.verifying.files import Answer
from online_rank.support.lazy import MissingExtra


def duckdb(given: Probes, content: bytes, address: str | None) -> Answer:
    """The scores of DuckDB, in memory, or by a database in a file, in which nothing is kept."""
    library = _imported("duckdb", "duckdb")
    connection = library.connect(":memory:" if address is None else address.removeprefix("duckdb:"))
    try:
        scores = _scores(given, content.decode(), connection.execute, connection.executemany, "?")
    finally:
        connection.close()
    return f"DuckDB {library.__version__}", scores


def postgresql(given: Probes, content: bytes, address: str) -> Answer:
    """The scores of PostgreSQL, in a transaction that is rolled back."""
    library = _imported("psycopg", "psycopg")
    with library.connect(address) as connection, connection.cursor() as cursor:
        version = connection.info.parameter_status("server_version")
        try:
            # Machine code for a model's long statement takes longer than the statement.
            cursor.execute("SET LOCAL jit = off")
            scores = _scores(given, content.decode(), cursor.execute, cursor.executemany, "%s")
        finally:
            connection.rollback()
    return f"PostgreSQL {version}", scores


def _imported(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{name} is not installed ({error}): pip install {package}") from None


def _scores(
    given: Probes, text: str, execute: Callable[..., Any], executemany: Callable[..., Any], place: str
) -> list[list[float]]:
    """The scores of a statement over a temporary table of the probes; missing values are NULL and NaN, in turn."""
    kinds = _kinds(given)
    columns = ", ".join(f"{quoted(field)} {kind}" for field, kind in kinds.items())
    table = quoted(given.name)
    own = '"online_rank_probe"'
    execute(f'CREATE TEMPORARY TABLE {table} ("query" INTEGER, {own} INTEGER, {columns})')
    places = ", ".join([place] * (len(kinds) + 2))
    executemany(f"INSERT INTO {table} VALUES ({places})", _rows(given, kinds))
    execute(f"ANALYZE {table}")
    if given.target == "duckdb-tables":
        execute("BEGIN TRANSACTION")
        execute(text)
        text = f"FROM {table}({_literal(given.name)})"
    found = {int(i): float(score) for i, score in _fetched(execute, f"SELECT {own}, score FROM ({text}) AS probed")}
    scores, number = [], 0
    for query in given.queries:
        scores.append([found[number + i] for i in range(len(query))])
        number += len(query)
    return scores


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _fetched(execute: Callable[..., Any], statement: str) -> Sequence[Any]:
    return list(execute(statement).fetchall())


def _kinds(given: Probes) -> dict[str, str]:
    """The columns of the table, and their types."""
    kinds: dict[str, str] = {}
    for feature in given.features:
        if "vector" in feature:
            own = (feature["vector"], *([f"query {feature['vector']}"] if feature["p"] else []))
            kinds |= dict.fromkeys(own, "REAL[]")
        elif "field" not in feature:
            kinds[feature["name"]] = "DOUBLE PRECISION"
        else:
            kinds[feature["field"]] = "VARCHAR"
    return kinds


def _rows(given: Probes, kinds: dict[str, str]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for number, query in enumerate(given.queries):
        for probe in query:
            row: list[Any] = [number, len(rows)]
            fields = probe.fields | given.contexts[number]["fields"]
            for field, kind in kinds.items():
                missing = float("nan") if kind == "DOUBLE PRECISION" and len(rows) % 2 else None
                row.append(fields.get(field, missing))
            rows.append(row)
    return rows
