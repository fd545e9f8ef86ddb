"""Labels of pandas, which assign values to documents."""

import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any


def _index(values: Any) -> Any:
    """The index of a pandas object, or None."""
    pandas = sys.modules.get("pandas")
    return values.index if pandas is not None and isinstance(values, pandas.Series | pandas.DataFrame) else None


def _counts(index: Any) -> bool:
    """Whether an index only numbers the rows."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def _labels(values: Any) -> Any:
    """The index of a pandas object, or None if it only numbers the rows."""
    index = _index(values)
    return None if index is None or _counts(index) else index


def by_id(name: str, values: Any, ids: Sequence[Hashable] | None) -> Any:
    """The values of a pandas Series as `{document id: value}`, if its labels are ids of documents.

    Parameters
    ----------
    name
        Name of the argument, for messages.
    values
        One value for each document, in any form. Anything but a Series is returned unchanged.
    ids
        The ids of the documents, or None.

    Raises
    ------
    ValueError
        A label that is a document's id occurs twice.

    Examples
    --------
    >>> import pandas
    >>> by_id("y", pandas.Series([2, 0], index=["b", "a"]), ("a", "b"))
    {'b': 2, 'a': 0}
    >>> by_id("y", [0, 2], ("a", "b"))
    [0, 2]
    """
    if ids is None or isinstance(ids, range) or isinstance(values, Mapping) or (index := _labels(values)) is None:
        return values
    known = set(ids)
    if known.isdisjoint(index):
        # These are labels of the table that the values come from; the documents are in its order.
        return values
    if not index.is_unique:
        raise ValueError(f"{name} is a Series with the label {index[index.duplicated()][0]!r} twice; a document has one value")
    return dict(zip(index, values, strict=True))


def in_rows_of(x: Any, name: str, values: Any) -> Any:
    """The values of a pandas Series in the order of the rows of a frame, by the labels of both.

    Parameters
    ----------
    x
        The documents, in any form. If they are not a pandas frame, the values are returned unchanged.
    name
        Name of the argument, for messages.
    values
        One value for each document, in any form.

    Raises
    ------
    ValueError
        Both have labels, and these differ; or one numbers its rows, and the other has these numbers in another order.

    Examples
    --------
    >>> import pandas
    >>> x = pandas.DataFrame({"clicks": [3, 1]}, index=["a", "b"])
    >>> in_rows_of(x, "y", pandas.Series([2, 0], index=["b", "a"])).tolist()
    [0, 2]
    """
    rows, labels = _index(x), _index(values)
    if rows is None or labels is None or rows.equals(labels):
        return values
    if _counts(rows) or _counts(labels):
        # One was renumbered, or both were one table and only one of them was sorted: nothing shows which.
        if len(rows) == len(labels) and not rows.difference(labels).size:
            raise ValueError(
                f"{name} and x have the same numbers as labels, in another order: take {name}.loc[x.index], or "
                f"{name}.to_numpy() if it is in the order of x"
            )
        return values
    if rows.is_unique and labels.is_unique and len(rows) == len(labels) and not rows.difference(labels).size:
        return values.loc[rows]
    strange = next(iter(labels.difference(rows)), labels[0])
    raise ValueError(
        f"{name} and x are labelled differently: {name} has {strange!r} in its index; "
        f"take {name}.loc[x.index], or {name}.to_numpy() if it is in the order of x"
    )


def in_order(
    name: str, values: Mapping[Hashable, Any], ids: Sequence[Hashable] | None, what: str, remedy: str | None = ""
) -> list[Any]:
    """The values of `{document id: value}` in the order of the documents.

    Parameters
    ----------
    name, what
        Name of the argument and of one of its values, for messages.
    values, ids
        The values, and the ids of the documents, or None.
    remedy
        Advice for a document without a value; None if there may be such documents, whose values are then None.

    Raises
    ------
    TypeError, ValueError
        Documents have no ids, one has no value, or a value is of no document.
    """
    if ids is None or isinstance(ids, range):
        raise TypeError(
            f"{name} is a dict, but the documents of x have no ids: give x as {{id: feature dict}}, or {name} as a list"
        )
    try:
        found = [*map(values.get if remedy is None else values.__getitem__, ids)]
    except KeyError:
        missing = [i for i in ids if i not in values]
        raise ValueError(f"{name} has no {what} for document {missing[0]!r} of x ({len(missing)} missing){remedy}") from None
    if len(values) != len(ids) or remedy is None:
        known = set(ids)
        if extra := [i for i in values if i not in known]:
            raise ValueError(f"{name} {what}s document {extra[0]!r}, which is not in x")
    return found
