"""Grades from clicks over expected clicks."""

import collections

import numpy as np
import pytest
from scipy.stats import gamma

from online_rank.feedback import Impression, judgements
from online_rank.stream.clicks import PositionUser

THETA = (1.0, 0.5, 0.25)


def log_of(n=400, seed=0, k=4, moved=True):
    """Lists of 4 of 6 documents for 20 queries by two rankers, and the clicks of users who look at position p with 1 / p."""
    who = PositionUser((0.1, 0.5, 0.9), seed=seed)
    for t in range(n):
        query = int(np.random.default_rng([seed, t]).integers(20))
        grades = np.random.default_rng([query, 5]).integers(3, size=6)
        order = np.argsort(-np.random.default_rng([query, t % 2 * moved]).normal(size=6) - grades)[:k]
        yield query, who.clicks(Impression(tuple(order.tolist())), grades, t), {"user": f"u{t % 40}", "session": None}


def twin(lists, theta, least, cuts):
    """The same in loops."""
    n, c, total, squares = collections.Counter(), collections.Counter(), 0.0, 0.0
    examined, squared = collections.Counter(), collections.Counter()
    for query, clicks, _ in lists:
        for place, (document, gain) in enumerate(zip(clicks.impression.order, clicks.gains, strict=True)):
            total, squares = total + gain, squares + gain**2
            if place < len(theta):
                n[query, document] += 1
                c[query, document] += gain
                examined[query, document] += theta[place]
                squared[query, document] += theta[place] ** 2
    mu, phi = sum(c.values()) / sum(examined.values()), squares / total
    e = {pair: mu * examined[pair] for pair in n}
    # sum of (c - e)^2 = sum of v e^2 + phi c - (1 + v) mu^2 squared, for v.
    variance = sum((c[p] - e[p]) ** 2 - phi * c[p] + mu**2 * squared[p] for p in n)
    variance /= sum(e[p] ** 2 - mu**2 * squared[p] for p in n)
    s = min(max(1 / variance, 0.5), 50.0)
    found = {}
    for pair in n:
        if e[pair] >= least:
            posterior = gamma(c[pair] / phi + s, scale=1 / (e[pair] / phi + s))
            r = posterior.mean()
            found[pair] = (n[pair], c[pair], e[pair], r, *posterior.ppf([0.025, 0.975]), sum(r >= cut for cut in cuts))
    return found


@pytest.mark.parametrize("worth", [1.0, 3.0])
def test_it_is_the_posterior_of_clicks_over_expected_clicks(worth):
    lists = [
        (query, type(clicks)(clicks.impression, tuple(gain * (worth if query % 2 else 1.0) for gain in clicks.gains)), keys)
        for query, clicks, keys in log_of()
    ]
    made = judgements(lists, examination=THETA, least=6.0, cuts=(0.5, 1.0, 2.0))
    expected = twin(lists, THETA, 6.0, (0.5, 1.0, 2.0))
    assert {(j.query, j.document) for j in made.judged} == expected.keys()
    for j in made.judged:
        assert j[2:] == pytest.approx(expected[j.query, j.document], rel=1e-9)
        assert j.lower < j.attraction < j.upper
    # Of 4 documents shown, one stands where the examination is unknown.
    assert (made.lists, made.deep, made.examination) == (400, 400, THETA)
    shown = {(query, d) for query, clicks, _ in lists for d in clicks.impression.order[:3]}
    assert made.scarce == len(shown) - len(made.judged) > 0
    # Expected clicks add up to the clicks.
    all_of_them = judgements(lists, examination=THETA, least=0.0).judged
    assert sum(j.expected for j in all_of_them) == pytest.approx(sum(j.clicks for j in all_of_them))


def test_a_document_shown_further_down_is_not_worse():
    # Both attract half of those who look: 10 of 20 at the first position, 5 of 20 at the second.
    lists = [("q", Impression(("a", "b")).clicked(["a"] * (t < 10) + ["b"] * (t % 4 == 0)), {}) for t in range(20)]
    a, b = judgements(lists, examination=(1.0, 0.5)).judged
    assert (a.clicks, b.clicks) == (10.0, 5.0)
    assert a.attraction == b.attraction == pytest.approx(1.0)
    assert b.upper - b.lower > a.upper - a.lower


def test_grades_are_cut_by_shares_of_the_pairs_unless_cuts_are_given():
    made = judgements(log_of(), examination=THETA)
    attraction = np.array([j.attraction for j in made.judged])
    assert made.cuts == pytest.approx(np.quantile(attraction, [0.5, 0.7, 0.85, 0.95]))
    assert [j.grade for j in made.judged] == [sum(j.attraction >= cut for cut in made.cuts) for j in made.judged]
    n = len(made.judged)
    counts = np.bincount([j.grade for j in made.judged])
    assert counts / n == pytest.approx([0.5, 0.2, 0.15, 0.1, 0.05], abs=1.5 / n)
    given = judgements(log_of(), examination=THETA, cuts=(1.0,))
    assert [j.grade for j in given.judged] == [int(j.attraction >= 1.0) for j in given.judged]


@pytest.mark.slow
def test_the_examination_is_estimated_from_documents_that_moved():
    made = judgements(log_of(6000))
    assert made.examination == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.08)
    grades = {(query, d): g for query in range(20) for d, g in enumerate(np.random.default_rng([query, 5]).integers(3, size=6))}
    means = [np.mean([j.attraction for j in made.judged if grades[j.query, j.document] == g]) for g in range(3)]
    # Attraction .1, .5 and .9.
    assert means[1] / means[2] == pytest.approx(5 / 9, abs=0.1)
    assert means[0] < 0.5 * means[1]
    with pytest.raises(ValueError, match="this log does not determine how often it is examined"):
        judgements(log_of(moved=False))


def test_a_cap_counts_the_first_lists_of_a_key():
    lists = list(log_of())
    made = judgements(lists, examination=THETA, caps={"user": 3, "session": 1})
    # 40 users of 10 lists each; a list without a session is not capped.
    assert (made.lists, made.capped) == (120, {"user": 280, "session": 0})
    assert made.judged == judgements(lists[:120], examination=THETA).judged


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"examination": ()}, "examination is \\(\\); it is one probability > 0"),
        ({"examination": (1.0, 0.0)}, "one probability > 0 for each position"),
        ({"caps": {"user": 0}}, r"caps\['user'\] is 0"),
        ({"cuts": (1.0, 1.0)}, "they are numbers > 0, and rise"),
        ({"cuts": (0.0, 1.0)}, "they are numbers > 0, and rise"),
        ({"least": -1.0}, "least is -1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        judgements(log_of(1), **arguments)


def test_a_log_without_clicks_says_so():
    with pytest.raises(ValueError, match="nothing was clicked at a position whose examination is known"):
        judgements([("q", Impression(("a",)).clicked([]), {})], examination=(1.0,))
    with pytest.raises(ValueError, match="nothing was clicked"):
        judgements([], examination=(1.0,))
