"""Ctrl-C at every line of learning, and errors from inside: the model is as before the query, or as after it."""

import _signal
import copy
import gc
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import online_rank
from online_rank import (
    BlendRanker,
    DirectRanker,
    GradientRanker,
    HashedFeatures,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.base.ranker import Ranker
from online_rank.base.schema import declared_state
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Impression, PositionBias
from online_rank.metrics import OffPolicyValue, metric
from online_rank.query import SparseRows, read_query
from tests.helpers import as_dicts, state_of

X = np.array([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0], [2.0, 0.0, 1.0]])
Y = np.array([0, 2, 1])
ROWS = SparseRows(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([5.0, 1.0, 2.0]), 3)

HOME = online_rank.__path__[0]


def at_line(act, instant, do, but=()):
    """Call `act`, and `do` before the line of this library with the number `instant`; returns whether it came that far.

    Lines of the files called `but` do not count.
    """
    left = [instant]

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line" and not frame.f_code.co_filename.endswith(but):
            left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                do()
        return trace

    gc.disable()  # What is raised in a finalizer is lost.
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
        gc.enable()
    return left[0] < 0


def interrupted(act, instant):
    """Call `act` with a Ctrl-C before its line number `instant`; returns whether there was one, which must arrive."""
    try:
        sent = at_line(act, instant, lambda: signal.raise_signal(signal.SIGINT))
    except KeyboardInterrupt:
        sent = True
    else:
        assert not sent, f"a Ctrl-C before line {instant} was lost"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return sent


def answers(model):
    """The state of each part, and what it says of its last round."""
    return repr([state_of(step) for step in getattr(model, "steps", {0: model}).values()]), repr(model.last_round)


def states_met(model, *query):
    """How many interrupts left `model` as before a query and as after it; fails for one that left something else."""
    after = copy.deepcopy(model)
    after.learn_one(*query)
    before, after = answers(model), answers(after)
    assert before != after
    n_before = n_after = instant = 0
    while True:
        learner = copy.deepcopy(model)
        if not interrupted(lambda learner=learner: learner.learn_one(*query), instant):
            break
        met = answers(learner)
        assert met in (before, after), f"torn by an interrupt before line {instant}"
        n_before, n_after = n_before + (met == before), n_after + (met == after)
        instant += 1
    return n_before, n_after


MODELS = {
    "perceptron": lambda: PerceptronRanker(credit="spread"),
    "scaler and perceptron": lambda: StreamScaler() | PerceptronRanker(credit="spread"),
    "map and perceptron": lambda: StreamQuantileMap() | PerceptronRanker(),
    "scaler and gradient": lambda: StreamScaler() | GradientRanker(),
    "scaler and network": lambda: StreamScaler() | DirectRanker(seed=1),
    "ridge": RidgeRanker,
    "scaler and ridge": lambda: StreamScaler() | RidgeRanker(),
    "hashed": lambda: HashedFeatures(4) | PerceptronRanker(credit="spread"),
    "blend": lambda: BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()]),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_no_interrupt_tears_a_model(make):
    model = make()
    model.learn_one(X, Y)
    n_before, n_after = states_met(model, X[::-1].copy(), Y)
    assert n_before > 5
    # Where nothing holds it back, a handler comes before the only kernel.
    assert n_after > 10 or not hasattr(model, "steps")


@pytest.mark.slow
@pytest.mark.parametrize("make", [MODELS["perceptron"], MODELS["scaler and perceptron"]])
def test_no_interrupt_tears_a_model_that_grows(make):
    model = make()
    model.learn_one(*as_dicts(X, Y))
    query, grades = as_dicts(X[::-1], Y)
    _, n_after = states_met(model, {name: {**features, "new": 1.0} for name, features in query.items()}, grades)
    assert n_after > 10


@pytest.mark.slow
@pytest.mark.parametrize("make", [MODELS["perceptron"], GradientRanker])
def test_no_interrupt_tears_a_model_that_learns_from_its_first_sparse_query(make):
    model = make()
    model.learn_one(X, Y)
    states_met(model, ROWS, Y[:2])
    model.learn_one(ROWS, Y[:2])
    states_met(model, ROWS, Y[:2][::-1])


