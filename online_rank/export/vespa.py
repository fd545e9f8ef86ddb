"""Models that score one document at a time as Vespa rank profiles."""

import json
import re
from collections.abc import Iterator
from typing import Any

from online_rank.export.expression import Dialect, definitions
from online_rank.export.reading import Names, Prepared, prepared, require_different
from online_rank.export.vector_fields import VectorField

_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Vespa's rank features: bm25(title), fieldMatch(title).completeness, query(age), ...
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([\w.,\" -]*\)(\.\w+)*")
_MISSING = "(0.0 / 0.0)"
_DIALECT = Dialect(
    choose=lambda condition, then, other: f"if({condition}, {then}, {other})",
    is_missing=lambda x: f"isNan({x}) == 1",
    missing=_MISSING,
)


def to_vespa(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """A model as a rank profile for a Vespa schema. A missing attribute is missing, or counts as 0, as in this library.

    Categories are attributes of texts with one value, or, if their levels are true and false, of booleans, of which Vespa takes
    a missing one for false. A vector is an attribute `tensor<float>(x[k])`, and what follows from the vector of the query is in
    inputs of the profile, which `query_inputs` gives, as are entries of the context.

    Parameters
    ----------
    model
        Any model whose score of a document depends on that document alone.
    name
        Name of the profile.
    names
        Vespa's names of the d features, in order, or `{name: Vespa's}` for those that differ: the name of an attribute, or one
        of Vespa's rank features, such as `bm25(title)`. None for the names that the model has learned, or f1, f2, ...

    Raises
    ------
    TypeError, ValueError
        A document's score depends on the others of its query, or a name is neither an attribute nor a rank feature.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> print(to_vespa(PerceptronRanker.from_weights({"bm25(title)": 2.0, "age": -0.5})))
    rank-profile online_rank inherits default {
        first-phase {
            expression {
                2.0 * bm25(title)
                + (-0.5) * if(isNan(attribute(age)) == 1, 0, attribute(age))
                + 0.0
            }
        }
    }
    """
    given = prepared(model, "vespa", names)
    if not _ATTRIBUTE.fullmatch(name):
        raise ValueError(f"name is {name!r}; the name of a rank profile has letters, digits and _")
    require_different(given.texts, [*map(canonical, given.texts)])
    of_vectors = {j: text for own in given.vectors for j, text in _vector(own, given.form.takes_missing)}
    values = [of_vectors.get(j) or _value(given, j, text) for j, text in enumerate(given.texts)]
    # Named functions, where raw features are used in many places.
    functions = [(f"x{j + 1}", value) for j, value in enumerate(values) if given.kind != "linear"]
    stages, score = definitions(given, [name for name, _ in functions] or values, _DIALECT)
    functions += [definition for stage in stages for definition in stage]
    blocks = [f"    function {function}() {{\n{_indented('expression', text, 8)}\n    }}\n" for function, text in functions]
    first = f"    first-phase {{\n{_indented('expression', score, 8)}\n    }}\n"
    return f"rank-profile {name} inherits default {{\n{_inputs(given)}{''.join(blocks)}{first}}}"


def _inputs(given: Prepared) -> str:
    """The inputs of queries: vectors, whether there are any, and entries of the context."""
    lines = []
    for own in given.vectors:
        lines += [f"query({c.parameter}) tensor<float>(x[{own.k}])" for c in own.columns.values() if c.of_query]
        lines += [f"query({own.given}) double: 0"] if own.p else []
    categories = {given.levels[j].field for j in given.context if j in given.levels}
    lines += [f"query({field}) tensor<float>({field}{{}})" for field in sorted(categories)]
    lines += [f"query({name}) double: 0" for j in given.context if j not in given.levels for name in _of_number(given, j)]
    if not lines:
        return ""
    return "    inputs {\n" + "".join(f"        {line}\n" for line in lines) + "    }\n"


def _vector(own: VectorField, takes_missing: bool) -> Iterator[tuple[int, str]]:
    """The values of the columns that are made of a vector, an attribute that is a tensor of one dimension, x."""
    if not _ATTRIBUTE.fullmatch(own.field):
        raise ValueError(f"the vector {own.field!r} is not the name of an attribute; give names (argument names)")
    d = f"attribute({own.field})"
    # A missing tensor is 0 everywhere, and 0 / 0 is NaN.
    length = f"sqrt(sum({d} * {d}))"
    for j, column in own.columns.items():
        if column.of_query:
            text = f"if(query({own.given}) >= 1, sum(query({column.parameter}) * {d}) / {length}, {_MISSING})"
        else:
            w = ",".join(f"{x:.9g}" for x in column.matrix[0].tolist())
            text = f"sum(tensor<float>(x[{own.k}]):[{w}] * {d}) / {length}"
            text = f"if(query({own.given}) >= 1, {_MISSING}, {text})" if own.p and column.alone else text
        yield j, text if takes_missing else f"if(isNan({text}) == 1, 0, {text})"


def _indented(what: str, text: str, by: int) -> str:
    lines = "\n".join(" " * (by + 4) + line for line in text.split("\n"))
    return f"{' ' * by}{what} {{\n{lines}\n{' ' * by}}}"


def canonical(text: str) -> str:
    """The rank feature of Vespa that a text names, in one of its spellings."""
    return f"attribute({text})" if _ATTRIBUTE.fullmatch(text) else re.sub(r'[ "]', "", text)


def _value(given: Prepared, j: int, text: str) -> str:
    """The value of feature number j, called `text`; of a level 1 or 0."""
    if j in given.context:
        return _of_context(given, j)
    if j not in given.levels:
        return _operand(text, given.form.takes_missing)
    field, level, others = given.levels[j]
    attribute = canonical(field)
    if not _ATTRIBUTE.fullmatch(field):
        raise ValueError(f"the category {field!r} is not the name of an attribute; give names (argument names)")
    if level is None:
        # A missing text is empty.
        return f"if({attribute} in [{', '.join(map(_quoted, ('', *others)))}], 0, 1)"
    if {*others} <= {"true", "false"}:
        return f"if({attribute} == {int(level == 'true')}, 1, 0)"
    return f"if({attribute} == {_quoted(level)}, 1, 0)"


def _of_context(given: Prepared, j: int) -> str:
    """The value of an entry of the context: an input of the query, of a category a tensor with a 1 at its label."""
    own = given.levels.get(j)
    field, label = given.texts[j] if own is None else own.field, None if own is None else own.level
    for text in (field, *([] if label is None else [label])):
        if not _ATTRIBUTE.fullmatch(text):
            raise ValueError(f"the context's {text!r:.60} is neither a name nor a label of Vespa: letters, digits and _")
    if label is not None:
        return f"query({field}){{{label}}}"
    own_input, *known = _of_number(given, j)
    return f"if(query({known[0]}) >= 1, query({own_input}), {_MISSING})" if known else f"query({own_input})"


def _of_number(given: Prepared, j: int) -> list[str]:
    """The inputs of a number in the context: the number, and, where a missing one is different from 0, whether it is known."""
    text = given.texts[j]
    return [text, f"{text}_given"] if given.form.takes_missing else [text]


def _quoted(text: str) -> str:
    """A text in an expression. Raises ValueError for one with a brace, at which the expression would end."""
    if "{" in text or "}" in text:
        raise ValueError(
            f"the level {text!r:.60} has a brace, which ends an expression of Vespa: write it without braces into the data, "
            "or export to another target"
        )
    return json.dumps(text, ensure_ascii=False)


def _operand(text: str, takes_missing: bool) -> str:
    if _ATTRIBUTE.fullmatch(text):
        return f"attribute({text})" if takes_missing else f"if(isNan(attribute({text})) == 1, 0, attribute({text}))"
    if _RANK_FEATURE.fullmatch(text):
        return text
    raise ValueError(
        f"feature {text!r} is neither an attribute's name nor a rank feature of Vespa; give names (argument names)"
    )
