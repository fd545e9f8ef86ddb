"""Click logs in tables: each row is a document of a shown list, or another candidate."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import Any

from online_rank import arguments
from online_rank.arguments import choice
from online_rank.feedback import Clicks, Impression
from online_rank.query import read_query
from online_rank.stream.table_rows import TableError
from online_rank.stream.table_sources import Column, batches_of, columns_of

__all__ = ["iter_impressions"]

_KINDS = ("above", "place")
_ROWS = 8192


def iter_impressions(
    source: Any,
    *,
    query: str = "query",
    document: str = "document",
    position: str = "position",
    click: str = "click",
    propensity: str | None = None,
    propensity_of: str = "above",
    shuffled: bool = False,
    features: Sequence[str] | None = None,
    context: Sequence[str] = (),
) -> Iterator[tuple[Any, Clicks]]:
    """Read a log of clicks: `for x, clicks in iter_impressions("log.parquet"): model.learn_one(x, clicks)`.

    The rows of one list are contiguous. Lists are read in the order of the file, which should be that of time.

    Parameters
    ----------
    source
        A path to a csv or Parquet file, or a table in memory, as for `iter_table`.
    query
        The column of the query: consecutive rows with the same value are a list. Consecutive lists must have different values,
        such as the ids of requests.
    document
        The column of document ids.
    position
        The column of positions on the page, from 1; missing or 0 for candidates that were not shown. Gaps are advertisements,
        pinned documents and anything else that was not ranked.
    click
        The column of clicks: a number >= 0, or whether the document was clicked; missing is 0.
    propensity
        The column of the probability of the document at its position; None if there is none.
    propensity_of
        The kind of probability: `"above"`, given the documents above it; `"place"`, the marginal probability at this position.
    shuffled
        Whether each list was in uniformly random order, drawn from all its candidates in the table.
    features
        The columns that are features; None for all other numeric columns. Missing values are left out.
    context
        The columns with what is known of the query itself, such as who asked; the first row of a list counts.

    Yields
    ------
    x : dict or Block
        `{document: {feature: value}}`, with all candidates; with `context` a `Block` of them.
    clicks : Clicks
        The clicks on the documents shown.

    Raises
    ------
    TypeError, ValueError
        A column is missing, a document or position occurs twice in a list, or a value is out of range. The message names
        the table and the row.

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
    arguments.flag("shuffled", shuffled)
    if shuffled and propensity is not None:
        raise ValueError("shuffled lists have known propensities: leave propensity out")
    types, _ = columns_of(source)
    roles = {query: "query", document: "document", position: "position", click: "click"}
    if propensity is not None:
        roles[propensity] = "propensity"
    missing = next((name for name in (*roles, *context, *(features or ())) if name not in types), None)
    if missing is not None:
        raise ValueError(f"the table has no column {missing!r}; it has {', '.join(map(repr, types))}")
    if features is None:
        features = [name for name, kind in types.items() if kind in ("number", "boolean") and name not in (*roles, *context)]
    columns = [Column(name, types[name], roles.get(name, "feature")) for name in (*roles, *features)]
    columns += [Column(name, types[name], "context") for name in context]
    return _lists(source, columns, [*roles], list(features), list(context), propensity_of, shuffled)


def _lists(
    source: Any,
    columns: Sequence[Column],
    roles: list[str],
    features: list[str],
    context: list[str],
    propensity_of: str,
    shuffled: bool,
) -> Iterator[tuple[Any, Clicks]]:
    def rows() -> Iterator[tuple[str, tuple[Any, ...]]]:
        table = batches_of(source, columns, _ROWS)
        for frame in table.frames():
            for i, row in enumerate(frame.rows.select([*roles, *features, *context]).iter_rows()):
                yield frame.where(i), row

    for _, group in groupby(rows(), key=lambda row: row[1][0]):
        lists = list(group)
        x, clicks = _impression(lists, len(roles), features, propensity_of, shuffled)
        if not context:
            yield x, clicks
            continue
        where, row = lists[0]
        values = (None if value != value else value for value in row[len(roles) + len(features) :])
        try:
            yield read_query(x, context=dict(zip(context, values, strict=True))), clicks
        except (TypeError, ValueError) as error:
            raise TableError(f"{where}, the list that begins there: {error}") from None


def _impression(
    rows: list[tuple[str, tuple[Any, ...]]], n_roles: int, features: list[str], propensity_of: str, shuffled: bool
) -> tuple[dict[Hashable, dict[str, float]], Clicks]:
    """One list: its candidates, and the clicks on those shown."""
    x: dict[Hashable, dict[str, float]] = {}
    shown: list[tuple[int, Hashable, float, float]] = []
    for where, row in rows:
        _, document, position, gain = row[:4]
        if document is None or document in x:
            raise TableError(f"{where}: document {document!r} is missing, or stands twice in its list")
        values = zip(features, row[n_roles:], strict=False)
        x[document] = {name: float(value) for name, value in values if value is not None and value == value}
        if position is None or position != position or position == 0:
            continue
        if int(position) != position or position < 0:
            raise TableError(f"{where}: position is {position}; it is an integer from 1 on, or missing for what was not shown")
        done = 0.0 if gain is None or gain != gain else float(gain)
        shown.append((int(position), document, done, row[4] if n_roles > 4 else 1.0))
    where = rows[0][0]
    shown.sort(key=lambda each: each[0])
    order = tuple(document for _, document, _, _ in shown)
    positions = tuple(position for position, *_ in shown)
    fields: dict[str, Any] = {"positions": None if positions == tuple(range(1, len(order) + 1)) else positions}
    try:
        if n_roles > 4:
            name = "propensities" if propensity_of == "above" else "placements"
            fields[name] = tuple(chance for *_, chance in shown)
        made = Impression.shuffled(order, len(x), **fields) if shuffled else Impression(order, **fields)
        return x, Clicks(made, tuple(gain for _, _, gain, _ in shown))
    except (TypeError, ValueError) as error:
        raise TableError(f"{where}, the list that begins there: {error}") from None
