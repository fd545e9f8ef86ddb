"""Metrics by name, as the command line and evaluation take them."""

import inspect
import re
from typing import Any

from river.metrics.base import Metric

from online_rank.metrics.base import RankingMetric
from online_rank.metrics.binary import MAP, MRR, PrecisionAtK
from online_rank.metrics.graded import ERR, NDCG, LinearNDCG, PairwiseAccuracy

__all__ = ["metric"]

_CLASSES: dict[str, type[RankingMetric]] = {
    "ndcg": NDCG,
    "map": MAP,
    "ap": MAP,
    "mrr": MRR,
    "p": PrecisionAtK,
    "err": ERR,
    "linearndcg": LinearNDCG,
    "pairwiseaccuracy": PairwiseAccuracy,
}


def metric(name: str | Metric) -> Metric:
    """The metric of a name, with nothing in it yet.

    Parameters
    ----------
    name
        `"ndcg"` (no cutoff), `"ndcg@10"`, `"map"`, `"mrr"`, `"p@5"`, `"err@20"`, `"linear_ndcg"`, `"pairwise_accuracy"`. The
        binary ones (map, mrr, p) take the smallest relevant grade: `"map>=2"`, `"p@5>=2"`. A metric is returned as it is.

    Raises
    ------
    ValueError
        There is no such metric, or it has no such parameter.

    Examples
    --------
    >>> metric("ndcg@5")
    NDCG@5: 0.000000
    >>> metric("p@10>=2").threshold
    2
    """
    if isinstance(name, Metric):
        return name
    match = re.fullmatch(r"([a-z]+)(?:@([1-9]\d*))?(?:>=([1-9]\d*))?", name.lower().replace("_", ""))
    if match and (kind := _CLASSES.get(match[1])):
        offered = inspect.signature(kind).parameters
        parameters: dict[str, Any] = {key: int(text) for key, text in (("k", match[2]), ("threshold", match[3])) if text}
        if "k" in offered and kind is not PrecisionAtK:
            parameters.setdefault("k", None)
        if parameters.keys() <= offered.keys() and (kind is not PrecisionAtK or "k" in parameters):
            return kind(**parameters)
    raise ValueError(
        f"metric {name!r} is unknown; there are ndcg, ndcg@K, map, mrr, p@K, err@K, linear_ndcg and pairwise_accuracy, "
        "and map, mrr and p@K with >=GRADE"
    )
