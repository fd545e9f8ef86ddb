"""One function for all targets."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from online_rank.export.elasticsearch import to_elasticsearch
from online_rank.export.onnx import to_onnx
from online_rank.export.plain import to_c, to_json
from online_rank.export.ranklib import to_ranklib
from online_rank.export.solr import to_solr
from online_rank.export.vespa import to_vespa

__all__ = ["FORMATS", "export"]

Writer = Callable[[Any, str, Sequence[str] | None], str | bytes]

_WRITERS: dict[str, Writer] = {
    "c": lambda model, name, names: to_c(model, name=name, names=names),
    "elasticsearch": lambda model, name, names: _as_json(to_elasticsearch(model, name=name, names=names)),
    "json": lambda model, name, names: _as_json(to_json(model, names=names)),
    "onnx": lambda model, name, names: to_onnx(model, name=name, names=names).SerializeToString(),
    "opensearch": lambda model, name, names: _as_json(to_elasticsearch(model, name=name, names=names)),
    "ranklib": lambda model, name, names: to_ranklib(model) + "\n",
    "solr": lambda model, name, names: _as_json(to_solr(model, name=name, names=names)),
    "solr-normalized": lambda model, name, names: _as_json(to_solr(model, name=name, normalizers=True, names=names)),
    "vespa": lambda model, name, names: to_vespa(model, name=name, names=names) + "\n",
}

#: What `export` can write.
FORMATS = tuple(_WRITERS)


def export(model: Any, to: str, *, name: str = "online_rank", names: Sequence[str] | None = None) -> str | bytes:
    """A model as the content of a file for another program.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    to
        One of `FORMATS`.
    name
        What the target calls the model.
    names
        What the target calls the d features; None for the names that the model has learned, or f0, f1, ...

    Returns
    -------
    Text; bytes for ONNX.

    Raises
    ------
    TypeError
        The target cannot compute the model; the message says why.
    ValueError
        `to` is unknown, a name is none that the target takes, or the model has met no feature.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> print(export(PerceptronRanker.from_weights({"clicks": 2.0}), "ranklib"))
    ## Linear Regression
    ## Lambda = 0.0
    0:0.0 1:2.0
    <BLANKLINE>
    """
    if to not in _WRITERS:
        raise ValueError(f"to is {to!r}; it must be one of {', '.join(map(repr, FORMATS))}")
    return _WRITERS[to](model, name, names)


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
