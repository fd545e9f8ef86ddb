"""Metrics by name, for the command line and evaluation."""

import inspect
import re
from typing import Any

from online_rank.metrics._river import Metric
from online_rank.metrics.base import RankingMetric
from online_rank.metrics.binary import MAP, MRR, HitRate, PrecisionAtK, RecallAtK
from online_rank.metrics.graded import DCG, ERR, NDCG, LinearNDCG, PairwiseAccuracy

__all__ = ["metric"]

_CLASSES: dict[str, type[RankingMetric]] = {
    "ndcg": NDCG,
    "dcg": DCG,
    "map": MAP,
    "ap": MAP,
    "mrr": MRR,
    "p": PrecisionAtK,
    "recall": RecallAtK,
    "hitrate": HitRate,
    "err": ERR,
    "linearndcg": LinearNDCG,
    "pairwiseaccuracy": PairwiseAccuracy,
}

#: Names of metrics with an option.
_VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "ndcglinear": ("ndcg", {"gain": "linear"}),
    "dcglinear": ("dcg", {"gain": "linear"}),
    "mapattainable": ("map", {"divisor": "attainable"}),
}


def metric(name: str | Metric, **options: Any) -> Metric:
    """A new metric, by name.

    Parameters
    ----------
    name
        `"ndcg"` (no cutoff), `"ndcg@10"`, `"dcg@10"`, `"map"`, `"mrr"`, `"p@5"`, `"recall@5"`, `"hit_rate@5"`, `"err@20"`,
        `"linear_ndcg"`, `"pairwise_accuracy"`. `"ndcg_linear@10"` and `"dcg_linear@10"` have gain r in place of 2^r - 1,
        `"map_attainable@10"` divides by min(R, 10). The binary ones (map, mrr, p, recall, hit_rate) take the smallest relevant
        grade: `"map>=2"`, `"p@5>=2"`. A metric is returned as it is.
    **options
        Further arguments of the metric, such as `ties` and `no_relevant`.

    Raises
    ------
    ValueError
        The metric is unknown, or it has no such parameter.

    Examples
    --------
    >>> metric("ndcg@5")
    NDCG@5: 0.000000
    >>> metric("p@10>=2").threshold
    2
    """
    if isinstance(name, Metric):
        return name
    if not isinstance(name, str):
        raise TypeError(f"metric is {name!r:.60}; it is a name, such as 'ndcg@10'")
    match = re.fullmatch(r"([a-z]+)(?:@([1-9]\d*))?(?:>=([1-9]\d*))?", name.lower().replace("_", ""))
    label, variant = _VARIANTS.get(match[1], (match[1], {})) if match else ("", {})
    if match and (kind := _CLASSES.get(label)):
        offered = inspect.signature(kind).parameters
        parameters: dict[str, Any] = {key: int(text) for key, text in (("k", match[2]), ("threshold", match[3])) if text}
        needs_cutoff = kind in (PrecisionAtK, RecallAtK, HitRate) or "divisor" in variant
        if "k" in offered and not needs_cutoff:
            parameters.setdefault("k", None)
        if parameters.keys() <= offered.keys() and ("k" in parameters or not needs_cutoff):
            return kind(**parameters, **variant, **options)
    raise ValueError(
        f"metric {name!r} is unknown; there are ndcg, dcg, ndcg_linear, dcg_linear, map, mrr and err, with @K or without, p@K, "
        "recall@K, hit_rate@K, map_attainable@K, linear_ndcg and pairwise_accuracy; the binary ones also with >=GRADE"
    )
