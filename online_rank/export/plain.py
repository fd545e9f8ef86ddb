"""Linear models for programs without a library: JSON and a C header."""

import re
from collections.abc import Sequence
from typing import Any

from online_rank.export.linear import feature_texts, serving_weights

__all__ = ["to_c", "to_json"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_json(model: Any, *, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Names, weights and constant of a linear model: score = sum of weight times raw feature, plus the constant.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one.
    names
        Names of the d features; None for the names that the model has learned, or f0, f1, ...

    Returns
    -------
    A dict for `json.dumps`; numbers read back from it are the same to the last bit.

    Raises
    ------
    TypeError, ValueError
        The model is not linear in the raw features (see `serving_weights`).

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> to_json(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}))
    {'features': ['clicks', 'age'], 'weights': [2.0, -0.5], 'constant': 0.0}
    """
    form = serving_weights(model)
    return {
        "features": feature_texts(form.names, len(form.weights), names),
        "weights": form.weights.tolist(),
        "constant": form.constant + 0.0,
    }


def to_c(model: Any, *, name: str = "online_rank", names: Sequence[str] | None = None) -> str:
    """A C99 header with one function, `double NAME_score(const double *x)`, and nothing to link.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one.
    name
        What the names in the header begin with: a C identifier.
    names
        Names of the d features, for `NAME_features`; None for the names that the model has learned, or f0, f1, ...

    Raises
    ------
    TypeError, ValueError
        The model is not linear in the raw features (see `serving_weights`), or `name` is no identifier.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> header = to_c(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}), name="shop")
    >>> "static inline double shop_score(const double *x)" in header
    True
    """
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"name is {name!r}; it must be a C identifier")
    form = serving_weights(model)
    texts = feature_texts(form.names, len(form.weights), names)
    quoted = ",\n    ".join(_c_text(text) for text in texts)
    weights = ",\n    ".join(map(repr, form.weights.tolist()))
    guard = f"{name.upper()}_SCORE_H"
    return f"""#ifndef {guard}
#define {guard}

#define {name.upper()}_N_FEATURES {len(texts)}

static const char *const {name}_features[{len(texts)}] = {{
    {quoted}
}};

static const double {name}_weights[{len(texts)}] = {{
    {weights}
}};

/* Score of a document by its {len(texts)} raw features, in the order of {name}_features; higher ranks earlier. */
static inline double {name}_score(const double *x) {{
    double score = {form.constant + 0.0!r};
    for (int j = 0; j < {len(texts)}; ++j) {{
        score += {name}_weights[j] * x[j];
    }}
    return score;
}}

#endif
"""


def _c_text(text: str) -> str:
    """Text as a C string of UTF-8 bytes."""
    plain = {*range(32, 127)} - {ord('"'), ord("\\"), ord("?")}
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'
