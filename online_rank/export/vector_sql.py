"""Columns that are made of vectors, in SQL: common table expressions in front of what computes a model."""

from collections.abc import Callable

import numpy as np

from online_rank.export.engines import quoted
from online_rank.export.reading import Prepared
from online_rank.export.vector_fields import VectorField

#: How databases write the type of a vector, the product of two, a vector from a list of numbers, and a list in order.
_TYPES = {"postgresql": "DOUBLE PRECISION[]", "duckdb": "DOUBLE[]"}
_PRODUCTS = {
    "postgresql": "(SELECT SUM(a * b) FROM UNNEST({}, {}) AS pairs(a, b))",
    "duckdb": "LIST_DOT_PRODUCT({}, {})",
}
_LITERALS = {"postgresql": "CAST('{{{}}}' AS DOUBLE PRECISION[])", "duckdb": "CAST([{}] AS DOUBLE[])"}
_LISTS = {"postgresql": "ARRAY_AGG({} ORDER BY dimension)", "duckdb": "LIST({} ORDER BY dimension)"}
#: Writes the rows of a matrix, (dimension, entries), under a name, and returns what it is called.
Store = Callable[[str, list[str]], str]


def column_of(j: int) -> str:
    """What the value of a feature that is made of a vector is called in the table `with_vectors`."""
    return f'"online_rank x{j + 1}"'


def with_vectors(given: Prepared, database: str, store: Store | None = None) -> tuple[str, list[str]]:
    """The table of candidates with columns that are made of vectors, and the expressions that make it, in order.

    A vector is a column with a list of numbers, and the query's vector another one, the same for all of a query; the type
    `vector` of pgvector is cast. `store` keeps matrices in tables; without it they are written into the expression.
    """
    if not given.vectors:
        return "numbered", []
    steps, joins, values = [], [], []
    for number, own in enumerate(given.vectors):
        made, join, of_columns = _field(own, number, database, store)
        steps += made
        joins.append(join)
        values += of_columns
    joined = "".join(joins)
    columns = ",\n    ".join(f"{text} AS {column_of(j)}" for j, text in values)
    steps.append(f"with_vectors AS MATERIALIZED (SELECT numbered.*,\n    {columns}\nFROM numbered{joined})")
    return "with_vectors", steps


def _field(own: VectorField, number: int, database: str, store: Store | None) -> tuple[list[str], str, list[tuple[int, str]]]:
    """The expressions of one vector, what joins them to the candidates, and the value of each column."""
    kind, product, literal = _TYPES[database], _PRODUCTS[database], _LITERALS[database]
    steps, join, adapted = [], "", f"adapted{number}"
    if own.p:
        firsts = 'SELECT MIN(input_row) FROM numbered GROUP BY "query"'
        q = f"CAST({quoted(own.query_field)} AS {kind})"
        steps.append(
            f'asked{number} AS MATERIALIZED (SELECT "query", {q} AS q FROM numbered WHERE input_row IN ({firsts})\n'
            f"    AND {product.format(q, q)} > 0)"
        )
        vectors = []
        for k, column in enumerate(column for column in own.columns.values() if column.of_query):
            if column.how == "cosine":
                vectors.append((column.parameter, f'SELECT "query", q AS t FROM asked{number}'))
                continue
            rows = [f"({i}, {literal.format(_numbers(entries))})" for i, entries in enumerate(column.matrix.T)]
            text = f"(VALUES {', '.join(rows)}) AS m(dimension, entries)"
            if store is not None:
                text = store(f"matrix{number}_{k}", rows)
            each = _LISTS[database].format(product.format("q", "entries"))
            vectors.append((column.parameter, f'SELECT "query", {each} AS t FROM asked{number}, {text} GROUP BY "query"'))
        steps += [f"{quoted(f'{name} t')} AS MATERIALIZED ({text})" for name, text in vectors]
        names = [quoted(f"{name} t") for name, _ in vectors]
        joined = "".join(f' LEFT JOIN {name} USING ("query")' for name in names)
        size = f"SQRT({product.format('q', 'q')})"
        selected = ", ".join([f"{size} AS size", *(f"{name}.t AS {name}" for name in names)])
        steps.append(f'{adapted} AS MATERIALIZED (SELECT "query", {selected} FROM asked{number}{joined})')
        join = f' LEFT JOIN {adapted} ON {adapted}."query" = numbered."query"'
    d = f"CAST({quoted(own.field)} AS {kind})"
    length = f"NULLIF(SQRT({product.format(d, d)}), 0)"
    values = []
    for j, column in own.columns.items():
        if column.of_query:
            t = f"{adapted}.{quoted(f'{column.parameter} t')}"
            values.append((j, f"{product.format(d, t)} / ({length} * {adapted}.size)"))
        else:
            text = f"{product.format(d, literal.format(_numbers(column.matrix[0])))} / {length}"
            values.append((j, f"CASE WHEN {adapted}.size IS NULL THEN {text} END" if own.p and column.alone else text))
    return steps, join, values


def _numbers(values: np.ndarray) -> str:
    """Numbers of single precision."""
    return ",".join(f"{value:.9g}" for value in values.tolist())
