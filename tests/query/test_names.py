"""Names of features, and which of them models keep."""

import enum
import random

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    KernelPerceptronRanker,
    LossTracker,
    PerceptronRanker,
    RunFeatures,
    StreamScaler,
    hybrid,
)
from online_rank.query import SparseRows, read_query
from online_rank.query.names import are_texts
from online_rank.storage.files import from_bytes, to_bytes


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
    "blend": lambda: BlendRanker([AdditiveRanker()]),
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
