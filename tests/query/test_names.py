"""Names distinguished by their hashes."""

import enum
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    BlendRanker,
    KernelPerceptronRanker,
    LossTracker,
    PerceptronRanker,
    RunFeatures,
    StreamScaler,
    hybrid,
)
from online_rank._kernels.names import add_names, find_names, hash_texts, number_names
from online_rank.query import SparseRows, read_query
from online_rank.query.names import are_texts, distinct, hashes_of
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference.siphash import siphash

ODD = ["", "\n", "a\nb", "a", "b", "\x00", "ä", "a\u0308", "\ud83d\ude00", "\U0001f600", "\ud83d", "ÿ", "x" * 500]


def in_order(names):
    """The different names as a dict gives them, and which each of the names is."""
    different = list(dict.fromkeys(names))
    return tuple(different), [different.index(name) for name in names]


@pytest.mark.parametrize("seed", range(3))
def test_names_are_distinguished_as_a_dict_does(seed):
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


def test_the_reference_has_the_values_that_the_authors_give():
    key = bytes(range(16))
    assert siphash(bytes(range(15)), key, 2, 4, 8).hex() == "e545be4961ca29a1"
    assert siphash(b"", key, 2, 4, 16).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash(b"\0", key, 2, 4, 16).hex() == "da87c1d86b99af44347659119b22fc45"


NAMES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40)


@given(st.lists(NAMES, min_size=1, max_size=9))
@settings(max_examples=50)
def test_hashes_are_siphash_with_a_secret_key_in_every_step(names):
    """FNV-1a from a secret seed was not: prepared names met in one slot, or in one column."""
    key = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543210], np.uint64)
    hashes = np.empty((len(names), 2), np.int64)
    hash_texts(np.frombuffer("\n".join(names).encode(), np.uint8), key, hashes)
    assert [row.tobytes() for row in hashes] == [siphash(name.encode(), key.tobytes(), 1, 3, 16) for name in names]


def test_a_name_has_one_hash_among_any_other_names():
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


def test_names_of_which_one_half_of_the_hash_is_the_same_are_distinguished():
    hashes = np.array([[5, 7 << 24], [5, 8 << 24], [6, 7 << 24], [5, 7 << 24]])
    columns, first = np.empty(4, np.int32), np.empty(4, np.int64)
    assert number_names(hashes.copy(), columns, first) == 3
    assert columns.tolist() == [0, 1, 2, 0]
    assert first[:3].tolist() == [0, 1, 2]
    table, found = np.full((8, 2), -1), np.empty(4, np.int64)
    add_names(hashes[:2], 3, table)
    find_names(hashes, table, found)
    assert found.tolist() == [3, 4, -1, 3]


class Text(str):
    """A string of another class."""


class Number(int):
    """An integer of another class."""


class Level(enum.IntEnum):
    """Integers with names."""

    HIGH = 3


class AsPlain(str):
    """Overrides how it compares."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return False


def deep(n):
    name = ("a",)
    for _ in range(n):
        name = (name,)
    return name


MODELS = {
    "perceptron": PerceptronRanker,
    "scaler | perceptron": lambda: StreamScaler() | PerceptronRanker(),
    "blend": BlendRanker,
    "kernel": KernelPerceptronRanker,
    "tracker": lambda: LossTracker(PerceptronRanker()),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    "name",
    [frozenset([1]), 2**70, -(2**63) - 1, b"x", 1j, range(3), ("a", 2**70), float("nan"), AsPlain("x"), deep(20), deep(5000)],
    ids=lambda name: type(name).__name__,
)
def test_names_that_no_file_can_hold_are_refused_when_they_are_met(make, name):
    """They were learned, and `save` refused the model."""
    model, plain = make(), make()
    known = [{"a": 1.0}, {"a": 0.5}]
    for each in (model, plain):
        each.learn_one(known, [0, 1])
    with pytest.raises((TypeError, ValueError), match="x has a feature"):
        model.learn_one([{name: 1.0}, {name: 2.0}], [0, 1])
    assert to_bytes(model) == to_bytes(plain)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (Text("x"), "x"),
        (np.str_("x"), "x"),
        (Number(3), 3),
        (Level.HIGH, 3),
        (("a", Text("b")), ("a", "b")),
        (-(2**63), -(2**63)),
        ((1, ("a", 2.5)), (1, ("a", 2.5))),
        (True, True),
        (None, None),
    ],
    ids=str,
)
def test_names_of_other_classes_are_kept_as_plain_ones(make, name, plain):
    model, twin = make(), make()
    for i in range(3):
        model.learn_one([{name: 1.0 + i}, {name: 2.0}], [0, 1])
        twin.learn_one([{plain: 1.0 + i}, {plain: 2.0}], [0, 1])
    assert to_bytes(model) == to_bytes(twin)
    again = from_bytes(to_bytes(model))
    assert again.predict_one([{name: 1.0}, {plain: 3.0}]) == twin.predict_one([{plain: 1.0}, {plain: 3.0}])


def test_a_name_keeps_its_class_next_to_an_equal_one_of_another_class():
    for name in (Number(4), np.int64(4), 4):
        model = StreamScaler() | PerceptronRanker()
        model.learn_one([{name: 1.0}, {name: 2.0}], [0, 1])
        assert from_bytes(to_bytes(model)).predict_one([{4: 1.0}]) == model.predict_one([{4: 1.0}])


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: hybrid([b"x", "y"]), r"runs\[0\] is b'x'"),
        (lambda: hybrid(["y", np.str_("x")]), r"runs\[1\]"),
        (lambda: RunFeatures([1.5]), r"runs\[0\] is 1.5"),
        (lambda: LossTracker(PerceptronRanker(), {3: np.ones(2)}), "comparators has the name 3"),
        (lambda: LossTracker(PerceptronRanker(), {"u": {frozenset(): 1.0}}), r"comparators\['u'\] has a feature frozenset"),
        (lambda: PerceptronRanker.from_weights({b"x": 1.0}), "a feature b'x'"),
    ],
)
def test_other_names_that_no_file_can_hold_are_refused(call, wanted):
    with pytest.raises(TypeError, match=wanted):
        call()
