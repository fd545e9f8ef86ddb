"""Runs what `benchmarks.versions` times, with the code of the checkout it is started in: one task for each line on stdin."""

import hashlib
import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import scipy.linalg  # noqa: F401 - its BLAS, which kernels load when they first need it, is limited to a thread too
from threadpoolctl import threadpool_limits

from benchmarks._contestants import CONTESTANTS
from benchmarks.throughput import load
from online_rank import LossTracker, PerceptronRanker, StreamScaler, evaluate


@cache
def queries(folder: str) -> Any:
    """The queries to learn from."""
    return load(Path(folder))[0]


@cache
def learning(folder: str, name: str) -> Any:
    """A contestant of `benchmarks.throughput`, ready to learn."""
    contestant = next(one for one in CONTESTANTS if one.name == name)
    contestant.prepare(queries(folder).first(2))()
    return contestant.prepare(queries(folder))


def progressive(folder: str, together: bool) -> str:
    """A pipeline with a tracker, and two metrics; returns a digest of their values and of the weights."""
    model = StreamScaler() | LossTracker(PerceptronRanker(), measure_served=True)
    # A function that watches every query gets each query alone.
    watch = None if together else lambda trace: None
    trace = evaluate.progressive(queries(folder).queries(), model, ["ndcg@10", "map"], watch=watch)
    figures = {**trace.to_dict(), "elapsed": 0.0}
    weights = model.steps["LossTracker"].ranker.weights.tolist()
    return hashlib.sha256(json.dumps([figures, weights]).encode()).hexdigest()


def done(task: str, folder: str, name: str) -> dict[str, Any]:
    """Seconds of processor time of a task, and a digest of its outcome if it has one."""
    if task == "progressive":
        queries(folder).queries()
        start = time.process_time()
        digest = progressive(folder, name == "together")
        return {"seconds": time.process_time() - start, "digest": digest}
    run = learning(folder, name)
    start, passes = time.process_time(), 0
    while time.process_time() - start < 0.05 or not passes:
        run()
        passes += 1
    return {"seconds": (time.process_time() - start) / passes}


if __name__ == "__main__":
    with threadpool_limits(1):
        for line in sys.stdin:
            print(json.dumps(done(*json.loads(line))), flush=True)
