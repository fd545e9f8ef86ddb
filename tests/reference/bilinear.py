"""A perceptron on pairs of vectors, by explicit products of their numbers: loops, and exact sums of 50 digits."""

import math
from decimal import Decimal, localcontext

from tests.reference import perceptron


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length if length else 0.0 for x in vector]


def products(q, d):
    """The p k products of a query and a document, both of length 1."""
    return [a * b for a in unit(q) for b in unit(d)]


class SlowMatrix:
    """W as a list of p k weights of products, and the average of all W so far, or one with a decay."""

    def __init__(self, p, k, kappa=10.0, credit="adaptive", decay=1.0):
        self.learner = perceptron.BroadPerceptron(p * k, "ndcg@10", credit, 0.3)
        self.learner.w = [kappa if p == k and a == b and p > 1 else 0.0 for a in range(p) for b in range(k)]
        self.average, self.decay, self.counted = list(self.learner.w), decay, 0.0

    def scores(self, q, D, averaged=True):
        w = self.average if averaged else self.learner.w
        return [sum(a * b for a, b in zip(products(q, d), w, strict=True)) for d in D]

    def learn(self, q, D, y):
        if len(set(y)) < 2:
            return
        self.learner.learn([products(q, d) for d in D], y)
        self.counted = self.decay * self.counted + 1.0
        self.average = [v + (w - v) / self.counted for v, w in zip(self.average, self.learner.w, strict=True)]


class ExactBound:
    """F(U) of comparators on the pairs of the updates, and the bound, in decimal numbers of 50 digits."""

    def __init__(self, comparators):
        self.comparators = [[[Decimal(x) for x in row] for row in U] for U in comparators]
        self.F = [Decimal(0) for _ in comparators]
        #: V, the exact sum of the masses.
        self.mass = Decimal(0)

    def add(self, q, inverse, D, pairs, mass):
        """Add the hinges of `pairs` {(i, j): a_ij}, scaled to the exact mass, of a query q of length 1."""
        with localcontext(prec=50):
            scale = Decimal(mass) / sum(map(Decimal, pairs.values()))
            self.mass += Decimal(mass)
            for n, U in enumerate(self.comparators):
                t = [sum(Decimal(q[a]) * U[a][b] for a in range(len(q))) for b in range(len(U[0]))]
                s = [
                    Decimal(i) * sum(Decimal(x) * y for x, y in zip(d, t, strict=True)) for i, d in zip(inverse, D, strict=True)
                ]
                for (i, j), a in pairs.items():
                    self.F[n] += scale * Decimal(a) * max(Decimal(0), 1 - (s[i] - s[j]))

    def slacks(self, W1, squares):
        """F(U) + |U| sqrt(|W1|^2 + Q) - <U, W1> of each comparator, less V, as a share of V."""
        with localcontext(prec=50):
            W1 = [[Decimal(x) for x in row] for row in W1]
            root = (sum(x * x for row in W1 for x in row) + Decimal(squares)).sqrt()
            found = []
            for F, U in zip(self.F, self.comparators, strict=True):
                norm = sum(x * x for row in U for x in row).sqrt()
                product = sum(x * y for u, w in zip(U, W1, strict=True) for x, y in zip(u, w, strict=True))
                found.append((F + norm * root - product) / self.mass - 1 if self.mass else Decimal(0))
            return found
