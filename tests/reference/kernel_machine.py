"""The kernel perceptron with a budget: projections by least squares, and the best document to store by trying each."""

import math

import numpy as np

from tests.reference import perceptron


def rbf(gamma):
    return lambda x, z: math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


def polynomial(gamma, degree, coef0):
    return lambda x, z: (gamma * sum(a * b for a, b in zip(x, z, strict=True)) + coef0) ** degree


def gram(k, a, b):
    return np.array([[k(x, z) for z in b] for x in a]).reshape(len(a), len(b))


class Projectron:
    """f = sum of alpha_b k(z_b, .), on plain lists."""

    def __init__(self, k, measure, budget, tolerance, beta):
        self.k, self.measure, self.budget, self.tolerance, self.beta = k, measure, budget, tolerance, beta
        self.stored, self.alpha = [], np.empty(0)
        self.squares = self.masses = self.error = 0.0

    def values(self, X):
        return gram(self.k, X, self.stored) @ self.alpha if self.stored else np.zeros(len(X))

    def projection(self, X, c):
        """Coefficients of P g on the stored documents, ||P g||^2 and ||g - P g||."""
        whole = float(c @ gram(self.k, X, X) @ c)
        if not self.stored:
            return np.empty(0), 0.0, math.sqrt(max(whole, 0.0))
        h = gram(self.k, self.stored, X) @ c
        coefficients = np.linalg.lstsq(gram(self.k, self.stored, self.stored), h, rcond=None)[0]
        square = float(coefficients @ h)
        return coefficients, square, math.sqrt(max(whole - square, 0.0))

    def learn(self, X, y, weight=1.0):
        """One round. Returns loss, mass, ||P g||^2, tau and the pair weights a_ij."""
        grades = perceptron.effective(self.measure, y)
        s = self.values(X).tolist()
        loss = perceptron.loss(self.measure, s, grades) if len(set(grades)) > 1 else 0.0
        tau = self.beta * self.squares / self.masses if self.masses else 0.0
        if loss <= 1e-15:
            return 0.0, 0.0, 0.0, tau, {}
        v = perceptron.weights(self.measure, "mean", s, grades)
        a = perceptron.pair_weights("spread", v, s, grades, tau)
        mass = weight * loss
        a = {pair: mass * value / sum(a.values()) for pair, value in a.items()}
        c = np.zeros(len(y))
        for (i, j), a_ij in a.items():
            c[i] += a_ij
            c[j] -= a_ij
        while len(self.stored) < self.budget and self.projection(X, c)[2] > self.tolerance * mass + 1e-7:
            errors = {}
            for i in np.flatnonzero(c):
                self.stored.append(X[i])
                errors[i] = self.projection(X, c)[2]
                self.stored.pop()
            self.stored.append(X[min(errors, key=errors.get)])
            self.alpha = np.append(self.alpha, 0.0)
        coefficients, square, error = self.projection(X, c)
        self.alpha = self.alpha + coefficients
        self.squares += square
        self.masses += mass
        self.error += error
        return loss, mass, square, tau, a
