"""LETOR files in parts: every query once, in order, for any number of parts."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import read
from online_rank.stream import Part, ReadError
from online_rank.stream import parts as plan
from online_rank.stream.source import FileRange


def text_of(sizes, first=1):
    lines = []
    for q, size in enumerate(sizes, start=first):
        lines += [f"{i % 3} qid:{q} 1:{q}.{i} 3:{'7' * (i % 5 + 1)}" + (" # docid = x" if i % 2 else "") for i in range(size)]
        if q % 3 == 0:
            lines.append("# a comment, qid:999 in it")
        if q % 4 == 0:
            lines.append("")
    return "\n".join(lines) + "\n"


def contents(queries):
    return [(X.tolist(), y.tolist()) for X, y in queries]


@pytest.mark.slow
@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.integers(1, 40), st.booleans())
@settings(max_examples=60)
def test_parts_hold_every_query_once(tmp_path_factory, sizes, parts, final_newline):
    path = tmp_path_factory.mktemp("plan") / "log.txt"
    path.write_text(text_of(sizes) if final_newline else text_of(sizes).rstrip("\n"))
    planned = plan([path], parts)
    assert 1 <= len(planned) <= parts
    assert contents(query for part in planned for query in part) == contents(read(path))
    assert plan([path], parts) == planned


def test_parts_of_several_files(tmp_path):
    paths = [tmp_path / f"{k}.txt" for k in range(4)]
    for k, path in enumerate(paths):
        path.write_text(text_of([3, 2, 4] * 6, first=100 * k + 1))
    everything = contents(read(paths))
    for parts in (1, 2, 3, 4, 7, 12):
        planned = plan(paths, parts)
        assert len(planned) == parts
        assert contents(query for part in planned for query in part) == everything
    assert [len(part.sources) for part in plan(paths, 2)] == [2, 2]
    assert [part.sources for part in plan(paths, 4)] == [(str(path),) for path in paths]


def test_compressed_files_stay_whole_and_give_the_parts_of_text(tmp_path):
    plain, zipped = [], []
    for k in range(3):
        plain.append(tmp_path / f"{k}.txt")
        plain[-1].write_text(text_of([2, 3] * 8, first=100 * k + 1))
        zipped.append(tmp_path / f"{k}.txt.gz")
        zipped[-1].write_bytes(gzip.compress(plain[-1].read_bytes()))
    for parts in (1, 2, 3):
        assert [contents(p) for p in plan(zipped, parts)] == [contents(p) for p in plan(plain, parts)]
    assert len(plan(zipped, 9)) == 3
    assert len(plan([*zipped[:1], plain[1]], 3)) == 3


def test_files_with_a_file_of_group_sizes_stay_whole(tmp_path):
    path = tmp_path / "rank.train"
    path.write_text("1 1:1\n0 1:2\n1 1:3\n")
    (tmp_path / "rank.train.query").write_text("2\n1\n")
    assert [len(contents(part)) for part in plan([path], 5)] == [2]


def test_messages_count_lines_from_the_beginning_of_the_file(tmp_path):
    path = tmp_path / "log.txt"
    lines = text_of([2] * 10).splitlines()
    bad = max(i for i, line in enumerate(lines) if line.startswith("1"))
    lines[bad] = "1 qid:10 1:x"
    path.write_text("\n".join(lines) + "\n")
    *_, last = plan([path], 3)
    assert last.sources[0].begin > 0
    with pytest.raises(ReadError, match=f"line {bad + 1}, column"):
        list(last)


def test_all_parts_have_the_width_of_the_first_file(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("1 qid:1 1:1 5:1\n0 qid:1 1:1\n1 qid:2 1:1\n0 qid:2 1:2\n1 qid:3 1:1\n")
    assert {X.shape[1] for part in plan([path], 3) for X, _ in part} == {5}
    assert {X.shape[1] for part in plan([path], 3, n_features=9) for X, _ in part} == {9}
    path.write_text("-1 qid:1 1:1\n1 qid:1 1:1\n")
    assert contents(plan([path], 1, negative="skip")[0]) == [([[1.0]], [1])]


def test_a_range_is_a_source(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("1 qid:1 1:1\n0 qid:2 1:2\n")
    assert contents(read(FileRange(str(path), 12, 24))) == [([[2.0]], [0])]
    assert contents(read(FileRange(str(path), 0, 12))) == [([[1.0]], [1])]
    queries = read(FileRange(str(path), 0, 12))
    next(queries)
    assert queries.fraction == 1.0
    assert isinstance(plan([path], 2)[0], Part)


def test_bad_arguments(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("# nothing\n")
    for files, parts, error, message in [
        ([path], 0, ValueError, "n is 0"),
        ([path], True, TypeError, "n is True"),
        ([], 1, ValueError, "nothing to read"),
        (str(path), 1, TypeError, "files is one path"),
        (["-"], 1, ValueError, "standard input"),
        ([path], 1, ValueError, "no query from which to infer the number of features"),
        ([tmp_path / "none"], 1, FileNotFoundError, "none"),
    ]:
        with pytest.raises(error, match=message):
            plan(files, parts)
    assert np.array(contents(plan([path], 1, n_features=2)[0])).size == 0
