"""A log of lists that were shown, and of the clicks on them: where it is, how it is read, and what is in it."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.arguments import seconds_of
from online_rank.cli.advice import counters, leaks
from online_rank.cli.events import events_of
from online_rank.cli.files import histories_of, require_no_time
from online_rank.cli.options import Clicks
from online_rank.cli.positions import examination_in
from online_rank.cli.reading import Reading, check_files
from online_rank.feedback.position_bias import MOST_POSITIONS
from online_rank.support.progress import counted

#: What lists of each origin are learned by, and what is assumed of users.
SAYS = {
    "shuffled": "lists in random order: exchanges of two documents, with no assumption about users",
    "above": "probabilities given the documents above: inverse propensities, for users who read downwards",
    "place": "probabilities of each place: inverse propensities; a click depends on the document and its position alone",
    "moved": "no chance: the effect of positions, which is learned with the features, given, or measured by documents that "
    "moved; it adds to the log odds of a click",
}
#: The number of first lists in which leaks are looked for: few lists have clicks.
_LOOKED_AT = 1000


class ClickLog(NamedTuple):
    """Where the log is, how its lists came about, and its columns.

    Attributes
    ----------
    files
        Tables, in the order of time, or files of UBI.
    origin
        "shuffled", "above", "place" or "moved".
    reading
        The columns, and how to read them.
    click, position, propensity
        The columns of clicks or events, of positions, and of probabilities; None if they are looked for by common names.
    events
        The value of each event by its name.
    window
        Seconds for which events count.
    topic
        The column with what was asked, in which a document is compared with itself.
    examination
        How often each position is looked at, if it is given.
    model
        A model that is compared on the log.
    nested
        The fields of hits and of clicks, in JSON lines with a list each; None for rows of documents.
    shown_on
        The column with the device or the page, whose effect on clicks is learned.
    sources
        What is read in place of the files, which were read before.
    """

    files: Sequence[str]
    origin: str
    reading: Reading
    click: str | None = None
    position: str | None = None
    propensity: str | None = None
    events: dict[str, float] | None = None
    window: float | None = None
    topic: str | None = None
    examination: tuple[float, ...] | None = None
    model: Any = None
    nested: tuple[str, str] | None = None
    shown_on: str | None = None
    sources: Sequence[Any] = ()

    @property
    def is_ubi(self) -> bool:
        """Whether the files are of UBI, which have times."""
        from online_rank.stream.ubi import UbiLog

        return any(isinstance(source, UbiLog) for source in self.sources)

    def on(self, files: Sequence[str]) -> "ClickLog":
        """The log in other files. UBI is read at once; what is left out is a warning."""
        from online_rank.stream import ReadWarning
        from online_rank.stream.ubi import TEXT, UbiLog, is_ubi

        if self.nested is not None:
            from online_rank.stream.nested import NestedLog

            names = self.reading.query, self.reading.document, self.position
            return self._replace(files=files, sources=[NestedLog(files, *self.nested, *names)])
        if not is_ubi(files):
            return self._replace(files=files, sources=files)
        log = UbiLog(files, self.events)
        for line in [f"read as {log.form}", *log.lines]:
            warnings.warn(f"{log.name}: {line}", ReadWarning, stacklevel=2)
        return self._replace(files=files, sources=[log], topic=self.topic or TEXT)

    def reader(self, context: Sequence[str] = ()) -> Any:
        """The lists of all files; with these columns as the context of the query."""
        from online_rank.stream import read_clicks

        context = [*context, *(name for name in (self.shown_on,) if name is not None and name not in context)]
        names = ("query", "document", "event_time", "features", "skip_bad")
        given = {name: getattr(self.reading, name) for name in names} | {"exclude": self.reading.exclude or ()}
        if self.origin in ("above", "place"):
            given["propensity"] = self.propensity or "propensity"
        if self.topic is not None and self.topic not in context:
            given["exclude"] = [*given["exclude"], self.topic]
        if self.reading.dry_run:
            given["skip_bad"] = 1.0
        others = ("click", "position", "events", "window", "model")
        given |= {name: getattr(self, name) for name in others} | {"shuffled": self.origin == "shuffled", "context": context}
        if self.nested is not None:
            given |= dict.fromkeys(("query", "document", "position", "click"))  # the names that `NestedLog` gives
        of = "place" if self.origin == "place" else "above"
        return read_clicks(*self.sources, **given, propensity_of=of, repeated_qid="auto")

    def watched(self, label: str, shown: bool | None, context: Sequence[str] = ()) -> Iterator[tuple[Any, Any]]:
        """The lists of all files, with a bar that counts them."""
        with counted(self.reader(context), label, "lists", shown) as lists:
            yield from lists

    def examined(self, shown: bool | None) -> "Seen":
        """Read the whole log before anything is done with it.

        Raises
        ------
        ValueError
            Its lists contradict their declared origin (`OriginTest`), or nothing can be learned from them.
        """
        from online_rank.feedback import OriginTest

        lists, test = self.reader(), OriginTest()
        clicked, documents, with_gaps, longest, deepest, largest = 0, 0, 0, 0, 0, 1.0
        names = _numbers(lists.plan)
        with counted(lists, "examining the log", "lists", shown) as each:
            for x, clicks in each:
                given = clicks.impression
                X = None if self.origin == "moved" else _values_of(x, names)
                test.update(tuple(x.ids), given, X, lists.where)
                clicked += clicks.any
                documents += len(given.order)
                with_gaps += given.positions is not None
                longest = max(longest, len(given.order))
                deepest = max(deepest, longest, *(given.positions or ()))
                largest = max(largest, *clicks.gains)
        test.finish(moved=self.examination is None)
        return Seen(test.n, clicked, documents, with_gaps, test.n_alone, lists.n_late, lists.n_empty, longest, deepest, largest)

    def without_leaks(self) -> tuple["ClickLog", list[str]]:
        """The log without features that leak the clicks, unless the user named the features; and what was found, in lines."""
        lists = self.reader()
        plan, clicked, shown = lists.plan, [], []
        names = _numbers(plan)
        # Levels by number, in the order in which they come: "no" and "yes" are 0 and 1.
        texts = [name for name in plan.features if plan.kinds[name] == "text" and name not in plan.texts]
        levels: dict[str, dict[Any, int]] = {name: {} for name in texts}
        for x, clicks in itertools.islice(lists, _LOOKED_AT):
            order = clicks.impression.order
            rows = [x.ids.index(document) for document in order]
            X = _values_of(x, names)[rows]
            coded = [[code.setdefault(x.X[i].get(name), len(code)) for name, code in levels.items()] for i in rows]
            clicked.append((np.hstack([X, coded]), np.unique(clicks.gains, return_inverse=True)[1]))
            shown.append((X, np.arange(len(order))[::-1]))
        if not clicked:
            return self, []
        lines = counters(np.concatenate([X for X, _ in shown]), names)
        if found := leaks(shown, names):
            lines.append(
                f"a feature alone gives the order shown: {', '.join(found.values())}. If it is made from the position, leave "
                "it out (--exclude COLUMN)"
            )
        found = leaks(clicked, [*names, *levels])
        if not found:
            return self, lines
        lines.append(f"a feature alone foretells the clicks, as what is known only after them: {', '.join(found.values())}")
        if self.reading.features is not None:
            return self, lines
        lines[-1] += "; left out (name the features to use it)"
        return self._replace(reading=self.reading._replace(exclude=[*(self.reading.exclude or ()), *found])), lines


def _numbers(plan: Any) -> list[str]:
    """The features that are numbers, or true or false."""
    return [name for name in plan.features if not plan.categories or plan.kinds[name] in ("number", "boolean")]


def _values_of(x: Any, names: Sequence[str]) -> np.ndarray:
    """These features of the documents of a query, (m, d); missing ones are 0."""
    if isinstance(x.X, np.ndarray):
        return np.nan_to_num(x.X)
    return np.nan_to_num(np.array([[float(own.get(name) or 0.0) for name in names] for own in x.X]).reshape(len(x.X), -1))


class Seen(NamedTuple):
    """What is in a log.

    Attributes
    ----------
    lists, clicked, documents, with_gaps, alone, late, empty
        Numbers of lists: all, and with a click; of documents shown; of lists with gaps, and with one candidate; of events
        left out because they came after the window of their list; and of lists left out because no row has a position.
    longest, deepest
        The most documents of a list, and the lowest position.
    largest
        The largest gain, at least 1.
    """

    lists: int
    clicked: int
    documents: int
    with_gaps: int
    alone: int
    late: int
    empty: int
    longest: int
    deepest: int
    largest: float

    def scaled(self, clicks: Any) -> Any:
        """The same clicks, with gains as fractions of the largest."""
        return type(clicks)(clicks.impression, tuple(gain / self.largest for gain in clicks.gains))


def read_as(files: Sequence[str], log: Clicks, reading: Reading) -> ClickLog:
    """A log of clicks, as the options of a command name its columns."""
    events = events_of(log.event) if log.event else None
    window = None if log.feedback_window is None else seconds_of(log.feedback_window, "--feedback-window")
    check_files(files)
    if "-" in files:
        raise ValueError("a log of clicks is read several times: give a file in place of standard input")
    examination = examination_in(log.examination)
    if log.propensity is not None and str(log.clicks) not in ("above", "place"):
        raise ValueError("--propensity is for --clicks above and place")
    if (log.hits is None) != (log.clicked is None):
        raise ValueError("--hits and --clicked go together: the fields of a list's hits and of the clicks on them")
    for option, of_rows in (("--click", log.click), ("--event", log.event)):
        if log.hits is not None and of_rows:
            raise ValueError(f"{option} is for logs of rows; --clicked names the clicks on --hits, which count 1 each")
    nested = None if log.hits is None or log.clicked is None else (log.hits, log.clicked)
    columns = log.click, log.position, log.propensity
    made = ClickLog(files, str(log.clicks), reading, *columns, events, window, log.topic, examination)
    return made._replace(nested=nested, shown_on=log.shown_on).on(files)


def check_history(log: ClickLog, history: Sequence[str] | None, passes: int = 1) -> None:
    """Raise ValueError if a `--history` cannot be read, lacks times, or would count clicks twice."""
    made = histories_of(history)
    if log.reading.event_time is None and not log.is_ubi:
        require_no_time(made)
    if made and passes > 1:
        raise ValueError("--history counts each click once: leave out --passes")


def compared(log: ClickLog, k: int, shown: bool | None) -> Any:
    """The clicks on the same documents at different positions, the first k, as a `NaturalVariation`."""
    from online_rank.feedback import NaturalVariation

    positions, context = NaturalVariation(k=min(k, MOST_POSITIONS)), [] if log.topic is None else [log.topic]
    n_lists = n_without = 0
    for x, clicks in log.watched("measuring the examination of positions", shown, context):
        topic = x.context[0][log.topic] if context else None
        n_lists += 1
        if context and topic is None:
            n_without += 1  # it is not known with which lists it can be compared
        else:
            positions.update(topic, clicks)
    require_texts(log.topic, n_lists, n_without)
    return positions


def require_texts(topic: str | None, n_lists: int, n_without: int) -> None:
    """Raise ValueError if all lists are without a text, in the column `topic`."""
    if n_without and n_without == n_lists:
        raise ValueError(
            f"none of {n_lists:,} lists has a text in column {topic!r}, and clicks are compared within one text: name another "
            "column (--topic), or give the queries of UBI with its events"
        )
