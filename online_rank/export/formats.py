"""The function `export` for all targets."""

import importlib
import json
from typing import Any

from online_rank.export.reading import Names
from online_rank.export.table import TARGETS

__all__ = ["FORMATS", "export"]

#: The names of the targets of `export`.
FORMATS = tuple(TARGETS)


def export(model: Any, to: str, *, name: str = "online_rank", names: Names = None) -> str | bytes:
    """A model as the content of a file for another program.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    to
        One of `FORMATS`.
    name
        The name of the model in the target.
    names
        The target's names of the d features, in order, or `{name: target's name}` for those that differ; None for the names
        that the model has learned, or f1, f2, ...

    Returns
    -------
    A string, or bytes for ONNX.

    Raises
    ------
    TypeError
        The target cannot compute the model; the message gives the reason, and the targets that can.
    ValueError
        `to` is unknown, the target does not allow a name, or the model has no features yet.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> print(export(PerceptronRanker.from_weights({"clicks": 2.0}), "ranklib"))
    ## Linear Regression
    ## Lambda = 0.0
    0:0.0 1:2.0
    <BLANKLINE>
    """
    if to not in TARGETS:
        raise ValueError(f"to is {to!r}; it must be one of {', '.join(map(repr, FORMATS))}")
    module, _, function = TARGETS[to].home.partition(":")
    made = getattr(importlib.import_module(f"online_rank.export.{module}"), function)(model, name=name, names=names)
    if isinstance(made, bytes):
        return made
    return (made if isinstance(made, str) else json.dumps(made, indent=2, ensure_ascii=False)).rstrip("\n") + "\n"
