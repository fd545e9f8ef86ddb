"""Exports compute what the model computes: on made-up streams, and on MQ2008 where it is there."""

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import online_rank
from online_rank import (
    DirectRanker,
    GradientRanker,
    LossTracker,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamScaler,
)
from online_rank.base.schema import declared_state
from online_rank.export import (
    TARGETS,
    export,
    serving_weights,
    to_c,
    to_elasticsearch,
    to_json,
    to_solr,
    to_vespa,
)
from online_rank.rankers.click_trees import ClickTrees

NAMES = ("clicks", "age", "bm25")


def learned(model, n_queries=30, seed=0, scale=(100.0, 1e-3, 1.0), dtype=np.float64):
    """A model that has learned a few queries of features on very different scales, one of them with a large mean."""
    rng = np.random.default_rng(seed)
    for _ in range(n_queries):
        X = (rng.normal(size=(8, 3)) * scale + [5.0, 0.0, 3.0]).astype(dtype)
        y = (X[:, 0] / scale[0] - X[:, 1] / scale[1] > 0.3).astype(np.int64) + (X[:, 2] > 3.0)
        model.learn_one(X, y)
    return model


def held_out(seed=1, n=50):
    return np.random.default_rng(seed).normal(size=(n, 3)) * (150.0, 1e-3, 1.0) + [5.0, 0.0, 3.0]


def assert_same_scores(found, expected, tolerance=1e-9):
    """Equal up to a tolerance relative to the largest score, and the same ranking."""
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * np.abs(expected).max())
    assert np.argsort(-np.asarray(found), kind="stable").tolist() == np.argsort(-expected, kind="stable").tolist()


LINEAR = {
    "perceptron": lambda: PerceptronRanker(),
    "last weights": lambda: PerceptronRanker(half_life=0),
    "gradient": lambda: GradientRanker(),
    "scaled": lambda: StreamScaler() | PerceptronRanker(),
    "centred": lambda: StreamScaler(with_std=False) | PerceptronRanker(),
    "ridge": lambda: StreamScaler() | RidgeRanker(),
    "scaled twice": lambda: StreamScaler() | (StreamScaler(with_std=False) | PerceptronRanker()),
    "tracked": lambda: StreamScaler() | LossTracker(PerceptronRanker()),
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_linear_form_scores_as_the_model_does(name):
    model, X = learned(LINEAR[name]()), held_out()
    form = serving_weights(model)
    expected = model.predict_many(X)
    assert_same_scores(X @ form.weights + form.constant, expected)


def test_folding_by_hand():
    # The scaler has seen 1 and 3: mean 2, deviation 1. The ranker has learned one weight w on the scaled feature.
    model = StreamScaler() | PerceptronRanker(half_life=0)
    model.learn_one([[1.0], [3.0]], [0, 1])
    w = float(model["PerceptronRanker"].weights[0])
    form = serving_weights(model)
    assert form.weights.tolist() == [w / 1.0]
    assert form.constant == -(w / 1.0) * 2.0


def test_names_follow_the_features_in_any_order_and_late_ones_too():
    model = StreamScaler() | PerceptronRanker()
    model.learn_one({"a": {"clicks": 3.0, "age": 1.0}, "b": {"clicks": 1.0, "age": 7.0}}, {"a": 2, "b": 0})
    model.learn_one({"a": {"bm25": 3.0, "age": 1.0}, "b": {"bm25": 1.0, "age": 2.0}}, {"a": 0, "b": 2})
    model["StreamScaler"].learn_one([{"seen by the scaler alone": 4.0}])
    form = serving_weights(model)
    assert form.names == ("clicks", "age", "bm25", "seen by the scaler alone")
    document = {"bm25": 2.5, "clicks": 0.5, "age": 4.0, "seen by the scaler alone": 9.0}
    (expected,) = model.predict_one([document])
    found = sum(w * document[name] for name, w in zip(form.names, form.weights, strict=True)) + form.constant
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_constant_feature_has_no_weight():
    model = StreamScaler() | PerceptronRanker()
    model.learn_one([[1.0, 7.0], [3.0, 7.0]], [0, 1])
    assert serving_weights(model).weights[1] == 0.0


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: QueryNormalizer() | PerceptronRanker(), "columns relative to the query have no linear form"),
        (lambda: DirectRanker(seed=0), "networks have no linear form"),
    ],
)
def test_what_is_not_linear_says_why(model, reason):
    model = learned(model(), n_queries=3)
    with pytest.raises(TypeError, match=reason):
        serving_weights(model)
    with pytest.raises(TypeError, match=r"Solr cannot compute this model: .*Targets that can: c, duckdb, duckdb-tables, json"):
        export(model, "solr")


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="model is of type int"):
        serving_weights(3)
    with pytest.raises(TypeError, match="model is of type StreamScaler"):
        serving_weights(StreamScaler())
    with pytest.raises(ValueError, match="no feature yet"):
        serving_weights(StreamScaler() | PerceptronRanker())
    with pytest.raises(ValueError, match="'pmml'; it must be one of"):
        export(learned(PerceptronRanker()), "pmml")


