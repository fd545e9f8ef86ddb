"""What does exploring within a budget cost users?

    python -m benchmarks.exploring [--draws 100000]

The expected DCG@k of the lists as a share of the greedy list's, for the worst relevance: over all orders of up to 6 documents,
and by draws for real queries (MQ2008). A model that begins with today's ranking is measured by `benchmarks.live`, wrong
decisions by `benchmarks.promises`.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from benchmarks._clicks_data import parts, queries_of
from benchmarks._common import parser, save, table
from benchmarks._data import data_folder
from online_rank import PlackettLuce

BUDGETS = ((0.9, 0.0), (0.9, 0.01), (0.95, 0.0), (0.95, 0.01), (0.98, 0.0), (0.98, 0.01), (0.99, 0.0), (0.99, 0.005))
SHOWN = (1, 2, 5, 10, 20)


def section(draws: int) -> str:
    """Exact shares for few documents, and measured ones for real queries."""
    rows, queries = [], [(X, y) for X, y in queries_of(parts(data_folder() / "mq2008")[:1]) if len(y) >= 40][:5]
    for (keep, newcomers), k in itertools.product(BUDGETS, SHOWN):
        policy = PlackettLuce(k, keep=keep, newcomers=newcomers)
        exact = min(least_exact(policy, scores) for scores in few_scores())
        rng, measured, low, mean = np.random.default_rng(73), [], [], []
        for X, _ in queries:
            shares, errors = drawn_shares(policy, X[:, 24].astype(float), draws, rng)
            worst = int(np.argmin(shares))
            measured.append(shares[worst])
            low.append(float(np.min((shares - keep) / np.maximum(errors, 1e-12))))
            mean.append(shares.mean())
        figures = (f"{share:.4f}" for share in (exact, min(measured), float(np.mean(mean))))
        rows.append((f"{keep:g}", f"{newcomers:g}", k, *figures, f"{min(low):+.1f}"))
    head = ("keep", "newcomers", "k", "exact, least", "drawn, least", "drawn, mean", "least in standard errors above keep")
    return f"""# What a budget keeps

Share of the greedy list's DCG@k that users see if one document alone is relevant. *Exact*: the least over all places, and
over scores of 1 to 6 documents (equal, tied, far apart, one far ahead, random), by all orders. *Drawn*: {draws:,} draws for
each of {len(queries)} queries of MQ2008 with 40 documents or more, ranked by one feature; the least over queries and places,
and the mean. With k = 1 and 2 the budget is spent to the last, for any scores, so that measured shares are on both sides
of it.

{table(head, rows)}
"""


def few_scores() -> Iterator[np.ndarray]:
    """Scores of few documents, ties and outliers among them."""
    rng = np.random.default_rng(1)
    for m in range(1, 7):
        yield from (
            np.zeros(m),
            np.arange(m)[::-1] * 1.0,
            np.r_[1e6, np.zeros(m - 1)],
            rng.normal(size=m),
            rng.normal(size=m) ** 3,
        )


def least_exact(policy: PlackettLuce, scores: np.ndarray) -> float:
    """The least share over places, by all orders of the documents drawn."""
    m, greedy = len(scores), np.argsort(-scores, kind="stable")
    k = min(policy.k or m, m)
    n = min(k + (4 if k <= 2 else 0), m)
    logits = policy.logits(scores)[greedy[:n]]
    expected, discounts = np.zeros(n), 1.0 / np.log2(np.arange(2.0, k + 2.0))
    brings = discounts * np.r_[np.ones(k - 1), 1.0 - policy.newcomers * (m > n)]
    for order in itertools.permutations(range(n), k):
        left, chance = [*range(n)], 0.0
        for i in order:
            chance += logits[i] - np.logaddexp.reduce(logits[left])
            left.remove(i)
        expected[list(order)] += np.exp(chance) * brings
    return float(np.min(expected[:k] / discounts))


def drawn_shares(
    policy: PlackettLuce, scores: np.ndarray, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The mean share of the discount of each greedy place that its document brings, and its standard error."""
    m, greedy = len(scores), np.argsort(-scores, kind="stable")
    k = min(policy.k or m, m)
    n = k + 4 if k <= 2 else k
    logits, discounts = policy.logits(scores)[greedy[:n]], 1.0 / np.log2(np.arange(2.0, k + 2.0))
    places = np.argsort(np.argsort(-(logits + rng.gumbel(size=(draws, n))), axis=1), axis=1)[:, :k]
    brings = np.where(places < k, discounts[np.minimum(places, k - 1)], 0.0)
    brings[(places == k - 1) & (rng.random(draws) < policy.newcomers)[:, None]] = 0.0
    shares = brings / discounts
    return shares.mean(axis=0), shares.std(axis=0) / np.sqrt(draws)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--draws", type=int, default=100_000, help="for each query")
    save("exploring", section(arguments.parse_args().draws))


if __name__ == "__main__":
    main()
