"""What a new user does wrong, and what the answer says that helps."""

import gzip

import numpy as np
import pytest
from river import linear_model, preprocessing

import online_rank
from online_rank import (
    DirectRanker,
    ForEachDocument,
    GradientRanker,
    LossTracker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    SlamRanker,
    StreamScaler,
    bounds,
    evaluate,
    load,
    measure,
    metrics,
    read,
    save,
)
from online_rank.stream.synth import Drifting, NoisyTeacher, Separable

X, y = np.eye(3), [0, 1, 2]
NAMED = {"a": {"clicks": 1.0}, "b": {"clicks": 2.0}}


def new():
    return PerceptronRanker()


def taught(x=X, grades=y):
    model = PerceptronRanker()
    model.learn_one(x, grades)
    return model


def taught_beside(tracker):
    tracker.learner.learn_one(X, y)
    return tracker


def progress(*arguments):
    return evaluate.progressive(*arguments, progress=False)


# Each a call, and words of the message without which a user would not know what to do.
CALLS = {
    # The query
    "one document as a row": (lambda: new().learn_one(X[0], [1]), "(3,)", "(m, d)", "x[None, :]"),
    "a batch of queries": (lambda: new().learn_one(X[None], y), "(1, 3, 3)", "(m, d)"),
    "one document as a dict": (lambda: new().predict_one({"clicks": 1.0}), "'clicks'", "{document id: feature dict}", "list"),
    "x and y swapped": (lambda: new().learn_one(y, X), "document 0", "int", "learn_one(x, y)"),
    "x and y swapped, named": (lambda: new().learn_one({"a": 0, "b": 1}, NAMED), "x['a']", "{document id: feature dict}"),
    "text": (lambda: new().predict_one("printer jam"), "str", "(m, d) array", "list of feature dicts"),
    "nothing": (lambda: new().predict_one(None), "NoneType", "(m, d) array"),
    "a generator": (lambda: new().predict_one(row for row in X), "generator", "(m, d) array"),
    "documents as texts": (lambda: new().predict_one(["red", "blue"]), "document 0", "str", "list of feature dicts"),
    "ragged rows": (lambda: new().predict_one([[1, 2], [1]]), "document 1", "1 features", "document 0 has 2"),
    "other features": (lambda: taught().learn_one(X[:, :2], y), "2 features", "learned from 3"),
    "names after arrays": (lambda: taught().learn_one(NAMED, [0, 1]), "names its features", "arrays"),
    "arrays after names": (lambda: taught(NAMED, [0, 1]).predict_one(X), "does not name", "dicts or a frame"),
    "a missing value": (lambda: new().learn_one([[1.0, np.nan], [0.0, 1.0]], [0, 1]), "feature 1", "document 0", "nan"),
    "a missing value, named": (
        lambda: new().learn_one({"a": {"clicks": None}, "b": {"clicks": 1}}, [0, 1]),
        "'clicks'", "'a'", "leave a missing one out",
    ),
    "an infinite value": (
        lambda: new().learn_one({"a": {"clicks": np.inf}, "b": {"clicks": 1}}, [0, 1]), "'clicks'", "'a'", "finite",
    ),
    "a category": (lambda: new().predict_one([{"colour": "red"}]), "'colour'", "document 0", "'red'", "HashedFeatures"),
    "complex numbers": (lambda: new().predict_one(X * 1j), "complex128", "features are numbers"),
    "masked features": (lambda: new().learn_one(np.ma.masked_equal(X, 0.0), y), "x is a masked array", "x.filled(0)"),
    # The grades
    "masked grades": (lambda: new().learn_one(X, np.ma.masked_equal(y, 2)), "y is a masked array", "fill in or leave out"),
    "masked scores that were served": (
        lambda: new().learn_one(X, y, served=np.ma.masked_equal([1.0, 2.0, 3.0], 2.0)), "served is a masked array",
    ),
    "masked query ids": (lambda: new().learn_many(X, y, np.ma.masked_equal([1, 1, 2], 2)), "qid is a masked array"),
    "masked weights": (
        lambda: new().learn_many(X, y, [1, 1, 2], w=np.ma.masked_equal([1.0, 2.0], 2.0)), "w is a masked array",
    ),
    "masked scores of a metric": (
        lambda: metrics.NDCG().update(y, np.ma.masked_equal([1.0, 2.0, 3.0], 2.0)), "scores is a masked array",
    ),
    "masked grades of a metric": (
        lambda: metrics.NDCG().update(np.ma.masked_equal(y, 2), [1.0, 2.0, 3.0]), "y is a masked array",
    ),
    "too few grades": (lambda: new().learn_one(X, [0, 1]), "2 grades", "3 documents"),
    "fractional grades": (lambda: new().learn_one(X, [0, 0.5, 1]), "document 1", "0.5", "round or bin"),
    "negative grades": (lambda: new().learn_one(X, [0, -1, 1]), "document 1", "-1", "from 0"),
    "words as grades": (lambda: new().learn_one(X, ["bad", "good", "good"]), "integers", "str", "0"),
    "a missing grade": (lambda: new().learn_one(X, [0, np.nan, 1]), "document 1", "nan", "whole numbers"),
    "no grades": (lambda: new().learn_one(X, None), "y is of type NoneType", "one a document"),
    "a column of grades": (lambda: new().learn_one(X, [[0], [1], [2]]), "(3, 1)", "sequence of integers"),
    "named grades of rows": (lambda: new().learn_one(X, {0: 1, 1: 1, 2: 0}), "y is a dict", "y as a list"),
    "a document without grade": (lambda: new().learn_one(NAMED, {"a": 1}), "no grade", "'b'"),
    "a grade without document": (lambda: new().learn_one(NAMED, {"a": 1, "b": 0, "c": 2}), "'c'", "not in x"),
    # Weights and blocks
    "a negative weight": (lambda: new().learn_one(X, y, -1), "w is -1", ">= 0"),
    "a weight for each document": (lambda: new().learn_one(X, y, [1, 1, 1]), "weight of a query is one finite number"),
    "an array of them": (lambda: new().learn_one(X, y, np.ones(3)), "weight of a query is one finite number"),
    "a weight as text": (lambda: new().learn_one(X, y, "2"), "w is '2'; the weight of a query is one finite number"),
    "a weight beyond floats": (lambda: new().learn_one(X, y, 10**400), "w is beyond the largest float"),
    "a metric's weight as text": (lambda: metrics.NDCG().update(y, y, "2"), "w is '2'; the weight of a query is one finite"),
    "a word as weight": (lambda: new().learn_one(X, y, "heavy"), "'heavy'", "one finite number"),
    "weights of documents": (lambda: new().learn_many(X, y, [1, 1, 2], w=[1.0] * 3), "(3,)", "2 queries", "one weight a query"),
    "sizes in place of query ids": (lambda: new().learn_many(X, y, [2, 1]), "one query id a document", "np.repeat"),
    "queries not together": (lambda: new().learn_many(X, y, [1, 2, 1]), "query 1", "sort the block by qid"),
    # Parameters
    "an unknown measure": (lambda: PerceptronRanker("mrr"), "'mrr'", "ndcg[@K]"),
    "a cutoff as measure": (lambda: PerceptronRanker(10), "measure is 10", "'ndcg@10'"),
    "a measure of nothing": (lambda: measure("ndcg@0"), "'ndcg@0'", "ndcg[@K]"),
    "an unknown credit": (lambda: PerceptronRanker(credit="max"), "'max'", "'spread'"),
    "no learning rate": (lambda: SlamRanker(learning_rate=0), "learning_rate is 0", "above 0"),
    "no half-life": (lambda: PerceptronRanker(half_life=-1), "half_life is -1", "a number >= 0, or None"),
    "a word as half-life": (lambda: PerceptronRanker(half_life="yes"), "half_life is 'yes'", "a number >= 0, or None"),
    "a cost as the widths": (lambda: DirectRanker("logistic"), "hidden is 'logistic'", "tuple of widths"),
    "an unknown surrogate": (lambda: GradientRanker("rank_svm"), "'rank_svm'", "'hinge'"),
    # Pipelines
    "a river scaler in the middle": (lambda: QueryNormalizer() | preprocessing.StandardScaler() | new(), "ForEachDocument("),
    "a river regressor as ranker": (lambda: StreamScaler() | linear_model.LinearRegression(), "PointwiseRanker(LinearReg"),
    "a ranker first": (lambda: new() | StreamScaler(), "StreamScaler cannot follow", "last step"),
    "a pipeline without ranker": (lambda: (StreamScaler() | QueryNormalizer()).predict_one(X), "does not end in a ranker"),
    "lifting what works on queries": (lambda: ForEachDocument(StreamScaler()), "StreamScaler works on queries already"),
    "a class in place of a model": (lambda: PointwiseRanker(linear_model.LinearRegression), "the class", "an instance"),
    "a regressor for pairs": (lambda: PairwiseRanker(linear_model.LinearRegression()), "LinearRegression", "classifier"),
    "a function that drops documents": (lambda: ((lambda x: x[:1]) | new()).learn_one(X, y), "must return the documents"),
    # Trackers and bounds
    "a tracker around a pipeline": (lambda: LossTracker(StreamScaler() | new()), "scaler | LossTracker(ranker)"),
    "a learner taught without its tracker": (
        lambda: taught_beside(LossTracker(new())).learn_one(X, y), "taught without the tracker", "through the LossTracker",
    ),
    "comparators without names": (lambda: LossTracker(new(), [1.0, 2.0]), "comparators", "{name: weights}"),
    "a comparator of another length": (lambda: LossTracker(new(), {"u": [1.0]}).learn_one(X, y), "1 weights", "3 features"),
    "a certificate against one of two": (
        lambda: LossTracker(new(), {"u": [1.0], "v": [2.0]}).certificate(), "2 comparators", "'u'", "certificate(name)",
    ),
    "an unknown comparator": (lambda: LossTracker(new(), {"u": [1.0]}).certificate("v"), "'v'", "'u'"),
    "a bound for another ranker": (lambda: LossTracker(new(), {"u": [1.0]}).certificate().bound("theorem_5"), "a SlamRanker"),
    "a step that is too large": (
        lambda: bounds.theorem_5(comparator_loss=1.0, norm=1.0, R_X=1.0, m=3, v_max=1.0, learning_rate=0.9),
        "learning_rate is 0.9", "steps below 0.166667",
    ),
    # Metrics and evaluation
    "an unknown metric": (lambda: metrics.metric("accuracy"), "'accuracy'", "ndcg[@K], ap"),
    "scores and grades swapped": (lambda: metrics.NDCG().update([0.1, 0.2], [0, 1]), "document 0", "0.1", "whole numbers"),
    "a text as cutoff": (lambda: metrics.NDCG(k="10"), "k is '10'", "an integer >= 1"),
    "a score that is not a number": (lambda: metrics.NDCG().update([0, 1], [0.1, np.nan]), "document 1", "nan"),
    "model and stream swapped": (lambda: progress(new(), [(X, y)]), "model is of type list", "progressive(stream, model"),
    "a class to evaluate": (lambda: progress([(X, y)], PerceptronRanker), "class PerceptronRanker", "instance"),
    "a file name as stream": (lambda: progress("train.txt", new()), "'train.txt'", "online_rank.read"),
    "a stream without grades": (lambda: progress([X], new()), "ndarray", "(x, y)"),
    "weights in a list": (lambda: progress([(X, y, [1, 1, 1])], new()), "(x, y, arguments)", '{"w": 2.0}'),
    "a class as metric": (lambda: progress([(X, y)], new(), metrics.NDCG), "NDCG is a class", "NDCG()"),
    # Streams
    "a margin too wide": (lambda: Separable(margin=2), "margin is 2", "below 1"),
    "drift backwards": (lambda: Drifting(drift_points=(5, 3)), "(5, 3)", "ascend"),
    "an endless block": (lambda: NoisyTeacher(n_queries=None).block(), "n_queries is None", "without end"),
}  # fmt: skip

