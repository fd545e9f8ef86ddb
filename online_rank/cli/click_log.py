"""`online-rank train --clicks`: a model from a log of lists that were shown, and of the clicks on them."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from online_rank.cli.events import events_of
from online_rank.cli.files import refuse_overwriting
from online_rank.cli.options import Clicks, Output
from online_rank.cli.reading import Reading, warnings_as_lines
from online_rank.cli.train import scaled
from online_rank.support.progress import progress

__all__ = ["SAYS", "ClickLog", "examination_of", "learn", "learner_for", "read_as"]

#: What lists of each origin are learned by, and what is assumed of users.
SAYS = {
    "shuffled": "lists in random order: exchanges of two documents, with no assumption about users",
    "above": "probabilities given the documents above: propensities, for users who read downwards",
    "place": "probabilities of each place: propensities; a click depends on the document and its position alone",
    "moved": "no chance, but documents that moved: the examination of positions as measured first; "
    "a click means that the position was looked at and the document attracts",
}


class ClickLog(NamedTuple):
    """Where the log is, how its lists came about, and its columns.

    Attributes
    ----------
    files
        Tables, in the order of time.
    origin
        "shuffled", "above", "place" or "moved".
    columns
        The options of `iter_impressions` for columns and events.
    topic
        For "moved": the column with what was asked, in which a document is compared with itself.
    """

    files: Sequence[str]
    origin: str
    columns: dict[str, Any]
    topic: str | None = None

    def reader(self, with_topic: bool = False) -> Any:
        """The lists of all files; with the topic as the context of the query, or without it."""
        from online_rank.stream import iter_impressions

        columns = dict(self.columns)
        if self.origin in ("above", "place"):
            columns["propensity"] = "propensity"
        if self.topic is not None:
            key = "context" if with_topic else "exclude"
            columns[key] = [*columns.get(key, ()), self.topic]
        kind = "place" if self.origin == "place" else "above"
        return iter_impressions(*self.files, **columns, shuffled=self.origin == "shuffled", propensity_of=kind)

    def watched(self, label: str, shown: bool | None, with_topic: bool = False) -> Iterator[tuple[Any, Any]]:
        """The lists of all files, with a bar that counts them."""
        with progress(label, unit="lists", shown=shown) as bar:
            for number, one in enumerate(self.reader(with_topic), start=1):
                yield one
                bar(number)


def read_as(files: Sequence[str], log: Clicks, reading: Reading, topic: str | None = None) -> ClickLog:
    """A log of clicks, as the options of a command name its columns."""
    columns: dict[str, Any] = {"query": reading.query or "query", "document": reading.document or "document"}
    columns |= {"features": reading.features, "exclude": reading.exclude or (), "event_time": reading.event_time}
    columns["events"] = events_of(log.event) if log.event else None
    return ClickLog(files, str(log.clicks), columns, topic)


@dataclass
class _Seen:
    """What was met in the log."""

    lists: int = 0
    clicked: int = 0
    documents: int = 0
    with_gaps: int = 0
    first: float = 0.0
    value: Any = None

    def notice(self, clicks: Any) -> None:
        self.lists += 1
        self.clicked += any(gain > 0.0 for gain in clicks.gains)
        self.documents += len(clicks.gains)
        self.with_gaps += clicks.impression.positions is not None
        self.first += clicks.gains[0]

    def to_dict(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in ("lists", "clicked", "documents", "with_gaps")}
        figures["gain_first"] = self.first / self.lists if self.lists else math.nan
        return figures


def learn(log: ClickLog, scale: str, output: Output) -> None:
    """Learn a model from a log of clicks, say from what, and save it."""
    with warnings_as_lines(output.warn):
        _learn(log, scale, output)


def _learn(log: ClickLog, scale: str, output: Output) -> None:
    from online_rank.storage.files import require_replaceable, save

    if not log.files:
        raise ValueError("--clicks needs a table to learn from")
    if log.topic is not None and log.origin != "moved":
        raise ValueError("--topic is for --clicks moved")
    if output.save is not None:
        refuse_overwriting("--save", output.save, log.files)
        require_replaceable(output.save)
    for line in log.reader().plan.in_words():
        output.warn(line)
    shown = False if output.quiet or output.json else None
    examination = examination_of(log, shown) if log.origin == "moved" else None
    ranker, options = learner_for(log.origin, examination)
    model = scaled(ranker(**options), scale)
    seen = _taught(model, log, shown)
    report: dict[str, Any] = {"files": list(log.files), "origin": log.origin, **seen.to_dict()}
    if examination is not None:
        report["examination"] = list(examination)
    if seen.value is not None:
        interval = seen.value.interval()
        report["value_first"] = interval._asdict()
    if output.save is not None:
        save(model, output.save)
        report["saved"] = output.save
    if output.json:
        print(json.dumps(report))
    elif not output.quiet:
        _print(report)


def learner_for(origin: str, examination: tuple[float, ...] | None) -> tuple[Any, dict[str, Any]]:
    """The class of the ranker for lists of this origin, and the arguments of its constructor."""
    from online_rank import ClickPerceptron, SwapRanker

    if origin == "shuffled":
        return SwapRanker, {}
    return ClickPerceptron, {"credit": "propensity", "examination": examination}


def examination_of(log: ClickLog, shown: bool | None) -> tuple[float, ...]:
    """How often each position is examined, from the same documents at different positions."""
    from online_rank.feedback import NaturalVariation

    k = 1
    for _, clicks in log.watched("counting positions", shown):
        k = max(k, len(clicks.impression.order), *(clicks.impression.positions or ()))
    positions = NaturalVariation(k=k)
    for x, clicks in log.watched("measuring the examination of positions", shown, log.topic is not None):
        positions.update(None if log.topic is None else x.context[0][log.topic], clicks)
    return positions.examination


def _taught(model: Any, log: ClickLog, shown: bool | None) -> _Seen:
    """Teach the model the log; returns what was met, with the value of its rankings where the log tells it."""
    from online_rank.metrics import OffPolicyValue

    seen = _Seen(value=OffPolicyValue() if log.origin != "moved" else None)
    for x, clicks in log.watched("learning from clicks", shown):
        if seen.value is not None and max(clicks.gains) > 1.0:
            seen.value = None
        if seen.value is not None:
            seen.value.update(clicks, model.rank_one(x))
        model.learn_one(x, clicks)
        seen.notice(clicks)
    if not seen.lists:
        raise ValueError("the log has no lists: no row has a position")
    return seen


def _print(report: dict[str, Any]) -> None:
    """The figures for people."""
    console = Console(highlight=False)
    console.print(
        f"[bold]{report['lists']:,}[/] lists of {report['documents']:,} documents, {report['clicked']:,} lists with a click"
        + (f", {report['with_gaps']:,} with gaps" if report["with_gaps"] else "")
    )
    console.print(f"learned from {SAYS[report['origin']]}")
    if "examination" in report:
        console.print("examination of positions 1, 2, ...: " + ", ".join(f"{theta:.3f}" for theta in report["examination"]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("gain of the first document, per list")
    table.add_column("mean", justify="right", style="bold")
    table.add_row("as shown", f"{report['gain_first']:.4f}")
    if value := report.get("value_first"):
        about = f"{value['mean']:.4f} ({value['lower']:.4f} to {value['upper']:.4f})"
        table.add_row("each list ranked by the model, then learned", about)
    console.print(table)
    if "value_first" in report:
        console.print("In brackets, a 95 % interval from the lists that begin as the model would (OffPolicyValue).")
    if "saved" in report:
        console.print(f"saved to [bold]{report['saved']}[/]")
