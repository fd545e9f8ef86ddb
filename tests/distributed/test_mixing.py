"""Iterative parameter mixing against its slow twin, and against one machine that sees everything."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    BlendRanker,
    DirectRanker,
    GradientRanker,
    LossTracker,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamScaler,
    SwapRanker,
)
from online_rank.base.schema import declared_state
from online_rank.distributed import fork, from_bytes, learn_shard, mix, to_bytes
from tests.helpers import linear_queries, state_of
from tests.reference import mixing as reference


def cut(queries, n):
    """Queries in `n` runs of about the same length."""
    bounds = [k * len(queries) // n for k in range(n + 1)]
    return [queries[a:b] for a, b in pairwise(bounds)]


def learned(model, queries):
    for X, y in queries:
        model.learn_one(X, y)
    return model


def trained(base, rounds):
    for parts in rounds:
        base = mix([learned(fork(base), part) for part in parts], base)
    return base


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("options", [{"credit": "spread"}, {"relative_margin": 0.3, "credit": "argmax"}])
def test_rounds_of_machines_equal_the_slow_twin(scaled, options):
    rounds = [cut(queries, 3) for queries in cut(linear_queries(36, d=3, seed=4), 3)]
    ranker = PerceptronRanker(half_life=None, **options)
    mixed = trained(StreamScaler() | ranker if scaled else ranker, rounds)
    w, served, documents = reference.train(rounds, 3, scaled=scaled, **options)
    last = mixed["PerceptronRanker"] if scaled else mixed
    assert last.weights == pytest.approx(w, rel=1e-9, abs=1e-12)
    assert last.served_weights == pytest.approx(served, rel=1e-9, abs=1e-12)
    if scaled:
        assert mixed["StreamScaler"].n_documents == len(documents)
        assert mixed["StreamScaler"].means == pytest.approx(np.mean(documents, axis=0))
        assert mixed["StreamScaler"].variances == pytest.approx(np.var(documents, axis=0))


def test_two_machines_by_hand():
    # One learns w = loss (1 - -1), loss 1 - 1 / log2(3); the other has a query without a loss.
    base = PerceptronRanker("ndcg", credit="spread")
    right, wrong = fork(base), fork(base)
    wrong.learn_one([[1.0], [-1.0]], [1, 0])
    right.learn_one([[1.0], [-1.0]], [1, 1])
    loss = 1.0 - 1.0 / np.log2(3.0)
    assert mix([right, wrong], base).weights == pytest.approx([0.5 * 2.0 * loss])
    assert mix([right, wrong], base).served_weights == pytest.approx([2.0 * loss])  # the only vector there was


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_an_average_with_a_half_life_averages_the_mixed_weights(form):
    """Its sum of vectors, by hand: each machine's own, after the base's, at the machine's share."""
    half_life, queries = 3.0, [(form(X), y) for X, y in linear_queries(30, d=3, seed=4) if len(set(y)) > 1]
    forget = 0.5 ** (1 / half_life)
    base, total, number = PerceptronRanker(half_life=half_life), np.zeros(3), 0.0
    for parts in (cut(run, 2) for run in cut(queries, 3)):
        shards, sums, numbers = [fork(base) for _ in parts], [], []
        for shard, part in zip(shards, parts, strict=True):
            sums.append(total)
            numbers.append(number)
            for X, y in part:
                shard.learn_one(X, y)
                sums[-1], numbers[-1] = forget * sums[-1] + shard.weights, forget * numbers[-1] + 1
            assert shard.served_weights == pytest.approx(sums[-1] / numbers[-1])
        base = mix(shards, base)
        total, number = sum(sums) / 2, sum(numbers) / 2
        assert base.served_weights == pytest.approx(total / number)
    assert from_bytes(to_bytes(base)).served_weights.tolist() == base.served_weights.tolist()


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 3), st.sampled_from([1e-9, 1.0, 1e9]))
@settings(max_examples=40)
def test_scalers_equal_one_scaler_of_all_documents(seed, n_machines, n_rounds, offset):
    rng = np.random.default_rng(seed)
    shift = np.array([0.0, offset, 0.0])
    queries = [rng.normal(size=(int(rng.integers(0, 5)), 3)) + shift for _ in range(24)]
    for X in queries:
        X[:, 2] = 7.0
    base, whole = StreamScaler(), StreamScaler()
    for part in cut(queries, n_rounds):
        shards = [fork(base) for _ in range(n_machines)]
        for shard, run in zip(shards, cut(part, n_machines), strict=True):
            for X in run:
                shard.learn_one(X)
        base = mix(shards, base)
    for X in queries:
        whole.learn_one(X)
    documents = np.concatenate(queries)
    assert base.n_documents == whole.n_documents == len(documents)
    if len(documents):
        assert base.means == pytest.approx(documents.mean(axis=0), rel=1e-12, abs=1e-12)
        assert base.variances == pytest.approx(documents.var(axis=0), rel=1e-7, abs=1e-20)
        assert base.variances[2] == 0.0


