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

from online_rank.bounds.certificate import BoundCheck, Certificate
from online_rank.bounds.coverage import require_covered, uncovered
from online_rank.bounds.hindsight import Hindsight, best_in_hindsight
from online_rank.bounds.mass import (
    any_step_bound,
    any_step_data_bound,
    any_step_hindsight_bound,
    mass_bound,
    mass_data_bound,
    mass_hindsight_bound,
    mass_separable_bound,
)
from online_rank.bounds.projection import (
    ProjectionCertificate,
    certify_projection,
    projection_bound,
    projection_data_bound,
    projection_hindsight_bound,
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
    "Hindsight",
    "LossTracker",
    "ProjectionCertificate",
    "Totals",
    "any_step_bound",
    "any_step_data_bound",
    "any_step_hindsight_bound",
    "best_in_hindsight",
    "certify_projection",
    "corollary_6",
    "corollary_7",
    "gradient_l1_constant",
    "gradient_norm_bound",
    "mass_bound",
    "mass_data_bound",
    "mass_hindsight_bound",
    "mass_separable_bound",
    "projection_bound",
    "projection_data_bound",
    "projection_hindsight_bound",
    "regret_bound",
    "require_covered",
    "theorem_5",
    "theorem_8",
    "theorem_8_regularization",
    "theory_learning_rate",
    "uncovered",
]
