"""The perceptron for ranking, straight from the equations: loops over documents and pairs."""

import itertools
import math

from scipy.special import ndtri


def effective(measure, y):
    """Grades as the measure sees them: average precision knows relevant and irrelevant."""
    if measure.startswith("ap"):
        threshold = int(measure.partition(">=")[2] or 1)
        return [int(r >= threshold) for r in y]
    return [int(r) for r in y]


def cutoff(measure, m):
    return min(int(measure.partition("@")[2] or m), m)


def pessimistic_order(s, y):
    """Best score first; of equal scores the less relevant document first."""
    return sorted(range(len(s)), key=lambda i: (-s[i], y[i], i))


def value(measure, ranked_grades):
    """The measure of a ranking, given the (effective) grades in ranked order."""
    m = len(ranked_grades)
    best = sorted(ranked_grades, reverse=True)
    if measure.startswith("ap"):
        relevant = [p for p, r in enumerate(ranked_grades, 1) if r]
        return sum(n / p for n, p in enumerate(relevant, 1)) / len(relevant)
    if measure == "linear_ndcg":
        return sum(r * (m - p) for p, r in enumerate(ranked_grades, 1)) / sum(r * (m - p) for p, r in enumerate(best, 1))
    k = cutoff(measure, m)
    dcg = [sum((2.0**r - 1.0) / math.log2(p + 1) for p, r in enumerate(grades[:k], 1)) for grades in (ranked_grades, best)]
    return dcg[0] / dcg[1]


def loss(measure, s, y):
    """RML with the pessimistic tie-break."""
    return 1.0 - value(measure, [y[i] for i in pessimistic_order(s, y)])


def weights_by_position(measure, y):
    """v_i for the documents sorted by grade, best first."""
    m = len(y)
    best = sorted(y, reverse=True)
    if measure.startswith("ap"):
        r = sum(best)
        return [(1 / r) * (1 - i / (m - r + i)) if i <= r else 0.0 for i in range(1, m + 1)]
    if measure == "linear_ndcg":
        z = sum(r * (m - i) for i, r in enumerate(best, 1))
        return [(r - best[-1]) * (m - i) / z for i, r in enumerate(best, 1)]
    k = cutoff(measure, m)
    z = sum((2.0**r - 1) / math.log2(i + 1) for i, r in enumerate(best[:k], 1))
    if "@" in measure:
        return [(2.0**r - 1) / math.log2(i + 1) / z if i <= k else 0.0 for i, r in enumerate(best, 1)]
    return [(2.0**r - 2.0 ** best[-1]) * (1 / math.log2(i + 1) - 1 / math.log2(m + 1)) / z for i, r in enumerate(best, 1)]


def weights(measure, within_grade, s, y):
    """v of every document."""
    by_position = weights_by_position(measure, y)
    m = len(y)
    if within_grade == "mean":
        best = sorted(y, reverse=True)
        return [sum(v for v, r in zip(by_position, best, strict=True) if r == y[i]) / best.count(y[i]) for i in range(m)]
    within = {"document": lambda i: 0.0, "tight": lambda i: -s[i]}[within_grade]
    # Of equal scores, "tight" takes the order of the pessimistic ranking, which within a grade is document order.
    listed = sorted(range(m), key=lambda i: (-y[i], within(i), i))
    v = [0.0] * m
    for position, i in enumerate(listed):
        v[i] = by_position[position]
    return v


def pair_weights(credit, v, t, y, offset, strict=False):
    """a_ij on the violated pairs of keys t, before the mass is chosen."""
    m = len(y)
    violated = [
        (i, j)
        for i, j in itertools.product(range(m), repeat=2)
        if y[i] > y[j] and (t[j] > t[i] - offset if strict else t[j] >= t[i] - offset)
    ]
    a = {}
    for i, j in violated:
        if credit == "argmax":
            # The best-scored one; of equal scores the highest grade's first document.
            a[i, j] = v[i] * (j == min((h for h in range(m) if y[h] < y[i]), key=lambda h: (-t[h], -y[h], h)))
        else:
            a[i, j] = v[i] / sum(pair[0] == i for pair in violated)
    return a


