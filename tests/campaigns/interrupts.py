"""Ctrl-C at random instants, and errors in any call, over all models, metrics and services.

Ctrl-C is a real signal: a timer of the system sends SIGINT to this process at a random instant of a call. It has to arrive, at
the latest when the call returns, and the state is as before the call or as after it. An error, MemoryError, is raised where the
library calls one of its own functions; its changes are undone, or they were complete. Calls that the undo log makes are left
out: it promises nothing while it is entered and left.

Afterwards no lock is held, and the next call ends as it does for a model that nobody interrupted. The process is as before, too
(`_left`): what is left there would change what others do next.
"""

import contextlib
import contextvars
import copy
import ctypes
import functools
import gc
import inspect
import io
import json
import os
import pickle
import random
import signal
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from river import utils

import online_rank
from online_rank import ClickPerceptron, HashedFeatures, PerceptronRanker, StreamScaler, SwapRanker
from online_rank.base import parts_of
from online_rank.feedback import Impression, PositionBias
from online_rank.metrics import NDCG, OffPolicyValue, metric
from online_rank.query import Runs, SparseRows
from online_rank.rankers.boosted import BoostedRanker
from online_rank.serving import Challenge, FeedbackPlan, PendingQueries
from online_rank.serving.forgetting import Wanted, forget
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from tests.campaigns.children import Died, in_child
from tests.campaigns.found import Found
from tests.models import SERVED

_HOME = online_rank.__path__[0]
#: The undo log.
_UNDO = f"{_HOME}/base/undo.py"

Subject = Any
Act = Callable[[Subject], Any]


class Scenario(NamedTuple):
    """A call on something that learns.

    Attributes
    ----------
    subject
        What learns, past its first queries.
    act
        The call.
    go_on
        The next one.
    parts
        What of the call may be missing: functions that patch it away. All else is then complete.
    """

    subject: Subject
    act: Act
    go_on: Act
    parts: tuple[Callable[[], Any], ...] = ()


class Expected(NamedTuple):
    """States that there may be: "before" or "after", the state, and what follows from it; and the answer of the call."""

    states: list[tuple[str, bytes, Any]]
    answer: Any


