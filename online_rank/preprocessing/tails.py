"""Features with heavy tails, which a linear scale does not suit."""

import numpy as np

__all__ = ["heavy_tails"]

#: The largest absolute value of a feature with heavy tails: so many times the median one, and at least so large.
_RATIO, _LARGE = 100.0, 10.0

#: Fewer values than these say nothing about tails.
_FEWEST = 50


def heavy_tails(X: np.ndarray) -> np.ndarray:
    """Which features have heavy tails, as counts and lengths do; `SignedLog` or `QueryNormalizer` bring them to scale.

    A feature has when the largest of its absolute values is above 10 and at least 100 times the median of those that are not 0.
    Of 5,000 values the ratio is about 6 for a normal distribution, 12 for an exponential and 250 for a log-normal one with
    sigma = 1.5.

    Parameters
    ----------
    X
        Features (n, d) of documents of many queries. Columns with fewer than 50 values other than 0 are not judged.

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
