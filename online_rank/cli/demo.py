"""`online-rank demo`: two rankers on a stream whose truth changes halfway.

The first to run is the one whose kernels are compiled sooner: its chart is there to look at while the default is compiled.
"""

from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from online_rank import AdditiveRanker, PerceptronRanker
from online_rank.cli.printing import table
from online_rank.metrics import metric
from online_rank.stream.synth import Drifting
from online_rank.support.compiling import compiling, watch_compilation

#: Queries until the end; of the page, until each change.
QUERIES = 6000
_MEASURE = "ndcg@10"
_BARS = "▁▂▃▄▅▆▇█"
_WINDOWS = 60
_LINES = 6
_SHOWN = 5


def run() -> None:
    """Run the demonstration: live on a terminal, a few lines in a pipe."""
    n_queries = QUERIES
    console = Console(highlight=False)
    *stream, last = Drifting(n_queries + 1, drift_points=(n_queries // 2,), n_features=40, n_documents=(10, 40), seed=0)
    learners = [
        _Learner("averaged weights", PerceptronRanker(_MEASURE, half_life=None)),
        _Learner("AdditiveRanker()", AdditiveRanker(_MEASURE)),
    ]
    console.print(
        f"[bold]{n_queries:,}[/] queries of 10 to 40 documents with 40 features. One model after the other\n"
        f"ranks each query, learns from its grades and forgets it. At query {n_queries // 2:,}\n"
        "the truth changes: other features decide what is relevant."
    )
    window = -(-n_queries // _WINDOWS)
    watch_compilation()
    with Live(_screen(learners) if console.is_terminal else "", console=console, refresh_per_second=12, transient=True) as live:
        for learner in learners:
            for t, (X, y) in enumerate(stream, start=1):
                learner.meet(X, y, starts_window=(t - 1) % window == 0)
                if t % window == 0 and console.is_terminal:
                    live.update(_screen(learners))
                elif not console.is_terminal and t % max(1, n_queries // _LINES) == 0:
                    recent = f"{learner.name}, {t:>6,} queries: {_MEASURE} lately {learner.windows[-1].get():.3f}"
                    console.print(recent, soft_wrap=True)
    console.print(_screen(learners) if console.is_terminal else _figures(learners))
    best = max(learners, key=lambda learner: learner.windows[-1].get())
    console.print(f"The next query, by {best.name}: the first {_SHOWN} of its {len(last[1])} documents")
    console.print(_ranked_query(best, *last))
    console.print("Next, your own queries: online-rank train FILE, or the tutorials in docs/index.md.")


class _Starting:
    """What a learner waits for before its first query."""

    def __rich__(self) -> Text:
        return Text(compiling() or "its kernels are being compiled, once", style="dim")


class _Learner:
    """A ranker and its results."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self.model = model
        self.overall = metric(_MEASURE)
        self.windows: list[Any] = []

    def meet(self, X: np.ndarray, y: np.ndarray, starts_window: bool) -> None:
        """Rank a query, measure, learn."""
        if starts_window:
            self.windows.append(metric(_MEASURE))
        scores = self.model.predict_one(X)
        self.model.learn_one(X, y)
        self.overall.update(y, scores)
        self.windows[-1].update(y, scores)

    def sparkline(self, low: float, high: float) -> Text:
        """The measure over time; each bar is one window of queries."""
        text = Text()
        for i, window in enumerate(self.windows):
            level = int((window.get() - low) / (high - low) * (len(_BARS) - 1) + 0.5) if high > low else 0
            text.append(_BARS[level], style="cyan" if i < _WINDOWS // 2 else "green")
        return text


def _screen(learners: list[_Learner]) -> Group:
    """The chart of the measure, above the figures."""
    begun = [learner for learner in learners if learner.windows]
    values = [window.get() for learner in begun for window in learner.windows]
    lines: list[Any] = [
        "",
        Text(f"{_MEASURE}, from {min(values):.2f} to {max(values):.2f}" if begun else _MEASURE, style="dim"),
    ]
    for learner in begun:
        lines += [learner.name, learner.sparkline(min(values), max(values))]
    if begun:
        lines.append(Text(" " * (_WINDOWS // 2) + "↑ the truth changes", style="dim"))
    for learner in learners[len(begun) :][:1]:
        lines += [learner.name, _Starting()]
    # Every line is at most `_WINDOWS` wide, so that nothing is cut off on a terminal of 80 columns.
    return Group(*lines, *([_figures(begun)] if begun else []))


def _figures(learners: list[_Learner]) -> Table:
    headings = f"{_MEASURE} so far", f"{_MEASURE} lately"
    shown = table("ranks by", *headings, bold=headings)
    for learner in learners:
        shown.add_row(learner.name, f"{learner.overall.get():.4f}", f"{learner.windows[-1].get():.4f}")
    return shown


def _ranked_query(learner: _Learner, X: np.ndarray, y: np.ndarray) -> Table:
    """The documents that a ranker puts first, with their grades."""
    scores, order = learner.model.predict_one(X), learner.model.rank_one(X)
    shown = table("rank", "document", "score", "true grade", left=("true grade",))
    for position, i in enumerate(order[:_SHOWN], start=1):
        shown.add_row(str(position), str(i), f"{scores[i]:.3f}", f"{y[i]} " + "★" * int(y[i]))
    return shown
