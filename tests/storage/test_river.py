"""River's transformers and detectors in files: what they have learned comes back, and they continue from there."""

import copy
import numbers
import random

import pytest
from river import compose, feature_extraction, feature_selection, preprocessing, stats, utils

from online_rank import ForEachDocument, PerceptronRanker, StreamScaler, register
from online_rank.storage.files import ModelFileError, from_bytes, to_bytes
from tests.storage.test_files import repacked

TEXTS = [{"t": "red shoes, size 9", "k": "x"}, {"t": "blue shoes and a red hat", "k": "y"}]
VALUES = [{"a": 1.5, "k": "x"}, {"a": 4.0, "k": "y"}, {"a": None, "k": "x"}, {"a": -2.0, "k": "z"}]
NUMBERS = [{"a": 1.5, "b": -1.0}, {"a": 4.0, "b": 2.0}, {"a": 3.0}, {"a": -2.0, "b": 0.5}, {"a": 0.0}, {"a": 7.0, "b": 1e9}]


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda: preprocessing.OneHotEncoder(), VALUES),
        (lambda: preprocessing.OneHotEncoder(categories={"k": {"x", "y"}}), [{"k": "x"}, {"k": "z"}]),
        (lambda: preprocessing.OneHotEncoder(drop_zeros=True, drop_first=True), VALUES),
        (lambda: preprocessing.OrdinalEncoder(unknown_value=None, none_value=-2), VALUES),
        (lambda: preprocessing.OrdinalEncoder(categories={"k": {"x": 3}}), [{"k": "x"}, {"k": "z"}]),
        (lambda: preprocessing.StatImputer(("a", stats.Mean()), ("k", "none"), ("b", stats.Quantile(0.3))), [
            {"a": 1.0, "k": None, "b": 2.0}, {"a": None, "k": "x", "b": 1.0}, {"a": 3.0, "k": "y", "b": None}]),
        (lambda: preprocessing.StatImputer(("a", stats.Mode())), [{"a": 1.0}, {"a": None}, {"a": 1.0}]),
        (lambda: feature_extraction.Agg(on="a", by=None, how=utils.Rolling(stats.Mean, window_size=2)), NUMBERS),
        (lambda: compose.SelectType(str, int) + compose.SelectType(numbers.Number), VALUES),
        (lambda: feature_extraction.Agg(on="a", by=["b"], how=stats.Var()), [{"a": 1.0, "b": 2}, {"a": 2.0, "b": 2}]),
        (lambda: feature_extraction.Agg(on="a", by=None, how=stats.EWMean(0.3)), NUMBERS),
        (lambda: feature_extraction.BagOfWords(on="t", stop_words={"and"}, ngram_range=(1, 2)), TEXTS),
        (lambda: feature_extraction.TFIDF(on="t", normalize=False), TEXTS),
        (lambda: preprocessing.RobustScaler(q_inf=0.1), NUMBERS),
        (lambda: preprocessing.AdaptiveStandardScaler(0.2), NUMBERS),
        (lambda: preprocessing.PreviousImputer(), VALUES),
        (lambda: feature_selection.VarianceThreshold(), NUMBERS),
        (lambda: preprocessing.Binarizer(threshold=1.0, dtype=int), NUMBERS),
    ],
)  # fmt: skip
def test_river_transformers_continue_as_if_they_had_not_been_saved(make, rows):
    step, unseen = make(), copy.deepcopy(rows[-1])
    for row in rows * 3:
        again = from_bytes(to_bytes(step))
        assert type(again) is type(step)
        assert to_bytes(again) == to_bytes(step)
        step.learn_one(row)
        again.learn_one(row)
        assert again.transform_one(unseen) == step.transform_one(unseen)
        assert list(again.transform_one(unseen)) == list(step.transform_one(unseen))


def test_a_target_aggregate_continues_as_if_it_had_not_been_saved():
    step = feature_extraction.TargetAgg(by="k", how=stats.BayesianMean(0.5, 3.0), target_name="sales")
    for t, key in enumerate("xyxxz"):
        again = from_bytes(to_bytes(step))
        step.learn_one({"k": key}, float(t))
        again.learn_one({"k": key}, float(t))
        assert to_bytes(again) == to_bytes(step)
    # Of x: 0, 2 and 3; prior .5 with weight 3.
    assert again.transform_one({"k": "x"}) == {"sales_bayes_mean_by_k": pytest.approx((0.5 * 3 + 0 + 2 + 3) / (3 + 3))}


@pytest.mark.parametrize("make", [lambda: preprocessing.RobustScaler(), lambda: preprocessing.AdaptiveStandardScaler()])
def test_damaged_parts_in_rust_are_refused_or_continue(make):
    step = make()
    for row in NUMBERS:
        step.learn_one(row)
    content, rng = to_bytes(step), random.Random(0)

    def damage(node):
        for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            if name in ("iqr", "quantile", "ewmean", "ewvar") and isinstance(value, str):
                state = bytearray(bytes.fromhex(value))
                for _ in range(rng.randrange(1, 5)):
                    state[rng.randrange(len(state))] = rng.randrange(256)
                node[name] = bytes(state[: len(state) - rng.randrange(2)]).hex()
            else:
                damage(value)

    for _ in range(60):
        try:
            again = from_bytes(repacked(content, lambda header: damage(header["object"])))
        except ModelFileError:
            continue
        for row in NUMBERS * 20:
            again.learn_one(row)
            again.transform_one(row)


def test_a_pipeline_of_transformers_around_a_ranker_can_be_saved():
    model = (
        ForEachDocument(compose.SelectType(str) | preprocessing.OneHotEncoder() + compose.SelectType(float))
        | StreamScaler()
        | PerceptronRanker()
    )
    docs = {"a": {"kind": "shoe", "price": 3.0}, "b": {"kind": "hat", "price": 1.0}}
    model.learn_one(docs, {"a": 1, "b": 0})
    assert from_bytes(to_bytes(model)).predict_one(docs) == model.predict_one(docs)


@register("tests.area")
def area(x):
    return {"area": x["a"] * x["b"]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: compose.FuncTransformer(area) | preprocessing.StandardScaler(),
        lambda: compose.Grouper(compose.Select("a") | preprocessing.MinMaxScaler(), by=["k"]),
        lambda: (compose.Select("a") | preprocessing.StandardScaler()) * compose.Select("b"),
    ],
)
def test_functions_groups_and_products_are_saved_inside_a_model(make):
    model = ForEachDocument(make()) | PerceptronRanker()
    query = [{"a": 1.0, "b": 2.0, "k": "x"}, {"a": 3.0, "b": 1.0, "k": "y"}, {"a": 2.0, "b": 5.0, "k": "x"}]
    for grades in ([0, 1, 2], [2, 0, 1]):
        model.learn_one(query, grades)
        again = from_bytes(to_bytes(model))
        assert again.predict_one(query) == model.predict_one(query)
    again.learn_one(query, [1, 0, 0])
    model.learn_one(query, [1, 0, 0])
    assert to_bytes(again) == to_bytes(model)


def test_a_function_without_a_name_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"online_rank\.register"):
        to_bytes(ForEachDocument(compose.FuncTransformer(lambda x: x)))
