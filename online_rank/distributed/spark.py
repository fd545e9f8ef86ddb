"""Learning from a DataFrame on a Spark cluster (extra `spark`).

Rows are packed once, in Arrow, by shard and round: a shard has the queries with some hashes, a round the queries of a stretch
of time. Each round has a column of packs, so that a job reads only its round: it maps them over Python workers, a shard in
each, which sort them, and gathers their models. Spark moves the packs, and keeps them on the cluster (`persist`). With a
directory that all machines share, and in local mode, packs are written there, and Spark moves and keeps only their places. A
task that is run again, after its worker was killed, ends with the same bits.
"""

import copy
import gc
import itertools
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.distributed.mixing import require_mixable
from online_rank.distributed.rounds import Training, learn_rounds
from online_rank.stream import read
from online_rank.stream.plan import listed
from online_rank.support.lazy import needs

__all__ = ["train"]

#: Columns that are added: what orders queries, the shard, and a hash of what Arrow cannot sort by.
_ORDER, _SHARD, _HASH = "online_rank order", "online_rank shard", "online_rank hash"
#: Rows from which the roles of columns follow, and rows by which the rounds are cut.
_LOOKED_AT, _CUT_BY = 1000, 1_000_000
#: Bytes of a pack, about, and the most that are packed at once. With larger lots the system gives new memory to each, which
#: costs more than packing.
_PACK, _PACKED_AT_ONCE = 1 << 18, 1 << 26
#: Bytes of packs that the JVM gives to a Python worker at once.
_GIVEN_AT_ONCE = 1 << 22
#: Where Spark takes the largest size of a batch of Arrow.
_MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_INTEGERS = ("byte", "short", "integer", "long")
_NUMBERS = (*_INTEGERS, "float", "double", "decimal")
_TIMES = ("timestamp", "timestamp_ntz", "date")
_TEXTS = ("string", "char", "varchar")


class _Part(NamedTuple):
    """The queries that a shard learns in a round, and a digest of the DataFrame."""

    round: int
    shard: int
    digest: str


class _Batches:
    """Batches of Arrow, as a source of `read`."""

    name = "dataframe"

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches

    def read_next_batch(self) -> Any:
        """The next batch."""
        return next(self._batches)


