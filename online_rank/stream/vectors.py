"""Columns of files that hold vectors: lists of numbers, JSON lists in text, or many columns of numbers that are one vector."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.query.embeddings import as_vector
from online_rank.stream.values import Faults, arrow, is_text, numbers_of, plain

__all__ = ["IN_CONTEXT", "are_json_vectors", "columns_named", "from_array", "joined_vectors", "json_vector", "vectors_in"]

#: What stands before the name of the query's own vector, where columns of a table say what is known of the query too.
IN_CONTEXT = "context "
#: How many first values decide.
_FIRST = 64
_RANGE = re.compile(r"(.+?)(\d+)\.\.(.+?)(\d+)|(\d+)\.\.(\d+)")


def are_json_vectors(values: Any) -> bool:
    """Whether the first texts of a column, but the empty ones, are lists of numbers in JSON."""
    texts = [text for text in plain(values)[:_FIRST].to_pylist() if text]
    return bool(texts) and all(text.lstrip().startswith("[") and json_vector(text) is not None for text in texts)


def json_vector(text: str) -> list[float] | None:
    """The numbers of a list in JSON; None for any other text."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    good = isinstance(found, list) and found and all(isinstance(x, int | float) and not isinstance(x, bool) for x in found)
    return found if good else None


def vectors_in(values: Any, faults: Faults, column: str) -> list[np.ndarray | None]:
    """The vectors of a column, float32, None where one is missing. What is no vector is a fault of its row."""
    values = plain(values)
    given = values.to_pylist() if is_text(values) else _lists(values)
    found: list[np.ndarray | None] = []
    for i, one in enumerate(given):
        vector = json_vector(one) if isinstance(one, str) and one else one
        if isinstance(one, str) and one and vector is None:
            faults.setdefault(i, f"{one!r:.60} in column {column!r} is no list of numbers")
        try:
            found.append(None if vector is None or isinstance(vector, str) else as_vector(f"column {column!r}", vector))
        except (TypeError, ValueError) as error:
            faults.setdefault(i, str(error))
            found.append(None)
    return found


def _lists(values: Any) -> list[Any]:
    """The lists of an array of Arrow as arrays of numpy, without a copy if no number is missing."""
    if values.flatten().null_count:
        return [None if one is None else np.array([np.nan if x is None else x for x in one]) for one in values.to_pylist()]
    flat = values.flatten().to_numpy(zero_copy_only=False)
    sizes = arrow("pyarrow.compute").list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    ends, is_null = np.cumsum(sizes), values.is_null().to_numpy(zero_copy_only=False)
    return [None if null else flat[end - n : end] for n, end, null in zip(sizes, ends, is_null, strict=True)]


def columns_named(spec: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a vector: one column, or a range of columns that end in numbers.

    Raises
    ------
    ValueError
        It is neither, or a column is not there.

    Examples
    --------
    >>> columns_named("e0..e2", ["id", "e0", "e1", "e2"]), columns_named("embedding", ["embedding"])
    (('e0', 'e1', 'e2'), ('embedding',))
    """
    if spec in columns:
        return (spec,)
    found = _RANGE.fullmatch(spec)
    if found is None or found[1] != found[3]:
        raise ValueError(f"{spec!r} is neither a column nor a range of columns, such as e0..e255")
    first, last = (int(found[n]) for n in ((2, 4) if found[1] else (5, 6)))
    names = tuple(f"{found[1] or ''}{n}" for n in range(first, last + 1))
    if not names or (lacking := [name for name in names if name not in columns]):
        raise ValueError(f"{spec!r}: there is no column {lacking[0] if names else spec!r}")
    return names


def joined_vectors(columns: Sequence[Any], faults: Faults, names: Sequence[str]) -> list[np.ndarray | None]:
    """Columns of numbers as one vector a row; None where all are missing. Where only some are, the row has a fault."""
    X = np.column_stack([numbers_of(values, "number", faults, name) for name, values in zip(names, columns, strict=True)])
    missing = np.isnan(X)
    what = f"a number of the vector {names[0]}..{names[-1]} is"
    faults.note(missing.any(axis=1) & ~missing.all(axis=1), lambda i: f"{what} missing")
    faults.note(np.isinf(X).any(axis=1), lambda i: f"{what} not finite")
    return [None if lacks else row for row, lacks in zip(X.astype(np.float32), missing.any(axis=1).tolist(), strict=True)]


def from_array(
    X: np.ndarray, vectors: Mapping[str, str], of_query: Mapping[str, str]
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """The documents of LETOR text as dicts, with ranges of features as vectors; and the vectors of the query, of its first row.

    Raises ValueError for a range that the text does not have.

    Examples
    --------
    >>> from_array(np.array([[1.0, 2.0, 3.0]]), {"embedding": "2..3"}, {})
    ([{'1': 1.0, 'embedding': array([2., 3.], dtype=float32)}], {})
    """
    names = [str(j + 1) for j in range(X.shape[1])]
    places = {name: [int(column) - 1 for column in columns_named(spec, names)] for name, spec in vectors.items()}
    about = {name: [int(column) - 1 for column in columns_named(spec, names)] for name, spec in of_query.items()}
    taken = {j for columns in (*places.values(), *about.values()) for j in columns}
    rest = [j for j in range(X.shape[1]) if j not in taken]
    documents = []
    for row in X:
        document: dict[str, Any] = {names[j]: float(row[j]) for j in rest}
        documents.append(document | {name: row[columns].astype(np.float32) for name, columns in places.items()})
    return documents, {name: X[0, columns].astype(np.float32) for name, columns in about.items()}
