"""The closed form of a model as stages of definitions in arithmetic and a conditional."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from online_rank.base.form import Blend, Crossed, Curves, Form, InQuery, Linear, Network, Scale, Take, Tree, Trees
from online_rank.export.linear import linear_form
from online_rank.export.normal import NORMAL_MIDDLE, NORMAL_SPLIT, NORMAL_TAIL, polynomial
from online_rank.export.reading import Prepared


class Dialect(NamedTuple):
    """The syntax of a language beyond arithmetic.

    Attributes
    ----------
    choose
        Takes the texts of a condition and two values, and returns the text of the conditional expression. A comparison with a
        missing value does not hold.
    is_missing
        Takes the text of a value, and returns the condition that it is missing.
    in_query
        Takes how a value is made relative to its query, the text of the value, and what is added to the deviation. Returns the
        text of the relative value. The first argument is "standard", "minmax", "share" (the mid-rank as a share of the values
        that are not missing), or "uncentred" (standardised, but the mean is not subtracted). None if the language sees one
        document at a time.
    curve, trees
        Take the text of a value, the points and slopes of a curve and what a missing value gives, or the texts of all columns
        and trees; return a call that computes them. None: they are written as conditionals.
    log, tanh, zero, missing
        The natural logarithm, the hyperbolic tangent, a 0 of the type of scores, and a missing value.
    """

    choose: Callable[[str, str, str], str]
    is_missing: Callable[[str], str]
    in_query: Callable[[str, str, str], str] | None = None
    curve: Callable[[str, np.ndarray, np.ndarray, np.ndarray, float], str] | None = None
    trees: Callable[[Sequence[str], Trees], str] | None = None
    log: str = "log"
    tanh: str = "tanh"
    zero: str = "0"
    missing: str = "NULL"


#: Trees that are summed at once.
_AT_ONCE = 16


class Definitions(NamedTuple):
    """Stages of named definitions, each in terms of names from earlier stages, and the score in terms of these names."""

    stages: list[list[tuple[str, str]]]
    score: str


class _Writer:
    """Writes definitions."""

    def __init__(self, dialect: Dialect, indicators: Iterable[str]) -> None:
        self.dialect = dialect
        self.stages: list[list[tuple[str, str]]] = []
        self._number = 0
        #: Texts of columns that are 0 or 1.
        self.indicators = {*indicators}

    def stage(self, texts: Iterable[str]) -> list[str]:
        """Names for expressions, in terms of what was defined before."""
        made: list[tuple[str, str]] = []
        for text in texts:
            self._number += 1
            made.append((f"v{self._number}", text))
        self.stages.append(made)
        return [name for name, _ in made]

    def curve(self, x: str, xs: np.ndarray, ys: np.ndarray, slopes: np.ndarray, missing: float | None) -> str:
        """The function that is linear between points."""
        if x in self.indicators:
            no, yes = np.interp((0.0, 1.0), xs, ys)
            return self.dialect.choose(f"{x} >= 1", number(yes), number(no))
        if self.dialect.curve is not None:
            return self.dialect.curve(x, xs, ys, slopes, float(ys[0]) if missing is None else missing)
        first = number(ys[0])
        if missing is not None and missing != ys[0]:
            first = self.dialect.choose(self.dialect.is_missing(x), number(missing), first)
        pieces = [f"{number(ys[k])} + ({x} - {number(xs[k])}) * {number(slope)}" for k, slope in enumerate(slopes.tolist())]
        return self.search(x, xs.tolist(), [first, *pieces, number(ys[-1])])

    def search(self, x: str, limits: Sequence[float], pieces: Sequence[str]) -> str:
        """The piece k for which k of the ascending limits are <= x, by halving; the first for a missing value."""
        if len(pieces) == 1:
            return pieces[0]
        middle = len(pieces) // 2
        below = self.search(x, limits[: middle - 1], pieces[:middle])
        above = self.search(x, limits[middle:], pieces[middle:])
        return self.dialect.choose(f"{x} >= {number(limits[middle - 1])}", above, below)

    def tree(self, tree: Tree, n: int, columns: Sequence[str]) -> str:
        """The subtree at node n."""
        if tree.columns[n] < 0:
            return number(tree.values[n])
        left, right = (self.tree(tree, int(side[n]), columns) for side in (tree.left, tree.right))
        return self.dialect.choose(f"{columns[tree.columns[n]]} >= {number(tree.thresholds[n])}", right, left)

    def layer(self, layer: object, columns: list[str]) -> list[str]:
        """The texts of the columns of a layer."""
        if isinstance(layer, Take):
            return [columns[j] if j >= 0 else "0" for j in layer.columns.tolist()]
        if isinstance(layer, Scale):
            each = zip(columns, layer.means, layer.factors, strict=True)
            return self.stage(f"({x} - {number(mean)}) * {number(factor)}" for x, mean, factor in each)
        if isinstance(layer, Curves):
            missing = [None] * len(layer.knots) if layer.missing is None else layer.missing.tolist()
            each_curve = enumerate(zip(layer.sources.tolist(), layer.knots, missing, strict=True))
            return self.stage(self.curve(columns[j], *curve, layer.slopes(k), low) for k, (j, curve, low) in each_curve)
        if isinstance(layer, InQuery):
            return self.in_query(layer, columns)
        if isinstance(layer, Crossed):
            return self.crossed(layer, columns)
        raise TypeError(f"{type(layer).__name__} has no expression")

    def crossed(self, layer: Crossed, columns: list[str]) -> list[str]:
        """The texts of products with columns that are the same for a whole query."""
        made = [columns[j] for j in layer.sources.tolist()]
        places = np.flatnonzero(layer.factors >= 0).tolist()
        texts = []
        for k in places:
            factor = columns[layer.factors[k]]
            product = f"{made[k]} * {factor}"
            texts.append(self.dialect.choose(f"{factor} >= 1", made[k], self.dialect.missing) if layer.only[k] else product)
            if made[k] in self.indicators:
                self.indicators.add(f"v{self._number + len(texts)}")
        for k, name in zip(places, self.stage(texts), strict=True):
            made[k] = name
        return made

    def in_query(self, layer: InQuery, columns: list[str]) -> list[str]:
        """The texts of columns relative to the query."""
        relative = self.dialect.in_query
        if relative is None:
            raise TypeError("a language of single documents does not see the others")
        ranks, soft = layer.how == "ranks", number(layer.soft)
        centred = np.ones(len(layer.sources), dtype=bool) if layer.centred is None else layer.centred
        made, places = [columns[j] for j in layer.sources.tolist()], np.flatnonzero(layer.relative).tolist()
        how = {k: "share" if ranks else layer.how if centred[k] else "uncentred" for k in places}
        named = self.stage(relative(how[k], made[k], soft) for k in places)
        for k, name in zip(places, self.normal_scores(named) if ranks else named, strict=True):
            made[k] = name
        return made

    def normal_scores(self, shares: Sequence[str]) -> list[str]:
        """The standard normal quantiles of shares."""
        choose, log = self.dialect.choose, self.dialect.log
        tails = [choose(f"{p} >= 0.5", f"1.0 - {p}", p) for p in shares]
        lows = self.stage(tails)
        centred = [f"({p} - 0.5)" for p in shares]
        roots = self.stage(
            choose(f"{low} >= {NORMAL_SPLIT}", f"{c} * {c}", f"SQRT(-2.0 * {log}({low}))")
            for low, c in zip(lows, centred, strict=True)
        )
        ratios = [[f"{polynomial(t, up)} / {polynomial(t, down)}" for up, down in (NORMAL_MIDDLE, NORMAL_TAIL)] for t in roots]
        return self.stage(
            choose(f"{low} >= {NORMAL_SPLIT}", f"{c} * {middle}", choose(f"{c} >= 0", f"-({tail})", tail))
            for low, c, (middle, tail) in zip(lows, centred, ratios, strict=True)
        )

    def form(self, form: Form, columns: list[str]) -> str:
        """The score of a form, given the texts of its raw features."""
        for layer in form.layers:
            columns = self.layer(layer, columns)
        return self.head(form.head, columns)

    def head(self, head: object, columns: list[str]) -> str:
        """The score, given the texts of the last columns."""
        if isinstance(head, Linear):
            return _sum(head.weights, columns)
        if isinstance(head, Trees) and self.dialect.trees is not None:
            return self.dialect.trees(columns, head)
        if isinstance(head, Trees):
            # Databases take a long time for long sums.
            trees = [self.tree(tree, 0, columns) for tree in head.trees]
            sums = self.stage(
                "\n+ ".join([self.dialect.zero, *trees[k : k + _AT_ONCE]]) for k in range(0, len(trees), _AT_ONCE)
            )
            return "\n+ ".join(sums) or "0"
        if isinstance(head, Network):
            for weights, biases in head.layers:
                sums = self.stage(f"{_sum(w, columns)} + {number(b)}" for w, b in zip(weights.T, biases, strict=True))
                relu = head.activation == "relu"
                columns = self.stage(
                    self.dialect.choose(f"{s} >= 0", s, "0") if relu else f"{self.dialect.tanh}({s})" for s in sums
                )
            return _sum(head.output, columns)
        if isinstance(head, Blend):
            return _sum(head.weights, [self.stage([self.form(form, columns)])[0] for form in head.forms])
        raise TypeError(f"{type(head).__name__} has no expression")


def definitions(given: Prepared, columns: Sequence[str], dialect: Dialect) -> Definitions:
    """A model as definitions, given the texts of the raw features; the score of a linear one is a sum of them."""
    if given.kind == "linear":
        form = linear_form(given.form)
        terms = [f"{number(weight)} * {x}" for weight, x in zip(form.weights, columns, strict=True)]
        return Definitions([], "\n+ ".join([*terms, number(form.constant)]))
    writer = _Writer(dialect, [columns[j] for j in given.levels])
    return Definitions(writer.stages, writer.form(given.form, [*columns]))


def _sum(weights: np.ndarray, columns: Sequence[str]) -> str:
    pairs = zip(weights.tolist(), columns, strict=True)
    terms = [x if w == 1.0 else f"{number(w)} * {x}" for w, x in pairs if w != 0.0]
    return "\n+ ".join(terms) or "0"


def number(value: float) -> str:
    """A number that reads back exactly; a negative one in parentheses."""
    text = repr(float(value) + 0.0)
    return f"({text})" if text.startswith("-") else text
