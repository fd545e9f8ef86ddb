"""Models with a closed form as a C99 header."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from online_rank.base.form import Blend, Crossed, Curves, Form, InQuery, Linear, Network, Scale, Take, Trees, sources_of
from online_rank.export.c_curves import curve_table
from online_rank.export.c_functions import CALLED, HELPERS, TYPES
from online_rank.export.c_vectors import fillers
from online_rank.export.linear import linear_form
from online_rank.export.reading import Names, depth_of, in_levels, prepared

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_c(model: Any, *, name: str = "online_rank", names: Names = None) -> str:
    """A C99 header that computes a model; it needs no library other than, for some models, the mathematical one.

    A linear model is one function, `double NAME_score(const double *x)`. Any other is
    `int NAME_scores(const double *x, int n, double *scores)`: the scores of the n documents of a query, with their features row
    by row in x; it returns 0, or -1 if memory runs out. If a score depends on its document alone, there is `NAME_score` too.
    For each vector `NAME_fill_1(double *x, int n, const float *documents, const float *query)`, and so on, fills the columns of
    x that are made of it. Entries of a context are columns, the same for all documents of a query.

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
    if given.vectors:
        head += "#include <math.h>\n#include <stddef.h>\n#include <string.h>\n\n" + fillers(given, name)
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
    """The function that computes the scores of all documents of a query."""
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
        used = {*self._used, *(other for helper in self._used for other in CALLED.get(helper, ()))}
        types = dict.fromkeys(TYPES[helper] for helper in TYPES if helper in used)
        functions = [HELPERS[helper] for helper in HELPERS if helper in used]
        return "".join(part.replace("NAME", self.name) + "\n" for part in [*types, *functions])

    def table(self, kind: str, values: Iterable[Any]) -> str:
        """A table of numbers; its name."""
        called = self._new_name()
        self.text += _table(kind, called, values)
        return called

    def _new_name(self) -> str:
        self._number += 1
        return f"{self.name}_t{self._number}"

    def call(self, helper: str, *arguments: Any) -> str:
        """A call of a helper."""
        self._used[helper] = None
        return f"{self.name}_{helper}({', '.join(map(str, arguments))});"

    def form(self, form: Form, called: str) -> str:
        """The function of a form, with the functions of the forms that it blends before it."""
        before = ""
        if isinstance(form.head, Blend):
            before = "".join(self.form(inner, f"{called}_m{k}") for k, inner in enumerate(form.head.forms))
            lines, width = self._blend(form.head, called), 1
        else:
            lines, width = self._steps(form)
        steps = "\n    ".join(lines)
        return f"""{before}
/* Scores of the n documents of a query by their {form.n_features} raw features, row by row; -1 where memory is missing. */
static int {called}_scores(const double *x, int n, double *scores) {{
    double *a = (double *)malloc(((size_t)n * {2 * width + 7} + 1) * sizeof(double)), *room = a, *swap;
    double *b = a + (size_t)n * {width}, *z = b + (size_t)n * {width};
    int failed = 0, *at = (int *)(z + 5 * (size_t)n + 1);
    if (room == NULL) {{
        return -1;
    }}
    {steps}
    (void)b, (void)swap, (void)at;
    free(room);
    return failed;
}}
"""

    def _blend(self, head: Blend, called: str) -> list[str]:
        """The lines that add up the scores of several forms."""
        lines = ["memset(scores, 0, (size_t)n * sizeof(double));"]
        for k, weight in enumerate(head.weights.tolist()):
            lines += [f"failed |= {called}_m{k}_scores(x, n, a);", self.call("blend", "a", "n", repr(weight), "scores")]
        return lines

    def _steps(self, form: Form) -> tuple[list[str], int]:
        """The lines that compute scores, layer after layer, and the most columns of one."""
        width = widest = form.n_features
        if isinstance(form.head, Trees) and not form.layers:
            return [self._trees(form.head, "x", width, "1")], 1
        lines, layers = [self.call("columns", "x", "n", width, "a")], [*form.layers]
        ends_in_curves = bool(layers) and isinstance(layers[-1], Curves)
        sums = ends_in_curves and isinstance(form.head, Linear) and bool((form.head.weights == 1.0).all())
        ranked = sums and len(layers) > 1 and isinstance(layers[-2], InQuery) and layers[-2].how == "ranks"
        for layer in layers[:-2] if ranked else layers:
            last = sums and layer is layers[-1]
            lines.append(self._layer(layer, width, "scores" if last else "b", int(last)))
            width = len(sources_of((layer,), width))
            widest = max(widest, width)
            lines += [] if last else [_SWAP]
        if ranked:
            k = len(sources_of((layers[-2],), width)) // 2
            lines.append(self.call("ranked", "a", "n", k, self._curves(layers[-1]), "scores", "z", "at"))
        elif not sums:
            head, inner = self._head(form.head, width)
            lines, widest = lines + head, max(widest, inner)
        return lines, widest

    def _layer(self, layer: Any, width: int, into: str, sums: int) -> str:
        """The call that computes the columns of a layer from those in a, or their sum."""
        if isinstance(layer, Take):
            return self.call("take", "a", "n", len(layer.columns), self.table("int", layer.columns), into)
        if isinstance(layer, Scale):
            return self.call("scale", "a", "n", width, *(self.table("double", values) for values in layer), into)
        if isinstance(layer, Curves):
            sources = self.table("int", layer.sources)
            return self.call("curves", "a", "n", len(layer.knots), sources, self._curves(layer), sums, into, "z", "at")
        if isinstance(layer, Crossed):
            tables = [self.table("int", values) for values in layer]
            return self.call("crossed", "a", "n", len(layer.sources), *tables, into)
        if isinstance(layer, InQuery) and layer.how != "ranks":
            k = len(layer.sources)
            centred = np.ones(k, dtype=bool) if layer.centred is None else layer.centred
            tables = [self.table("int", values) for values in (layer.sources, layer.relative, centred)]
            how = ("standard", "minmax").index(layer.how)
            return self.call("in_query", "a", "n", k, *tables, how, repr(float(layer.soft)), into)
        raise TypeError(f"{type(layer).__name__} has no form in C")

    def _curves(self, layer: Any) -> str:
        """The tables of curves; the name of the one that has them all."""
        made = [curve_table(xs, ys, layer.slopes(k)) for k, (xs, ys) in enumerate(layer.knots)]
        finders, cells, *others = (np.concatenate([np.zeros(0), *parts]) for parts in zip(*made, strict=True))
        names = [self.table("double", finders), *(self.table("double", values) for values in others)]
        bytes_, starts = self.table("unsigned char", cells), _starts([len(table.u) for table in made])
        missing = np.zeros(len(made)) if layer.missing is None else layer.missing
        rows = [
            f"    {{{names[0]} + {len(table.finder) * k}, {', '.join(f'{name} + {start}' for name in names[1:])}, "
            f"{bytes_} + {len(table.cells) * k}, {float(missing[k])!r}, {len(layer.knots[k][0])}}}"
            for k, (table, start) in enumerate(zip(made, starts, strict=True))
        ]
        return self._records("curve", rows)

    def _records(self, kind: str, rows: Sequence[str]) -> str:
        """Add a table of structs of this kind; returns its name."""
        called, lines = self._new_name(), ",\n".join(rows or ["    {0}"])
        self.text += f"static const {self.name}_{kind} {called}[{max(len(rows), 1)}] = {{\n{lines}\n}};\n\n"
        return called

    def _head(self, head: Any, width: int) -> tuple[list[str], int]:
        """The lines that compute scores from the columns in a, and the most columns of working memory."""
        if isinstance(head, Linear):
            return [self.call("linear", "a", "n", width, self.table("double", head.weights), "scores")], width
        if isinstance(head, Trees):
            return [self._trees(head, "a", 1, "n")], width
        if isinstance(head, Network):
            lines, widest = [], width
            for weights, biases in head.layers:
                tables = [self.table("double", values) for values in (weights.ravel(), biases)]
                relu = int(head.activation == "relu")
                lines += [self.call("dense", "a", "n", *weights.shape, *tables, relu, "b"), _SWAP]
                width = weights.shape[1]
                widest = max(widest, width)
            return [*lines, self.call("linear", "a", "n", width, self.table("double", head.output), "scores")], widest
        raise TypeError(f"{type(head).__name__} has no form in C")

    def _trees(self, head: Trees, columns: str, row: int, column: str) -> str:
        """The sum of trees: in each, the second child of a node follows the first, and leaves are their own children."""
        trees = [in_levels(tree) for tree in head.trees]
        starts, nodes = _starts([len(tree.columns) for tree in trees]), []
        for start, tree in zip(starts, trees, strict=True):
            for n, (own, threshold, child) in enumerate(zip(*(part.tolist() for part in tree[:3]), strict=True)):
                leaf = f"    {{NAN, 0, {start + n}}}"
                nodes.append(f"    {{{threshold!r}, {own}, {start + child}}}" if own >= 0 else leaf)
        tables = [self.table("int", starts), self.table("int", map(depth_of, trees)), self._records("node", nodes)]
        values = self.table("double", [value for tree in trees for value in tree.values.tolist()])
        return self.call("trees", columns, "n", row, column, len(trees), *tables, values, "scores", "at")


_SWAP = "swap = a; a = b; b = swap;"


def _starts(sizes: Sequence[int]) -> list[int]:
    """The start of each of several consecutive parts, from their sizes."""
    return [0, *np.cumsum(sizes).tolist()][:-1]


def _table(kind: str, name: str, values: Iterable[Any]) -> str:
    texts = [repr(float(value) + 0.0) if kind == "double" else str(int(value)) for value in values]
    texts = [text.replace("inf", "INFINITY").replace("nan", "NAN") for text in texts] or ["0"]
    return f"static const {kind} {name}[{len(texts)}] = {{\n    {_rows(texts)}\n}};\n\n"


def _rows(texts: Sequence[str], most: int = 6) -> str:
    return ",\n    ".join(", ".join(texts[k : k + most]) for k in range(0, len(texts), most))


def _c_text(text: str) -> str:
    """Text as a C string of UTF-8 bytes."""
    plain = {*range(32, 127)} - {ord('"'), ord("\\"), ord("?")}
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'
