"""Rankers in scikit-learn: the same scores, searches by query, and its own checks."""

import io
import pickle
import re
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler
from online_rank.metrics import NDCG
from online_rank.sklearn import SklearnRanker

rng = np.random.default_rng(0)
X, qid = rng.normal(size=(400, 4)), np.repeat(np.arange(40), 10)
y = np.digitize(X[:, 0] - X[:, 1], [0.0, 1.0])

#: Checks of scikit-learn that fail, and why they should.
EXPECTED = {
    "check_dtype_object": "it wants 'Unknown label type' in the error about grades that are text, which says what grades are",
    "check_methods_subset_invariance": "scores depend on the other documents of the query: a part of it is another query",
}


@pytest.mark.slow
@pytest.mark.parametrize("model", [None, StreamScaler() | PerceptronRanker()])
def test_the_checks_of_scikit_learn_fail_only_where_they_should(model):
    # A linear score depends on its document alone.
    expected = dict(list(EXPECTED.items())[: 1 if model else 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(SklearnRanker(model), expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == {*expected}
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
    assert sum(result["status"] == "passed" for result in results) > 35


@pytest.mark.parametrize("model", [None, AdditiveRanker(relative=False), StreamScaler() | PerceptronRanker("ap")])
def test_it_learns_and_scores_as_the_model_does(model):
    ranker, twin = SklearnRanker(model), AdditiveRanker() if model is None else model.clone()
    assert ranker.fit(X, y, qid=qid) is ranker
    twin.learn_many(X, y, qid)
    expected = twin.predict_many(X, qid)
    assert (ranker.predict(X, qid=qid) == expected).all()
    in_parts = SklearnRanker(model)
    for half in (slice(0, 200), slice(200, 400)):
        in_parts.partial_fit(X[half], y[half], qid=qid[half])
    assert (in_parts.predict(X, qid=qid) == expected).all()
    assert (ranker.fit(X, y, qid=qid).predict(X, qid=qid) == expected).all()  # From the beginning again.
    measure = NDCG(k=10)
    measure.update_many(y, expected, qid)
    assert ranker.score(X, y, qid=qid) == measure.get() > 0.9
    assert model is None or not any(getattr(step, "n_features", 0) for step in getattr(model, "steps", {"": model}).values())


def test_frames_keep_their_names_text_and_missing_values():
    frame = pd.DataFrame(X, columns=[*"abcd"], index=np.arange(400)[::-1])
    frame["brand"] = np.where(X[:, 0] > 0, "x", "y")
    frame.loc[::7, "a"] = np.nan
    ranker = SklearnRanker().fit(frame, pd.Series(y), qid=pd.Series(qid))
    twin = AdditiveRanker()
    twin.learn_many(frame, y, qid)
    assert (ranker.predict(frame, qid) == twin.predict_many(frame, qid)).all()
    assert [*ranker.feature_names_in_] == [*"abcd", "brand"]
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(frame[["b", "a"]])


def test_sparse_rows_and_a_single_query():
    ranker = SklearnRanker(PerceptronRanker()).fit(scipy.sparse.csr_matrix(X), y, qid=qid)
    assert ranker.score(scipy.sparse.csr_matrix(X), y, qid=qid) > 0.9
    one = SklearnRanker().fit(X[:10], y[:10])
    assert one.score(X[:10], y[:10]) == one.score(X[:10], y[:10], qid=qid[:10])


def test_parameters_include_the_parameters_of_the_model():
    model = StreamScaler() | PerceptronRanker()
    ranker = SklearnRanker(model, measure="ap")
    assert ranker.get_params(deep=False) == {"model": model, "measure": "ap"}
    assert ranker.get_params()["model__StreamScaler__with_std"] is True
    ranker.set_params(measure="ndcg@5", model__PerceptronRanker__measure="ap", model__StreamScaler__with_std=False)
    assert ranker.measure == "ndcg@5"
    assert ranker.model["PerceptronRanker"].measure == "ap"
    assert not ranker.model["StreamScaler"].with_std
    assert model["PerceptronRanker"].measure == "ndcg@10"
    other = clone(ranker)
    assert other.model is not ranker.model
    assert repr(other.get_params()) == repr(ranker.get_params())
    with pytest.raises(ValueError, match="'model__x' is no parameter of the model; there are model__PerceptronRanker__credit"):
        ranker.set_params(model__x=3)
    with pytest.raises(ValueError, match="Invalid parameter 'x'"):
        ranker.set_params(x=3)


def test_a_search_keeps_queries_together_and_knows_them():
    models = [AdditiveRanker(), PerceptronRanker("ap")]
    search = GridSearchCV(SklearnRanker(), {"model": models}, cv=GroupKFold(3), error_score="raise")
    with pytest.raises(ValueError, match=re.escape("sklearn.set_config(enable_metadata_routing=True)")):
        search.fit(X, y, qid=qid, groups=qid)
    with sklearn.config_context(enable_metadata_routing=True):
        search.fit(X, y, qid=qid, groups=qid)
        given = {"params": {"qid": qid, "groups": qid}, "cv": GroupKFold(3)}
        scores = cross_val_score(SklearnRanker(search.best_params_["model"]), X, y, **given)
        assert search.best_score_ == scores.mean() > 0.9
        assert cross_val_predict(SklearnRanker(), X, y, **given).shape == y.shape
    assert search.best_estimator_.predict(X, qid=qid).shape == y.shape
    nested = GridSearchCV(SklearnRanker(AdditiveRanker()), {"model__relative": [True, False]}, cv=GroupKFold(2))
    with sklearn.config_context(enable_metadata_routing=True):
        assert nested.fit(X, y, qid=qid, groups=qid).best_estimator_.model.relative in (True, False)


@pytest.mark.parametrize("how", ["pickle", "joblib"])
def test_it_comes_back_from_files_and_continues(how):
    ranker = SklearnRanker().fit(X[:200], y[:200], qid=qid[:200])
    file = io.BytesIO()
    (pickle if how == "pickle" else joblib).dump(ranker, file)
    file.seek(0)
    again = (pickle if how == "pickle" else joblib).load(file)
    for each in (ranker, again):
        each.partial_fit(X[200:], y[200:], qid=qid[200:])
    assert (again.predict(X, qid=qid) == ranker.predict(X, qid=qid)).all()


@pytest.mark.parametrize(
    ("act", "error", "reason"),
    [
        (lambda: SklearnRanker(3).fit(X, y), TypeError, "model is of type int; it is a ranker"),
        (lambda: SklearnRanker(StreamScaler()).fit(X, y), TypeError, "ranker"),
        (lambda: SklearnRanker().fit(X, y - 5), ValueError, "grades are integers from 0"),
        (lambda: SklearnRanker().fit(X, y + 0.5), ValueError, "grades are whole numbers"),
        (lambda: SklearnRanker().fit(X, None), ValueError, "y is None: the grades of the documents"),
        (lambda: SklearnRanker().fit(X, y, qid=qid[::-1][:-1]), ValueError, "one query id a document"),
        (lambda: SklearnRanker().fit(X, y, qid=qid % 7), ValueError, "not contiguous; sort the block by qid"),
        (lambda: SklearnRanker().fit(X, y[:-1]), ValueError, "inconsistent numbers of samples"),
        (lambda: SklearnRanker().predict(X), sklearn.exceptions.NotFittedError, "not fitted"),
        (lambda: SklearnRanker().fit(X, y).predict(X[:, :2]), ValueError, "X has 2 features, but SklearnRanker is expecting 4"),
        (lambda: SklearnRanker(measure="x").fit(X, y).score(X, y), ValueError, "x"),
    ],
)
def test_bad_input_is_refused(act, error, reason):
    with pytest.raises(error, match=reason):
        act()


def test_what_is_refused_leaves_what_was_learned():
    ranker = SklearnRanker().fit(X, y, qid=qid)
    before = ranker.predict(X, qid=qid)
    with pytest.raises(ValueError, match="grades"):
        ranker.fit(X, y - 5, qid=qid)
    with pytest.raises(ValueError, match="grades"):
        ranker.partial_fit(X, y - 5, qid=qid)
    assert (ranker.predict(X, qid=qid) == before).all()
