"""What a query of probes has next to its documents: vectors, and entries of the context."""

from typing import Any, NamedTuple

import numpy as np

from online_rank.export.reading import Prepared
from online_rank.export.vector_fields import SCORE

#: The share of documents without a vector, and with one of length 0.
_MISSING, _EMPTY = 0.15, 0.03
#: The most documents of a query with a context, and the most numbers of the vectors of all queries.
AT_ONCE, _MOST_NUMBERS = 40, 600_000
_UNKNOWN = "never met"


class Asked(NamedTuple):
    """A query of probes.

    Attributes
    ----------
    rows
        (n, d): the raw features of its documents.
    vectors
        For each document its vectors, by the target's names of fields.
    fields
        What is the same for all of its documents: vectors of the query, and entries of the context.
    parameters
        What engines get with a query in their place.
    context
        The context as the model takes it.
    """

    rows: np.ndarray
    vectors: list[dict[str, list[float]]]
    fields: dict[str, Any]
    parameters: dict[str, Any]
    context: dict[str, Any]


def asked(given: Prepared, queries: list[np.ndarray]) -> list[Asked]:
    """Queries with vectors and contexts, drawn at random; the columns that are made of them are written into their rows."""
    if not given.vectors and not given.context:
        return [Asked(rows, [{} for _ in rows], {}, {}, {}) for rows in queries]
    rng = np.random.default_rng(1)
    numbers = sum(own.k for own in given.vectors)
    parts = [rows[k : k + AT_ONCE] for rows in queries for k in range(0, len(rows), AT_ONCE)]
    most = max(_MOST_NUMBERS // max(numbers * AT_ONCE, 1), 4)
    return [_asked(given, rows.copy(), t, rng) for t, rows in enumerate(parts[:most])]


def _asked(given: Prepared, rows: np.ndarray, t: int, rng: np.random.Generator) -> Asked:
    vectors: list[dict[str, list[float]]] = [{} for _ in rows]
    fields: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    context: dict[str, Any] = {}
    for own in given.vectors:
        # A VectorRanker that learned from queries with vectors alone warns of one without; others get one in five without.
        needed = [column.how for column in own.columns.values()] == [SCORE]
        query = None if not own.p or (t % 5 == 1 and not needed) else _vector(own.p, rng)
        near = None if query is None or own.p != own.k else np.array(query)
        made = [_of_document(own.k, near, rng) for _ in rows]
        for i, vector in enumerate(made):
            if vector is not None:
                vectors[i][own.field] = vector
        for j, values in own.values(query, made).items():
            rows[:, j] = values
        parameters |= own.parameters(query)
        if query is not None:
            fields[own.query_field] = context[own.name] = query
    for name, value in _entries(given, t, rng).items():
        context[name[0]] = value
        if value is not None:
            fields[name[1]] = parameters[name[1]] = value
    _write_context(given, rows, fields)
    return Asked(rows, vectors, fields, parameters, context)


def _vector(k: int, rng: np.random.Generator) -> list[float]:
    values: list[float] = np.round(rng.normal(size=k), 3).astype(np.float32).astype(float).tolist()
    return values


def _of_document(k: int, near: np.ndarray | None, rng: np.random.Generator) -> list[float] | None:
    """The vector of a document: none, one of length 0, one near the vector of the query, or any."""
    drawn = rng.random()
    if drawn < _MISSING:
        return None
    if drawn < _MISSING + _EMPTY:
        return [0.0] * k
    vector = np.array(_vector(k, rng)) * 10.0 ** rng.integers(-1, 2)
    if near is not None and drawn > 0.6:
        vector = near * rng.choice([-1.0, 1.0, 1.0]) + 0.3 * vector
    made: list[float] = np.round(vector, 3).astype(np.float32).astype(float).tolist()
    return made


def _entries(given: Prepared, t: int, rng: np.random.Generator) -> dict[tuple[str, str], Any]:
    """The entries of the context, by the model's name and the target's: a level, an unknown one, a number, or None."""
    made: dict[tuple[str, str], Any] = {}
    levels: dict[str, list[str]] = {}
    for j, name in given.context.items():
        if j in given.levels:
            levels.setdefault(name, []).append(str(given.levels[j].level))
            field = given.levels[j].field
            choices: list[Any] = [*levels[name], _UNKNOWN, None]
            made[name, field] = choices[t % len(choices)]
        else:
            made[name, given.texts[j]] = None if t % 4 == 3 else float(np.round(rng.normal(), 2))
    return made


def _write_context(given: Prepared, rows: np.ndarray, fields: dict[str, Any]) -> None:
    """Write the columns of the context, which are the same for all documents of a query."""
    for j in given.context:
        if j in given.levels:
            rows[:, j] = float(fields.get(given.levels[j].field) == given.levels[j].level)
        else:
            rows[:, j] = fields.get(given.texts[j], np.nan if given.form.takes_missing else 0.0)
