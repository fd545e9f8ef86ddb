"""
What a shop's model has learned
===============================

An `AdditiveRanker` learns one curve for each feature, from raw values and without a setting. Here the truth is known, so that
the learned curves can be compared with it: customers want products that match their words, cost about 25, have many stars and
sell well. They like one brand and dislike another; the weight does not matter. A fifth of the products has no stars yet.
"""

import matplotlib.pyplot as plt
import numpy as np

from online_rank import AdditiveRanker, metrics, plot

rng = np.random.default_rng(1)
TRUTH = {
    "match": lambda match: 3 * match,
    "price": lambda price: -abs(np.log(price / 25)),
    "stars": lambda stars: 0.5 * stars,
    "sold": lambda sold: 0.15 * np.log(sold),
    "weight": lambda weight: 0 * weight,
}
BRANDS = {"Aro": 0.8, "Bex": 0.0, "Cim": -0.8}


def visit():
    """The candidates of a search, {product: features}, and their grades from 0 to 3."""
    products, grades = {}, {}
    for i in range(12):
        x = {
            "match": rng.random(),
            "price": rng.lognormal(3.2, 0.7),
            "stars": rng.uniform(1, 5),
            "sold": 1 + int(rng.lognormal(4, 1.5)),
            "weight": rng.uniform(0.1, 4),
            "brand": str(rng.choice(list(BRANDS))),
        }
        if rng.random() < 0.2:
            x["stars"] = None
        known = [truth(2.5 if x[name] is None else x[name]) for name, truth in TRUTH.items()]
        useful = sum(known) + BRANDS[x["brand"]] + rng.normal(0, 0.3)
        products[f"p{i}"], grades[f"p{i}"] = x, int(np.digitize(useful, [2.6, 3.6, 4.6]))
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
# The curves, those that matter most first, and the truth as dashed lines, all on one scale. The price has a peak near 25,
# which no linear model can have. The curve of the weight is flat up to noise; look at its scale. A product without stars, the
# orange bar, counts as one with 2.5.

axes = {ax.get_title(loc="left"): ax for ax in plot.curves(model)}
learned = {name: axes[name].lines[0].get_data() for name in TRUTH}
true = {name: TRUTH[name](values) - np.mean(TRUTH[name](values)) for name, (values, _) in learned.items()}
curves, truths = np.concatenate([curve - np.mean(curve) for _, curve in learned.values()]), np.concatenate([*true.values()])
scale = curves @ truths / (truths @ truths)
for name, (values, curve) in learned.items():
    axes[name].plot(values, scale * true[name] + np.mean(curve), color="#222222", linestyle="--", linewidth=1)
plt.show()
