"""Models as queries of PostgreSQL and DuckDB."""

from typing import Any

from online_rank import arguments
from online_rank.export.engines import quoted, require_columns
from online_rank.export.expression import Dialect, definitions
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.export.vector_sql import column_of, with_vectors

_DOUBLE = "DOUBLE PRECISION"
_WINDOW = 'OVER (PARTITION BY "query")'


#: How a database writes a text in Unicode's form NFC, in which a model has levels.
_IN_NFC = {"postgresql": "NORMALIZE({}, NFC)", "duckdb": "NFC_NORMALIZE({})"}
#: Blanks that do not count around a level, as for `str.strip`.
_BLANKS = "".join(c for c in map(chr, range(1, 0x3001)) if c.isspace())


def to_duckdb(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """A model as a SELECT for DuckDB, which writes texts in form NFC otherwise than PostgreSQL does; see `to_select`."""
    return to_select(model, name=name, names=names, database="duckdb")


def to_select(model: Any, *, name: str = "online_rank", names: Names = None, database: str = "postgresql") -> str:
    """A model as a SELECT over a table of candidates, for PostgreSQL and DuckDB.

    The table has a column `query`, by which candidates belong together, a column for each feature, NULL or NaN where it is
    missing, and a column of texts or booleans for each category. A vector is a column with a list of numbers, also of the
    type `vector` of pgvector, and the vector of the query is the column `query NAME`. The entries of a context are columns.
    Both are the same in all rows of a query. The result has all of its columns; `input_row`, the number of the row in the
    table; `score`; and `place`, from 1 in each query, where equal scores keep the order of the table.

    Parameters
    ----------
    model
        Any model with a closed form.
    name
        Name of the table.
    names
        The columns of the features, in order, or `{name: column}` for those that differ.
    database
        "postgresql", whose database must be in UTF-8 if levels are not in ASCII, or "duckdb".

    Raises
    ------
    TypeError, ValueError
        The model has no closed form or no features yet, or columns have one name for the databases, which ignore capitals and
        cut long names.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> print(to_select(PerceptronRanker.from_weights({"clicks": 2.0}), name="candidates"))
    WITH numbered AS MATERIALIZED (SELECT *, ROW_NUMBER() OVER () AS input_row FROM "candidates"),
    scored AS (SELECT input_row, 2.0 * x1
    + 0.0 AS score FROM (
    SELECT input_row, "query",
        COALESCE(NULLIF(CAST("clicks" AS DOUBLE PRECISION), CAST('NaN' AS DOUBLE PRECISION)), 0) AS x1
    FROM numbered) AS s0)
    SELECT numbered.*, score, ROW_NUMBER() OVER (PARTITION BY "query" ORDER BY score DESC, input_row) AS place
    FROM numbered JOIN scored USING (input_row) ORDER BY "query", place
    """
    arguments.choice("database", database, ("postgresql", "duckdb"))
    given = prepared(model, database, names)
    require_columns(["query", "score", "input_row", "place", *given.fields])
    columns = [f"x{j + 1}" for j in range(len(given.texts))]
    stages, score = definitions(given, columns, _DIALECT)
    values = ",\n    ".join(f"{value_of(given, j, database)} AS {x}" for j, x in enumerate(columns))
    table, made_of_vectors = with_vectors(given, database)
    text = f'SELECT input_row, "query",\n    {values}\nFROM {table}'
    for k, stage in enumerate(stages):
        made = ",\n    ".join(f"{expression} AS {name}" for name, expression in stage)
        text = f"SELECT *,\n    {made}\nFROM (\n{text}) AS s{k}" if stage else text
    before = "".join(f"{step},\n" for step in made_of_vectors)
    return (
        f"WITH numbered AS MATERIALIZED (SELECT *, ROW_NUMBER() OVER () AS input_row FROM {quoted(name)}),\n"
        f"{before}scored AS (SELECT input_row, {score} AS score FROM (\n{text}) AS s{len(stages)})\n"
        'SELECT numbered.*, score, ROW_NUMBER() OVER (PARTITION BY "query" ORDER BY score DESC, input_row) AS place\n'
        'FROM numbered JOIN scored USING (input_row) ORDER BY "query", place'
    )


def value_of(given: Prepared, j: int, database: str) -> str:
    """The value of feature number j; NULL if it is missing, and that is not 0."""
    if j in given.of_vectors:
        return column_of(j) if given.form.takes_missing else f"COALESCE({column_of(j)}, 0)"
    if j in given.levels:
        field, level, others = given.levels[j]
        column = f"CAST({quoted(field)} AS VARCHAR)"
        column = column if "".join([level or "", *others]).isascii() else _IN_NFC[database].format(column)
        if all(each == each.strip() for each in others):
            column = f"LTRIM(RTRIM({column}, {_literal(_BLANKS)}), {_literal(_BLANKS)})"
        # An empty text is a missing one.
        condition = (
            f"NOT IN ({', '.join(map(_literal, dict.fromkeys(['', *others])))})" if level is None else f"= {_literal(level)}"
        )
        return f"CASE WHEN {column} {condition} THEN 1 ELSE 0 END"
    value = f"NULLIF(CAST({quoted(given.texts[j])} AS {_DOUBLE}), CAST('NaN' AS {_DOUBLE}))"
    return value if given.form.takes_missing else f"COALESCE({value}, 0)"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _in_query(how: str, x: str, soft: str) -> str:
    """What a value is in its query."""
    low, high = f"MIN({x}) {_WINDOW}", f"MAX({x}) {_WINDOW}"
    if how == "share":
        rank = f'RANK() OVER (PARTITION BY "query" ORDER BY {x} NULLS LAST)'
        ties = f'COUNT(*) OVER (PARTITION BY "query", {x})'
        return f"CASE WHEN {x} IS NOT NULL THEN ({rank} + 0.5 * {ties} - 1.0) / COUNT({x}) {_WINDOW} END"
    if how == "minmax":
        return f"CASE WHEN {low} = {high} THEN 0 ELSE ({x} - {low}) / ({high} - {low}) END"
    start = f"AVG({x}) {_WINDOW}" if how == "standard" else "0"
    return f"CASE WHEN {low} = {high} THEN 0 ELSE ({x} - {start}) / (STDDEV_POP({x}) {_WINDOW} + {soft}) END"


_DIALECT = Dialect(
    choose=lambda condition, then, other: f"CASE WHEN {condition} THEN {then} ELSE {other} END",
    is_missing=lambda x: f"{x} IS NULL",
    in_query=_in_query,
    log="LN",
    zero=f"CAST(0 AS {_DOUBLE})",
)
