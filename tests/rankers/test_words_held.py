"""Words under Ctrl-C, errors, threads, and on several machines."""

import copy
import functools
import pickle
import threading

import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank.base.schema import declared_state
from online_rank.distributed import fork, mix
from online_rank.query.words import keys_of
from online_rank.rankers import worded
from online_rank.storage.files import from_bytes, to_bytes
from tests.base.test_interrupts import interrupted
from tests.rankers.test_words import shop

KINDS = {"title": "text", "q": "text"}


def asked(n, seed=0):
    """Queries with words, more brands than levels have places, and words and a segment of the query."""
    for t, (x, y) in enumerate(shop(n, seed)):
        documents = {name: {**one, "brand": f"b{(i * t) % 9}"} for i, (name, one) in enumerate(x.items())}
        yield documents, y, {"q": f"w{t % 7} w{t % 5}", "segment": f"s{t % 2}"}


def taught(n, seed=0, **given):
    model = AdditiveRanker(trees=0, kinds=KINDS, max_levels=4, **given)
    for x, y, context in asked(n, seed):
        model.learn_one(x, y, context=context)
    return model


@pytest.mark.slow
def test_no_interrupt_tears_words():
    model = taught(8)
    x, y, context = next(asked(1, seed=4))
    x = {name: {**one, "title": f"{one['title']} new{name}"} for name, one in x.items()}
    after = copy.deepcopy(model)
    after.learn_one(x, y, context=context)
    before, after, instant, met = to_bytes(model), to_bytes(after), 0, []
    assert before != after
    learner = copy.deepcopy(model)
    while interrupted(functools.partial(learner.learn_one, x, y, context=context), instant):
        met.append(to_bytes(learner))
        assert met[-1] in (before, after), f"torn by an interrupt before line {instant}"
        if met[-1] == before:
            # What was undone is found again by its keys, too.
            assert learner.predict_one(x, context=context) == model.predict_one(x, context=context)
        learner = copy.deepcopy(model)
        instant += 7
    assert before in met
    assert after in met


def test_a_model_of_a_pipeline_is_as_before_an_error_behind_its_words(monkeypatch):
    """The words have learned when the curves fail."""
    model = taught(8)
    before, ranked = to_bytes(model), ranked_of(model)
    for error in (MemoryError, KeyboardInterrupt):

        def fail(*_arguments, error=error):
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(AdditiveRanker, "_learn_features", fail)
            x, y, context = next(asked(1, seed=4))
            with pytest.raises(error):
                model.learn_one(x, y, context=context)
        assert to_bytes(model) == before
        assert ranked_of(model) == ranked


def _first(seed):
    x, _, context = next(asked(1, seed=seed))
    return x, context


def ranked_of(model):
    x, context = _first(3)
    return model.predict_one(x, context=context)


@pytest.mark.slow
def test_threads_rank_and_save_while_one_learns():
    model, stream, done, failed = taught(4), [*asked(60, seed=1)], threading.Event(), []
    plain, states = copy.deepcopy(model), set()
    states.add(to_bytes(plain))
    for x, y, context in stream:
        plain.learn_one(x, y, context=context)
        states.add(to_bytes(plain))

    def read():
        try:
            while not done.is_set():
                x, context = _first(9)
                assert all(map(np.isfinite, model.predict_one(x, context=context).values()))
                assert to_bytes(model) in states
                pickle.dumps(model)
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for x, y, context in stream:
        model.learn_one(x, y, context=context)
    done.set()
    for reader in readers:
        reader.join()
    assert not failed
    assert to_bytes(model) == to_bytes(plain)


@pytest.mark.parametrize("taken", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: from_bytes(to_bytes(m))])
def test_copies_continue_as_the_model_does(taken):
    model = taught(10)
    other = taken(model)
    for x, y, context in asked(5, seed=2):
        for each in (model, other):
            each.learn_one(x, y, context=context)
    assert to_bytes(other) == to_bytes(model)


def test_a_block_with_words_levels_and_contexts_is_its_queries():
    queries, many = [*asked(12)], AdditiveRanker(trees=0, kinds=KINDS, max_levels=4)
    many.learn_many(
        [one for x, _, _ in queries for one in x.values()],
        [grade for _, y, _ in queries for grade in y.values()],
        np.repeat(np.arange(12), 12),
        context=[context for _, _, context in queries],
    )
    one = AdditiveRanker(trees=0, kinds=KINDS, max_levels=4)
    for x, y, context in queries:
        one.learn_one([*x.values()], [*y.values()], context=context)
    assert to_bytes(one) == to_bytes(many)


