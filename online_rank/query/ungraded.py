"""Documents without a grade, and grades below 0."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from online_rank.query.blocks import document_name
from online_rank.query.labels import by_id, in_order, in_rows_of
from online_rank.query.runs import Runs
from online_rank.query.vectors import Vectors

#: How to treat a document.
Policy: TypeAlias = Literal[0, "skip", "error"]


def drop_ungraded(x: Any, y: Any, *, missing: Policy = "error", negative: Policy = "error") -> tuple[Any, Any]:
    """A query and its grades, ready for `learn_one`, where some documents have no grade or a negative one.

    Parameters
    ----------
    x
        The query, in any form that `online_rank.query` lists.
    y
        Its grades: a sequence, one a document, or `{document id: grade}`, in which documents may be missing. None, NaN and
        masked values count as missing.
    missing
        How to treat a document without a grade: `0`, as not relevant; `"skip"`, leave it out of the query; `"error"`,
        raise an error.
    negative
        The same for a grade below 0; some collections mark unjudged documents with -1 and spam with -2.

    Returns
    -------
    (x, y) in the forms in which they were given, without the skipped documents.

    Raises
    ------
    TypeError
        `y` is a dict, but the documents of `x` have no ids.
    ValueError
        A policy is unknown, a document has no grade or a negative one under `"error"`, `y` grades a document that `x` lacks, or
        a document of `Runs` is to be left out.

    Examples
    --------
    >>> pages = {"a": {"clicks": 3}, "b": {"clicks": 1}, "c": {"clicks": 2}}
    >>> drop_ungraded(pages, {"a": 1, "c": -2}, missing=0, negative="skip")
    ({'a': {'clicks': 3}, 'b': {'clicks': 1}}, {'a': 1, 'b': 0})
    >>> drop_ungraded([[1.0], [2.0], [3.0]], [1, None, 0], missing="skip")
    ([[1.0], [3.0]], [1, 0])
    """
    policies = {"missing": missing, "negative": negative}
    for name, policy in policies.items():
        if policy not in (0, "skip", "error") or isinstance(policy, bool):
            raise ValueError(f"{name} is {policy!r}; there are 0, 'skip' and 'error'")
    ids: Any = list(x) if isinstance(x, Mapping) else x.ids if isinstance(x, Runs | Vectors) else None
    y = by_id("y", in_rows_of(x, "y", y), ids)
    grades = in_order("y", y, ids, "grade", None) if isinstance(y, Mapping) else list(y)
    kept = []
    for i, grade in enumerate(grades):
        kind = "missing" if _is_missing(grade) else "negative" if grade < 0 else None
        if kind is None or policies[kind] == 0:
            kept.append(i)
            grades[i] = 0 if kind else grade
        elif policies[kind] == "error":
            what = "no grade" if kind == "missing" else f"the grade {grade}"
            raise ValueError(f"y: {document_name(i, ids)} has {what}; {kind}=0 counts it as 0, {kind}='skip' leaves it out")
    values: Any = [grades[i] for i in kept]
    if isinstance(y, Mapping):
        values = {ids[i]: grades[i] for i in kept}
    elif isinstance(y, np.ndarray) and not isinstance(x, Mapping):
        values = np.array(values, dtype=np.int64)
    return _rows(x, kept), values


def _is_missing(grade: Any) -> bool:
    """Whether a grade is None, NaN, masked, or a missing value of pandas."""
    return grade is None or grade is np.ma.masked or type(grade).__name__ == "NAType" or grade != grade


def _rows(x: Any, kept: Sequence[int]) -> Any:
    """Some documents of a query. Raises ValueError for some of `Runs`, not all."""
    if isinstance(x, Mapping):
        names = [*x]
        return {names[i]: x[names[i]] for i in kept}
    if isinstance(x, Runs):
        if len(kept) < len(x):
            raise ValueError(
                "x is Runs, whose scores are normalised within whole lists, so no document can be left out: count it as 0, or "
                "leave it out behind RunFeatures: drop_ungraded(features.transform_one(x), y, missing='skip')"
            )
        return x
    if isinstance(x, Vectors):
        return x.only(kept)
    if isinstance(x, list | tuple):
        return [x[i] for i in kept]
    if isinstance(x, np.ndarray) or not hasattr(x, "columns"):
        return x[list(kept)]
    import narwhals

    return narwhals.from_native(x, eager_only=True)[list(kept)].to_native()
