"""Linear models as Vespa rank profiles."""

import re
from collections.abc import Sequence
from typing import Any

from online_rank.export.linear import feature_texts, serving_weights

__all__ = ["to_vespa"]

_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What Vespa itself computes: bm25(title), fieldMatch(title).completeness, query(age), ...
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([\w.,\" -]*\)(\.\w+)*")


def to_vespa(model: Any, *, name: str = "online_rank", names: Sequence[str] | None = None) -> str:
    """A linear model as a rank profile for a Vespa schema.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one.
    name
        Name of the profile.
    names
        What stands for the d features: the name of an attribute, or one of Vespa's rank features, such as `bm25(title)`. None
        for the names that the model has learned, or f0, f1, ...

    Raises
    ------
    TypeError, ValueError
        The model is not linear in the raw features (see `serving_weights`), or a name is neither of the two.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> print(to_vespa(PerceptronRanker.from_weights({"bm25(title)": 2.0, "age": -0.5})))
    rank-profile online_rank inherits default {
        first-phase {
            expression {
                2.0 * bm25(title)
                + -0.5 * attribute(age)
                + 0.0
            }
        }
    }
    """
    form = serving_weights(model)
    texts = feature_texts(form.names, len(form.weights), names)
    if not _ATTRIBUTE.fullmatch(name):
        raise ValueError(f"name is {name!r}; the name of a rank profile has letters, digits and _")
    terms = [f"{weight!r} * {_operand(text)}" for text, weight in zip(texts, form.weights.tolist(), strict=True)]
    lines = [("" if i == 0 else "+ ") + term for i, term in enumerate([*terms, repr(form.constant + 0.0)])]
    indented = "\n".join(" " * 12 + line for line in lines)
    return (
        f"rank-profile {name} inherits default {{\n    first-phase {{\n        expression {{\n{indented}\n"
        "        }\n    }\n}"
    )


def _operand(text: str) -> str:
    if _ATTRIBUTE.fullmatch(text):
        return f"attribute({text})"
    if _RANK_FEATURE.fullmatch(text):
        return text
    raise ValueError(
        f"feature {text!r} is neither an attribute's name nor a rank feature of Vespa; give names (argument names)"
    )
