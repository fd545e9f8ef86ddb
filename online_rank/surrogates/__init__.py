"""Surrogates: the losses that rankers minimise in place of a ranking measure.

A surrogate phi(s, y) is a function of the m scores s and the m grades y of a query. Each function of this module makes one; its
`value` and `gradient` (in s) are methods of the `Surrogate` it returns. Its l1 constant bounds the l1 norm of the gradient.

Pairs are pairs (i, j) of documents with y_i > y_j. Pairwise surrogates share these parameters:

pairs
    `"all"`, or `"neighbours"`: only pairs of neighbouring grades of the query; the others follow by transitivity [DR].
pair_weight
    w_ij: `"none"`, 1; `"grade"`, y_i [DR]; `"difference"`, y_i - y_j.
reduction
    `"mean"` divides by the sum of all w_ij, so that every query counts alike; `"sum"` does not.

A loss of your own is a function (s, y) -> (value, gradient), or an object with a method `value_and_gradient` (`Loss`): rankers
take it as `surrogate=`. Registered by name (`online_rank.register`), it can stand in model files, which hold the name and the
loss's settings, never code.

References
----------
[CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.
[DR] Köppel et al., *Pairwise Learning to Rank by Neural Networks Revisited*, 2019.
"""

from online_rank.surrogates.builtin import Surrogate, hinge, lambdarank, listnet, logistic, slam, squared
from online_rank.surrogates.own import Loss

__all__ = ["Loss", "Surrogate", "hinge", "lambdarank", "listnet", "logistic", "slam", "squared"]
