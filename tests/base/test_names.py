"""Columns of many names, looked up at once."""

import copy
import random

import numpy as np
import pytest

from online_rank import PerceptronRanker
from online_rank.base import names as module
from online_rank.base.names import Columns, NameTable
from online_rank.query.names import distinct, hashes_of

MANY = module._MANY_NAMES


def looked_up(columns, names):
    """The columns of texts, as a query asks for them."""
    return columns.of(distinct(names)[0]).tolist()


@pytest.fixture
def columns():
    """As many columns as a table is made for."""
    made = Columns(f"w{j}" for j in range(MANY))
    assert looked_up(made, ["w7", "new"]) == [7, -1]
    assert made._table is not None
    return made


def test_a_table_says_what_the_dict_says(columns):
    names = random.Random(0).sample([f"w{j}" for j in range(2 * MANY)], 5000)
    assert looked_up(columns, names) == [columns._column.get(name, -1) for name in names]


def test_names_that_come_later_are_found(columns):
    assert columns.missing(distinct(["w3", "new", "other"])[0]) == ["new", "other"]
    columns.add(["new", "w3", "other"])
    assert looked_up(columns, ["other", "w3", "new"]) == [MANY + 1, 3, MANY]


def test_names_that_are_forgotten_are_not_found_and_their_columns_go_to_others(columns):
    columns.add(["one", "two", "three"])
    assert looked_up(columns, ["one", "two", "three"]) == [MANY, MANY + 1, MANY + 2]
    columns.truncate(MANY + 1)
    assert looked_up(columns, ["one", "two", "three"]) == [MANY, -1, -1]
    columns.add(["three", "two"])
    assert looked_up(columns, ["one", "two", "three"]) == [MANY, MANY + 2, MANY + 1]


def test_names_that_are_forgotten_before_they_were_looked_up(columns):
    columns.add(["one", "two"])
    columns.truncate(MANY)
    columns.add(["two"])
    assert looked_up(columns, ["one", "two"]) == [-1, MANY]


def test_many_names_come_and_go(columns):
    for t in range(30):
        new = [f"{t} {j}" for j in range(2000)]
        columns.add(new)
        assert looked_up(columns, ["w5", *new]) == [5, *range(MANY, MANY + 2000)]
        columns.truncate(MANY)
        assert looked_up(columns, ["w5", *new]) == [5] + [-1] * 2000
    assert len(columns._table._rows) <= 8 * (MANY + 2000)


def test_columns_that_are_no_texts_are_distinguished_by_the_dict(columns):
    columns.add([5, ("a", "b"), np.str_("text")])
    assert looked_up(columns, ["5", "text"]) == [-1, MANY + 2]
    assert columns.of([5, ("a", "b"), "text"]).tolist() == [MANY, MANY + 1, MANY + 2]


def test_a_copy_has_another_table(columns):
    other = copy.deepcopy(columns)
    other.add(["new"])
    assert looked_up(other, ["new"]) == [MANY]
    assert looked_up(columns, ["new"]) == [-1]


def test_what_an_interrupt_leaves_is_done_again():
    table = NameTable()
    table.add(["a", "b"])
    table._n = 0  # an interrupt came before the number was written
    table.add(["a", "b", "c"])
    assert table.find(hashes_of(["c", "b", "a"])).tolist() == [2, 1, 0]
    table.remove(["c"])
    table._n = 3
    table.remove(["b", "c"])
    assert table.find(hashes_of(["c", "b", "a"])).tolist() == [-1, -1, 0]


def test_a_model_of_many_names_learns_as_one_that_asks_a_dict(monkeypatch):
    rng = random.Random(0)
    queries = []
    for _ in range(6):
        documents = [{f"w{j}": rng.random() for j in rng.sample(range(30_000), 200)} for _ in range(20)]
        queries.append((documents, [rng.randrange(3) for _ in documents]))
    known = dict.fromkeys([f"w{j}" for j in range(20_000)], 0.0)

    def learned():
        model = PerceptronRanker(credit="argmax")
        model.learn_one([known, {}], [0, 0])
        for x, y in queries:
            model.learn_one(x, y)
        return model

    fast = learned()
    assert fast._columns._table is not None
    monkeypatch.setattr(module, "_MANY_NAMES", 1 << 30)
    slow = learned()
    assert slow._columns._table is None
    assert fast.feature_names == slow.feature_names
    assert np.array_equal(fast.weights, slow.weights)
    assert fast.weights.any()
    assert fast.predict_one(queries[0][0]) == slow.predict_one(queries[0][0])
