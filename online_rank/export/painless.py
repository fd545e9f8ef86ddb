"""Models that score one document at a time as scripts of Elasticsearch and OpenSearch, without a plugin."""

import re
from typing import Any

from online_rank.export.expression import Dialect, definitions
from online_rank.export.reading import Names, prepared

_DIALECT = Dialect(
    choose=lambda condition, then, other: f"({condition} ? {then} : {other})",
    tanh="Math.tanh",
)
_FIELD = re.compile(r"[\w@][\w@.-]*")
#: The score of the query that the script stands around.
_SCORE = "_score"
#: Elasticsearch's limit, `script.max_size_in_bytes`.
_MOST_BYTES = 65535


def to_painless(model: Any, *, names: Names = None) -> dict[str, Any]:
    """A model as a `script_score` query in Painless, to rank before the plugin reranks the first documents, or without it.

    A missing field counts as 0, as in this library. Elasticsearch takes no scores below 0 and keeps them in single precision:
    the script returns 1 + s for a score s >= 0 and 1 / (1 - s) below, which are in the order of s.

    Parameters
    ----------
    model
        A linear ranker, `BoostedRanker` or `DirectRanker`, or a pipeline of transformers of single documents and one.
    names
        The fields of the d features, in order, or `{name: field}` for those that differ: numeric fields, or `_score` for the
        score of the query that is put in place of `match_all`.

    Returns
    -------
    A dict for `json.dumps`: the `query` of a search.

    Raises
    ------
    TypeError, ValueError
        A document's score depends on the others of its query, a name is no field, or the script is longer than 65,535 bytes.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> body = to_painless(PerceptronRanker.from_weights({"bm25": 2.0, "age": -0.5}), names={"bm25": "_score"})
    >>> print(body["script_score"]["script"]["source"])
    double x1 = _score;
    double x2 = doc['age'].size() == 0 ? 0.0 : doc['age'].value;
    double s = 2.0 * x1 + (-0.5) * x2;
    return s < 0 ? 1 / (1 - s) : 1 + s;
    """
    given = prepared(model, "vespa", names, title="a script of Elasticsearch")
    if given.templates:
        raise TypeError(f"names: {next(iter(given.templates))!r} has a template; scripts take names of fields")
    columns = [f"x{j + 1}" for j in range(len(given.texts))]
    named, score = definitions(given.form, columns, _DIALECT)
    values = [*zip(columns, map(_value, given.texts), strict=True), *named, ("s", score)]
    lines = [f"double {name} = {' '.join(text.split())};" for name, text in values]
    source = "\n".join([*lines, "return s < 0 ? 1 / (1 - s) : 1 + s;"])
    if (size := len(source.encode())) > _MOST_BYTES:
        raise ValueError(f"the script has {size:,} bytes, and Elasticsearch takes {_MOST_BYTES:,}: learn a smaller model")
    return {"script_score": {"query": {"match_all": {}}, "script": {"lang": "painless", "source": source}}}


def _value(field: str) -> str:
    """The value of a field of a document."""
    if field == _SCORE:
        return field
    if not _FIELD.fullmatch(field):
        raise ValueError(f"feature {field!r} is not the name of a field; give names (argument names)")
    return f"doc['{field}'].size() == 0 ? 0.0 : doc['{field}'].value"
