"""Threads that rank beside one that learns, and Ctrl-C in the middle of learning."""

import bisect
import random
import signal
import threading
import time
from typing import NamedTuple

import numpy as np

from online_rank import PerceptronRanker, StreamScaler
from online_rank.storage.files import from_bytes, to_bytes


class Threads(NamedTuple):
    seconds: float
    queries: int
    readings: int
    torn: int
    errors: list[str]


class Interrupts(NamedTuple):
    interrupts: int
    torn: int


def growing(t: int) -> tuple[dict, dict]:
    """A query with features that no query before had."""
    rng = np.random.default_rng(t)
    docs = {f"d{i}": {"shared": float(rng.normal()), f"f{t}_{i % 3}": float(rng.normal())} for i in range(6)}
    return docs, {name: int(features["shared"] > 0.0) for name, features in docs.items()}


def threads(seconds: float, n_readers: int = 4) -> Threads:
    """Four threads rank one query while another learns queries with new features.

    A reading is torn unless it is what the model answers after some query that was learned while it was made: the same queries
    are learned once more, alone, and each answer is looked up.
    """
    probe = {"p": {"shared": 1.0, "f0_0": 2.0, "f1_1": -1.0}, "q": {"shared": -0.5, "f7_2": 1.0}}
    model = StreamScaler() | PerceptronRanker()
    model.learn_one(*growing(0))
    learned, done = [0], threading.Event()
    readings: list[list[tuple[int, int, tuple[float, ...]]]] = [[] for _ in range(n_readers)]
    errors: list[str] = []

    def read(kept: list[tuple[int, int, tuple[float, ...]]]) -> None:
        last: tuple[float, ...] | None = None
        while not done.is_set():
            try:
                before = learned[0]
                answer = tuple(model.predict_one(probe).values())
                if answer != last:  # the same answer again says nothing new
                    kept.append((before, learned[0] + 1, answer))
                    last = answer
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
                return

    readers = [threading.Thread(target=read, args=(kept,)) for kept in readings]
    for reader in readers:
        reader.start()
    start, t = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        t += 1
        model.learn_one(*growing(t))
        learned[0] = t
    done.set()
    for reader in readers:
        reader.join()
    return Threads(seconds, t, sum(map(len, readings)), _torn(probe, readings, t), errors)


def _torn(probe: dict, readings: list, n: int) -> int:
    """How many readings are the answer of no state between their beginning and their end."""
    alone = StreamScaler() | PerceptronRanker()
    answers: dict[tuple[float, ...], list[int]] = {}
    for t in range(n + 1):
        alone.learn_one(*growing(t))
        answers.setdefault(tuple(alone.predict_one(probe).values()), []).append(t)
    torn = 0
    for before, after, answer in (reading for kept in readings for reading in kept):
        times = answers.get(answer, [])
        i = bisect.bisect_left(times, before)
        torn += i == len(times) or times[i] > after
    return torn


def interrupts(n: int, seed: int = 0) -> Interrupts:
    """Ctrl-C at random instants of a pipeline's `learn_one`; the model must be as before the query, or as after it."""
    rng = random.Random(seed)
    queries = [growing(t % 50) for t in range(50)]
    model = StreamScaler() | PerceptronRanker()
    for query in queries:
        model.learn_one(*query)
    whole = to_bytes(model)
    start = time.perf_counter()
    for query in queries:
        model.learn_one(*query)
    usual = (time.perf_counter() - start) / len(queries)
    hit = torn = t = 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before_handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        while hit < n:
            t += 1
            query = queries[t % len(queries)]
            model = from_bytes(whole)
            try:
                signal.setitimer(signal.ITIMER_REAL, max(1e-6, usual * 1.2 * rng.random()))
                model.learn_one(*query)
                signal.setitimer(signal.ITIMER_REAL, 0)
                continue
            except KeyboardInterrupt:
                hit += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            after = from_bytes(whole)
            after.learn_one(*query)
            torn += to_bytes(model) not in (whole, to_bytes(after))
    finally:
        signal.signal(signal.SIGALRM, before_handler)
    return Interrupts(hit, torn)


def lock_cost(n: int = 200_000) -> float:
    """Nanoseconds that taking and giving back the lock of a step costs when no other thread wants it."""
    step = PerceptronRanker()

    def once() -> float:
        start = time.process_time()
        for _ in range(n):
            with step._lock:
                pass
        taken = time.process_time() - start
        start = time.process_time()
        for _ in range(n):
            pass
        return (taken - (time.process_time() - start)) / n * 1e9

    return min(once() for _ in range(7))
