"""Every kind of model to every target: equal, equal within float32, or refused with what can be deployed instead.

What engines compute is in `tests/reference/engines.py`, written from their documented formats, and onnxruntime, a C compiler,
LightGBM and XGBoost.
"""

import importlib
import json
import shutil

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickBlendRanker,
    DirectRanker,
    GradientRanker,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    save,
)
from online_rank.base.closed import form_of
from online_rank.cli import main
from online_rank.export import KINDS, TARGETS, export, solr_features, to_painless
from online_rank.export.reading import simplified
from online_rank.rankers.click_trees import ClickTrees
from tests.reference import engines

NAMES = ("clicks", "age", "length", "year")

MODELS = {
    "linear": [
        lambda: PerceptronRanker(),
        lambda: StreamScaler() | RidgeRanker(),
        lambda: StreamScaler() | StreamScaler(with_std=False) | GradientRanker(),
        lambda: StreamScaler() | BlendRanker([StreamScaler() | PerceptronRanker(), RidgeRanker()]),
    ],
    "trees": [
        lambda: StreamScaler() | ClickTrees(),
        lambda: BlendRanker([StreamScaler() | ClickTrees(), ClickTrees()]),
    ],
    "curves": [lambda: AdditiveRanker(relative=False), lambda: ClickBlendRanker(relative=False)],
    "document": [
        lambda: StreamScaler() | DirectRanker(hidden=(6,), dtype="float64"),
        lambda: BlendRanker([PerceptronRanker(), ClickTrees()]),
    ],
    "query": [
        lambda: QueryNormalizer() | PerceptronRanker(),
        lambda: QueryNormalizer("minmax") | PerceptronRanker(),
        lambda: StreamQuantileMap() | PerceptronRanker(),
        lambda: StreamQuantileMap() | ClickTrees(),
        lambda: BlendRanker([StreamQuantileMap() | PerceptronRanker(), StreamScaler() | RidgeRanker()]),
        lambda: AdditiveRanker(),
    ],
}

#: Targets for which curves become trees.
TREES = {to for to, target in TARGETS.items() if "curves" in target.kinds and "document" not in target.kinds}
#: Targets that add up in single precision.
SINGLE = {"solr", "elasticsearch", "opensearch", "xgboost"}


def queries(n=60, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(2, 12))
        length, year = np.exp(2 * rng.normal(size=m)), 2000.0 + rng.integers(0, 26, m)
        X = np.column_stack([rng.integers(0, 9, m).astype(float), 5 * rng.random(m), length, year])
        yield X, np.digitize(0.3 * X[:, 0] + np.log1p(X[:, 2]) + rng.normal(size=m), [1.5, 3.0])


@pytest.fixture(scope="module")
def models():
    """(kind, model) of all, taught."""
    made = []
    for kind, makes in MODELS.items():
        for make in makes:
            model = make()
            for X, y in queries():
                model.learn_one([dict(zip(NAMES, row, strict=True)) for row in X.tolist()], y)
            made.append((kind, model))
    return made


def available(to):
    needed = {"onnx": ("onnx", "onnxruntime"), "lightgbm": ("lightgbm",), "xgboost": ("xgboost",), "duckdb": ("duckdb",)}
    needed["duckdb-tables"] = ("duckdb",)
    if to == "postgresql":
        pytest.skip("in test_select.py")
    if to == "c" and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    for module in needed.get(to, ()):
        pytest.importorskip(module)


@pytest.mark.slow
def test_models_are_of_the_kinds_that_they_stand_under(models):
    assert set(MODELS) == set(KINDS) - {"fusion"}
    for kind, model in models:
        assert simplified(form_of(model))[1] == kind, model


@pytest.mark.first(1)
@pytest.mark.parametrize("to", TARGETS)
def test_a_target_computes_the_model_or_refuses_it(to, models, tmp_path):
    available(to)
    for kind, model in models:
        if kind not in TARGETS[to].kinds:
            title = TARGETS[to].title
            others = [name for name, target in TARGETS.items() if kind in target.kinds]
            with pytest.raises(TypeError, match=f"{title} cannot compute this model: .*: {', '.join(others)}"):
                export(model, to)
            continue
        content = export(model, to, name="model")
        for X, _ in queries(1 if to in ("c", "duckdb") else 2, seed=1):
            X = np.concatenate([X, [[0.0, 0.0, 0.0, 0.0], [1e6, 3.0, 1e9, 1.0]]])
            if to in SINGLE:
                X = X.astype(np.float32).astype(float)
            expected = np.array(model.predict_one([dict(zip(NAMES, row, strict=True)) for row in X.tolist()]))
            found = engines.scores(to, content, NAMES, X, tmp_path)
            scale = np.abs(expected).max() + 1e-9
            if kind == "curves" and to in TREES:
                # Halfway between the points of a curve, trees differ by half of what it rises between them.
                found, expected = found - found.mean(), expected - expected.mean()
                np.testing.assert_allclose(found, expected, atol=0.03 * scale)
            elif to in SINGLE or (to == "onnx" and "ClickTrees" in str(model)):
                # Single precision of sums of terms that may be larger than the sum.
                exact, tolerance = np.abs(X).max() * scale, 1e-6
                found, expected = found - found.mean(), expected - expected.mean()
                np.testing.assert_allclose(found, expected, atol=tolerance * exact if kind == "linear" else 1e-5 * scale)
            else:
                # Maps of quantiles give single precision here, and double there.
                tolerance = 1e-5 if any(name in str(model) for name in ("StreamQuantileMap", "relative", "Additive")) else 1e-7
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.first(1)
@pytest.mark.parametrize("to", ["vespa", "painless"])
def test_what_is_missing_counts_as_0_unless_the_model_knows_missing_values(to, models):
    for kind, model in models:
        if kind in TARGETS[to].kinds:
            text = export(model, to)
            X = np.array([[1.0, np.nan, 3.0, 2001.0], [np.nan, 1.0, np.nan, np.nan]])
            found, zeros = (engines.scores(to, text, NAMES, each, None) for each in (X, np.nan_to_num(X)))
            assert (found.tolist() == zeros.tolist()) == (kind != "curves")


