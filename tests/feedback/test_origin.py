"""Whether the lists of a log came about as declared."""

import math
import tracemalloc

import numpy as np
import pytest

from online_rank.feedback import Impression, OriginTest, PlackettLuce

M, K = 6, 4


def shuffled(rng, t):
    return [*range(M)], Impression.shuffled(rng.permutation(M)[:K].tolist(), M), rng.normal(size=(M, 2))


def drawn(rng, t):
    X = rng.normal(size=(M, 2))
    shown = PlackettLuce(k=K, seed=3).show(X[:, 0], t, 0.5)
    return [*range(M)], Impression(shown.order, propensities=shown.chances), X


def rounded(rng, t):
    candidates, shown, X = shuffled(rng, t)
    return candidates, Impression(shown.order, propensities=tuple(math.floor(100 * p) / 100 for p in shown.chances)), X


def placed(rng, t):
    return [*range(M)], Impression(rng.permutation(M)[:K].tolist(), placements=(1 / M,) * K), None


@pytest.mark.parametrize("log", [shuffled, drawn, rounded, placed])
def test_what_is_true_is_not_refused(log):
    rng, test = np.random.default_rng(1), OriginTest()
    for t in range(500):
        candidates, shown, X = log(rng, t)
        test.update(candidates, shown, X)
    test.finish()
    assert (test.n, test.n_alone) == (500, 0)
    assert test.evidence < 2.0


def by_a_feature(rng, t):
    X = rng.normal(size=(M, 2))
    order = np.argsort(-X[:, 0] + 0.5 * rng.normal(size=M))[:K]
    return [f"{t}/{i}" for i in range(M)], Impression.shuffled([f"{t}/{i}" for i in order], M), X


def the_best_shuffled(rng, t):
    X = rng.normal(size=(M, 1))
    return [*range(M)], Impression.shuffled(rng.permutation(np.argsort(-X[:, 0])[:3]).tolist(), M), X


def by_the_document(rng, t):
    ids = rng.permutation(100)[:M]
    return ids.tolist(), Impression.shuffled(np.sort(ids).tolist(), M), None


def deterministic(rng, t):
    topic = int(rng.integers(20))
    order = np.random.default_rng(topic).permutation(M).tolist()
    return [(topic, i) for i in range(M)], Impression.shuffled([(topic, i) for i in order]), None


def slate_of_a_catalogue(rng, t):
    ids = rng.permutation(34)[:3].tolist()
    return ids, Impression(ids, placements=(1 / 34,) * 3), None


def scores_as_probabilities(rng, t):
    return [*range(M)], Impression(rng.permutation(M)[:3].tolist(), propensities=(0.9, 0.8, 0.7)), None


@pytest.mark.parametrize(
    ("log", "reason", "within"),
    [
        (by_a_feature, "a learner foresees the documents", 40),
        (the_best_shuffled, "a learner foresees the documents", 40),
        (by_the_document, "a learner foresees the documents", 100),
        (deterministic, "the list shown before comes again", 60),
        (slate_of_a_catalogue, "the inverse probabilities are 11.3 times what they can be", 8),
        (scores_as_probabilities, "the probabilities are too large", 200),
    ],
)
def test_what_is_not_true_is_refused_with_its_rows(log, reason, within):
    rng, test = np.random.default_rng(2), OriginTest()

    def read():
        for t in range(within):
            test.update(*log(rng, t), where=f"row {t}")

    with pytest.raises(ValueError, match=rf"^row \d+, row \d+, row \d+: the lists were not drawn as claimed\. .*{reason}"):
        read()
    assert test.evidence >= 1000.0


@pytest.mark.parametrize(
    ("candidates", "shown", "message"),
    [
        ("a", Impression(("a",), propensities=(0.1,)), "'a' is the only candidate that was left, but its probability is 0.1"),
        ("a", Impression(("a",), placements=(0.1,)), "'a' is the only candidate that was left"),
        ("ab", Impression(("b", "a"), propensities=(0.5, 0.3)), "'a' is the only candidate that was left"),
        ("abc", Impression(("b",), propensities=(1.0,)), "'b' has probability 1, although 2 other candidates were left"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused_at_once(candidates, shown, message):
    with pytest.raises(ValueError, match=f"^row 7: document {message}"):
        OriginTest().update(tuple(candidates), shown, where="row 7")


def test_logs_that_teach_nothing_are_refused_at_the_end():
    with pytest.raises(ValueError, match="the log has no lists"):
        OriginTest().finish()
    alone = OriginTest()
    alone.update(("a",), Impression(("a",)))
    with pytest.raises(ValueError, match="each list has one document and no other candidate"):
        alone.finish()
    again = OriginTest()
    for _ in range(11):
        again.update(("a", "b"), Impression(("b", "a")))
    with pytest.raises(ValueError, match=r"all 10 lists whose candidates came before are equal .* the log is deterministic"):
        again.finish()
    again.update(("a", "b"), Impression(("a", "b")))
    again.finish()


def test_the_expectations_are_at_most_one():
    # All first documents of three, by their probabilities: the number on the sure ones, by enumeration.
    rng = np.random.default_rng(0)
    for q in rng.dirichlet((0.3, 0.3, 0.3), size=200):
        assert (q * q / (q**2 + (1 - q) ** 2)).sum() <= 1.0 + 1e-12


@pytest.mark.slow
def test_a_true_log_is_refused_as_rarely_as_stated():
    refused = 0
    for seed in range(200):
        rng, test = np.random.default_rng(seed), OriginTest(alpha=0.05)
        try:
            for t in range(200):
                test.update(*drawn(rng, t))
        except ValueError:
            refused += 1
    assert refused <= 18  # 5 % of 200, and 2.6 deviations


def test_lists_that_never_come_again_cost_little_memory():
    """All their documents were kept: 1.8 kB for a list of 15."""
    test = OriginTest()
    tracemalloc.start()
    for t in range(2000):
        order = [f"list {t}, document {i}" for i in range(15)]
        test.update(order, Impression(order))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / 2000 < 400
