"""The batch learners that several benchmarks compare with, behind the two methods that they call."""

from typing import Any

import numpy as np

from online_rank.query import query_offsets


class LambdaMART:
    """LightGBM's lambdarank, with columns of categories; what is not given is its default."""

    def __init__(self, categories: tuple[int, ...] = (), **settings: Any) -> None:
        import lightgbm

        self._categories = [*categories]

        self._model = lightgbm.LGBMRanker(**{"objective": "lambdarank", "verbose": -1, "n_jobs": 2} | settings)

    def learn_many(self, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> None:
        """Train on all queries."""
        self._model.fit(X, y, group=np.diff(query_offsets(qid, len(y))), categorical_feature=self._categories)

    def predict_many(self, X: np.ndarray) -> np.ndarray:
        """Scores of documents."""
        return np.asarray(self._model.predict(X))
