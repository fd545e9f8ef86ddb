"""Trees of LightGBM and XGBoost: their scores, what is refused, and blends that begin with them."""

import itertools
import json
import pickle

import numpy as np
import pytest

from online_rank import AdditiveRanker, BlendRanker, FixedTrees, StreamScaler, load, save
from online_rank.base.closed import form_of
from online_rank.base.explain import explain_one
from online_rank.bounds import certificate_of
from online_rank.rankers.boosters import least_above_single
from tests.models import STUMP

#: Values around the largest that LightGBM takes for a zero.
_NEAR_ZERO = [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, 1.1e-35, -1.1e-35, 1e-34, -1e-34]
N_QUERIES, N_DOCUMENTS = 30, 20


def drawn(seed, holes):
    """Features, of which some are 0 and some missing, and grades that follow a product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_QUERIES * N_DOCUMENTS, 5))
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(X.shape) < 0.3] = 0.0
    y = np.digitize(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=len(X)), [0.0, 1.0, 2.0])
    X[rng.random(X.shape) < holes] = np.nan
    return X, y


def held_out():
    X = drawn(1, 0.3)[0]
    X[: len(_NEAR_ZERO), 0] = X[: len(_NEAR_ZERO), 2] = _NEAR_ZERO
    return X


def lightgbm_file(path, holes=0.2, rounds=20, names="auto", **settings):
    """A model of LightGBM in a file, and its booster."""
    lightgbm = pytest.importorskip("lightgbm")
    X, y = drawn(0, holes)
    data = lightgbm.Dataset(X, y, group=[N_DOCUMENTS] * N_QUERIES, feature_name=names)
    booster = lightgbm.train({"objective": "lambdarank", "verbose": -1, "num_threads": 1, **settings}, data, rounds)
    booster.save_model(path)
    return booster


def xgboost_file(path, holes=0.2, rounds=20, names=None, **settings):
    """A model of XGBoost in a file, and a function of its scores."""
    xgboost = pytest.importorskip("xgboost")
    X, y = drawn(0, holes)
    own = {"objective": "rank:ndcg", "nthread": 1, **settings}
    data = xgboost.DMatrix(X, np.minimum(y, 1) if "logistic" in own["objective"] else y, feature_names=names)
    if own["objective"].startswith("rank"):
        data.set_group([N_DOCUMENTS] * N_QUERIES)
    booster = xgboost.train(own, data, rounds)
    booster.save_model(path)
    return lambda X: booster.predict(xgboost.DMatrix(X, feature_names=names), output_margin=True).astype(np.float64)


@pytest.mark.first(3)
@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize(
    "settings",
    [
        {}, {"zero_as_missing": True}, {"use_missing": False}, {"boosting": "dart"}, {"num_leaves": 2},
        {"objective": "regression"}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    ],
    ids=str,
)  # fmt: skip
def test_scores_equal_the_scores_of_lightgbm(tmp_path, settings, holes):
    booster, X = lightgbm_file(tmp_path / "m.txt", holes, **settings), held_out()
    model = FixedTrees.from_file(tmp_path / "m.txt")
    np.testing.assert_allclose(model.predict_one(X), booster.predict(X, raw_score=True), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(form_of(model)(X), model.predict_one(X), rtol=0.0, atol=1e-12)


@pytest.mark.first(2)
@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize(
    "settings",
    [
        {}, {"booster": "dart", "rate_drop": 0.3}, {"tree_method": "exact"},
        {"objective": "reg:squarederror", "base_score": 0.3}, {"objective": "binary:logistic", "base_score": 0.2},
        {"num_parallel_tree": 3, "subsample": 0.6},
    ],
    ids=str,
)  # fmt: skip
def test_scores_equal_the_scores_of_xgboost_up_to_its_single_precision(tmp_path, settings, holes):
    scores, X = xgboost_file(tmp_path / "m.json", holes, **settings), held_out()
    model = FixedTrees.from_file(tmp_path / "m.json")
    expected = scores(X)
    np.testing.assert_allclose(model.predict_one(X), expected, rtol=0.0, atol=1e-6 * max(1.0, np.abs(expected).max()))
    np.testing.assert_allclose(form_of(model)(X), model.predict_one(X), rtol=0.0, atol=1e-12)


def test_a_value_goes_where_its_number_of_single_precision_goes():
    rng = np.random.default_rng(0)
    largest = np.finfo(np.float32).max
    edges = [0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, largest, -largest, 16777216.0]
    limits = np.concatenate([rng.normal(size=200) * 10.0 ** rng.integers(-30, 30, 200), edges]).astype(np.float32)
    least = least_above_single(limits.astype(np.float64))
    with np.errstate(over="ignore"):
        assert (least.astype(np.float32) >= limits).all()
        assert (np.nextafter(least, -np.inf).astype(np.float32) < limits).all()


def test_a_split_worked_out_by_hand():
    model = FixedTrees(STUMP)
    # 1.5 is not above the threshold, and decision type 2 sends a missing value like 0.
    assert model.predict_one([{"clicks": 1.5}, {"clicks": 1.6}, {}, {"clicks": None}]) == [
        -0.25,
        0.75,
        -0.25,
        -0.25,
    ]
    right = FixedTrees(STUMP.replace("decision_type=2", "decision_type=8"))
    assert right.predict_one([{"clicks": 1.5}, {}, {"clicks": float("nan")}]) == [-0.25, 0.75, 0.75]
    zeros = FixedTrees(STUMP.replace("decision_type=2", "decision_type=4"))
    assert zeros.predict_one([{"clicks": 1.0}, {"clicks": 0.0}, {}]) == [-0.25, 0.75, 0.75]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("tree\n", "trees\n", "line 1: the text of a LightGBM model begins with tree"),
        ("end of trees\n", "", "line 11: the text ends before 'end of trees'"),
        ("num_leaves=2", "num_leaves=3", "line 11: there are 2 leaf values, of num_leaves=3"),
        ("num_leaves=2", "num_leaves=2\nnum_cat=1", "line 6: this tree splits by categories"),
        ("num_leaves=2", "num_leaves=2\nis_linear=1", "line 6: this tree has linear leaves"),
        ("decision_type=2", "decision_type=1", "line 8: decision_type 1 of node 0"),
        ("split_feature=0", "split_feature=7", "line 4, node 0: it splits by feature 7, of 1"),
        ("split_feature=0", "split_feature=-1", "line 6: node 0 splits by feature -1"),
        ("left_child=-1", "left_child=0", "line 4, node 0: it is the child of more nodes than 0"),
        ("left_child=-1", "left_child=-2", "line 4, leaf 1: it is the child of more nodes than 1"),
        ("left_child=-1", "left_child=-9", "line 4, node 0: its child 9 is not among the 3 nodes"),
        ("left_child=-1", "left_child=99999999999999999999", "line 9: left_child has something else than numbers"),
        ("threshold=1.5", "threshold=nan", "line 7: the threshold of node 0 is NaN"),
        ("threshold=1.5", "threshold=x", "line 7: threshold has something else than numbers"),
        ("threshold=1.5", "threshold=1 2", "line 7: threshold has 2 numbers; there should be 1"),
        ("0.75", "inf", "line 4, leaf 1: the value inf of a leaf is not a finite number"),
        ("=clicks", "=clicks age", "line 3: there are 2 feature_names of 1 features"),
        ("feature_names=clicks", "feature_names=clicks\nnum_class=3", "line 4: num_class is 3"),
        ("num_leaves=2", "num_leaves=2\nnum_leaves=2", "line 6: num_leaves for the second time, after line 5"),
        ("left_child=-1\n", "", "line 4: the part that begins here has no left_child"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_model_of_lightgbm_is_refused_with_file_and_line(tmp_path, before, after, told):
    assert before in STUMP
    path = tmp_path / "m.txt"
    path.write_text(STUMP.replace(before, after, 1))
    with pytest.raises(ValueError, match=r"^[^:]*m\.txt: ") as raised:
        FixedTrees.from_file(path)
    assert told in str(raised.value)


def xgboost_stump():
    """A model of XGBoost with one split."""
    tree = {
        "split_indices": [0, 0, 0], "split_conditions": [1.5, -0.25, 0.75], "default_left": [1, 0, 0],
        "left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_type": [0, 0, 0], "categories": [],
        "tree_param": {"size_leaf_vector": "1"},
    }  # fmt: skip
    return {
        "learner": {
            "attributes": {}, "feature_names": ["clicks"], "objective": {"name": "rank:ndcg"},
            "learner_model_param": {"base_score": "5E-1", "num_class": "0", "num_feature": "1", "num_target": "1"},
            "gradient_booster": {"name": "gbtree", "model": {"gbtree_model_param": {}, "trees": [tree]}},
        }
    }  # fmt: skip


def changed(place, value):
    """The JSON of a stump with another value at a place."""
    stump = xgboost_stump()
    *parents, last = place
    inside = stump["learner"]
    for key in parents:
        inside = inside[key]
    inside[last] = value
    return json.dumps(stump)


TREE = ("gradient_booster", "model", "trees", 0)


def test_a_stump_of_xgboost_worked_out_by_hand():
    model = FixedTrees(json.dumps(xgboost_stump()))
    # A value below the condition goes left; the base score is added.
    assert model.predict_one([{"clicks": 1.4}, {"clicks": 1.5}, {}]) == [0.25, 1.25, 0.25]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "line 1, column 2: it is no JSON"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ("{}", "the file has no 'learner'"),
        (changed(("gradient_booster", "name"), "gblinear"), "learner.gradient_booster.name is 'gblinear'; gbtree and dart"),
        (changed(("gradient_booster", "model", "trees"), []), "learner.gradient_booster.model.trees: the model has no trees"),
        (changed(("gradient_booster", "model", "trees"), 3), "gradient_booster.model.trees should be a list, not a int"),
        (changed(("learner_model_param", "num_class"), "4"), "learner.learner_model_param.num_class is 4"),
        (changed(("learner_model_param", "num_feature"), "99999999"), "num_feature is 99999999, in a file of"),
        (changed(("learner_model_param", "base_score"), "NaN"), "learner.learner_model_param.base_score is 'NaN'"),
        (changed(("objective", "name"), "survival:cox"), "learner.objective.name is 'survival:cox'"),
        (changed(("feature_names",), ["a", "b"]), "learner.feature_names should be 1 different texts"),
        (changed(("attributes",), {"best_iteration": "0"}), None),
        (changed((*TREE, "split_type"), [1, 0, 0]), "trees[0] splits by categories"),
        (changed((*TREE, "left_children"), [0, -1, -1]), "trees[0], node 0: it is the child of more nodes than 0"),
        (changed((*TREE, "left_children"), [7, -1, -1]), "trees[0], node 0: its child 7 is not among the 3 nodes"),
        (changed((*TREE, "left_children"), [1, -1]), "trees[0] has lists of different lengths"),
        (changed((*TREE, "left_children"), ["1", -1, -1]), "trees[0].left_children should be a list of numbers"),
        (changed((*TREE, "left_children"), [2**70, -1, -1]), "trees[0].left_children: "),
        (changed((*TREE, "split_indices"), [5, 0, 0]), "trees[0], node 0: it splits by feature 5, of 1"),
        (changed((*TREE, "split_conditions"), [1e39, 0, 0]), "trees[0], node 0: 1e+39 is not a finite number"),
        (changed((*TREE, "split_conditions"), [float("nan"), 0, 0]), "trees[0], node 0: nan is not a finite number"),
    ],
)  # fmt: skip
def test_a_json_that_is_no_model_of_xgboost_is_refused_with_file_and_place(tmp_path, text, told):
    path = tmp_path / "m.json"
    path.write_text(text)
    if told is None:
        assert FixedTrees.from_file(path).n_features == 1
        return
    with pytest.raises(ValueError, match=r"^[^:]*m\.json: ") as raised:
        FixedTrees.from_file(path)
    assert told in str(raised.value)


def test_a_model_stopped_early_is_refused_until_the_trees_that_serve_are_chosen():
    stump = xgboost_stump()
    stump["learner"]["gradient_booster"]["model"]["trees"] *= 3
    stump["learner"]["attributes"] = {"best_iteration": "1"}
    with pytest.raises(ValueError, match="best_iteration is 1, but there are 3 rounds: XGBRanker"):
        FixedTrees(json.dumps(stump))


def test_files_that_are_no_text_and_names_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "m.ubj").write_bytes(b"{L\x80\x00\xff")
    with pytest.raises(ValueError, match=r"m.ubj: it is no text; XGBoost writes JSON for a name that ends in .json"):
        FixedTrees.from_file(tmp_path / "m.ubj")
    with pytest.raises(ValueError, match="names has 2 names; the model has 1 features"):
        FixedTrees(STUMP, names=("a", "b"))
    with pytest.raises(TypeError, match="model is of type bytes; it is the text of a file"):
        FixedTrees(STUMP.encode())
    assert FixedTrees(STUMP, names=("number of clicks",)).predict_one([{"number of clicks": 2}]) == [0.75]


@pytest.mark.parametrize("names", [None, [f"f{j}" for j in range(5)]], ids=["positions", "names"])
def test_a_blend_begins_as_the_trees_and_loses_at_most_their_loss_and_the_price_of_the_prior(tmp_path, names):
    lightgbm_file(tmp_path / "m.txt", rounds=5, names=names or "auto")
    trees = FixedTrees.from_file(tmp_path / "m.txt")
    model = BlendRanker([AdditiveRanker(), trees], prior=(0.0, 0.5))
    X, y = drawn(2, 0.2)
    alone = []
    for begin in range(0, len(X), N_DOCUMENTS):
        part, grades = X[begin : begin + N_DOCUMENTS], y[begin : begin + N_DOCUMENTS]
        x = part if names is None else [dict(zip(names, row, strict=True)) for row in part.tolist()]
        if not begin:
            assert model.rank_one(x) == trees.rank_one(x)
        model.learn_one(x, grades)
        trees.learn_one(x, grades)
        alone.append(trees.last_round.loss)
    facts = certificate_of(model).facts
    member, loss, at_most = facts["favoured"]
    assert (member, loss) == (1, pytest.approx(sum(alone)))
    assert model.step == 1.0
    price = np.log(2.0) + facts["mixability_gap"] + facts["serving_gap"]
    assert certificate_of(model).loss <= at_most <= loss + price
    assert model.learners[1].predict_one(x) == trees.predict_one(x) == FixedTrees(trees.model).predict_one(x)
    explained = explain_one(model, x, 0, 1)
    scores = model.predict_one(x)
    assert explained.difference == pytest.approx(scores[0] - scores[1])
    save(model, tmp_path / "m.npz")
    twins = [load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model))]
    for one in (model, *twins):
        one.learn_one(x, grades)
    assert model.predict_one(x) == twins[0].predict_one(x) == twins[1].predict_one(x)
    assert form_of(model)(X[:N_DOCUMENTS]) == pytest.approx(model.predict_one(
        X[:N_DOCUMENTS] if names is None else [dict(zip(names, row, strict=True)) for row in X[:N_DOCUMENTS].tolist()]
    ), abs=1e-5)  # fmt: skip


def test_the_ranker_that_reads_for_a_blend_knows_the_features_of_all():
    taught = AdditiveRanker()
    taught.learn_one([{"x": 1.0, "w": 2.0}, {"x": 2.0, "w": 1.0}], [0, 1])
    model, query = BlendRanker([AdditiveRanker(), taught]), [{"z": 3.0}, {"z": 2.0}]
    model.learn_one(query, [0, 1])
    assert model.feature_names == ("x", "w", "z")
    assert len(model.predict_one(query)) == 2


def test_they_are_clones_parts_of_pipelines_and_refuse_infinite_values():
    model = FixedTrees(STUMP)
    assert model.clone().predict_one([{"clicks": 2}]) == [0.75]
    assert repr(model) == "FixedTrees(1 trees of LightGBM, 1 features)"
    assert model.used_features == ["clicks"]
    pipeline = StreamScaler() | FixedTrees(STUMP)
    pipeline.learn_one([{"clicks": 1.0}, {"clicks": 9.0}], [0, 1])
    assert pipeline.rank_one([{"clicks": 1.0}, {"clicks": 9.0}]) in ([1, 0], [0, 1])
    with pytest.raises(ValueError, match="clicks"):
        model.predict_one({"a": {"clicks": float("inf")}})
    with pytest.raises(ValueError, match="clicks"):
        model.learn_one({"a": {"clicks": float("inf")}, "b": {"clicks": 1.0}}, {"a": 0, "b": 1})
    assert model.last_round is None
    model.learn_one({"a": {"clicks": 1.0}, "b": {"clicks": 2.0}}, {"a": 1, "b": 0})
    # The relevant document is second of two.
    assert model.last_round.loss == pytest.approx(1.0 - 1.0 / np.log2(3.0))
    assert list(itertools.chain(model.predict_one(np.empty((0, 1))))) == []


def test_models_that_learned_from_arrays_take_booleans_as_numbers_and_name_a_text(tmp_path):
    lightgbm_file(tmp_path / "model.txt")
    curves = AdditiveRanker()
    for seed in range(5):
        curves.learn_one(np.random.default_rng(seed).normal(size=(9, 5)).round(), np.arange(9) % 3)
    for model in (curves, FixedTrees((tmp_path / "model.txt").read_text())):
        x, rest = [{"1": True, "2": 1.0}, {"1": "false", "2": 2.0}], {"3": 0.5, "4": 1.0, "5": 0.0}
        scores = model.predict_one([each | rest for each in x])
        assert scores == model.predict_one([each | rest | {"1": number} for each, number in zip(x, [1, 0], strict=True)])
        with pytest.raises(ValueError, match="feature '1' of document 0 is a text, 'high', and a number elsewhere"):
            model.predict_one([{"1": "high", "2": 1.0}, {"1": 0, "2": 2.0}])
