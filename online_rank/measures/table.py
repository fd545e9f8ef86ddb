"""The table of ranking measures: their names, the forms of a name, and which of them rankers can learn for."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from online_rank._kernels.codes import (
    AP,
    AP_ATTAINABLE,
    DCG,
    ERR,
    HIT_RATE,
    LINEAR_NDCG,
    NDCG,
    PAIRWISE_ACCURACY,
    PRECISION,
    RECALL,
    RECIPROCAL_RANK,
)

_ANY = ("", "@K", ">=GRADE", "@K>=GRADE")


class Named(NamedTuple):
    """An entry of the table.

    Attributes
    ----------
    kind
        The code of the measure in kernels.
    forms
        The suffixes allowed for metrics: a cutoff `@K`, the smallest relevant grade `>=GRADE`, both or nothing.
    metric
        The class of its metric in `online_rank.metrics`; empty if it is only learned for.
    options
        The options by which the class is this metric.
    learned
        As `forms`, for measures that a ranker learns for; empty if no ranker does.
    """

    kind: int
    forms: tuple[str, ...]
    metric: str = ""
    options: Mapping[str, str] = MappingProxyType({})
    learned: tuple[str, ...] = ()


#: Every measure, by its name.
MEASURES = {
    "ndcg": Named(NDCG, ("", "@K"), "NDCG", learned=("", "@K")),
    "ap": Named(AP, _ANY, "MAP", learned=("", ">=GRADE")),
    "linear_ndcg": Named(LINEAR_NDCG, ("",), "LinearNDCG", learned=("",)),
    "ndcg_linear": Named(NDCG, ("", "@K"), "NDCG", {"gain": "linear"}),
    "dcg": Named(DCG, ("", "@K"), "DCG"),
    "dcg_linear": Named(DCG, ("", "@K"), "DCG", {"gain": "linear"}),
    "mrr": Named(RECIPROCAL_RANK, _ANY, "MRR"),
    "err": Named(ERR, ("", "@K"), "ERR"),
    "p": Named(PRECISION, ("@K", "@K>=GRADE"), "PrecisionAtK"),
    "recall": Named(RECALL, ("@K", "@K>=GRADE"), "RecallAtK"),
    "hit_rate": Named(HIT_RATE, ("@K", "@K>=GRADE"), "HitRate"),
    "map_attainable": Named(AP_ATTAINABLE, ("@K", "@K>=GRADE"), "MAP", {"divisor": "attainable"}),
    "pairwise_accuracy": Named(PAIRWISE_ACCURACY, ("",), "PairwiseAccuracy"),
}
_ALIASES = {"map": "ap"}
#: Underscores may be left out.
_SPELLED = {name.replace("_", ""): name for name in MEASURES} | _ALIASES


class Written(NamedTuple):
    """The parts of a name: that in the table, the cutoff and the smallest relevant grade, or None."""

    name: str
    k: int | None
    threshold: int | None


def parsed(text: str, *, learned: bool = False) -> Written:
    """The parts of a name such as `"p@5>=2"`.

    Parameters
    ----------
    text
        The name, in capitals or not.
    learned
        Whether it must be a measure that rankers learn for.

    Raises
    ------
    TypeError, ValueError
        It is not a name, or the measure of this name is not suitable.

    Examples
    --------
    >>> parsed("MAP@5>=2")
    Written(name='ap', k=5, threshold=2)
    >>> parsed("mrr", learned=True)
    Traceback (most recent call last):
        ...
    ValueError: measure 'mrr' is a metric only; rankers learn for ndcg[@K], ap[>=GRADE], linear_ndcg
    """
    what = "measure" if learned else "metric"
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r:.60}; it is a name, such as 'ndcg@10'")
    match = re.fullmatch(r"([a-z0-9_]+)(?:@([1-9]\d*))?(?:>=([1-9]\d*))?", text.lower())
    if match and (name := _SPELLED.get(match[1].replace("_", ""))):
        form = ("@K" if match[2] else "") + (">=GRADE" if match[3] else "")
        if form in (MEASURES[name].learned if learned else MEASURES[name].forms):
            return Written(name, *(int(part) if part else None for part in (match[2], match[3])))
        if learned and form in MEASURES[name].forms:
            raise ValueError(f"measure {text!r:.60} is a metric only; rankers learn for {listed(learned=True)}")
    raise ValueError(f"{what} {text!r:.60} is unknown; there are {listed(learned=learned)}")


def listed(*, learned: bool = False) -> str:
    """All names with their suffixes; optional ones are in brackets.

    Examples
    --------
    >>> listed(learned=True)
    'ndcg[@K], ap[>=GRADE], linear_ndcg'
    """
    forms = {name: one.learned if learned else one.forms for name, one in MEASURES.items()}
    return ", ".join(name + _suffix(form) for name, form in forms.items() if form)


def _suffix(forms: tuple[str, ...]) -> str:
    """The suffixes that names of these forms have; those that some lack are in brackets."""
    found = ""
    for part in ("@K", ">=GRADE"):
        n = sum(part in form for form in forms)
        found += f"[{part}]" if 0 < n < len(forms) else part * (n > 0)
    return found
