"""Click logs in tables: each row is a document of a shown list, or another candidate."""

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from online_rank import arguments
from online_rank.base.draws import counted_generator
from online_rank.feedback import Clicks, Impression
from online_rank.feedback.exploring import FEW, HELD_BACK
from online_rank.query import ONE, Block, single
from online_rank.stream.lists import Lists
from online_rank.stream.plan import Options, Plan, options_of, plan_of, usual_missing
from online_rank.stream.reader import context_of, documents_of
from online_rank.stream.roles import COMMON, recognised
from online_rank.stream.rows import Rows
from online_rank.stream.source import ReadError, ReadWarning
from online_rank.stream.tables import Table
from online_rank.stream.ubi import SESSION, TEXT, TIME, USER, UbiLog, is_ubi

_KINDS = ("above", "place")
Repeated: TypeAlias = Literal["error", "auto", "group"]
#: This many first lists show whether positions begin at 0.
_FIRST_LISTS, _FEWEST_LISTS = 100, 10


class ClickedLists(Lists, Iterator[tuple[Block, Clicks]]):
    """The lists of a log, one after the other; what `read_clicks` returns.

    Attributes
    ----------
    plan : Plan
        The roles of the columns.
    n_lists : int
        Number of lists before the next one.
    n_empty : int
        Number of groups of rows without a position, which are not lists and are left out.
    n_late : int
        Number of events left out because they came after the window of their list.
    where : str
        The table and the row where the last list began.
    """

    def __init__(
        self, sources: Sequence[Any], options: Options, events: Mapping[str, float] | None, kind: str, window: float | None
    ) -> None:
        super().__init__(sources, options, planned=_planned)
        self.n_lists = self.n_empty = self.n_late = 0
        self.where = ""
        self._events, self._kind, self._window = events, kind, window
        self._found = _from_one(self.lists(), str(self.plan.of("position")))

    def __next__(self) -> tuple[Block, Clicks]:
        for _, rows in self._found:
            try:
                made = self._list(rows)
            except ReadError as error:
                self._leave_out(str(error))
                continue
            if made is not None:
                self.n_lists += 1
                self.where = rows.where(0)
                return made
            self.n_empty += 1
        raise StopIteration

    def _list(self, rows: Rows) -> tuple[Block, Clicks] | None:
        """The query of a list, and its clicks; None if nothing was shown."""
        rows = self._in_window(rows)
        positions = [
            _position(value, partial(rows.where, i)) for i, value in enumerate(rows.more[str(self.plan.of("position"))])
        ]
        gains = [self._gain(value, partial(rows.where, i)) for i, value in enumerate(rows.more[str(self.plan.of("click"))])]
        rows, positions, gains = self._one_each(rows, positions, gains)
        X, docids, more, where = rows.X, rows.docids, rows.more, rows.where
        if self._options.missing == "zero" and (absent := np.isnan(X)).any():
            X = np.where(absent, 0.0, X)
            self._warn_of_missing(rows)
        shown = sorted((i for i, position in enumerate(positions) if position), key=lambda i: positions[i] or 0)
        for i, position in enumerate(positions):
            if not position and gains[i] > 0.0 and (shown or position == 0):
                what = f"document {docids[i]!r:.60} was clicked, but its position, {position}, says it was not shown"
                raise ReadError(f"{where(i)}: {what}; positions begin at 1")
        if not shown:
            return None
        for i, j in pairwise(shown):
            if positions[i] == positions[j]:
                what = f"documents {docids[i]!r:.60} and {docids[j]!r:.60} are both at position {positions[i]}"
                raise ReadError(f"{where(j)}: {what} ({where(i)}); over several pages, positions count on")
        # Documents with equal scores keep their order. Rankers would seem to foresee the order of the list shown.
        by_id = sorted(range(len(docids)), key=docids.__getitem__)
        ids = tuple(docids[i] for i in by_id)
        at = rows.times[:1] if self._options.timed and rows.times is not None else None
        context = context_of(rows, self.plan)
        features: dict[str, Any] = {"X": X[by_id], "names": rows.names}
        if self.plan.categories:
            documents = documents_of(rows._replace(X=X), self.plan)
            features = {"X": [documents[i] for i in by_id], "form": dict}
        x = Block(**features, y=None, offsets=single(len(ids)), w=ONE, ids=ids, context=context, at=at)
        propensity = self.plan.of("propensity")
        chances = None if propensity is None else tuple(more[propensity][i] for i in shown)
        try:
            impression = self._impression([docids[i] for i in shown], [int(positions[i] or 0) for i in shown], ids, chances)
            return x, Clicks(impression, tuple(gains[i] for i in shown))
        except (TypeError, ValueError) as error:
            raise ReadError(f"{where(0)}, the list that begins there: {error}") from None

    def _in_window(self, rows: Rows) -> Rows:
        """The rows of events until the window that begins with the first one ends."""
        if self._window is None or rows.times is None:
            return rows
        early = np.flatnonzero(rows.times <= rows.times.min() + self._window)
        self.n_late += len(rows.docids) - len(early)
        return rows.taken(early, rows.qids[0]) if len(early) < len(rows.docids) else rows

    def _one_each(
        self, rows: Rows, positions: list[int | None], gains: list[float]
    ) -> tuple[Rows, list[int | None], list[float]]:
        """One row for each document: of several events on it the first one with a position, with the largest gain."""
        of: dict[str, int] = {}
        for i, docid in enumerate(rows.docids):
            first = of.setdefault(docid, i)
            if not docid:
                raise ReadError(f"{rows.where(i)}: {self.plan.of('document')!r}, the document, is missing")
            if first != i and self._events is None:
                what = f"document {docid!r:.60} stands twice in its list (rows that are events need events=, --event)"
                raise ReadError(f"{rows.where(i)}: {what}")
            if positions[first] is None and positions[i] is not None:
                of[docid], gains[i] = i, max(gains[first], gains[i])
            elif positions[i] not in (None, positions[first]):
                what = (
                    f"document {docid!r:.60} stands at position {positions[first]} and at position {positions[i]} of its list"
                )
                raise ReadError(f"{rows.where(i)}: {what}")
            else:
                gains[first] = max(gains[first], gains[i])
        if len(of) == len(rows.docids):
            return rows, positions, gains
        kept = sorted(of.values())
        return rows.taken(np.array(kept), rows.qids[0]), [positions[i] for i in kept], [gains[i] for i in kept]

    def _impression(self, order: list[str], positions: list[int], ids: Sequence[str], chances: Any) -> Impression:
        fields: dict[str, Any] = {"positions": None if positions == [*range(1, len(order) + 1)] else tuple(positions)}
        if self._kind == "shuffled":
            held_back = self._held_back(order, ids)
            return Impression.shuffled(tuple(order), len(ids), held_back=held_back, **fields)
        if chances is not None:
            fields["propensities" if self._kind == "above" else "placements"] = chances
        return Impression(tuple(order), **fields)

    def _held_back(self, order: Sequence[str], candidates: Sequence[str]) -> tuple[str, ...]:
        """Candidates to compare a short list with, in random order: those that it might have shown next."""
        others = [document for document in candidates if document not in order]
        if len(order) > FEW or not others:
            return ()
        drawn = counted_generator(self, 0, self.n_lists).permutation(len(others))[:HELD_BACK]
        return tuple(others[i] for i in drawn.tolist())

    def _gain(self, value: Any, where: Any) -> float:
        if value is None or value != value or value == "":
            return 0.0
        name = value if isinstance(value, str) else f"{float(value):g}"  # codes of events may be numbers
        if self._events is None:
            try:
                return float(value)
            except ValueError:
                told = "no events are given: say what each is worth, events= (--event NAME=VALUE)"
        elif name in self._events:
            return float(self._events[name])
        else:
            told = f"events has {', '.join(map(repr, self._events))}"
        raise ReadError(f"{where()}: {name!r:.60} in column {self.plan.of('click')!r} has no value: {told}")