class _Timer:
    """Sends SIGINT to this process once, after some nanoseconds (`timer_create`)."""

    def __init__(self) -> None:
        self._libc, self._id = ctypes.CDLL(None), ctypes.c_void_p()
        event = (ctypes.c_int * 16)()  # struct sigevent: a value of 8 bytes, the signal, and SIGEV_SIGNAL.
        event[2] = signal.SIGINT
        if self._libc.timer_create(1, event, ctypes.byref(self._id)):  # CLOCK_MONOTONIC
            raise OSError("there is no timer")

    def start(self, nanoseconds: int) -> None:
        """The signal comes after so many nanoseconds; 0 stops the timer."""
        when = (ctypes.c_long * 4)(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
        self._libc.timer_settime(self._id, 0, when, None)

    @property
    def is_over(self) -> bool:
        """Whether the signal was sent."""
        left = (ctypes.c_long * 4)()
        self._libc.timer_gettime(self._id, left)
        return not left[2] and not left[3]


class _Failing:
    """Raises MemoryError where the library calls one of its functions for the `number`-th time; counts its calls."""

    def __init__(self, number: int = -1) -> None:
        self.n_calls = 0
        self._number = number

    def __enter__(self) -> "_Failing":
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # A generator is also resumed to be closed, where Python drops errors.
        if code.co_filename.startswith(_HOME) and not code.co_flags & inspect.CO_GENERATOR and not _is_undone_by(frame):
            self.n_calls += 1
            if self.n_calls == self._number:
                raise MemoryError("injected")


def _is_undone_by(frame: FrameType | None) -> bool:
    """Whether a call is one of the undo log, or was made by it."""
    while frame is not None and frame.f_code.co_filename != _UNDO:
        frame = frame.f_back
    return frame is not None


def interrupts(n: int, seed: int) -> Found:
    """Send SIGINT during `n` calls of each scenario."""
    return _of_all(functools.partial(_interrupted, n), seed)


def errors(n: int, seed: int) -> Found:
    """Raise errors in `n` calls of each scenario."""
    return _of_all(functools.partial(_failed, n), seed)


def _of_all(work: Callable[[Scenario, random.Random], Found], seed: int) -> Found:
    """What happens to each scenario, in a child process of its own."""
    _warm_up()
    found = Found()
    for name, make in scenarios().items():
        try:
            found.add(
                in_child(functools.partial(_quietly, work, make, random.Random(f"{name} {seed}"))), f"{name}, seed {seed}"
            )
        except Died as error:
            found.wrong.append(f"{name}, seed {seed}: {error}")
    return found


def _quietly(work: Callable[[Scenario, random.Random], Found], make: Callable[[], Scenario], rng: random.Random) -> Found:
    with warnings.catch_warnings(), np.errstate(all="ignore"), mock.patch("online_rank.base.columns._MANY_NAMES", 4):
        warnings.simplefilter("ignore")
        return work(make(), rng)


@functools.cache
def _warm_up() -> None:
    """Load what the children need, once for all of them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for make in scenarios().values():
            scenario = make()
            scenario.act(scenario.subject)


def _interrupted(n: int, scenario: Scenario, rng: random.Random) -> Found:
    found, expected = Found(), expected_of(scenario)
    usual, timer = _usual_seconds(scenario), _Timer()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _ in range(n):
        what = _signalled(scenario, expected, timer, int(1e9 * usual * 1.2 * rng.random()) + 1)
        found.count(cases=1, **({what: 1} if what in ("before", "after") else {}))
        found.expect(what in ("before", "after"), what)
    return found


def _usual_seconds(scenario: Scenario) -> float:
    taken = []
    for _ in range(5):
        subject = copy.deepcopy(scenario.subject)
        started = time.perf_counter()
        scenario.act(subject)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _signalled(scenario: Scenario, expected: Expected, timer: _Timer, nanoseconds: int) -> str:
    """What becomes of a copy of the subject if SIGINT comes after some nanoseconds: "before", "after", or what is wrong."""
    learner, given, arrived, was_sent = copy.deepcopy(scenario.subject), None, False, False
    left = _left()
    try:
        timer.start(nanoseconds)
        given = scenario.act(learner)
        was_sent = timer.is_over
        timer.start(0)
    except KeyboardInterrupt:
        arrived = True
    timer.start(0)
    if was_sent and not arrived:
        return "the interrupt is lost"
    return _left_as(left) or _found(scenario, learner, KeyboardInterrupt() if arrived else None, given, expected)


def _failed(n: int, scenario: Scenario, rng: random.Random) -> Found:
    found, expected = Found(), expected_of(scenario)
    for number in rng.sample(range(n_calls := calls_of(scenario)), min(n, n_calls)):
        what = outcome(scenario, expected, number + 1)
        found.count(cases=1, **({what: 1} if what in ("before", "after") else {}))
        found.expect(what in ("before", "after"), f"call {number + 1}: {what}")
    return found


def calls_of(scenario: Scenario) -> int:
    """How often the library calls its own functions in the call of a scenario."""
    with _Failing() as counted:
        scenario.act(copy.deepcopy(scenario.subject))
    return counted.n_calls


def expected_of(scenario: Scenario) -> Expected:
    """What states there may be, what follows from them, and the answer of the call."""
    before, after = copy.deepcopy(scenario.subject), copy.deepcopy(scenario.subject)
    answer = scenario.act(after)
    twins = [("before", before), ("after", after)]
    for part in scenario.parts:
        shorter = copy.deepcopy(scenario.subject)
        with part():
            scenario.act(shorter)
        twins.append(("after", shorter))
    return Expected([(which, look(twin), (_told(scenario.go_on(twin)), look(twin))) for which, twin in twins], answer)


def outcome(scenario: Scenario, expected: Expected, number: int) -> str:
    """What becomes of a copy of the subject if a call of the library fails: "before", "after", or what is wrong."""
    learner, left = copy.deepcopy(scenario.subject), _left()
    error, given = None, None
    try:
        with _Failing(number), contextlib.redirect_stderr(io.StringIO()):
            given = scenario.act(learner)
    except BaseException as failure:
        error = failure.with_traceback(None)
    return _left_as(left) or _found(scenario, learner, error, given, expected)


def _left() -> dict[str, Any]:
    """What of a process calls may change, and leave changed if they are interrupted."""
    return {
        "the context": [(variable.name, value) for variable, value in contextvars.copy_context().items()],
        "the garbage collection": gc.isenabled(),
        "the handler of SIGINT": signal.getsignal(signal.SIGINT),
        "NumPy's error handling": np.geterr(),
        "the warnings' filters": [*warnings.filters],
        "the threads": {thread.name for thread in threading.enumerate()},
        "the number of descriptors": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    }


def _left_as(before: dict[str, Any]) -> str:
    """What of the process has changed, in words; "" if nothing has. Garbage of what came before may close descriptors."""
    now = _left().items()
    changed = [name for name, value in now if (value > before[name] if type(value) is int else value != before[name])]
    return f"it has changed {', '.join(changed)} of the process" if changed else ""


def _found(scenario: Scenario, learner: Subject, error: Any, given: Any, expected: Expected) -> str:
    if any(getattr(part, "_lock", None) is not None and part._lock._is_owned() for part in _locked(learner)):
        return "its lock is taken"
    if error is not None and not isinstance(error, KeyboardInterrupt | MemoryError):
        return f"another error: {error!r}"
    state = look(learner)
    known = [(which, then) for which, looked, then in expected.states if looked == state]
    if not known:
        return "torn"
    if error is None and not _is_refusal(given):
        # Nothing was raised, so it was done.
        if all(which == "before" for which, _ in known):
            return "it said nothing, and did nothing"
        if _told(given) != _told(expected.answer):
            return "it gave another answer"
    try:
        went_on = _told(scenario.go_on(learner)), look(learner)
    except Exception as failure:
        return f"as {known[0][0]}, but then {failure!r}"
    return next((which for which, then in known if then == went_on), f"as {known[0][0]}, but goes on otherwise")


def _locked(subject: Subject) -> Iterator[Any]:
    model = getattr(subject, "model", subject)
    return parts_of(model) if hasattr(model, "learn_one") else iter(())


def _is_refusal(given: Any) -> bool:
    answer = getattr(given, "answer", None)
    return isinstance(answer, dict) and "error" in answer


def _told(answer: Any) -> Any:
    return repr(getattr(answer, "answer", answer))


def look(subject: Subject) -> bytes:
    """The whole state, to the bit."""
    try:
        return to_bytes(subject)
    except (TypeError, ValueError):
        return pickle.dumps(_plain(subject))


def _plain(value: Any) -> Any:
    """State as values whose pickles are equal if they are."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(_plain(name), _plain(each)) for name, each in value.items()]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_plain, value)]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return type(value).__name__, _plain(vars(value))
    return repr(value)


def scenarios() -> dict[str, Callable[[], Scenario]]:
    """What is interrupted, by name."""
    return {
        **{f"{name}: learn_one": functools.partial(_model, make, "learn") for name, make in SERVED.items()},
        **{f"{name}: learn_many": functools.partial(_model, make, "many") for name, make in SERVED.items()},
        **{f"{name}: growing": functools.partial(_model, make, "grow") for name, make in SERVED.items()},
        **{f"{name}: rank": functools.partial(_model, make, "rank") for name, make in SERVED.items()},
        **_others(),
    }


def _query(seed: int, m: int = 5, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    return X, np.clip(np.round(X[:, 0] + 1.0), 0, 3).astype(np.int64)


def _named(seed: int, *new: str) -> tuple[dict[str, Any], dict[str, int]]:
    X, y = _query(seed)
    names = ("a", "b", "c")
    return (
        {f"d{i}": {**dict(zip(names, row, strict=True)), **dict.fromkeys(new, 1.0 + i)} for i, row in enumerate(X.tolist())},
        {f"d{i}": int(grade) for i, grade in enumerate(y)},
    )


def _learning(model: Any, seed: int, *new: str) -> Act:
    """Learns a query; where rankings are drawn, that one is drawn now."""
    docs, y = _named(seed, *new)
    feedback: Any = model.show_one(docs).clicked([next(iter(docs))]) if model.abilities.draws else y
    return lambda model: model.learn_one(docs, feedback)


def _learn_named(model: Any, seed: int, *new: str) -> None:
    _learning(model, seed, *new)(model)


def _model(make: Callable[[], Any], call: str) -> Scenario:
    model = make()
    clicks = model.abilities.draws
    for seed in range(7):
        _learn_named(model, seed)
    blocks = [_named(seed) for seed in (20, 21, 22)]
    rank = lambda model: (model.rank_one(_named(9)[0]), model.predict_one(_named(9)[0]))  # noqa: E731

    def go_on(model: Any) -> Any:
        _learn_named(model, 11, "later")
        return rank(model)

    if call == "rank":
        return Scenario(model, rank, go_on)
    if call == "grow":
        return Scenario(model, _learning(model, 8, "new", "newer"), go_on)
    if call == "learn" or clicks or model.abilities.takes_documents or model.abilities.takes_context:
        return Scenario(model, _learning(model, 8), go_on)
    X = pd.concat([pd.DataFrame(list(docs.values())) for docs, _ in blocks])
    y = [grade for _, grades in blocks for grade in grades.values()]
    qid = np.repeat(np.arange(3), 5)
    return Scenario(model, lambda model: model.learn_many(X, y, qid, w=[1.0, 2.5, 0.5]), go_on)


def _others() -> dict[str, Callable[[], Scenario]]:
    X, y = _query(1)
    X2, y2 = _query(2)
    rows = SparseRows(np.array([0, 1, 3, 4, 4, 5]), np.array([2, 0, 1, 1, 2], np.int32), np.array([5.0, 1.0, 2.0, 3.0, 1.0]), 3)
    clicks = Impression(("a", "b", "c"), logits=(0.0, 0.0, 0.0)).clicked(["b"])

    def on_arrays(make: Callable[[], Any], learn: Act) -> Callable[[], Scenario]:
        def made() -> Scenario:
            model = make()
            for seed in range(4):
                model.learn_one(*_query(seed))
            return Scenario(model, learn, lambda model: (model.learn_one(X2, y2), model.predict_one(X)))

        return made

    def one(model: Any) -> Any:
        return model.learn_one(X, y, 2.5)

    def many(model: Any) -> Any:
        return model.learn_many(np.concatenate((X, X2)), np.concatenate((y, y2)), [0] * 5 + [1] * 5)

    def sparse(model: Any) -> Any:
        return model.learn_one(rows, y)

    found = {
        "perceptron: weighted": on_arrays(PerceptronRanker, one),
        "perceptron: block": on_arrays(PerceptronRanker, many),
        "perceptron: sparse": on_arrays(PerceptronRanker, sparse),
        "gradient: sparse": on_arrays(lambda: online_rank.GradientRanker(), sparse),
        "direct: block": on_arrays(lambda: online_rank.DirectRanker((4,), seed=1), many),
        "direct: weighted": on_arrays(lambda: online_rank.DirectRanker((4, 3), accumulate=2, seed=1), one),
        "scaler | direct: weighted": on_arrays(lambda: StreamScaler() | online_rank.DirectRanker((4,), seed=1), one),
        "boosted: tree": on_arrays(lambda: BoostedRanker(depth=2, window=8, rate=10.0), many),
        "hashed: block": on_arrays(lambda: HashedFeatures(4) | PerceptronRanker(), many),
    }

    def clicked(make: Callable[[], Any]) -> Scenario:
        model = make()
        for seed in range(4):
            _learn_named(model, seed)
        return Scenario(model, _learning(model, 8), lambda model: model.rank_one(_named(9)[0]))

    def of(value: Any, act: Act) -> Callable[[], Scenario]:
        def made() -> Scenario:
            act(value)
            return Scenario(value, act, lambda value: (act(value), None)[1])

        return made

    def fused() -> Scenario:
        model = online_rank.hybrid(["a", "b"])
        runs = [Runs({"a": {"x": 3.0 + i, "y": 1.0}, "b": {"y": 2.0, "z": float(i)}}) for i in range(6)]
        grades = {"x": 0, "y": 2, "z": 1}
        for each in runs[:4]:
            model.learn_one(each, grades)
        new = Runs({"a": {"x": 3.0, "y": 1.0}, "b": {"x": 2.0, "z": 5.0}})
        return Scenario(model, lambda model: model.learn_one(new, grades), lambda model: model.rank_one(runs[5]))

    def explained(make: Callable[[], Any]) -> Scenario:
        made = _model(make, "rank")
        return made._replace(act=lambda model: model.explain_one(_named(9)[0], "d0", "d1"))

    blocks = np.concatenate((y, y2)), np.concatenate((X[:, 0], X2[:, 1])), [0] * 5 + [1] * 5
    return {
        **found,
        "swap: clicks": lambda: clicked(SwapRanker),
        "click perceptron: clicks": lambda: clicked(ClickPerceptron),
        "hybrid: runs": fused,
        "perceptron: explain": lambda: explained(lambda: StreamScaler() | PerceptronRanker()),
        "boosted: explain": lambda: explained(lambda: BoostedRanker(depth=2, window=8, rate=10.0)),
        "metric: update": of(metric("ndcg@3"), lambda m: m.update([0, 2, 1], [0.3, 0.2, 0.1])),
        "metric: update_many": of(metric("ap"), lambda m: m.update_many(*blocks)),
        "metric: rolling": of(utils.Rolling(NDCG, 3, k=3), lambda m: m.update([0, 2, 1], [0.3, 0.2, 0.1])),
        "position bias": of(PositionBias(3), lambda m: m.update(clicks)),
        "value of another ranking": of(OffPolicyValue([0.5, 0.3, 0.2]), lambda m: m.update(clicks, ["b", "a", "c"])),
        **_pending(),
        **_services(),
    }


def _pending() -> dict[str, Callable[[], Scenario]]:
    def waiting(plan: FeedbackPlan | None) -> PendingQueries:
        pending = PendingQueries(max_queries=3, plan=plan)
        for i, name in enumerate("abc"):
            pending.remember(name, ("text", [0.5, 0.25], None), 10, at=float(i))
        if plan is not None:
            pending.add("b", {"x": 1.0}, at=3.0)
            pending.add("early", {"x": 2.0}, at=3.0)
        return pending

    def go_on(pending: PendingQueries) -> Any:
        pending.remember("f", ("text", [0.5], None), 10, at=50.0)
        return pending.numbers().tolist(), pending.n_evicted, list(pending.closed(60.0)) if pending.plan else pending.take("f")

    plan = FeedbackPlan(window=100, events={"click": 1})
    acts: dict[str, tuple[FeedbackPlan | None, Act]] = {
        "put": (None, lambda p: p.remember("d", ("text", [1.0], None), 20, at=4.0)),
        "put again": (None, lambda p: p.remember("b", ("text", [1.0], None), 20, at=4.0)),
        "take": (None, lambda p: p.take("b")),
        "windows, put": (plan, lambda p: p.remember("d", ("text", [1.0], None), 20, at=4.0)),
        "windows, early": (plan, lambda p: p.remember("early", ("text", [1.0], None), 20, at=4.0)),
        "windows, event": (plan, lambda p: p.add_event("c", "click", "x", at=5.0)),
        "windows, early event": (plan, lambda p: p.add("z", {"x": 1, "y": 2}, at=5.0, ungraded=0)),
        "windows, late": (plan, lambda p: p.add("a", {"x": 1}, at=300.0)),
    }
    return {
        f"waiting: {name}": lambda plan=plan, act=act: Scenario(waiting(plan), act, go_on) for name, (plan, act) in acts.items()
    }


def _unable(challenge: Challenge, *_: Any) -> None:
    """The challenger has no memory to learn with."""
    challenge.n_failed += 1


def _services() -> dict[str, Callable[[], Scenario]]:
    def ask(query_id: Any, seed: int, **more: Any) -> bytes:
        return json.dumps({"id": query_id, "docs": _named(seed)[0], **more}).encode()

    def grade(query_id: Any, seed: int, **more: Any) -> bytes:
        return json.dumps({"id": query_id, "grades": _named(seed)[1], **more}).encode()

    def made(make: Callable[[], Any], act: bytes, challenge: Any = None, plan: FeedbackPlan | None = None) -> Scenario:
        rival = None if challenge is None else Challenge(challenge(), promote_at=0.95)
        service = RankingService(make(), max_pending=3, max_learned=3, plan=plan, challenge=rival)
        draws = service.draws
        for i in range(7):
            at = {} if plan is None else {"ts": 10.0 * i}
            shown = service.handle(ask(i, i, **at)).answer
            if i < 5:
                clicked = json.dumps({"id": i, "clicks": shown["ranking"][:1], **at}).encode()
                service.handle(clicked if draws else grade(i, i, **at))
        parts = []
        if rival is not None:
            parts.append(lambda: mock.patch.object(Challenge, "learn", _unable))
        if plan is not None:
            parts += [lambda most=most: mock.patch("online_rank.serving.windows._MOST_CLOSED", most) for most in (0, 1, 2)]
        return Scenario(service, lambda service: service.handle(act), go_on, tuple(parts))

    def go_on(service: RankingService) -> Any:
        first = service.handle(ask("next", 12, ts=95.0)).answer
        return first, service.handle(json.dumps({"id": "x", "docs": _named(13)[0], "greedy": True}).encode()).answer

    def again(act: bytes) -> Scenario:
        """What a restart does."""
        scenario = made(learner, act)
        outcome = copy.deepcopy(scenario.subject).handle(act).outcome
        done = outcome.fields, outcome.number, outcome.waiting, outcome.feedback
        return scenario._replace(act=lambda service: service.replay(*done))

    learner = lambda: StreamScaler() | PerceptronRanker()  # noqa: E731
    window = FeedbackPlan(window=30, events={"click": 1})
    taught = json.dumps({"id": "t", "docs": _named(8)[0], "grades": _named(8)[1]}).encode()
    acts: dict[str, tuple[Any, ...]] = {
        "rank": (learner, ask("new", 8)),
        "rank again": (learner, ask(5, 8)),
        "learn": (learner, grade(5, 5)),
        "teach": (learner, taught),
        "learn twice": (learner, grade(4, 4)),
        "greedy": (learner, ask("g", 8, greedy=True)),
        "challenged, rank": (learner, ask("new", 8), PerceptronRanker),
        "challenged, learn": (learner, grade(5, 5), PerceptronRanker),
        "challenged, teach": (learner, taught, PerceptronRanker),
        "clicks, rank": (SwapRanker, ask("new", 8)),
        "clicks, learn": (SwapRanker, json.dumps({"id": 6, "clicks": ["d1"]}).encode()),
        "drafts, rank": (SwapRanker, ask("new", 8), SwapRanker),
        "drafts, learn": (SwapRanker, json.dumps({"id": 6, "clicks": ["d1"]}).encode(), SwapRanker),
        "windows, rank": (learner, ask("new", 8, ts=70.0), None, window),
        "windows, event": (learner, json.dumps({"id": 6, "event": "click", "doc": "d1", "ts": 71.0}).encode(), None, window),
        "windows, close": (learner, ask("new", 8, ts=92.0), None, window),
    }
    forgotten = made(learner, b"")._replace(act=lambda service: forget(service, Wanted(ids=(5,), context=("user", "c"))))
    return {
        **{f"service: {name}": functools.partial(made, *given) for name, given in acts.items()},
        **{f"service: {name} again": functools.partial(again, acts[name][1]) for name in ("rank", "learn", "teach")},
        "service: forget": lambda: forgotten,
    }