def train(
    dataframe: Any,
    query: str,
    grade: str,
    model: Any,
    *,
    event_time: str | None = None,
    shards: int = 4,
    rounds: int = 4,
    passes: int = 1,
    measure: str | None = "ndcg@10",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    scratch: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Training:
    """Teach a model from a DataFrame of Spark, a row for each document, by iterative parameter mixing.

    In each round `shards` copies of the model learn a stretch of the queries, each its part, and are mixed into one (`mix`).
    The result depends only on the rows and the arguments. It is the same, bit for bit, for any number of executors, any order
    or partition of the rows, and after tasks that failed and were run again.

    Parameters
    ----------
    dataframe
        A `pyspark.sql.DataFrame`, of Spark 4.0 or later. Its executors have online_rank.
    query, grade
        The columns with the query's id, texts or integers, and with grades: integers >= 0, true or false.
    model
        A model that can be mixed (`mix`). It learns in place.
    event_time
        The column with the time of each row: a timestamp, a date or a number. Queries are learned in the order of their first
        rows. None for an order that follows from hashes of the ids.
    shards
        Number of copies that learn in a round, and of partitions.
    rounds
        Number of mixings in a pass, after about equally many rows.
    passes
        Number of passes over the rows.
    measure
        The measure of each ranking before its query is learned; None for none, which is faster.
    checkpoint
        A directory of the driver. The model is written there after each round, and the same call resumes from it.
    progress
        Whether to show a progress bar on stderr (extra `cli`); None shows one on a terminal only.
    scratch
        A directory that the driver and all executors have under this path, with room for the rows. They are written there while
        the model learns, which takes less of the processor than to move them through Spark. None for the local directory of
        Spark in local mode, and otherwise for no directory.
    **options
        Further arguments of `online_rank.read` about columns: `features`, `exclude`, `context`, `document`, `vectors`, ....

    Returns
    -------
    Training

    Raises
    ------
    TypeError, ValueError
        The model cannot be mixed, or an argument is out of its range. A column is missing, has the wrong type, or a value that
        is missing or no grade: the message names it, and nothing has been learned. Or a worker found a bad value.
    MissingExtra
        pyspark or pyarrow is not installed.
    CheckpointError
        The checkpoint belongs to another run, or to other rows.

    Examples
    --------
    >>> from online_rank import AdditiveRanker
    >>> from online_rank.distributed.spark import train
    >>> model = AdditiveRanker()
    >>> train(spark.table("judged"), "query", "grade", model, event_time="day", exclude=["url"])  # doctest: +SKIP
    """
    for name, value in (("shards", shards), ("rounds", rounds), ("passes", passes)):
        arguments.integer(name, value, 1)
    require_mixable(model)
    with needs("learning on Spark", "spark"):
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    rows = _Rows(dataframe, query, grade, event_time, shards, rounds, options)
    rows.check()
    # Each worker reads as the model did that began, and takes for features what the first rows show.
    reading = {**options, "query": query, "grade": grade, "event_time": event_time, "model": copy.deepcopy(model)}
    reading.pop("exclude", None)  # Those columns are not selected.
    digest = "" if checkpoint is None else rows.digest()
    with rows.packed(scratch) as packed:
        reading["features"] = read(_Batches(rows.first(packed)), **reading).plan.features

        def run(learn: Callable[[Any], bytes], numbered: Sequence[tuple[int, _Part]]) -> list[bytes]:
            worker = _Worker(learn, reading)
            answers = (
                _of_round(packed, numbered[0][1].round).mapInArrow(worker, "shard int, answer binary, failed boolean").collect()
            )
            for answer in answers:
                if answer.failed:
                    raise pickle.loads(answer.answer)
            return [bytes(answer.answer) for answer in sorted(answers)]

        parts = [[_Part(r, k, digest) for k in range(shards)] for r in range(rounds)]
        return learn_rounds(model, parts * passes, run, measure=measure, checkpoint=checkpoint, shown=progress)


class _Packer:
    """Divides rows, in a Python worker, into packs of each shard and round: bytes of Arrow, which are cheap to move.

    With a folder they are written there, and the answer has their places.
    """

    def __init__(self, names: Sequence[str], cuts: Sequence[float], shards: int, folder: str | None) -> None:
        self.names, self.cuts, self.shards, self.folder = names, np.array(cuts), shards, folder

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        enough = min(_PACKED_AT_ONCE, _PACK * self.n_rounds * self.shards)
        waiting, n = [], 0
        for batch in batches:
            waiting.append(batch)
            n += batch.nbytes
            if n >= enough:
                yield self.packs(waiting)
                waiting, n = [], 0
        if waiting:
            yield self.packs(waiting)

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.cuts) + 1

    def packs(self, batches: list[Any]) -> Any:
        """A row for each shard, with a pack for each round: pieces of one buffer."""
        import pyarrow as pa

        table = pa.Table.from_batches(batches).rename_columns(self.names)
        rounds = np.searchsorted(self.cuts, table[_ORDER].to_numpy(), side="right")
        parts = rounds * self.shards + table[_SHARD].to_numpy()
        table = table.drop_columns(_SHARD).take(np.argsort(parts, kind="stable"))
        ends = np.cumsum(np.bincount(parts, minlength=self.n_rounds * self.shards)).tolist()
        sink, bounds = pa.BufferOutputStream(), [0]
        for first, end in itertools.pairwise([0, *ends]):
            if end > first:
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(table.slice(first, end - first))
            bounds.append(sink.tell())
        packs = self._pieces(sink.getvalue(), bounds)
        columns = [packs[k * self.shards : (k + 1) * self.shards] for k in range(self.n_rounds)]
        shards = pa.array(range(self.shards), pa.int32())
        return pa.RecordBatch.from_arrays([shards, *columns], ["shard", *map(_column, range(self.n_rounds))])

    def _pieces(self, content: Any, bounds: list[int]) -> Any:
        """The pieces between bounds as an array of Arrow: their bytes, or, in a folder, their places, which are texts."""
        import pyarrow as pa

        if self.folder is None:
            return pa.Array.from_buffers(
                pa.binary(), len(bounds) - 1, [None, pa.py_buffer(np.array(bounds, np.int32)), content]
            )
        # A task that is run again writes other files.
        number, path = tempfile.mkstemp(dir=self.folder)
        with open(number, "wb") as file:
            file.write(content)
        places = (f"{begin} {end} {path}" if begin < end else "" for begin, end in itertools.pairwise(bounds))
        return pa.array(places, pa.string())


