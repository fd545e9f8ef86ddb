"""What tests must not depend on: random examples, and how the test run was started. And which files take longest."""

import collections
import contextlib
import gc
import os
import signal
import sys

import pytest
from hypothesis import settings

# A shell without job control starts background commands with SIGINT ignored, which processes started by tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Pictures are drawn without a display.
os.environ.setdefault("MPLBACKEND", "Agg")

# Neither a seed, nor what an earlier run found, nor the speed of the machine decides whether a test passes.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
# `--hypothesis-profile=random`: examples that no run has tried before. A failure prints how to repeat it.
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("same")

#: With `--dist loadfile`, a process runs a file: these begin first, so that no process works alone at the end. The first file
#: compiles most kernels, which the others then read.
LONGEST = (
    "test_river_streams.py",
    "test_examples.py",
    "test_click_log.py",
    "test_campaigns.py",
    "test_docs.py",
    "test_ahead.py",
    "test_checks.py",
    "test_cli.py",
    "test_compiling.py",
    "test_state.py",
    "test_properties.py",
    "test_direct.py",
)


def pytest_configure(config):
    # Otherwise xdist begins with the files that have most tests.
    config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What collecting makes stays: looking through it for garbage took half of the time, in each process."""
    gc.disable()
    try:
        with _first_alone():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _first_alone():
    """One process compiles what tests import; the others read its bytecode, in a quarter of the time that compiling takes."""
    if sys.dont_write_bytecode or "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(__file__) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    cases = collections.Counter()
    for item in items:
        if mark := item.get_closest_marker("first"):
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > mark.args[0]:
                item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
