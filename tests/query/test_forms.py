import collections

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker, rank_one
from online_rank.query import MAX_FEATURES, as_grades, in_form, query_offsets, read_query, require_finite

ROWS = [[1.0, 2.0], [0.5, -3.0], [0.0, 4.0]]
DICTS = [dict(zip("ab", row, strict=True)) for row in ROWS]
FORMS = {
    "float64": np.array(ROWS),
    "fortran": np.asfortranarray(ROWS),
    "float32": np.array(ROWS, dtype=np.float32),
    "integers": np.array([[2, 4], [1, -6], [0, 8]]) * np.int8(1),
    "rows": ROWS,
    "dicts": DICTS,
    "dicts, shuffled and sparse": [{"a": 1.0, "b": 2.0}, {"b": -3.0, "a": 0.5}, {"b": 4.0}],
    "mapping": dict(zip("xyz", DICTS, strict=True)),
    "pandas": pd.DataFrame(DICTS),
    "polars": pl.DataFrame(DICTS),
    "mixed frame": pd.DataFrame({"a": np.float32([1, 0.5, 0]), "b": [2, -3, 4]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_query(form):
    query = read_query(FORMS[form])
    assert query.X.flags.c_contiguous
    assert query.X.tolist() == (np.array(ROWS) * (2 if form == "integers" else 1)).tolist()
    assert query.names == (("a", "b") if form not in ("float64", "fortran", "float32", "integers", "rows") else None)
    assert query.ids == (("x", "y", "z") if form == "mapping" else None)


def test_documents_are_not_asked_for_names_that_they_do_not_hold():
    documents = [{"a": 1.0, "b": 2.0}, collections.defaultdict(float, {"a": 1.0, "c": 3.0})]
    assert read_query(documents).X.tolist() == [[1.0, 2.0, 0.0], [1.0, 0.0, 3.0]]
    assert set(documents[1]) == {"a", "c"}


def test_arrays_are_not_copied():
    for dtype in (np.float32, np.float64):
        X = np.array(ROWS, dtype=dtype)
        assert np.shares_memory(read_query(X).X, X)
    query = read_query(X)
    assert read_query(query) is query


@pytest.mark.parametrize("form", [name for name in FORMS if name != "integers"])
def test_all_forms_give_the_same_model_and_answer_in_kind(form):
    x = FORMS[form]
    model, plain = PerceptronRanker(), PerceptronRanker()
    grades = [0, 2, 1]
    plain.learn_one(np.array(ROWS), grades)
    model.learn_one(x, dict(zip("xyz", grades, strict=True)) if form == "mapping" else grades)
    assert (model.weights == plain.weights).all()
    expected = plain.predict_one(np.array(ROWS))
    answer = model.predict_one(x)
    assert answer == (dict(zip("xyz", expected, strict=True)) if form == "mapping" else expected)
    assert all(type(score) is float for score in (answer.values() if form == "mapping" else answer))
    best_first = sorted(range(3), key=lambda i: -expected[i])
    assert model.rank_one(x) == ([("x", "y", "z")[i] for i in best_first] if form == "mapping" else best_first)


@pytest.mark.parametrize("form", [name for name in FORMS if "frame" not in name and name not in ("pandas", "polars")])
def test_in_form_is_the_inverse(form):
    x = FORMS[form]
    back = in_form(read_query(x))
    if isinstance(x, dict):
        assert back == x
    elif form == "dicts":
        assert back == DICTS
    elif "dicts" in form:
        assert back == [*DICTS[:2], {"a": 0.0, "b": 4.0}]
    else:
        assert (np.asarray(back) == np.asarray(x)).all()


def test_frames_come_back_as_frames():
    assert in_form(read_query(FORMS["pandas"])).equals(FORMS["pandas"])
    assert in_form(read_query(FORMS["polars"])).equals(FORMS["polars"])


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.zeros(3), ValueError, r"shape \(3,\).*a single document is x\[None, :\]"),
        (np.zeros((1, 2, 3)), ValueError, "one row a document"),
        (np.array([["a"]]), TypeError, "features are numbers"),
        (np.zeros((1, 1), dtype=complex), TypeError, "features are numbers"),
        ([[1, 2], [3]], ValueError, "document 1 has 1 features, but document 0 has 2"),
        ([[1, 2], {"a": 1}], TypeError, "document 1 is of type dict"),
        ([{"a": 1}, [2]], TypeError, "document 1 is of type list"),
        ([[{"a": 1}, {"a": 2}], [{"a": 3}]], TypeError, r"x is a list of 2 queries; .* learn_many\(X, y, qid\)"),
        ([[[1.0], [2.0]], [[3.0]]], TypeError, "x is a list of 2 queries"),
        ([np.ones((2, 1)), np.ones((3, 1))], TypeError, "x is a list of 2 queries"),
        ([{"a": "1"}], TypeError, "feature 'a' of document 0 is '1'"),
        ([{"a": 1.0}, {"b": 1, "c": None}], TypeError, "feature 'c' of document 1 is None"),
        ([{"a": 1, "b": 2j}], TypeError, "feature 'b' of document 0 is 2j"),
        ([{"a": 1, "b": 10**400}], ValueError, "feature 'b' of document 0 is too large for a float"),
        ({"p": {"a": [1]}}, TypeError, "feature 'a' of document 'p' is"),
        ({"a": 1.0, "b": 2.0}, TypeError, r"a single document goes into a list"),
        ("documents", TypeError, "x is of type str"),
        (7, TypeError, "x is of type int"),
        (pd.DataFrame({"a": ["x"]}), TypeError, "column 'a' has dtype String"),
        (np.empty((1, MAX_FEATURES + 1), np.float32), ValueError, "16777217 features; at most 16777216"),
    ],
)
def test_bad_queries_are_named(x, error, message):
    with pytest.raises(error, match=message):
        read_query(x)


