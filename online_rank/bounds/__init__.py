r"""Bounds on the cumulative ranking loss: every theorem as a function, and certificates computed from measured runs.

Notation
--------
In round t the weights w_t, starting at 0, score the documents, s_i = w_t . x_i. RML is the ranking measure loss, 1 - measure,
with ties broken pessimistically. A round with RML_t > 0 puts weights a_ij >= 0 on pairs of documents and learns

.. math:: w_{t+1} = w_t + g_t, \quad g_t = -z_t = \sum_{ij} a_{ij} (x_i - x_j), \quad V_t = \sum_{ij} a_{ij}.

V_t is the *mass* of the round, RML_t <= V_t <= B. A pair is *violated* if R_i > R_j and s_j >= s_i - tau_t; tau_t is 0 for the
pure rule, otherwise beta sum ||z||^2 / sum V over the previous rounds, at most 4 beta B R_X^2. R_X is the largest norm of a
document, m the largest number of documents, v_max the largest ratio of two positive weights v_i of the surrogate f_t (SLAM; 0
in a round without a loss). All norms are l2. A *comparator* is any weight vector u; its losses are

.. math::
    F(u) = \sum_t \sum_{ij} a_{ij} \max(0, \Delta_{ij} - u \cdot (x_i - x_j)) \quad\text{and}\quad \sum_t f_t(u),

the first on the pairs of the updates, the second on the rounds with an update. Delta_ij is 1 for a `PerceptronRanker`, Delta or
Delta (R_i - R_j) for a `SlamRanker`. With credit `argmax` or `spread` and mass `loss`, and for a `SlamRanker`, F(u) <= sum
f_t(u). Sample weights multiply losses, a_ij and f_t. To close a bound: v <= F + c sqrt(v) implies v <= 2 F + c^2.

Theorems
--------
**Master inequality** (`master_bound`). For any recursion w_{t+1} = w_t + g_t - e_t from w_1 = 0, any pairs and any comparators,
sum V_t <= sum F_t(u_t) + <u_T, w_{T+1}> - sum <u_t - u_{t-1}, w_t> + sum <u_t, e_t>. *Proof*: a hinge is at least
1 - u . (x_i - x_j), so V_t - F_t(u_t) <= <u_t, g_t> = <u_t, w_{t+1} - w_t + e_t>; sum by parts.

**Mass theorem** (`mass_hindsight_bound`, `mass_data_bound`, `mass_bound`, `mass_separable_bound`). With violated pairs,
sum RML <= sum V <= F(u) + <u, w_{T+1}> <= F(u) + ||u|| sqrt(Q) <= 2 F(u) + 4 B (1 + 2 beta) R_X^2 ||u||^2, where
Q = sum ||z_t||^2 + 2 tau_t V_t. *Proof*: the master inequality; <w_t, g_t> = sum a_ij (s_i - s_j) <= tau_t V_t, so that
||w_{T+1}||^2 <= Q; and ||z_t|| <= 2 R_X V_t <= 2 R_X sqrt(B V_t). There are streams on which it is attained. With sum f_t(u)
in place of F(u): `mass_surrogate_bound`.

**Limits** (`hinge_limit`, `margin_limit`, `duality_gap`). F(u) + <u, w> - V is the sum of the margins of u above 1, which is >=
0: no bound of the mass theorem is below V, and no weights of norm U have a mean hinge below 1 - U ||w|| / V on the pairs of the
updates.

**Given weights** (`beginning_data_bound`, `beginning_distance_bound`). If w_1 = w_0, then sum V <= F(u) + ||u|| sqrt(||w_0||^2
+ Q) - <u, w_0>; the sum of the updates is w_{T+1} - w_0.

**Any step** (`any_step_hindsight_bound`, `any_step_data_bound`, `any_step_bound`). A `SlamRanker` with any step eta and margin
Delta: sum RML <= 2 F(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2. *Proof*: as before, with <w_t, z_t>
>= -Delta V_t.

**[CT]** (`regret_bound`, `gradient_norm_bound`, `theorem_5`, `corollary_6`, `corollary_7`, `theorem_8`). The bounds of the
literature for a `SlamRanker`. Theorem 5 is false for the step printed in Algorithm 1,
because rankings do depend on the step; it holds for steps below Delta / (2 m R_X^2 v_max). [CT2] concedes the dependence.

**Served weights** (`served_hindsight_bound`, `served_norm_bound`, `served_data_bound`, `averaged_bound`). Rankings are served
by any weights v_t: an average, a stale or rounded copy. If learning uses the pairs that v_t violates, then sum RML(v_t) <= sum
V <=
F(u) + <u, w_{T+1}> <= F(u) + ||u|| sqrt(Q + 2 sum <w_t - v_t, g_t>). *Proof*: the master inequality holds for any pairs; <w_t,
g_t> = <v_t, g_t> + <w_t - v_t, g_t>, and <v_t, g_t> <= tau_t V_t.

**Late grades** (`delay_data_bound`, `delay_bound`). If D_t other served queries are waiting when the grades of query t arrive,
and it is learned from the pairs of the scores that were served, then sum RML <= sum V <= F(u) + ||u|| R_X sqrt(sum V_t (4 B (1
+ 2 D_t) +
2 beta)). *Proof*: w_t - v_t is the sum of the updates made in between; every pair of updates is counted once. Attained.

**Moving comparators** (`master_bound`, `path_norm_bound`, `path_data_bound`, `path_bound`). With the path length
P = sum ||u_{t+1} - u_t||, sum V <= F + (||u_T|| + P) sqrt(Q). *Proof*: the master inequality and ||w_t||^2 <= Q. A fixed
comparator on raw features moves behind a moving scaler (`scaler_path_length`). The closed form is quadratic in P; a cap
||w|| <= kappa sqrt(Q_t) makes it linear (`capped_bound`): sum V <= F + sqrt(Q) (kappa P + U / kappa), U = max ||u_t||.

**Restarts** (`restarts_hindsight_bound`, `restarts_data_bound`, `restarts_bound`). For segments k chosen by any rule, the
bounds of the segments add up, and against one comparator sum V <= F(u) + <u, sum_k w_end,k>. *Proof*: the mass theorem in every
segment.

**Machines** (`mixing_hindsight_bound`, `mixing_data_bound`, `mixing_bound`). If K machines mix their weights from time to time,
the sum of their losses is at most F(u) + ||u|| sqrt(K Q) with uniform mixing; mixing by mass replaces K by kappa = max_p (sum_k
V)^2 / sum_k V^2 <= K. *Proof*: the norm is convex, so ||w_end||^2 <= sum mu Q and sum mu V <= sum mu F + <u,
w_end>. K is attained if all machines have the same shard.

**Clicks** (`click_hindsight_bound`, `click_data_bound`, `click_bound`). For additive costs and clicks with known propensities
the expected cost is at most E F(u) + ||u|| sqrt(E Q^). *Proof*: the estimates are linear in the clicks; the root is concave.

**Cut weights** (`truncation_bound`, `projection_data_bound`). Errors e_t cost ||u|| sum ||e_t||; residuals of at most eta V_t
weaken the bound by the factor 1 / (1 - eta ||u||). *Proof*: the master inequality.

**Blends** (`blend_bound`, `blend_closed_bound`). The loss of the rankings that a `BlendRanker` served is at most that of the
best fixed blend, plus ln N / eta + Delta + G. **Leaders** (`leader_bound`). The loss of the rankings that a `BestRanker` served
is at most that of its best ranker, plus the price of changing the leader. Both hold on every path, at any time, and also for
discounted losses.

**Served rankings at any time** (`LossInterval`, `FrozenCopy`). An interval for the mean loss of the rankings actually served,
valid at all times at once and on any stream; the theorem and its proof are in `online_rank.intervals`.

Full proofs are in the docstrings of the functions. Every function takes `model`: the `PerceptronRanker`, or `LossTracker` of
one, whose loss is to be bounded. A bound that does not cover its settings raises ValueError, and parameters that are settings
of a model default to those of `model`. Without `model` nothing is checked. The settings and facts of each bound are declared
above its function (`bound`), and `BOUNDS` has all declarations.

References
----------
[CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.
[CT2] Chaudhuri & Tewari, *Perceptron like Algorithms for Online Learning to Rank*, arXiv 1508.00842.
[JG] Jin & Geng, *Linear NDCG and Pair-wise Loss*.
"""

