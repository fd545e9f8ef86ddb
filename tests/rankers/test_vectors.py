"""The ranker of vectors, and vectors among the features of `AdditiveRanker`."""

import contextlib
import copy
import pickle
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickRidge,
    Greedy,
    PerceptronRanker,
    VectorFeatures,
    VectorRanker,
    load,
    save,
)
from online_rank._kernels.codes import AVERAGED
from online_rank.base.schema import declared_state
from online_rank.distributed import fork, mix
from online_rank.preprocessing.vector_columns import columns_of_vector
from online_rank.query.embeddings import LENIENT
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference.bilinear import SlowMatrix, unit

P, M = 4, 6


def queries(n, seed=0, p=P, k=P, m=M, extra=True):
    """Queries as dicts, their contexts and grades; an order of the dimensions is what is to be learned."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        q, D = rng.normal(size=p), rng.normal(size=(m, k))
        y = np.argsort(np.argsort(D[:, ::-1][:, : min(p, k)] @ q[: min(p, k)])) // 2
        documents = {f"d{i}": {"embedding": D[i].tolist()} | ({"age": float(rng.normal())} if extra else {}) for i in range(m)}
        yield documents, {f"d{i}": int(y[i]) for i in range(m)}, {"embedding": q.tolist()}


def taught(model, n=40, **parameters):
    for x, y, context in queries(n, **parameters):
        model.learn_one(x, y, context=context)
    return model


def scores(model, n=5, seed=9, **parameters):
    return [[*model.predict_one(x, context=c).values()] for x, _, c in queries(n, seed, **parameters)]


MODELS = {"default": lambda: AdditiveRanker(), "vectors": lambda: VectorRanker()}
both = pytest.mark.parametrize("name", MODELS)


def test_it_begins_as_the_cosine():
    x, _, context = next(queries(1))
    cosines = [
        10.0 * sum(a * b for a, b in zip(unit(context["embedding"]), unit(d["embedding"]), strict=True)) for d in x.values()
    ]
    np.testing.assert_allclose([*VectorRanker().predict_one(x, context=context).values()], cosines, rtol=1e-6)
    columns = VectorFeatures().transform_one(x, context=context)
    np.testing.assert_allclose([d["embedding cosine"] for d in columns.values()], np.array(cosines) / 10.0, rtol=1e-6)
    assert {d[f"embedding {what}"] for d in columns.values() for what in ("learned", "recent")} == {0.0}


def test_columns_are_what_the_matrices_add_to_the_cosine():
    model, average, last = VectorFeatures(half_life=50), SlowMatrix(P, P, decay=0.5 ** (1 / 50)), SlowMatrix(P, P)
    for x, y, context in queries(40):
        D, q = [d["embedding"] for d in x.values()], context["embedding"]
        found = [*model.transform_one(x, context=context).values()]
        cosines = np.array([sum(a * b for a, b in zip(unit(q), unit(d), strict=True)) for d in D])
        for name, scores_of in (("learned", average.scores(q, D)), ("recent", last.scores(q, D, False))):
            wanted = np.array(scores_of) / 10.0 - cosines
            np.testing.assert_allclose([d[f"embedding {name}"] for d in found], wanted, rtol=1e-4, atol=1e-5)
        model.learn_one(x, y, context=context)
        average.learn(q, D, [*y.values()])
        last.learn(q, D, [*y.values()])


def test_it_learns_as_the_slow_matrix():
    model, slow = VectorRanker(), SlowMatrix(P, P)
    for x, y, context in queries(50):
        D = [d["embedding"] for d in x.values()]
        found = [*model.predict_one(x, context=context).values()]
        np.testing.assert_allclose(found, slow.scores(context["embedding"], D), rtol=1e-4, atol=1e-4)
        model.learn_one(x, y, context=context)
        slow.learn(context["embedding"], D, [*y.values()])


@both
def test_the_default_and_the_ranker_learn_what_the_cosine_does_not_know(name):
    """Documents have their dimensions in the reverse order."""
    model, hits = MODELS[name](), []
    for x, y, context in queries(400):
        best = model.rank_one(x, context=context)[0]
        hits.append(y[best] == max(y.values()))
        model.learn_one(x, y, context=context)
    assert np.mean(hits[:20]) < np.mean(hits[-100:])
    assert np.mean(hits[-100:]) > 0.75


@both
@pytest.mark.parametrize("form", ["save", "pickle", "deepcopy"])
def test_a_copy_continues_to_the_bit(name, form, tmp_path):
    model = taught(MODELS[name](), 37)
    if form == "save":
        save(model, tmp_path / "model")
        other = load(tmp_path / "model")
    else:
        other = pickle.loads(pickle.dumps(model)) if form == "pickle" else copy.deepcopy(model)
    assert scores(model) == scores(other)
    assert scores(taught(model, 40, seed=3)) == scores(taught(other, 40, seed=3))


@both
def test_blocks_of_queries_are_learned_as_one_by_one(name):
    one, block = taught(MODELS[name](), 12), MODELS[name]()
    given = [*queries(12)]
    documents = [d for x, _, _ in given for d in x.values()]
    grades = [g for _, y, _ in given for g in y.values()]
    block.learn_many(documents, grades, np.repeat(np.arange(12), M), context=[c for _, _, c in given])
    assert scores(one) == scores(block)


@both
def test_a_refused_query_changes_nothing(name):
    model = taught(MODELS[name](), 20)
    before, x, y, context = scores(model), *next(queries(1, seed=5))
    bad = {**x, "d1": {"embedding": [1.0, np.nan, 0.0, 0.0]}}
    for given, grades, about, error in (
        (bad, y, context, "feature 'embedding' of document 'd1' has nan in dimension 1"),
        ({**x, "d2": {"embedding": [1.0, 2.0]}}, y, context, "document 'd2' has 2 dimensions, and 4 elsewhere"),
        (x, y, {"embedding": [1.0, 2.0]}, r"context\['embedding'\] has 2 dimensions, and 4 elsewhere"),
        (x, y, {"embedding": [1.0, np.inf, 0.0, 0.0]}, r"context\['embedding'\] has inf in dimension 1"),
        (x, {**y, "d0": -1}, context, "grade"),
    ):
        with pytest.raises(ValueError, match=error):
            model.learn_one(given, grades, context=about)
        assert scores(model) == before
    with pytest.raises(ValueError, match="w is"):
        model.learn_one(x, y, -1.0, context=context)
    with pytest.raises(TypeError, match="a vector is a list of numbers"):
        model.learn_one({**x, "d1": {"embedding": [1.0, "two", 0.0, 0.0]}}, y, context=context)
    assert scores(model) == before


def test_a_first_query_with_vectors_that_is_refused_leaves_no_vectors():
    model = AdditiveRanker()
    x, y, context = next(queries(1))
    with pytest.raises(ValueError, match="grade"):
        model.learn_one(x, {**y, "d0": -1}, context=context)
    assert model.vector_columns is None
    assert model.n_features == 0


@both
def test_an_interrupt_leaves_the_state_before_or_after(name, monkeypatch):
    from online_rank.preprocessing.bilinear import BilinearLearner

    model = taught(MODELS[name](), 20)
    before, x, y, context = scores(model), *next(queries(1, seed=5))
    learn = BilinearLearner.learn

    def interrupted(*arguments):
        learn(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(BilinearLearner, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.learn_one(x, y, context=context)
    monkeypatch.undo()
    assert scores(model) == before
    again = taught(MODELS[name](), 20)
    model.learn_one(x, y, context=context)
    again.learn_one(x, y, context=context)
    assert scores(model) == scores(again)


@both
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, tuple, "polars", "pandas", "arrow"])
def test_forms_of_vectors_are_the_same(name, kind):
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    model = taught(MODELS[name](), 10)
    rng = np.random.default_rng(0)
    D, ages = rng.integers(-100, 100, (M, P)), rng.normal(size=M).tolist()
    context = {"embedding": [3, -2, 1, 7]}
    wanted = model.predict_one(
        [{"age": a, "embedding": d.astype(float).tolist()} for a, d in zip(ages, D, strict=True)], context=context
    )
    if kind == "polars":
        x = pl.DataFrame({"age": ages, "embedding": pl.Series(D.astype(np.float32), dtype=pl.Array(pl.Float32, P))})
    elif kind == "pandas":
        x = pd.DataFrame({"age": ages, "embedding": list(D.astype(float))})
    elif kind == "arrow":
        x = pa.table({"age": ages, "embedding": pa.FixedSizeListArray.from_arrays(pa.array(D.ravel().astype(np.float32)), P)})
    else:
        x = [
            {"age": a, "embedding": tuple(d.tolist()) if kind is tuple else d.astype(kind)}
            for a, d in zip(ages, D, strict=True)
        ]
    np.testing.assert_allclose(model.predict_one(x, context=context), wanted, rtol=1e-9)


def test_missing_vectors_and_vectors_of_length_zero_are_missing_values():
    model = taught(AdditiveRanker(), 60)
    x, y, context = next(queries(1, seed=4))
    for blank in ({"age": 1.0}, {"age": 1.0, "embedding": None}, {"age": 1.0, "embedding": [0.0] * P}):
        given = {**x, "d0": blank}
        found = model.predict_one(given, context=context)["d0"]
        wanted = model.predict_one({**x, "d0": {"age": 1.0}}, context=context)["d0"]
        assert found == wanted
        model.learn_one(given, y, context=context)


def test_without_a_vector_of_the_query_a_score_is_linear_in_the_documents():
    rng = np.random.default_rng(0)
    for model in (AdditiveRanker(), VectorRanker()):
        hits = []
        for _ in range(300):
            D = rng.normal(size=(M, P))
            y = np.argsort(np.argsort(D @ [1.0, -1.0, 0.0, 0.5])) // 2
            x = [{"embedding": d} for d in D]
            hits.append(y[model.rank_one(x)[0]] == 2)
            model.learn_one(x, y)
        assert np.mean(hits[-100:]) > 0.9
    assert model.matrix.shape == (1, P)
    # The vector of a query begins a matrix.
    wanted = VectorRanker().predict_one(x, context={"embedding": [1.0, 2.0, 0.0, 0.0]})
    assert model.predict_one(x, context={"embedding": [1.0, 2.0, 0.0, 0.0]}) == wanted


def test_queries_without_a_vector_are_learned_apart_from_others():
    both, some, others = VectorRanker(), VectorRanker(), VectorRanker()
    for n, (x, y, context) in enumerate(queries(40)):
        both.learn_one(x, y, context=context if n % 3 else None)
        (some if n % 3 else others).learn_one(x, y, context=context if n % 3 else None)
    x, _, context = next(queries(1, seed=9))
    assert both.predict_one(x, context=context) == some.predict_one(x, context=context)
    assert both.predict_one(x) == others.predict_one(x)
    np.testing.assert_array_equal(both.matrix, some.matrix)
    assert both.linear.shape == (1, P)
    assert both.n_queries == 40
    assert both.mass == some.mass
    with pytest.raises(ValueError, match="has 2 dimensions, and 4 elsewhere"):
        both.rank_one({"a": {"embedding": [1.0, 2.0]}})


def test_a_query_without_a_vector_has_the_order_given_where_all_others_had_one_and_warns():
    model = taught(VectorRanker())
    x, y, context = next(queries(1, seed=9))
    before = model.predict_one(x, context=context)
    with pytest.warns(UserWarning, match="context has no vector 'embedding', but the queries that were learned had one"):
        assert model.rank_one(x) == [*x]
    with pytest.warns(UserWarning, match="context has no vector"):
        model.learn_one(x, y)
    assert model.predict_one(x, context=context) == before
    assert model.predict_one(x) != dict.fromkeys(x, 0.0)  # And does not warn any more.


def test_clicks_on_a_query_without_a_vector_teach_the_linear_score():
    model = VectorRanker()
    x, _, context = next(queries(1))
    for about in (None, context, None):
        model.learn_one(x, Greedy(k=3).show(dict.fromkeys(x, 0.0), 0).clicked(["d2"]), context=about)
    assert (model.linear.shape, model.learner.shape, model.n_clicked) == ((1, P), (P, P), 3)
    assert model.rank_one(x)[0] == "d2"


@pytest.mark.parametrize("alone", [True, False])
def test_a_state_of_a_version_with_one_learner_continues(alone):
    model = VectorRanker()
    for x, y, context in queries(20):
        model.learn_one(x, y, context=None if alone else context)
    earlier = VectorRanker._of_earlier({"_learner": model.linear if alone else model.learner, "_n_queries": 20})
    assert (earlier["_linear"].shape, earlier["_learner"].shape) == (((1, P), (0, 0)) if alone else ((0, 0), (P, P)))


def test_what_all_users_like_counts_where_a_user_has_a_taste():
    """Half of what decides is the same for all users, and tells nothing about the direction of their tastes."""
    rng, model, hits = np.random.default_rng(0), AdditiveRanker(trees=0), []
    for _ in range(400):
        taste, D = rng.normal(size=P), rng.normal(size=(M, P))
        y = np.argsort(np.argsort(D @ (0.3 * taste + [2.0, 0.0, 0.0, 0.0]))) // 2
        x, context = [{"embedding": d.tolist()} for d in D], {"embedding": taste.tolist()}
        hits.append(y[model.rank_one(x, context=context)[0]] == 2)
        model.learn_one(x, y, context=context)
    assert np.mean(hits[-200:]) > 0.9


def test_dimensions_that_differ_have_no_cosine():
    model = taught(AdditiveRanker(), 5, p=3, k=4)
    assert model.feature_names == ("age", "embedding learned", "embedding recent", "embedding linear")
    assert model.vector_columns.learners["embedding learned"].shape == (3, 4)


def test_an_array_has_the_vectors_of_documents():
    model, other = VectorRanker(), VectorRanker()
    for x, y, context in queries(20, extra=False):
        D = np.array([d["embedding"] for d in x.values()])
        model.learn_one(D, [*y.values()], context=context)
        other.learn_one(x, y, context=context)
    assert model.predict_one(D, context=context) == [*other.predict_one(x, context=context).values()]
    with pytest.raises(ValueError, match="vectors of 2 dimensions, but VectorRanker has learned from 4"):
        model.rank_one(D[:, :2], context=context)
    with pytest.warns(UserWarning, match="context has no vector 'embedding'"):
        model.rank_one(D)


def test_arrays_that_need_no_conversion_are_ranked_and_learned_as_others():
    """They are ranked by one call of a kernel."""
    plain, other = VectorRanker(), VectorRanker()
    for n, (x, y, context) in enumerate(queries(80, extra=False)):
        D, q = (np.array(v, np.float32) for v in ([d["embedding"] for d in x.values()], context["embedding"]))
        if n == 50:
            q = np.zeros_like(q)
        grades = np.array([*y.values()])
        ways = (plain, D, grades, {"embedding": q}), (other, D.tolist(), [*y.values()], {"embedding": q.tolist()})
        for model, *_, about in ways:
            assert model.rank_one(D, context=about) == other.rank_one(D.tolist(), context={"embedding": q.tolist()})
        for model, documents, given, about in ways:
            model.learn_one(documents, given, context=about)
        assert repr(plain.last_round) == repr(other.last_round)
    assert plain.n_queries == other.n_queries == 80
    np.testing.assert_array_equal(plain.matrix, other.matrix)
    before = plain.matrix
    for bad, about, error in ((D * np.inf, q, "x: document 0 has"), (D, q * np.nan, "nan in dimension 0")):
        for call in (lambda *a, **c: plain.learn_one(*a, grades, **c), plain.predict_one):
            with pytest.raises(ValueError, match=error):
                call(bad, context={"embedding": about})
    with pytest.raises(ValueError, match="grade"):
        plain.learn_one(D, grades - 1, context={"embedding": q})
    np.testing.assert_array_equal(plain.matrix, before)
    assert plain.n_queries == 80


def of_arrays(n, seed=0):
    """Queries that need no conversion: vectors of documents, grades, and contexts."""
    for x, y, context in queries(n, seed, extra=False):
        D = np.array([d["embedding"] for d in x.values()], np.float32)
        yield D, np.array([*y.values()]), {"embedding": np.array(context["embedding"], np.float32)}


def test_few_functions_learn_arrays_that_need_no_conversion():
    model, calls = VectorRanker(), []
    for n, (D, y, context) in enumerate(of_arrays(5)):
        if n == 4:
            sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
        try:
            model.learn_one(D, y, context=context)
        finally:
            sys.setprofile(None)
    assert len(calls) <= 12, calls


def test_an_interrupt_next_to_the_kernel_leaves_the_state_before_or_after(monkeypatch):
    from online_rank.preprocessing import bilinear

    learn, given = bilinear.kernels.learn, [*of_arrays(12)]

    def taught_with(interrupted=None):
        model = VectorRanker()
        for n, (D, y, context) in enumerate(given):
            monkeypatch.setattr(bilinear.kernels, "learn", interrupted if interrupted and n == 8 else learn)
            with pytest.raises(KeyboardInterrupt) if interrupted and n == 8 else contextlib.nullcontext():
                model.learn_one(D, y, context=context)
        return model

    def before(*arguments):
        raise KeyboardInterrupt

    def after(*arguments):
        learn(*arguments)
        raise KeyboardInterrupt

    whole, given_up = taught_with(), taught_with(before)
    assert given_up.n_queries == 11
    found = taught_with(after)
    assert found.n_queries == 12
    assert repr(found.last_round) == repr(whole.last_round)
    np.testing.assert_array_equal(found.matrix, whole.matrix)
    del given[8]
    np.testing.assert_array_equal(given_up.matrix, taught_with().matrix)


def test_adapt_gives_the_vector_to_search_with():
    model = taught(VectorRanker(), 40)
    x, _, context = next(queries(1, seed=8))
    t = model.adapt(context["embedding"])
    wanted = [t @ unit(d["embedding"]) for d in x.values()]
    np.testing.assert_allclose([*model.predict_one(x, context=context).values()], wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="length 0"):
        model.adapt([0.0] * P)
    with pytest.raises(ValueError, match="query has 2 dimensions, but the model has learned from 4"):
        model.adapt([1.0, 2.0])


def test_explanations_name_what_is_made_of_vectors():
    model = taught(AdditiveRanker(), 60)
    x, _, context = next(queries(1, seed=8))
    found = model.explain_one(x, "d0", "d1", context=context)
    names = {*found.contributions} | {name for pair in found.pairs for name in pair}
    assert names <= {"age", "embedding cosine", "embedding learned", "embedding recent", "embedding linear"}
    difference = np.subtract(*[model.predict_one(x, context=context)[d] for d in ("d0", "d1")])
    assert sum([*found.contributions.values(), *found.pairs.values()]) == pytest.approx(difference)
    alone = taught(VectorRanker(), 5).explain_one(x, "d0", "d1", context=context)
    assert [*alone.contributions] == ["embedding"]


def test_scores_that_were_served_decide_the_pairs():
    x, y, context = next(queries(1))
    served = {name: float(grade) for name, grade in y.items()}
    model = VectorRanker()
    model.learn_one(x, y, served=served, context=context)
    assert model.last_round.loss == 0.0
    assert model.mass == 0.0


def test_vectors_of_other_lengths_are_missing_in_a_service_and_evidence_decides():
    model = AdditiveRanker()
    rng = np.random.default_rng(0)

    def learn(k):
        x = [{"age": 1.0 * i, "embedding": rng.normal(size=k)} for i in range(M)]
        model.learn_one(x, [0, 1, 2, 0, 1, 2], context={"embedding": rng.normal(size=k)})

    token = LENIENT.set(True)
    try:
        learn(3)  # The first vector does not decide for everybody.
        learn(5)
        assert model.vector_columns.n_odd > 0
        assert model.vector_columns.learners["embedding learned"].shape == (3, 3)
        with pytest.warns(UserWarning, match="had 3 dimensions, and most queries give it 5"):
            learn(5)
        for _ in range(3):
            learn(5)
        assert model.vector_columns.learners["embedding learned"].shape == (5, 5)
    finally:
        LENIENT.reset(token)
    with pytest.raises(ValueError, match="3 dimensions, and 5 elsewhere"):
        learn(3)


def test_declared_lengths_are_required():
    model = AdditiveRanker(dimensions={"embedding": 5})
    x, y, context = next(queries(1))
    with pytest.raises(ValueError, match="4 dimensions, and 5 elsewhere"):
        model.learn_one(x, y, context=context)
    with pytest.raises(ValueError, match="dimensions"):
        AdditiveRanker(dimensions={"embedding": 0})


@pytest.mark.parametrize(("known", "kind"), [([1.0, 2.0], "number"), (["red", "blue"], "category")])
def test_what_is_known_of_a_feature_is_no_vector(known, kind):
    model, y = AdditiveRanker(), {"a": 0, "b": 1}
    model.learn_one({"a": {"x": known[0]}, "b": {"x": known[1]}}, y)
    with pytest.raises(TypeError, match=rf"'x' of document 'b' is \[1.0, 2.0\], and a {kind} elsewhere"):
        model.learn_one({"a": {"x": known[0]}, "b": {"x": [1.0, 2.0]}}, y)
    with pytest.raises(TypeError, match=f"{kind} elsewhere"):
        model.rank_one({"a": {"x": known[0]}, "b": {"x": [1.0, 2.0]}})
    model.learn_one({"a": {"x": known[0]}, "b": {"x": known[1]}}, y)
    assert model.n_queries == 2


def test_machines_average_the_matrices_of_vectors():
    base = taught(AdditiveRanker(), 5)
    few, many, none = fork(base), fork(base), fork(base)
    taught(few, 10, seed=1)
    taught(many, 20, seed=2)
    mixed = mix([few, many, none], base)
    column = "embedding learned"
    own = [one.vector_columns.learners[column] for one in (few, many, none)]
    last = sum(one.matrix(False) for one in own) / 3.0
    counts = np.array([declared_state(one).numbers[AVERAGED] for one in own])
    average = sum(n * one.matrix() for n, one in zip(counts, own, strict=True)) / counts.sum()
    made = mixed.vector_columns.learners[column]
    np.testing.assert_allclose(made.matrix(False), last, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(made.matrix(), average, rtol=1e-5, atol=1e-5)
    assert declared_state(made).numbers[AVERAGED] == pytest.approx(counts.mean())
    assert mixed.vector_columns.n_votes == 5 + 10 + 20
    assert made.mass == pytest.approx(own[0].mass + own[1].mass + own[2].mass - 2 * own[2].mass)
    assert np.isfinite(scores(mixed)).all()
    assert to_bytes(from_bytes(to_bytes(mixed))) == to_bytes(mixed)
    # Only one machine met vectors; of two lengths the one with more queries is taken.
    alone = mix([taught(fork(AdditiveRanker()), 8), fork(AdditiveRanker())], AdditiveRanker())
    assert alone.vector_columns.n_votes == 8
    (name,), other = alone.vector_columns.names, AdditiveRanker()
    for _ in range(3):
        other.learn_one([{name: [1.0, 2.0]}, {name: [2.0, 0.5]}], [0, 1])
    ways = [mix(pair) for pair in ([taught(AdditiveRanker(), 8), other], [other, taught(AdditiveRanker(), 8)])]
    assert [set(way.vector_columns.lengths.values()) for way in ways] == [{*alone.vector_columns.lengths.values()}] * 2


def test_others_say_what_takes_vectors():
    x, y, context = next(queries(1))
    for model in (PerceptronRanker(), BlendRanker([AdditiveRanker()])):
        with pytest.raises(TypeError, match="AdditiveRanker"):
            model.learn_one(x, y)
    with pytest.raises(TypeError, match="context"):
        PerceptronRanker().learn_one([[1.0], [2.0]], [0, 1], context=context)
    with pytest.raises(TypeError, match="context"):
        VectorRanker().learn_one(x, y, context={"user": "u17"})


def test_a_vector_of_the_query_that_no_document_has_warns():
    x, y, _ = next(queries(1))
    with pytest.warns(UserWarning, match="'other'"):
        AdditiveRanker().learn_one(x, y, context={"other": [1.0, 2.0]})


def test_features_for_rankers_of_numbers():
    model = VectorFeatures() | PerceptronRanker()
    taught(model, 50)
    assert model["PerceptronRanker"].feature_names == ("age", *columns_of_vector("embedding"))
    before, (x, y, context) = scores(model), next(queries(1, seed=5))
    with pytest.raises(ValueError, match="grade"):
        model.learn_one(x, {**y, "d0": -1}, context=context)
    assert scores(model) == before


def clicked_hits(model, n):
    """How often the first document was a best one, in n queries with clicks at random, which the model learns."""
    rng, hits = np.random.default_rng(0), []
    for x, y, context in queries(n, extra=False):
        hits.append(y[model.rank_one(x, context=context)[0]] == 2)
        shown = model.show_one(x, context=context)
        clicked = [d for d in shown.order if rng.random() < 0.45 * y[d] / (1 + shown.order.index(d))]
        model.learn_one(x, shown.clicked(clicked), context=context)
    return hits


@pytest.mark.slow
def test_clicks_teach_the_matrix_and_the_ridge():
    ridge = ClickRidge({"embedding cosine": 0.1, "embedding learned": 1.0, "embedding recent": 0.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hits = clicked_hits(VectorFeatures(kappa=3.0) | ridge, 600)
    assert np.mean(hits[-150:]) > np.mean(hits[:150]) + 0.1


@pytest.mark.slow
def test_clicks_teach_the_ranker_of_vectors():
    hits = clicked_hits(VectorRanker(kappa=3.0), 1000)
    assert np.mean(hits[-200:]) > np.mean(hits[:200]) + 0.1


def test_the_credit_of_clicks_by_hand():
    """Two lists: before the second one, position 1 had half a click on the average, with the list of the prior."""
    model = VectorRanker(kappa=1.0, half_life=0, policy=Greedy(k=2))
    x, context = {"a": {"embedding": [1.0, 0.0]}, "b": {"embedding": [0.0, 1.0]}}, {"embedding": [1.0, 0.0]}
    shown = model.show_one(x, context=context)
    assert shown.order == ("a", "b")
    model.learn_one(x, shown.clicked(["a"]), context=context)
    # r = (1, 0), c = (.5, -.5).
    np.testing.assert_allclose(model.matrix, [[1.5, -0.5], [0.0, 1.0]])
    model.learn_one(x, model.show_one(x, context=context).clicked(["b"]), context=context)
    # r = (0 - 1 / 2, 1 - 0), c = (-.75, .75).
    np.testing.assert_allclose(model.matrix, [[0.75, 0.25], [0.0, 1.0]])


def test_a_stream_without_vectors_has_no_learner_of_them():
    model = AdditiveRanker()
    for x, y, _ in queries(3):
        model.learn_one({d: {"age": v["age"]} for d, v in x.items()}, y)
    assert model.vector_columns is None