def moved(X, w, a, step=1.0):
    """w + step times the sum of a_ij (x_i - x_j)."""
    return [w_f + step * sum(a_ij * (X[i][f] - X[j][f]) for (i, j), a_ij in a.items()) for f, w_f in enumerate(w)]


def learn(X, y, w, *, measure="ndcg@10", credit="spread", mass="loss", relative_margin=0.0, square_over_mass=0.0, weight=1.0):
    """One round on lists. Returns the new weights, the loss, the mass and the pair weights a_ij."""
    y = effective(measure, y)
    s = [sum(a * b for a, b in zip(x, w, strict=True)) for x in X]
    if len(set(y)) < 2:
        return list(w), 0.0, 0.0, {}
    rml = loss(measure, s, y)
    if rml <= 1e-15:
        return list(w), 0.0, 0.0, {}
    a = pair_weights(credit, weights(measure, "mean", s, y), s, y, relative_margin * square_over_mass)
    scale = weight * {"loss": rml, "sqrt": math.sqrt(rml)}[mass] / sum(a.values())
    a = {pair: scale * value for pair, value in a.items()}
    return moved(X, w, a), rml, sum(a.values()), a


def sort_coefficients(s, y, tau):
    """phi(n_i) - phi(p_i): places by s_i - tau level_i / (L - 1), and those after a stable sort by grade; equals share."""
    m = len(s)
    levels = sorted(set(y))
    step = tau / (len(levels) - 1)
    key = [s[i] - step * levels.index(y[i]) for i in range(m)]
    placed = sorted(range(m), key=lambda i: (-key[i], y[i], i))
    wanted = sorted(placed, key=lambda i: -y[i])
    phi = [-ndtri((p - 0.375) / (m + 0.25)) for p in range(1, m + 1)]
    c = [phi[wanted.index(i)] - phi[placed.index(i)] for i in range(m)]
    equals = [[j for j in range(m) if (key[j], y[j]) == (key[i], y[i])] for i in range(m)]
    return [sum(c[j] for j in of_i) / len(of_i) for of_i in equals]


def spread_coefficients(measure, s, y, offset):
    """v_i in equal parts on the violators of each document i; and the mass."""
    c, mass = [0.0] * len(y), 0.0
    for (i, j), a in pair_weights("spread", weights(measure, "mean", s, y), s, y, offset).items():
        c[i] += a
        c[j] -= a
        mass += a
    return c, mass


class BroadPerceptron:
    """The perceptron with credit `sort` or `adaptive`, mass `sqrt`, round after round."""

    def __init__(self, d, measure, credit, relative_margin):
        self.w, self.measure, self.credit, self.beta = [0.0] * d, measure, credit, relative_margin
        self.squares = self.mass = 0.0
        #: For each member of the mixture, the sum of the ||z||^2 that it would have had at mass 1.
        self.spread_squares = self.sort_squares = 0.0

    def _step(self, X, c, mass):
        """z of coefficients that are scaled to mass 1, and ||z||^2."""
        z = [sum(c_i / mass * x[f] for c_i, x in zip(c, X, strict=True)) for f in range(len(self.w))]
        return z, sum(value * value for value in z)

    def learn(self, X, y):
        y = effective(self.measure, y)
        s = [sum(a * b for a, b in zip(x, self.w, strict=True)) for x in X]
        if len(set(y)) < 2 or loss(self.measure, s, y) <= 1e-15:
            return
        tau = self.beta * self.squares / self.mass if self.mass else 0.0
        mass = math.sqrt(loss(self.measure, s, y))
        c = sort_coefficients(s, y, tau)
        step, square = self._step(X, c, sum(max(c_i, 0.0) for c_i in c))
        if self.credit == "adaptive":
            spread, spread_square = self._step(X, *spread_coefficients(self.measure, s, y, tau))
            self.spread_squares += spread_square
            self.sort_squares += square
            # Each is weighted by the square of what its ||z||^2 add up to, inverted.
            of_spread, of_sort = self.spread_squares**-2, self.sort_squares**-2
            share = of_spread / (of_spread + of_sort)
            step = [share * a + (1.0 - share) * b for a, b in zip(spread, step, strict=True)]
        self.w = [w + mass * z for w, z in zip(self.w, step, strict=True)]
        self.squares += mass * mass * sum(z * z for z in step)
        self.mass += mass
