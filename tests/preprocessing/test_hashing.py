"""Hashed features: where names go, what texts become, and that only the name decides."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from online_rank import HashedFeatures, PerceptronRanker, load, save
from online_rank.preprocessing.hashing import hashed
from online_rank.query import SparseRows


def fnv_1a(text):
    h = 0xCBF29CE484222325
    for byte in text:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def fmix64(h):
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ h >> 33) * factor % 2**64
    return h ^ h >> 33


def column_and_sign(name, bits):
    h = fmix64(fnv_1a(name.encode("utf-8", "surrogatepass").replace(b"\n", b"\xff")))
    return h % 2**bits, -1.0 if h >> 63 else 1.0


def expected(document, bits):
    """A document of numbers as `{column: value}`."""
    sums = Counter()
    for name, value in document.items():
        column, sign = column_and_sign(str(name), bits)
        sums[column] += sign * value
    return dict(sums)


NAMES = st.text(st.characters(), max_size=8) | st.integers(-5, 5)
DOCUMENTS = st.lists(st.dictionaries(NAMES, st.floats(-1e3, 1e3), max_size=6), min_size=1, max_size=5)


@pytest.mark.slow
@given(DOCUMENTS, st.integers(1, 24))
@settings(max_examples=60)
def test_names_go_where_the_definition_says(documents, bits):
    # Names of two kinds with the same text are two entries of one column.
    answer = HashedFeatures(bits).transform_one(documents)
    for x, found in zip(documents, answer, strict=True):
        assert found == pytest.approx(expected(x, bits))


def test_known_places():
    # Published values of the two functions.
    assert (fnv_1a(b"a"), fnv_1a(b"foobar"), fmix64(1)) == (0xAF63DC4C8601EC8C, 0x85944171F73967E8, 0xB456BCFC34C2CB2C)
    names, values = ["clicks", "kind=pdf", "", "größe"], np.ones(4)
    columns = hashed([names[:1], [], names[1:]], 16, values)
    assert list(zip(columns.tolist(), values.tolist(), strict=True)) == [column_and_sign(name, 16) for name in names]
    # These must never change: models in files depend on them.
    assert columns.tolist() == [46299, 13258, 10534, 60065]


def test_a_name_with_the_separator_is_like_no_other():
    names = ["a\nb", "a", "b", "a\\nb", "a\xffb", "\n", ""]
    together = hashed([names], 24, np.ones(7)).tolist()
    assert together == [hashed([[name]], 24, np.ones(1))[0] for name in names]
    assert len(set(together)) == 7


def test_texts_and_categories():
    transformer = HashedFeatures(20, text=("title",))
    document = {"clicks": 3, "kind": "pdf", "title": "Breaking NEWS, news_1 news", "tags": ["a b", "c", "a b"], "new": True}
    numbers = {
        "clicks": 3.0,
        "kind=pdf": 1.0,
        "title=breaking": 1.0,
        "title=news": 2.0,
        "title=news_1": 1.0,
        "tags=a b": 2.0,
        "tags=c": 1.0,
        "new": 1.0,
    }
    assert transformer.transform_one([document]) == [expected(numbers, 20)] == transformer.transform_one([numbers])
    frame = pd.DataFrame({"clicks": [3.0], "kind": ["pdf"]})
    assert transformer.transform_one(frame) == transformer.transform_one([{"clicks": 3.0, "kind": "pdf"}])


def test_every_form_of_a_query_is_hashed_alike():
    X = np.array([[1.0, 0.0, -2.0], [0.0, 3.0, 0.0]])
    rows = HashedFeatures(16).transform_one(X)
    assert isinstance(rows, SparseRows)
    assert rows.shape == (2, 2**16)
    names = [{"1": 1.0, "3": -2.0}, {"2": 3.0}]
    assert HashedFeatures(16).transform_one(names) == [expected(x, 16) for x in names]
    for form in (csr_array(X), pd.DataFrame(X, columns=["1", "2", "3"]), names, X.astype(np.float32)):
        answer = HashedFeatures(16).transform_one(form)
        if isinstance(answer, list):
            answer = [{j: x for j, x in document.items() if x} for document in answer]
            assert answer == [expected(x, 16) for x in names]
        else:
            assert (answer.toarray() == rows.toarray()).all()


def test_a_column_number_of_ten_digits_takes_no_memory():
    rows = SparseRows(np.array([0, 2]), np.array([4, 2**31 - 2], np.int32), np.ones(2), 2**31 - 1)
    assert HashedFeatures(20).transform_one(rows).toarray().sum() == sum(expected({"5": 1.0, "2147483647": 1.0}, 20).values())


def test_entries_in_one_column_add_up_exactly():
    # With one bit everything shares two columns; the ranker sees one entry in each, so norms are norms of the sums.
    model = HashedFeatures(1) | PerceptronRanker(credit="argmax")
    query = [{f"f{j}": float(j) for j in range(5)}, {"f1": 1.0}]
    model.learn_one(query, [1, 0])
    norms = [sum(value**2 for value in expected(x, 1).values()) for x in query]
    assert model.last_round.largest_norm == pytest.approx(max(norms) ** 0.5)


@pytest.mark.slow
def test_other_processes_hash_alike():
    code = (
        "from online_rank import HashedFeatures; print(HashedFeatures(22).transform_one([{'a': 1.0, 'ö': 2.0, 'kind': 'x'}]))"
    )
    here = HashedFeatures(22).transform_one([{"a": 1.0, "ö": 2.0, "kind": "x"}])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(here)


def test_a_model_file_keeps_the_hash(tmp_path):
    model = HashedFeatures(10, text=("title",)) | PerceptronRanker(credit="argmax")
    query = {"a": {"title": "good news", "n": 1.0}, "b": {"title": "bad news"}}
    model.learn_one(query, {"a": 1, "b": 0})
    save(model, tmp_path / "model")
    twin = load(tmp_path / "model")
    assert twin["HashedFeatures"].text == ("title",)
    assert twin.predict_one(query) == model.predict_one(query)


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        ({"a": None}, TypeError, "feature 'a' of document 1 is None.*leave a missing one out"),
        ({"a": {"b": 1}}, TypeError, "feature 'a' of document 1"),
        ({"a": ["b", 1]}, TypeError, "feature 'a' of document 1"),
        ({"a": 1j}, TypeError, "feature 'a' of document 1"),
        ({"a": float("nan")}, ValueError, "feature 'a' of document 1 is nan"),
        ({"a": float("inf"), "b": "text"}, ValueError, "feature 'a' of document 1 is inf"),
        ({"a": 10**400}, ValueError, "feature 'a' of document 1 is too large"),
        ({(1, 2): 1.0}, TypeError, r"name \(1, 2\)"),
        ({True: 1.0}, TypeError, "name True"),
        ("text", TypeError, "document 1"),
    ],
)
def test_bad_documents_are_named(document, error, message):
    model = HashedFeatures(8) | PerceptronRanker(credit="argmax")
    with pytest.raises(error, match=message):
        model.learn_one([{"a": 1.0}, document], [0, 1])
    assert model["PerceptronRanker"].n_features == 0


@pytest.mark.parametrize("bits", [0, 25, 3.0, "4", True])
def test_bad_settings(bits):
    with pytest.raises((TypeError, ValueError), match="bits"):
        HashedFeatures(bits)
    for text in ("title", ["title"], (), (1,)):
        with pytest.raises(TypeError, match="text"):
            HashedFeatures(text=text)


def test_dense_rankers_say_that_they_are():
    from online_rank import RidgeRanker

    model = HashedFeatures(22) | RidgeRanker()
    with pytest.raises(ValueError, match="RidgeRanker needs them as an array"):
        model.learn_one([{"a": 1.0}] * 5, [0, 1, 0, 0, 1])


def test_texts_alone():
    step = HashedFeatures(8, text=("title", "tags"), others=False)
    whole = HashedFeatures(8, text=("title", "tags"))
    x = [{"title": "Red shoes", "tags": ["new"], "price": 3.0, "brand": None}, {"title": None, "price": np.inf}]
    assert step.transform_one(x) == whole.transform_one([{"title": "Red shoes", "tags": ["new"]}, {}])
    assert not len(step.transform_one(np.ones((2, 2))).values)
    with pytest.raises(ValueError, match="text is None"):
        HashedFeatures(others=False)


def test_vowel_signs_are_parts_of_words():
    """Words of Hindi that differ in a vowel sign were one word, and longer words were cut at each sign."""
    step = HashedFeatures(20, text=("title",))
    made = step.transform_one(
        [{"title": "\u0915\u093e"}, {"title": "\u0915\u0940"}, {"title": "\u0928\u092e\u0938\u094d\u0924\u0947"}]
    )
    assert [*map(len, made)] == [1, 1, 1]
    assert len({column for document in made for column in document}) == 3
