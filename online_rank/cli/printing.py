"""Tables of figures for people."""

from collections.abc import Collection

from rich import box
from rich.table import Table

__all__ = ["of_queries", "table"]


def table(*headings: str, bold: Collection[str] = (), left: Collection[str] = ()) -> Table:
    """A table of numbers, right-aligned behind the first column; some headings are of bold numbers, some of text."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        is_number = number > 0 and heading not in left
        made.add_column(heading, justify="right" if is_number else "left", style="bold" if heading in bold else "")
    return made


def of_queries(counted: int, n_queries: int) -> str:
    """How many queries a mean is over, in words."""
    return f"{counted:,}" if counted == n_queries else f"{counted:,} of {n_queries:,}"
