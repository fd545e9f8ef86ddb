"""A frozen copy of a model, with a bound on its expected loss on future queries."""

import copy
from typing import Any

from online_rank.arguments import integer
from online_rank.base import Wrapper
from online_rank.intervals import LossInterval, served_loss
from online_rank.measures.learned import learned_measure
from online_rank.measures.learned import measure as parse_measure

__all__ = ["FrozenCopy"]


class FrozenCopy(Wrapper):
    r"""A frozen copy of a model, measured on later queries.

    Let the queries from now on be drawn independently from one distribution, and let the k-th copy made (k = 0, 1, ...) be
    measured at level alpha / ((k + 1)(k + 2)). Then with probability at least 1 - alpha, for **every** copy and at all times,
    the copy's expected loss on a future query that can be ranked wrongly is at most `loss_limit`.

    Proof. The copy does not change, so each E_t x_t of `online_rank.intervals` is the expected loss of a future query, and so
    is their mean. Each interval is one-sided at level alpha / ((k + 1)(k + 2)), and these levels add up to alpha. QED.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one, with its transformers. The copy is deep.
    k
        How many copies were made before of models that learn from the same stream. Making copies at the queries 1, 2, 4, 8, ...
        keeps k small.
    measure
        The measure of the loss, ties broken pessimistically; None: the measure of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.bounds.frozen import FrozenCopy
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> queries = list(NoisyTeacher(n_queries=3000, n_features=10, n_documents=20))
    >>> model = PerceptronRanker()
    >>> for x, y in queries[:1000]:
    ...     model.learn_one(x, y)
    >>> frozen = FrozenCopy(model)
    >>> for x, y in queries[1000:]:
    ...     frozen.measure_one(x, y)
    >>> round(frozen.losses.mean, 3), round(frozen.loss_limit(0.95), 3)
    (0.079, 0.087)
    """

    def __init__(self, model: Any, *, k: int = 0, measure: str | None = None) -> None:
        integer("k", k, low=0)
        self.k = k
        self._measure = learned_measure(model) if measure is None else parse_measure(measure)
        self.measure = self._measure.name
        self.model = copy.deepcopy(model)
        self.losses = LossInterval()

    @property
    def _wrapped(self) -> tuple[Any]:
        return (self.model,)

    def measure_one(self, x: Any, y: Any) -> None:
        """Rank a query that the copy has not learned from, and add its loss; queries of one grade are ignored."""
        loss = served_loss(self._measure, self.model.predict_one(x), y)
        if loss is not None:
            self.losses.update(loss)

    def loss_limit(self, level: float = 0.95) -> float:
        """Upper bound on the expected loss of a future query, valid with probability `level`."""
        return self.losses.upper_limit(1.0 - (1.0 - level) / ((self.k + 1.0) * (self.k + 2.0)))
