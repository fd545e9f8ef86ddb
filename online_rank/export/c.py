"""Models with a closed form as a C99 header."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from online_rank.base.form import Blend, Curves, Form, InQuery, Linear, Network, Scale, Take, Trees
from online_rank.export.c_functions import HELPERS
from online_rank.export.linear import linear_form
from online_rank.export.reading import Names, prepared

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_c(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """A C99 header that computes a model; it needs no library other than, for some models, the mathematical one.

    A linear model is one function, `double NAME_score(const double *x)`. Any other is
    `int NAME_scores(const double *x, int n, double *scores)`: the scores of the n documents of a query, with their features row
    by row in x; it returns 0, or -1 if memory runs out. If a score depends on its document alone, there is `NAME_score` too.

    Parameters
    ----------
    model
        Any model with a closed form.
    name
        Prefix of the names in the header: a C identifier.
    names
        Names of the d features, for `NAME_features`, in order, or `{name: other name}` for those that differ; None for the
        names that the model has learned, or f1, f2, ...

    Raises
    ------
    TypeError, ValueError
        The model has no closed form or no features yet, or `name` is not an identifier.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> header = to_c(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}), name="shop")
    >>> "static inline double shop_score(const double *x)" in header
    True
    """
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"name is {name!r}; it must be a C identifier")
    given = prepared(model, "c", names)
    guard, quoted = f"{name.upper()}_SCORE_H", ",\n    ".join(_c_text(text) for text in given.texts)
    d = len(given.texts)
    head = (
        f"#ifndef {guard}\n#define {guard}\n\n#define {name.upper()}_N_FEATURES {d}\n\n"
        f"static const char *const {name}_features[{d}] = {{\n    {quoted}\n}};\n\n"
    )
    body = _linear(given.form, name) if given.kind == "linear" else _general(given.form, name)
    return f"{head}{body}\n#endif\n"


def _linear(form: Form, name: str) -> str:
    """One weight for each raw feature."""
    folded = linear_form(form)
    return f"""{_table("double", f"{name}_weights", folded.weights)}
/* Score of a document by its {form.n_features} raw features, in the order of {name}_features; higher ranks earlier. */
static inline double {name}_score(const double *x) {{
    double score = {folded.constant + 0.0!r};
    for (int j = 0; j < {form.n_features}; ++j) {{
        score += {name}_weights[j] * x[j];
    }}
    return score;
}}
"""


def _general(form: Form, name: str) -> str:
    """The function that applies layer after layer to all documents of a query."""
    writer = _Writer(name)
    scores = writer.form(form, name)
    text = f"#include <math.h>\n#include <stdlib.h>\n#include <string.h>\n\n{writer.helpers()}{writer.text}{scores}"
    if form.is_relative:
        return text
    return (
        text
        + f"""
