"""Reports which kernel numba is compiling: a first run takes seconds, during which nothing else moves on the screen."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

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


def watch_compilation() -> None:
    """Keep track of what this process compiles from now on; a second call does nothing.

    A process whose kernels all come from an object file imports no numba for this.
    """
    global _watching
    from online_rank._kernels._jit import on_compilation

    with _installing:
        if not _watching:
            _watching = True
            on_compilation(_note)


def _note(name: str | None) -> None:
    """Numba begins to compile a kernel, or is done with one (None), which may have begun before anybody listened."""
    names = _state.names
    if name is not None:
        if not names:
            _state.since = time.monotonic()
        names.append(name)
    elif names:
        names.pop()
        if not names:
            _state.spent += time.monotonic() - _state.since


def compiling() -> str | None:
    """The kernel being compiled, the outermost, and the seconds spent compiling so far; None if nothing is being compiled.

    Examples
    --------
    >>> compiling() is None
    True
    """
    names = list(_state.names)
    if not names:
        return None
    seconds = _state.spent + time.monotonic() - _state.since
    return f"compiling, once: {names[0].strip('_')}, {seconds:.0f} s"


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