def solr_scores(model, X):
    """Solr's formula: multiply each feature by its weight, add up."""
    return X @ [model["params"]["weights"][feature["name"]] for feature in model["features"]]


def test_solr_computes_the_scores_up_to_the_constant():
    model, X = learned(StreamScaler() | PerceptronRanker()), held_out()
    made = json.loads(json.dumps(to_solr(model, names=NAMES, store="shop")))
    assert made["class"] == "org.apache.solr.ltr.model.LinearModel"
    assert made["store"] == "shop"
    assert [feature["name"] for feature in made["features"]] == list(NAMES)
    assert_same_scores(solr_scores(made, X) + serving_weights(model).constant, model.predict_many(X))


def test_elasticsearch_weights_go_by_name_and_templates_make_a_feature_set():
    model = learned(StreamScaler() | PerceptronRanker())
    weights = serving_weights(model).weights.tolist()
    shifted = {"f1": "clicks", "f2": "age"}
    model["StreamScaler"]._mean = np.abs(declared_state(model["StreamScaler"]).mean)  # Nothing has been negative.
    bodies = json.loads(export(model, "elasticsearch", name="shop", names=shifted))
    assert bodies == json.loads(export(model, "opensearch", name="shop", names=shifted))
    assert list(bodies) == ["POST _ltr/_featureset/shop/_createmodel"]
    made = bodies["POST _ltr/_featureset/shop/_createmodel"]["model"]
    assert (made["name"], made["model"]["type"]) == ("shop", "model/linear")
    assert json.loads(made["model"]["definition"]) == pytest.approx(dict(zip(["clicks", "age", "f3"], weights, strict=True)))
    query = {"match": {"title": "{{text}} {{#lang}}{{lang}}{{/lang}}"}}
    with pytest.raises(ValueError, match="names has templates for 1 features, but none for f2, f3"):
        to_elasticsearch(model, names={"f1": query})
    bodies = to_elasticsearch(model, name="shop", names=dict.fromkeys(("f1", "f2", "f3"), query))
    assert list(bodies) == ["POST _ltr/_featureset/shop", "POST _ltr/_featureset/shop/_createmodel"]
    features = bodies["POST _ltr/_featureset/shop"]["featureset"]["features"]
    assert [(feature["name"], feature["params"]) for feature in features] == [(f"f{j}", ["text", "lang"]) for j in (1, 2, 3)]
    assert features[0]["template"] == query


def test_elasticsearch_is_not_given_features_that_were_negative():
    model = StreamScaler() | PerceptronRanker()
    model.learn_one([{"age": -3.0, "price": 1.0}, {"age": -1.0, "price": 2.0}], [0, 1])
    with pytest.raises(ValueError, match="'age' has been negative, about -2, and the plugin refuses"):
        to_elasticsearch(model)
    script = {"script_score": {"query": {"match_all": {}}, "script": "doc['age'].value + 10"}}
    assert len(to_elasticsearch(model, names={"age": script, "price": script})) == 2


def test_vespa_expression_computes_the_scores():
    model, X = learned(StreamScaler() | PerceptronRanker()), held_out(n=5)
    text = to_vespa(model, names=["clicks", "age", "bm25(title)"])
    expression = text.partition("expression {")[2].partition("}")[0]
    for j, name in enumerate(("clicks", "age")):
        expression = expression.replace(f"if(isNan(attribute({name})) == 1, 0, attribute({name}))", f"X[:, {j}]")
    python = expression
    python = " ".join(python.replace("bm25(title)", "X[:, 2]").split())
    assert_same_scores(eval(python, {"X": X}), model.predict_many(X))


def test_vespa_refuses_names_that_would_be_code():
    model = learned(PerceptronRanker())
    for bad in ("a b", "1x", "x) + (y", "bm25(title"):
        with pytest.raises(ValueError, match="neither an attribute's name nor a rank feature"):
            to_vespa(model, names=["a", "b", bad])
    with pytest.raises(ValueError, match="name of a rank profile"):
        to_vespa(model, name="a {")


