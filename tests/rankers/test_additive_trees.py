"""Trees next to curves in `AdditiveRanker`: what they add, and that state, forms and joints hold with them too."""

import copy
import pickle

import numpy as np
import pytest

from online_rank import AdditiveRanker, load, measure, save
from online_rank._kernels import additive, beside, leaves, splitting, window
from online_rank.base.closed import form_of
from online_rank.base.schema import declared_state
from online_rank.base.undo import all_or_nothing
from online_rank.bounds import certificate_of
from online_rank.checks import yield_checks
from online_rank.distributed import fork, mix
from online_rank.distributed.mixing import shed
from online_rank.rankers import growing_trees, mixed_trees
from online_rank.rankers.growing_trees import MIXTURES, GrowingTrees, most_documents, most_trees
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference import growing_trees as reference
from tests.reference.forms import scores as of_form


def queries(n, d=4, m=30, seed=0, missing=0.0):
    """Queries whose grades depend on a product of two features."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        Z = rng.normal(size=(m, d))
        truth = 1.5 * Z[:, 0] * Z[:, 1] + 0.5 * Z[:, 2] + 0.2 * rng.normal(size=m)
        X = np.column_stack([np.exp(2 * Z[:, 0]), Z[:, 1:]])
        X[rng.random(X.shape) < missing] = np.nan
        yield X, np.digitize(truth, [0.0, 1.0, 2.0])


def trees_of(model):
    return model._trees


def taught(n=60, trees=400, **parameters):
    model = AdditiveRanker(trees=trees, **parameters)
    for X, y in queries(n):
        model.learn_one(X, y)
    return model


@pytest.fixture(scope="module")
def served():
    """A ranker that serves trees, while the next one is half grown."""
    model = taught(120)
    assert trees_of(model).n_served > 0
    assert trees_of(model).growth.integers[splitting.PHASE] != splitting.IDLE
    return model


@pytest.mark.slow
def test_a_model_can_be_loaded_in_every_phase_of_a_growing_tree():
    """Files were refused as damaged while a tree was parting documents, or copied documents for the next one."""
    model, phases = AdditiveRanker(), set()
    for X, y in queries(160, d=5, m=40):
        model.learn_one(X, y)
        phases.add(int(trees_of(model).growth.integers[splitting.PHASE]))
        assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)
    assert {splitting.COPY, splitting.SPLIT, splitting.PART} <= phases


def test_trees_see_what_curves_cannot(served):
    def loss(model):
        return sum(model.last_round.loss for X, y in queries(40, seed=5) if model.learn_one(X, y) is None)

    curves = taught(120, trees=0)
    assert loss(copy.deepcopy(served)) < 0.6 * loss(curves)


def test_without_trees_nothing_changes():
    model = AdditiveRanker(trees=0)
    assert trees_of(model) is None
    assert "_trees" in AdditiveRanker._schema


def test_curves_learn_as_without_trees(served):
    curves = taught(120, trees=0)
    for name in ("_weights", "_sums", "_gram", "_numbers", "_scales", "_losses", "_account"):
        assert np.array_equal(getattr(served, name), getattr(curves, name)), name


def test_curves_answer_alone_until_there_is_evidence():
    rng, model, curves, alone = np.random.default_rng(0), AdditiveRanker(trees=400), AdditiveRanker(trees=0), 0
    for _ in range(40):
        X = rng.normal(size=(12, 3))
        y = np.digitize(X @ [2.0, 1.0, -1.0], [0.0, 1.0, 2.0])
        if trees_of(model).n_served:
            break
        alone += 1
        assert model.predict_one(X) == curves.predict_one(X)
        model.learn_one(X, y)
        curves.learn_one(X, y)
        assert model.last_round.loss == curves.last_round.loss
    assert alone > 20
    assert trees_of(model).n_trees > 5


def test_a_score_is_curves_times_a_factor_and_a_leaf_of_each_tree(served):
    X, _ = next(queries(1, seed=9, missing=0.2))
    curves = taught(120, trees=0)
    factor, (splits, table) = trees_of(served).factor, trees_of(served).served()
    g = np.array([np.interp(X[:, j], *declared_state(served).front.knots(j)) for j in range(4)])
    for i, (score, of_curves) in enumerate(zip(served.predict_one(X), curves.predict_one(X), strict=True)):
        row = [reference.bin_of(None if np.isnan(X[i, j]) else g[j, i]) for j in range(4)]
        parts = [own[reference.leaf(row, split[:15], split[15:])] for split, own in zip(splits, table, strict=True)]
        assert score == pytest.approx(factor * of_curves + sum(parts))


def test_what_is_served_is_the_mean_of_the_candidates_by_their_shares(served):
    blend, trees, n = trees_of(served).blend, trees_of(served).growth.trees, trees_of(served).n_trees
    losses, account = blend[: beside.N_CANDIDATES], blend[beside.ACCOUNT :]
    eta = min(1.0, np.log(7) / account[2])
    pi = np.array([0.5] + [0.5 / 6] * 6) * np.exp(-eta * (losses - losses.min()))
    w = (pi / pi.sum()) @ MIXTURES
    squares, weights = blend[beside.SCALES : beside.FACTOR].reshape(3, 2).T
    scale = np.sqrt(squares / weights)
    assert trees_of(served).factor == pytest.approx(w[0])
    table = scale[0] * (w[1] / scale[1] * trees[:n, leaves.MEANS : leaves.SEEN] + w[2] / scale[2] * trees[:n, : leaves.MEANS])
    np.testing.assert_allclose(trees_of(served).served()[1], table)


@pytest.mark.slow
def test_candidates_lose_what_their_rankings_lose():
    model, alone = taught(60), taught(60, trees=0)
    for X, y in queries(20, seed=3):
        trees, curves = copy.deepcopy(trees_of(model)), np.array(alone.predict_one(X))
        g = np.array([np.interp(X[:, j], *declared_state(model).front.knots(j)) for j in range(4)])
        scores = np.zeros((3, len(X)))
        scores[0] = curves
        for k in range(trees.n_trees):
            for i in range(len(X)):
                v = reference.leaf(
                    [reference.bin_of(z) for z in g[:, i]], trees.growth.splits[k, :15], trees.growth.splits[k, 15:]
                )
                scores[1:, i] += trees.growth.trees[k, [leaves.MEANS + v, v]]
        squares, weights = trees.blend[beside.SCALES : beside.FACTOR].reshape(3, 2).T
        scores /= np.sqrt(squares / weights)[:, None]
        model.learn_one(X, y)
        alone.learn_one(X, y)
        told = trees_of(model).blend[: beside.N_CANDIDATES] - trees.blend[: beside.N_CANDIDATES]
        expected = [measure(model.measure).loss(c @ scores, y, ties="pessimistic") for c in MIXTURES]
        np.testing.assert_allclose(told, expected, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_block_equals_its_queries_one_by_one(missing):
    block = [*queries(40, missing=missing)]
    one, many, asked = (AdditiveRanker(trees=400) for _ in range(3))
    for X, y in block:
        one.learn_one(X, y)
        asked.predict_one(X)
        asked.learn_one(X, y)
    X, y, qid = np.vstack([X for X, _ in block]), np.concatenate([y for _, y in block]), np.repeat(np.arange(40), 30)
    many.learn_many(X, y, qid)
    assert not differing(one, many)
    assert not differing(one, asked)
    together = one.predict_many(X, qid)
    assert together.tolist() == [s for X, _ in block for s in one.predict_one(X)]


def differing(one, other):
    """Whether the files of two rankers differ."""
    return to_bytes(one) != to_bytes(other)


def test_files_and_copies_continue_a_half_grown_tree_with_the_same_bits(served, tmp_path):
    save(served, tmp_path / "model.orm")
    models = [copy.deepcopy(served), load(tmp_path / "model.orm"), pickle.loads(pickle.dumps(served))]
    for X, y in queries(30, seed=4):
        answers = [model.predict_one(X) for model in models]
        assert answers[0] == answers[1] == answers[2]
        for model in models:
            model.learn_one(X, y)
    assert not differing(models[0], models[1])
    assert not differing(models[0], models[2])
    assert trees_of(models[0]).n_grown > trees_of(served).n_grown


def learn_and_fail(model, X, y):
    with all_or_nothing(model):
        model.learn_one(X, y)
        model.learn_one(X, y)
        raise KeyError


def test_a_change_that_is_undone_leaves_a_half_grown_tree_as_it_was(served):
    model, before = copy.deepcopy(served), copy.deepcopy(served)
    for X, y in queries(12, seed=6):
        with pytest.raises(KeyError):
            learn_and_fail(model, X, y)
        assert not differing(model, before)
        for one in (model, before):
            one.learn_one(X, y)
    with pytest.raises(ValueError, match="finite"):
        model.learn_one(np.full((3, 4), np.inf), [0, 1, 2])
    assert not differing(model, before)


@pytest.mark.slow
@pytest.mark.parametrize("check", [*yield_checks(AdditiveRanker(trees=400))], ids=str)
def test_contract(check):
    check()


@pytest.mark.parametrize("relative", [True, False])
def test_it_has_a_closed_form(relative):
    model = AdditiveRanker(trees=400, relative=relative)
    for X, y in queries(120, missing=0.1):
        model.learn_one(X, y)
    assert trees_of(model).n_served > 0
    form = form_of(model)
    for X, _ in queries(5, seed=8, missing=0.2):
        X = np.concatenate([X, [[1e9, -1e9, 0.0, 0.0]]])
        np.testing.assert_allclose(form(X), model.predict_one(X), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(of_form(form, X), model.predict_one(X), rtol=1e-5, atol=1e-5)


def test_contributions_add_up_to_the_difference(served):
    X, _ = next(queries(1, seed=8))
    scores = served.predict_one(X)
    told = served.explain_one(X, 3, 7)
    assert told.exact
    assert told.difference == pytest.approx(scores[3] - scores[7], abs=1e-6)
    assert sum(told.contributions) + sum(told.pairs.values()) == pytest.approx(told.difference)
    assert told.contributions[0] != 0.0
    # The truth is a product of the first two features.
    assert ("1", "2") in told.pairs
    names = [name for name, _ in told.largest_first()]
    assert "1 x 2" in names
    back = served.explain_one(X, 7, 3)
    assert {pair: -value for pair, value in back.pairs.items()} == pytest.approx(told.pairs)


def test_no_tree_splits_by_a_feature_with_a_sign():
    model = taught(100, signs={"1": 1})
    trees = trees_of(model)
    split = trees.growth.splits[: trees.n_trees, leaves.N_NODES :] < leaves.NEVER
    assert trees.n_trees > 5
    assert split.any()
    assert (trees.growth.splits[: trees.n_trees, : leaves.N_NODES][split] != 0).all()


def test_features_that_are_new_are_missing_in_earlier_queries_and_levels_were_zero():
    model = AdditiveRanker(trees=400)
    rng = np.random.default_rng(1)
    for t in range(30):
        docs = [
            {"a": float(x), **({"b": float(x) ** 2, "c": "red" if x > 0 else "blue"} if t > 20 else {})}
            for x in rng.normal(size=8)
        ]
        model.learn_one(docs, rng.integers(0, 3, 8))
    trees, names = trees_of(model), list(model.feature_names)
    assert trees.window.bins.shape[0] == len(names) == 4
    early = trees.window.queries[trees.window.queries[:, window.NUMBER] <= 20]
    at = np.concatenate([np.arange(q[window.START], q[window.START] + q[window.SIZE]) for q in early if q[window.SIZE]]).astype(
        int
    )
    levels = [j for j, name in enumerate(names) if name not in ("a", "b")]
    assert (trees.window.bins[names.index("b")][at] == 0).all()
    assert (trees.window.bins[levels][:, at] == leaves.MIDDLE).all()
    assert (trees.window.bins[names.index("a")][at] > 0).all()


def test_trees_forget_features_that_leave(served):
    trees = copy.deepcopy(trees_of(served))
    trees.keep_only(np.array([0, 2, 3]))
    n = trees.n_trees
    before, after = trees_of(served).growth.splits[:n], trees.growth.splits[:n]
    features, split = before[:, :15], before[:, 15:] < leaves.NEVER
    assert (after[:, 15:][split & (features == 1)] == leaves.NEVER).all()
    assert (after[:, :15][split & (features == 3)] == 2).all()
    assert np.array_equal(trees.window.bins, trees_of(served).window.bins[[0, 2, 3]])
    assert trees.growth.integers[splitting.PHASE] == splitting.IDLE


def learn_all(model, stream):
    for x, y in stream:
        model.learn_one(x, y)


def test_features_leave_a_ranker_with_trees():
    model = AdditiveRanker(trees=100)
    model.max_features = 6
    rng = np.random.default_rng(2)
    stream = []
    for t in range(40):
        names = [f"x{j}" for j in range(t // 4, t // 4 + 4)]
        docs = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(10, 4)).tolist()]
        stream.append((docs, np.digitize([doc[names[0]] for doc in docs], [0.0, 1.0])))
    with pytest.warns(UserWarning, match="max_features"):
        learn_all(model, stream)
    assert len(trees_of(model).window.bins) == len(declared_state(model).weights) <= 6
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict_one(docs) == model.predict_one(docs)


def test_served_scores_and_weights_enter_the_account():
    model, plain = taught(30), taught(30)
    X, y = next(queries(1, seed=7))
    model.learn_one(X, y, served=-1.0 * y)
    assert model.last_round.loss == pytest.approx(measure(model.measure).loss(-1.0 * y, y, ties="pessimistic"))
    n, before = trees_of(plain).n_trees, trees_of(plain).growth.trees.copy()
    plain.learn_one(X, y, w=0.0)
    assert np.array_equal(trees_of(plain).growth.trees[:n], before[:n])
    assert trees_of(plain).n_queries == 30


def test_the_number_of_trees_follows_the_number_of_features():
    assert most_trees(400, 8) == 200
    assert most_trees(400, 60) == 240
    assert most_trees(400, 136) == 400
    assert most_trees(10, 136) == 10


def test_the_window_takes_eight_megabytes_at_most():
    assert most_documents(136) * (136 + 12) <= 8 << 20
    assert most_documents(5000) * (5000 + 12) <= 8 << 20
    assert most_documents(4) < 1 << 16


def test_a_ranker_of_few_queries_is_small():
    model = AdditiveRanker(trees=400)
    for X, y in queries(20, d=8, m=20):
        model.learn_one(X, y)
    assert sum(array.nbytes for array in trees_of(model).state()) < 50_000


def test_growth_takes_about_as_much_in_every_query():
    model, spent = AdditiveRanker(trees=400), []
    for X, y in queries(300, d=8, m=20):
        model.learn_one(X, y)
        spent.append(trees_of(model).growth.numbers[splitting.SPENT])
    # Later queries pay less.
    for steps in np.split(np.diff(spent)[99:], 8):
        assert steps.max() < 2.0 * np.median(steps)


def test_machines_are_mixed():
    base = taught(20)  # All trees together are fewer than the most.
    shards = [fork(base) for _ in range(2)]
    for i, shard in enumerate(shards):
        for X, y in queries(10, seed=20 + i):
            shard.learn_one(X, y)
    mixed = mix(shards, base)
    trees, parts = trees_of(mixed), [trees_of(shard) for shard in shards]
    assert trees.n_grown == trees_of(base).n_grown + sum(one.n_grown - trees_of(base).n_grown for one in parts)
    numbers = trees.window.queries[: trees.n_queries, window.NUMBER]
    assert trees.n_queries == 20 + 2 * 10
    assert (numbers < 20).sum() == 20  # The base counts once.
    X, _ = next(queries(1, seed=30))
    bins = np.array([np.interp(X[:, j], *declared_state(mixed).front.knots(j)) for j in range(4)])

    def value(one, i, part):
        row = [reference.bin_of(g) for g in bins[:, i]]
        return sum(
            one.growth.trees[k, part + reference.leaf(row, one.growth.splits[k, :15], one.growth.splits[k, 15:])]
            for k in range(one.n_trees)
        )

    for part in (leaves.VALUES, leaves.MEANS):
        for i in range(5):
            # What each machine has learned since, over what new trees have left of the base.
            left = [0.99 ** (one.n_grown - trees_of(base).n_grown) * value(trees_of(base), i, part) for one in parts]
            new = [value(one, i, part) - faded for one, faded in zip(parts, left, strict=True)]
            assert value(trees, i, part) == pytest.approx((left[0] + left[1]) / 2 + (new[0] + new[1]) / 2**0.5)
    blends = [one.blend[: beside.SCALES] for one in (trees, trees_of(base), *parts)]
    sums = blends[1] + (blends[2] - blends[1]) + (blends[3] - blends[1])
    sums[beside.ACCOUNT + 6] = 1.0
    np.testing.assert_allclose(blends[0], sums)
    mixed.learn_one(X, np.arange(len(X)) % 3)


def test_one_machine_keeps_its_trees():
    base = taught(20)
    shard = fork(base)
    for X, y in queries(10, seed=20):
        shard.learn_one(X, y)
    mixed, own = trees_of(mix([shard], base)), trees_of(shard)
    order = np.argsort(own.growth.trees[: own.n_trees, leaves.BORN])
    np.testing.assert_allclose(mixed.growth.trees[: mixed.n_trees, : leaves.BORN], own.growth.trees[order, : leaves.BORN])


def columns_of(model):
    """The columns that the growing tree may split by, and the first features of the trees."""
    growth = trees_of(model).growth
    chosen = growth.integers[splitting.CHOSEN :][: growth.integers[splitting.COLUMNS]]
    return chosen.tolist(), growth.splits[: trees_of(model).n_trees, 0].tolist()


def test_shards_with_different_numbers_grow_different_trees(tmp_path):
    """Shards drew the same columns and queries, so K machines grew K times nearly the same trees."""
    base, stream = AdditiveRanker(), list(queries(24, d=40))
    shards = [fork(base, number=number) for number in (0, 1, 2, 1)]
    for X, y in stream:
        for one in (base, *shards):
            one.learn_one(X, y)
    assert columns_of(shards[0]) == columns_of(base)  # One machine alone draws as before.
    assert len({str(columns_of(one)) for one in shards}) == 3
    assert to_bytes(shards[1]) == to_bytes(shards[3])
    save(shards[1], tmp_path / "shard")
    assert columns_of(load(tmp_path / "shard")) == columns_of(shards[1])


def test_after_a_mix_trees_are_numbered_as_on_one_machine():
    base = taught(20)
    shards = [fork(base, number=number) for number in range(3)]
    for i, shard in enumerate(shards):
        for X, y in queries(10, seed=20 + i):
            shard.learn_one(X, y)
    mixed = trees_of(mix(shards, base))
    assert mixed.n_grown == trees_of(base).n_grown + sum(trees_of(one).n_grown - trees_of(base).n_grown for one in shards)
    born = mixed.growth.trees[: mixed.n_trees, leaves.BORN]
    assert born.tolist() == list(range(mixed.n_grown - mixed.n_trees, mixed.n_grown))
    # A copy of a copy is numbered by the last number.
    again = trees_of(fork(shards[2], number=1))
    assert again.n_grown == trees_of(shards[2]).n_grown
    assert again.growth.trees[:, leaves.BORN].max() < again.n_grown


def test_mixing_equal_trees_keeps_them_and_the_order_of_machines_hardly_matters():
    base = taught(20)
    idle, before = trees_of(mix([fork(base, number=number) for number in range(3)], base)), trees_of(base)
    np.testing.assert_allclose(idle.growth.trees[: idle.n_trees], before.growth.trees[: before.n_trees], rtol=1e-12)
    np.testing.assert_array_equal(idle.growth.splits[: idle.n_trees], before.growth.splits[: before.n_trees])
    np.testing.assert_allclose(idle.blend, before.blend, rtol=1e-12)
    np.testing.assert_array_equal(idle.window.queries[:20, window.SIZE :], before.window.queries[:20, window.SIZE :])
    shards = [fork(base, number=number) for number in range(3)]
    for i, shard in enumerate(shards):
        for X, y in queries(4, seed=20 + i):
            shard.learn_one(X, y)
    # All trees together are fewer than the most. Maps of features keep other samples, so scores differ a little.
    one, other = mix(shards, base), mix(shards[::-1], base)
    values = [np.sort(trees_of(each).growth.trees[: trees_of(each).n_trees, : leaves.BORN], axis=0) for each in (one, other)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-12)
    X, _ = next(queries(1, seed=9))
    assert np.corrcoef(one.predict_one(X), other.predict_one(X))[0, 1] > 0.999


def shards_of(base, n, each=40):
    shards = [fork(base, number=number) for number in range(n)]
    for i, shard in enumerate(shards):
        for X, y in queries(each, seed=20 + i):
            shard.learn_one(X, y)
    return shards


def test_a_machine_that_learned_nothing_holds_up_nobody():
    """It halved what the other one had learned in curves, and kept seven tenths of what it had learned in trees."""
    base = taught(60)
    (shard,) = shards_of(base, 1)
    alone, both = mix([shard], base), mix([shard, fork(base, number=1)], base)
    for name in ("_weights", "_plain", "_curvatures", "_gram", "_pending", "_slow_gram", "_numbers", "_scales"):
        np.testing.assert_allclose(getattr(both, name), getattr(alone, name), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(trees_of(both).growth.trees, trees_of(alone).growth.trees, rtol=1e-12)
    np.testing.assert_allclose(trees_of(both).growth.numbers, trees_of(alone).growth.numbers, rtol=1e-12)
    np.testing.assert_allclose(trees_of(both).blend, trees_of(alone).blend, rtol=1e-12)


@pytest.mark.parametrize("half_life", [(1e9, 50), (1000, 50), ("7d", "1h")])
def test_averages_of_a_mix_have_as_many_vectors_as_on_one_machine(half_life):
    """The vectors of the base were in them once for each machine, and faded by the queries of one."""
    base, stream = AdditiveRanker(trees=0, half_life=half_life), list(queries(90))
    at = (lambda t: {"at": 60.0 * t}) if isinstance(half_life[0], str) else lambda t: {}
    alone = copy.deepcopy(base)
    for t, (X, y) in enumerate(stream):
        alone.learn_one(X, y, **at(t))
        if t < 60:
            base.learn_one(X, y, **at(t))
    shards = [fork(base, number=number) for number in range(2)]
    for t, (X, y) in enumerate(stream[60:], 60):
        shards[t % 2].learn_one(X, y, **at(t))
    mixed, counts = mix(shards, base), slice(additive.AVERAGES, additive.NUMBERS)
    if isinstance(half_life[0], str):
        # A machine meets half as many queries in an hour.
        assert (mixed._numbers[counts] < alone._numbers[counts]).all()
    else:
        assert mixed._numbers[counts] == pytest.approx(alone._numbers[counts])
    if half_life[0] == 1e9:  # Nothing fades.
        began, *own = (one._numbers[additive.AVERAGES] * one._weights[:, :, 1] for one in (base, *shards))
        np.testing.assert_allclose(90 * mixed._weights[:, :, 1], sum(own) - began, rtol=1e-6, atol=1e-9)


def test_windows_with_more_queries_than_there_is_room_for_are_mixed(monkeypatch):
    """Two machines whose queries have few documents: the mix ended in an IndexError."""
    monkeypatch.setattr(growing_trees, "_DOCUMENTS_OF_QUERY", 1 << 11)
    base = AdditiveRanker()
    mixed = mix(shards_of(base, 2), base)
    assert trees_of(mixed).n_queries == growing_trees.most_queries(4) == 31
    mixed.learn_one(*next(queries(1)))


@pytest.mark.parametrize("room", [100_000, 1800])
def test_mixes_lose_nothing_by_what_machines_shed(monkeypatch, room):
    """Models are sent without the window of their base, and without more than a mix may take of each."""
    for module in (growing_trees, mixed_trees):
        monkeypatch.setattr(module, "most_documents", lambda d: room)
    base = taught(60)
    shards = shards_of(base, 2)
    mixed, sizes = to_bytes(mix(shards, base)), [len(to_bytes(shard)) for shard in shards]
    for shard in shards:
        shed(shard, base, 2)
    assert to_bytes(mix([from_bytes(to_bytes(shard)) for shard in shards], base)) == mixed
    assert max(len(to_bytes(shard)) for shard in shards) < 0.8 * min(sizes)
    assert {trees_of(shard).n_queries for shard in shards} == {min(40, room // 60)}
    shards[0].learn_one(*next(queries(1)))  # If it cannot be sent, it learns on.


def test_an_emptied_window_holds_no_query_and_fills_again(served):
    model = copy.deepcopy(served)
    scores = model.predict_one(next(queries(1, seed=9))[0])
    assert trees_of(model).empty_window() == 120
    assert not trees_of(model).window.bins.any()
    assert not trees_of(model).growth.sample.any()
    assert not trees_of(model).growth.packed.any()
    assert model.predict_one(next(queries(1, seed=9))[0]) == scores
    for X, y in queries(20, seed=10):
        model.learn_one(X, y)
    assert trees_of(model).n_queries == 20
    assert trees_of(model).n_grown > trees_of(served).n_grown


def test_the_certificate_bounds_what_was_served(served):
    certificate = certificate_of(served)
    hedge = served.trees_beside
    assert certificate.loss == hedge.account.served
    own, eta = served.account, hedge.step
    curves = (
        served.candidate_losses
        - np.log(served.candidate_prior) / served.step
        + own.mixability_gap
        + hedge.losses[0]
        - own.mixed
    )
    against = np.append(curves + np.log(2) / eta, hedge.losses[1:] + np.log(12) / eta)
    outer = hedge.account.mixability_gap + hedge.account.served - hedge.account.mixed
    assert certificate.bound("blend_bound") == pytest.approx(against.min() + outer)
    assert certificate.loss <= certificate.bound("blend_bound")


def test_trees_count_what_teaches_and_not_queries(served):
    """The window, growth, leaves and the evidence for candidates are as they were after queries that teach nothing."""
    model = copy.deepcopy(served)

    def parts():
        state = vars(declared_state(trees_of(model)))
        return {name: np.copy(value) for name, value in state.items() if isinstance(value, np.ndarray)}

    before = parts()
    for X, _ in queries(50, seed=9):
        model.learn_one(X, np.zeros(len(X), int))
        model.learn_one(X, np.arange(len(X)) % 2, w=0.0)
    after = parts()
    assert {"bins", "queries", "numbers", "blend"} <= set(before)
    for name in before:
        assert np.array_equal(before[name], after[name]), name


def test_leaves_shrink_by_the_weight_of_what_they_have_seen(served):
    """Queries of half the weight count half."""
    added = []
    for w in (1.0, 0.5):
        model = copy.deepcopy(served)
        # A weight above those before: all weights are relative to the heaviest.
        for X, y in queries(3, seed=9):
            model.learn_one(X, y, w=w)
        growth = trees_of(model).growth
        n = min(trees_of(served).n_trees, trees_of(model).n_trees)
        seen = slice(leaves.SEEN, leaves.AGE)
        added.append((growth.trees[:n, seen] - trees_of(served).growth.trees[:n, seen]).sum(axis=1).max())
    assert added[1] == pytest.approx(0.5 * added[0], rel=0.05)


def test_growth_is_paid_most_at_first_and_by_the_number_of_features():
    def credits(d):
        trees = GrowingTrees()
        trees.add_features(np.zeros(d, dtype=bool))
        limits = trees.limits(400)
        return [round(d * limits[beside.EARLY]), round(d * limits[beside.CREDIT]), round(limits[beside.HALF])]

    assert credits(8) == [10_800, 200 + 8 * 7, 2500]
    assert credits(136) == [160 * 136, 200 + 136 * 7, 52 * 136]
    assert credits(1000) == [25_000, 200 + 1000 * 7, 8000]
    assert credits(5000) == [200 + 5000 * 7] * 2 + [8000]


def test_documents_beyond_the_first_64_pay_for_no_growth():
    model = AdditiveRanker()
    model.learn_one(*next(queries(1, m=200)))
    assert trees_of(model).growth.numbers[splitting.TYPICAL] == 64 * 4
