r"""Bounds on the cumulative ranking loss: every theorem as a function, and certificates computed from measured runs.

Numbers are the numbers of statements in the paper, docs/paper.md, which has the same symbols.

Notation
--------
In round t the weights w_t, starting at 0, score the documents, s_i = w_t . x_i. RML is the ranking measure loss, 1 - measure,
with ties broken pessimistically. A round with RML_t > 0 puts weights a_ij >= 0 on pairs of documents and learns

.. math:: w_{t+1} = w_t + z_t, \quad z_t = \sum_{ij} a_{ij} (x_i - x_j), \quad V_t = \sum_{ij} a_{ij}.

V_t is the *mass* of the round, RML_t <= V_t <= B. A pair is *violated* if y_i > y_j and s_j >= s_i - tau_t; tau_t is 0 for the
pure rule; with a margin it is beta S / V over the previous rounds, S the sum of the ||z_t||^2, at most 4 beta B R_X^2. V is the
sum of the V_t, and Q the sum of the ||z_t||^2 + 2 tau_t V_t; certificates print Q. R_X is the largest norm of a document, m the
largest number of documents, v_max the largest ratio of two positive weights v_i of the surrogate f_t (SLAM; 0 in a round
without a loss). All norms are l2. A *comparator* is any weight vector u; its losses are

.. math::
    F(u) = \sum_t \sum_{ij} a_{ij} \max(0, \mu_{ij} - u \cdot (x_i - x_j)) \quad\text{and}\quad \sum_t f_t(u),

the first on the pairs of the updates, the second on the rounds with an update. mu_ij is 1 for a `PerceptronRanker`. For a
`SlamRanker` with the step alpha it is the margin mu, or mu (y_i - y_j). With credit `argmax` or `spread` and mass `loss`, and
for a `SlamRanker`, F(u) <= sum f_t(u). Sample weights multiply losses, a_ij and f_t. To close a bound: v <= F + c sqrt(v)
implies v <= 2 F + c^2.

In a blend, candidate c of N has the loss l_t(c) and the sum of losses L(c), pi_t are the shares of the candidates, h_t is the
mean of their losses by pi_t, eta_t the step, and l_t the loss of the served ranking. H, W, Delta and G are the sums of h_t, of
the variances of the losses by pi_t, of the mixability gaps, and of l_t - h_t (`online_rank.bounds.blends`). G_m and luck are
the parts of G from queries that the mean of the candidates ranked, and from those that a drawn candidate ranked. Candidates
are drawn once G_m is above b.

Theorems
--------
**Master inequality**. For any recursion w_{t+1} = w_t + z_t - e_t from w_1 = 0, any pairs and any comparators,
V <= sum F_t(u_t) + <u_T, w_{T+1}> - sum <u_t - u_{t-1}, w_t> + sum <u_t, e_t>. *Proof*: a hinge is at least
1 - u . (x_i - x_j), so V_t - F_t(u_t) <= <u_t, z_t> = <u_t, w_{t+1} - w_t + e_t>; sum by parts.

**1, 2: mass theorem** (`mass_hindsight_bound`, `mass_data_bound`, `mass_bound`, `mass_separable_bound`). With violated pairs,
sum RML <= V <= F(u) + <u, w_{T+1}> <= F(u) + ||u|| sqrt(Q) <= 2 F(u) + 4 B (1 + 2 beta) R_X^2 ||u||^2. *Proof*: the master
inequality; <w_t, z_t> = sum a_ij (s_i - s_j) <= tau_t V_t, so that ||w_{T+1}||^2 <= Q; and ||z_t|| <= 2 R_X V_t <= 2 R_X sqrt(B
V_t). There are streams on which it is attained. With credit `argmax` or `spread` and mass `loss` it also holds with sum f_t(u)
in place of F(u).

**3: limits**. F(u) + <u, w> - V = sum a_ij max(0, u . (x_i - x_j) - 1) >= 0, since max(0, 1 - y) = 1 - y + max(0, y - 1): no
bound of the mass theorem is below V, which is the hindsight form at u = 0. By Cauchy and Schwarz no weights of norm U have a
mean hinge F(u) / V below 1 - U ||w|| / V on the pairs of the updates, no weights of norm 1 a margin above ||w|| / V on all of
them, and no weights of the norm of u an F below F(u) by more than the *duality gap* F(u) + ||u|| ||w|| - V. A small gap says
that u is nearly the best of its norm on these pairs, not that the learner is good.

**4: given weights**. If w_1 is given, then V <= F(u) + ||u|| sqrt(||w_1||^2 + Q) - <u, w_1>; the sum of the updates is
w_{T+1} - w_1.

**5, 6: curves, matrices**. Nothing above depends on where features come from: they may be columns of curves, or the products of
two vectors, with the Frobenius norm (`online_rank.bounds.vectors`).

**7, 9: blends** (`blend_bound`, `blend_path_bound`). The loss of the rankings that an `AdditiveRanker` or a `BlendRanker`
served is at most the loss of any of its fixed blends, plus ln(1 / pi_1) / eta_T + Delta + G, on every path, at any time, and
also for discounted losses. If a candidate is itself a blend, the allowances of both add up.

**8: the mass bound about what was served** (`additive_mass_bound`). The last weights of an `AdditiveRanker` alone are one of
these blends, so that the mass theorem bounds what was served against every sum of curves.

**10: before the run** (`blend_closed_bound`). Neither Delta nor G is in it, and W is at most T / 4. It holds in expectation
over the draws if the grades of a query do not depend on its draw. Without draws, or without that condition, no rule has a
bound of this kind (11).

**Any step**. A `SlamRanker` with any step alpha and margin mu: sum RML <= 2 F(u) / mu + (4 B R_X^2 + 2 mu / alpha)
||u||^2 / mu^2. *Proof*: as before, with <w_t, z_t> <= mu V_t.

**[CT]** (`theorem_5`, `corollary_6`, `corollary_7`, `theorem_8`). The bounds of the literature for a `SlamRanker`. Theorem 5 is
false for the step printed in Algorithm 1, because rankings do depend on the step; it holds for the step mu / (4 m R_X^2 v_max)
of its proof. Steps below twice that have the bound (sum f_t(u) + ||u||^2 / (2 alpha)) / (mu - 2 alpha m R_X^2 v_max), which
grows as 1 / alpha. [CT2] concedes the dependence.

**Served weights**. Rankings are served by any weights v_t: an average, a stale or rounded copy. If learning uses the pairs that
v_t violates, then sum RML(v_t) <= V <= F(u) + <u, w_{T+1}> <= F(u) + ||u|| sqrt(Q + 2 sum <w_t - v_t, z_t>). *Proof*: the
master inequality holds for any pairs; <w_t, z_t> = <v_t, z_t> + <w_t - v_t, z_t>, and <v_t, z_t> <= tau_t V_t.

**Late grades**. If D_t other served queries are waiting when the grades of query t arrive, and it is learned from the pairs of
the scores that were served, then sum RML <= V <= F(u) + ||u|| R_X sqrt(sum 4 B V_t (1 + 2 D_t + 2 beta)). *Proof*: w_t -
v_t is the sum of the updates made in between; every pair of updates is counted once. Attained.

**Moving comparators**. With the path length P = sum ||u_{t+1} - u_t||, V <= F + (||u_T|| + P) sqrt(Q). *Proof*: the master
inequality and ||w_t||^2 <= Q. A fixed comparator on raw features moves behind a moving scaler. The closed form is quadratic in
P; a cap ||w|| <= kappa sqrt(Q_t) makes it linear: V <= F + sqrt(Q) (kappa P + U / kappa), U = max ||u_t||.

**Machines**. If K machines mix their weights from time to time, the sum of their losses is at most F(u) + ||u|| sqrt(K Q) with
uniform mixing; mixing by mass replaces K by kappa = max_p (sum_k V)^2 / sum_k V^2 <= K. *Proof*: the norm is convex, so
||w_end||^2 <= sum lambda Q and sum lambda V <= sum lambda F + <u, w_end>, lambda the shares of machines. K is attained if all
machines have the same shard.

**Clicks**. For additive costs and clicks with known propensities the expected cost is at most E F(u) + ||u|| sqrt(E Q^).
*Proof*: the estimates are linear in the clicks; the root is concave.

**Cut weights**. Errors e_t cost ||u|| sum ||e_t||; residuals of at most epsilon V_t weaken the bound by the factor 1 / (1 -
epsilon ||u||). *Proof*: the master inequality.

**12: served rankings at any time** (`LossTracker.served_interval`). An interval for the mean loss of the rankings actually
served, valid at all times at once and on any stream; the theorem and its proof are in `online_rank.intervals`.

Full proofs are in the docstrings of the functions. Theorems that only certificates use have theirs in the modules of this
room. The functions take numbers, by name. A certificate takes the numbers of its run, and lists the bounds that do not cover
it.

References
----------
[CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.
[CT2] Chaudhuri & Tewari, *Perceptron like Algorithms for Online Learning to Rank*, arXiv 1508.00842.
[JG] Jin & Geng, *Linear NDCG and Pair-wise Loss*.
"""

