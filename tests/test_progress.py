import io
import re
import sys

import numpy as np
import pytest

from online_rank import PerceptronRanker, batch_weights, read
from online_rank.evaluate import progressive
from online_rank.stream import write_letor
from online_rank.stream.synth import NoisyTeacher
from online_rank.support import progress as progress_module
from online_rank.support.progress import Progress, counted, progress

pytest.importorskip("rich")


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def opened(monkeypatch):
    """A terminal on which bars appear at once and show everything; no fixture: pytest opens stderr again after those."""
    monkeypatch.setattr(progress_module, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress_module, "_REFRESH", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_amount_rate_and_time_left(monkeypatch):
    terminal = opened(monkeypatch)
    clock = [10.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    with progress("reading", total=100) as show:
        show(10)
        clock[0] = 12.0
        show(50, lambda: {"ndcg": 0.5})
    # 40 in 2 s are 20/s; the other 50 take 2.5 s.
    assert "50 queries  20/s  0:00:03 left  ndcg 0.5000" in terminal.text


def test_the_total_follows_from_the_part(monkeypatch):
    terminal = opened(monkeypatch)
    clock = [10.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    parts = [0.0]
    with progress("reading", unit="documents", part=lambda: parts[-1]) as show:
        show(1)
        clock[0] = 20.0
        parts.append(0.001)
        show(6)
    # A thousandth of 6,000 are 6, of which 5 took 10 s: the other 5,994 take 11,988 s, which are 3 h 19 min 48 s.
    assert "6 documents  0.5/s  3:19:48 left" in terminal.text


def test_there_is_one_bar_the_outermost(monkeypatch):
    terminal = opened(monkeypatch)
    with progress("outer", shown=True) as outer, progress("inner", shown=True) as inner:
        assert type(outer) is not Progress
        assert type(inner) is Progress
    with progress("next", shown=True) as following:
        assert type(following) is not Progress
    assert "inner" not in terminal.text


def test_an_error_takes_the_bar_away(monkeypatch):
    opened(monkeypatch)
    with pytest.raises(KeyError), progress("reading"):
        raise KeyError
    assert not progress_module._SCREEN.locked()


def test_items_are_counted_and_an_error_takes_the_bar_away(monkeypatch):
    terminal = opened(monkeypatch)
    stream = NoisyTeacher(n_queries=4, n_features=2)
    with counted(stream, "reading") as each:
        assert len([*each]) == 4
    assert "4 queries" in terminal.text
    with pytest.raises(KeyError), counted(stream, "reading") as each:
        raise KeyError(len(next(each)))
    assert not progress_module._SCREEN.locked()


def test_short_calls_show_nothing(monkeypatch):
    terminal = opened(monkeypatch)
    monkeypatch.setattr(progress_module, "_PATIENCE", 60.0)
    with progress("reading") as show:
        show(1)
    assert terminal.getvalue() == ""


def test_a_pipe_gets_nothing(capsys):
    with progress("reading") as show:
        show(1)
    assert type(show) is Progress
    assert capsys.readouterr() == ("", "")


def test_without_rich(monkeypatch):
    terminal = opened(monkeypatch)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress("reading") as show:
        show(1)
    assert terminal.getvalue() == ""
    with pytest.raises(ImportError, match=r"online_rank\[cli\]"), progress("reading", shown=True):
        pass
    assert not progress_module._SCREEN.locked()


def test_what_takes_long_shows_its_progress_on_a_terminal(tmp_path, monkeypatch):
    terminal = opened(monkeypatch)
    block = NoisyTeacher(n_queries=40, n_features=5, n_documents=6).block()
    write_letor(tmp_path / "a.txt", *block)
    calls = {
        "batch weights": lambda **quiet: batch_weights(block, measure="ndcg", lam=0.1, credit="spread", **quiet),
        "learning": lambda **quiet: progressive(read(tmp_path / "a.txt"), PerceptronRanker(), **quiet),
    }
    for label, call in calls.items():
        call()
        shown = terminal.text
        assert label in shown
        call(progress=False)
        assert terminal.text == shown


def test_which_part_of_the_files_is_read(tmp_path):
    line = b"1 qid:%d 1:0.5\n"
    (tmp_path / "a.txt").write_bytes(line % 1 + line % 2)
    (tmp_path / "b.txt").write_bytes(line % 3 + line % 4)
    queries = read(tmp_path / "a.txt", tmp_path / "b.txt")
    parts = [queries.fraction]
    for _ in queries:
        parts.append(queries.fraction)
    # Short files are read at once.
    assert parts == [0.5, 0.5, 1.0, 1.0, 1.0]
    unknown = read(io.BytesIO(line % 1 + line % 2))
    next(unknown)
    assert unknown.fraction is None


def test_numbers_are_those_without_a_bar(monkeypatch):
    opened(monkeypatch)
    block = NoisyTeacher(n_queries=40, n_features=5, n_documents=6).block()
    a, b = (batch_weights(block, measure="ndcg", lam=0.1, progress=shown) for shown in (True, False))
    assert np.array_equal(a.weights, b.weights)
    assert a.n_evaluations == b.n_evaluations
