"""Functions of C that fill the columns that are made of vectors."""

from collections.abc import Iterable

import numpy as np

from online_rank.export.reading import Prepared
from online_rank.export.vector_fields import VectorColumn, VectorField


def fillers(given: Prepared, name: str) -> str:
    """The function of each vector, which the caller calls before it asks for scores."""
    return "".join(_filler(own, given, name, number) for number, own in enumerate(given.vectors))


def _filler(own: VectorField, given: Prepared, name: str, number: int) -> str:
    d, p, k = len(given.texts), own.p, own.k
    called, missing = f"{name}_fill_{number + 1}", "NAN" if given.form.takes_missing else "0.0"
    asked = [(j, column) for j, column in own.columns.items() if column.of_query]
    linear = [(j, column) for j, column in own.columns.items() if not column.of_query]
    tables = "".join(
        _table(f"{called}_m{j}", column.matrix.ravel().tolist()) for j, column in [*asked, *linear] if column.how != "cosine"
    )
    adapt = "".join(_adapted(r, j, column, called, p, k) for r, (j, column) in enumerate(asked))
    each = "".join(
        f"        x[(size_t)i * {d} + {j}] = length > 0.0 && asked ? {called}_dot(d, t[{r}]) / length : {missing};\n"
        for r, (j, _) in enumerate(asked)
    )
    each += "".join(
        f"        x[(size_t)i * {d} + {j}] = length > 0.0{' && !asked' if column.alone else ''} ? "
        f"{called}_dot_f(d, {called}_m{j}) / length : {missing};\n"
        for j, column in linear
    )
    query = f"""for (int i = 0; query != NULL && i < {p}; ++i) {{
        size += (double)query[i] * query[i];
    }}
    asked = size > 0.0;
    size = asked ? sqrt(size) : 1.0;"""
    dots = _dot(f"{called}_dot", "double", k) if asked else ""
    dots += _dot(f"{called}_dot_f", "float", k) if linear else ""
    room = f", t[{len(asked)}][{k}]" if asked else ""
    text = own.name.replace("*/", "* /")
    return f"""{tables}{dots}
/* Fills the columns of the rows x that are made of the vector {text} of the n documents of a query, {k} numbers each, the first
   NaN if a document has none; of the query {p} numbers, or NULL if it has none. Call it before the scores are computed. */
static inline void {called}(double *x, int n, const float *documents, const float *query) {{
    double size = 0.0{room};
    int asked = 0;
    {query if p else "(void)query;"}
{adapt}    for (int i = 0; i < n; ++i) {{
        const float *d = documents + (size_t)i * {k};
        double length = 0.0;
        for (int j = 0; j < {k}; ++j) {{
            length += (double)d[j] * d[j];
        }}
        length = sqrt(length);
{each}    }}
    (void)size, (void)asked;
}}

"""


def _adapted(r: int, j: int, column: VectorColumn, called: str, p: int, k: int) -> str:
    """The lines that compute M' u."""
    if column.how == "cosine":
        return f"    for (int j = 0; asked && j < {k}; ++j) {{\n        t[{r}][j] = query[j] / size;\n    }}\n"
    return f"""    memset(t[{r}], 0, sizeof t[{r}]);
    for (int i = 0; asked && i < {p}; ++i) {{
        for (int j = 0; j < {k}; ++j) {{
            t[{r}][j] += query[i] / size * {called}_m{j}[i * {k} + j];
        }}
    }}
"""


def _dot(called: str, kind: str, k: int) -> str:
    return f"""static double {called}(const float *d, const {kind} *t) {{
    double sum = 0.0;
    for (int j = 0; j < {k}; ++j) {{
        sum += (double)d[j] * t[j];
    }}
    return sum;
}}
"""


def _table(called: str, values: Iterable[float]) -> str:
    texts = [f"{value:.9g}" for value in np.asarray([*values]).tolist()]
    texts = [f"{text}f" if "." in text or "e" in text else f"{text}.0f" for text in texts]
    rows = ",\n    ".join(", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8))
    return f"static const float {called}[{len(texts)}] = {{\n    {rows}\n}};\n"
