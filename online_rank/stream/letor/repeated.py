"""Queries whose documents are not contiguous in a LETOR file."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

RepeatedQid: TypeAlias = Literal["warn", "new", "error", "group"]

#: Number of first queries checked for repeated qids, so that memory does not grow with the stream.
REMEMBERED = 100_000


class LetorWarning(UserWarning):
    """A LETOR file is probably not in the intended order: the documents of a query are not contiguous."""

    __module__ = "online_rank.stream.letor"


def repeated(qid: str, where: str) -> str:
    """The message about a repeated qid."""
    return (
        f"{where}: query {qid} comes back after another one, and is read as a separate query; "
        'repeated_qid="group" (--group-by-qid) joins the documents of a qid, "new" is silent'
    )


def check_repeated_qid(value: str) -> None:
    """Raise ValueError unless the value is an allowed choice."""
    if value not in (choices := ("warn", "new", "error", "group")):
        raise ValueError(f"repeated_qid is {value!r}; there are {', '.join(map(repr, choices))}")


def first_repeated(qids: Sequence[str]) -> int | None:
    """The first query with a repeated qid; None if all differ."""
    seen: set[str] = set()
    for number, qid in enumerate(qids):
        if qid in seen:
            return number
        seen.add(qid)
    return None


def grouped_rows(sizes: Sequence[int] | np.ndarray, qids: Sequence[str]) -> np.ndarray:
    """The rows of queries of these sizes, grouped by qid in order of first appearance."""
    numbers: dict[str, int] = {}
    groups = np.repeat([numbers.setdefault(qid, len(numbers)) for qid in qids], sizes)
    return np.argsort(groups, kind="stable")