def _column(number: int) -> str:
    return f"round{number}"


def _of_round(packed: Any, number: int) -> Any:
    """The shards and packs of a round."""
    return packed.select("shard", packed[_column(number)].alias("rows")).where("length(rows) > 0")


def _rows_in(pack: Any) -> Any:
    """The rows of a pack: bytes of Arrow, or the place where they are."""
    import pyarrow as pa

    content = pack.as_buffer()
    if pa.types.is_string(pack.type):
        begin, end, path = pack.as_py().split(" ", 2)
        with pa.memory_map(path) as file:
            file.seek(int(begin))
            content = file.read_buffer(int(end) - int(begin))
    return pa.ipc.open_stream(content).read_all()


def _unpacked(batches: Iterator[Any], query: str) -> Iterator[tuple[int, Any]]:
    """The rows of each shard, in the order in which they are learned, from packs in any order."""
    import pyarrow as pa

    packs: dict[int, list[Any]] = {}
    for batch in batches:
        for shard, pack in zip(batch["shard"].to_pylist(), batch["rows"], strict=True):
            packs.setdefault(shard, []).append(_rows_in(pack))
    for shard in sorted(packs):
        table = pa.concat_tables(packs.pop(shard)).combine_chunks()
        # By all columns, so that it does not matter how documents came.
        names = dict.fromkeys([_ORDER, query, *(field.name for field in table.schema if _sorts(field.type))])
        table = table.sort_by([(name, "ascending") for name in names])
        yield shard, table.drop_columns([name for name in (_ORDER, _HASH) if name in names])


def _sorts(kind: Any) -> bool:
    """Whether Arrow sorts by columns of a type."""
    import pyarrow as pa

    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


class _Worker:
    """Learns the shards of a round, in a Python worker: from packs to one row for each with the answer, or the error.

    An error of the input is an answer, too: Spark would try a failed task again.
    """

    def __init__(self, learn: Callable[[Any], bytes], reading: dict[str, Any]) -> None:
        self.learn, self.reading = learn, reading

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for shard, table in _unpacked(batches, self.reading["query"]):
            try:
                answer, failed = self.learn((shard, read(_Batches(iter(table.to_batches())), **self.reading))), False
            except (TypeError, ValueError) as error:
                answer, failed = pickle.dumps(error), True
            yield pa.RecordBatch.from_pydict({"shard": pa.array([shard], pa.int32()), "answer": [answer], "failed": [failed]})
        if not gc.get_freeze_count():
            # Spark collects garbage after each task: it would look each time at all that was imported for learning.
            gc.collect()
            gc.freeze()


class _First:
    """Gives the first rows of a shard, in a Python worker."""

    def __init__(self, query: str) -> None:
        self.query = query

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for _, table in _unpacked(batches, self.query):
            yield from table.slice(0, _LOOKED_AT).combine_chunks().to_batches()


