"""Threads that rank while another one learns."""

import bisect
import threading
import time

import numpy as np

from online_rank import PerceptronRanker, StreamScaler
from tests.campaigns.found import Found


def growing(t: int) -> tuple[dict, dict]:
    """A query with features that no query before had."""
    rng = np.random.default_rng(t)
    docs = {f"d{i}": {"shared": float(rng.normal()), f"f{t}_{i % 3}": float(rng.normal())} for i in range(6)}
    return docs, {name: int(features["shared"] > 0.0) for name, features in docs.items()}


def threads(seconds: float, n_readers: int = 4) -> Found:
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
    found = Found(queries=t, readings=sum(map(len, readings)))
    found.wrong += errors
    torn = _torn(probe, readings, t)
    found.expect(not torn, f"{torn} readings are torn")
    return found


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
