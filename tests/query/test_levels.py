"""Documents with categories and missing values as an array: the fast ways in equal the slow one, value by value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank.query.forms import read_query, table_of
from online_rank.query.levels import Levels, read_block, read_documents, read_known

VALUES = st.sampled_from([0, 1, 0.0, 1.0, 2.5, -3, None, float("nan"), np.float32(0.5)])
COLUMNS = {
    "number": VALUES,
    "flag": st.sampled_from([True, False, np.True_, None]),
    "brand": st.sampled_from(["a", "b", None, ["a", "c"]]),
}


def by_hand(documents):
    """As `read_documents`, one value after the other."""
    found = {}
    for i, x in enumerate(documents):
        for name, value in x.items():
            if value is None or (isinstance(value, float | np.floating) and value != value):
                continue
            texts = {True: ["true"], False: ["false"]}[bool(value)] if isinstance(value, bool | np.bool_) else value
            if isinstance(texts, str | list):
                for text in [texts] if isinstance(texts, str) else texts:
                    found.setdefault((name, "is", text), {})[i] = 1.0
            else:
                found.setdefault(name, {})[i] = float(value)
    return found


@given(
    st.lists(st.fixed_dictionaries(COLUMNS), min_size=1, max_size=6),
    st.booleans(),
    st.lists(st.sampled_from([*COLUMNS]), max_size=3, unique=True),
)
def test_alike_reordered_and_ragged_documents_are_read_value_by_value(documents, is_reordered, absent):
    if is_reordered:
        documents = [dict([*x.items()][:: (-1) ** i]) for i, x in enumerate(documents)]
        assert table_of(documents) is not None
    documents[-1] = {name: value for name, value in documents[-1].items() if name not in absent}
    X, names = read_documents(documents, None, Levels((), 10))
    expected = by_hand(documents)
    assert {*expected} <= {*names}
    for name, column in zip(names, X.T, strict=True):
        blank = 0.0 if isinstance(name, tuple) else np.nan
        own = expected.get(name, {})  # A number that is NaN in all documents has a column, too.
        np.testing.assert_array_equal(column, [own.get(i, blank) for i in range(len(documents))])


@pytest.mark.parametrize("other", [0.0, 1, 0.5])
def test_a_boolean_among_numbers_is_found_in_any_place(other):
    documents = [{"a": 1.0, "flag": other}, {"a": 0.0, "flag": other}, {"a": 1.0, "flag": True}]
    with pytest.raises(ValueError, match="feature 'flag' of document 2 is a boolean, True, and a number elsewhere"):
        read_documents(documents, None, Levels((), 10))


def test_each_column_is_allocated_once(monkeypatch):
    """Each value next to a missing one made another array: 150 documents of 136 features took 69 ms."""
    full, made = np.full, []
    monkeypatch.setattr(np, "full", lambda *given: made.append(given) or full(*given))
    documents = [{f"f{j}": None if (i + j) % 7 == 0 else 1.5 for j in range(20)} | {"brand": "abc"[i % 3]} for i in range(40)]
    X, names = read_documents(documents, None, Levels((), 10))
    assert X.shape == (40, len(names)) == (40, 23)
    assert len(made) == 23


KNOWN = ("a", "b")


def test_documents_of_known_numbers_are_read_at_once_as_one_by_one():
    block = read_query({"first": {"a": 1, "b": float("nan")}, "second": {"a": np.float32(0.5), "b": 1.0}}, documents=True)
    read, slow = read_known(block, KNOWN), read_block(block, Levels(KNOWN, 10))
    np.testing.assert_array_equal(read.X, [[1.0, np.nan], [0.5, 1.0]])
    np.testing.assert_array_equal(read.X, slow.X)
    assert (read.names, read.ids, read.form) == (slow.names, slow.ids, slow.form)


@pytest.mark.parametrize(
    "documents",
    [
        [{"b": 1.0, "a": 2.0}],
        [{"a": 1.0, "b": 2.0}, {"a": 1.0}],
        [{"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0, "c": 3.0}],
        [{"a": 1.0, "b": None}],
        [{"a": 1.0, "b": True}],
        [{"a": 1.0, "b": "2"}],
        [{"a": 1.0, "b": [0.5, 1.0]}],
        [{}],
    ],
)
def test_any_other_documents_are_not_read_at_once(documents):
    assert read_known(read_query(documents, documents=True), KNOWN) is None
