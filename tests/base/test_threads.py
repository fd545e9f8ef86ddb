"""Threads that read while another one learns: they meet the state after some query, never a part of one."""

import copy
import itertools
import os
import pickle
import signal
import sys
import threading

import numpy as np
import pytest

from online_rank import (
    BlendRanker,
    LossTracker,
    PerceptronRanker,
    RidgeRanker,
    StreamScaler,
)
from online_rank.base import parts_of, steps_of
from online_rank.base.lock import locked
from online_rank.base.step import QueryStep
from online_rank.metrics import NDCG
from online_rank.query import SparseRows
from online_rank.storage.files import from_bytes, to_bytes
from tests.checks.locks import methods_hold_the_lock, one_lock
from tests.helpers import state_of

N_QUERIES = 400


def queries(n=N_QUERIES, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(8, d)), rng.integers(0, 3, 8)) for _ in range(n)]


def locks(model):
    return {id(part._lock) for part in [model, *parts_of(model)]}


@pytest.fixture
def quick_switches():
    """Threads take turns every few bytecodes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


MODELS = {
    "pipeline": lambda: StreamScaler() | PerceptronRanker(),
    "tracker": lambda: StreamScaler() | LossTracker(PerceptronRanker()),
    "blend": lambda: BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()]),
    "union": lambda: (StreamScaler() + StreamScaler()) | PerceptronRanker(),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_has_one_lock_with_all_its_parts(make):
    model = make()
    for X, y in queries(20):
        model.learn_one(X, y)
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), from_bytes(to_bytes(model)), model.clone()):
        assert len(locks(one)) == 1
    one_lock(make())


def test_models_that_share_a_step_share_the_lock_with_all_of_theirs():
    scaler, other = StreamScaler(), StreamScaler()
    first, second = scaler | PerceptronRanker(), other | RidgeRanker()
    assert locks(first) != locks(second)
    bridge = scaler | other | PerceptronRanker()
    assert len(locks(first) | locks(second) | locks(bridge)) == 1
    # A copy has another scaler.
    assert locks(copy.deepcopy(first)) != locks(first)


@pytest.mark.usefixtures("quick_switches")
def test_two_pipelines_that_share_a_scaler_in_two_threads():
    scaler = StreamScaler()
    models, stream = [scaler | PerceptronRanker(), scaler | RidgeRanker()], queries(150)
    failed = []

    def learn(model, names):
        try:
            for X, y in stream:
                # New features again and again: the arrays of the scaler are replaced.
                model.learn_one([dict(zip(names, row, strict=False)) for row in X.tolist()], y)
                names.append(f"{names[0]}{len(names)}")
                names[1:7] = names[-6:]
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=learn, args=(model, [f"{letter}{j}" for j in range(6)]))
        for letter, model in zip("ab", models, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert scaler.n_documents == 2 * sum(len(y) for _, y in stream)
    assert scaler.n_features == len(scaler.means)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("taken", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: from_bytes(to_bytes(m))])
@pytest.mark.parametrize("name", ["pipeline", "tracker"])
def test_a_copy_during_learning_in_a_thread_is_the_model_after_some_query(name, taken):
    stream, model = queries(), MODELS[name]()
    met, plain = {}, MODELS[name]()
    met[repr(state(plain))] = 0
    for t, (X, y) in enumerate(stream, start=1):
        plain.learn_one(X, y)
        met[repr(state(plain))] = t

    done = threading.Event()

    def learn():
        for X, y in stream:
            model.learn_one(X, y)
        done.set()

    thread = threading.Thread(target=learn)
    thread.start()
    copies = []
    while not done.is_set():
        copies.append(taken(model))
    thread.join()
    found = [met.get(repr(state(one))) for one in copies]
    assert None not in found, "a torn copy"
    assert found == sorted(found)


def state(model):
    return [state_of(step) for step in steps_of(model)]


def test_a_certificate_while_a_thread_learns():
    tracker, stream = LossTracker(PerceptronRanker(), {"u": np.ones(6)}), queries(1500)
    tracker.learn_one(*stream[0])
    thread = threading.Thread(target=lambda: [tracker.learn_one(X, y) for X, y in stream])
    thread.start()
    n = 0
    while thread.is_alive():
        certificate = tracker.certificate("u")
        tracker.move_comparator("u", np.ones(6))
        assert certificate.holds is not False
        n += 1
    thread.join()
    assert n > 0


class Forgetful(PerceptronRanker):
    """Has a method without the lock."""

    def norm(self):
        return float(np.linalg.norm(self._weights))


class Careful(PerceptronRanker):
    """Has it under the lock."""

    @locked
    def norm(self):
        return float(np.linalg.norm(self._weights))


def test_the_contract_finds_a_public_method_without_the_lock():
    methods_hold_the_lock(Careful())
    with pytest.raises(AssertionError, match=r"norm\(\) does not take the lock"):
        methods_hold_the_lock(Forgetful())


def test_the_contract_finds_a_part_with_another_lock():
    model = LossTracker(PerceptronRanker())
    model._learner = copy.deepcopy(model._learner)
    with pytest.raises(AssertionError, match="have several locks"):
        one_lock(model)


def test_a_method_that_had_no_lock():
    assert hasattr(LossTracker.served_interval, "__wrapped__")


def test_locks_are_neither_state_nor_compared():
    model = PerceptronRanker()
    assert isinstance(model, QueryStep)
    assert "_lock" not in vars(model)
    assert "_lock" not in model.__getstate__()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_children_forked_while_a_thread_learns_have_whole_models_with_free_locks(quick_switches):
    """A child has only the thread that forked: a lock which another one held stayed taken, and the model torn."""
    model = StreamScaler() | PerceptronRanker()
    stream, done = queries(), threading.Event()

    def learn():
        for X, y in itertools.cycle(stream):
            if done.is_set():
                return
            model.learn_one(X, y)

    learner = threading.Thread(target=learn)
    learner.start()
    reports = []
    try:
        for _ in range(20):
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                signal.alarm(10)  # one that hangs ends
                try:
                    os.write(writer, b"%d " % model.steps["StreamScaler"].n_documents + to_bytes(model))
                finally:
                    os._exit(0)
            os.close(writer)
            with open(reader, "rb") as pipe:
                reports.append(pipe.read())
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        learner.join()
    alone, n_learned = StreamScaler() | PerceptronRanker(), 0
    for report in reports:
        n_documents, _, state = report.partition(b" ")
        while n_learned < int(n_documents) // 8:
            alone.learn_one(*stream[n_learned % len(stream)])
            n_learned += 1
        assert to_bytes(alone) == state


ROWS = SparseRows(np.array([0, 1, 2, 3, 3, 3]), np.array([0, 1, 2], np.int32), np.array([1.0, 2.0, 3.0]), 3)
CALLS = {
    "learn_one": lambda model, X, y, w: model.learn_one(X, y),
    "weighted": lambda model, X, y, w: model.learn_one(X, y, 2.5),
    "learn_many": lambda model, X, y, w: model.learn_many(X, y, [1, 1, 2, 2, 2], w=w),
    "sparse": lambda model, X, y, w: model.learn_one(ROWS._replace(values=w), y),
    "rank": lambda model, X, y, w: model.predict_one(X),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("make", [PerceptronRanker, lambda: StreamScaler() | PerceptronRanker()])
def test_arrays_that_get_another_shape_and_type_during_a_call(make, call, monkeypatch):
    """Kernels took the new shape of the caller's array: outside of the model's arrays, or an error of numba's."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 3)), np.array([0, 2, 1, 0, 1])
    w = np.array([1.0, 2.5, 3.0]) if call is CALLS["sparse"] else np.array([1.0, 2.5])
    model = make()
    model.learn_one(X, y)
    plain, given = copy.deepcopy(model), [X.copy(), y.copy(), w.copy()]
    answer = call(plain, X, y, w)

    def changed(name, owner):
        method = getattr(owner, name)

        def after_changes(self, *arguments, **named):
            given[0].shape = (3, 5)
            for array in given:
                array.dtype = array.dtype.newbyteorder(">")
            return method(self, *arguments, **named)

        monkeypatch.setattr(owner, name, after_changes)

    for name in ("_learn", "_learn_block", "_score", "_score_all"):
        changed(name, PerceptronRanker)
    assert call(model, *given) == answer
    assert given[0].shape == (3, 5)
    assert to_bytes(model) == to_bytes(plain)


def test_scores_that_get_another_type_while_a_metric_reads_them(monkeypatch):
    y, scores, values = [0, 2, 1], np.array([0.5, 0.25, 1.0]), NDCG._values
    wanted = NDCG().value_one(y, scores)

    def after_changes(*arguments):
        scores.dtype = ">f8"
        return values(*arguments)

    monkeypatch.setattr(NDCG, "_values", after_changes)
    assert NDCG().value_one(y, scores) == wanted