FILES = {
    "a table": ("grade,qid,f1\n1,2,3\n", "line 1", "'grade,qid,f1'", "grade qid:ID feature:value"),
    "no query ids": ("1 1:0.5 2:0.1\n", "no qid", "group="),
    "a bad value": ("1 qid:1 1:0.5\n0 qid:1 1:abc\n", "line 2, column 11", "'abc'", "feature 1"),
    "fractional grades": ("0.5 qid:1 1:0.5\n", "line 1, column 1", "'0.5'", "integer >= 0"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_call(name):
    call, *words = CALLS[name]
    with pytest.raises((TypeError, ValueError, KeyError)) as error:
        call()
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("name", FILES)
def test_wrong_file(name, tmp_path):
    text, *words = FILES[name]
    path = tmp_path / "train.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"train\.txt") as error:
        list(read(path))
    for word in words:
        assert word in str(error.value)


def test_wrong_places(tmp_path):
    model, text, cut = taught(), tmp_path / "model.txt", tmp_path / "cut.txt.gz"
    text.write_text("hello")
    cut.write_bytes(gzip.compress(b"1 qid:1 1:0.5\n" * 1000)[:-20])
    with pytest.raises(TypeError, match=r"save\(model, path\)"):
        save("model.npz", model)
    with pytest.raises(TypeError, match="LinearRegression"):
        save(linear_model.LinearRegression(), tmp_path / "m.npz")
    with pytest.raises(IsADirectoryError, match="not a regular file") as directory:
        save(model, tmp_path)
    assert directory.value.filename == str(tmp_path)
    with pytest.raises(FileNotFoundError) as nowhere:
        save(model, tmp_path / "missing" / "m.npz")
    assert nowhere.value.filename == str(tmp_path / "missing" / "m.npz")
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"model.txt: not a model file of online_rank"):
        load(text)
    with pytest.raises(ValueError, match=r"cut.txt.gz.*the compressed data are damaged, or cut short"):
        list(read(cut))


def test_a_misspelt_name_is_named():
    with pytest.raises(AttributeError, match="PerceptronRnaker"):
        _ = online_rank.PerceptronRnaker