def test_a_fork_learns_as_the_model_would():
    queries = linear_queries(20)
    base = learned(StreamScaler() | LossTracker(PerceptronRanker(), {"u": np.ones(4)}, raw=True), queries[:10])
    shard, alone = fork(base), copy.deepcopy(base)
    for model in (shard, alone):
        learned(model, queries[10:])
    assert shard["StreamScaler"].means.tolist() == alone["StreamScaler"].means.tolist()
    assert shard["LossTracker"].learner.weights.tolist() == alone["LossTracker"].learner.weights.tolist()
    assert shard["LossTracker"].totals._replace(served_loss=0) == alone["LossTracker"].totals._replace(served_loss=0)


@pytest.mark.parametrize("number", [-1, 1.5])
def test_a_fork_has_a_number_from_0_on(number):
    with pytest.raises((TypeError, ValueError), match="number"):
        fork(PerceptronRanker(), number=number)


def test_one_machine_is_the_model_itself():
    queries = linear_queries(20)
    one = trained(StreamScaler() | PerceptronRanker(), [[queries[:10]], [queries[10:]]])
    alone = learned(StreamScaler() | PerceptronRanker(), queries)
    X = queries[3][0]
    assert one.predict_one(X) == pytest.approx(alone.predict_one(X), rel=1e-12)
    assert one["PerceptronRanker"].weights == pytest.approx(alone["PerceptronRanker"].weights, rel=1e-12)


def test_ridge_sums_cover_all_queries():
    queries = linear_queries(40)
    base = learned(RidgeRanker(), queries[:8])
    mixed = mix([learned(fork(base), part) for part in cut(queries[8:], 4)], base)
    whole = learned(RidgeRanker(), queries)
    assert mixed._full_gram() == pytest.approx(whole._full_gram(), rel=1e-12)
    assert declared_state(mixed).moment == pytest.approx(declared_state(whole).moment, rel=1e-12)
    assert declared_state(mixed).n_queries == declared_state(whole).n_queries
    # A ranker that has met only queries of one grade has nothing to solve for.
    assert mix([learned(RidgeRanker(), [(np.ones((2, 3)), np.zeros(2, int))])] * 2).predict_one(np.ones((1, 3))) == [0.0]


def as_named(X, names):
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


@pytest.mark.parametrize(
    "make", [lambda: StreamScaler() | PerceptronRanker(), RidgeRanker, lambda: LossTracker(PerceptronRanker())]
)
def test_features_that_only_some_machines_meet(make):
    first, second = linear_queries(12, d=2, seed=1), linear_queries(12, d=2, seed=2)
    base = make()
    shards = [fork(base), fork(base)]
    for X, y in first:
        shards[0].learn_one(as_named(X, "ab"), y.tolist())
    for X, y in second:
        shards[1].learn_one(as_named(X, "cb"), y.tolist())
    mixed = mix(shards, base)
    last = mixed["PerceptronRanker"] if hasattr(mixed, "steps") else getattr(mixed, "learner", mixed)
    assert last.feature_names == ("a", "b", "c")
    # The same from arrays with all three.
    wide = [np.insert(X, 2, 0.0, axis=1) for X, _ in first], [np.insert(X[:, ::-1], 0, 0.0, axis=1) for X, _ in second]
    shards = [
        learned(fork(make()), zip(X, (y for _, y in queries), strict=True))
        for X, queries in zip(wide, (first, second), strict=True)
    ]
    arrays = mix(shards)
    expected = arrays["PerceptronRanker"] if hasattr(arrays, "steps") else getattr(arrays, "learner", arrays)
    assert last.weights == pytest.approx(expected.weights, rel=1e-9)
    if hasattr(mixed, "steps"):
        assert list(mixed["StreamScaler"].variances.values()) == pytest.approx(arrays["StreamScaler"].variances.tolist())
    mixed.learn_one({"x": {"a": 1.0, "new": 2.0}, "y": {"b": 1.0}}, {"x": 0, "y": 1})


