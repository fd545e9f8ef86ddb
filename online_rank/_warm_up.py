"""Compiling ahead of time."""

from typing import Any

import numpy as np

__all__ = ["warm_up"]


def warm_up(*models: Any) -> None:
    """Compile the kernels that learning and ranking need, so that no user waits for them: for container images.

    Compiled kernels are kept in numba's cache: beside the package where that can be written to, else in the user's cache folder
    (`NUMBA_CACHE_DIR` sets another). They serve every later process with the same code, processor and versions.

    Parameters
    ----------
    *models
        Rankers or pipelines; copies of them learn and rank two small queries. None: `PerceptronRanker()`, alone and behind a
        `StreamScaler`, and `GradientRanker()`.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, warm_up
    >>> warm_up(PerceptronRanker())
    """
    from online_rank import GradientRanker, PerceptronRanker, StreamScaler
    from online_rank.metrics import NDCG

    chosen = models or (PerceptronRanker(), StreamScaler() | PerceptronRanker(), GradientRanker())
    for dtype in (np.float64, np.float32):
        X = (np.arange(12.0).reshape(4, 3) % 5).astype(dtype)
        for model in chosen:
            learner = model.clone()
            learner.learn_one(X, [0, 1, 2, 0])
            learner.learn_many(X, [0, 1, 2, 0], [0, 0, 1, 1])
            NDCG(k=10).update([0, 1, 2, 0], learner.predict_one(X))
            learner.rank_one(X)
