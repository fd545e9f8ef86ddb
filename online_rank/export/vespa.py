"""Models that score one document at a time as Vespa rank profiles."""

import re
from typing import Any

from online_rank.base.form import Trees
from online_rank.export.expression import Dialect, definitions
from online_rank.export.expression import number as literal
from online_rank.export.linear import linear_form
from online_rank.export.reading import Names, prepared, require_different

_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Vespa's rank features: bm25(title), fieldMatch(title).completeness, query(age), ...
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([\w.,\" -]*\)(\.\w+)*")
_DIALECT = Dialect(choose=lambda condition, then, other: f"if({condition}, {then}, {other})")


def to_vespa(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """A model as a rank profile for a Vespa schema. A missing attribute counts as 0, as in this library.

    Parameters
    ----------
    model
        A linear ranker, `BoostedRanker` or `DirectRanker`, or a pipeline of transformers of single documents and one.
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
    if given.templates:
        raise TypeError(
            f"names: {next(iter(given.templates))!r} has a template; Vespa takes names of attributes and rank features"
        )
    if not _ATTRIBUTE.fullmatch(name):
        raise ValueError(f"name is {name!r}; the name of a rank profile has letters, digits and _")
    features = [_operand(text) for text in given.texts]
    require_different(given.texts, [*map(canonical, given.texts)])
    functions: list[tuple[str, str]] = []
    if given.kind == "linear":
        form = linear_form(given.form)
        terms = [f"{literal(weight)} * {x}" for weight, x in zip(form.weights, features, strict=True)]
        score = "\n+ ".join([*terms, literal(form.constant)])
    else:
        if isinstance(given.form.head, Trees):
            # Named functions, because raw features are used in many splits.
            functions = [(f"x{j + 1}", text) for j, text in enumerate(features)]
            features = [function for function, _ in functions]
        named, score = definitions(given.form, features, _DIALECT)
        functions += named
    blocks = [f"    function {function}() {{\n{_indented('expression', text, 8)}\n    }}\n" for function, text in functions]
    first = f"    first-phase {{\n{_indented('expression', score, 8)}\n    }}\n"
    return f"rank-profile {name} inherits default {{\n{''.join(blocks)}{first}}}"


def _indented(what: str, text: str, by: int) -> str:
    lines = "\n".join(" " * (by + 4) + line for line in text.split("\n"))
    return f"{' ' * by}{what} {{\n{lines}\n{' ' * by}}}"


def canonical(text: str) -> str:
    """The rank feature of Vespa that a text names, in one of its spellings."""
    return f"attribute({text})" if _ATTRIBUTE.fullmatch(text) else re.sub(r'[ "]', "", text)


def _operand(text: str) -> str:
    if _ATTRIBUTE.fullmatch(text):
        return f"if(isNan(attribute({text})) == 1, 0, attribute({text}))"
    if _RANK_FEATURE.fullmatch(text):
        return text
    raise ValueError(
        f"feature {text!r} is neither an attribute's name nor a rank feature of Vespa; give names (argument names)"
    )
