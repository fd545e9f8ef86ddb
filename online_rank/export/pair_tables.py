"""The strongest pairs of features as tables that people read."""

import json
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.base import serving_ranker
from online_rank.rankers.pair_shapes import PairShape, has_pairs, pair_shapes_of

__all__ = ["PairTable", "pairs"]


class PairTable(NamedTuple):
    """What two features add to a score together, beyond what each adds alone.

    Attributes
    ----------
    names
        The two features; a level of a category is called "feature: level".
    rows, columns
        The ranges of values of the first and of the second feature, each with its least and its largest value.
    table
        float64 (rows, columns): the mean of what is added, over equally frequent values in these ranges.
    strength
        The root of the mean square of what is added over the stream.
    """

    names: tuple[str, str]
    rows: list[tuple[float, float]]
    columns: list[tuple[float, float]]
    table: np.ndarray
    strength: float

    def in_words(self) -> str:
        """The table in Markdown."""
        first, second = self.names
        head = f"| {first} \\ {second} | {' | '.join(map(_range, self.columns))} |"
        lines = [f"{first} and {second}, {self.strength:.3g} on average:", "", head, f"|---|{'---:|' * len(self.columns)}"]
        lines += [
            f"| {_range(ends)} | {' | '.join(f'{value:+.3f}' for value in row)} |"
            for ends, row in zip(self.rows, self.table.tolist(), strict=True)
        ]
        return "\n".join(lines) + "\n"


def pairs(model: Any, *, most: int = 5, cells: int = 4) -> list[PairTable]:
    """The strongest pairs of features of a model with trees, as tables, the strongest first.

    Parameters
    ----------
    model
        An `AdditiveRanker` that serves trees, or a pipeline that ends in one.
    most
        At most how many pairs.
    cells
        At most how many ranges of each feature.

    Raises
    ------
    TypeError
        The model serves no trees next to curves.

    Examples
    --------
    >>> from online_rank import AdditiveRanker
    >>> model = AdditiveRanker()
    >>> model.learn_one([{"a": 1.0}, {"a": 2.0}], [0, 1])
    >>> pairs(model)
    Traceback (most recent call last):
    ...
    TypeError: AdditiveRanker serves no trees, so no features act in pairs
    """
    arguments.integer("most", most, 1)
    arguments.integer("cells", cells, 2)
    ranker = serving_ranker(model)
    if not has_pairs(ranker):
        raise TypeError(f"{type(ranker).__name__} serves no trees, so no features act in pairs")
    return [_table_of(shape, cells) for shape in pair_shapes_of(ranker, most)]


def pairs_as_json(tables: list[PairTable]) -> str:
    """Tables of pairs as JSON."""
    made = [table._asdict() | {"table": table.table.tolist()} for table in tables]
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _table_of(shape: PairShape, cells: int) -> PairTable:
    groups = [_groups(values, cells) for values in shape.values]
    ends = [
        [(float(values[group[0]]), float(values[group[-1]])) for group in own]
        for own, values in zip(groups, shape.values, strict=True)
    ]
    table = np.array([[shape.effect[np.ix_(row, column)].mean() for column in groups[1]] for row in groups[0]])
    first, second = map(str, shape.names)
    return PairTable((first, second), ends[0], ends[1], table, shape.strength)


def _groups(values: np.ndarray, cells: int) -> list[np.ndarray]:
    """The places of ascending values, in groups of about equal size; equal values are in one group."""
    limits = np.unique(np.searchsorted(values, values[len(values) * np.arange(1, cells) // cells]))
    return [group for group in np.split(np.arange(len(values)), limits) if len(group)]


def _range(ends: tuple[float, float]) -> str:
    low, high = (f"{end:.4g}" for end in ends)
    return low if low == high else f"{low} to {high}"