/* Score of a document, which does not depend on the others of its query; NaN where memory is missing. */
static inline double {name}_score(const double *x) {{
    double score;
    return {name}_scores(x, 1, &score) ? NAN : score;
}}
"""
    )


class _Writer:
    """The tables of a header, and the functions that its layers call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self._used: dict[str, None] = {}
        self._number = 0

    def helpers(self) -> str:
        """The source of the functions that are called."""
        return "".join(HELPERS[helper].replace("NAME", self.name) + "\n" for helper in HELPERS if helper in self._used)

    def table(self, kind: str, values: Iterable[Any]) -> str:
        """A table of numbers; its name."""
        self._number += 1
        called = f"{self.name}_t{self._number}"
        self.text += _table(kind, called, values)
        return called

    def call(self, helper: str, *arguments: Any) -> str:
        """A call of a helper."""
        self._used[helper] = None
        return f"{self.name}_{helper}({', '.join(map(str, arguments))});"

    def form(self, form: Form, called: str) -> str:
        """The function of a form, with the functions of the forms that it blends before it."""
        lines, width, widest = [], form.n_features, form.n_features
        for layer in form.layers:
            call, width = self._layer(layer, width)
            lines += [call, "swap = a; a = b; b = swap;"]
            widest = max(widest, width)
        before, head, inner = self._head(form.head, width, called)
        widest = max(widest, inner)
        steps = "\n    ".join([*lines, *head])
        return f"""{before}
/* Scores of the n documents of a query by their {form.n_features} raw features, row by row; -1 where memory is missing. */
static int {called}_scores(const double *x, int n, double *scores) {{
    double *room = (double *)malloc(2 * (size_t)n * {widest} * sizeof(double) + 1), *a = room, *b, *swap;
    int failed = 0;
    if (room == NULL) {{
        return -1;
    }}
    b = room + (size_t)n * {widest};
    memcpy(a, x, (size_t)n * {form.n_features} * sizeof(double));
    {steps}
    (void)b;
    (void)swap;
    free(room);
    return failed;
}}
"""

    def _layer(self, layer: Any, width: int) -> tuple[str, int]:
        """The call that computes the columns of a layer in b from those in a, and their number."""
        if isinstance(layer, Take):
            k = len(layer.columns)
            return self.call("take", "a", "n", width, k, self.table("int", layer.columns), "b"), k
        if isinstance(layer, Scale):
            tables = [self.table("double", values) for values in layer]
            return self.call("scale", "a", "n", width, *tables, "b"), width
        if isinstance(layer, Curves):
            return self._curves(layer, width), len(layer.knots)
        if isinstance(layer, InQuery):
            k = len(layer.sources)
            centred = np.ones(k, dtype=bool) if layer.centred is None else layer.centred
            tables = [self.table("int", values) for values in (layer.sources, layer.relative, centred)]
            how = ("standard", "minmax").index(layer.how)
            return self.call("in_query", "a", "n", width, k, *tables, how, repr(float(layer.soft)), "b"), k
        raise TypeError(f"{type(layer).__name__} has no form in C")

    def _curves(self, layer: Curves, width: int) -> str:
        self._used["find"] = None
        sizes = [0 if curve is None else len(curve[0]) for curve in layer.knots]
        points = [np.concatenate([[], *(curve[i] for curve in layer.knots if curve is not None)]) for i in (0, 1)]
        slopes = [np.append(layer.slopes(k), 0.0) for k, curve in enumerate(layer.knots) if curve is not None]
        points.append(np.concatenate([[], *slopes]))
        tables = [self.table("int", values) for values in (layer.sources, _starts(sizes), sizes)]
        tables += [self.table("double", values) for values in points]
        return self.call("curves", "a", "n", width, len(sizes), *tables, "b")

    def _head(self, head: Any, width: int, called: str) -> tuple[str, list[str], int]:
        """Functions needed before, the lines that compute scores from the columns in a, and the number of columns of working
        memory.
        """
        if isinstance(head, Linear):
            return "", [self.call("linear", "a", "n", width, self.table("double", head.weights), "scores")], width
        if isinstance(head, Trees):
            starts = self.table("int", _starts([len(tree.columns) for tree in head.trees]))
            kinds = zip(("int", "double", "int", "int", "double"), zip(*head.trees, strict=True), strict=True)
            tables = [self.table(kind, np.concatenate(parts)) for kind, parts in kinds]
            return "", [self.call("trees", "a", "n", width, len(head.trees), starts, *tables, "scores")], width
        if isinstance(head, Network):
            lines, widest = [], width
            for weights, biases in head.layers:
                self._used["linear"] = None
                tables = [self.table("double", values) for values in (weights.ravel(), biases)]
                relu = int(head.activation == "relu")
                lines += [self.call("dense", "a", "n", *weights.shape, *tables, relu, "b"), "swap = a; a = b; b = swap;"]
                width = weights.shape[1]
                widest = max(widest, width)
            return "", [*lines, self.call("linear", "a", "n", width, self.table("double", head.output), "scores")], widest
        if isinstance(head, Blend):
            return self._blend(head, width, called)
        raise TypeError(f"{type(head).__name__} has no form in C")

    def _blend(self, head: Blend, width: int, called: str) -> tuple[str, list[str], int]:
        inner = [self.form(form, f"{called}_m{k}") for k, form in enumerate(head.forms)]
        lines = ["for (int i = 0; i < n; ++i) {", "    scores[i] = 0.0;", "}"]
        for k, weight in enumerate(head.weights.tolist()):
            lines += [f"failed |= {called}_m{k}_scores(a, n, b);", self.call("blend", "b", "n", repr(weight), "scores")]
        return "".join(inner), lines, width


def _starts(sizes: Sequence[int]) -> list[int]:
    """The start of each of several consecutive parts, from their sizes."""
    return [0, *np.cumsum(sizes).tolist()][:-1]


def _table(kind: str, name: str, values: Iterable[Any]) -> str:
    texts = [repr(float(value) + 0.0) if kind == "double" else str(int(value)) for value in values]
    texts = [text.replace("inf", "INFINITY") for text in texts] or ["0"]
    return f"static const {kind} {name}[{len(texts)}] = {{\n    {_rows(texts)}\n}};\n\n"


def _rows(texts: Sequence[str], most: int = 6) -> str:
    return ",\n    ".join(", ".join(texts[k : k + most]) for k in range(0, len(texts), most))


def _c_text(text: str) -> str:
    """Text as a C string of UTF-8 bytes."""
    plain = {*range(32, 127)} - {ord('"'), ord("\\"), ord("?")}
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'
