"""Rounds of learning and mixing, independent of the engine that runs the machines."""

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from functools import partial
from typing import Any, NamedTuple

from online_rank import arguments
from online_rank.distributed.mixing import learn_shard, mix, require_mixable
from online_rank.metrics import metric
from online_rank.storage import CheckpointDirectory, CheckpointError
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import adopt
from online_rank.stream.parts import parts as parts_of
from online_rank.stream.source import ReadWarning
from online_rank.support.progress import progress

_SUMS = ("queries", "documents", "loss", "mistakes", "skipped", "measured", "counted")

#: What an engine has to give: as the built-in `map`, it calls a function with each item, on any machine, and gives the answers
#: in the order of the items. An item is the number of a part in its round, and the part. Functions and items can be pickled.
Map = Callable[[Callable[[Any], bytes], Sequence[Any]], Iterable[bytes]]


class Training(NamedTuple):
    """The result of training in rounds.

    Attributes
    ----------
    queries, documents : int
        Numbers of queries and documents learned.
    loss : float
        Cumulative loss of the weights that learn, on all machines.
    mistakes, skipped : int
        Numbers of queries with an update, and of queries from which nothing can be learned.
    measure : str or None
        The measure of each ranking before its query was learned.
    value : float
        Its mean over `counted` queries; 0 if nothing was measured.
    counted : int
        Number of queries for which it is defined.
    rounds, shards : int
        Number of mixings, and the largest number of models mixed at once.
    bytes_sent : int
        Bytes of models sent to and from the machines.
    elapsed : float
        Seconds, in this call only.
    """

    queries: int
    documents: int
    loss: float
    mistakes: int
    skipped: int
    measure: str | None
    value: float
    counted: int
    rounds: int
    shards: int
    bytes_sent: int
    elapsed: float


