"""Work in child processes, so that one that dies is noticed."""

import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any


class Died(Exception):
    """A child process ended without an answer."""


def in_child(work: Callable[[], Any], seconds: int = 600) -> Any:
    """What `work` returns, in a fork of this process. Raises `Died` if the child crashed, or took longer than `seconds`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            # Work may use the alarm too, and a kernel that never ends lets no handler of Python run.
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            answer = pickle.dumps(work())
            signal.alarm(0)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(answer)
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise Died(f"the process ended with {code}" if code > 0 else f"the process was ended by {signal.Signals(-code).name}")
    return pickle.loads(answer)
