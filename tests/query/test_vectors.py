import numpy as np
import pytest

from online_rank import BlendRanker, DirectRanker, PerceptronRanker, Runs, StreamScaler, SwapRanker, Vectors, hybrid
from online_rank.base import ranker_of
from online_rank.export import adapt
from online_rank.feedback import PlackettLuce
from online_rank.measures.learned import measure
from online_rank.rankers.fixed import FixedRanker
from online_rank.storage.files import from_bytes, to_bytes

D = 16


def drawn(rng, m=12):
    """A query and documents, whose grades follow the first dimensions alone."""
    q, documents = rng.normal(size=D), {f"d{i}": rng.normal(size=D) for i in range(m)}
    return q, documents, {d: int((q * v)[:4].sum() > 1.0) for d, v in documents.items()}


def cosine(q, v):
    return float(q @ v / np.sqrt(q @ q) / np.sqrt(v @ v))


def taught(model, n=60, seed=0, metric="cosine"):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        q, documents, y = drawn(rng)
        model.learn_one(Vectors(q, documents, metric=metric), y)
    return model


def test_it_begins_as_the_cosine():
    rng, model = np.random.default_rng(1), PerceptronRanker.from_weights(np.ones(D), strength=10.0)
    for _ in range(20):
        q, documents, _ = drawn(rng)
        expected = {d: 10.0 * cosine(q, v) for d, v in documents.items()}
        assert model.predict_one(Vectors(q, documents)) == pytest.approx(expected, abs=1e-12)
        by_row = model.predict_one(Vectors(q.astype(np.float32), np.array([*documents.values()])))
        assert by_row == pytest.approx([*expected.values()], abs=1e-5)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_the_adapted_query_scores_as_the_ranker(metric):
    model = taught(PerceptronRanker.from_weights(np.ones(D), strength=10.0), metric=metric)
    rng = np.random.default_rng(2)
    for _ in range(50):
        q, documents, _ = drawn(rng)
        adapted = adapt(model, q, metric=metric)
        scores = model.predict_one(Vectors(q, documents, metric=metric))
        for d, v in documents.items():
            own = v / np.sqrt(v @ v) if metric == "cosine" else v
            assert scores[d] == pytest.approx(adapted @ own, abs=1e-12 * max(1.0, np.abs(model.served_weights).max()))


def test_behind_a_scaler_it_scores_as_the_ranker_up_to_a_constant():
    model = taught(StreamScaler() | PerceptronRanker())
    q, documents, _ = drawn(np.random.default_rng(3))
    adapted, scores = adapt(model, q), model.predict_one(Vectors(q, documents))
    differences = [scores[d] - adapted @ (v / np.sqrt(v @ v)) for d, v in documents.items()]
    assert np.ptp(differences) < 1e-10


def test_dimensions_that_matter_gain_weight():
    model = taught(PerceptronRanker.from_weights(np.ones(D), strength=10.0), 200)
    assert model.served_weights[:4].min() > model.served_weights[4:].max()
    again = from_bytes(to_bytes(model))
    q, documents, _ = drawn(np.random.default_rng(4))
    assert again.predict_one(Vectors(q, documents)) == model.predict_one(Vectors(q, documents))


def test_clicks_teach_it():
    model = SwapRanker.from_weights(np.ones(D), strength=3.0, policy=PlackettLuce(k=6))
    rng = np.random.default_rng(5)
    for _ in range(400):
        q, documents, y = drawn(rng)
        shown = model.show_one(Vectors(q, documents))
        model.learn_one(Vectors(q, documents), shown.clicked([d for d in shown.order if y[d]]))
    assert model.weights[:4].min() > model.weights[4:].max()


def test_a_blend_is_certified_against_the_cosine():
    rng, of, lost = np.random.default_rng(6), measure("ndcg@10"), 0.0
    members = [FixedRanker((1.0,) * D), PerceptronRanker.from_weights(np.ones(D), strength=10.0)]
    blend = BlendRanker(members, prior=(0.5, 0.0))
    for _ in range(40):
        q, documents, y = drawn(rng)
        if rng.random() < 0.5:
            y = {d: int(rng.integers(3)) for d in documents}
        if len({*y.values()}) > 1:
            lost += of.loss([cosine(q, v) for v in documents.values()], [*y.values()], ties="pessimistic")
        blend.learn_one(Vectors(q, documents), y)
    account = blend.account
    assert account.served <= lost + np.log(2.0) / blend.step + account.mixability_gap + account.served - account.mixed + 1e-9


def test_it_is_a_retriever_of_a_hybrid():
    model, vectors = hybrid(["bm25", "learned"]), taught(PerceptronRanker.from_weights(np.ones(D)))
    q, documents, _ = drawn(np.random.default_rng(7))
    query = Runs({"bm25": [("d1", 2.0)], "learned": vectors.predict_one(Vectors(q, documents))})
    assert {*model.rank_one(query)} == {*documents}
    assert ranker_of(model)


def test_a_document_of_length_0_has_the_cosine_0():
    assert PerceptronRanker.from_weights([1.0, 1.0]).predict_one(Vectors([1.0, 2.0], [[0.0, 0.0], [-1.0, 0.0]])) == [
        0.0,
        pytest.approx(-1 / np.sqrt(5)),
    ]
    assert len(Vectors([1.0], {})) == 0


@pytest.mark.parametrize(
    ("query", "documents", "error", "message"),
    [
        ([0.0, 0.0], [[1.0, 2.0]], ValueError, "query has length 0, which has no cosine"),
        ([1.0, np.nan], [[1.0, 2.0]], ValueError, "query has nan in dimension 1"),
        ([[1.0, 2.0]], [[1.0, 2.0]], ValueError, r"query has shape \(1, 2\)"),
        (["a"], [[1.0]], TypeError, "query is of dtype <U1"),
        ([1.0, 2.0], [[1.0, 2.0], [1.0]], ValueError, r"documents\[1\] has 1 dimensions, but query has 2"),
        ([1.0, 2.0], {"a": [1.0, np.inf]}, ValueError, r"documents\['a'\] has inf in dimension 1"),
        ([1.0, 2.0], np.array([[1.0, 2.0], [np.nan, 1.0]]), ValueError, r"documents\[1\] has nan in dimension 0"),
    ],
)
def test_bad_vectors_are_refused(query, documents, error, message):
    with pytest.raises(error, match=message):
        Vectors(query, documents)


def test_bad_queries_to_adapt_are_refused():
    model = PerceptronRanker.from_weights([1.0, 1.0])
    for query, message in (([1.0], "has learned from 2 dimensions"), ([0.0, 0.0], "length 0"), ([np.inf, 1.0], "not finite")):
        with pytest.raises(ValueError, match=message):
            adapt(model, query)
    with pytest.raises(TypeError, match="have no linear form"):
        adapt(taught(DirectRanker()), np.ones(D))
    with pytest.raises(ValueError, match="metric is 'l2'"):
        adapt(model, [1.0, 1.0], metric="l2")
