"""The function `export` for all targets."""

import importlib
import json
from collections.abc import Sequence
from typing import Any

from online_rank.export.fusion import fusion_weights
from online_rank.export.reading import Names
from online_rank.export.table import TARGETS
from online_rank.query import Runs


def export(
    model: Any, to: str, *, name: str = "online_rank", names: Names = None, queries: Sequence[Runs] | None = None
) -> str | bytes:
    """A model as the content of a file for another program.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    to
        One of `TARGETS`.
    name
        The name of the model in the target.
    names
        The target's names of the d features, in order, or `{name: target's name}` for those that differ; None for the names
        that the model has learned, or f1, f2, ... For targets that fuse runs, what stands for each run: a retriever of
        Elasticsearch, a request parameter of Solr, a feature of Vespa, or a column of SQL.
    queries
        For targets that fuse runs: queries by which the nearest model is fitted, if the target cannot compute this one
        (`fusion_weights` has the share of changed rankings, and its errors).

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
    >>> print(export(PerceptronRanker.from_weights({"clicks": 2.0}), "json"))
    {
      "features": [
        "clicks"
      ],
      "weights": [
        2.0
      ],
      "constant": 0.0
    }
    <BLANKLINE>
    """
    if to not in TARGETS:
        raise ValueError(f"to is {to!r}; it must be one of {', '.join(map(repr, TARGETS))}")
    module, _, function = TARGETS[to].home.partition(":")
    write = getattr(importlib.import_module(f"online_rank.export.{module}"), function)
    if "fusion" in TARGETS[to].kinds:
        made = write(fusion_weights(model, to, queries=queries), name, names)
    elif queries is not None:
        raise ValueError(f"queries are for targets that fuse runs; {TARGETS[to].title} computes features")
    else:
        made = write(model, name=name, names=names)
    if isinstance(made, bytes):
        return made
    return (made if isinstance(made, str) else json.dumps(made, indent=2, ensure_ascii=False)).rstrip("\n") + "\n"