@pytest.mark.parametrize(
    "y", [[0, 2, 1], (0, 2, 1), np.array([0.0, 2.0, 1.0]), np.int8([0, 2, 1]), pd.Series([0, 2, 1]), [False, 2, True]]
)
def test_grades_in_every_form(y):
    grades = as_grades(y, len(ROWS))
    assert grades.dtype == np.int64
    assert grades.tolist() == [0, 2, 1]


def test_grades_follow_the_documents_ids():
    assert as_grades({"z": 3, "x": 1, "y": 2}, 3, ("x", "y", "z")).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([1, 2], ValueError, "y has 2 grades, but x has 3 documents"),
        ([1, 0.5, 2], ValueError, "grade of document 'y' is 0.5"),
        ([1, float("nan"), 2], ValueError, "grade of document 'y' is nan"),
        ([1, "2", 3], TypeError, "grades must be integers"),
        ("123", TypeError, "y is of type str"),
        (3, TypeError, "y is of type int"),
        ([[1], [2], [3]], ValueError, "shape"),
        ({"x": 1, "y": 2}, ValueError, "no grade for document 'z'"),
        ({"x": 1, "y": 2, "z": 3, "w": 4}, ValueError, "grades document 'w', which is not in x"),
    ],
)
def test_bad_grades_are_named(y, error, message):
    with pytest.raises(error, match=message):
        as_grades(y, 3, ("x", "y", "z"))


def test_grades_as_a_dict_need_ids():
    with pytest.raises(TypeError, match="have no ids"):
        as_grades({0: 1}, 1)


def test_offsets():
    assert query_offsets(["b", "b", "a"], 3).tolist() == [0, 2, 3]
    assert query_offsets([], 0).tolist() == [0]
    with pytest.raises(ValueError, match="documents of query 7 are not contiguous"):
        query_offsets([7, 3, 7], 3)
    with pytest.raises(ValueError, match="one query id a document"):
        query_offsets([1, 2], 3)


def test_equal_scores_keep_the_order_of_documents():
    assert rank_one(PerceptronRanker(), {"b": {"f": 1.0}, "a": {"f": 2.0}}) == ["b", "a"]
    assert PerceptronRanker().rank_one(np.ones((4, 2))) == [0, 1, 2, 3]


