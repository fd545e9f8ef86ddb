"""
What a shop's model has learned
===============================

An `AdditiveRanker` learns one curve for each feature, from raw values and without a setting. Here the truth is known, so that
the learned curves can be compared with it: customers want products that match their words, cost about 25, and have many stars.
They like one brand and dislike another; the number of sales says nothing. A fifth of the products has no stars yet.
"""

import matplotlib.pyplot as plt
import numpy as np

from online_rank import AdditiveRanker, metrics, plot

rng = np.random.default_rng(1)
BRANDS = {"Aro": 0.8, "Bex": 0.0, "Cim": -0.8}


def visit():
    """The candidates of a search, {product: features}, and their grades from 0 to 3."""
    products, grades = {}, {}
    for i in range(12):
        x = {
            "match": rng.random(),
            "price": rng.lognormal(3.2, 0.7),
            "stars": rng.uniform(1, 5) if rng.random() < 0.8 else None,
            "sold": int(rng.lognormal(4, 2)),
            "brand": str(rng.choice(list(BRANDS))),
        }
        stars = 2.5 if x["stars"] is None else x["stars"]
        useful = 3 * x["match"] - abs(np.log(x["price"] / 25)) + 0.5 * stars + BRANDS[x["brand"]] + rng.normal(0, 0.3)
        products[f"p{i}"], grades[f"p{i}"] = x, int(np.digitize(useful, [2, 3, 4]))
    return products, grades


# %%
# Each search is ranked by what is known at that moment, and then learned.

model, metric = AdditiveRanker(), metrics.NDCG(k=10)
for _ in range(1500):
    products, grades = visit()
    metric.update(grades, model.predict_one(products))
    model.learn_one(products, grades)
print(metric)

# %%
# The curves, those that matter most first. The price has a peak near 25, which no linear model can have; the curve of the sales
# is flat up to noise (look at its scale); a product without stars, the orange bar, counts as one with three.

plot.curves(model)
plt.show()
