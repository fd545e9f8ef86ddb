"""The table of ranking measures: their names, the forms of a name, and which of them rankers can learn for."""

import re
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

__all__ = ["MEASURES", "Named", "Written", "listed", "parsed"]

_ANY = ("", "@K", ">=GRADE", "@K>=GRADE")
#: The suffixes of names, as shown in help and messages.
_BRACKETS = {
    ("",): "",
    ("", "@K"): "[@K]",
    ("", ">=GRADE"): "[>=GRADE]",
    ("@K", "@K>=GRADE"): "@K[>=GRADE]",
    _ANY: "[@K][>=GRADE]",
}


class Named(NamedTuple):
    """An entry of the table.

    Attributes
    ----------
    kind
        The code of the measure in kernels.
    forms
        The suffixes allowed for metrics: a cutoff `@K`, the smallest relevant grade `>=GRADE`, both or nothing.
    learned
        The same for measures that a ranker learns for; empty if no ranker does.
    """

    kind: int
    forms: tuple[str, ...]
    learned: tuple[str, ...] = ()


#: Every measure, by its name.
MEASURES = {
    "ndcg": Named(NDCG, ("", "@K"), learned=("", "@K")),
    "ap": Named(AP, _ANY, learned=("", ">=GRADE")),
    "linear_ndcg": Named(LINEAR_NDCG, ("",), learned=("",)),
    "ndcg_linear": Named(NDCG, ("", "@K")),
    "dcg": Named(DCG, ("", "@K")),
    "dcg_linear": Named(DCG, ("", "@K")),
    "mrr": Named(RECIPROCAL_RANK, _ANY),
    "err": Named(ERR, ("", "@K")),
    "p": Named(PRECISION, ("@K", "@K>=GRADE")),
    "recall": Named(RECALL, ("@K", "@K>=GRADE")),
    "hit_rate": Named(HIT_RATE, ("@K", "@K>=GRADE")),
    "map_attainable": Named(AP_ATTAINABLE, ("@K", "@K>=GRADE")),
    "pairwise_accuracy": Named(PAIRWISE_ACCURACY, ("",)),
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
        It is not a name, or not that of a suitable measure.

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
    return ", ".join(name + _BRACKETS[form] for name, form in forms.items() if form)
