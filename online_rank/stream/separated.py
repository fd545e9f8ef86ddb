"""Text of csv and tsv, cut into rows: where each begins, and what is wrong with one that cannot be read."""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from online_rank.stream.source import UTF8, Text, lines_of
from online_rank.stream.values import arrow

#: The longest value with line breaks, in bytes.
_LONGEST_VALUE = 1 << 24
#: Bytes that are not UTF-8, in text that was decoded with surrogates.
NOT_UTF8 = re.compile("[\udc80-\udcff]")
UNCLOSED = "a quotation mark is not closed, or closed there: write it twice, or the table as tsv or parquet"


def split(block: bytearray, first: int, mark: str, quoted: bool) -> Iterator[tuple[int, int, list[str]]]:
    """The rows of csv with their first and last lines, as Python's reader finds them, which pyarrow does not tell."""
    text = io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")
    rows = csv.reader(text, delimiter=mark, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    begin = first
    for row in rows:
        if row:
            yield begin, first + rows.line_num - 1, row
        begin = first + rows.line_num


def places_of(name: str, block: bytearray, first: int, mark: str, quoted: bool) -> Callable[[int], str]:
    """The line of each row of a block of text, for messages. They are found once: some logs keep the line of every row."""

    @cache
    def lines() -> list[int]:
        rows: Iterator[Any] = split(block, first, mark, quoted) if quoted and b'"' in block else lines_of(block, first)
        found: list[int] = []
        # Python's reader stops at a value that is longer than it takes, which pyarrow takes.
        with contextlib.suppress(csv.Error):
            for row in rows:
                found.append(row[0])
        return found

    return lambda i: f"{name}, line {lines()[i]}" if i < len(lines()) else name


def closed(text: Text, quoted: bool) -> Iterator[tuple[bytearray, int]]:
    """Blocks of lines in which quotation marks are closed, if they count."""
    held, begin = bytearray(), 1
    for block, line in text.blocks():
        begin = begin if held else line
        held += block
        if quoted and held.count(b'"') % 2 and len(held) < _LONGEST_VALUE:
            continue
        yield held, begin
        held = bytearray()
    if held:
        yield held, begin


def has_swallowed(rows: Any, separator: str) -> bool:
    """Whether a value of some rows, a table of Arrow, contains whole rows."""
    compute = arrow("pyarrow.compute")
    several = (values.filter(compute.match_substring(values, "\n")).to_pylist() for values in rows.columns)
    return any(_is_swallowed(value, separator, rows.num_columns) for value in itertools.chain.from_iterable(several))


def _is_swallowed(value: str, separator: str, n_columns: int) -> bool:
    """Whether a value contains the separators of whole rows: an unclosed quotation mark begins it."""
    ends = value.rstrip("\r\n").count("\n")
    return ends > 0 and n_columns > 1 and value.count(separator) == ends * (n_columns - 1)


def fault(block: bytearray, first: int, mark: str, quoted: bool, columns: int) -> str:
    """The lines of the first row of a block that cannot be read, and why; empty if all can."""
    begin = last = first - 1
    try:
        for begin, last, row in split(block, first, mark, quoted):
            what = ""
            if NOT_UTF8.search("".join(row)):
                what = f"not text in UTF-8: {UTF8}"
            elif any(_is_swallowed(value, mark, columns) for value in row):
                what = UNCLOSED
            elif len(row) != columns:
                what = f"Expected {columns} columns, got {len(row)}" + f"; {UNCLOSED}" * (last > begin)
            if what:
                return f", line {begin}: {what}" if last == begin else f", lines {begin} to {last}: {what}"
    except csv.Error:
        return f", line {last + 1}: {UNCLOSED}"
    return ""