class _Rows:
    """The rows of a DataFrame, with the shard and the order of each."""

    def __init__(
        self,
        dataframe: Any,
        query: str,
        grade: str,
        event_time: str | None,
        shards: int,
        rounds: int,
        options: dict[str, Any],
    ) -> None:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        self._F, self._query, self._grade, self._time = F, query, grade, event_time
        types = _types_of(dataframe)
        _require_type(types, "query", query, (*_TEXTS, *_INTEGERS), "a text or an integer")
        _require_type(types, "grade", grade, (*_NUMBERS, "boolean"), "integers >= 0, or true and false")
        if event_time is not None:
            _require_type(types, "event_time", event_time, (*_TIMES, *_NUMBERS), "a timestamp, a date or a number")
        names = _taken(types, [name for name in (query, grade, event_time) if name is not None], options)
        chosen = [self._of(name).cast("double").alias(name) if types[name] == "decimal" else self._of(name) for name in names]
        rows = dataframe.select(*chosen)
        if event_time is None:
            order = F.xxhash64(self._of(query))
        else:
            order = F.min(self._seconds(types[event_time])).over(Window.partitionBy(self._of(query)))
        added = {_ORDER: order, _SHARD: F.pmod(F.hash(self._of(query)), F.lit(shards))}
        if nested := [name for name in names if types[name] == "array"]:
            added[_HASH] = F.xxhash64(*map(self._of, nested))
        self._rows, self._whole = rows.withColumns(added), F.xxhash64(*map(self._of, names))
        self._types, self._shards, self._rounds, self._n_rows = types, shards, rounds, 0

    def _of(self, name: str) -> Any:
        return self._F.col("`" + name.replace("`", "``") + "`")

    def _seconds(self, kind: str) -> Any:
        """The time of a row as a number."""
        at = self._of(str(self._time))
        return (at.cast("timestamp") if kind in _TIMES else at).cast("double")

    def check(self) -> None:
        """Raise ValueError that names the column with a bad value."""
        F, grade = self._F, self._of(self._grade).cast("double")
        lacking = [self._query, self._grade, *([] if self._time is None else [self._time])]
        is_bad = F.isnan(grade) | (grade < 0) | (grade != F.floor(grade))
        missing = [F.count_if(self._of(name).isNull()) for name in lacking]
        n, n_bad, *n_lacking = self._rows.agg(F.count(F.lit(1)), F.count_if(is_bad), *missing).first()
        if not n:
            raise ValueError("dataframe has no rows")
        for name, missed in zip(lacking, n_lacking, strict=True):
            if missed:
                raise ValueError(f"dataframe: column {name!r} is null in {missed:,} of {n:,} rows")
        if n_bad:
            raise ValueError(f"dataframe: column {self._grade!r} is no integer >= 0 in {n_bad:,} of {n:,} rows")
        self._n_rows = n

    def digest(self) -> str:
        """A digest of the rows, in any order."""
        return f"{sorted(self._types.items())} {self._n_rows} {self._rows.agg(self._F.bit_xor(self._whole)).first()[0]}"

    @contextmanager
    def packed(self, scratch: str | os.PathLike[str] | None = None) -> Iterator[Any]:
        """The rows in packs, a partition for each shard, kept while they are used: on the cluster, or in a directory."""
        where = scratch or _local_directory(self._rows.sparkSession)
        with nullcontext() if where is None else tempfile.TemporaryDirectory(dir=where, prefix="online_rank-") as folder:
            yield from self._packed(folder)

    def _packed(self, folder: str | None) -> Iterator[Any]:
        names = self._rows.columns
        # `mapInArrow` takes no names with dots.
        numbered = self._rows.toDF(*(f"c{j}" for j in range(len(names))))
        packer = _Packer(names, self.cuts(), self._shards, folder)
        kind = "binary" if folder is None else "string"
        schema = ["shard int", *(f"{_column(number)} {kind}" for number in range(self._rounds))]
        packs = numbered.mapInArrow(packer, ", ".join(schema))
        if hasattr(packs, "repartitionById"):
            packs = packs.repartitionById(self._shards, "shard")
        else:  # Spark 4.0: shards may share a partition.
            packs = packs.repartition(4 * self._shards, "shard")
        try:
            # By their number of rows alone: Spark would add up the bytes of all columns after each row.
            with _batches(self._rows.sparkSession, 2**31 - 1):
                packs.persist()
                packs.count()
            with _batches(self._rows.sparkSession, _GIVEN_AT_ONCE):
                yield packs
        finally:
            packs.unpersist()

    def first(self, packed: Any) -> Iterator[Any]:
        """The first rows of the first part that has any, as batches."""
        F, added = self._F, (_ORDER, _HASH, _SHARD)
        kept = type(self._rows.schema)([field for field in self._rows.schema.fields if field.name not in added])
        parts = itertools.product(range(self._rounds), range(self._shards))
        # Nearly always the first has some. To ask which have any would read the packs of all shards.
        found = (_of_round(packed, number).where(F.col("shard") == shard) for number, shard in parts)
        tables = (packs.mapInArrow(_First(self._query), kept).toArrow() for packs in found)
        return iter(next(table for table in tables if table.num_rows).to_batches())

    def cuts(self) -> list[float]:
        """Where the rounds after the first begin, by the order of queries."""
        F, shares = self._F, [k / self._rounds for k in range(1, self._rounds)]
        if self._time is None:
            return [int(share * 2**64) - 2**63 for share in shares]
        if not shares:
            return []
        one_in = max(1, self._n_rows // _CUT_BY)
        some = self._rows.where(F.pmod(F.xxhash64(self._of(self._query)), F.lit(one_in)) == 0)
        return [*some.agg(F.percentile(self._of(_ORDER), shares)).first()[0]]


def _local_directory(session: Any) -> str | None:
    """The directory of Spark for scratch, if driver and executors are on one machine."""
    context = getattr(session, "sparkContext", None)  # Spark Connect has none.
    if context is None or not context.master.startswith("local"):
        return None
    return str(context.getConf().get("spark.local.dir", tempfile.gettempdir())).split(",")[0]


@contextmanager
def _batches(session: Any, most: int) -> Iterator[None]:
    """Within it Spark gives Python workers batches of at most this number of bytes."""
    before = session.conf.get(_MAX_BYTES, None)
    session.conf.set(_MAX_BYTES, str(most))
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_MAX_BYTES)
        else:
            session.conf.set(_MAX_BYTES, before)


