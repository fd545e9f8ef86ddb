"""Threads that save, copy or pickle a learning model, share its steps, or mutate its inputs.

Each kind runs in a child process, where a crash is noticed.

- A file, copy or pickle is torn unless it is, to the bit, what the model was after some query; copies are used, too.
- Two pipelines share a scaler, and learn in two threads: the scaler must have counted all documents.
- While a call works, another thread writes what no array should have into features, grades, indices of sparse rows, or weights:
  the call may refuse them or learn what it read, but the model is one that can be saved and loaded afterwards.
"""

import copy
import functools
import hashlib
import itertools
import pickle
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from online_rank import DirectRanker, GradientRanker, KernelPerceptronRanker, PerceptronRanker, StreamScaler
from online_rank.metrics import metric
from online_rank.query import SparseRows
from online_rank.rankers.click_trees import ClickTrees
from online_rank.storage.files import from_bytes, to_bytes
from tests.campaigns.children import Died, in_child
from tests.campaigns.found import Found
from tests.campaigns.threads import growing

#: The number of queries of new features after which a new model begins.
_LONGEST = 300


def races(seconds: float) -> Found:
    """All kinds, for some seconds each."""
    found = Found()
    for name, work in KINDS.items():
        try:
            found.add(in_child(functools.partial(_quietly, work, seconds), seconds=int(seconds) + 300), name)
        except Died as error:
            found.wrong.append(f"{name}: {error}")
    return found


def _quietly(work: Callable[[float], Any], seconds: float) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return work(seconds)


def _digest(model: Any) -> bytes:
    return hashlib.sha256(to_bytes(model)).digest()


def _beside(take: Callable[[Any], Any], seconds: float) -> Found:
    """Take something from a model while it learns new features; what was taken must be a state that the model had."""
    found, end = Found(), time.monotonic() + seconds
    while time.monotonic() < end:
        model, done, taken, errors = StreamScaler() | PerceptronRanker(), threading.Event(), list[Any](), list[str]()

        def look(model: Any = model, done: Any = done, taken: list[Any] = taken, errors: list[str] = errors) -> None:
            try:
                while not done.is_set():
                    taken.append(take(model))
            except BaseException as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for t in range(_LONGEST):
            model.learn_one(*growing(t))
        done.set()
        for thread in threads:
            thread.join()
        alone = StreamScaler() | PerceptronRanker()
        known = {_digest(alone)}
        for t in range(_LONGEST):
            alone.learn_one(*growing(t))
            known.add(_digest(alone))
        found.count(calls=_LONGEST, looks=len(taken))
        for each in taken:
            again = from_bytes(each) if isinstance(each, bytes) else each
            found.expect(_digest(again) in known, "not a state that the model had")
            again.learn_one(*growing(_LONGEST + 1))
        found.wrong += errors
    return found


def _shared(seconds: float) -> Found:
    """Two pipelines with one scaler learn in two threads, and a third one ranks."""
    found, end = Found(), time.monotonic() + seconds
    while time.monotonic() < end:
        scaler = StreamScaler()
        pipelines = [scaler | PerceptronRanker(), scaler | GradientRanker()]
        errors: list[str] = []

        def learn(number: int, pipelines: Any = pipelines, errors: list[str] = errors) -> None:
            try:
                for t in range(_LONGEST):
                    pipelines[number].learn_one(*growing(2 * t + number))
                    pipelines[1 - number].rank_one(growing(t)[0])
            except BaseException as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=learn, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.count(calls=2 * _LONGEST)
        counted = f"the scaler counted {scaler.n_documents} documents of {12 * _LONGEST}"
        found.expect(scaler.n_documents == 12 * _LONGEST, counted)
        for pipeline in pipelines:
            _digest(from_bytes(to_bytes(pipeline)))
        found.wrong += errors
    return found


def _spoilt(array: str, seconds: float) -> Found:
    """Learn from arrays of which another thread changes one."""
    rng = np.random.default_rng(0)
    m, d, n = 40, 20, 10
    right: dict[str, np.ndarray] = {
        "X": rng.normal(size=(n * m, d)),
        "y": rng.integers(0, 4, n * m),
        "weights": np.ones(n),
        "starts": np.arange(0, 3 * m + 1, 3),
        "columns": np.tile(np.arange(3, dtype=np.int32), m),
        "values": rng.normal(size=3 * m),
        "scores": rng.normal(size=n * m),
    }
    given = {name: each.copy() for name, each in right.items()}
    wrong = [np.nan, np.inf, -1.0, 1e308] if given[array].dtype == np.float64 else [-1, 2**31 - 1, -(2**31), 2000]
    if given[array].dtype == np.int64:
        wrong += [2**62, -(2**62)]
    qid, done = np.repeat(np.arange(n), m), threading.Event()

    def spoil() -> None:
        flat, good = given[array].reshape(-1), right[array].reshape(-1)
        for i, value in zip(itertools.cycle(range(0, len(flat), 7)), itertools.cycle(wrong)):
            flat[i] = value
            if i % 3 == 0:
                flat[i] = good[i]
            elif i < 7:
                flat[:] = good
            if done.is_set():
                return

    rows = SparseRows(given["starts"], given["columns"], given["values"], d)
    measured = metric("ndcg@10")
    learners = [PerceptronRanker(), KernelPerceptronRanker(budget=20), DirectRanker((4,), seed=1)]
    learners += [ClickTrees(depth=2, window=8, rate=10.0), StreamScaler() | GradientRanker()]
    sparse = [PerceptronRanker(), GradientRanker(), StreamScaler() | PerceptronRanker()]
    acts: list[Callable[[], Any]] = [
        *(lambda each=each: each.learn_one(given["X"][:m], given["y"][:m]) for each in learners),
        *(lambda each=each: each.learn_many(given["X"], given["y"], qid, w=given["weights"]) for each in learners),
        *(lambda each=each: each.predict_one(given["X"][:m]) for each in learners),
        *(lambda each=each: each.learn_one(rows, given["y"][:m]) for each in sparse),
        *(lambda each=each: each.predict_one(rows) for each in sparse),
        lambda: measured.update(given["y"][:m], given["scores"][:m]),
        lambda: measured.update_many(given["y"], given["scores"], qid, w=given["weights"]),
    ]
    for act in acts:
        act()
    thread = threading.Thread(target=spoil)
    thread.start()
    found, end = Found(), time.monotonic() + seconds
    while time.monotonic() < end and not found.wrong:
        for number, act in enumerate(acts):
            found.count(calls=1)
            try:
                act()
            except (ValueError, TypeError):
                found.count(refused=1)
            except Exception as error:
                found.wrong.append(f"call {number}: {error!r}")
        if found.counts["calls"] % (10 * len(acts)) == 0:
            for model in (*learners, *sparse, measured):
                try:
                    from_bytes(to_bytes(model))
                except Exception as error:
                    found.wrong.append(f"{model}: {error!r}"[:200])
    done.set()
    thread.join()
    return found


KINDS: dict[str, Callable[[float], Found]] = {
    "save": functools.partial(_beside, to_bytes),
    "copy": functools.partial(_beside, copy.deepcopy),
    "pickle": functools.partial(_beside, lambda model: pickle.loads(pickle.dumps(model))),
    "shared scaler": _shared,
    **{f"changed {name}": functools.partial(_spoilt, name) for name in ("X", "y", "weights", "starts", "columns", "scores")},
}