def test_array_models_and_named_models_do_not_mix():
    named, unnamed = PerceptronRanker(), PerceptronRanker()
    named.learn_one(DICTS, [0, 1, 2])
    unnamed.learn_one(np.array(ROWS), [0, 1, 2])
    with pytest.raises(ValueError, match="does not name its features"):
        named.predict_one(np.array(ROWS))
    with pytest.raises(ValueError, match="x names its features"):
        unnamed.predict_one(DICTS)
    with pytest.raises(ValueError, match="x has 3 features, but PerceptronRanker has learned from 2"):
        unnamed.predict_one(np.ones((2, 3)))


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e6, 1e6)), max_size=6))
@settings(max_examples=100)
def test_dicts_become_the_obvious_matrix(documents):
    query = read_query(documents)
    assert query.names is not None
    assert set(query.names) == set().union(*documents)
    assert query.X.tolist() == [[x.get(name, 0.0) for name in query.names] for x in documents]


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__", ""])
def test_the_index_of_a_frame_that_was_written_to_a_file_is_refused(name):
    with pytest.raises(ValueError, match="is the index of a frame that was written to a file; drop it"):
        read_query(pd.DataFrame({name: [0, 1], "x": [1.0, 2.0]}))


def test_frames_with_booleans_and_nullable_columns():
    frame = pd.DataFrame({"new": [True, False], "n": pd.array([1, 2], "Int64"), "b": pd.array([True, False], "boolean")})
    assert read_query(frame).X.tolist() == [[1.0, 1.0, 1.0], [0.0, 2.0, 0.0]]
    for column in (pd.array([1, None], "Int64"), pd.array([None, True], "boolean")):
        with pytest.raises(ValueError, match=r"feature 'n' of document [01] is nan"):
            require_finite(read_query(frame.assign(n=column)))


class Inconsistent(collections.abc.Mapping):
    """A mapping whose length, names and values may disagree."""

    def __init__(self, values, n=None, names=None):
        self.values_, self.n, self.names = values, n, names

    def __len__(self):
        return len(self.values_) if self.n is None else self.n

    def __iter__(self):
        return iter(self.values_ if self.names is None else self.names)

    def __getitem__(self, name):
        return self.values_[name]


class Short(dict):
    def __len__(self):
        return 1


DOCUMENTS = {"a": {"x": 1.0, "y": 2.0}, "b": {"x": 0.5, "y": 1.0}}


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize(
    "x",
    [
        {"a": Inconsistent(DOCUMENTS["a"], 1), "b": DOCUMENTS["b"]},
        {"a": Inconsistent(DOCUMENTS["a"], 5), "b": DOCUMENTS["b"]},
        {"a": Inconsistent(DOCUMENTS["a"], 2, "xyx"), "b": DOCUMENTS["b"]},
        {"a": Short(DOCUMENTS["a"]), "b": DOCUMENTS["b"]},
        Inconsistent(DOCUMENTS, 1),
        Inconsistent(DOCUMENTS, 7, "aba"),
        Short(DOCUMENTS),
    ],
    ids=["short", "long", "twice", "short dict", "short query", "long query", "short dict of a query"],
)
def test_mappings_are_read_once_with_any_stated_length(x, documents):
    """They raised a bare IndexError, or a document stood twice in the ranking."""
    block = read_query(x, {"a": 1, "b": 0}, documents=documents)
    assert block.ids == ("a", "b")
    assert in_form(block) == DOCUMENTS


@pytest.mark.parametrize("documents", [False, True])
def test_a_mapping_without_a_name_that_it_lists_is_named(documents):
    x = {"a": DOCUMENTS["a"], "b": Inconsistent(DOCUMENTS["b"], names=["x", "z"])}
    with pytest.raises(ValueError, match="x: document 'b' is a Inconsistent that cannot be read: KeyError: 'z'"):
        read_query(x, documents=documents)
    with pytest.raises(ValueError, match="x is a Inconsistent that cannot be read: KeyError: 'c'"):
        read_query(Inconsistent(DOCUMENTS, names=["a", "c"]), documents=documents)


@pytest.mark.parametrize(
    ("columns", "pair"),
    [
        ([0, "0", "b"], "0 and '0'"),
        (["b", True, "True"], "True and 'True'"),
        (["caf\u00e9", "b", "cafe\u0301"], r"'caf\\xe9' and 'cafe\\u0301'"),
    ],
    ids=["number", "truth", "unicode"],
)
def test_columns_of_a_frame_with_one_name_are_refused(columns, pair):
    """One of them was lost silently."""
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=columns)
    with pytest.raises(ValueError, match=f"x: the columns {pair} have the same name as text; rename one of them"):
        read_query(frame)
