"""Click logs in tables: each row is a document of a shown list, or another candidate."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.arguments import choice
from online_rank.base.draws import counted_generator
from online_rank.feedback import Clicks, Impression
from online_rank.feedback.policies import FEW, HELD_BACK
from online_rank.query import read_query
from online_rank.stream.columns import TablePlan, plan_roles, require_names
from online_rank.stream.table_order import QueryOrder, notice_new_columns
from online_rank.stream.table_rows import as_text, require_queries, times_of
from online_rank.stream.table_sources import Frame, batches_of
from online_rank.stream.table_text import TableError

_KINDS = ("above", "place")
_ROWS = 8192
#: So many first lists show whether positions begin at 0.
_FIRST_LISTS, _FEWEST_LISTS = 100, 10


class _Row(NamedTuple):
    """A row of a log, as it stands there."""

    where: str
    document: Hashable
    position: Any
    click: Any
    propensity: Any
    features: tuple[Any, ...]
    context: tuple[Any, ...]


class ImpressionIterator(Iterator[tuple[Any, Clicks]]):
    """The lists of a log, one after the other; what `iter_impressions` returns.

    Attributes
    ----------
    plan : TablePlan
        The roles of the columns.
    n_lists : int
        Number of lists before the next one.
    n_empty : int
        Number of groups of rows without a position, which are not lists and are left out.
    where : str
        The table and the row where the last list began.
    """

    def __init__(self, sources: Sequence[Any], plan: TablePlan, events: Mapping[str, float] | None, kind: str) -> None:
        self.plan = plan
        self.n_lists = self.n_empty = 0
        self.where = ""
        self._events, self._kind = events, kind
        self._lists = _from_one(self._grouped(sources))

    def __next__(self) -> tuple[Any, Clicks]:
        for rows in self._lists:
            made = self._list(rows)
            if made is not None:
                self.n_lists += 1
                self.where = rows[0].where
                return made
            self.n_empty += 1
        raise StopIteration

    def _grouped(self, sources: Sequence[Any]) -> Iterator[list[_Row]]:
        """The rows of each list, which may go on in the next table."""
        order = QueryOrder("error", self.plan)
        time, query = self.plan.of("event time"), str(self.plan.of("query"))
        pieces: list[_Row] = []
        current = ""
        for frame in chain.from_iterable(batches_of(source, self.plan.read, _ROWS).frames() for source in sources):
            qids = [as_text(qid) for qid in require_queries(frame, query).tolist()]
            times = np.zeros(len(qids)) if time is None else times_of(frame, time)
            for i, row in enumerate(self._rows(frame)):
                if qids[i] != current or not pieces:
                    if pieces:
                        yield pieces
                    pieces, current = [], qids[i]
                    order.notice(current, times[i], frame, i)
                pieces.append(row)
        if pieces:
            yield pieces

    def _rows(self, frame: Frame) -> Iterator[_Row]:
        propensity = self.plan.of("propensity")
        roles = [str(self.plan.of(role)) for role in ("document", "position", "click")]
        n, d = len(roles), len(self.plan.features)
        chances = [None] * len(frame.rows) if propensity is None else frame.rows[propensity].to_list()
        rows = frame.rows.select([*roles, *self.plan.features, *self.plan.context]).iter_rows()
        for i, (row, chance) in enumerate(zip(rows, chances, strict=True)):
            yield _Row(frame.where(i), row[0], row[1], row[2], chance, row[n : n + d], row[n + d :])

    def _list(self, rows: list[_Row]) -> tuple[Any, Clicks] | None:
        """The query of a list, and its clicks; None if nothing was shown."""
        x = _documents(rows, self.plan)
        shown: list[_Row] = []
        others: list[_Row] = []
        for row in rows:
            (shown if _is_shown(row) else others).append(row)
        for row in others:
            if (shown or row.position == 0) and self._gain(row) > 0.0:
                what = f"document {row.document!r:.60} was clicked, but its position, {row.position}, says it was not shown"
                raise TableError(f"{row.where}: {what}; positions begin at 1")
        shown.sort(key=lambda row: row.position)
        if not shown:
            return None
        try:
            clicks = Clicks(self._impression(shown, x), tuple(self._gain(row) for row in shown))
            if not self.plan.context:
                return x, clicks
            return read_query(x, context=self._context(rows)), clicks
        except (TypeError, ValueError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(f"{rows[0].where}, the list that begins there: {error}") from None

    def _impression(self, shown: list[_Row], candidates: Collection[Hashable]) -> Impression:
        order = tuple(row.document for row in shown)
        positions = tuple(int(row.position) for row in shown)
        fields: dict[str, Any] = {"positions": None if positions == tuple(range(1, len(order) + 1)) else positions}
        if self._kind == "shuffled":
            return Impression.shuffled(order, len(candidates), held_back=self._held_back(order, candidates), **fields)
        if self.plan.of("propensity") is not None:
            name = "propensities" if self._kind == "above" else "placements"
            fields[name] = tuple(row.propensity for row in shown)
        return Impression(order, **fields)

    def _held_back(self, order: Sequence[Hashable], candidates: Collection[Hashable]) -> tuple[Hashable, ...]:
        """Candidates to compare a short list with, in random order: those that it might have shown next."""
        others = [document for document in candidates if document not in order]
        if len(order) > FEW or not others:
            return ()
        drawn = counted_generator(self, 0, self.n_lists).permutation(len(others))[:HELD_BACK]
        return tuple(others[i] for i in drawn.tolist())

    def _gain(self, row: _Row) -> float:
        value = row.click
        if value is None or value != value:
            return 0.0
        if not isinstance(value, str):
            return float(value)
        if self._events is None or value not in self._events:
            given = "no events are given" if self._events is None else f"events has {', '.join(map(repr, self._events))}"
            raise TableError(f"{row.where}: {value!r:.60} in column {self.plan.of('click')!r} has no value: {given}")
        return float(self._events[value])

    def _context(self, rows: list[_Row]) -> dict[str, Any]:
        """What the rows say of the query, which must be one thing."""
        first = [None if value != value else value for value in rows[0].context]
        for row in rows[1:]:
            for name, one, other in zip(self.plan.context, first, row.context, strict=True):
                if one != (None if other != other else other):
                    what = f"{one!r:.60} and {other!r:.60} in column {name!r}, which is of the query itself"
                    raise TableError(f"{row.where}: its list has {what}")
        return dict(zip(self.plan.context, first, strict=True))


def iter_impressions(
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
) -> ImpressionIterator:
    """Read a log of clicks: `for x, clicks in iter_impressions("log.parquet"): model.learn_one(x, clicks)`.

    The rows of one list are contiguous. Lists are read in the order of the file, which should be that of time. Several tables
    are read one after the other, and a list may go on in the next one. The attribute `plan` of the result says which columns
    are features, which are left out, and why.

    Parameters
    ----------
    *sources
        Paths of csv or Parquet files, or tables in memory, as for `iter_table`.
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
        except the index of a pandas frame, and names of outcomes (`plan_columns`).
    exclude
        Columns that are not features.
    context
        The columns with what is known of the query itself, such as who asked: the same in all rows of a list.
    missing
        How to treat missing values of features: `"zero"` leaves them out, which counts as 0; `"error"` refuses them.

    Returns
    -------
    ImpressionIterator
        Yields (x, clicks): x is `{document: {feature: value}}` with all candidates in the order of their ids, with `context` a
        `Block` of them; clicks are the `Clicks` on the documents shown. Groups of rows without any position are left out, and
        counted in `n_empty`.

    Raises
    ------
    TypeError, ValueError
        A column is missing or has two roles, a list comes back or is older than the one before it, a document or position
        occurs twice in a list, positions begin at 0, or a value is out of range. The message names the table and the row.

    Examples
    --------
    >>> import pyarrow
    >>> from online_rank.stream import iter_impressions
    >>> log = pyarrow.table(
    ...     {
    ...         "query": [1, 1, 1],
    ...         "document": ["a", "b", "c"],
    ...         "position": [3, 1, None],
    ...         "click": [True, False, False],
    ...         "bm25": [2.0, 5.0, 1.0],
    ...     }
    ... )
    >>> x, clicks = next(iter_impressions(log))
    >>> clicks.impression.order, clicks.impression.positions, clicks.gains
    (('b', 'a'), (1, 3), (0.0, 1.0))
    >>> x["c"]
    {'bm25': 1.0}
    """
    choice("propensity_of", propensity_of, _KINDS)
    choice("missing", missing, ("zero", "error"))
    arguments.flag("shuffled", shuffled)
    if not sources:
        raise ValueError("nothing to read: give at least one table")
    require_names(features=features, exclude=exclude, context=context)
    if shuffled and propensity is not None:
        raise ValueError("shuffled lists have known propensities: leave propensity out")
    for name, value in (events or {}).items():
        arguments.number(f"the value of event {name!r}", value, low=0.0)
    roles: dict[str, str | None] = {"query": query, "document": document, "position": position, "click": click}
    roles |= {"propensity": propensity, "event_time": event_time}
    plan = plan_roles(sources[0], roles, features=features, exclude=exclude, context=context, missing=missing)
    notice_new_columns(sources, plan)
    return ImpressionIterator(sources, plan, events, "shuffled" if shuffled else propensity_of)


def _from_one(lists: Iterator[list[_Row]]) -> Iterator[list[_Row]]:
    """The same lists. Raises TableError if positions seem to begin at 0: each of the first lists has exactly one row there."""
    first = list(islice(lists, _FIRST_LISTS))
    if len(first) >= _FEWEST_LISTS and all(sum(row.position == 0 for row in rows) == 1 for rows in first):
        raise TableError(
            f"{first[0][0].where}: each of the first {len(first)} lists has exactly one row at position 0. Positions begin "
            "at 1: add 1 to all; if these documents were not shown, leave their positions empty"
        )
    yield from chain(first, lists)


def _is_shown(row: _Row) -> bool:
    """Whether a document was shown. Raises TableError for anything but a position."""
    position = row.position
    if position is None or position != position or position == 0:
        return False
    if isinstance(position, str) or not float(position).is_integer() or position < 0:
        what = f"position is {position}; it is an integer from 1 on, or missing for what was not shown"
        raise TableError(f"{row.where}: {what}")
    return True


def _documents(rows: list[_Row], plan: TablePlan) -> dict[Hashable, dict[str, float]]:
    """All candidates of a list with their features, in the order of their ids. Raises TableError.

    Documents with equal scores keep their order. It must not be that of the list shown, which rankers would seem to foresee.
    """
    x: dict[Hashable, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: str(row.document)):
        if row.document is None or row.document != row.document or row.document in x:
            raise TableError(f"{row.where}: document {row.document!r} is missing, or stands twice in its list")
        found = x[row.document] = {}
        for name, value in zip(plan.features, row.features, strict=True):
            if value is not None and value == value:
                found[name] = float(value)
            elif plan.missing == "error":
                raise TableError(f'{row.where}: the value of {name!r} is missing; missing= (--missing) "zero" takes it')
    return x
