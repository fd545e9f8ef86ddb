"""The closed form of a model of single documents as a sequence of definitions in arithmetic and `if`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from online_rank.base.form import Blend, Curves, Form, Linear, Network, Scale, Take, Tree, Trees


class Dialect(NamedTuple):
    """The syntax of a language beyond arithmetic.

    Attributes
    ----------
    choose
        Takes the texts of a condition and two values, and returns the text of the conditional expression.
    tanh
        Name of the function.
    """

    choose: Callable[[str, str, str], str]
    tanh: str = "tanh"


class Definitions(NamedTuple):
    """Named definitions, each in terms of earlier ones, and the score in terms of them."""

    named: list[tuple[str, str]]
    score: str


class _Writer:
    """Writes definitions."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.named: list[tuple[str, str]] = []

    def define(self, text: str) -> str:
        """A name for an expression that is used more than once."""
        name = f"v{len(self.named) + 1}"
        self.named.append((name, text))
        return name

    def curve(self, x: str, xs: np.ndarray, ys: np.ndarray, slopes: np.ndarray) -> str:
        """The function that is linear between points."""
        pieces = [f"{number(ys[k])} + ({x} - {number(xs[k])}) * {number(slope)}" for k, slope in enumerate(slopes.tolist())]
        return self.search(x, xs.tolist(), [number(ys[0]), *pieces, number(ys[-1])])

    def search(self, x: str, limits: Sequence[float], pieces: Sequence[str]) -> str:
        """The piece k for which k of the ascending limits are <= x, by halving."""
        if len(pieces) == 1:
            return pieces[0]
        middle = len(pieces) // 2
        below = self.search(x, limits[: middle - 1], pieces[:middle])
        above = self.search(x, limits[middle:], pieces[middle:])
        return self.dialect.choose(f"{x} < {number(limits[middle - 1])}", below, above)

    def tree(self, tree: Tree, n: int, columns: Sequence[str]) -> str:
        """The subtree at node n."""
        if tree.columns[n] < 0:
            return number(tree.values[n])
        left, right = (self.tree(tree, int(side[n]), columns) for side in (tree.left, tree.right))
        return self.dialect.choose(f"{columns[tree.columns[n]]} < {number(tree.thresholds[n])}", left, right)


def definitions(form: Form, features: Sequence[str], dialect: Dialect) -> Definitions:
    """A form of single documents as definitions, given the texts of the raw features."""
    writer = _Writer(dialect)
    columns = [writer.define(text) if form.layers else text for text in features]
    return Definitions(writer.named, _score(form, columns, writer))


def _score(form: Form, columns: list[str], writer: _Writer) -> str:
    """The score of a form, given the texts of its raw features."""
    for layer in form.layers:
        columns = _layer(layer, columns, writer)
    return _head(form.head, columns, writer)


def _layer(layer: object, columns: list[str], writer: _Writer) -> list[str]:
    """The texts of the columns of a layer."""
    define = writer.define
    if isinstance(layer, Take):
        return [columns[j] if j >= 0 else "0" for j in layer.columns.tolist()]
    if isinstance(layer, Scale):
        each = zip(columns, layer.means, layer.factors, strict=True)
        return [define(f"({x} - {number(mean)}) * {number(factor)}") for x, mean, factor in each]
    if isinstance(layer, Curves):
        made = []
        for k, (j, curve) in enumerate(zip(layer.sources.tolist(), layer.knots, strict=True)):
            made.append(columns[j] if curve is None else define(writer.curve(columns[j], *curve, layer.slopes(k))))
        return made
    raise TypeError(f"{type(layer).__name__} needs all documents of a query")


def _head(head: object, columns: list[str], writer: _Writer) -> str:
    if isinstance(head, Linear):
        return _sum(head.weights, columns)
    if isinstance(head, Trees):
        return "\n+ ".join(writer.tree(tree, 0, columns) for tree in head.trees) or "0"
    if isinstance(head, Network):
        for weights, biases in head.layers:
            sums = [writer.define(f"{_sum(w, columns)} + {number(b)}") for w, b in zip(weights.T, biases, strict=True)]
            if head.activation == "tanh":
                columns = [writer.define(f"{writer.dialect.tanh}({s})") for s in sums]
            else:
                columns = [writer.define(writer.dialect.choose(f"{s} < 0", "0", s)) for s in sums]
        return _sum(head.output, columns)
    if isinstance(head, Blend):
        return _sum(head.weights, [writer.define(_score(form, columns, writer)) for form in head.forms])
    raise TypeError(f"{type(head).__name__} needs all documents of a query")


def _sum(weights: np.ndarray, columns: Sequence[str]) -> str:
    terms = [f"{number(w)} * {x}" for w, x in zip(weights, columns, strict=True) if w != 0.0]
    return "\n+ ".join(terms) or "0"


def number(value: float) -> str:
    """A number that reads back exactly; a negative one in parentheses."""
    text = repr(float(value) + 0.0)
    return f"({text})" if text.startswith("-") else text