def _types_of(dataframe: Any) -> dict[str, str]:
    """The type of each column. Raises TypeError or ValueError for what is no DataFrame, or has two columns of a name."""
    fields = getattr(getattr(dataframe, "schema", None), "fields", None)
    if fields is None or not hasattr(dataframe, "mapInArrow"):
        raise TypeError(f"dataframe is of type {type(dataframe).__name__}; it must be a DataFrame of Spark 4.0 or later")
    types = {field.name: field.dataType.typeName() for field in fields}
    if len(types) < len(fields):
        names = [field.name for field in fields]
        raise ValueError(f"dataframe has two columns called {next(name for name in names if names.count(name) > 1)!r}")
    return types


def _require(types: dict[str, str], argument: str, name: Any) -> None:
    if name not in types:
        raise ValueError(f"{argument}: dataframe has no column {name!r}; there are {listed([*types])}")


def _require_type(types: dict[str, str], argument: str, name: str, known: Sequence[str], what: str) -> None:
    _require(types, argument, name)
    if types[name] not in known:
        raise TypeError(f"{argument}: column {name!r} is of type {types[name]}; it must be {what}")


def _taken(types: dict[str, str], roles: list[str], options: dict[str, Any]) -> list[str]:
    """The columns that are read: those with a role, and features. Raises TypeError or ValueError that names a column."""
    for argument in ("exclude", "context", "features"):
        for name in options.get(argument) or ():
            _require(types, argument, name)
    if (document := options.get("document")) is not None:
        _require(types, "document", document)
        roles = [*roles, document]
    named = options.get("features")
    if named is None or options.get("vectors") or options.get("query_vectors"):
        named = [name for name in types if name not in (options.get("exclude") or ())]
    names = [*dict.fromkeys([*roles, *(options.get("context") or ()), *named, *(options.get("exclude") or ())])]
    for name in names:
        kind = types[name]
        if name not in (options.get("exclude") or ()) and kind not in (*_NUMBERS, *_TIMES, *_TEXTS, "boolean", "array", "void"):
            remedy = "make it an array by vector_to_array" if kind == "vectorudt" else "select its parts"
            raise TypeError(
                f"dataframe: column {name!r} is of type {kind}, which is no feature: {remedy}, or name it in exclude="
            )
    return [name for name in names if name not in (options.get("exclude") or ())]
