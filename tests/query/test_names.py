"""Names told apart by their hashes."""

import pickle
import random

import numpy as np
import pytest

from online_rank._kernels.names import add_names, find_names, number_names
from online_rank.query import SparseRows, read_query
from online_rank.query.names import are_texts, distinct, hashes_of

ODD = ["", "\n", "a\nb", "a", "b", "\x00", "ä", "a\u0308", "\ud83d\ude00", "\U0001f600", "\ud83d", "ÿ", "x" * 500]


def in_order(names):
    """The different names as a dict gives them, and which each of the names is."""
    different = list(dict.fromkeys(names))
    return tuple(different), [different.index(name) for name in names]


@pytest.mark.parametrize("seed", range(3))
def test_names_are_told_apart_as_a_dict_does(seed):
    rng = random.Random(seed)
    names = rng.choices([*ODD, *(f"word{j}" for j in range(300))], k=1000)
    different, places = distinct(names)
    assert (different, places.tolist()) == in_order(names)


def test_only_odd_names():
    different, places = distinct(ODD)
    assert (different, places.tolist()) == (tuple(ODD), list(range(len(ODD))))


def test_each_different_name_keeps_its_hash():
    names = ["b", "a", "b", "c", "a"]
    assert np.array_equal(distinct(names)[0].hashes, hashes_of(["b", "a", "c"]))


def test_hashes_differ_in_both_halves():
    hashes = hashes_of([f"word{j}" for j in range(10_000)])
    # Of 10^4 numbers of 64 bits two are equal with a chance of 10^8 / 2^65.
    assert len(np.unique(hashes[:, 0])) == len(np.unique(hashes[:, 1])) == 10_000


def test_a_name_has_one_hash_whatever_stands_beside_it():
    alone = hashes_of(["a\nb"])
    assert np.array_equal(hashes_of(["a\nb", "c"])[:1], alone)
    assert np.array_equal(hashes_of(["a\nb", 7])[:1], alone)
    assert not np.array_equal(hashes_of(["a\xffb"]), alone)
    assert np.array_equal(hashes_of(["c", 7])[:1], hashes_of(["c"]))


def test_names_leave_the_process_without_their_hashes():
    names = distinct(["b", "a", "b"])[0]
    assert type(pickle.loads(pickle.dumps(names))) is tuple
    assert pickle.loads(pickle.dumps(names)) == ("b", "a")


def test_texts_of_a_subclass_are_not_taken_for_texts():
    class Folded(str):
        """Compares without case."""

        __slots__ = ()

        def __eq__(self, other):
            return self.lower() == other.lower()

        def __hash__(self):
            return hash(self.lower())

    assert are_texts(["a", "b"])
    assert not are_texts(["a", Folded("B")])
    assert not are_texts(["a", 1])
    documents = [{Folded(f"w{j}"): 1.0, "x": 2.0} for j in range(200)] + [{Folded(f"W{j}"): 3.0} for j in range(200)]
    block = read_query(documents)
    assert len(block.names) == 201


def test_many_ragged_dicts_give_the_rows_that_dicts_say():
    rng = random.Random(0)
    documents = [{name: rng.random() for name in rng.sample(range(2000), 20)} for _ in range(30)]
    texts = [{f"w{j}": value for j, value in document.items()} for document in documents]
    by_text, by_number = read_query(texts), read_query(documents)
    assert isinstance(by_text.X, SparseRows)
    assert by_text.names == tuple(f"w{j}" for j in by_number.names)
    for one, two in zip(by_text.X, by_number.X, strict=True):
        assert np.array_equal(one, two)


def test_names_of_which_one_half_of_the_hash_is_the_same_are_told_apart():
    hashes = np.array([[5, 7 << 24], [5, 8 << 24], [6, 7 << 24], [5, 7 << 24]])
    columns, first = np.empty(4, np.int32), np.empty(4, np.int64)
    assert number_names(hashes.copy(), columns, first) == 3
    assert columns.tolist() == [0, 1, 2, 0]
    assert first[:3].tolist() == [0, 1, 2]
    table, found = np.full((8, 2), -1), np.empty(4, np.int64)
    add_names(hashes[:2], 3, table)
    find_names(hashes, table, found)
    assert found.tolist() == [3, 4, -1, 3]
