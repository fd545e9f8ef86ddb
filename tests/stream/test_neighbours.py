"""Files next to a file of documents: weights, for each query or for each document, and positions."""

import json

import numpy as np
import pytest

from online_rank import PerceptronRanker, read
from online_rank.cli import main
from online_rank.query import read_query
from online_rank.stream import ReadError, ReadWarning

ROWS = [(1, 0.5, 2.0), (0, 1.5, 0.0), (2, 3.0, 1.0), (0, 0.5, 0.5), (1, 1.0, 4.0), (0, 2.0, 2.0)]
SIZES, WEIGHTS = [2, 3, 1], [0.5, 3.0, 7.0]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("".join(f"{y} 1:{a} 2:{b}\n" for y, a, b in ROWS))
    (tmp_path / "t.txt.query").write_text("".join(f"{n}\n" for n in SIZES))
    return path


def put(file, suffix, lines):
    made = file.with_name(file.name + suffix)
    made.write_text("".join(f"{line}\n" for line in lines))
    return made


@pytest.mark.parametrize("lines", [WEIGHTS, np.repeat(WEIGHTS, SIZES).tolist()], ids=["of queries", "of documents"])
def test_weights_change_what_is_learned_exactly_as_w_does(file, lines):
    plain = list(read(file))
    put(file, ".weight", lines)
    model, wanted, unweighted = PerceptronRanker(), PerceptronRanker(), PerceptronRanker()
    for _ in range(3):
        for x, y in read(file):
            model.learn_one(x, y)
        for (X, y), w in zip(plain, WEIGHTS, strict=True):
            wanted.learn_one(X, y, w)
            unweighted.learn_one(X, y)
    assert model.weights.tolist() == wanted.weights.tolist() != unweighted.weights.tolist()


def test_weights_of_tables_with_sizes_of_groups_and_of_several_sources(file, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("grade,a\n" + "".join(f"{y},{a}\n" for y, a, _ in ROWS))
    put(table, ".weight", WEIGHTS)
    given = read(table, table, grade="grade", group=[SIZES, SIZES], batch_rows=2)
    assert given.weights == [f"{table}.weight"] * 2
    assert [x.w.tolist() for x, _ in given] == [[w] for w in WEIGHTS * 2]
    other = tmp_path / "other.txt"
    other.write_text("1 1:1\n0 1:2\n")
    mixed = read(file, other, group=[SIZES, [2]])
    assert mixed.weights == []
    put(file, ".weight", WEIGHTS)
    assert [getattr(x, "w", None) for x, _ in read(file, other, group=[SIZES, [2]])] == [0.5, 3.0, 7.0, None]


def test_empty_groups_have_lines_of_their_weights(file):
    put(file, ".query", [2, 0, 4])
    put(file, ".weight", [2, 9, 5])
    assert [x.w.tolist() for x, _ in read(file)] == [[2.0], [5.0]]
    put(file, ".weight", [2, 2, 5, 5, 5, 5])
    assert [x.w.tolist() for x, _ in read(file)] == [[2.0], [5.0]]


def test_documents_of_a_query_with_different_weights_give_it_their_mean_with_a_warning(file):
    put(file, ".weight", [1, 1, 2, 3, 7, 5])
    with pytest.warns(ReadWarning, match=r"t\.txt\.weight: .* different weights in 1 of 3 queries: their mean counts"):
        assert [x.w.tolist() for x, _ in read(file)] == [[1.0], [4.0], [5.0]]


@pytest.mark.parametrize("bad", ["x", "-1", "nan", "inf", "1e999", "1_0"])
def test_a_line_that_is_no_weight_is_an_error_with_file_and_line(file, bad):
    put(file, ".weight", [1, bad, 3])
    with pytest.raises(ReadError, match=rf"t\.txt\.weight, line 2: '{bad}' is not a weight, a finite number >= 0"):
        list(read(file))


def test_a_weight_too_small_to_learn_with_is_an_error(file):
    put(file, ".weight", [1, 2, "1e-80"])
    with pytest.raises(ReadError, match=r"t\.txt\.weight, line 3: the weight '1e-80' is below the least one, 1e-75"):
        list(read(file))


@pytest.mark.parametrize("n", [0, 2, 4, 7])
def test_a_wrong_number_of_weights_is_an_error_before_the_first_query(file, n):
    put(file, ".weight", [1] * n)
    with pytest.raises(ReadError, match=rf"t\.txt\.weight, line {n}, the last one: {n} weights, for 6 documents in 3 groups"):
        next(read(file))


def test_weights_next_to_a_file_with_ids_and_positions_are_not_used(file):
    put(file, ".position", range(6))
    with pytest.warns(ReadWarning, match=r"t\.txt\.position: not used: .* \(--position\)"):
        assert len(list(read(file))) == 3
    ids = file.with_name("ids.txt")
    ids.write_text("1 qid:1 1:2\n0 qid:1 1:1\n")
    put(ids, ".weight", [3])
    queries = read(ids)
    assert queries.weights == []
    with pytest.warns(ReadWarning, match=r"ids\.txt\.weight: not used: weights are read together with the sizes"):
        ((X, _),) = queries
    assert X.tolist() == [[2.0], [1.0]]


def test_everything_at_once_has_no_weights_and_warns(file):
    put(file, ".weight", WEIGHTS)
    with pytest.warns(ReadWarning, match=r"all\(\) leaves out the weights of queries"):
        assert read(file).all().qid.tolist() == [1, 1, 2, 2, 2, 3]


def test_the_weight_of_a_block_is_multiplied_by_w(file):
    put(file, ".weight", WEIGHTS)
    x, y = next(read(file))
    assert read_query(x, y).w.tolist() == [0.5]
    assert read_query(x, y, 4.0).w.tolist() == [2.0]


def test_the_plan_names_the_weights(file, capsys):
    weights = put(file, ".weight", WEIGHTS)
    with pytest.raises(SystemExit) as leaving:
        main(["train", str(file), "--dry-run", "--json"])
    out, err = capsys.readouterr()
    assert leaving.value.code == 0
    assert json.loads(out)["weights"] == [str(weights)]
    assert f"{weights}: weights of queries, which learning uses" in " ".join(err.split())
    with pytest.raises(SystemExit):
        main(["train", str(file), "--dry-run"])
    assert f"weights of queries: {weights}" in capsys.readouterr().out.replace("\n", "")
