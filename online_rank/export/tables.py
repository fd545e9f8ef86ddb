"""Models as tables and a macro of DuckDB: made once, so that a query is short, and is planned in a moment."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from online_rank.base.form import Blend, Crossed, Curves, Form, InQuery, Linear, Scale, Take, Trees
from online_rank.export.engines import quoted, require_columns
from online_rank.export.linear import linear_form
from online_rank.export.normal import NORMAL_MIDDLE, NORMAL_SPLIT, NORMAL_TAIL, polynomial
from online_rank.export.reading import Names, prepared
from online_rank.export.select import value_of
from online_rank.export.vector_sql import with_vectors

#: Most leaves of a tree, which are bits of a number.
_MOST_LEAVES = 63


def to_tables(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """A model as statements of DuckDB that create its tables, and a macro that ranks a table of candidates by them.

    Run the statements once. `FROM NAME('candidates')` then gives the rows of a table or view, as `to_select` does: with
    `input_row`, `score` and `place`.

    Parameters
    ----------
    model
        Any model with a closed form, of trees with at most 63 leaves.
    name
        Name of the macro, with which names of the tables begin.
    names
        The columns of the features, in order, or `{name: column}` for those that differ.

    Raises
    ------
    TypeError, ValueError
        As `to_select`; or a tree is larger.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> text = to_tables(PerceptronRanker.from_weights({"clicks": 2.0}), name="shop")
    >>> text.splitlines()[0]
    'CREATE OR REPLACE TABLE "shop_weights" (col INTEGER, weight DOUBLE);'
    """
    given = prepared(model, "duckdb-tables", names)
    require_columns(["query", "score", "input_row", "place", *given.fields])
    form = given.form
    if given.kind == "linear":
        folded = linear_form(form)
        form = Form(None, form.n_features, (), Linear(folded.weights))
        constant = folded.constant
    else:
        constant = 0.0
    writer = _Writer(name)
    values = ", ".join(value_of(given, j, "duckdb") for j in range(len(given.texts)))
    table, made_of_vectors = with_vectors(given, "duckdb", writer.matrix)
    first = writer.step(
        f'SELECT input_row, "query", UNNEST(range({len(given.texts)})) AS col, UNNEST([{values}]) AS x FROM {table}'
    )
    parts = writer.form(form, first, 1.0)
    sums = "\nUNION ALL ".join(parts)
    steps = ",\n".join([*made_of_vectors, *writer.steps])
    return (
        f"{''.join(writer.tables)}CREATE OR REPLACE MACRO {quoted(name)}(candidates) AS TABLE\n"
        "WITH numbered AS MATERIALIZED (SELECT *, ROW_NUMBER() OVER () AS input_row FROM query_table(candidates)),\n"
        f"{steps},\nparts AS ({sums}),\n"
        f"summed AS (SELECT input_row, SUM(s) + {constant!r} AS score FROM parts GROUP BY input_row)\n"
        'SELECT numbered.*, COALESCE(score, 0.0) AS score, ROW_NUMBER() OVER (PARTITION BY numbered."query" ORDER BY '
        "COALESCE(score, 0.0) DESC, input_row) AS place\n"
        'FROM numbered LEFT JOIN summed USING (input_row) ORDER BY numbered."query", place;\n'
    )


def _normal() -> str:
    """The standard normal quantile of p."""
    (up, down), (tail_up, tail_down) = NORMAL_MIDDLE, NORMAL_TAIL
    middle = f"(p - 0.5) * {polynomial('((p - 0.5) * (p - 0.5))', up)} / {polynomial('((p - 0.5) * (p - 0.5))', down)}"
    root = "SQRT(-2.0 * LN(LEAST(p, 1.0 - p)))"
    tail = f"{polynomial(root, tail_up)} / {polynomial(root, tail_down)}"
    return f"CASE WHEN LEAST(p, 1.0 - p) >= {NORMAL_SPLIT} THEN {middle} WHEN p >= 0.5 THEN -({tail}) ELSE {tail} END"


_NORMAL = _normal()


class _Writer:
    """The tables of a model, and the steps of its query: rows (input_row, query, col, x)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables: list[str] = []
        self.steps: list[str] = []

    def step(self, text: str) -> str:
        """The name of a step."""
        self.steps.append(f"step{len(self.steps)} AS MATERIALIZED ({text})")
        return f"step{len(self.steps) - 1}"

    def table(self, what: str, columns: str, rows: Iterable[Sequence[Any]]) -> str:
        """The name of a table with these rows."""
        used = sum(f'"{self.name}_{what}' in text for text in self.tables)
        called = quoted(f"{self.name}_{what}{used or ''}")
        self.tables.append(f"CREATE OR REPLACE TABLE {called} ({columns});\n")
        lines = [f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in rows]
        if lines:
            self.tables.append(f"INSERT INTO {called} VALUES {', '.join(lines)};\n")
        return called

    def matrix(self, what: str, rows: list[str]) -> str:
        """The name of a table with the columns of a matrix."""
        called = quoted(f"{self.name}_{what}")
        self.tables.append(f"CREATE OR REPLACE TABLE {called} (dimension INTEGER, entries DOUBLE[]);\n")
        self.tables.append(f"INSERT INTO {called} VALUES {', '.join(rows)};\n")
        return called

    def form(self, form: Form, step: str, weight: float) -> list[str]:
        """Queries of (input_row, s), whose sum is the score of a form times a weight."""
        for layer in form.layers:
            step = self.layer(layer, step)
        head = form.head
        if isinstance(head, Blend):
            pairs = zip(head.forms, head.weights.tolist(), strict=True)
            return [text for inner, own in pairs for text in self.form(inner, step, weight * own)]
        if isinstance(head, Linear):
            rows = [(k, w) for k, w in enumerate((weight * head.weights).tolist()) if w != 0.0]
            table = self.table("weights", "col INTEGER, weight DOUBLE", rows)
            return [f"SELECT input_row, weight * x AS s FROM {step} JOIN {table} USING (col)"]
        if isinstance(head, Trees):
            return self.trees(head, step, weight)
        for weights, biases in head.layers:
            links = [(*at, float(w), float(biases[at[1]])) for at, w in np.ndenumerate(weights)]
            table = self.table("layer", "col INTEGER, made INTEGER, weight DOUBLE, bias DOUBLE", links)
            total = "SUM(weight * x) + ANY_VALUE(bias)"
            act = f"GREATEST({total}, 0.0)" if head.activation == "relu" else f"TANH({total})"
            step = self.step(
                f'SELECT input_row, "query", made AS col, {act} AS x FROM {step} JOIN {table} USING (col) GROUP BY ALL'
            )
        return self.form(Form(None, len(head.output), (), Linear(head.output)), step, weight)

    def layer(self, layer: Any, step: str) -> str:
        """The step that computes a layer."""
        if isinstance(layer, Take):
            table = self.table("take", "made INTEGER, col INTEGER", enumerate(layer.columns.tolist()))
            return self.step(
                f'SELECT input_row, "query", made AS col, CASE WHEN {table}.col < 0 THEN 0.0 ELSE x END AS x FROM {table} '
                f"JOIN {step} ON {step}.col = GREATEST({table}.col, 0)"
            )
        if isinstance(layer, Scale):
            scales = zip(range(len(layer.means)), layer.means.tolist(), layer.factors.tolist(), strict=True)
            table = self.table("scale", "col INTEGER, mean DOUBLE, factor DOUBLE", scales)
            return self.step(f'SELECT input_row, "query", col, (x - mean) * factor AS x FROM {step} JOIN {table} USING (col)')
        if isinstance(layer, Curves):
            return self.curves(layer, step)
        if isinstance(layer, InQuery):
            return self.in_query(layer, step)
        if isinstance(layer, Crossed):
            return self.crossed(layer, step)
        raise TypeError(f"{type(layer).__name__} has no table")

    def curves(self, layer: Curves, step: str) -> str:
        """Curves as intervals: the last whose beginning is not above the value, or the one of missing values."""
        rows: list[tuple[Any, ...]] = []
        missing = [None] * len(layer.knots) if layer.missing is None else layer.missing.tolist()
        for k, (j, (xs, ys), low) in enumerate(zip(layer.sources.tolist(), layer.knots, missing, strict=True)):
            slopes = [*layer.slopes(k).tolist(), 0.0]
            own = float(ys[0]) if low is None else float(low)
            starts, firsts = [-1.7e308, *xs.tolist()], [0.0, *xs.tolist()]
            heights, steep = [float(ys[0]), *ys.tolist()], [0.0, *slopes]
            stops = [*starts[1:], None]
            rows += [(k, j, *row, own) for row in zip(starts, stops, firsts, heights, steep, strict=True)]
        table = self.table(
            "curves",
            "made INTEGER, col INTEGER, low DOUBLE, high DOUBLE, first DOUBLE, y DOUBLE, slope DOUBLE, missing DOUBLE",
            rows,
        )
        return self.step(
            f'SELECT input_row, "query", made AS col, CASE WHEN x IS NULL THEN missing ELSE y + (x - first) * slope END AS x '
            f"FROM {step} JOIN {table} USING (col) "
            "WHERE (x >= low AND (x < high OR high IS NULL)) OR (x IS NULL AND high IS NULL)"
        )

    def crossed(self, layer: Crossed, step: str) -> str:
        """Products with columns that are the same for a whole query."""
        rows = zip(range(len(layer.sources)), layer.sources.tolist(), layer.factors.tolist(), layer.only.tolist(), strict=True)
        table = self.table("crossed", "made INTEGER, col INTEGER, factor INTEGER, only_there BOOLEAN", rows)
        value = "CASE WHEN factor < 0 THEN s.x WHEN only_there AND f.x = 0 THEN NULL ELSE s.x * f.x END"
        return self.step(
            f'SELECT s.input_row, s."query", made AS col, {value} AS x FROM {step} AS s JOIN {table} ON s.col = {table}.col '
            f"LEFT JOIN {step} AS f ON f.input_row = s.input_row AND f.col = factor"
        )

    def in_query(self, layer: InQuery, step: str) -> str:
        """Columns relative to the query, in one pass of window functions."""
        centred = np.ones(len(layer.sources), dtype=bool) if layer.centred is None else layer.centred
        rows = list(zip(range(len(centred)), layer.sources.tolist(), layer.relative.tolist(), centred.tolist(), strict=True))
        table = self.table("relative", "made INTEGER, col INTEGER, relative BOOLEAN, centred BOOLEAN", rows)
        moved = self.step(f'SELECT input_row, "query", made AS col, x, relative, centred FROM {step} JOIN {table} USING (col)')
        window = 'OVER (PARTITION BY "query", col)'
        if layer.how == "ranks":
            rank = 'RANK() OVER (PARTITION BY "query", col ORDER BY x NULLS LAST)'
            ties = 'COUNT(*) OVER (PARTITION BY "query", col, x)'
            share = f"({rank} + 0.5 * {ties} - 1.0) / COUNT(x) {window}"
            ranked = self.step(f'SELECT input_row, "query", col, x, relative, {share} AS p FROM {moved} WHERE relative')
            plain = f'SELECT input_row, "query", col, x FROM {moved} WHERE NOT relative'
            return self.step(
                f'SELECT input_row, "query", col, CASE WHEN x IS NOT NULL THEN {_NORMAL} END AS x FROM {ranked} '
                f"UNION ALL {plain}"
            )
        low, high = f"MIN(x) {window}", f"MAX(x) {window}"
        start = low if layer.how == "minmax" else f"CASE WHEN centred THEN AVG(x) {window} ELSE 0 END"
        width = f"{high} - {low}" if layer.how == "minmax" else f"STDDEV_POP(x) {window} + {layer.soft!r}"
        made = f"CASE WHEN NOT relative THEN x WHEN {low} = {high} THEN 0 ELSE (x - {start}) / ({width}) END"
        return self.step(f'SELECT input_row, "query", col, {made} AS x FROM {moved}')

    def trees(self, head: Trees, step: str, weight: float) -> list[str]:
        """Trees as bits: each split takes the leaves away that it does not lead to, and one is left."""
        nodes: list[tuple[Any, ...]] = []
        leaves: list[tuple[Any, ...]] = []
        for t, tree in enumerate(head.trees):
            under: dict[int, int] = {}
            count = int((tree.columns < 0).sum())
            if count > _MOST_LEAVES:
                raise TypeError(
                    f"DuckDB's tables cannot hold a tree of {count} leaves (at most {_MOST_LEAVES}): export to duckdb"
                )
            ends = np.flatnonzero(tree.columns < 0).tolist()
            bits = {n: 1 << k for k, n in enumerate(ends)}
            # Children are numbered after their parents.
            for n in range(len(tree.columns) - 1, -1, -1):
                under[n] = bits[n] if n in bits else under[int(tree.left[n])] | under[int(tree.right[n])]
            leaves += [(t, bit, weight * float(tree.values[n])) for n, bit in bits.items()]
            whole = (1 << count) - 1
            nodes += [
                (
                    t,
                    int(tree.columns[n]),
                    float(tree.thresholds[n]),
                    whole & ~under[int(tree.right[n])],
                    whole & ~under[int(tree.left[n])],
                )
                for n in np.flatnonzero(tree.columns >= 0).tolist()
            ]
            if count == 1:
                nodes.append((t, 0, 0.0, 1, 1))
        splits = self.table("splits", "tree INTEGER, col INTEGER, threshold DOUBLE, below BIGINT, above BIGINT", nodes)
        values = self.table("leaves", "tree INTEGER, leaf BIGINT, s DOUBLE", leaves)
        return [
            "SELECT input_row, s FROM (SELECT input_row, tree, "
            "BIT_AND(CASE WHEN x >= threshold THEN above ELSE below END) AS leaf "
            f"FROM {step} JOIN {splits} USING (col) GROUP BY input_row, tree) JOIN {values} USING (tree, leaf)"
        ]
