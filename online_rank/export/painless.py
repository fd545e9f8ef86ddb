"""Models that score one document at a time as scripts of Elasticsearch and OpenSearch, without a plugin."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from online_rank.base.form import Trees
from online_rank.export.expression import Dialect, definitions, number
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.export.vector_fields import VectorField

_FIELD = re.compile(r"[\w@][\w@.-]*")
#: The score of the query that the script stands around.
_SCORE = "_score"
#: Elasticsearch's limit, `script.max_size_in_bytes`.
_MOST_BYTES = 65535
#: The functions that read parameters: scripts are short, however large the model.
_CURVE = """double curve(double x, def c, double missing) {
  if (x != x) { return missing; }
  int low = 0, high = c.u.size() - 1;
  if (x <= c.u[0]) { return c.y[0]; }
  if (x >= c.u[high]) { return c.y[high]; }
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (c.u[middle] <= x) { low = middle; } else { high = middle; }
  }
  return c.y[low] + (x - c.u[low]) * c.slopes[low];
}
"""
_TREES = """double trees(double[] x, def t) {
  double sum = 0.0;
  for (int k = 0; k < t.starts.size(); ++k) {
    int node = t.starts[k];
    while (t.columns[node] >= 0) {
      node = x[t.columns[node]] >= t.thresholds[node] ? t.right[node] : t.left[node];
    }
    sum += t.values[node];
  }
  return sum;
}
"""


def to_painless(model: Any, *, name: str = "online_rank", names: Names = None) -> dict[str, Any]:
    """A model as a `script_score` query in Painless, to rank before the plugin reranks the first documents, or without it.

    A missing field is missing, or counts as 0, as in this library. Categories are keyword fields, or boolean ones if their
    levels are true and false. Elasticsearch takes no scores below 0 and keeps them in single precision: the script returns
    1 + s for a score s >= 0 and 1 / (1 - s) below, which are in the order of s. Curves and trees are parameters of the script;
    so are entries of the context, and the vectors that follow from the vector of the query: they are null here, and
    `query_inputs` gives them for a query.

    Parameters
    ----------
    model
        Any model whose score of a document depends on that document alone.
    name
        Not used.
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
    double s = 2.0 * x1 + (-0.5) * x2 + 0.0;
    return s < 0 ? 1 / (1 - s) : 1 + s;
    """
    given = prepared(model, "painless", names)
    columns = [f"x{j + 1}" for j in range(len(given.texts))]
    script = _Script()
    stages, score = definitions(given, columns, script.dialect)
    values_of = {j: text for own in given.vectors for j, text in _vector(own, given.form.takes_missing, script.params)}
    values_of |= {j: _of_context(given, j, script.params) for j in given.context}
    lines = [f"double {x} = {values_of.get(j) or _value(given, j)};" for j, x in enumerate(columns)]
    values = [*(definition for stage in stages for definition in stage), ("s", score)]
    # The values of levels are texts, whose blanks are theirs.
    lines += [f"double {name} = {' '.join(text.split())};" for name, text in values]
    source = script.functions + "\n".join([*lines, "return s < 0 ? 1 / (1 - s) : 1 + s;"])
    if (size := len(source.encode())) > _MOST_BYTES:
        raise ValueError(f"the script has {size:,} bytes, and Elasticsearch takes {_MOST_BYTES:,}: learn a smaller model")
    made: dict[str, Any] = {"lang": "painless", "source": source, **({"params": script.params} if script.params else {})}
    return {"script_score": {"query": {"match_all": {}}, "script": made}}


class _Script:
    """The functions that a script calls, and its parameters."""

    def __init__(self) -> None:
        self.functions = ""
        self.params: dict[str, Any] = {}
        self.dialect = Dialect(
            choose=lambda condition, then, other: f"({condition} ? {then} : {other})",
            is_missing=lambda x: f"{x} != {x}",
            curve=self._curve,
            trees=self._trees,
            tanh="Math.tanh",
            missing="Double.NaN",
        )

    def _parameter(self, function: str, value: dict[str, Any]) -> str:
        self.functions += "" if function in self.functions else function
        called = f"model{len(self.params) + 1}"
        self.params[called] = value
        return f"params.{called}"

    def _curve(self, x: str, xs: np.ndarray, ys: np.ndarray, slopes: np.ndarray, missing: float) -> str:
        points = {"u": xs.tolist(), "y": ys.tolist(), "slopes": slopes.tolist()}
        return f"curve({x}, {self._parameter(_CURVE, points)}, {number(missing)})"

    def _trees(self, columns: Sequence[str], head: Trees) -> str:
        starts = np.cumsum([0, *(len(tree.columns) for tree in head.trees)]).tolist()
        nodes: dict[str, list[Any]] = {part: [] for part in ("columns", "thresholds", "left", "right", "values")}
        for start, tree in zip(starts, head.trees, strict=False):
            moved = tree._replace(left=tree.left + start, right=tree.right + start)
            for part, numbers in nodes.items():
                numbers += getattr(moved, part).tolist()
        return f"trees(new double[] {{{', '.join(columns)}}}, {self._parameter(_TREES, {'starts': starts[:-1], **nodes})})"


def _vector(own: VectorField, takes_missing: bool, params: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """The values of the columns that are made of a vector, a field of the type `dense_vector`."""
    field, missing = own.field, "Double.NaN" if takes_missing else "0.0"
    if not _FIELD.fullmatch(field):
        raise ValueError(f"the vector {field!r} is not the name of a field; give names (argument names)")
    parameters = own.parameters(None)
    for name in parameters:
        _claim(params, name, None)
    lacks = f"doc['{field}'].size() == 0 || doc['{field}'].magnitude == 0"
    for j, column in own.columns.items():
        name = column.parameter
        if not column.of_query:
            _claim(params, name, column.matrix[0].tolist())
        condition = f"{lacks} || params.{name} == null" if column.of_query else lacks
        if parameters and column.alone:
            condition = f"{lacks} || params.{next(iter(parameters))} != null"
        yield j, f"{condition} ? {missing} : dotProduct(params.{name}, '{field}') / doc['{field}'].magnitude"


def _of_context(given: Prepared, j: int, params: dict[str, Any]) -> str:
    """The value of an entry of the context: a parameter, null if it is not known."""
    own = given.levels.get(j)
    name = given.texts[j] if own is None else own.field
    if not _FIELD.fullmatch(name):
        raise ValueError(f"the context's {name!r} is not the name of a parameter; give names (argument names)")
    _claim(params, name, None)
    if own is not None:
        return f"params['{name}'] == {_quoted(own.level or '')} ? 1.0 : 0.0"
    missing = "Double.NaN" if given.form.takes_missing else "0.0"
    return f"params['{name}'] == null ? {missing} : params['{name}']"


def _claim(params: dict[str, Any], name: str, value: Any) -> None:
    """Add a parameter. Raises ValueError for a name that another one has."""
    if params.get(name) is not None:
        raise ValueError(f"{name!r} would be the name of two parameters of the script; give other names (argument names)")
    params[name] = value


def _value(given: Prepared, j: int) -> str:
    """The value of feature number j of a document."""
    if given.texts[j] == _SCORE:
        return _SCORE
    own = given.levels.get(j)
    field = given.texts[j] if own is None else own.field
    if not _FIELD.fullmatch(field):
        raise ValueError(f"feature {field!r} is not the name of a field; give names (argument names)")
    if own is None:
        missing = "Double.NaN" if given.form.takes_missing else "0.0"
        return f"doc['{field}'].size() == 0 ? {missing} : doc['{field}'].value"
    if own.level is None:
        others = ", ".join(map(_quoted, dict.fromkeys(["", *own.others])))  # An empty text is a missing one.
        return f"doc['{field}'].stream().anyMatch(v -> ![{others}].contains(v)) ? 1.0 : 0.0"
    boolean = {*own.others} <= {"true", "false"}
    return f"doc['{field}'].contains({own.level if boolean else _quoted(own.level)}) ? 1.0 : 0.0"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
