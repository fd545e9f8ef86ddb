"""The one entry for files and tables: `read`."""

import collections
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from online_rank import arguments
from online_rank.preprocessing._keys import DOCUMENT
from online_rank.query import MAX_GRADE, ONE, Block, SparseRows, single
from online_rank.query.context import read_context
from online_rank.stream.lists import Lists
from online_rank.stream.neighbours import Sizes
from online_rank.stream.plan import Options, Plan, n_features_of, options_of, usual_missing
from online_rank.stream.rows import Rows, joined, stacked
from online_rank.stream.source import ReadError, ReadWarning
from online_rank.stream.vectors import IN_CONTEXT, from_array

Negative: TypeAlias = Literal["error", "zero", "skip"]
Missing: TypeAlias = Literal["error", "zero", "keep"]
Repeated: TypeAlias = Literal["error", "auto", "new", "group"]


class Documents(NamedTuple):
    """All queries in memory, as `Ranker.learn_many` takes them.

    Attributes
    ----------
    X : (n, d) float array, or SparseRows
        Features.
    y : (n,) int64
        Grades.
    qid : (n,) int64, or str where an id is not an integer
        Ids of the queries; documents of one query are contiguous.
    docid : list of str
        Ids of the documents, with `with_ids`.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray
    docid: list[str]


class Queries(Lists, Iterator[tuple[Any, ...]]):
    """The queries of files and tables, one after the other; what `read` returns.

    Attributes
    ----------
    plan : Plan
        The roles of the columns.
    fraction : float or None
        The share of the sources that was read; None if it is unknown.
    n_bad : int
        Lists left out so far because of a row that cannot be read.
    n_missing : int
        Missing values of features in the queries so far.
    """

    def __init__(self, sources: Sequence[Any], options: Options, group: Any) -> None:
        super().__init__(sources, options, group)
        self.n_missing = 0
        self._ahead: collections.deque[Rows] = collections.deque()
        self._error: ReadError | None = None
        self._found = self._made()

    def __next__(self) -> tuple[Any, ...]:
        if not self._ahead and self._error is not None:
            raise self._error
        return self._query(self._ahead.popleft() if self._ahead else next(self._found))

    def first(self, n: int) -> list[tuple[Any, ...]]:
        """The next `n` queries, which are still to come; fewer if the sources end before, or an error follows."""
        try:
            self._ahead.extend(itertools.islice(self._found, max(0, n - len(self._ahead))))
        except ReadError as error:
            self._error = error
        return [self._query(rows) for rows in itertools.islice(self._ahead, n)]

    def all(self) -> Documents:
        """All queries that are still to come, at once. Raises TypeError if texts are features."""
        every, self._ahead = [*self._ahead, *self._found], collections.deque()
        if self._error is not None:
            raise self._error
        if any(self.plan.kinds[name] in ("text", "vector") for name in self.plan.categories):
            raise TypeError("all() takes features that are numbers: exclude texts and vectors, or read query by query")
        if not every:
            return Documents(np.empty((0, self._options.n_features or 0)), np.empty(0, np.int64), np.empty(0, np.int64), [])
        if any(rows.weights is not None for rows in every):
            warnings.warn("all() leaves out the weights of queries: read query by query", ReadWarning, stacklevel=2)
        whole, sizes = _with_booleans(joined(every), self.plan), [len(rows.y) for rows in every]
        return Documents(whole.X, whole.y, np.repeat(_integers([rows.qids[0] for rows in every]), sizes), whole.docids)

    def close(self) -> None:
        """Close the open source. This happens automatically at the end."""
        self._found.close()
        self._open.close()

    def __enter__(self) -> "Queries":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _made(self) -> Any:
        for _, rows in self.lists():
            if len((made := self._settled(rows)).y):
                yield made

    def _settled(self, rows: Rows) -> Rows:
        """A query as the options want it: negative grades, missing values, ids; none of its documents may be left."""
        qid, below = rows.qids[0], rows.y < 0
        if self._options.negative == "skip" and below.any():
            rows = rows.taken(np.flatnonzero(~below), qid)
        elif below.any():
            self._warn_once("negative", f"{rows.where(int(below.argmax()))}: grades below 0 count as 0")
            rows = rows._replace(y=np.maximum(rows.y, 0))
        # Copies, so that a stored query does not keep its block alive.
        docids = [""] * len(rows.y) if self._options.with_ids and not rows.docids else rows.docids
        rows = rows._replace(X=stacked([rows.X]), y=rows.y.copy(), docids=docids)
        # Sparse rows have no missing values, but a query may begin before its text becomes wide.
        is_sparse = isinstance(rows.X, SparseRows)
        values = rows.X.values if is_sparse else rows.X
        if self._options.missing != "error" and (absent := np.isnan(values)).any():
            self.n_missing += int(np.count_nonzero(absent))
            if is_sparse or self._options.missing == "zero":
                values[absent] = 0.0
                self._warn_of_missing(rows)
        if (twice := first_repeated(docids)) is not None:
            _require_one_grade(qid, rows)
            self._warn_once("twice", f"{rows.where(0)}, the query there: query {qid} has document {twice!r} several times")
        return rows

    def _query(self, rows: Rows) -> tuple[Any, ...]:
        options = self._options
        if self.is_letor and (options.vectors or options.query_vectors):
            x = _with_vectors(self._block(rows), options)
            return (x, rows.y, rows.qids[0], rows.docids) if options.with_ids else (x, rows.y)
        plain = rows.numbered and rows.weights is None and not (options.keys or options.timed)
        x = rows.X if plain else self._block(rows)
        return (x, rows.y, rows.qids[0], rows.docids) if self._options.with_ids else (x, rows.y)

    def _block(self, rows: Rows) -> Block:
        context, n = context_of(rows, self.plan) if rows.more else None, len(rows.y)
        at = rows.times[:1] if self._options.timed and rows.times is not None else None
        ids = _ids_of(rows) if DOCUMENT in self._options.keys else None
        w = ONE if rows.weights is None else rows.weights[:1].copy()
        # LETOR text first: a plan makes its columns when somebody asks for them, and one large id stands for millions.
        if self.is_letor or len(rows.names) == len(self.plan.features):
            names = None if rows.numbered else rows.names
            return Block(rows.X, None, single(n), w, ids=ids, names=names, context=context, at=at)
        return Block(documents_of(rows, self.plan), None, single(n), w, ids=ids, form=dict, context=context, at=at)


def _with_vectors(block: Block, options: Options) -> Block:
    """A query of LETOR text with ranges of its features as vectors. Raises ReadError."""
    if isinstance(block.X, SparseRows):
        raise ReadError("vectors are ranges of features of dense LETOR text, and this text has sparse rows")
    try:
        documents, about = from_array(block.X, options.vectors, options.query_vectors)
    except ValueError as error:
        raise ReadError(str(error)) from None
    return block._replace(X=documents, names=None, form=dict, context=(about,) if about else None)


def documents_of(rows: Rows, plan: Plan) -> list[dict[str, Any]]:
    """The documents as dicts of features, numbers and categories."""
    values = rows.more | dict(zip(rows.names, rows.X.T.tolist(), strict=True))
    cells = zip(*(values[name] for name in plan.features), strict=True)
    return [dict(zip(plan.features, row, strict=True)) for row in cells]


def _with_booleans(rows: Rows, plan: Plan) -> Rows:
    """Rows with booleans that are categories as columns of 1 and 0: in arrays everything is a number."""
    if not plan.categories:
        return rows
    of = dict(zip(rows.names, rows.X.T, strict=True))
    of |= {name: np.array([np.nan if x is None else float(x) for x in rows.more[name]]) for name in plan.categories}
    return rows._replace(X=np.column_stack([of[name] for name in plan.features]), names=plan.features)


def context_of(rows: Rows, plan: Plan) -> tuple[dict[str, Any]] | None:
    """What the rows of a query say of it, which must be one thing. Raises ReadError."""
    names = plan.all("context")
    if not names:
        return None
    found, qid = {}, rows.qids[0]
    for column in names:
        values, name = rows.more[column], column.removeprefix(IN_CONTEXT) if plan.kinds[column] == "vector" else column
        found[name], *others = _different(values)
        if others:
            what = f"{found[name]!r:.60} and {others[0]!r:.60} in column {name!r}, which is of the query itself"
            raise ReadError(f"query {qid} has {what}")
    found = {name: value for name, value in found.items() if value is not None or name in names}
    try:
        return (read_context(found),)
    except (TypeError, ValueError) as error:
        raise ReadError(f"query {qid}: {error}") from None


def _different(values: list[Any]) -> list[Any]:
    """The different values, in order; vectors among them."""
    return [*{value.tobytes() if isinstance(value, np.ndarray) else value: value for value in reversed(values)}.values()][::-1]


def _ids_of(rows: Rows) -> tuple[str, ...]:
    """The ids of the documents of a query, for a model that counts by them. Raises ReadError if they are not unique."""
    if not rows.docids or "" in rows.docids or first_repeated(rows.docids) is not None:
        what = "History('document') needs the id of each document, once in a query: document= (--document COLUMN) names them"
        raise ReadError(f"{rows.where(0)}: {what}")
    return tuple(rows.docids)


def first_repeated(docids: Sequence[str]) -> str | None:
    """The first id of a document that comes back within a query; documents may lack one."""
    if len(set(docids)) == len(docids):
        return None
    met: set[str] = set()
    for docid in docids:
        if docid and docid in met:
            return docid
        met.add(docid)
    return None


def _integers(qids: list[str]) -> np.ndarray:
    """The ids as int64 if all of them are integers in canonical form, otherwise as strings."""
    try:
        numbers = np.array([int(qid) for qid in qids], np.int64)
    except (ValueError, OverflowError):
        return np.array(qids)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), qids)) else np.array(qids)


def read(
    *sources: Any,
    query: str | None = None,
    grade: str | None = None,
    document: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    event_time: str | None = None,
    context: Sequence[str] = (),
    vectors: Mapping[str, str] | None = None,
    query_vectors: Mapping[str, str] | None = None,
    group: Sizes | Sequence[Sizes | None] | None = None,
    with_ids: bool = False,
    negative: Negative = "error",
    missing: Missing | None = None,
    repeated_qid: Repeated = "error",
    skip_bad: float = 0.0,
    model: Any = None,
    n_features: int | None = None,
    batch_rows: int = 1 << 14,
    max_query_bytes: int = 1 << 26,
    words: bool = True,
) -> Queries:
    r"""Read the queries of files and tables, one after the other; in memory only the ids of queries grow with them.

    The format is recognised by name and content. **Tables** have a row for each document: csv and tsv, JSON lines, parquet,
    Arrow (feather), and frames of pandas, polars (also lazy) and pyarrow. **JSON lines** may also hold a query each, with its
    documents and grades: `{"id": "q1", "docs": {"a": {"clicks": 3}}, "grades": {"a": 1}}`, or lists of both. **LETOR text** has
    lines `2 qid:10 1:0.5 3:1 # docid = GX000`. Text may be compressed by gzip, and end its lines by LF, CR LF or CR.

    Consecutive rows with the same query id are a query. Several sources are read one after the other; all tables must have the
    columns of the first. The attribute `plan` of the result says which columns are features, which are left out, and why.

    Parameters
    ----------
    *sources
        Paths, "-" for standard input, open files, frames, or lists of these.
    query, grade
        The columns of a table with the query's id, by default "query", and with grades: integers >= 0, true or false. Without
        `grade`, which are queries to rank, grades are 0.
    document
        The column with the document's id. In LETOR text it is X where a comment says `docid = X`, else its first word.
    features
        The columns that are features; None for all other columns of numbers and booleans, and of dates for a model that takes
        them, in the order of the first table. The index of a pandas frame is none, and neither are columns named as outcomes
        (click, purchase, order, dwell, position, ...).
    exclude
        Columns that are not features.
    event_time
        The column with the time of each row, as dates, texts in ISO 8601, or numbers, whose size tells their unit: the plan
        says what was found. All rows must have this unit, and queries come in the order of their first rows.
    context
        The columns with what is known of a query itself, the same in all of its rows (`CrossFeatures`); no features.
    vectors, query_vectors
        `{name: column}` of vectors of documents, and of their queries, for a model that takes vectors (`AdditiveRanker`): a
        column of lists, or a range of columns of numbers, `"e0..e255"`; in LETOR text a range of features, `"1..256"`. Lists of
        numbers are vectors without being named: in parquet, JSON and frames as they are, in csv as JSON lists. A column of
        lists that is called `context NAME` has the vectors of queries.
    group : path or (q,) integers, or a sequence of these with one entry a source
        Sizes of the groups, in place of ids of queries. Without ids they are looked for in `FILE.query` and `FILE.group`.
        Weights of queries are read with them from `FILE.weight`: a line for each query, or for each document. A query is then a
        `Block` with its weight, which multiplies `w` of `learn_one`.
    with_ids
        Whether to yield ids, too.
    negative
        How to treat a negative grade: as an error, as 0, or leave the document out.
    missing
        How to treat a missing value, which is null, NaN, or in text one of `values.MISSING_WORDS`: as an error; as 0; or keep
        it as NaN, for models that take it. None keeps it for a `model` that takes it (`AdditiveRanker`), reads 0 for any
        other, and is an error without one.
    repeated_qid
        How to treat an id that comes back after another one, or a query older than the one before it. "error" raises, and keeps
        all ids in memory. "new" reads a separate query. "group" reads everything, joins the rows of each query, and sorts
        queries by time if `event_time` is given. "auto" does so, with a warning, if the first rows are not in order, and is
        "error" otherwise.
    skip_bad
        The share of lists that may be left out because a row of theirs cannot be read, such as 0.001; one more is allowed.
        Each is reported by a warning that names the row, and counted in `n_bad`.
    model
        The model that is to rank or learn the queries. If it has learned, the features are those that it has learned from, as
        far as they are there. For one that takes dicts with texts (`AdditiveRanker`), columns of text with few values are
        features, too.
    n_features
        The least number of columns of LETOR text. By default as many as in its first 8 MiB.
    batch_rows
        Number of rows of parquet and of frames read at once.
    max_query_bytes
        Largest array of a query's features.

    Returns
    -------
    Queries
        Yields (x, y), or (x, y, query id, document ids): x is a `Block` of one query with its features by name, which every
        model takes (`x.X` is the array (m, d)), or, for LETOR text, an array (m, d), or `SparseRows` beyond 4096 features; y is
        (m,) int64. `all()` is everything at once. LETOR text with a feature 0, or with more features than in its first 8 MiB,
        comes as blocks with features called as the text calls them.

    Raises
    ------
    ReadError
        With file and line, or row of a frame: a value that is missing or no number, a bad grade, a file that is damaged, a row
        with other columns, quotation marks that are not closed, ...
    ValueError, TypeError
        A column does not exist, or a source is no file and no frame.
    ImportError
        A table needs pyarrow.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import polars
    >>> from online_rank import PerceptronRanker, read
    >>> log = polars.LazyFrame({"q": [7, 7, 8], "grade": [0, 2, 1], "clicks": [1.0, 4.0, 2.0], "url": ["a", "b", "c"]})
    >>> model = PerceptronRanker()
    >>> for x, y in read(log, query="q", grade="grade"):
    ...     model.learn_one(x, y)
    >>> model.rank_one({"old": {"clicks": 0.0}, "new": {"clicks": 9.0}})
    ['new', 'old']

    >>> import io
    >>> text = "2 qid:a 1:0.5 3:1 # docid = first\n0 qid:a 2:1e-3\n1 qid:b 1:-7\n"
    >>> for X, y, qid, docids in read(io.StringIO(text), with_ids=True):
    ...     print(qid, docids, y, X.tolist())
    a ['first', ''] [2 0] [[0.5, 0.0, 1.0], [0.0, 0.001, 0.0]]
    b [''] [1] [[-7.0, 0.0, 0.0]]
    >>> list(read(io.StringIO("1 qid:a 1:0.5 2:x")))
    Traceback (most recent call last):
    ...
    online_rank.stream.ReadError: StringIO, line 1, column 17: the value 'x' of feature 2 is not a number
    """
    for name, value, choices in (
        ("negative", negative, get_args(Negative)),
        ("missing", missing, (None, *get_args(Missing))),
        ("repeated_qid", repeated_qid, get_args(Repeated)),
    ):
        arguments.choice(name, value, choices)
    arguments.flag("with_ids", with_ids)
    arguments.flag("words", words)
    arguments.number("skip_bad", skip_bad, 0.0, 1.0)
    arguments.integer("n_features", n_features, 1, optional=True)
    arguments.integer("batch_rows", batch_rows, 1)
    arguments.integer("max_query_bytes", max_query_bytes, 1)
    options = options_of(
        model,
        {"query": query, "grade": grade, "document": document, "event time": event_time},
        features=features,
        exclude=exclude,
        context=context,
        vectors={} if vectors is None else dict(vectors),
        query_vectors={} if query_vectors is None else dict(query_vectors),
        words=words,
        with_ids=with_ids,
        negative=negative,
        **({} if model is None else {"max_grade": MAX_GRADE}),
        missing=missing or usual_missing(model, "error"),
        tells_missing=missing is None and model is not None,
        repeated_qid=repeated_qid,
        skip_bad=skip_bad,
        n_features=n_features or n_features_of(model),
        batch_rows=batch_rows,
        max_query_bytes=max_query_bytes,
    )
    return Queries(sources, options, group)


def _require_one_grade(qid: str, rows: Rows) -> None:
    """Raise ReadError for a document that is judged twice, with different grades."""
    known: dict[str, int] = {}
    for i, (docid, grade) in enumerate(zip(rows.docids, rows.y.tolist(), strict=True)):
        if docid and known.setdefault(docid, grade) != grade:
            what = f"query {qid} judges document {docid!r} twice, with grades {known[docid]} and {grade}: keep one"
            raise ReadError(f"{rows.where(i)}: {what}")