from online_rank.bounds.beginnings import beginning_data_bound, beginning_distance_bound
from online_rank.bounds.blends import blend_bound, blend_closed_bound, leader_bound
from online_rank.bounds.budgets import truncation_bound
from online_rank.bounds.certificate import BoundCheck, Certificate, Run, certify
from online_rank.bounds.certified import certificate_of
from online_rank.bounds.clicks import click_bound, click_data_bound, click_hindsight_bound
from online_rank.bounds.declaration import BOUNDS, Bound, bound, require_covered, uncovered
from online_rank.bounds.drift import (
    capped_bound,
    master_bound,
    path_bound,
    path_data_bound,
    path_length,
    path_norm_bound,
    restarts_bound,
    restarts_data_bound,
    restarts_hindsight_bound,
    scaler_path_length,
)
from online_rank.bounds.frozen import FrozenCopy
from online_rank.bounds.hindsight import Hindsight, best_in_hindsight
from online_rank.bounds.limits import duality_gap, hinge_limit, margin_limit
from online_rank.bounds.mass import (
    any_step_bound,
    any_step_data_bound,
    any_step_hindsight_bound,
    any_step_surrogate_bound,
    mass_bound,
    mass_data_bound,
    mass_hindsight_bound,
    mass_separable_bound,
    mass_surrogate_bound,
)
from online_rank.bounds.mixing import mixing_bound, mixing_data_bound, mixing_hindsight_bound, mixing_penalty
from online_rank.bounds.projection import (
    ProjectionCertificate,
    certify_projection,
    projection_bound,
    projection_data_bound,
    projection_hindsight_bound,
)
from online_rank.bounds.rows import Row
from online_rank.bounds.served import (
    averaged_bound,
    delay_bound,
    delay_data_bound,
    served_data_bound,
    served_hindsight_bound,
    served_norm_bound,
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
from online_rank.bounds.totals import Totals
from online_rank.bounds.tracker import LossTracker
from online_rank.intervals import Interval, LossInterval, largest_deviation

__all__ = [
    "BOUNDS",
    "Bound",
    "BoundCheck",
    "Certificate",
    "FrozenCopy",
    "Hindsight",
    "Interval",
    "LossInterval",
    "LossTracker",
    "ProjectionCertificate",
    "Row",
    "Run",
    "Totals",
    "any_step_bound",
    "any_step_data_bound",
    "any_step_hindsight_bound",
    "any_step_surrogate_bound",
    "averaged_bound",
    "beginning_data_bound",
    "beginning_distance_bound",
    "best_in_hindsight",
    "blend_bound",
    "blend_closed_bound",
    "bound",
    "capped_bound",
    "certificate_of",
    "certify",
    "certify_projection",
    "click_bound",
    "click_data_bound",
    "click_hindsight_bound",
    "corollary_6",
    "corollary_7",
    "delay_bound",
    "delay_data_bound",
    "duality_gap",
    "gradient_l1_constant",
    "gradient_norm_bound",
    "hinge_limit",
    "largest_deviation",
    "leader_bound",
    "margin_limit",
    "mass_bound",
    "mass_data_bound",
    "mass_hindsight_bound",
    "mass_separable_bound",
    "mass_surrogate_bound",
    "master_bound",
    "mixing_bound",
    "mixing_data_bound",
    "mixing_hindsight_bound",
    "mixing_penalty",
    "path_bound",
    "path_data_bound",
    "path_length",
    "path_norm_bound",
    "projection_bound",
    "projection_data_bound",
    "projection_hindsight_bound",
    "regret_bound",
    "require_covered",
    "restarts_bound",
    "restarts_data_bound",
    "restarts_hindsight_bound",
    "scaler_path_length",
    "served_data_bound",
    "served_hindsight_bound",
    "served_norm_bound",
    "theorem_5",
    "theorem_8",
    "theorem_8_regularization",
    "theory_learning_rate",
    "truncation_bound",
    "uncovered",
]
