"""`online-rank train --shards`: learning on several processors."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from online_rank.cli.settings import Settings
from online_rank.distributed.rounds import Execute, Training, here, learn_rounds
from online_rank.evaluate import Trace


def check_workers(settings: Settings, workers: int | None) -> None:
    """Raise ValueError for options that need `--shards`."""
    if settings.shards is None and (workers, settings.rounds) != (None, 1):
        raise ValueError("--workers and --rounds need --shards N: how many copies of the model learn at once")


@contextlib.contextmanager
def _running(workers: int | None) -> Iterator[Execute]:
    """A context that gives the function which runs `learn_shard` for each part of a round: in this process, or in workers."""
    if workers is None:
        yield here
        return
    try:
        from online_rank.distributed.dask import local_client, on_dask
    except ImportError:
        raise ImportError('--workers needs Dask: pip install "online_rank[dask]"') from None
    with local_client(workers, silence_logs=logging.CRITICAL) as client:
        yield on_dask(client)


def learn_passes(
    settings: Settings, parts: list[Any], directory: str | None, model: Any, workers: int | None, shown: bool | None
) -> tuple[list[Trace], Training]:
    """Teach the model all passes. Returns a trace of each, and the result of the first."""
    shards = settings.shards or 1
    rounds = [parts[k : k + shards] for k in range(0, len(parts), shards)]
    trainings = []
    with _running(workers) as run:
        for number in range(settings.passes):
            place = None if directory is None else os.path.join(directory, f"pass-{number + 1}")
            # Only in the first pass are queries new to the model.
            measure = settings.measure if number == 0 else None
            trainings.append(learn_rounds(model, rounds, run, measure=measure, checkpoint=place, shown=shown))
    return [_trace(training) for training in trainings], trainings[0]


def _trace(training: Training) -> Trace:
    trace = Trace()
    for name, attribute in (("queries", "n_queries"), ("documents", "n_documents"), ("mistakes", "mistakes")):
        setattr(trace, attribute, getattr(training, name))
    trace.skipped, trace.loss, trace.elapsed = training.skipped, training.loss, training.elapsed
    if training.measure is not None:
        trace.values = {training.measure: training.value}
    return trace
