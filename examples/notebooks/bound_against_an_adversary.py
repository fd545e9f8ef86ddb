r"""
The bound against an adversary
==============================

If some linear ranker separates the grades with margin :math:`\gamma`, the total loss of the perceptron is at most
:math:`4 / \gamma^2`, however long the stream and whoever chooses the queries. Here two opponents choose them: chance, and an
adversary who knows the weights.
"""

import matplotlib.pyplot as plt
import numpy as np

from online_rank import PerceptronRanker

MARGIN, ROUNDS, FEATURES, DOCUMENTS = 0.1, 2000, 10, 255
BOUND = 4 / MARGIN**2
teacher = np.eye(FEATURES)[0]
rng = np.random.default_rng(1)

# %%
# In each query one document is relevant, at z, and all others lie at -z. The teacher prefers the relevant document by the
# margin. The rest of z is free: chance takes any direction, the adversary the one for which the weights prefer the others by
# next to nothing.


def direction(*avoided):
    """A random unit vector that is orthogonal to all of these."""
    basis = np.linalg.qr(np.column_stack([*avoided, rng.normal(size=FEATURES)]))[0]
    return basis[:, -1]


def relevant(rest):
    """A document of norm 1 with this direction next to the teacher's."""
    return MARGIN / 2 * teacher + np.sqrt(1 - MARGIN**2 / 4) * rest


def by_chance(w):
    """A query from somebody who does not look at the weights."""
    return relevant(direction(teacher))


def by_adversary(w):
    """The query on which these weights are wrong, as long as there is one."""
    rest = w - (w @ teacher) * teacher
    size = np.linalg.norm(rest)
    if size == 0.0:
        return by_chance(w)
    cosine = max(-1.0, -(w @ teacher) * MARGIN / 2 / (np.sqrt(1 - MARGIN**2 / 4) * size) - 1e-9)
    return relevant(cosine * rest / size + np.sqrt(1 - cosine**2) * direction(teacher, rest))


def cumulative_loss(opponent):
    """The loss of a new model against one of them, after each query."""
    model, total = PerceptronRanker("ndcg", credit="spread", half_life=0), []
    grades = np.zeros(DOCUMENTS, dtype=int)
    grades[0] = 1
    for _ in range(ROUNDS):
        w = np.asarray(model.predict_one(np.eye(FEATURES)))
        z = opponent(w)
        model.learn_one(np.vstack([z, np.tile(-z, (DOCUMENTS - 1, 1))]), grades)
        total.append(model.last_round.loss)
    return np.cumsum(total)


# %%
# Against chance the model hardly loses anything. The adversary finds a query with the largest loss again and again, until the
# weights point so clearly in the teacher's direction that none is left: shortly before the bound.

runs = {"an adversary who knows the weights": cumulative_loss(by_adversary), "chance": cumulative_loss(by_chance)}
for name, loss in runs.items():
    print(f"{name:36} total loss {loss[-1]:6.1f} of at most {BOUND:.0f}")

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, loss), colour in zip(runs.items(), ("#D55E00", "#0072B2"), strict=True):
    ax.plot(np.arange(1, ROUNDS + 1), loss, color=colour, linewidth=2, label=name)
ax.axhline(BOUND, color="#222222", linestyle="--", linewidth=1.5, label=f"the bound, 4 / γ² = {BOUND:.0f}")
ax.set(xlabel="query", title="cumulative loss", ylim=(0, BOUND * 1.1), xlim=(0, ROUNDS))
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", alpha=0.3)
ax.legend(frameon=False, loc="center right")
plt.show()