def test_a_sparse_query_that_is_refused_leaves_the_state_dense():
    model = PerceptronRanker(credit="argmax")
    model.learn_one(X, Y)
    before = answers(model)
    with pytest.raises(ValueError, match="finite"):
        model.learn_one(ROWS._replace(values=np.array([5.0, np.nan, 2.0])), Y[:2])
    assert model._rows is None
    assert answers(model) == before


def test_a_pipeline_that_refuses_a_query_keeps_the_round_before():
    model = StreamScaler() | PerceptronRanker(credit="spread")
    model.learn_one(X, Y)
    before = answers(model)
    for grades, features in ((-Y, X), (Y, X * 1e300)):
        with pytest.raises(ValueError, match=r"grade|large|finite"):
            model.learn_one(features, grades)
        assert answers(model) == before


@pytest.mark.slow
def test_a_class_that_defines_learn_does_not_inherit_that_learning_is_one_kernel():
    class Chatty(PerceptronRanker):
        """Learns twice."""

        def _learn(self, block, rounds):
            super()._learn(block, rounds)
            return super()._learn(block, rounds)

    class Renamed(PerceptronRanker):
        """Learns as its parent does."""

    assert PerceptronRanker._learns_atomically
    assert Renamed._learns_atomically
    assert not Chatty._learns_atomically
    model = StreamScaler() | Chatty(credit="spread")
    model.learn_one(X, Y)
    states_met(model, X[::-1].copy(), Y)


def test_rankers_that_learn_in_python_do_not_call_it_one_kernel():
    assert not Ranker._learns_atomically
    assert not BlendRanker._learns_atomically
    assert not RidgeRanker._learns_atomically


def test_memory_that_cannot_be_had_for_a_snapshot_leaves_the_weights(monkeypatch):
    model = GradientRanker()
    model.learn_one(ROWS, Y[:2])
    before = answers(model)

    def no_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr("online_rank.base.step.record_state", no_memory)
    with pytest.raises(MemoryError):
        model.learn_many(np.concatenate((X, X)), np.concatenate((Y, Y)), [0, 0, 0, 1, 1, 1])
    monkeypatch.undo()
    assert answers(model) == before
    assert model._rows is not None


def test_memory_that_cannot_be_had_for_the_rows_of_a_query_leaves_the_weights(monkeypatch):
    """The weights were taken out of the model while the rows that a query changes were copied."""
    model = GradientRanker()
    wide = SparseRows(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([5.0, 1.0, 2.0]), 50)
    model.learn_one(wide, Y[:2])
    before = answers(model)

    def no_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr("online_rank.base.step.record_state", no_memory)
    with pytest.raises(MemoryError), all_or_nothing() as changes:
        changes.include(model, read_query(wide, Y[:2]))
    monkeypatch.undo()
    assert answers(model) == before


def test_a_network_whose_first_documents_have_no_features():
    model = DirectRanker(hidden=(3,), seed=0)
    for _ in range(50):
        model.learn_one({"a": {}, "b": {}}, {"a": 0, "b": 2})
    assert model.last_round.skipped
    assert model.last_round.loss > 0.0
    assert not len(declared_state(model).weights)
    twin = DirectRanker(hidden=(3,), seed=0)
    query, grades = as_dicts(X, Y)
    for one in (model, twin):
        one.learn_one(query, grades)
    assert model.predict_one(query) == twin.predict_one(query)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["scaler and perceptron", "map and perceptron", "scaler and ridge", "ridge", "blend"])
def test_an_error_from_inside_is_undone(name):
    """A lack of memory, or what the handler of another signal raises, before any line outside the undo log."""
    model = MODELS[name]()
    model.learn_one(X, Y)
    after = copy.deepcopy(model)
    after.learn_one(X[::-1].copy(), Y)
    before, after, instant = answers(model), answers(after), 0

    def fail():
        raise MemoryError

    while True:
        learner = copy.deepcopy(model)
        try:
            if not at_line(lambda learner=learner: learner.learn_one(X[::-1].copy(), Y), instant, fail, ("base/undo.py",)):
                break
        except MemoryError:
            assert answers(learner) in (before, after), instant
        # A trace also raises at places without signal handlers: behind the body, before the log is left.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        instant += 1
    assert instant > 20


