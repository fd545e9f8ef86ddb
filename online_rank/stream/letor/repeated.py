"""Queries whose documents do not stand together in a LETOR file."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

RepeatedQid: TypeAlias = Literal["warn", "new", "error", "group"]

#: A warning about a qid that comes back looks at so many queries from the start; memory does not grow with the stream.
REMEMBERED = 100_000


class LetorWarning(UserWarning):
    """A LETOR file is probably not what was meant: the documents of a query do not stand together."""

    __module__ = "online_rank.stream.letor"


def repeated(qid: str, where: str) -> str:
    """The message about a qid that comes back."""
    return (
        f"{where}: query {qid} comes back after another one, and is read as a query of its own; "
        'repeated_qid="group" (--group-by-qid) puts the documents of a qid together, "new" is silent'
    )


def check_repeated_qid(value: str) -> None:
    """Raise ValueError unless there is such a choice."""
    if value not in (choices := ("warn", "new", "error", "group")):
        raise ValueError(f"repeated_qid is {value!r}; there are {', '.join(map(repr, choices))}")


def first_repeated(qids: Sequence[str]) -> int | None:
    """Which query has a qid that was there before; None where all differ."""
    seen: set[str] = set()
    for number, qid in enumerate(qids):
        if qid in seen:
            return number
        seen.add(qid)
    return None


def grouped_rows(sizes: Sequence[int] | np.ndarray, qids: Sequence[str]) -> np.ndarray:
    """The rows of queries of these sizes, those of equal qids together, in the order in which the qids first came."""
    numbers: dict[str, int] = {}
    groups = np.repeat([numbers.setdefault(qid, len(numbers)) for qid in qids], sizes)
    return np.argsort(groups, kind="stable")