def learn_files(
    model: Any,
    files: Sequence[str | os.PathLike[str]],
    *,
    run: Map = map,
    shards: int = 16,
    rounds: int = 1,
    passes: int = 1,
    measure: str | None = "ndcg@10",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Training:
    r"""Teach a model from files on several machines, by iterative parameter mixing.

    The files are divided into `shards` x `rounds` parts of whole queries (`online_rank.stream.parts`). In each round the
    next `shards` of them are learned, each by a copy of the model; then the copies are mixed into one (`mix`). The result
    depends only on the files, `shards`, `rounds` and `passes`: it is the same, bit for bit, for any number of machines.

    Parameters
    ----------
    model
        A model that can be mixed (`mix`). It learns in place.
    files
        Files, as `online_rank.read` takes them, under the same paths on all machines.
    run
        What maps a function over the parts of a round (`learn_rounds`).
    shards
        Number of copies that learn in a round; a multiple of the number of workers keeps all of them busy.
    rounds
        Number of mixings in a pass; there are fewer, with a warning, if the files cannot be cut into `shards` x `rounds` parts.
        More of them bring the result closer to the result of one machine, and send the model more
        often.
    passes
        Number of passes over the files.
    measure, checkpoint
        As for `learn_rounds`.
    progress
        Whether to show a progress bar on stderr (extra `cli`); None shows one on a terminal only.
    **options
        Further arguments of `online_rank.read`, such as the columns of tables.

    Raises
    ------
    TypeError, ValueError
        The model cannot be mixed, an argument is out of its range, or a file is bad.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.distributed import learn_files
    >>> path = os.path.join(tempfile.mkdtemp(), "log.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1 qid:1 1:0.5\n0 qid:1 1:0.1\n1 qid:2 1:7\n0 qid:2 1:2\n")
    >>> learn_files(PerceptronRanker(), [path], shards=2).queries
    2
    """
    for name, value in (("shards", shards), ("rounds", rounds), ("passes", passes)):
        arguments.integer(name, value, 1)
    _require_measure(measure)
    cut = parts_of(files, shards * rounds, **options)
    if len(cut) < shards * rounds:
        _warn_of_few(len(cut), shards, rounds)
    in_rounds = [cut[k : k + shards] for k in range(0, len(cut), shards)] * passes
    return learn_rounds(model, in_rounds, run, measure=measure, checkpoint=checkpoint, shown=progress)


def learn_rounds(
    model: Any,
    rounds: Sequence[Sequence[Any]],
    run: Map = map,
    *,
    measure: str | None = "ndcg@10",
    checkpoint: str | os.PathLike[str] | None = None,
    shown: bool | None = None,
) -> Training:
    """Teach a model in rounds: in each round machines learn parts from copies of the model, which then becomes their mixture.

    The result depends only on the model and the rounds, not on where or how many machines run at once.

    Parameters
    ----------
    model
        A model that can be mixed (`mix`). It learns in place.
    rounds
        The parts of each round: what `learn_shard` takes.
    run
        What maps a function over the parts of a round, as the built-in `map` does in this process: the `map` of an executor of
        `concurrent.futures`, or a function around an engine.
    measure
        The measure of each ranking before its query is learned; None for none, which is faster.
    checkpoint
        A directory. The model is written to it after each round; if it already holds this run, the run resumes there.
    shown
        Whether to show a progress bar on stderr; None shows one on a terminal only.

    Raises
    ------
    TypeError, ValueError
        The model cannot be mixed, or a machine raised it.
    CheckpointError
        The checkpoint belongs to another run, or another process is using the directory.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.distributed.rounds import learn_rounds
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> queries = list(NoisyTeacher(n_queries=200, n_features=5, n_documents=10))
    >>> model = PerceptronRanker()
    >>> training = learn_rounds(model, [[queries[:50], queries[50:100]], [queries[100:150], queries[150:]]])
    >>> training.queries, training.rounds, training.shards
    (200, 2, 2)
    """
    _require_measure(measure)
    require_mixable(model)
    start = time.perf_counter()
    sums: dict[str, float] = dict.fromkeys(_SUMS, 0)
    done = sent = before = 0
    with ExitStack() as stack:
        directory = None if checkpoint is None else stack.enter_context(CheckpointDirectory(checkpoint))
        described = {"parts": _described(rounds), "measure": measure} if directory is not None else {}
        if directory is not None and (saved := directory.read()) is not None:
            done, sums, sent = _go_on(directory, saved, described, model)
        n_parts = sum(map(len, rounds))
        show = stack.enter_context(progress("learning", n_parts, "parts", shown))
        for number, parts in enumerate(rounds):
            before += len(parts)
            if number < done or not parts:
                continue
            content = to_bytes(model)
            answers = []
            for answer in run(partial(_learn_numbered, content, measure=measure), [*enumerate(parts)]):
                answers.append(answer)
                show(before - len(parts) + len(answers))
            reports = [from_bytes(answer) for answer in answers]
            if reports:
                adopt(model, mix([report.pop("model") for report in reports], model))
            sums = {name: sum((report[name] for report in reports), sums[name]) for name in _SUMS}
            sent += len(content) * len(parts) + sum(map(len, answers))
            if directory is not None:
                directory.write({"run": described, "rounds": number + 1, "sums": sums, "sent": sent, "model": model})
    measured = sums.pop("measured")
    counts = {name: value if name == "loss" else int(value) for name, value in sums.items()}
    return Training(
        **counts,  # type: ignore[arg-type]
        measure=measure,
        value=measured / max(1, counts["counted"]),
        rounds=len(rounds),
        shards=max(map(len, rounds), default=0),
        bytes_sent=sent,
        elapsed=time.perf_counter() - start,
    )


def _warn_of_few(n_parts: int, shards: int, rounds: int) -> None:
    warnings.warn(
        f"the files make {n_parts} of {shards} x {rounds} parts: {-(-n_parts // shards)} round(s) of at most "
        f"{min(n_parts, shards)} shard(s). Parquet is cut between row groups only, so write smaller ones (row_group_size of "
        "pyarrow); files that are compressed or of another format are not cut, so give more files",
        ReadWarning,
        stacklevel=3,
    )


def _learn_numbered(content: bytes, numbered: tuple[int, Any], *, measure: str | None) -> bytes:
    number, part = numbered
    return learn_shard(content, part, number=number, measure=measure)


def _require_measure(measure: str | None) -> None:
    if not isinstance(measure, str | None):
        raise TypeError(f"measure is {measure!r}; it must be a name, as 'ndcg@10', or None")
    if measure is not None:
        metric(measure)


def _described(rounds: Sequence[Sequence[Any]]) -> str:
    """A digest of the parts: their contents, and the sizes of their files."""
    digest = hashlib.blake2b(digest_size=16)
    for parts in rounds:
        for part in parts:
            fields = astuple(part) if hasattr(part, "__dataclass_fields__") else part
            sizes = [os.path.getsize(getattr(source, "path", source)) for source in getattr(part, "sources", ())]
            digest.update(repr((fields, sizes)).encode())
        digest.update(b"/")
    return digest.hexdigest()


def _go_on(directory: CheckpointDirectory, saved: Any, described: Any, model: Any) -> tuple[int, dict[str, float], int]:
    """Restore the model from the checkpoint. Returns the number of rounds done, and their result."""
    if not isinstance(saved, dict) or set(saved) != {"run", "rounds", "sums", "sent", "model"}:
        raise CheckpointError(f"{directory.path} does not hold a training in rounds")
    directory.require_same("model", saved["model"], model)
    for name, value in described.items():
        if saved["run"].get(name) != value:
            raise CheckpointError(f"{directory.path} holds the checkpoint of another run: its {name} differ")
    adopt(model, saved["model"])
    return saved["rounds"], saved["sums"], saved["sent"]
