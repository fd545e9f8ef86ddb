"""A ranker that shows lists and learns from clicks, without grades. Run: python examples/clicks.py"""

from online_rank import PlackettLuce, PositionBias, StreamQuantileMap, SwapRanker
from online_rank.metrics import NDCG, TeamDraft
from online_rank.stream import NoisyTeacher
from online_rank.stream.clicks import user

N, ASKED, K, WINDOW = 4000, 2000, 10, 500

# `rank_one` returns the model's best ranking. `show_one` draws one: randomness makes clicks comparable. The result is an
# Impression, which holds the documents shown and what learning needs, so keep it until the clicks arrive.
query = {
    "guide": {"fresh": 0.2, "length": 9.0},
    "news": {"fresh": 1.0, "length": 2.0},
    "shop": {"fresh": 0.6, "length": 1.0},
    "forum": {"fresh": 0.4, "length": 6.0},
}
small = SwapRanker(PlackettLuce(k=3, seed=2))
shown = small.show_one(query)
small.learn_one(query, shown.clicked([shown.order[1]]))
print(f"shown {', '.join(shown.order)}; after a click on {shown.order[1]}: {', '.join(small.rank_one(query))}")

# Users look at position p with probability 1 / p. The model sees clicks alone; grades only measure it.
queries = list(NoisyTeacher(N + ASKED, n_features=20, n_documents=(10, 40), seed=3))
model = StreamQuantileMap() | SwapRanker(PlackettLuce(K, seed=1))
beginner = StreamQuantileMap() | SwapRanker(PlackettLuce(K, seed=1))
who, bias = user("position", max_grade=4, seed=5), PositionBias(K)
for t, (X, y) in enumerate(queries[:N]):
    if t % WINDOW == 0:
        quality = NDCG(k=K)
    quality.update(y, model.predict_one(X))
    clicks = who.clicks(model.show_one(X), y, t)
    bias.update(clicks)
    model.learn_one(X, clicks)
    if t < 50:
        beginner.learn_one(X, clicks)
    if t % WINDOW == WINDOW - 1:
        print(f"NDCG@10 of queries {t + 2 - WINDOW:,} to {t + 1:,}, each before its clicks: {quality.get():.3f}")

# The same random rankings reveal how often each position is examined: exchanged neighbours differ only in their positions.
low, high = bias.interval()
print("\nposition  estimate  interval      truth")
for p, estimate in enumerate(bias.examination):
    print(f"{p + 1:>8}  {estimate:>8.2f}  {low[p]:.2f} to {high[p]:.2f}  {1 / (p + 1):.2f}")

# Two rankings are drafted into one list, and clicks are votes. The interval holds at all times at once, so we may stop as soon
# as it excludes one half.
draft = TeamDraft(beginner, model, k=K, seed=4)
for t, (X, y) in enumerate(queries[N:], start=N):
    draft.update(who.clicks(draft.show_one(X), y, t))
    if not draft.interval().lower <= 0.5 <= draft.interval().upper:
        break
print(f"\npreference for this model over itself after 50 queries: {draft.interval()}, after {draft.n} drafted lists")
