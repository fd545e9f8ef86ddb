"""Tables of figures for people."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rich import box
from rich.table import Table

from online_rank.evaluate import Trace

#: Name of a trace's metric of a random ranking.
RANDOM = "random ranking"


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


def measured(figures: Mapping[str, Any], trace: Trace) -> Iterator[tuple[str, str, str]]:
    """The measure of a run, and of random rankings: its name, the mean, and the number of queries, as text."""
    measure, chance = figures["measure"], "a random ranking of the same queries"
    over = of_queries(figures["counted"], trace.n_queries)
    yield "progressive: each query ranked, then learned", f"{trace.values[measure]:.4f}", over
    if RANDOM in trace.values:
        yield chance, f"{trace.values[RANDOM]:.4f}", over
    if test := figures.get("test"):
        over = of_queries(test["counted"][measure], test["queries"])
        yield "held out", f"{test['metrics'][measure]:.4f}", over
        yield chance, f"{test['random'][measure]:.4f}", over
    for name, value in figures.get("default", {}).items():
        yield f"{'held out' if name == 'test' else name}, by the default model", f"{value:.4f}", ""