def test_sparse_state_is_mixed_as_dense_state_is():
    from scipy import sparse

    queries = linear_queries(30, d=6)
    base = PerceptronRanker()
    parts = cut(queries, 3)
    dense = mix([learned(fork(base), part) for part in parts], base)
    rows = mix([learned(fork(base), [(sparse.csr_matrix(X), y) for X, y in part]) for part in parts], base)
    assert declared_state(rows).rows is not None
    assert rows.weights == pytest.approx(dense.weights, rel=1e-9)
    assert rows.served_weights == pytest.approx(dense.served_weights, rel=1e-9)


def test_models_and_base_stay_as_they_are_and_equal_ones_give_equal_bits():
    base = learned(StreamScaler() | PerceptronRanker(), linear_queries(5, seed=1))
    shards = [learned(fork(base), part) for part in cut(linear_queries(20), 2)]
    before = state_of(base), [state_of(shard) for shard in shards]
    mixed = mix(shards, base)
    assert (state_of(base), [state_of(shard) for shard in shards]) == before
    assert to_bytes(mix(shards, base)) == to_bytes(mixed)
    learned(mixed, linear_queries(3, seed=2))
    assert (state_of(base), [state_of(shard) for shard in shards]) == before
    assert to_bytes(from_bytes(to_bytes(fork(base)))) == to_bytes(fork(base))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (DirectRanker(hidden=(3,)), TypeError, "DirectRanker has no rule"),
        (SwapRanker(), TypeError, "SwapRanker has no rule"),
        (LossTracker(BlendRanker([PerceptronRanker()])), TypeError, "BlendRanker has no rule"),
        (GradientRanker(), TypeError, r"GradientRanker\(optimizer='scale_free'\) has no rule"),
        ((QueryNormalizer() + StreamScaler()) | PerceptronRanker(), TypeError, "QueryUnion has no rule"),
        (RidgeRanker(half_life=5.0), ValueError, "half_life=5.0 depends on the order"),
        ("model", TypeError, "str is not a model"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(model, error, message):
    with pytest.raises(error, match=message):
        fork(model)
    if not isinstance(model, str):
        with pytest.raises(error, match=message):
            mix([model, model])


def test_what_does_not_fit_together_is_refused():
    base = learned(StreamScaler() | PerceptronRanker(), linear_queries(5))
    with pytest.raises(ValueError, match="models is empty"):
        mix([])
    with pytest.raises(ValueError, match=r"models\[1\] has other steps or settings"):
        mix([fork(base), StreamScaler() | PerceptronRanker("ap")], base)
    with pytest.raises(ValueError, match=r"models\[0\] did not begin as a fork of base"):
        mix([learned(copy.deepcopy(base), linear_queries(5))], base)
    with pytest.raises(ValueError, match="learned from 3 features, one before it from 4"):
        mix([learned(PerceptronRanker(), linear_queries(3)), learned(PerceptronRanker(), linear_queries(3, d=3))])
    named = PerceptronRanker()
    named.learn_one([{"a": 1.0}, {"a": 2.0}], [0, 1])
    with pytest.raises(ValueError, match="name their features and others do not"):
        mix([learned(PerceptronRanker(), linear_queries(3)), named])


def test_steps_without_state_are_passed_over():
    base = QueryNormalizer("minmax") | StreamScaler() | QueryNormalizer() | PerceptronRanker()
    assert trained(base, [cut(linear_queries(12), 2)]).predict_one(np.zeros((1, 4))) == [0.0]
    sgd = GradientRanker("listnet", optimizer="sgd")
    shards = [learned(fork(sgd), part) for part in cut(linear_queries(12), 2)]
    assert mix(shards, sgd).weights == pytest.approx((shards[0].weights + shards[1].weights) / 2)


@pytest.mark.parametrize("measure", [None, "ndcg@10"])
def test_learn_shard_goes_from_bytes_to_bytes(measure):
    queries = linear_queries(20)
    base = learned(StreamScaler() | PerceptronRanker(), queries[:5])
    content = learn_shard(to_bytes(base), queries[5:], measure=measure)
    report = from_bytes(content)
    alone = learned(fork(base), queries[5:])
    assert to_bytes(report["model"]) == to_bytes(alone)
    assert (report["queries"], report["documents"]) == (15, sum(len(y) for _, y in queries[5:]))
    assert learn_shard(to_bytes(base), queries[5:], measure=measure) == content
    assert (report["counted"] > 0) == (measure is not None)
    assert 0.0 <= report["measured"] <= report["counted"]


# Certificates


def tracked(rounds, raw=False, **options):
    tracker = LossTracker(PerceptronRanker(**options), {"u": np.array([1.0, -0.5, 2.0, 0.25])}, raw=raw, measure_served=True)
    mixed = trained(StreamScaler() | tracker if raw else tracker, rounds)
    return mixed["LossTracker"] if raw else mixed


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(1, 4), st.sampled_from([0.0, 0.4]), st.booleans())
@settings(max_examples=30)
def test_no_mixed_run_violates_its_certificate(seed, n_machines, n_rounds, beta, raw):
    rounds = [cut(part, n_machines) for part in cut(linear_queries(40, seed=seed), n_rounds)]
    tracker = tracked(rounds, raw=raw, relative_margin=beta)
    certificate = tracker.certificate()
    assert certificate.holds
    assert certificate.totals["n_rounds"] == 40
    names = [check.name for check in certificate.bounds]
    assert names == (["master_bound"] if raw else ["mass_hindsight_bound", "mixing_data_bound", "mixing_bound"])
    assert "covers one" in certificate.not_covered["mass_bound"]