def test_machines_mix_words_by_their_precisions():
    base = taught(6)
    shards = [fork(base) for _ in range(2)]
    for k, shard in enumerate(shards):
        for x, y, context in asked(6, seed=10 + k):
            x = {name: {**one, "title": f"{one['title']} only{k}"} for name, one in x.items()}
            shard.learn_one(x, y, context=context)
    mixed = mix(shards, base=base)
    keys = keys_of(["title="], [["w1", "only0", "only1"]])
    # Of the sums of a regression, P and P w, the base's counts once; all as of one clock.
    held = [declared_state(one).words for one in (base, *shards)]
    clock, sums = max(declared_state(words).numbers[-2] for words in held), []
    for words in held:
        weight, precision, count, last = declared_state(words).table[words.rows_of(keys[:1])[0]]
        left = 2.0 ** (last - clock)
        sums.append(np.array([10.0 + left * precision, (10.0 + left * precision) * weight, left * count]))
    whole = sums[1] + sums[2] - sums[0]
    expected = whole[1] / whole[0]
    made = declared_state(mixed).words
    rows = made.rows_of(keys)
    assert (rows >= 0).all()
    assert declared_state(made).table[rows[0], :3] == pytest.approx([expected, whole[0] - 10.0, whole[2]], rel=1e-6)
    assert made.n_lately == pytest.approx(18.0, rel=0.01)
    idle = mix([fork(base)] * 3, base)
    one, same = declared_state(idle).words.weights_of(keys[:1]), declared_state(base).words.weights_of(keys[:1])
    assert one == pytest.approx(same)
    assert to_bytes(from_bytes(to_bytes(mixed))) == to_bytes(mixed)
    x, context = _first(20)
    assert all(map(np.isfinite, mixed.predict_one(x, context=context).values()))


def test_words_that_machines_begin_have_lost_what_was_lost_once():
    """All candidates of the blend of words begin with the loss before them: a base without words counts once."""
    plain = [([{"n": 1.0 * i, "m": -1.0 * j} for i, j in zip((3, 1, 2), (1, 2, 1), strict=True)], [0, 2, 1])] * 12
    base = AdditiveRanker(kinds={"title": "text"}, trees=0)
    for x, y in plain:
        base.learn_one(x, y)
    shards = [fork(base) for _ in range(3)]
    for shard in shards[:2]:
        for x, y, context in asked(4):
            shard.learn_one(x, y, context=context)
    for x, y in plain[:4]:
        shards[2].learn_one(x, y)
    mixed = mix(shards, base)
    before, after = base.account.served, sum(one.words_beside.account.served for one in shards[:2])
    assert before > 0.3
    assert mixed.words_beside.account.served == pytest.approx(after + shards[2].account.served - 2.0 * before)
    assert (mixed.words_beside.losses < mixed.words_beside.account.served + 1.0 + 8.0).all()


def test_words_of_machines_are_no_more_than_one_may_have(monkeypatch):
    monkeypatch.setattr(worded, "WORDS_OF_FEATURE", 1)
    monkeypatch.setattr(AdditiveRanker, "max_features", 40)
    shards = [AdditiveRanker(kinds={"title": "text"}, trees=0) for _ in range(2)]
    for k, shard in enumerate(shards):
        for t in range(10):
            shard.learn_one([{"title": f"a{k}{t}{i} b{k}{t}{i}"} for i in range(2)], [0, 1])
    with pytest.warns(UserWarning, match="has the most words"):
        mixed = mix(shards)
    assert mixed.n_words == 35


def test_machines_pool_the_kinds_of_texts():
    """A machine that has met few texts, or none, does not decide for those that have met many."""
    titles = [[{"title": f"a long title number {t} {i}", "price": float(i)} for i in range(4)] for t in range(12)]
    prices = [[{"price": float(i), "brand": "acme" if i % 2 else "best"} for i in range(4)] for _ in range(30)]
    texts, numbers = AdditiveRanker(trees=0), AdditiveRanker(trees=0)
    for x in titles:
        texts.learn_one(x, [0, 1, 0, 2])
    for x in prices:
        numbers.learn_one(x, [0, 1, 0, 2])
    for pair in ([texts, numbers], [numbers, texts]):
        mixed = mix(pair)
        assert mixed.feature_kinds == {"title": "text", "price": "number", "brand": "category"}
        n_met = sum(declared_state(one).kinds.n_queries for one in pair if declared_state(one).kinds)
        assert declared_state(mixed).kinds.n_queries == n_met
        mixed.learn_one(titles[0], [0, 1, 0, 2])
        assert from_bytes(to_bytes(mixed)).feature_kinds == mixed.feature_kinds


def test_machines_keep_the_levels_that_count_most():
    base = AdditiveRanker(max_levels=4, trees=0)
    shards = [fork(base), fork(base)]
    for k, shard in enumerate(shards):
        for t in range(20):
            # One machine met each of its levels more often.
            levels = [f"{'ab'[k]}{(t + i) % (6 + 3 * k)}" for i in range(3)]
            shard.learn_one([{"brand": level, "price": 1.0 * i} for i, level in enumerate(levels)], [0, 1, 2])
    mixed = mix(shards, base)
    own = [name[2] for name in mixed.feature_names if isinstance(name, tuple) and name[2] is not None]
    assert len(own) == 4
    query = [{"brand": level, "price": 1.0} for level in ("a1", "b1", "new")]
    assert np.isfinite(mixed.predict_one(query)).all()
    mixed.learn_one(query, [0, 1, 2])
    assert to_bytes(from_bytes(to_bytes(mixed))) == to_bytes(mixed)
