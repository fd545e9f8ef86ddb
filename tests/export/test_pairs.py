"""The strongest pairs as tables: of a stream in which two features decide together."""

import json

import numpy as np
import pytest

from online_rank import AdditiveRanker, PerceptronRanker, save
from online_rank.cli import main
from online_rank.export import pairs
from online_rank.export.pair_tables import _groups
from online_rank.rankers.pair_shapes import pair_shapes_of


@pytest.fixture(scope="module")
def model():
    """Documents are relevant if a and b have one sign; c is noise."""
    made, rng = AdditiveRanker(trees=60), np.random.default_rng(0)
    for _ in range(150):
        X = rng.normal(size=(12, 3))
        y = 2 * (X[:, 0] * X[:, 1] > 0.0)
        made.learn_one([dict(zip("abc", row, strict=True)) for row in X.tolist()], y.astype(int))
    return made


def test_the_strongest_pair_is_the_one_that_decides(model):
    table, *_ = pairs(model, most=2)
    assert table.names == ("a", "b")
    assert table.table.shape == (4, 4)
    corners = table.table[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert (corners * [1, -1, -1, 1] > 0.0).all()
    assert [ends[0] for ends in table.rows] == sorted(ends[0] for ends in table.rows)


def test_a_cell_is_the_mean_over_its_ranges(model):
    (table,), (shape,) = pairs(model, most=1), pair_shapes_of(model, 1)
    assert table.table[0, 1] == pytest.approx(shape.effect[:6, 6:12].mean())
    assert table.rows[0] == (shape.values[0][0], shape.values[0][5])
    assert table.strength == shape.strength


def test_equal_values_are_in_one_range():
    assert [group.tolist() for group in _groups(np.array([0.0, 0.0, 0.0, 1.0]), 4)] == [[0, 1, 2], [3]]


def test_a_model_without_trees_is_refused():
    with pytest.raises(TypeError, match="PerceptronRanker serves no trees, so no features act in pairs"):
        pairs(PerceptronRanker.from_weights({"a": 1.0}))


def test_the_command_prints_tables(model, tmp_path, capsys):
    save(model, tmp_path / "m")
    with pytest.raises(SystemExit) as left:
        main(["export", str(tmp_path / "m"), "--pairs", "1"])
    assert not left.value.code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("a and b, ")
    assert lines[2].startswith("| a \\ b | ")
    assert len(lines) == 8
    with pytest.raises(SystemExit):
        main(["export", str(tmp_path / "m"), "--pairs", "2", "--out", str(tmp_path / "pairs.json")])
    assert json.loads((tmp_path / "pairs.json").read_text())[0]["names"] == ["a", "b"]
    with pytest.raises(SystemExit) as left:
        main(["export", str(tmp_path / "m")])
    assert left.value.code == 2
    assert "Missing option '--to'" in capsys.readouterr().err
