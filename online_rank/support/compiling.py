"""Reports which kernel numba is compiling: a first run takes seconds, during which nothing else moves on the screen."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

#: Seconds between two lines of a program whose output is not a terminal.
_EVERY = 5.0

#: Seconds between two looks at whether something is being compiled.
_POLL = 0.1


class _State:
    """The kernel that is being compiled, if any, and how long compiling has taken so far."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.since = 0.0
        self.spent = 0.0


_state = _State()
_installing = threading.Lock()
_watching = False
_listener: Any = None


def watch_compilation() -> None:
    """Start listening to numba's compile events once this process compiles something; a second call does nothing.

    A process whose kernels all come from an object file imports no numba for this.
    """
    global _watching
    from online_rank._kernels._jit import on_first_compilation

    with _installing:
        if _watching:
            return
        _watching = True
        if "numba" in sys.modules:
            _listen()
        else:
            on_first_compilation(_listen)


def _listen() -> None:
    global _listener
    import numba

    # As in `_jit._watch`: numba may be half imported, by another thread.
    event = numba.core.event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            if not _state.names:
                _state.since = time.monotonic()
            _state.names.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            if not _state.names:
                return  # It began before we started listening.
            _state.names.pop()
            if not _state.names:
                _state.spent += time.monotonic() - _state.since

    _listener = Listener()
    # numba passes the event during which a listener is registered to that listener too.
    event.register("numba:compile", _listener)


def compiling() -> str | None:
    """The kernel being compiled and the seconds spent compiling so far; None when nothing is being compiled.

    Examples
    --------
    >>> compiling() is None
    True
    """
    names = list(_state.names)
    if not names:
        return None
    seconds = _state.spent + time.monotonic() - _state.since
    return f"compiling, once: {names[-1].strip('_')}, {seconds:.0f} s"


@contextlib.contextmanager
def lines_while_compiling() -> Iterator[None]:
    """A context that prints on stderr, every few seconds, what is being compiled; on a terminal the progress bar shows it."""
    if sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def say() -> None:
        last = time.monotonic()
        while not done.wait(_POLL):
            # A command that needs no kernels does not load them either.
            if "online_rank._kernels._jit" in sys.modules:
                watch_compilation()
            if time.monotonic() - last >= _EVERY and (text := compiling()):
                print(f"online-rank: {text}", file=sys.stderr, flush=True)
                last = time.monotonic()

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        # An interrupt may leave a lock of LLVM taken, for which the thread then waits for ever.
        thread.join(1.0)
