"""Rankers among river's own tools: evaluation, streams, rolling metrics, transformers."""

import datetime as dt
import itertools
import math

import pytest
from river import compose, evaluate, feature_extraction, preprocessing, stream, utils

from online_rank import (
    BlendRanker,
    ForEachDocument,
    GradientRanker,
    PerceptronRanker,
    StreamScaler,
    metrics,
    rank_one,
)
from online_rank.stream.synth import NoisyTeacher

NAMES = ["clicks", "age", "length"]
START = dt.datetime(2024, 1, 1)


def arrays(n=60, seed=0):
    return list(NoisyTeacher(n, n_features=3, n_documents=(3, 9), grade_shares=(0.5, 0.3, 0.2), seed=seed))


def queries(n=60, seed=0):
    """Queries as dicts of dicts; each document also has a text and the time at which it was asked for."""
    for t, (X, y) in enumerate(arrays(n, seed)):
        ids = [f"doc{i}" for i in range(len(y))]
        more = {"kind": "pdf" if t % 2 else "html", "at": START + dt.timedelta(minutes=t)}
        x = {i: {**dict(zip(NAMES, row, strict=True)), **more} for i, row in zip(ids, X.tolist(), strict=True)}
        yield x, dict(zip(ids, y.tolist(), strict=True))


def moment(x):
    return next(iter(x.values()))["at"]


def pipeline():
    return ForEachDocument(compose.Discard("kind", "at")) | StreamScaler() | PerceptronRanker()


