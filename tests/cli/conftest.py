import pytest

from online_rank.support import compiling


@pytest.fixture(autouse=True)
def _no_lines_while_compiling(monkeypatch):
    """The first test to run compiles; what it writes must not depend on that."""
    monkeypatch.setattr(compiling, "_EVERY", float("inf"))
