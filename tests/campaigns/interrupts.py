"""Ctrl-C at random instants, and errors in any call, over all models, metrics and services.

Ctrl-C is a real signal: a timer of the system sends SIGINT to this process at a random instant of a call. It has to arrive, at
the latest when the call returns, and the state is as before the call or as after it. An error, MemoryError, is raised where the
library calls one of its functions; its changes are undone, or they were complete. Calls that the undo log makes are left
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

import numpy as np

import online_rank
from online_rank.base import parts_of
from online_rank.storage.files import to_bytes
from tests.campaigns.children import Died, in_child
from tests.campaigns.found import Found
from tests.campaigns.scenarios import Scenario, Subject, scenarios

_HOME = online_rank.__path__[0]
#: The undo log.
_UNDO = f"{_HOME}/base/undo.py"


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
        """Send the signal after `nanoseconds`; 0 stops the timer."""
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
    """What happens to each scenario, in a separate child process."""
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
    with warnings.catch_warnings(), np.errstate(all="ignore"):
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
    numpy_errors = left.pop("NumPy's error handling")  # A signal may come while NumPy itself enters or leaves `errstate`.
    try:
        timer.start(nanoseconds)
        given = scenario.act(learner)
        was_sent = timer.is_over
        timer.start(0)
    except KeyboardInterrupt:
        arrived = True
    timer.start(0)
    np.seterr(**numpy_errors)
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
        "the context": {each.name: value for each, value in contextvars.copy_context().items() if "numpy" not in each.name},
        "the garbage collection": gc.isenabled(),
        "the handler of SIGINT": signal.getsignal(signal.SIGINT),
        "NumPy's error handling": np.geterr(),
        "the warnings' filters": [*warnings.filters],
        "the threads": {thread.name for thread in threading.enumerate()},
        "the number of descriptors": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    }


def _left_as(before: dict[str, Any]) -> str:
    """What of the process has changed, in words; "" if nothing has. Garbage of what came before may close descriptors."""
    now = _left()
    changed = [name for name, value in before.items() if (now[name] > value if type(value) is int else now[name] != value)]
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
    return next((which for which, then in known if then == went_on), f"as {known[0][0]}, but continues differently")


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
