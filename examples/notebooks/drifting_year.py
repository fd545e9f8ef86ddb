"""
A drifting year: retrain every night, or learn from each query?
===============================================================

What users want turns slowly over a year, and jumps twice. One model learns from every query. The other is a LightGBM that is
retrained every night on the last 10 days. The scale is small, 8 queries a day: `python -m benchmarks.year` has 200.
"""

import lightgbm
import matplotlib.pyplot as plt
import numpy as np

from online_rank import AdditiveRanker
from online_rank.metrics import NDCG

DAYS, QUERIES, DOCUMENTS, FEATURES, KEPT = 364, 8, 12, 6, 10
rng = np.random.default_rng(5)
metric = NDCG(k=10)


def truth(day):
    """The weights of the features on a day: they turn by a right angle in half a year, and change at once on two days."""
    angle = np.pi * day / DAYS + (0.8 if day >= 120 else 0.0) + (0.8 if day >= 240 else 0.0)
    return np.cos(angle) * np.eye(FEATURES)[0] + np.sin(angle) * np.eye(FEATURES)[1] + 0.5 * np.eye(FEATURES)[2]


def query(day):
    """Documents with features of different scales, and grades from 0 to 3."""
    Z = rng.normal(size=(DOCUMENTS, FEATURES))
    useful = np.tanh(Z) @ truth(day) + 0.15 * rng.normal(size=DOCUMENTS)
    return np.exp(Z), np.digitize(useful, np.quantile(useful, [0.5, 0.75, 0.9]))


# %%
# Both rank each query before they know its grades.

online, nightly, kept = AdditiveRanker(), None, []
values = {"AdditiveRanker, learns from each query": [], "LightGBM, trained every night": []}
for day in range(DAYS):
    today = [query(day) for _ in range(QUERIES)]
    served = {name: [] for name in values}
    for X, y in today:
        scores = [online.predict_one(X), np.zeros(DOCUMENTS) if nightly is None else nightly.predict(X)]
        for name, score in zip(values, scores, strict=True):
            served[name].append(metric.value_one(y, score))
        online.learn_one(X, y)
    for name in values:
        values[name].append(np.mean(served[name]))
    kept = [*kept, today][-KEPT:]
    old = [each for day_before in kept for each in day_before]
    data = lightgbm.Dataset(np.vstack([X for X, _ in old]), np.hstack([y for _, y in old]), group=[DOCUMENTS] * len(old))
    settings = {"objective": "lambdarank", "num_leaves": 15, "num_threads": 1, "verbose": -1, "seed": 1}
    nightly = lightgbm.train(settings, data, num_boost_round=12)

for name, each in values.items():
    print(f"{name:40} NDCG@10 {np.mean(each):.4f}")

# %%
# The model that learns from each query needs no memory of old queries, and has recovered from a jump while the other still
# trains on days from before it.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for (name, each), colour in zip(values.items(), ("#0072B2", "#D55E00"), strict=True):
    weeks = np.reshape(each, (-1, 7)).mean(axis=1)
    ax.plot(7 * np.arange(len(weeks)) + 3, weeks, color=colour, linewidth=2, label=name)
for jump in (120, 240):
    ax.axvline(jump, color="#767676", linestyle=":", linewidth=1)
    ax.text(jump + 3, ax.get_ylim()[0], "jump", color="#767676", va="bottom")
ax.set(xlabel="day", title="NDCG@10 of the served rankings, by week")
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", alpha=0.3)
fig.legend(frameon=False, loc="outside lower center", ncols=2)
plt.show()