def test_undoing_continues_after_a_step_that_fails():
    undone = []

    def fails():
        raise MemoryError

    changes = all_or_nothing()
    for undo in (lambda: undone.append("first"), fails, lambda: undone.append("last")):
        changes.undo_by(undo)
    with pytest.raises(MemoryError), changes:
        raise KeyError
    assert undone == ["last", "first"]


@pytest.mark.parametrize("sort", [False, True])
def test_entries_that_change_are_put_back_in_their_order(sort):
    kept = {"a": (1, ""), "b": (2, ""), "c": (3, "")}
    before = [*kept.items()]

    def changes():
        with all_or_nothing() as log:
            log.include_entries(kept, ["a", "d"], sort)
            kept.update(a=(5, ""), d=(4, ""))
            if sort:
                kept["a"] = kept.pop("a")
                log.include_entries(kept, ["b"], sort)
                del kept["b"]
            raise KeyError

    with pytest.raises(KeyError):
        changes()
    assert [*kept.items()] == before


def test_no_interrupt_tears_a_metric_or_a_position_bias():
    """Their counts were set one after the other."""
    clicks = Impression(("a", "b"), logits=(0.0, 0.0)).clicked(["b"])
    for value, learn in (
        (metric("ndcg@3"), lambda m: m.update([0, 2, 1], [0.3, 0.2, 0.1])),
        (PositionBias(3), lambda m: m.update(clicks)),
        (OffPolicyValue([0.5, 0.5]), lambda m: m.update(clicks, ["b", "a"])),
    ):
        learn(value)
        after = copy.deepcopy(value)
        learn(after)
        instant = 0
        while True:
            learner = copy.deepcopy(value)
            if not interrupted(lambda learner=learner, learn=learn: learn(learner), instant):
                break
            assert repr(vars(learner)) in (repr(vars(value)), repr(vars(after))), (type(value), instant)
            instant += 1
        assert instant > 3


@pytest.fixture
def handled():
    """The signals that a handler of the user's own got."""
    found, before = [], signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGINT, before)


def test_the_outermost_holds_an_interrupt_back_and_calls_the_user_s_handler(handled):
    own = signal.getsignal(signal.SIGINT)
    with all_or_nothing():
        with all_or_nothing():
            signal.raise_signal(signal.SIGINT)
        assert handled == []
    assert handled == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is own

    def fails():
        with all_or_nothing():
            signal.raise_signal(signal.SIGINT)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert len(handled) == 2


def test_a_second_interrupt_is_not_held_back_and_is_undone():
    scaler = StreamScaler()

    def impatient():
        with all_or_nothing(scaler):
            scaler.learn_one(X)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            scaler.learn_one(X)

    with pytest.raises(KeyboardInterrupt):
        impatient()
    assert scaler.n_documents == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_who_has_no_handler_gets_none(handler, handled):
    signal.signal(signal.SIGINT, handler)
    with all_or_nothing():
        assert signal.getsignal(signal.SIGINT) is handler


def test_another_thread_leaves_signals_alone(handled):
    own, met = signal.getsignal(signal.SIGINT), []

    def work():
        with all_or_nothing():
            met.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert met == [own]


def test_another_signal_whose_handler_raises_at_the_door_leaves_the_handler_of_interrupts(handled, monkeypatch):
    own, change = signal.getsignal(signal.SIGINT), _signal.signal
    for late in (False, True):
        calls = []

        def raises(number, handler, late=late, calls=calls):
            calls.append(handler)
            # Python handles signals that are pending before it changes a handler.
            if len(calls) == 1 + late:
                raise TimeoutError
            return change(number, handler)

        monkeypatch.setattr("online_rank.base.undo._signal.signal", raises)
        with pytest.raises(TimeoutError), all_or_nothing():
            pass
        monkeypatch.undo()
        assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.slow
def test_interrupts_arrive_in_a_test_run_that_was_started_with_sigint_ignored():
    """As by a shell script in the background: a Ctrl-C was lost, here and in the commands that tests start."""
    name = "test_a_class_that_defines_learn_does_not_inherit_that_learning_is_one_kernel"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", f"{__file__}::{name}"]
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert done.returncode == 0, done.stdout
