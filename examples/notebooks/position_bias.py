"""
The position bias of a click log
================================

Documents at the top are clicked more often, partly because they are better, partly because more users look there. The share of
clicks at each position mixes the two. `NaturalVariation` separates them, if two rankings alternated in the log, so that
documents moved.
"""

import matplotlib.pyplot as plt
import numpy as np

from online_rank.feedback import Impression, NaturalVariation

K, LISTS, TOPICS = 8, 20_000, 60
rng = np.random.default_rng(2)
looked_at = 1 / np.arange(1, K + 1) ** 0.7  # the truth: how often each position is looked at
attraction = rng.beta(1.2, 2.5, size=(TOPICS, K))

# %%
# The log of two rankings, both of which are good: they put attractive documents first.

orders = [[np.argsort(-attraction[t] + 0.25 * rng.normal(size=K)) for _ in range(2)] for t in range(TOPICS)]
positions, clicks = NaturalVariation(k=K), np.zeros(K)
for n in range(LISTS):
    topic = int(rng.integers(TOPICS))
    order = orders[topic][n % 2]
    clicked = rng.random(K) < looked_at * attraction[topic][order]
    clicks += clicked
    shown = Impression(tuple(int(d) for d in order))
    positions.update(topic, shown.clicked([int(d) for d in order[clicked]]))

naive = clicks / clicks[0]
for p in range(K):
    print(f"position {p + 1}: clicks {naive[p]:.2f}, estimate {positions.examination[p]:.2f}, truth {looked_at[p]:.2f}")

# %%
# The share of clicks falls too fast, since worse documents stand further down. The estimate follows the truth.

at = np.arange(1, K + 1)
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.bar(at, naive, width=0.6, color="#BDBDBD", label="clicks at the position")
ax.plot(at, looked_at, color="#222222", linestyle="--", linewidth=1.5, label="truth")
ax.plot(at, positions.examination, "o-", color="#0072B2", linewidth=2, label="NaturalVariation")
ax.set(xlabel="position", title="how often a position is looked at, relative to the first")
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", alpha=0.3)
ax.legend(frameon=False)
plt.show()
