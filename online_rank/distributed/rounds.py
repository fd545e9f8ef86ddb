"""Rounds of learning and mixing, independent of the engine that runs the machines."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from typing import Any, NamedTuple

from online_rank.distributed.mixing import learn_shard, mix, require_mixable
from online_rank.storage import CheckpointDirectory, CheckpointError
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import adopt
from online_rank.support.progress import progress

_SUMS = ("queries", "documents", "loss", "mistakes", "skipped", "measured", "counted")

#: Runs `learn_shard(content, part, measure)` for each part, anywhere, and calls the last argument with how many are done.
#: Returns the answers in the order of the parts.
Execute = Callable[[bytes, Sequence[Any], str | None, Callable[[int], None]], list[bytes]]


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


def here(content: bytes, parts: Sequence[Any], measure: str | None, show: Callable[[int], None]) -> list[bytes]:
    """All machines of a round one after the other, in this process."""
    answers = []
    for part in parts:
        answers.append(learn_shard(content, part, measure=measure))
        show(len(answers))
    return answers


def learn_rounds(
    model: Any,
    rounds: Sequence[Sequence[Any]],
    run: Execute = here,
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
        Runs the machines of a round; by default in this process.
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
            answers = run(content, parts, measure, _from(before - len(parts), show))
            reports = [from_bytes(answer) for answer in answers]
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


def _from(start: int, show: Callable[[int], None]) -> Callable[[int], None]:
    """Shows how many parts are done, including parts of earlier rounds."""
    return lambda done: show(start + done)


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
