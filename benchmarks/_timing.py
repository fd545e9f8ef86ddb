"""Wall-clock times, of one call and of several contestants by turns, and the memory of processes."""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)


def megabytes(what: str, process: int | str = "self") -> float:
    """Memory of a process as Linux says it, NaN elsewhere: `"VmRSS"`, what it has now, or `"VmHWM"`, the most so far.

    What getrusage says may be the parent's. Programs of other checkouts get the source of this function.
    """
    try:
        with open(f"/proc/{process}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(what))
    except OSError:
        return float("nan")


def seconds_of(run: Callable[[], Any], shortest: float = 0.02, calls: int = 1) -> float:
    """Seconds of one call, from at least `calls` calls that take at least `shortest` seconds together."""
    done, start = 0, time.perf_counter()
    while done < calls or time.perf_counter() - start < shortest:
        run()
        done += 1
    return (time.perf_counter() - start) / done


def interleaved(runs: Mapping[Key, Callable[[], Any]], rounds: int) -> dict[Key, list[float]]:
    """Seconds of each contestant, one number a round: they take turns, so that what else the machine does hits all alike."""
    seconds: dict[Key, list[float]] = {key: [] for key in runs}
    for _ in range(rounds):
        for key, run in runs.items():
            seconds[key].append(seconds_of(run, shortest=0.0))
    return seconds


def medians(runs: Mapping[Key, Callable[[], Any]], rounds: int) -> dict[Key, float]:
    """Median seconds of each contestant over interleaved rounds."""
    return {key: statistics.median(seconds) for key, seconds in interleaved(runs, rounds).items()}
