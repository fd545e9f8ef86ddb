"""`--dry-run`: how each column of files is used, and what is in it, without doing anything else."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from online_rank.cli.advice import LOOKED_AT, advice, told
from online_rank.cli.declaring import PRINTS_JSON
from online_rank.cli.printing import table
from online_rank.stream.trec import read_judgements, read_run
from online_rank.stream.values import MISSING_WORDS, Faults, arrow, is_text, numbers_of, plain

_MISSING = ", ".join(word or "empty" for word in MISSING_WORDS)


class _Seen:
    """What is in each column: the share of missing values, the lowest and the highest."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = kinds
        self.rows = 0
        self._ranges: dict[str, tuple[int, Any, Any]] = {}

    def add(self, n: int, columns: Mapping[str, Any]) -> None:
        """Add some rows."""
        self.rows += n
        for name, values in columns.items():
            missing, low, high = _range(values, self._kinds.get(name, "number"))
            before = self._ranges.get(name, (0, None, None))
            ends = [[end for end in pair if end is not None] for pair in ((before[1], low), (before[2], high))]
            self._ranges[name] = before[0] + missing, min(ends[0], default=None), max(ends[1], default=None)

    def figures(self, name: str) -> dict[str, Any]:
        """The figures of a column, ready for JSON."""
        missing, low, high = self._ranges.get(name, (0, None, None))
        return {"missing": missing / max(1, self.rows), "low": low, "high": high}


def _range(values: Any, kind: str) -> tuple[int, Any, Any]:
    """The number of missing values, the lowest and the highest: numbers, or text for anything else."""
    if isinstance(values, np.ndarray) or kind in ("number", "boolean", "empty"):
        numbers = values if isinstance(values, np.ndarray) else numbers_of(values, kind, Faults(), "")
        there = numbers[np.isfinite(numbers)]
        return int(np.isnan(numbers).sum()), *((float(there.min()), float(there.max())) if len(there) else (None, None))
    compute, n_missing = arrow("pyarrow.compute"), values.null_count
    if arrow("pyarrow.types").is_dictionary(values.type):
        # Rows may share long texts.
        values, counts = values.dictionary, compute.value_counts(values.indices.drop_null())
        found, of = values.take(counts.field(0)), counts.field(1)
    else:
        found, of = plain(values), None
    if is_text(found := plain(found)):
        empty = compute.equal(found, "")
        n_missing += compute.sum(empty if of is None else of.filter(empty)).as_py() or 0
        found = compute.if_else(empty, None, found)
    try:
        ends = compute.min_max(found).as_py().values()
    except (arrow().ArrowNotImplementedError, TypeError):  # lists, bytes, ...
        ends = None, None
    return n_missing, *(None if end is None else str(end) for end in ends)


def show_runs(runs: Sequence[str], judgements: str | None = None) -> int:
    """Read runs, and judgements, and print what is in them; returns the number of queries that are in all files.

    With the option --json of the command, print one JSON object.
    """
    read: list[tuple[str, str, Any]] = [(run, "score", read_run(run, by_rank=True)) for run in runs]
    if judgements is not None:
        read.append((judgements, "grade", read_judgements(judgements)))
    common = len(set.intersection(*({*lists} for _, _, lists in read)))
    files = []
    for file, becomes, lists in read:
        values = [value for documents in lists.values() for value in documents.values()]
        ends = {"low": min(values, default=None), "high": max(values, default=None)}
        files.append({"file": file, "becomes": becomes, "lists": len(lists), "documents": len(values), **ends})
    if PRINTS_JSON.get():
        print(json.dumps({"files": files, "common": common, "missing": MISSING_WORDS}))
        return common
    shown = table("file", "becomes", "lists", "documents", "lowest", "highest", left=("becomes",))
    for one in files:
        shown.add_row(*(f"{x:,.6g}" if isinstance(x, float | int) else str(x or "") for x in one.values()))
    console = Console(highlight=False)
    console.print(shown)
    console.print(f"{common:,} queries are in all files\nmissing values are errors: {_MISSING}")
    return common


def show(lists: Any) -> int:
    """Read all lists of files, and print their columns with use, types, ranges and missing values, and advice.

    Returns the number of lists.

    With the option --json of the command, print one JSON object.
    """
    lines: list[str] = []
    seen, alone = _Seen(lists.plan.kinds), {}
    lists.watch = seen.add
    if hasattr(lists, "first"):
        first = lists.first(LOOKED_AT)
        lines, alone = advice(first, not lists.is_letor), told(first)
    n_lists = sum(1 for _ in lists)
    columns = [
        {**column._asdict(), **seen.figures(column.name), "alone": alone[column.name][0] if column.name in alone else None}
        for column in lists.plan.columns
    ]
    if PRINTS_JSON.get():
        about = {"format": lists.form, "rows": seen.rows, "lists": n_lists, "bad": lists.n_bad, "weights": lists.weights}
        print(json.dumps({**about, "columns": columns, "missing": MISSING_WORDS, "advice": lines}))
        return n_lists
    shown = table(f"{seen.rows:,} rows", "type", "becomes", "missing", "lowest", "highest", "alone", left=("type", "becomes"))
    for one in columns:
        ends = [f"{end:.6g}" if isinstance(end, float) else (end or "")[:20] for end in (one["low"], one["high"])]
        orders = "" if one["alone"] is None else f"{one['alone']:.1%}"
        shown.add_row(one["name"] or "(unnamed)", one["type"], one["role"], f"{one['missing']:.1%}", *ends, orders)
    console = Console(highlight=False)
    console.print(shown)
    for line in [
        f"format: {lists.form}",
        *lists.plan.in_words()[1:],
        f"weights of queries: {', '.join(lists.weights)}" if lists.weights else "",
        *lines,
        f"{n_lists:,} lists" + (f"; {lists.n_bad:,} more have a row that cannot be read" if lists.n_bad else ""),
        f"alone: of the pairs with different grades and values, the share that a column orders, in {LOOKED_AT} queries"
        if alone else "",
        f"missing: null and NaN; in numbers, dates and grades of text also {_MISSING}",
    ]:  # fmt: skip
        if line:
            console.print(line)
    return n_lists
