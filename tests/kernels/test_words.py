"""Kernels of words against a slow learner, and against dicts."""

import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank._kernels import words as kernels
from online_rank.base.schema import declared_state
from online_rank.query.words import entries_of, joined
from online_rank.rankers.words import Words, _order_of
from tests.reference.words import SlowWords


def learned(words, documents, y, scores, weight=1.0, half_lives=0.01, query=0):
    n = len(documents)
    tokens = joined(
        n, [entries_of(n, "title", range(n), [[w for w, x in d.items() for _ in range(int(x))] for d in documents])]
    )
    rule = AdditiveRanker()._rule(n)
    return tokens, words.learn(tokens, y, weight, np.empty(0), scores, half_lives, 10**6, rule, 0, query)


def standardised(y):
    return (y - y.mean()) / y.std()


def test_the_filter_equals_the_slow_learner():
    words, slow, rng = Words(), SlowWords(), np.random.default_rng(0)
    squares = weights = 0.0
    for query in range(12):
        m = 7
        documents = [{f"w{j}": float(rng.integers(1, 3)) for j in rng.choice(9, 4, replace=False)} for _ in range(m)]
        y, scores = rng.integers(0, 3, m), rng.normal(size=m)
        y[:2] = 0, 2
        weight, half_lives = float(rng.choice([0.5, 1.0, 2.0])), float(rng.choice([0.0, 0.5]))
        scale = np.sqrt(squares / weights) if squares else 1.0
        own = (scores - scores.mean()) / scale
        tokens, _ = learned(words, documents, y, scores, weight, half_lives, query)
        order = _order_of(tokens, words.rows_of(tokens.keys), scores, y)
        slow.learn(documents, own, standardised(y), weight, half_lives, order.tolist())
        # Running mean squares of the scores next to the words.
        squares, weights = 0.99 * squares + scores.var(), 0.99 * weights + 1.0
        names = [*slow.words]
        n = len(names)
        rows = words.rows_of(joined(n, [entries_of(n, "title", range(n), [[name] for name in names])]).keys)
        table = declared_state(words).table[rows]
        expected = np.array([slow.words[name][:3] for name in names])
        left = 2.0 ** (table[:, kernels.LAST] - declared_state(words).numbers[kernels.CLOCK])
        now = np.array([2.0 ** (slow.words[name][3] - slow.clock) for name in names])
        assert table[:, kernels.WEIGHT] == pytest.approx(expected[:, 0], abs=1e-12)
        assert table[:, kernels.PRECISION] * left == pytest.approx(expected[:, 1] * now)
        assert table[:, kernels.COUNT] * left == pytest.approx(expected[:, 2] * now)
        assert declared_state(words).numbers[kernels.SLOPE] == pytest.approx(slow.slope)


def test_the_first_document_by_hand():
    words = Words()
    y, scores = np.array([1, 0]), np.zeros(2)
    learned(words, [{"red": 1.0}, {"blue": 1.0}], y, scores)
    n = 2
    rows = words.rows_of(joined(n, [entries_of(n, "title", range(n), [["red"], ["blue"]])]).keys)
    # Targets are 1 and -1, S = 1 + 1 / 10, and each weight is v e / S with v = 1 / 10.
    assert declared_state(words).table[rows, kernels.WEIGHT] == pytest.approx([0.1 / 1.1, -0.1 / 1.1])
    # Its precision grows by 1 / (S - v) = 1.
    assert declared_state(words).table[rows, kernels.PRECISION] == pytest.approx([1.0, 1.0])


def test_the_index_finds_what_a_dict_finds():
    rng = np.random.default_rng(1)
    words, known = Words(), {}
    for _ in range(40):
        names = [f"w{j}" for j in rng.choice(2000, 60)]
        learned(words, [dict.fromkeys(names[:30], 1.0), dict.fromkeys(names[30:], 1.0)], np.array([0, 1]), np.zeros(2))
        for name in dict.fromkeys([*names]):
            known.setdefault(name, None)
    assert words.n_words == len(known)
    n = len(known)
    rows = words.rows_of(joined(n, [entries_of(n, "title", range(n), [[name] for name in known])]).keys)
    assert sorted(rows.tolist()) == [*range(n)]
    assert words.rows_of(np.array([1, 2, 3])).tolist() == [-1, -1, -1]


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        kernels.find(np.zeros(2, np.int32), np.zeros(1, np.int64), 2, np.zeros(1, np.int64), np.zeros(1, np.int64))
