"""`online-rank train --dry-run`: how each column of a table would be used, without learning anything."""

import json
import math
from collections.abc import Sequence
from typing import Any

import narwhals
from rich.console import Console

from online_rank.cli.printing import table
from online_rank.stream.columns import Column, TablePlan
from online_rank.stream.table_sources import batches_of
from online_rank.stream.table_text import MISSING_WORDS

_BATCH_ROWS = 1 << 16


class _Seen:
    """Statistics of the values of a column."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.n = self.n_missing = 0
        self.low: Any = None
        self.high: Any = None

    def add(self, series: Any) -> None:
        """Add some values, a narwhals series."""
        missing = series.is_null()
        if series.dtype.is_float():
            missing = missing | series.is_nan()
        self.n += len(series)
        self.n_missing += int(missing.sum())
        values = series.filter(~missing)
        if not len(values) or self.column.type not in ("number", "boolean", "datetime", "text"):
            return
        # Arrow compares neither spans of time nor categories nor floats of 16 bits.
        if values.dtype == narwhals.Duration:
            values = values.dt.total_seconds()
        if self.column.type == "text":
            values = values.cast(narwhals.String)
        elif values.dtype.is_float():
            values = values.cast(narwhals.Float64)
        low, high = values.min(), values.max()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        ends = [end if isinstance(end, int | float | None) else str(end) for end in (self.low, self.high)]
        ends = [None if isinstance(end, float) and not math.isfinite(end) else end for end in ends]
        share = self.n_missing / self.n if self.n else 0.0
        return {**self.column._asdict(), "missing": share, "low": ends[0], "high": ends[1]}


def look(plan: TablePlan | None, files: Sequence[str], lines: Sequence[str], as_json: bool) -> None:
    """Print the columns of the tables with their use, types, ranges and shares of missing values, and advice."""
    if plan is None:
        raise ValueError("--dry-run is for tables: name their columns by --query COLUMN --grade COLUMN")
    rows, seen = _seen(files, plan)
    if as_json:
        print(
            json.dumps(
                {"rows": rows, "columns": [one.to_dict() for one in seen], "missing": MISSING_WORDS, "advice": list(lines)}
            )
        )
        return
    console = Console(highlight=False)
    shown = table(f"{rows:,} rows", "type", "becomes", "missing", "lowest", "highest", left=("type", "becomes"))
    for one in seen:
        figures = one.to_dict()
        ends = ["" if end is None else f"{end:.6g}" if isinstance(end, float) else str(end)[:20] for end in (one.low, one.high)]
        shown.add_row(one.column.name or "(unnamed)", one.column.type, one.column.role, f"{figures['missing']:.1%}", *ends)
    console.print(shown)
    words = ", ".join(word or "empty" for word in MISSING_WORDS)
    for line in [*plan.in_words()[1:], *lines, f"missing: null and NaN; in csv and tsv also {words}"]:
        console.print(line)


def _seen(files: Sequence[str], plan: TablePlan) -> tuple[int, list[_Seen]]:
    """The number of rows of all files, and what is in each column."""
    seen, rows = [_Seen(column) for column in plan.columns], 0
    for file in files:
        # Without their roles, ids are numbers too.
        for frame in batches_of(file, [column._replace(role="") for column in plan.columns], _BATCH_ROWS).frames():
            rows += len(frame.rows)
            for one in seen:
                one.add(frame.rows[one.column.name])
    return rows, seen
