"""The roles of a table's columns, for readers, commands, reports and exports."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from online_rank.query.names import is_index_name, is_outcome_name
from online_rank.stream.table_sources import Column, columns_of, name_of, require_columns

#: How missing values of a feature can be treated.
MISSING = ("error", "zero", "mean", "indicator")

#: Reasons why columns of these types are not features.
_NO_NUMBERS = {
    "text": "text: convert numbers, encode words, as ForEachDocument(OneHotEncoder()) does from Python",
    "datetime": "a time: make it a number, such as an age in days",
    "empty": "it has no values at the beginning of the table: name it as a feature to read it",
    "other": "neither numbers nor booleans",
}


@dataclass(frozen=True)
class TablePlan:
    """The columns of a table with their roles, and the treatment of missing values.

    Attributes
    ----------
    columns : tuple of Column
        All columns, in the order of the table.
    missing : str
        One of `MISSING`.
    """

    columns: tuple[Column, ...]
    missing: str = "error"
    _by_role: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        roles = dict.fromkeys(column.role for column in self.columns)
        by_role = {role: tuple(column.name for column in self.columns if column.role == role) for role in roles}
        object.__setattr__(self, "_by_role", by_role)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are features, in order."""
        return self._by_role.get("feature", ())

    @property
    def context(self) -> tuple[str, ...]:
        """The columns that hold what is known of a query itself."""
        return self._by_role.get("context", ())

    @property
    def left_out(self) -> tuple[Column, ...]:
        """The columns that are left out."""
        return tuple(column for column in self.columns if column.role == "left out")

    @property
    def read(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return tuple(column for column in self.columns if column.role != "left out")

    def of(self, role: str) -> str | None:
        """The column with a role, or None."""
        return next(iter(self._by_role.get(role, ())), None)

    def in_words(self) -> list[str]:
        """A line about the features, and one about the columns left out, with reasons, if there are any."""
        shown = _listed(self.features)
        lines = [f"{len(self.features):,} features: {shown}"]
        if self.left_out:
            reasons = dict.fromkeys(column.why for column in self.left_out)
            parts = [f"{_listed([c.name for c in self.left_out if c.why == why])} ({why})" for why in reasons]
            lines.append(f"left out: {'; '.join(parts)}")
        return lines


def plan_columns(
    source: Any,
    *,
    query: str,
    grade: str | None,
    features: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    document: str | None = None,
    event_time: str | None = None,
    context: Sequence[str] = (),
    missing: str = "error",
) -> TablePlan:
    """Decide the role of each column of a table.

    Named columns have the given role. Among the others, numbers and booleans are features, except the index of a pandas frame
    that was written to the file, and columns whose names are outcomes (click, purchase, order, dwell, position, propensity,
    grade, label); text, times and empty columns are left out.

    Parameters
    ----------
    source
        A table, as for `iter_table`. Of csv files only the beginning is read.
    query, grade, document, event_time
        Columns with these roles.
    context
        Columns with what is known of a query itself.
    features
        The columns that are features, and no others; None to let their types decide.
    exclude
        Columns that are not features.
    missing
        How to treat missing values (see `iter_table`).

    Raises
    ------
    ValueError
        A column does not exist or has two roles, a feature is not numeric, or no features are left.

    Examples
    --------
    >>> import polars
    >>> log = polars.DataFrame({"Unnamed: 0": [0, 1], "q": [7, 7], "grade": [0, 2], "price": [1.0, 4.0], "title": ["a", "b"]})
    >>> for line in plan_columns(log, query="q", grade="grade").in_words():
    ...     print(line)
    1 features: price
    left out: Unnamed: 0 (the index of a pandas frame); title (text: convert numbers, encode words, as ForEachDocument(OneHotEncoder()) does from Python)
    """  # noqa: E501
    roles = {"query": query, "grade": grade, "document": document, "event_time": event_time}
    return plan_roles(source, roles, features=features, exclude=exclude, context=context, missing=missing)


def plan_roles(
    source: Any,
    named: Mapping[str, str | None],
    *,
    features: Sequence[str] | None,
    exclude: Collection[str],
    context: Sequence[str],
    missing: str = "error",
) -> TablePlan:
    """As `plan_columns`, for the roles of any kind of table: the column of each role, or None."""
    types, metadata, words = columns_of(source)
    name = name_of(source)
    if set(types.values()) == {"empty"}:
        raise ValueError(f"{name}: no rows below the header, or none with a value")
    roles = _roles(name, types, named)
    for column in context:
        roles |= _roles(name, types, {"context": column}, taken=roles)
    require_columns(name, [*(features or ()), *exclude], types)
    if features is not None:
        _check_features(name, features, types, roles, words)
    index = _index_of(metadata)
    columns = []
    for column, kind in types.items():
        if column in roles:
            columns.append(Column(column, kind, roles[column]))
            continue
        why = _why_not(column, kind, features, exclude, index)
        if why == _NO_NUMBERS["text"] and column in words:
            why = f"text, because of {words[column]}: name it as a feature to see it as an error, or correct the value"
        columns.append(Column(column, kind, "left out" if why else "feature", why))
    plan = TablePlan(tuple(columns) if features is None else _in_order(columns, features), missing)
    # A log of clicks may name documents alone.
    if not plan.features and (features is None or "click" not in named):
        reasons = f" ({'; '.join(plan.in_words()[1:])})" if plan.left_out else ""
        raise ValueError(f"{name}: features is empty: no other column has numbers{reasons}")
    return plan


def _roles(
    name: str, types: dict[str, str], given: Mapping[str, str | None], taken: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The roles of columns that were named one by one, beside those that are `taken`."""
    roles: dict[str, str] = dict(taken)
    for role, column in given.items():
        if column is None:
            continue
        require_columns(name, [column], types)
        if column in roles:
            raise ValueError(f"{name}: column {column!r} cannot be {roles[column]} and {role.replace('_', ' ')} at once")
        roles[column] = role.replace("_", " ")
    return roles


def require_names(**given: Any) -> None:
    """Raise TypeError unless each argument is None or a sequence of names of columns."""
    for name, columns in given.items():
        if columns is not None and (isinstance(columns, str) or not all(isinstance(column, str) for column in columns)):
            raise TypeError(f"{name} is a sequence of names of columns")


def _check_features(
    name: str, features: Sequence[str], types: dict[str, str], roles: dict[str, str], words: dict[str, str]
) -> None:
    if len(set(features)) < len(features):
        raise ValueError("features names a column twice")
    for column in features:
        if column in roles:
            raise ValueError(f"{name}: column {column!r} cannot be {roles[column]} and a feature at once")
        if column in words:
            raise ValueError(f"{name}: column {column!r} has {words[column]}, which is not a number")
        if types[column] in ("text", "datetime", "other"):
            raise ValueError(f"{name}: column {column!r} is not a feature: {_NO_NUMBERS[types[column]]}")


def _why_not(column: str, kind: str, features: Sequence[str] | None, exclude: Collection[str], index: Collection[str]) -> str:
    """Why a column without another role is not a feature; empty if it is."""
    if column in exclude:
        return "excluded"
    if features is not None:
        return "" if column in features else "not among the features named"
    if column in index or is_index_name(column):
        return "the index of a pandas frame"
    if kind not in _NO_NUMBERS and is_outcome_name(column):
        return "an outcome by its name: name the features (--features) to use it"
    return _NO_NUMBERS.get(kind, "")


def _in_order(columns: list[Column], features: Sequence[str]) -> tuple[Column, ...]:
    """Columns with the features in the order in which they were named."""
    named = {column.name: column for column in columns}
    chosen = [named[name] for name in features if named[name].role == "feature"]
    return (*chosen, *(column for column in columns if column.role != "feature"))


def _index_of(metadata: dict[bytes, bytes] | None) -> set[str]:
    """The columns that the metadata of pandas lists as an index."""
    try:
        noted = json.loads((metadata or {}).get(b"pandas", b"{}"))
    except (ValueError, RecursionError):
        return set()
    columns = noted.get("index_columns", []) if isinstance(noted, dict) else []
    return {column for column in columns if isinstance(column, str)}


def _shown(name: str) -> str:
    """A name in print; in quotes if white space around it is part of it."""
    return "(unnamed)" if not name.strip() else name if name == name.strip() else repr(name)


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(_shown(name) for name in names[:most])
    return f"{shown}, ... ({len(names) - most:,} more)" if len(names) > most else shown
