"""`online-rank train --shards`: learning on several machines, or on all processors of one."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from online_rank.cli.settings import Settings
from online_rank.distributed.rounds import Run, Training, here, learn_rounds
from online_rank.evaluate import Trace

__all__ = ["Machines", "learn_passes"]


class Machines(NamedTuple):
    """Where learning runs: in processes of this machine, on a Dask cluster, or, with neither, in this process."""

    workers: int | None = None
    scheduler: str | None = None

    def check(self, settings: Settings) -> None:
        """Raise ValueError for options that contradict one another."""
        if self.workers is not None and self.scheduler is not None:
            raise ValueError("--workers starts processes here, --scheduler uses an existing cluster: give one of them")
        if settings.shards is None and (self.workers, self.scheduler, settings.rounds) != (None, None, 1):
            raise ValueError("--workers, --scheduler and --rounds need --shards N: how many copies of the model learn at once")

    @contextlib.contextmanager
    def running(self) -> Iterator[Run]:
        """A context that gives the function which runs `learn_shard` for each part of a round."""
        if self.workers is None and self.scheduler is None:
            yield here
            return
        try:
            from dask.distributed import Client

            from online_rank.distributed.dask import local_client, on_dask
        except ImportError:
            raise ImportError('--workers and --scheduler need Dask: pip install "online_rank[dask]"') from None
        if self.scheduler is not None:
            with Client(self.scheduler) as client:
                yield on_dask(client)
            return
        with local_client(self.workers or 1, silence_logs=logging.CRITICAL) as client:
            yield on_dask(client)


def learn_passes(
    settings: Settings, directory: str | None, model: Any, machines: Machines, shown: bool | None
) -> tuple[list[Trace], Training]:
    """Teach the model all passes. Returns a trace of each, and the result of the first."""
    parts, shards = settings.parts(), settings.shards or 1
    rounds = [parts[k : k + shards] for k in range(0, len(parts), shards)]
    trainings = []
    with machines.running() as run:
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
