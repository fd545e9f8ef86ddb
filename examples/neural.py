"""A neural ranker learns what no weighting of features can represent. Run: python examples/neural.py

Offers: a price far from the usual one is suspicious, whether high or low; a good rating helps; three features are irrelevant.
"""

import itertools

import numpy as np

from online_rank import DirectRanker, PerceptronRanker, StreamQuantileMap, evaluate

N_QUERIES = 1200


def offers(n_queries, seed):
    """Queries of 24 offers with 5 features, and their grades 0, 1 and 2."""
    rng = np.random.default_rng(seed)
    for _ in range(n_queries):
        X = rng.normal(size=(24, 5))
        price, rating = X[:, 0], X[:, 1]
        appeal = -2.0 * np.abs(price) + rating + rng.normal(scale=0.3, size=24)
        yield X * [20.0, 0.5, 3.0, 1.0, 1.0] + [100.0, 4.0, 5.0, 0.0, 0.0], np.digitize(appeal, [-1.5, 0.0])


models = {
    "linear": StreamQuantileMap() | PerceptronRanker(),
    "neural": StreamQuantileMap() | DirectRanker(hidden=(16, 8), learning_rate=1e-2, half_life=200, seed=0),
}
for name, model in models.items():
    trace = evaluate.progressive(offers(N_QUERIES, seed=1), model, "ndcg@10", every=N_QUERIES // 6)
    course = "  ".join(f"{value:.3f}" for value in trace.columns["ndcg@10"])
    print(f"{name}: NDCG@10 so far, after each {trace.every} queries:  {course}")

# The ranker compares two documents, exactly antisymmetric and transitive: each document has a single score.
quantiles, ranker = models["neural"]["StreamQuantileMap"], models["neural"]["DirectRanker"]
X, y = next(offers(1, seed=2))
documents = quantiles.transform_one(X)
best, worst = documents[int(np.argmax(y))], documents[int(np.argmin(y))]
print(f"\nr(a, b) = {ranker.compare_one(best, worst):+.3f}, r(b, a) = {ranker.compare_one(worst, best):+.3f}")

# It also cuts a ranked list into grades: at wide gaps between the scores of neighbours.
print("\nrank  true grade  segment  gap to the next")
segments = ranker.segment_one(documents, n_grades=3)
order, gaps = ranker.rank_one(documents), ranker.neighbour_gaps_one(documents)
for place, (i, gap) in enumerate(itertools.zip_longest(order, gaps, fillvalue=0.0), start=1):
    print(f"{place:>4}  {y[i]:>10}  {segments[i]:>7}  {gap:.3f}")
