import functools
import os
import pickle
import subprocess
import sys
import threading
import time

import numba
import pytest

from online_rank._kernels import _jit
from online_rank._kernels._jit import on_compilation
from online_rank.support import compiling


def test_what_is_being_compiled_is_known():
    seen = []

    @numba.njit
    def inner_kernel(x):
        return x + 1

    @numba.njit
    def outer_kernel(x):
        return inner_kernel(x)

    class Spy(numba.core.event.Listener):
        def on_start(self, event):
            seen.append(compiling.compiling())

        def on_end(self, event):
            pass

    compiling.watch_compilation()
    spy = Spy()
    with numba.core.event.install_listener("numba:compile", spy):
        assert outer_kernel(1) == 2
    assert [text.partition(",")[0] for text in seen] == ["compiling"] * 2
    # The inner one is compiled for the outer one, whose name a user may know.
    assert all("outer_kernel" in text for text in seen)
    assert compiling.compiling() is None


def test_a_display_that_begins_during_a_compilation(monkeypatch):
    """It hears the end of what it has not heard begin."""
    heard = []
    monkeypatch.setattr(_jit, "_notified", [])
    monkeypatch.setattr(compiling, "_watching", False)
    on_compilation(heard.append)
    compiling.watch_compilation()
    compiling.watch_compilation()
    assert len(_jit._notified) == 2

    @numba.njit
    def late_kernel(x):
        return x + 2

    assert late_kernel(1) == 3
    compiling._note(None)
    assert heard == ["late_kernel", None]
    assert compiling.compiling() is None


def test_a_thread_that_waits_for_ever_does_not_keep_the_command(monkeypatch):
    monkeypatch.setattr(compiling, "_POLL", 0.001)
    monkeypatch.setattr(compiling, "watch_compilation", lambda: threading.Event().wait(20.0))
    start = time.monotonic()
    with compiling.lines_while_compiling():
        time.sleep(0.1)
    assert time.monotonic() - start < 10.0


def test_lines_in_a_pipe(monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_EVERY", 0.05)
    monkeypatch.setattr(compiling, "_POLL", 0.01)
    monkeypatch.setattr(compiling._state, "names", ["_learn"])
    monkeypatch.setattr(compiling._state, "since", time.monotonic())
    text, end = "", time.monotonic() + 60.0
    with compiling.lines_while_compiling():
        while text.count("\n") < 2 and time.monotonic() < end:
            time.sleep(0.05)
            text += capsys.readouterr().err
    lines = text.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("online-rank: compiling, once: learn, ") for line in lines)


def test_help_needs_no_numba():
    code = "import sys\nfrom online_rank.cli import main\ntry: main(['--help'])\nfinally: print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_what_is_compiled_can_be_watched_without_numba():
    code = "import sys\nfrom online_rank.support import compiling\ncompiling.watch_compilation()\nprint('numba' in sys.modules)"
    environment = {k: v for k, v in os.environ.items() if k != "ONLINE_RANK_JIT"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["False"]


_HALF = """
import importlib.abc
import sys
import threading

from online_rank._kernels import _jit
from online_rank._kernels._jit import on_compilation


class Half(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        # numba looks for one of its modules: half of numba is imported.
        if name == "numba.core.config":
            sys.meta_path.remove(self)
            asking.start()
            asking.join(0.5)
            print(asking.is_alive(), "numba.core.event" in sys.modules)


assert "numba" not in sys.modules
asking = threading.Thread(target=on_compilation, args=[print])
sys.meta_path.insert(0, Half())
import numba
asking.join(60)
print(asking.is_alive(), "numba.core.event" in sys.modules)
"""


@pytest.mark.slow
def test_who_asks_while_another_thread_imports_numba_waits_for_it():
    """Each would meet the other's modules half made; a command that showed what is compiled ended so at its start."""
    found = subprocess.run([sys.executable, "-c", _HALF], capture_output=True, text=True, check=True, timeout=100)
    assert found.stdout.split() == ["True", "False", "False", "True"]


_COMPILE = """
import numpy as np
from online_rank._kernels.arrays import all_finite
input()
all_finite(np.ones(3))
print(sum(all_finite.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_one_process_compiles_what_others_read(tmp_path):
    pytest.importorskip("fcntl")
    environment = {**os.environ, "ONLINE_RANK_JIT": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    both = [subprocess.Popen([sys.executable, "-c", _COMPILE], **given) for _ in range(2)]
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    # The one that comes second waits for the first, or finds what it has compiled.
    assert sorted(process.communicate()[0] for process in both) == ["0\n", "1\n"]


_HOLD = "import fcntl, sys; file = open(sys.argv[1], 'ab'); fcntl.lockf(file, fcntl.LOCK_EX); print(); input()"


def test_a_process_that_compiles_for_ever_is_not_waited_for(tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    monkeypatch.setattr(_jit, "_PATIENCE", 0.05)
    path = str(tmp_path / "kernel.lock")
    with subprocess.Popen([sys.executable, "-c", _HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with _jit._turn(path):
            assert other.poll() is None
        other.kill()
    # A process that ends gives its lock back.
    monkeypatch.setattr(_jit, "_PATIENCE", 60.0)
    with _jit._turn(path):
        pass


def test_a_folder_without_locks_keeps_nobody(tmp_path):
    with _jit._turn(str(tmp_path / "missing" / "kernel.lock")):
        pass


@pytest.mark.slow
def test_what_an_earlier_version_compiled_is_compiled_again(tmp_path):
    """It may be of classes that are gone: after an update, kernels were errors until numba's cache was deleted."""
    code = "import numpy as np; from online_rank._kernels.arrays import all_finite; print(all_finite(np.ones(3)))"
    environment = {**os.environ, "ONLINE_RANK_JIT": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    run = functools.partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run(check=True).stdout == "True\n"
    (index,) = tmp_path.rglob("*.all_finite-*.nbi")
    index.write_bytes(pickle.dumps(numba.__version__) + b"conline_rank.gone\nType\n.")
    assert run().stdout == "True\n"
