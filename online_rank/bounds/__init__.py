r"""Bounds on the cumulative ranking loss: every theorem as a function, and certificates that a program checks.

Notation: w_t are the weights that learn, starting at 0; f_t the SLAM surrogate of round t with its weight vector v, 0 in a
round whose ranking loss RML is 0; z_t the direction of the update, a_ij its pair weights, V_t = sum a_ij its mass; Delta_ij the
margin of a pair: 1 for the mistake-driven update, Delta or Delta (R_i - R_j) for the gradient update; R_X the largest norm of a
document, m the largest number of documents, v_max the largest ratio of two positive v_i. A *comparator* is any weight vector u;
its losses are

.. math::
    F(u) = \sum_t \sum_{ij} a_{ij} \max(0, \Delta_{ij} - u \cdot (x_i - x_j)) \quad\text{and}\quad \sum_t f_t(u),

on the pairs of the updates, and of the surrogate over the rounds with an update. With credit `argmax` or `spread`
F(u) <= sum f_t(u). Sample weights multiply losses, a_ij and f_t.

Every function takes `model`: a `PerceptronRanker`, or a `LossTracker` of one, whose loss the bound is to speak of. A bound that
does not cover its settings raises ValueError. Without `model` the caller answers for that.

References
----------
[CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.
"""

from online_rank.bounds.budgets import projectron_bound, truncation_bound
from online_rank.bounds.certificate import BoundCheck, Certificate
from online_rank.bounds.clicks import click_bound, click_data_bound, click_hindsight_bound
from online_rank.bounds.coverage import require_covered, uncovered
from online_rank.bounds.drift import (
    capped_bound,
    path_bound,
    path_data_bound,
    path_hindsight_bound,
    path_length,
    path_norm_bound,
    restarts_bound,
    restarts_data_bound,
    restarts_hindsight_bound,
    scaler_path_length,
)
from online_rank.bounds.frozen import FrozenCopy
from online_rank.bounds.hindsight import Hindsight, best_in_hindsight
from online_rank.bounds.intervals import Interval, LossInterval, largest_deviation
from online_rank.bounds.mass import (
    any_step_bound,
    any_step_data_bound,
    any_step_hindsight_bound,
    mass_bound,
    mass_data_bound,
    mass_hindsight_bound,
    mass_separable_bound,
    running_margin_bound,
)
from online_rank.bounds.mixing import mixing_bound, mixing_data_bound, mixing_hindsight_bound, mixing_penalty
from online_rank.bounds.served import (
    averaged_bound,
    delay_bound,
    delay_data_bound,
    master_bound,
    served_data_bound,
    served_hindsight_bound,
)
from online_rank.bounds.theorems import (
    corollary_6,
    corollary_7,
    gradient_l1_constant,
    gradient_norm_bound,
    regret_bound,
    theorem_5,
    theorem_8,
    theorem_8_regularization,
    theory_learning_rate,
)
from online_rank.bounds.tracker import LossTracker, Totals

__all__ = [
    "BoundCheck",
    "Certificate",
    "FrozenCopy",
    "Hindsight",
    "Interval",
    "LossInterval",
    "LossTracker",
    "Totals",
    "any_step_bound",
    "any_step_data_bound",
    "any_step_hindsight_bound",
    "averaged_bound",
    "best_in_hindsight",
    "capped_bound",
    "click_bound",
    "click_data_bound",
    "click_hindsight_bound",
    "corollary_6",
    "corollary_7",
    "delay_bound",
    "delay_data_bound",
    "gradient_l1_constant",
    "gradient_norm_bound",
    "largest_deviation",
    "mass_bound",
    "mass_data_bound",
    "mass_hindsight_bound",
    "mass_separable_bound",
    "master_bound",
    "mixing_bound",
    "mixing_data_bound",
    "mixing_hindsight_bound",
    "mixing_penalty",
    "path_bound",
    "path_data_bound",
    "path_hindsight_bound",
    "path_length",
    "path_norm_bound",
    "projectron_bound",
    "regret_bound",
    "require_covered",
    "restarts_bound",
    "restarts_data_bound",
    "restarts_hindsight_bound",
    "running_margin_bound",
    "scaler_path_length",
    "served_data_bound",
    "served_hindsight_bound",
    "theorem_5",
    "theorem_8",
    "theorem_8_regularization",
    "theory_learning_rate",
    "truncation_bound",
    "uncovered",
]
