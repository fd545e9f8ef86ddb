"""`online-rank demo --clicks`: a ranker that learns only from users' clicks."""

from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from online_rank import PlackettLuce, PositionBias, StreamScaler, SwapRanker
from online_rank.base import ranker_of
from online_rank.metrics import NDCG
from online_rank.stream.clicks import User, user
from online_rank.stream.synth import NoisyTeacher

__all__ = ["run"]

_BARS = "▁▂▃▄▅▆▇█"
_WINDOWS = 40
_K = 10
_USERS = {
    "know what is good": "perfect",
    "want one answer": "navigational",
    "click on anything": "informational",
    "trust the top": "trust",
}


def run(n_queries: int, seed: int) -> None:
    """Run the demonstration: live on a terminal, a few lines in a pipe."""
    console = Console(highlight=False)
    stream = NoisyTeacher(n_queries, n_features=20, n_documents=(10, 40), seed=seed)
    learners = [_Learner(name, user(kind, max_grade=4, seed=seed), seed) for name, kind in _USERS.items()]
    console.print(
        f"[bold]{n_queries:,}[/] queries of 10 to 40 documents; {_K} are shown, users click, the ranker learns.\n"
        "There are no grades. Four rankers start from nothing, each with a different kind of users."
    )
    window = -(-n_queries // _WINDOWS)
    starting = Text("Starting; the first run compiles.", style="dim")
    with Live(starting if console.is_terminal else "", console=console, refresh_per_second=12, transient=True) as live:
        for t, (X, y) in enumerate(stream, start=1):
            for learner in learners:
                learner.meet(X, y, t, starts_window=(t - 1) % window == 0)
            if t % window == 0 and console.is_terminal:
                live.update(_screen(learners, t))
    console.print(_screen(learners, n_queries))
    examination = ", ".join(f"{value:.2f}" for value in learners[-1].bias.examination)
    console.print(
        f"Estimated from their clicks: how often the last users would click on the same document at positions 1 to {_K}:\n"
        f"  {examination}\n"
        "Confidence: how far shown lists follow the scores. 'Keeps': the least expected share of the greedy DCG.\n"
        "Next, your own users: model.show_one(query), then model.learn_one(query, shown.clicked([...])); see the README."
    )


class _Learner:
    """A ranker, its users, and what they have seen."""

    def __init__(self, name: str, who: User, seed: int) -> None:
        self.name = name
        self.user = who
        self.model: Any = StreamScaler() | SwapRanker(PlackettLuce(_K, seed=seed))
        self.bias = PositionBias(_K)
        self.overall = NDCG(k=_K)
        self.windows: list[NDCG] = []

    def meet(self, X: Any, y: Any, t: int, starts_window: bool) -> None:
        """Show a ranking, let the user click, learn."""
        if starts_window:
            self.windows.append(NDCG(k=_K))
        shown = self.model.show_one(X)
        place = {document: -float(p) for p, document in enumerate(shown.order)}
        scores = [place.get(i, -float(_K)) for i in range(len(y))]
        for metric in (self.overall, self.windows[-1]):
            metric.update(y, scores)
        clicks = self.user.clicks(shown, y, t)
        self.bias.update(clicks)
        self.model.learn_one(X, clicks)

    def sparkline(self, low: float, high: float) -> Text:
        """The quality of what was shown over time; each bar is one window of queries."""
        step = (high - low) / (len(_BARS) - 1) or 1.0
        return Text("".join(_BARS[int((window.get() - low) / step + 0.5)] for window in self.windows), style="cyan")


def _screen(learners: list[_Learner], t: int) -> Group:
    """The course of the measure, and figures."""
    values = [window.get() for learner in learners for window in learner.windows if window.n_queries]
    low, high = min(values, default=0.0), max(values, default=1.0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("users who")
    table.add_column(f"NDCG@{_K} of lists shown, {low:.2f} to {high:.2f}")
    for heading in ("so far", "lately"):
        table.add_column(heading, justify="right", style="bold")
    for heading in ("confidence", "keeps at least"):
        table.add_column(heading, justify="right")
    for learner in learners:
        ranker = ranker_of(learner.model)
        figures = learner.overall.get(), learner.windows[-1].get()
        price = f"{ranker.confidence:.2f}", f"{ranker.retention:.2f}"
        table.add_row(learner.name, learner.sparkline(low, high), *(f"{value:.3f}" for value in figures), *price)
    return Group("", table, Text(f"{t:,} queries", style="dim"))
