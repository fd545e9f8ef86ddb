"""Metrics by name, for the command line and evaluation."""

import inspect
from typing import Any

from online_rank.extensions import registered
from online_rank.measures.table import MEASURES, parsed
from online_rank.metrics import binary, graded
from online_rank.metrics._river import Metric


def metric(name: str | Metric, **options: Any) -> Metric:
    """A new metric, by name.

    Parameters
    ----------
    name
        `"ndcg"` (no cutoff), `"ndcg@10"`, `"dcg@10"`, `"map"`, `"mrr"`, `"p@5"`, `"recall@5"`, `"hit_rate@5"`, `"err@20"`,
        `"linear_ndcg"`, `"pairwise_accuracy"`. `"ndcg_linear@10"` and `"dcg_linear@10"` have gain r in place of 2^r - 1,
        `"map_attainable@10"` divides by min(R, 10). The binary ones (map, mrr, p, recall, hit_rate) take the smallest relevant
        grade: `"map>=2"`, `"p@5>=2"`. A metric of your own has the name that it is registered under (`online_rank.register`).
        A metric is returned as it is.
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
    if isinstance(name, str) and "." in name:
        return _own(name, options)
    written = parsed(name)
    named = MEASURES[written.name]
    kind = getattr(graded, named.metric, None) or getattr(binary, named.metric)
    parameters: dict[str, Any] = {"k": written.k} if "k" in inspect.signature(kind).parameters else {}
    if written.threshold is not None:
        parameters["threshold"] = written.threshold
    return kind(**parameters, **named.options, **options)


def _own(name: str, options: dict[str, Any]) -> Metric:
    """A new metric of the user's own, by its registered name."""
    made = registered(name)(**options)
    if not isinstance(made, Metric):
        raise TypeError(f"{name!r} is the name of a {type(made).__name__}, which is not a metric")
    return made
