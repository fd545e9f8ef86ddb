"""Iterative parameter mixing in plain loops: `online_rank.distributed` is checked against it."""

import math

from tests.reference import perceptron


class Machine:
    """A perceptron that keeps every weight vector, and a standardisation by all documents that it knows of."""

    def __init__(self, w, vectors, documents, squares, mass):
        self.w, self.vectors, self.documents, self.squares, self.mass = w, vectors, documents, squares, mass

    def learn(self, X, y, scaled, **settings):
        if scaled:
            self.documents = self.documents + [list(x) for x in X]
            X = standardised(X, self.documents)
        ratio = self.squares / self.mass if self.mass > 0.0 else 0.0
        new, _, mass, _ = perceptron.learn(X, list(y), self.w, square_over_mass=ratio, **settings)
        self.squares += sum((a - b) ** 2 for a, b in zip(new, self.w, strict=True))
        self.mass += mass
        self.w = new
        if len(set(y)) > 1:
            self.vectors = [*self.vectors, new]


def standardised(X, documents):
    """X by mean and variance of `documents`, in two passes."""
    n, columns = len(documents), range(len(X[0]))
    means = [sum(x[j] for x in documents) / n for j in columns]
    deviations = [math.sqrt(sum((x[j] - means[j]) ** 2 for x in documents) / n) for j in columns]
    return [[(x[j] - means[j]) / deviations[j] if deviations[j] > 0.0 else 0.0 for j in columns] for x in X]


def train(rounds, d, *, scaled, **settings):
    """Rounds of K parts of queries. Returns the weights that learn, those that serve, and the documents of all."""
    base = Machine([0.0] * d, [], [], 0.0, 0.0)
    for parts in rounds:
        machines = [Machine(base.w, base.vectors, base.documents, base.squares, base.mass) for _ in parts]
        for machine, part in zip(machines, parts, strict=True):
            for X, y in part:
                machine.learn(X.tolist(), y.tolist(), scaled, **settings)
        masses = [machine.mass - base.mass for machine in machines]
        n, m = len(base.vectors), len(base.documents)
        base = Machine(
            [sum(machine.w[j] for machine in machines) / len(parts) for j in range(d)],
            base.vectors + [v for machine in machines for v in machine.vectors[n:]],
            base.documents + [x for machine in machines for x in machine.documents[m:]],
            base.squares + sum(machine.squares - base.squares for machine in machines),
            base.mass + sum(masses),
        )
    served = [sum(v[j] for v in base.vectors) / len(base.vectors) for j in range(d)] if base.vectors else base.w
    return base.w, served, base.documents
