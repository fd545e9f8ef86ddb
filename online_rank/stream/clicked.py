"""Click logs in tables: each row is a document of a shown list, or another candidate."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.draws import counted_generator
from online_rank.feedback import Clicks, Impression
from online_rank.feedback.exploring import FEW, HELD_BACK
from online_rank.query import ONE, Block, single
from online_rank.stream.plan import Options, options_of
from online_rank.stream.reader import Lists, context_of
from online_rank.stream.rows import Rows
from online_rank.stream.source import ReadError

_KINDS = ("above", "place")
#: So many first lists show whether positions begin at 0.
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
    where : str
        The table and the row where the last list began.
    """

    def __init__(self, sources: Sequence[Any], options: Options, events: Mapping[str, float] | None, kind: str) -> None:
        super().__init__(sources, options)
        self.n_lists = self.n_empty = 0
        self.where = ""
        self._events, self._kind = events, kind
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
        X, docids, more, where = rows.X, rows.docids, rows.more, rows.where
        if self._options.missing == "zero":
            X = np.where(np.isnan(X), 0.0, X)
        seen: set[str] = set()
        for i, docid in enumerate(docids):
            if not docid or docid in seen:
                raise ReadError(f"{where(i)}: document {docid!r} is missing, or stands twice in its list")
            seen.add(docid)
        positions = [_position(value, partial(where, i)) for i, value in enumerate(more[str(self.plan.of("position"))])]
        gains = [self._gain(value, partial(where, i)) for i, value in enumerate(more[str(self.plan.of("click"))])]
        shown = sorted((i for i, position in enumerate(positions) if position), key=lambda i: positions[i] or 0)
        for i, position in enumerate(positions):
            if not position and gains[i] > 0.0 and (shown or position == 0):
                what = f"document {docids[i]!r:.60} was clicked, but its position, {position}, says it was not shown"
                raise ReadError(f"{where(i)}: {what}; positions begin at 1")
        if not shown:
            return None
        # Documents with equal scores keep their order. Rankers would seem to foresee that of the list shown.
        by_id = sorted(range(len(docids)), key=docids.__getitem__)
        ids = tuple(docids[i] for i in by_id)
        x = Block(X[by_id], None, single(len(ids)), ONE, ids=ids, names=rows.names, context=context_of(rows, self.plan))
        propensity = self.plan.of("propensity")
        chances = None if propensity is None else tuple(more[propensity][i] for i in shown)
        try:
            impression = self._impression([docids[i] for i in shown], [int(positions[i] or 0) for i in shown], ids, chances)
            return x, Clicks(impression, tuple(gains[i] for i in shown))
        except (TypeError, ValueError) as error:
            raise ReadError(f"{where(0)}, the list that begins there: {error}") from None

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
        if not isinstance(value, str):
            return float(value)
        if self._events is None or value not in self._events:
            given = "no events are given" if self._events is None else f"events has {', '.join(map(repr, self._events))}"
            raise ReadError(f"{where()}: {value!r:.60} in column {self.plan.of('click')!r} has no value: {given}")
        return float(self._events[value])


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
    query: str = "query",
    document: str = "document",
    position: str = "position",
    click: str = "click",
    events: Mapping[str, float] | None = None,
    propensity: str | None = None,
    propensity_of: str = "above",
    shuffled: bool = False,
    event_time: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    context: Sequence[str] = (),
    missing: str = "zero",
    model: Any = None,
    skip_bad: float = 0.0,
) -> ClickedLists:
    """Read a log of clicks: `for x, clicks in read_clicks("log.parquet"): model.learn_one(x, clicks)`.

    The rows of one list are contiguous. Lists are read in the order of the file, which should be that of time. Several tables
    are read one after the other, and a list may go on in the next one. The attribute `plan` of the result says which columns
    are features, which are left out, and why.

    Parameters
    ----------
    *sources
        Files and frames, as for `read`.
    query
        The column that tells lists apart, such as the ids of requests: consecutive rows with the same value are a list. A value
        must not come back later: all are kept in memory, about 100 bytes each, to check this.
    document
        The column of document ids.
    position
        The column of positions on the page, from 1; missing or 0 for candidates that were not shown. Gaps are advertisements,
        pinned documents and anything else that was not ranked.
    click
        The column of clicks: a number >= 0, whether the document was clicked, or the name of an event; missing is 0.
    events
        The value of each event by its name in the column `click`, such as `{"none": 0, "click": 1, "purchase": 3}`.
    propensity
        The column of the probability of the document at its position; None if there is none.
    propensity_of
        The kind of probability: `"above"`, given the documents above it; `"place"`, the marginal probability at this position.
    shuffled
        Whether each list was in uniformly random order, drawn from all its candidates in the table. With a list of one or two
        documents, up to four of the other candidates are held back, in random order.
    event_time
        The column of times: a date, a time, or a number. Lists must be in their order.
    features
        The columns that are features, none of them for an empty list; None for all other columns of numbers and booleans,
        except the index of a pandas frame, and names of outcomes.
    exclude
        Columns that are not features.
    context
        The columns with what is known of the query itself, such as who asked: the same in all rows of a list.
    missing
        How to treat missing values of features: `"zero"` reads 0, `"keep"` keeps NaN, for models that take it, and `"error"`
        refuses them.
    model
        A model that has learned: the features are those that it has learned from, as far as they are there.
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
    arguments.choice("missing", missing, ("zero", "keep", "error"))
    arguments.flag("shuffled", shuffled)
    if shuffled and propensity is not None:
        raise ValueError("shuffled lists have known propensities: leave propensity out")
    arguments.number("skip_bad", skip_bad, 0.0, 1.0)
    for name, value in (events or {}).items():
        arguments.number(f"the value of event {name!r}", value, low=0.0)
    named = {"query": query, "document": document, "position": position, "click": click, "propensity": propensity}
    options = options_of(
        model, {**named, "event time": event_time}, features, exclude, context, missing=missing, skip_bad=skip_bad
    )
    return ClickedLists(sources, options, events, "shuffled" if shuffled else propensity_of)