def _planned(table: Table, options: Options) -> Plan:
    """The roles of the columns. A role that nobody has named is looked for by common names, which a warning tells."""
    named = dict(options.named)
    taken = {*filter(None, named.values()), *options.context, *options.exclude}
    found = {}
    for role in COMMON:
        column = named[role]
        if column is None or (role == "propensity" and column == role and column not in table.kinds):
            if role == "propensity" and column is None:
                continue
            named[role] = recognised(table.kinds, role, taken) or role
            taken.add(str(named[role]))
            found[role] = str(named[role])
    for role in ("position", "click", "propensity"):
        if table.kinds.get(str(named[role])) == "time":
            remedy = ": make it 1 where there was a click, and 0 elsewhere" * (role == "click")
            raise ValueError(f"{table.name}: column {named[role]!r}, the {role}, holds times, and numbers are wanted{remedy}")
    if told := [f"{column!r} is the {role}" for role, column in found.items() if column != role and column in table.kinds]:
        warnings.warn(f"{table.name}: recognised by their names: {', '.join(told)}", ReadWarning, stacklevel=5)
    return plan_of(table, named, options)


def _position(value: float, where: Any) -> int | None:
    """A position; None for a missing one. Raises ReadError for anything but 0, 1, 2, ..."""
    if value != value:
        return None
    if not value.is_integer() or value < 0:
        raise ReadError(f"{where()}: position is {value:g}; it is an integer from 1 on, or missing for what was not shown")
    return int(value)


