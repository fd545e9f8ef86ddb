"""Learners of one stream in processes, which may be killed and started again."""

import contextlib
import json
import mmap
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from online_rank import load, save
from online_rank.distributed.learners import Learner, Mix, exchange_at, last_mix

Query = tuple[Any, Any]


class _Timed(Learner):
    """A learner that counts the processor seconds of its exchanges."""

    exchanging = 0.0

    def exchange(self) -> None:
        begun = time.process_time()
        try:
            super().exchange()
        finally:
            self.exchanging += time.process_time() - begun


def work(
    place: Path,
    make: Callable[[], Any],
    queries: Sequence[Query],
    number: int,
    of: int,
    seconds: float,
    pause: float,
    counts: Any,
) -> None:
    """Learn every `of`-th query, until a mix has all queries of all learners. What was learned is counted for all lives."""
    begun = time.process_time()
    learner = _Timed(exchange_at(place), make(), number=number, of=of, seconds=seconds)
    ends = {k: len(queries[k::of]) for k in range(of)}

    def read(offsets: dict[int, int]) -> Iterator[tuple[int, int, Any, Any] | None]:
        mine = queries[number::of]
        for offset in range(offsets.get(number, 0), len(mine)):
            counts[number] += 1
            yield number, offset, *mine[offset]
            time.sleep(pause)
        while learner.served.offsets != ends:
            yield None
            time.sleep(0.1)

    learner.run(read)
    spent = time.process_time() - begun, learner.exchanging
    place.with_name(f"{place.name}-{number}.json").write_text(json.dumps(spent))


def times_of(place: Path, of: int) -> list[float]:
    """Processor seconds of the last lives of all learners, in all, and in their exchanges."""
    each = [json.loads(place.with_name(f"{place.name}-{number}.json").read_text()) for number in range(of)]
    return [sum(seconds) for seconds in zip(*each, strict=True)]


def in_one_process(place: Path, make: Callable[[], Any], queries: Sequence[Query], pause: float) -> tuple[Any, float]:
    """A model that one process has taught, and its processor seconds: a fork as learners are, with cold caches as they have."""

    def learn() -> None:
        model = make()
        for X, y in queries:
            model.learn_one(X, y)
            time.sleep(pause)
        save(model, place)

    before = _used()
    _, status = os.waitpid(_started("one process", learn), 0)
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"one process ended with {code}")
    return load(place), _used() - before


def _used() -> float:
    """The processor seconds of children that have ended."""
    return os.times().children_user + os.times().children_system


def in_processes(
    place: Path,
    make: Callable[[], Any],
    queries: Sequence[Query],
    of: int,
    *,
    seconds: float,
    pause: float = 0.0,
    n_kills: int = 0,
    seed: int = 0,
) -> tuple[Mix, int, float, int]:
    """The last mix of learners in processes, how many were killed, the processor seconds of all of them, and how many queries
    they learned, with those that were learned again.
    """
    rng, before = random.Random(seed), _used()
    counts = memoryview(mmap.mmap(-1, 8 * of)).cast("q")  # Processes share it.

    def started(number: int) -> int:
        return _started(f"learner {number}", lambda: work(place, make, queries, number, of, seconds, pause, counts))

    children = {started(number): number for number in range(of)}
    killed = 0
    while children:
        if killed < n_kills:
            time.sleep(rng.expovariate(1.0 / seconds))
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice([*children]), signal.SIGKILL)
        child, status = os.waitpid(-1, 0)
        number, code = children.pop(child), os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL:
            killed += 1
            children[started(number)] = number
        elif code:
            raise RuntimeError(f"learner {number} ended with {code}")
    used, found = _used() - before, last_mix(exchange_at(place))
    if found is None:
        raise RuntimeError("the learners have left nothing")
    return found, killed, used, sum(counts)


def _started(name: str, body: Callable[[], None]) -> int:
    """The id of a process that works; it is a fork, with kernels and queries in memory."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    return child