def test_json_keeps_every_bit():
    model = learned(StreamScaler() | PerceptronRanker())
    read = json.loads(json.dumps(to_json(model)))
    form = serving_weights(model)
    assert (read["features"], read["weights"], read["constant"]) == (["f1", "f2", "f3"], form.weights.tolist(), form.constant)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_c_header_compiles_and_computes_the_scores(tmp_path):
    model, X = learned(StreamScaler() | PerceptronRanker()), held_out()
    names = ['quote " and \\ and \n', "ünicode??/", "bm25"]
    (tmp_path / "model.h").write_text(to_c(model, name="shop", names=names))
    (tmp_path / "model.c").write_text(
        '#include "model.h"\ndouble score(const double *x) { return shop_score(x); }\n'
        "const char *feature(int j) { return shop_features[j]; }\n"
    )
    options = ["-std=c99", "-trigraphs", "-Wall", "-Werror", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["cc", *options, "-o", tmp_path / "model.so", tmp_path / "model.c"], check=True)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    library.score.restype, library.feature.restype = ctypes.c_double, ctypes.c_char_p
    found = [library.score(row.ctypes.data_as(ctypes.POINTER(ctypes.c_double))) for row in X]
    assert_same_scores(found, model.predict_many(X))
    assert [library.feature(j).decode() for j in range(3)] == names


#: Formats that a linear model cannot be written in, or that are not text.
OTHERS = {"onnx", "lightgbm", "xgboost"} | {name for name, target in TARGETS.items() if "fusion" in target.kinds}


@pytest.mark.parametrize("to", [to for to in TARGETS if to not in OTHERS])
def test_every_format_writes_text(to):
    text = export(learned(PerceptronRanker()), to, name="shop", names=NAMES)
    assert isinstance(text, str)
    assert text.endswith("\n")


def test_two_features_of_one_name_are_refused():
    model = PerceptronRanker.from_weights({(1, 2): 0.5, "(1, 2)": 0.25})
    with pytest.raises(ValueError, match=r"two features would be called '\(1, 2\)'"):
        to_json(model)
    assert to_json(model, names=["one", "text one"])["features"] == ["one", "text one"]
    with pytest.raises(ValueError, match="names has 1 names, but the model has 2 features"):
        to_json(model, names=["one"])
    with pytest.raises(TypeError, match="one text for each feature"):
        to_json(model, names="ab")


class TestFromWeights:
    def test_named_weights_meet_features_in_any_order(self):
        model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5})
        assert model.predict_one([{"age": 4.0, "clicks": 1.0, "new": 3.0}]) == [2.0 - 2.0]
        assert model.feature_names == ("clicks", "age")

    def test_it_learns_on_from_there_and_is_a_ranker_like_any(self, tmp_path):
        model = PerceptronRanker.from_weights(np.array([1.0, 0.0], np.float32), half_life=0, measure="ap")
        model.learn_one([[0.0, 1.0], [1.0, 0.0]], [1, 0])
        assert model.weights[0] < 1.0
        assert model.weights[1] > 0.0
        online_rank.save(model, tmp_path / "model.npz")
        assert online_rank.load(tmp_path / "model.npz").weights.tolist() == model.weights.tolist()

    def test_an_average_begins_there_too(self):
        model = PerceptronRanker.from_weights([1.0, 2.0])
        assert model.served_weights.tolist() == [1.0, 2.0]
        given = np.array([1.0, 2.0])
        model = PerceptronRanker.from_weights(given)
        model.learn_one([[0.0, 1.0], [1.0, 3.0]], [1, 0])
        assert given.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize("weights", [[], [np.nan], {"a": np.inf}, {}])
    def test_bad_values(self, weights):
        with pytest.raises((ValueError, TypeError), match="weights must be"):
            PerceptronRanker.from_weights(weights)

    @pytest.mark.parametrize("weights", ["ab", [[1.0]], [None], {"a": "b"}, 3.0])
    def test_bad_kinds(self, weights):
        with pytest.raises(TypeError, match="weights must be d numbers"):
            PerceptronRanker.from_weights(weights)