def test_a_script_of_elasticsearch_gives_scores_above_0_and_takes_other_fields(models):
    for kind, model in models:
        if kind in TARGETS["painless"].kinds:
            body = to_painless(model, names={"year": "made.in-year"})
            for X, _ in queries(2, seed=1):
                asked = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
                scores = np.array(model.predict_one(asked))
                expected = np.where(scores < 0.0, 1.0 / (1.0 - np.minimum(scores, 0.0)), 1.0 + scores)
                np.testing.assert_allclose(engines.painless(body, (*NAMES[:3], "made.in-year"), X), expected, rtol=1e-6)


def test_a_blend_that_draws_is_exported_as_its_mean_with_a_warning(tmp_path, capsys):
    model = BlendRanker([StreamScaler() | DirectRanker(hidden=(2,)), RidgeRanker()], seed=3)
    for X, y in queries(30):
        # As if the blend had been much worse than its parts.
        model.learn_one(X, y, served=-1.0 * np.argsort(np.argsort(y)))
    assert model.draws_candidates
    with pytest.warns(
        UserWarning, match="the blend draws one of its candidates for each query; what is exported is their mean"
    ):
        body = json.loads(export(model, "json"))
    shares = np.exp(-model.step * (model.candidate_losses - model.candidate_losses.min())) * model.candidate_prior
    expected = (shares / shares.sum()) @ model.candidates / model.scales
    assert body["head"]["weights"] == pytest.approx(expected.tolist())
    assert model.weights.tolist() in model.candidates.tolist()
    save(model, tmp_path / "m")
    with pytest.raises(SystemExit):
        main(["export", str(tmp_path / "m"), "--to", "json"])
    assert "online-rank: the blend draws one of its candidates for each query" in capsys.readouterr().err


def test_scripts_take_names_of_fields_and_have_a_limit(monkeypatch):
    ranker = PerceptronRanker.from_weights({"bm25": 2.0, "age": -0.5})
    source = to_painless(ranker, names={"bm25": "_score"})["script_score"]["script"]["source"]
    assert source.startswith("double x1 = _score;\ndouble x2 = doc['age']")
    for name in ("a'] + 1 //", "", "a b", "a\\"):
        with pytest.raises(ValueError, match="is not the name of a field"):
            to_painless(ranker, names={"age": name})
    with pytest.raises(TypeError, match="has a template; a script of Elasticsearch and OpenSearch takes names"):
        to_painless(ranker, names={"age": {"match": {}}})
    monkeypatch.setattr("online_rank.export.painless._MOST_BYTES", 60)
    with pytest.raises(ValueError, match=r"the script has .* bytes, and Elasticsearch takes 60"):
        to_painless(ranker)


@pytest.mark.parametrize("to", ["c", "json", "onnx", "vespa", "duckdb"])
def test_templates_are_refused_where_nothing_computes_features(to):
    with pytest.raises(TypeError, match=r"names: .age. has a template; .* takes names"):
        export(PerceptronRanker.from_weights({"age": 1.0}), to, names={"age": {"match": {}}})


def test_every_entry_of_the_table_has_a_function():
    for target in TARGETS.values():
        module, _, function = target.home.partition(":")
        assert callable(getattr(importlib.import_module(f"online_rank.export.{module}"), function))
        assert set(target.kinds) <= set(KINDS)


def test_the_feature_store_of_solr_takes_fields_and_templates():
    ranker = PerceptronRanker.from_weights({"clicks": 2.0, "bm25": 1.0})
    query = {"class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": "{!dismax qf=title}${text}"}}
    field = {"class": "org.apache.solr.ltr.feature.FieldValueFeature", "params": {"field": "clicks"}}
    made = solr_features(ranker, store="shop", names={"bm25": query})
    assert made == [{"name": "clicks", **field, "store": "shop"}, {"name": "bm25", **query, "store": "shop"}]


def test_names_that_differ():
    ranker = PerceptronRanker.from_weights([2.0, 1.0])
    body = json.loads(export(ranker, "json", names={"2": "age"}))
    assert body == {"features": ["f1", "age"], "weights": [2.0, 1.0], "constant": 0.0}
    with pytest.raises(ValueError, match="the model has no feature 'f3'; there are f1, f2"):
        export(ranker, "json", names={"f3": "age"})
    with pytest.raises(TypeError, match=r"names\['f1'\] is of type int"):
        export(ranker, "json", names={"f1": 3})
