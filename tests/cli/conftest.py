import functools

import pytest

from online_rank.support import compiling
from tests.helpers import run_command


@pytest.fixture(autouse=True)
def _no_lines_while_compiling(monkeypatch):
    """The first test to run compiles; what it writes must not depend on that."""
    monkeypatch.setattr(compiling, "_EVERY", float("inf"))


@pytest.fixture
def run(capsys):
    """Runs `online-rank`; exit status, output and errors."""
    return functools.partial(run_command, capsys)
