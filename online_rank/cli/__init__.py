"""The `online-rank` command (extra `cli`)."""

import _thread
import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["main"]

_USAGE = 2
_INTERRUPTED = 128 + signal.SIGINT
_PIPE_CLOSED = 128 + 13  # SIGPIPE, which some systems lack

#: Seconds after which an interrupt that came at a bad moment is tried again.
_AGAIN = 0.02


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; leaves with exit code 0, 2 after an error (one line on stderr), 130 when interrupted."""
    try:
        with _interrupts_are_not_lost(signal.SIG_IGN if arguments is None else signal.default_int_handler):
            code = _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)


@contextlib.contextmanager
def _interrupts_are_not_lost(afterwards: Any) -> Iterator[None]:
    """Raise KeyboardInterrupt where it reaches `main`, and try again later where it would not.

    `afterwards` handles interrupts from then on. A process that ends ignores them: Python would kill it by the signal.

    An interrupt waits until no module is being imported: half a module fails otherwise, and import hooks lose it. Python only
    prints an exception in the callback of a weak reference, in `__del__` or in a callback from C. Of 40 interrupts at random
    times while numba compiled, 2 fell into a callback of its weak dictionaries.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield
        return
    before = sys.unraisablehook
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = functools.partial(_unraisable, before)
    try:
        yield
    finally:
        sys.unraisablehook = before
        signal.signal(signal.SIGINT, afterwards)


def _interrupt(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt, or try again later if a module is being imported or `_unraisable` runs."""
    while frame is not None and frame.f_code is not main.__code__:
        importing = frame.f_globals.get("__name__") in ("importlib._bootstrap", "_frozen_importlib")
        if importing or frame.f_code is _unraisable.__code__:
            _interrupt_soon()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _unraisable(otherwise: Callable[[Any], Any], about: Any) -> None:
    """Handle an exception that no caller can catch."""
    if issubclass(about.exc_type, KeyboardInterrupt):
        _interrupt_soon()
    else:
        otherwise(about)


def _interrupt_soon() -> None:
    again = threading.Timer(_AGAIN, _interrupt_main)
    again.daemon = True
    again.start()


def _interrupt_main() -> None:
    if hasattr(signal, "pthread_kill"):
        # Ends a wait for input, too; `interrupt_main` leaves the main thread waiting.
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
    else:
        _thread.interrupt_main()


def _run(arguments: list[str]) -> int:
    """Run the command line and return the exit code."""
    if not _standard_streams():
        return _fail("standard output is closed")
    try:
        import typer

        from online_rank.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("click", "rich", "typer"):
            raise
        return _fail(f'the command needs {error.name}: pip install "online_rank[cli]"')
    # typer includes click and its errors, in a module that depends on its version.
    usage_error: Any = typer.BadParameter.__mro__[2]
    from online_rank.support.compiling import lines_while_compiling

    try:
        with lines_while_compiling():
            code = app(arguments or ["--help"], prog_name="online-rank", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except usage_error as error:
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        return _fail(f"{error.format_message()}{hint}")
    except typer.Abort:
        return _INTERRUPTED
    except (BrokenPipeError, SystemExit):  # typer turns the first into the second
        # The reader of our output is gone. Python must not flush its buffer to the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _PIPE_CLOSED
    except (OSError, ImportError) as error:
        if _lacks_memory(error):
            return _fail("out of memory while a library is loaded: give this process more address space (ulimit -v)")
        if isinstance(error, ImportError):
            return _fail(str(error) or type(error).__name__)
        what = error.strerror or str(error) or type(error).__name__
        return _fail(f"{error.filename}: {what}" if error.filename is not None else what)
    except MemoryError:
        return _fail("out of memory")
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        return _fail("no thread can be started: give this process more memory (ulimit -v) or more threads (ulimit -u)")
    except (ValueError, TypeError) as error:
        return _fail(str(error) or type(error).__name__)


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether the loader of the system had no memory for a library. What llvmlite says of that is that it cannot be found."""
    while error is not None:
        if any(text in str(error) for text in ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")):
            return True
        error = error.__cause__ or error.__context__
    return False


def _standard_streams() -> bool:
    """Whether standard output is open. If a standard stream is closed, the next opened file would take its place."""
    closed = []
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.append(number)
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    return 1 not in closed


def _fail(message: str) -> int:
    """Print an error in one line on stderr."""
    print(f"online-rank: {' '.join(message.split())}", file=sys.stderr)
    return _USAGE