def _from_one(lists: Iterator[tuple[str, Rows]], column: str) -> Iterator[tuple[str, Rows]]:
    """The same lists. Raises ReadError if positions seem to begin at 0: each of the first lists has exactly one row there."""
    first = list(islice(lists, _FIRST_LISTS))
    if len(first) >= _FEWEST_LISTS and all(rows.more[column].count(0) == 1 for _, rows in first):
        raise ReadError(
            f"{first[0][1].where(0)}: each of the first {len(first)} lists has exactly one row at position 0. Positions begin "
            "at 1: add 1 to all; if these documents were not shown, leave their positions empty"
        )
    yield from chain(first, lists)


def read_clicks(
    *sources: Any,
    query: str | None = None,
    document: str | None = None,
    position: str | None = None,
    click: str | None = None,
    events: Mapping[str, float] | None = None,
    propensity: str | None = None,
    propensity_of: str = "above",
    shuffled: bool = False,
    event_time: str | None = None,
    window: float | None = None,
    features: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    context: Sequence[str] = (),
    missing: str | None = None,
    model: Any = None,
    repeated_qid: Repeated = "error",
    skip_bad: float = 0.0,
) -> ClickedLists:
    """Read a log of clicks: `for x, clicks in read_clicks("log.parquet"): model.learn_one(x, clicks)`.

    The rows of one list are contiguous. Lists are read in the order of the file, which should be by time. Several tables are
    read one after the other, and a list may continue in the next one. The attribute `plan` of the result says which columns
    are features, which are left out, and why.

    Where `events` have values, a document may have several rows in its list, one for each event: its impression, clicks, a
    purchase. Its features come from the first row with a position, and its gain is the largest, as in a service.

    Files of UBI 1.3 (User Behavior Insights) are recognised by their fields: queries and events are joined by the id of the
    query, lists come in the order of time, and the columns are called `query`, `document`, `position`, `click`, `time`,
    `user_query`, `session` and `user` (the id of the user, or of the client). Attributes of the object of an impression are
    features. All is read into memory. Warnings count the events that are left out.

    Parameters
    ----------
    *sources
        Files and frames, as for `read`.
    query
        The column that tells lists apart, such as the ids of requests: consecutive rows with the same value are a list. A value
        must not come back later: all are kept in memory, about 100 bytes each, to check this. None for this column and the next
        three: `query`, `document`, `position` and `click`, or else common names, such as `session_id`, `job_id`, `rank` and
        `clicked`, which a warning tells.
    document
        The column of document ids.
    position
        The column of positions on the page, from 1; missing or 0 for candidates that were not shown. Gaps are advertisements,
        pinned documents and anything else that was not ranked.
    click
        The column of clicks: a number >= 0, whether the document was clicked, or the name of an event; missing is 0.
    events
        The value of each event by its name in the column `click`, such as `{"none": 0, "click": 1, "purchase": 3}`. For UBI,
        `{"click": 1, "click_through": 1}` without it, and an event without a value is left out.
    propensity
        The column of the probability of the document at its position; None if the log lacks it.
    propensity_of
        The kind of probability: `"above"`, given the documents above it; `"place"`, the marginal probability at this position.
    shuffled
        Whether each list was in uniformly random order, drawn from all its candidates in the table. With a list of one or two
        documents, up to four of the other candidates are held back, in random order.
    event_time
        The column of times: a date, a time, or a number. Lists must be in their order.
    window
        Seconds after the first row of a list for which its events count; needs `event_time`. None: all count.
    features
        The columns that are features, none of them for an empty list; None for all other columns of numbers and booleans,
        except the index of a pandas frame, and names of outcomes.
    exclude
        Columns that are not features.
    context
        The columns with what is known of the query itself, such as who asked: the same in all rows of a list.
    missing
        How to treat missing values of features: `"zero"` reads 0, `"keep"` keeps NaN, for models that take it, and `"error"`
        refuses them. None keeps them for a `model` that takes them, and reads 0 without one.
    model
        A model that has learned: the features are those that it has learned from, as far as they are there.
    repeated_qid
        `"group"` reads everything first, joins the rows of each list, and sorts lists by time, if `event_time` is given: for
        logs in which a click comes after the rows of other lists. `"error"` refuses them. `"auto"` looks at the first rows.
    skip_bad
        The share of lists that may be left out because a row of theirs cannot be read (see `read`).

    Returns
    -------
    ClickedLists
        Yields (x, clicks): x is a `Block` of all candidates in the order of their ids, with features by name; clicks are the
        `Clicks` on the documents shown. Groups of rows without any position are left out, and counted in `n_empty`.

    Raises
    ------
    TypeError, ValueError
        A column is missing or has two roles, a list comes back or is older than the one before it, a document or position
        occurs twice in a list, positions begin at 0, or a value is out of range. The message names the table and the row.

    Examples
    --------
    >>> import pyarrow
    >>> from online_rank.stream import read_clicks
    >>> log = pyarrow.table(
    ...     {
    ...         "query": [1, 1, 1],
    ...         "document": ["a", "b", "c"],
    ...         "position": [3, 1, None],
    ...         "click": [True, False, False],
    ...         "bm25": [2.0, 5.0, 1.0],
    ...     }
    ... )
    >>> x, clicks = next(read_clicks(log))
    >>> clicks.impression.order, clicks.impression.positions, clicks.gains
    (('b', 'a'), (1, 3), (0.0, 1.0))
    >>> x.ids, x.names, x.X.tolist()
    (('a', 'b', 'c'), ('bm25',), [[2.0], [5.0], [1.0]])
    """
    arguments.choice("propensity_of", propensity_of, _KINDS)
    arguments.choice("missing", missing, ("zero", "keep", "error"), optional=True)
    arguments.choice("repeated_qid", repeated_qid, get_args(Repeated))
    arguments.flag("shuffled", shuffled)
    if shuffled and propensity is not None:
        raise ValueError("shuffled lists have known propensities: leave propensity out")
    arguments.number("skip_bad", skip_bad, 0.0, 1.0)
    arguments.number("window", window, above=0.0, optional=True)
    for name, value in (events or {}).items():
        arguments.number(f"the value of event {name!r}", value, low=0.0)
    if len(sources) and (isinstance(sources[0], UbiLog) or is_ubi(sources)):
        log = sources[0] if isinstance(sources[0], UbiLog) else UbiLog(sources, events)
        if log is not sources[0] and log.lines:
            warnings.warn(f"{log.name}: {'; '.join(log.lines)}", ReadWarning, stacklevel=2)
        sources, events, event_time = (log,), log.events, TIME
        query, document, position, click = query or "query", document or "document", position or "position", click or "click"
        exclude = [*exclude, *(name for name in (TEXT, SESSION, USER) if name not in context)]
    if window is not None and event_time is None:
        raise ValueError("window needs the column of times, event_time= (--event-time)")
    named = {"query": query, "document": document, "position": position, "click": click, "propensity": propensity}
    options = options_of(
        model, {**named, "event time": event_time}, features, exclude, context, missing=missing or usual_missing(model, "zero"),
        tells_missing=missing is None and model is not None, repeated_qid=repeated_qid, skip_bad=skip_bad,
    )  # fmt: skip
    return ClickedLists(sources, options, events, "shuffled" if shuffled else propensity_of, window)