class TestOnnx:
    """The graphs, run by onnxruntime."""

    @staticmethod
    def scores(model, X, **options):
        import onnxruntime

        session = onnxruntime.InferenceSession(export(model, "onnx", **options), providers=["CPUExecutionProvider"])
        return session.run(["scores"], {"features": np.asarray(X, np.float64)})[0]

    @pytest.mark.parametrize(
        "make",
        [
            *LINEAR.values(),
            lambda: StreamScaler() | (StreamScaler() | PerceptronRanker()),
            lambda: StreamScaler() | DirectRanker(dtype="float64", seed=1),
            lambda: StreamScaler() | DirectRanker(hidden=(7, 4, 3), activation="relu", dtype="float64", seed=1),
        ],
    )
    def test_scores_are_the_model_s(self, make):
        model, X = learned(make()), held_out()
        X[0] = [1e6, -1e6, 3.0]  # beyond all that was seen
        assert_same_scores(self.scores(model, X), model.predict_many(X))

    def test_a_network_in_single_precision_within_its_own_rounding(self):
        model, X = learned(StreamScaler() | DirectRanker(seed=1)), held_out()
        expected = model.predict_many(X)
        np.testing.assert_allclose(self.scores(model, X), expected, rtol=0.0, atol=1e-6 * np.abs(expected).max())

    def test_a_query_of_no_documents(self):
        assert self.scores(learned(StreamScaler() | PerceptronRanker()), np.empty((0, 3))).tolist() == []

    def test_names_and_their_order_are_in_the_metadata(self):
        import onnxruntime

        model = StreamScaler() | PerceptronRanker()
        model.learn_one({"a": {"clicks": 3.0, "age": 1.0}, "b": {"clicks": 1.0, "age": 7.0}}, {"a": 2, "b": 0})
        session = onnxruntime.InferenceSession(export(model, "onnx"), providers=["CPUExecutionProvider"])
        assert json.loads(session.get_modelmeta().custom_metadata_map["features"]) == ["clicks", "age"]

    def test_what_has_no_graph_says_why(self):
        with pytest.raises(TypeError, match="QueryFunction has no closed form"):
            export(learned((lambda x: x) | PerceptronRanker(), 3), "onnx")
        with pytest.raises(ValueError, match="no feature yet"):
            export(StreamScaler() | PerceptronRanker(), "onnx")


MQ2008 = Path(os.environ.get("ONLINE_RANK_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "mq2008"


@pytest.mark.skipif(not (MQ2008 / "S1.txt").exists(), reason="needs MQ2008")
class TestMQ2008:
    """Models learned from a part of MQ2008; held-out queries of another part."""

    @pytest.fixture(scope="class")
    def parts(self):
        from online_rank import read

        return read(MQ2008 / "S1.txt", n_features=46).all(), read(MQ2008 / "S5.txt", n_features=46).all()

    @pytest.mark.parametrize(
        "make",
        [
            lambda: StreamScaler() | PerceptronRanker(),
            lambda: StreamScaler() | DirectRanker(seed=0, dtype="float64"),
            lambda: StreamScaler() | DirectRanker(seed=0),
        ],
    )
    def test_onnx_and_solr_score_and_rank_alike(self, parts, make):
        train, test = parts
        model = make()
        model.learn_many(train.X, train.y, train.qid)
        expected = model.predict_many(test.X, test.qid)
        largest = np.abs(expected).max()
        np.testing.assert_allclose(TestOnnx.scores(model, test.X), expected, rtol=1e-6, atol=1e-6 * largest)
        if isinstance(model[-1], PerceptronRanker):
            constant = serving_weights(model).constant
            found = solr_scores(to_solr(model), test.X) + constant
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * largest)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c_takes_values_at_a_threshold_to_the_side_that_the_model_does(tmp_path):
    """A value that is the mean of its query is 0, and trees have learned thresholds one bit away."""
    rng = np.random.default_rng(0)

    def query(m):
        return rng.integers(0, 7, size=(m, 6)) / 10.0

    model = QueryNormalizer() | ClickTrees(depth=3, window=8)
    for _ in range(60):
        X = query(8)
        model.learn_one(X, np.digitize(X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=8) / 4, [0.2, 0.6]))
    body = "int call(const double *x, int n, double *s) { return model_scores(x, n, s); }\n"
    (tmp_path / "model.c").write_text(export(model, "c", name="model") + body)
    subprocess.run(
        ["cc", "-ffp-contract=off", "-shared", "-fPIC", "-O2", "-o", "model.so", "model.c", "-lm"], check=True, cwd=tmp_path
    )
    library, pointer = ctypes.CDLL(str(tmp_path / "model.so")), ctypes.POINTER(ctypes.c_double)
    for m in [1, 2, 3, 5, 8, 10, 15, 30] * 25:
        X, scores = query(m), np.empty(m)
        assert library.call(X.ctypes.data_as(pointer), m, scores.ctypes.data_as(pointer)) == 0
        assert scores == pytest.approx(model.predict_one(X), abs=1e-12)