from typing import TYPE_CHECKING

from online_rank.bounds import blends, clicks, drift, mixing, served
from online_rank.bounds.blends import additive_mass_bound, blend_bound, blend_closed_bound, blend_path_bound
from online_rank.bounds.certificate import Certificate
from online_rank.bounds.certified import certificate_of, certificates_of
from online_rank.bounds.mass import mass_bound, mass_data_bound, mass_hindsight_bound, mass_separable_bound
from online_rank.bounds.tracker import LossTracker
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.bounds.batch import batch_weights
    from online_rank.bounds.theorems import (
        corollary_6,
        corollary_7,
        theorem_5,
        theorem_8,
        theorem_8_regularization,
        theory_learning_rate,
    )

__all__ = [
    "Certificate",
    "LossTracker",
    "additive_mass_bound",
    "batch_weights",
    "blend_bound",
    "blend_closed_bound",
    "blend_path_bound",
    "certificate_of",
    "certificates_of",
    "corollary_6",
    "corollary_7",
    "mass_bound",
    "mass_data_bound",
    "mass_hindsight_bound",
    "mass_separable_bound",
    "theorem_5",
    "theorem_8",
    "theorem_8_regularization",
    "theory_learning_rate",
]

#: Every module of the core that declares bounds, so that certificates know them all; studies are in `support.registry.BOUNDS`.
_DECLARING = (blends, clicks, drift, mixing, served)

_THEOREMS = ("corollary_6", "corollary_7", "theorem_5", "theorem_8", "theorem_8_regularization", "theory_learning_rate")

__getattr__, __dir__ = lazily(__name__, {"batch_weights": "batch"} | dict.fromkeys(_THEOREMS, "theorems"))
