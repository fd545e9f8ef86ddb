"""`online-rank demo hybrid`: retrievers, and users whose clicks teach how to fuse them."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from online_rank import PlackettLuce, RunFeatures, SwapRanker
from online_rank.base import ranker_of
from online_rank.cli.demo_search import Asked, Search, search
from online_rank.metrics import NDCG
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.rules import FAST_SWAP_BEGINNING, rule_weights
from online_rank.stream.clicks import user

__all__ = ["model", "run"]

_BARS = "▁▂▃▄▅▆▇█"
_WINDOWS = 40
_K = 10


def model(runs: Sequence[str], seed: int) -> Any:
    """A ranker that begins as the mean of min-max scores, shows lists drawn around it, and learns from their clicks."""
    ranker = SwapRanker.from_rule("minmax", runs, policy=PlackettLuce(_K, seed=seed), **FAST_SWAP_BEGINNING)
    return RunFeatures(runs, parts=("minmax",)) | ranker


def run(n_queries: int, seed: int) -> None:
    """Run the demonstration: live on a terminal, one table in a pipe."""
    console, searched = Console(highlight=False), search(seed)
    settings = ", ".join(f"{name}={value:g}" for name, value in FAST_SWAP_BEGINNING.items())
    console.print(
        f"{searched.about}\n"
        "Today they are fused by the mean of min-max scores. Users click on what is shown; their clicks teach weights.\n"
        f"They move fast here ({settings}), and by default more slowly: docs/hybrid.md."
    )
    learner, window = _Learner(searched, seed), max(1, -(-n_queries // _WINDOWS))
    starting = Text("Starting; the first run compiles.", style="dim")
    with Live(starting if console.is_terminal else "", console=console, refresh_per_second=12, transient=True) as live:
        for t, asked in zip(range(1, n_queries + 1), searched, strict=False):
            learner.meet(asked, t, starts_window=(t - 1) % window == 0)
            if t % window == 0 and console.is_terminal:
                live.update(_screen(learner, t))
    console.print(_screen(learner, n_queries))
    console.print(
        "Next, your own retrievers: hybrid(['bm25', 'vector']) for grades, SwapRanker.from_rule for clicks: docs/hybrid.md.\n"
        "On a page: online-rank demo hybrid --live"
    )


class _Learner:
    """The model, its users, and how the greedy ranking does beside today's fusion."""

    def __init__(self, searched: Search, seed: int) -> None:
        self.runs = searched.runs
        self.model = model(self.runs, seed)
        self.today = RunFeatures(self.runs, parts=("minmax",)) | FixedRanker(rule_weights("minmax", self.runs))
        self.user = user("navigational", max_grade=searched.best, seed=seed)
        self.learned: list[NDCG] = []
        self.fixed: list[NDCG] = []

    def meet(self, asked: Asked, t: int, starts_window: bool) -> None:
        """Judge both rankings, show a list, let the user click, learn."""
        if starts_window:
            self.learned.append(NDCG(k=_K))
            self.fixed.append(NDCG(k=_K))
        self.learned[-1].update(asked.grades, self.model.predict_one(asked.runs))
        self.fixed[-1].update(asked.grades, self.today.predict_one(asked.runs))
        shown = self.model.show_one(asked.runs)
        self.model.learn_one(asked.runs, self.user.clicks(shown, asked.grades, t))


def _screen(learner: _Learner, t: int) -> Group:
    """The course of both rankings, and the weights of the retrievers beside today's."""
    values = [window.get() for window in (*learner.learned, *learner.fixed)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    course = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    course.add_column("ranking")
    course.add_column(f"NDCG@{_K}, {low:.2f} to {high:.2f}")
    course.add_column("lately", justify="right", style="bold")
    for name, windows in (("learned from clicks", learner.learned), ("today's fusion", learner.fixed)):
        course.add_row(name, _sparkline([window.get() for window in windows], low, high), f"{windows[-1].get():.3f}")
    ranker = ranker_of(learner.model)
    known = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
    total = sum(abs(value) for value in known.values()) or 1.0
    weights = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("retriever", "today", "learned"):
        weights.add_column(heading, justify="left" if heading == "retriever" else "right")
    for name in learner.runs:
        weights.add_row(name, f"{1.0 / len(learner.runs):.2f}", f"{known[f'{name} minmax'] / total:+.2f}")
    return Group("", course, weights, Text(f"{t:,} queries", style="dim"))


def _sparkline(values: list[float], low: float, high: float) -> Text:
    """A bar for each window of queries."""
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return Text("".join(_BARS[int((value - low) / step + 0.5)] for value in values), style="cyan")