def test_identical_shards_attain_the_bound():
    # Documents +-e_t in round t, the one ranked first labelled irrelevant: the stream that attains the mass theorem, K times.
    d, K = 12, 4
    queries = [(np.array([np.eye(d)[t], -np.eye(d)[t]]), np.array([1, 0])) for t in range(d)]
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread"), {"u": np.full(d, 0.5)})
    mixed = trained(tracker, [[part] * K for part in cut(queries, 3)])
    certificate = mixed.certificate()
    loss = K * d * (1.0 - 1.0 / np.log2(3.0))
    assert certificate.loss == pytest.approx(loss)
    assert certificate.bound("mass_hindsight_bound") == pytest.approx(loss)
    # ||u|| sqrt(K Q): sqrt(d / 4) sqrt(K K d (2 l)^2) = K d l
    assert certificate.bound("mixing_data_bound") == pytest.approx(loss)


def test_todays_bounds_are_violated_by_mixed_weights_and_refused():
    d, K = 12, 16
    queries = [(np.array([np.eye(d)[t], -np.eye(d)[t]]), np.array([1, 0])) for t in range(d)]
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread"), {"u": np.full(d, 0.5)})
    mixed = trained(tracker, [[part] * K for part in cut(queries, 3)])
    norm, square = np.sqrt(d / 4.0), mixed.totals.squared_gradient_norms
    assert mixed.totals.loss > norm * np.sqrt(square) * 3.9  # what mass_data_bound would say, 1 / sqrt(K) of the loss
    with pytest.raises(ValueError, match="covers one machine, not of weights mixed from several machines"):
        mixed.certificate().bound("mass_data_bound")


def test_what_the_exact_form_alone_covers():
    queries = linear_queries(40)
    rounds = [cut(queries[:20], 4), cut(queries[20:], 2)]
    exact = ["mass_hindsight_bound"]
    differing = tracked(rounds)
    after = learned(tracked([cut(queries, 4)]), queries[:5])
    base = learned(LossTracker(PerceptronRanker(), {"u": np.ones(4)}), queries[:5])
    began = mix([learned(fork(base), part) for part in cut(queries[5:], 2)], base)
    for tracker in (differing, after, began):
        certificate = tracker.certificate()
        assert [check.name for check in certificate.bounds] == exact
        assert certificate.holds
    assert learned(LossTracker(PerceptronRanker(), {"u": np.ones(4)}), queries).certificate().bound("mass_data_bound") > 0.0


def test_the_account_of_a_tracker_adds_up():
    queries = linear_queries(40)
    base = learned(LossTracker(PerceptronRanker(), {"u": np.ones(4)}, measure_served=True), queries[:8])
    shards = [learned(fork(base), part) for part in cut(queries[8:], 2)]
    totals, mixed = base.totals, mix(shards, base)
    for name in ("n_rounds", "n_mistakes", "loss", "served_loss", "mass", "squared_gradient_norms"):
        both = sum(getattr(shard.totals, name) - getattr(totals, name) for shard in shards)
        assert getattr(mixed.totals, name) == pytest.approx(getattr(totals, name) + both)
    assert max(shard.totals.R_X for shard in shards) == mixed.totals.R_X
    assert mixed.served_interval().n == sum(shard.served_interval().n for shard in shards) - base.served_interval().n
    assert to_bytes(from_bytes(to_bytes(mixed))) == to_bytes(mixed)
    learned(mixed, queries[:2])