MODELS = {
    "ranker": lambda: PerceptronRanker(),
    "pipeline": lambda: StreamScaler() | PerceptronRanker(),
    "lifted": lambda: ForEachDocument(preprocessing.MinMaxScaler()) | PerceptronRanker(),
    "blend": lambda: StreamScaler() | BlendRanker([PerceptronRanker(), GradientRanker()]),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_progressive_val_score(make):
    expected, model = metrics.NDCG(k=5), make()
    for X, y in arrays():
        expected.update(y, model.predict_one(X))
        model.learn_one(X, y)
    result = evaluate.progressive_val_score(arrays(), make(), metrics.NDCG(k=5))
    assert result.get() == expected.get()
    assert 0.5 < result.get() < 1.0


def test_sample_weights_reach_the_ranker():
    weighted = [(X, y, {"w": 1.0 + t % 3}) for t, (X, y) in enumerate(arrays())]
    by_river, by_hand = PerceptronRanker(), PerceptronRanker()
    evaluate.progressive_val_score(((X, y, dict(more)) for X, y, more in weighted), by_river, metrics.NDCG())
    for X, y, more in weighted:
        by_hand.learn_one(X, y, w=more["w"])
    assert by_river.weights.tolist() == by_hand.weights.tolist()


def test_iter_progressive_val_score():
    steps = list(evaluate.iter_progressive_val_score(queries(), pipeline(), metrics.MAP() + metrics.MRR(), step=20))
    assert [step["Step"] for step in steps] == [20, 40, 60]
    assert 0.0 < steps[-1]["MAP"].get() <= steps[-1]["MRR"].get() <= 1.0
    predictions = list(evaluate.iter_progressive_val_score(queries(3), pipeline(), metrics.NDCG(), yield_predictions=True))
    assert [list(step["Prediction"]) for step in predictions] == [list(x) for x, _ in queries(3)]


@pytest.mark.parametrize("minutes", [0, 7])
def test_delayed_grades(minutes):
    delay = dt.timedelta(minutes=minutes, seconds=30)
    result = evaluate.progressive_val_score(queries(), pipeline(), metrics.NDCG(), moment=moment, delay=delay)
    expected, model, served = metrics.NDCG(), pipeline(), []
    for t, (x, _) in enumerate(queries()):  # At minute t, what was asked `minutes` + 1 and more before has been graded.
        if t > minutes:
            x_then, y_then = next(itertools.islice(queries(), t - minutes - 1, None))
            expected.update(y_then, served[t - minutes - 1])
            model.learn_one(x_then, y_then)
        served.append(model.predict_one(x))
    for (_, y_then), scores in list(zip(queries(), served, strict=True))[60 - minutes - 1 :]:
        expected.update(y_then, scores)
    assert result.get() == pytest.approx(expected.get(), rel=1e-12)


def test_rolling_metric():
    result = evaluate.progressive_val_score(arrays(), PerceptronRanker(), utils.Rolling(metrics.NDCG, window_size=20, k=5))
    last, model = metrics.NDCG(k=5), PerceptronRanker()
    for t, (X, y) in enumerate(arrays()):
        if t >= 40:
            last.update(y, model.predict_one(X))
        model.learn_one(X, y)
    assert result.get() == last.get()


def test_time_rolling_metric():
    rolling, expected, model = utils.TimeRolling(metrics.NDCG, period=dt.timedelta(minutes=15)), metrics.NDCG(), pipeline()
    for t, (x, y) in enumerate(queries()):
        scores = model.predict_one(x)
        rolling.update(y, scores, t=moment(x))
        if t >= 45:
            expected.update(y, scores)
        model.learn_one(x, y)
    assert rolling.get() == expected.get()


def test_shuffle():
    shuffled = list(stream.shuffle(iter(arrays()), buffer_size=20, seed=1))
    assert len(shuffled) == 60
    model = PerceptronRanker()
    evaluate.progressive_val_score(shuffled, model, metrics.NDCG())
    assert sorted(X.tobytes() for X, _ in shuffled) == sorted(X.tobytes() for X, _ in arrays())
    in_order = PerceptronRanker()
    evaluate.progressive_val_score(arrays(), in_order, metrics.NDCG())
    assert model.weights.tolist() != in_order.weights.tolist()


def test_cache(tmp_path):
    cache = stream.Cache(str(tmp_path))
    first, second = (evaluate.progressive_val_score(cache(queries(), key="queries"), pipeline(), metrics.NDCG()) for _ in "12")
    assert first.get() == second.get() == evaluate.progressive_val_score(queries(), pipeline(), metrics.NDCG()).get()
    assert "queries" in cache.keys


def squares(x):
    return {f"{name}^2": value**2 for name, value in x.items()}


TRANSFORMERS = {
    "Select": (compose.Select("age"), lambda x: {"age": x["age"]}),
    "Discard": (compose.Discard("kind", "at", "age"), lambda x: {"clicks": x["clicks"], "length": x["length"]}),
    "FuncTransformer": (compose.Select("age") | compose.FuncTransformer(squares), lambda x: {"age^2": x["age"] ** 2}),
    "TransformerUnion": (
        compose.Select("age", "clicks") + (compose.Select("age") | compose.FuncTransformer(squares)),
        lambda x: {"age": x["age"], "clicks": x["clicks"], "age^2": x["age"] ** 2},
    ),
    "OneHotEncoder": (compose.Select("kind") | preprocessing.OneHotEncoder(), lambda x: {f"kind_{x['kind']}": 1.0}),
}


@pytest.mark.parametrize(("transformer", "by_hand"), TRANSFORMERS.values(), ids=TRANSFORMERS)
def test_transformers_on_queries(transformer, by_hand):
    lifted, direct = ForEachDocument(transformer) | PerceptronRanker(), PerceptronRanker()
    for x, y in queries():
        transformed = {i: by_hand(document) for i, document in x.items()}
        assert lifted.predict_one(x) == pytest.approx(direct.predict_one(transformed))
        lifted.learn_one(x, y)
        direct.learn_one(transformed, y)
    assert lifted[-1].n_features == direct.n_features > 0


def test_min_max_scaler_on_queries():
    model, low, high = ForEachDocument(compose.Select("age") | preprocessing.MinMaxScaler()), math.inf, -math.inf
    assert set(model.transform_one(next(queries())[0])["doc0"].values()) == {0.0}  # Nothing is known about a feature yet.
    for x, _ in queries():
        ages = [document["age"] for document in x.values()]
        low, high = min(low, *ages), max(high, *ages)
        model.learn_one(x)
        assert [document["age"] for document in model.transform_one(x).values()] == [(a - low) / (high - low) for a in ages]


@pytest.mark.slow
def test_rbf_sampler_on_queries():
    # The truth is a circle: no linear ranker can follow it, one of random Fourier features can.
    def circle(n):
        for X, _ in NoisyTeacher(n, n_features=2, n_documents=20, seed=5):
            radius = (X**2).sum(axis=1)
            yield [dict(zip("ab", row, strict=True)) for row in X.tolist()], (radius < 1).astype(int)

    rbf = ForEachDocument(feature_extraction.RBFSampler(gamma=0.5, n_components=50, seed=1)) | PerceptronRanker()
    plain = evaluate.progressive_val_score(circle(200), PerceptronRanker(), metrics.NDCG())
    assert evaluate.progressive_val_score(circle(200), rbf, metrics.NDCG()).get() > plain.get() + 0.1


def test_plain_river_pipelines_can_rank():
    plain, ours = compose.Pipeline(StreamScaler(), PerceptronRanker()), StreamScaler() | PerceptronRanker()
    for X, y in arrays():
        plain.learn_one(X, y)
        ours.learn_one(X, y)
    for X, _ in arrays(seed=1):
        assert rank_one(plain, X) == ours.rank_one(X)
