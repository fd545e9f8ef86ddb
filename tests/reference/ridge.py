"""Ridge regression within queries, by numpy's own solver."""

import numpy as np


def sums(queries, keep=1.0, weights=None):
    """A and b over queries (X, y) of more than one grade."""
    d = queries[0][0].shape[1]
    A, b = np.zeros((d, d)), np.zeros(d)
    for (X, y), w in zip(queries, weights or [1.0] * len(queries), strict=True):
        if len(set(y.tolist())) > 1 and w > 0:
            C, t = X - X.mean(axis=0), (y - y.mean()) / y.std()
            A, b = keep * A + w * C.T @ C / len(y), keep * b + w * C.T @ t / len(y)
    return A, b


def solution(A, b, ridge):
    return np.linalg.solve(A + ridge * np.eye(len(b)), b)
