"""Detects features with heavy tails, for which a linear scale is unsuitable."""

import numpy as np

__all__ = ["heavy_tails"]

#: A feature has heavy tails if its largest absolute value is this many times the median, and at least this large.
_RATIO, _LARGE = 100.0, 10.0

#: Fewest values needed to detect heavy tails.
_FEWEST = 50


def heavy_tails(X: np.ndarray) -> np.ndarray:
    """Find features with heavy tails, such as counts and lengths; `StreamQuantileMap`, `SignedLog` or `QueryNormalizer` tame
    them.

    A feature has a heavy tail if its largest absolute value is above 10 and at least 100 times the median of the non-zero ones.
    Of 5,000 values the ratio is about 6 for a normal distribution, 12 for an exponential and 250 for a log-normal one with
    sigma = 1.5.

    Parameters
    ----------
    X
        Features (n, d) of documents of many queries. Columns with fewer than 50 non-zero values are never flagged.

    Returns
    -------
    bool array (d,).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> heavy_tails(np.column_stack([10 * rng.normal(size=5000), np.exp(2 * rng.normal(size=5000))]))
    array([False,  True])
    """
    heavy = np.zeros(X.shape[1], dtype=bool)
    for j, column in enumerate(X.T):
        values = np.abs(column[column != 0])
        if len(values) >= _FEWEST:
            heavy[j] = values.max() >= max(_LARGE, _RATIO * np.median(values))
    return heavy
