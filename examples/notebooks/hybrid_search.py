"""
Hybrid search that learns from feedback
=======================================

Two retrievers are fused by reciprocal rank fusion, as in most hybrid searches today. `hybrid` begins as this rule, and learns
from grades how much each retriever is worth. Here the vectors find the relevant documents far better than BM25, which the rule
cannot know.
"""

import matplotlib.pyplot as plt
import numpy as np

from online_rank import Runs, hybrid
from online_rank.metrics import NDCG

RETRIEVERS = ["bm25", "vector"]
rng, metric = np.random.default_rng(3), NDCG(k=10)


def search():
    """What both retrievers return for a query, and the grades of the documents."""
    useful = rng.gumbel(size=60)
    grades = {f"d{i}": int(np.searchsorted([2.0, 3.2], u)) for i, u in enumerate(useful)}
    runs = {}
    for name, noise in (("bm25", 3.0), ("vector", 0.8)):
        scores = useful + noise * rng.normal(size=60)
        found = np.argsort(-scores)[:25]
        runs[name] = [(f"d{i}", float(12 + 4 * scores[i] if name == "bm25" else 1 / (1 + np.exp(-scores[i])))) for i in found]
    returned = {document for run in runs.values() for document, _ in run}
    return Runs(runs), {document: grades[document] for document in returned}


# %%
# `today` is a second copy of the rule that never learns.

model, today = hybrid(RETRIEVERS, today="rrf"), hybrid(RETRIEVERS, today="rrf")
values = {"learned fusion": [], "reciprocal rank fusion": []}
for _ in range(1000):
    runs, grades = search()
    for name, ranker in zip(values, (model, today), strict=True):
        order = ranker.rank_one(runs)
        values[name].append(metric.value_one([grades[d] for d in order], -np.arange(len(order))))
    model.learn_one(runs, grades)
for name, each in values.items():
    print(f"{name:24} NDCG@10 of the last 500 searches: {np.mean(each[500:]):.4f}")

# %%
# The model first ranks as the rule does, so a search can switch over without a drop. While it learns, it computes how far it
# can be behind the rule in all. The area between the lines is what users gained.

blocks = {name: np.reshape(each, (-1, 50)).mean(axis=1) for name, each in values.items()}
at = 50 * np.arange(20) + 25
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.fill_between(at, *blocks.values(), color="#0072B2", alpha=0.12)
for (name, each), colour in zip(blocks.items(), ("#0072B2", "#D55E00"), strict=True):
    ax.plot(at, each, "o-", color=colour, linewidth=2, markersize=4, label=name)
ax.set(xlabel="searches with feedback", title="NDCG@10 of what was served, means of 50 searches", xlim=(0, 1000))
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", alpha=0.3)
ax.legend(frameon=False, loc="center right")
plt.show()

# %%
# The first 50 searches, added up: a curve above zero means that the learned fusion is ahead.

gain = np.cumsum(np.subtract(*values.values()))[:50]
fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
ax.axhline(0, color="#767676", linewidth=1)
ax.fill_between(np.arange(1, 51), gain, color="#0072B2", alpha=0.25)
ax.plot(np.arange(1, 51), gain, color="#0072B2", linewidth=2)
ax.set(xlabel="searches with feedback", title="cumulative gain in NDCG@10 over reciprocal rank fusion", xlim=(1, 50))
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", alpha=0.3)
plt.show()
