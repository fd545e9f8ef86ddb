"""Curves with missing values, categories and ranks: exact where a target computes curves, and near where they become trees."""

import json

import numpy as np
import pytest

from online_rank import AdditiveRanker, ClickBlendRanker, PerceptronRanker, StreamScaler
from online_rank.base.closed import form_of
from online_rank.export import TARGETS, changes, export, solr_features, to_elasticsearch
from online_rank.export.ensembles import LEAVES, as_trees
from online_rank.export.reading import prepared
from online_rank.metrics import metric
from tests.export.beyond import exported_scores
from tests.reference import engines, postgresql

MODELS = {
    "additive": AdditiveRanker,
    "additive, relative=False": lambda: AdditiveRanker(relative=False),
    "clicks": ClickBlendRanker,
    "clicks, relative=False": lambda: ClickBlendRanker(relative=False),
    "few levels": lambda: AdditiveRanker(relative=False, max_levels=2),
}
ALL, DOCUMENTS = ("c", "json", "onnx", "duckdb"), ("vespa", "painless")
TREES = ("lightgbm", "xgboost", "solr", "elasticsearch")


def shop(n, seed, positive=False):
    """Queries of documents with prices of long tails, counts with zeros, categories, and values that are missing or NaN."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(1, 25))
        price, stars = np.exp(2.0 * rng.normal(size=m)), rng.integers(1, 6, m) + 0.0
        brand, new = rng.choice(["acme", "it's", 'z"', "rare"], size=m, p=[0.4, 0.3, 0.25, 0.05]), rng.random(m) < 0.3
        y = np.digitize(1.5 * (brand == "acme") + stars - np.log(price) + new + rng.normal(size=m), [3.0, 5.0, 6.5])
        documents = []
        for i in range(m):
            x = {"price": float(price[i]), "stars": float(stars[i]), "clicks": float(rng.poisson(1.0)), "brand": str(brand[i])}
            x["new"] = bool(new[i])
            lost = ["price", "brand", "new"] if positive else [*x]
            for name in lost:
                if rng.random() < 0.15:
                    x[name] = rng.choice([None, np.nan]) if name != "brand" else None
                    if rng.random() < 0.5:
                        del x[name]
            documents.append(x)
        yield documents, y


def texts_of(model):
    """What columns are called in files."""
    return [
        f"{name[0]}={'*' if name[2] is None else name[2]}" if isinstance(name, tuple) else name for name in model.feature_names
    ]


def rows_of(model, documents):
    """Documents as rows of the columns of a model: NaN for what is missing, 1 or 0 for levels."""
    levels = {(name[0], name[2]) for name in model.feature_names if isinstance(name, tuple)}

    def value(x, name):
        if not isinstance(name, tuple):
            return np.nan if x.get(name) is None else float(x[name])
        field, _, level = name
        own = x.get(field)
        own = None if own is None or own != own else str(own).lower() if isinstance(own, bool) else own
        return float(own is not None and (own == level if level is not None else (field, own) not in levels))

    return np.array([[value(x, name) for name in model.feature_names] for x in documents])


@pytest.fixture(scope="module")
def taught():
    """A function that gives each model, taught once."""
    made = {}

    def model(name, positive=False):
        if (name, positive) not in made:
            made[name, positive] = MODELS[name]()
            for x, y in shop(60, seed=0, positive=positive):
                made[name, positive].learn_one(x, y)
        return made[name, positive]

    return model


def compared(model, to, queries, folder, score=engines.scores):
    """The largest difference of scores, less what is added to all documents; how many rankings differ."""
    content, worst, otherwise = export(model, to, name="model"), 0.0, 0
    rows = [rows_of(model, documents) for documents in queries]
    if to in DOCUMENTS:
        scores = score(to, content, texts_of(model), np.concatenate(rows), folder)
        answers = np.split(scores, np.cumsum([len(X) for X in rows])[:-1])
    else:
        answers = [score(to, content, texts_of(model), X, folder) for X in rows]
    for documents, answer in zip(queries, answers, strict=True):
        expected, found = exported_scores(model, documents), np.asarray(answer)
        otherwise += (np.argsort(-expected, kind="stable") != np.argsort(-found, kind="stable")).any()
        worst = max(worst, float(np.ptp(expected - found)))
    return worst, otherwise


def available(to):
    for module in {"onnx": ("onnx", "onnxruntime")}.get(to, (to,) if to in ("duckdb", "lightgbm", "xgboost") else ()):
        pytest.importorskip(module)


#: Compiling, and many trees in a database, take seconds.
CELLS = [
    pytest.param(name, to, marks=[pytest.mark.slow] if to in ("c", "duckdb") and name != "additive" else [])
    for name in MODELS
    for to in (*ALL, *DOCUMENTS)
]


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "to"), CELLS)
def test_curves_are_exact(name, to, taught, tmp_path):
    available(to)
    model = taught(name)
    if to not in ALL and form_of(model).is_relative:
        with pytest.raises(TypeError, match=r"scores documents relative to their query, .*; relative=False does not"):
            export(model, to)
        return
    queries = [x for x, _ in shop(4, seed=1)]
    if to == "vespa":
        # A missing boolean is false there.
        queries = [[{**x, "new": x.get("new") is True} for x in documents] for documents in queries]
    worst, otherwise = compared(model, to, queries, tmp_path)
    # The model rounds normal scores to single precision.
    assert worst < 1e-6
    assert otherwise == 0


@pytest.mark.slow
@pytest.mark.parametrize("to", ["c", "onnx", "json", "vespa"])
@pytest.mark.parametrize("name", MODELS)
def test_no_ranking_of_500_differs(name, to, taught, tmp_path, monkeypatch):
    available(to)
    model = taught(name)
    if to not in ALL and form_of(model).is_relative:
        return
    compiled = {}

    def once(to, content, names, X, folder):
        if to != "c":
            return engines.scores(to, content, names, X, folder)
        if "run" not in compiled:
            compiled["run"] = engines.compiled(content, "model", X.shape[1], folder)
        return compiled["run"](X)

    queries = [[{**x, "new": x.get("new") is True} for x in documents] for documents, _ in shop(500, seed=2)]
    worst, otherwise = compared(model, to, queries, tmp_path, once)
    assert worst < 1e-6
    assert otherwise == 0


@pytest.mark.slow
def test_postgresql_is_exact(taught):
    if postgresql.programs() is None:
        pytest.skip("no PostgreSQL here")
    with postgresql.server() as empty:
        for name in ("additive", "clicks, relative=False", "few levels"):
            model = taught(name)
            text = export(model, "postgresql")
            for documents, _ in shop(2, seed=1):
                found = engines.select(text, texts_of(model), rows_of(model, documents), empty())
                assert float(np.ptp(found - exported_scores(model, documents))) < 1e-6


def judged(model, to, queries, folder):
    """Mean NDCG@10 of the model and of its export, and the share of queries whose first document is another."""
    content, own, theirs, first = export(model, to, name="model"), metric("ndcg@10"), metric("ndcg@10"), 0
    for documents, y in queries:
        expected = exported_scores(model, documents)
        found = np.asarray(engines.scores(to, content, texts_of(model), rows_of(model, documents), folder))
        own.update(y, expected)
        theirs.update(y, found)
        first += expected[np.argmax(found)] < expected.max()
    return own.get(), theirs.get(), first / len(queries)


@pytest.mark.parametrize("to", TREES)
@pytest.mark.parametrize("name", ["additive, relative=False", pytest.param("clicks, relative=False", marks=pytest.mark.slow)])
def test_trees_rank_as_curves_do(name, to, taught, tmp_path):
    available(to)
    own, theirs, first = judged(taught(name, positive=True), to, list(shop(25, seed=1, positive=True)), tmp_path)
    assert abs(own - theirs) < 1e-3
    assert first <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("to", ["json", "lightgbm", "solr"])
def test_changes_are_counted_as_the_targets_make_them(to, taught, tmp_path):
    available(to)
    model, queries = taught("additive, relative=False", positive=True), list(shop(30, seed=3, positive=True))
    found = changes(model, to, queries)
    own, theirs, first = judged(model, to, queries, tmp_path)
    assert (found.n_queries, found.first) == (30, first)
    assert found.here == pytest.approx(own, abs=1e-12)
    assert found.there == pytest.approx(theirs, abs=1e-12)
    assert changes(taught("clicks"), "json", queries).otherwise == 0.0


def test_changes_of_linear_models_and_of_none():
    model = StreamScaler() | PerceptronRanker()
    queries = [([{"a": 1.0, "b": 2.0}, {"b": 1.0}, {"a": 3.0}], [0, 2, 1])] * 9
    for x, y in queries:
        model.learn_one(x, y)
    assert changes(model, "solr", queries).otherwise == 0.0
    with pytest.raises(ValueError, match="no queries"):
        changes(model, "solr", [])
    with pytest.raises(ValueError, match="changes are counted for targets that take features"):
        changes(model, "langchain", queries)


@pytest.mark.parametrize("to", ["solr", "elasticsearch"])
def test_zeros_and_missing_values_that_an_engine_takes_for_one_are_refused(to, taught):
    with pytest.raises(ValueError, match=r"feature 'clicks' has been missing, and 0 or less, and .*: add a constant to it"):
        export(taught("additive, relative=False"), to)


@pytest.mark.parametrize("to", ["solr", "elasticsearch"])
def test_a_value_below_all_that_were_learned_is_not_missing(to, taught, tmp_path):
    """A price of 1e-4 had the score of a missing one in engines that take a missing field for 0."""
    model, x = taught("additive, relative=False", positive=True), {"stars": 3.0, "clicks": 2.0, "brand": "acme"}
    documents = [x | {"price": price} for price in (1e-4, 1e-30, 5.0, None)]
    expected = np.asarray(model.predict_one(documents))
    X = np.nan_to_num(rows_of(model, documents))
    found = np.asarray(engines.scores(to, export(model, to, name="model"), texts_of(model), X, tmp_path))
    assert abs(expected[0] - expected[3]) > 0.1
    np.testing.assert_allclose(found - found[2], expected - expected[2], rtol=0.0, atol=2e-3)


def test_trees_are_balanced_and_have_no_more_leaves_than_they_may(taught):
    given = prepared(taught("additive, relative=False"), "lightgbm")
    trees = as_trees(given)
    leaves = [int((tree.columns < 0).sum()) for tree in trees]
    assert max(leaves) <= LEAVES + 1
    assert max(leaves) > LEAVES / 2
    assert max(int((tree.columns < 0).sum()) for tree in as_trees(given, leaves=100)) <= 101


def test_levels_are_separate_features_in_engines(taught):
    model = taught("few levels", positive=True)
    made = {feature["name"]: feature for feature in solr_features(model, names={"brand": "brand_s"})}
    acme = {"class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"fq": ["{!field f='brand_s'}acme"]}}
    assert made["brand_s=acme"] == {"name": "brand_s=acme", **acme}
    assert made["brand_s=*"]["params"]["fq"][0].startswith("{!bool must='{!field f=\\'brand_s\\'}*' must_not='")
    fields = {name: {"match": {name: "{{text}}"}} for name in ("price", "stars", "clicks")}
    bodies = to_elasticsearch(model, name="shop", names=fields)
    features = {one["name"]: one["template"] for one in bodies["POST _ltr/_featureset/shop"]["featureset"]["features"]}
    # It matches all documents, and adds 1 to those with the level: no version of the plugin takes 0 for missing.
    assert features["brand=acme"]["bool"] == {
        "must": {"constant_score": {"filter": {"match_all": {}}, "boost": 0.0}},
        "should": {"constant_score": {"filter": {"term": {"brand": "acme"}}, "boost": 1.0}},
    }
    others = features["brand=*"]["bool"]["should"]["constant_score"]["filter"]["bool"]
    assert (others["must"], "acme" in others["must_not"]["terms"]["brand"]) == ({"exists": {"field": "brand"}}, True)
    with pytest.raises(TypeError, match=r"names\['brand'\] is a category: give a name, or templates of its levels, 'brand="):
        solr_features(model, names={"brand": {"class": "..."}})


def test_json_lists_the_columns_of_categories(taught):
    model = taught("few levels")
    body = json.loads(export(model, "json", names={"brand": "make"}))
    assert {field: [level for level, _ in pairs] for field, pairs in body["categories"].items()}["make"][-1] is None
    for field, pairs in body["categories"].items():
        for level, j in pairs:
            assert body["features"][j] == f"{field}={'*' if level is None else level}"


def test_a_feature_and_a_level_of_one_name_are_refused():
    model = AdditiveRanker()
    model.learn_one([{"brand": "acme", "brand=acme": 1.0}, {"brand": "other", "brand=acme": 2.0}], [0, 1])
    with pytest.raises(ValueError, match="two features would be called 'brand=acme'"):
        export(model, "json")


def test_at_least_12_targets_take_curves_of_single_documents():
    assert len([to for to, target in TARGETS.items() if "curves" in target.kinds]) >= 12


def test_a_feature_that_is_often_0_has_not_been_negative():
    rng, model = np.random.default_rng(0), AdditiveRanker(relative=False)
    for _ in range(60):
        sales = np.where(rng.random(12) < 0.7, 0.0, rng.exponential(size=12))
        model.learn_one([{"sales": float(x)} for x in sales], (sales > 0.5).astype(int))
    assert min(layer.knots[0][0][0] for layer in form_of(model).layers if hasattr(layer, "knots")) < 0.0
    assert to_elasticsearch(model)
