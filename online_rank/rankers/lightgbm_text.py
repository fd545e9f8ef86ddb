"""Models of LightGBM, read from the text that `booster.save_model` writes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.file_trees import RIGHT, ZEROS
from online_rank.rankers.boosters import Booster, TreeArrays, checked

#: Bits of `decision_type`: a categorical split; missing values go left; and from bit 2 on what is missing.
_CATEGORICAL, _LEFT, _KIND = 1, 2, 2
_NOTHING, _ZERO, _NAN = range(3)
_ONLY = "only splits of numbers can be read: train with a column of 0 and 1 for each level of a category"
_NODE_LISTS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")


class _Block(NamedTuple):
    """Lines `key=value` of a part of the file, with the number of each line, and the line where the part begins."""

    line: int
    values: dict[str, tuple[int, str]]

    def text(self, key: str) -> str:
        """A value. Raises ValueError if it is missing."""
        if key not in self.values:
            raise ValueError(f"line {self.line}: the part that begins here has no {key}")
        return self.values[key][1]

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer."""
        if default is not None and key not in self.values:
            return default
        found = self.numbers(key, np.int64)
        if len(found) != 1:
            raise ValueError(f"line {self.values[key][0]}: {key} is {self.text(key)!r:.60}; it is an integer")
        return int(found[0])

    def numbers(self, key: str, dtype: Any, n: int | None = None) -> np.ndarray:
        """An array of n numbers."""
        kind = int if dtype is np.int64 else float
        try:
            found = np.array([kind(word) for word in self.text(key).split()], dtype=dtype)
        except (ValueError, OverflowError) as error:
            if key not in self.values:
                raise
            raise ValueError(f"line {self.values[key][0]}: {key} has something else than numbers ({error})"[:200]) from None
        if n is not None and len(found) != n:
            raise ValueError(f"line {self.values[key][0]}: {key} has {len(found)} numbers; there should be {n}")
        return found


def read_lightgbm(text: str) -> Booster:
    """The trees of a LightGBM model with one score a document.

    Raises
    ------
    ValueError
        The text is no such model, or its trees split by categories or have linear leaves; the message names the line.
    """
    head, *blocks = _blocks(text)
    for key in ("num_class", "num_tree_per_iteration"):
        if (n := head.integer(key, 1)) != 1:
            raise ValueError(f"line {head.values[key][0]}: {key} is {n}; a ranker has one score for each document")
    n_features = head.integer("max_feature_idx") + 1
    names = head.text("feature_names").split()
    line = f"line {head.values['feature_names'][0]}"
    if len(names) != n_features:
        raise ValueError(f"{line}: there are {len(names)} feature_names of {n_features} features")
    if len({*names}) < len(names):
        raise ValueError(f"{line}: two features are named {next(name for j, name in enumerate(names) if name in names[:j])!r}")
    trees = tuple(_tree(block, n_features) for block in blocks)
    if not trees:
        raise ValueError("line 1: the model has no trees")
    are_numbers = names == [f"Column_{j}" for j in range(n_features)]
    return Booster("LightGBM", None if are_numbers else tuple(names), n_features, trees)


def _blocks(text: str) -> Iterator[_Block]:
    """The head of the file, and the lines of each tree."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "tree":
        raise ValueError("line 1: the text of a LightGBM model begins with tree")
    block = _Block(1, {})
    for number, line in enumerate(lines[1:], start=2):
        line = line.strip()
        if line == "end of trees":
            yield block
            return
        key, _, value = line.partition("=")
        if key == "Tree":
            yield block
            block = _Block(number, {})
        elif key in block.values:
            raise ValueError(f"line {number}: {key} for the second time, after line {block.values[key][0]}")
        elif key:
            block.values[key] = number, value
    raise ValueError(f"line {len(lines)}: the text ends before 'end of trees'")


def _tree(block: _Block, n_features: int) -> TreeArrays:
    """A tree, inner nodes first: node k of the file, and leaf k after them."""
    for key, what in (("num_cat", "splits by categories"), ("is_linear", "has linear leaves")):
        if block.integer(key, 0):
            raise ValueError(f"line {block.values[key][0]}: this tree {what}; {_ONLY}")
    n_leaves = block.integer("num_leaves")
    leaves = block.numbers("leaf_value", np.float64)
    if n_leaves < 1 or len(leaves) != n_leaves:
        raise ValueError(f"line {block.values['leaf_value'][0]}: there are {len(leaves)} leaf values, of num_leaves={n_leaves}")
    n = n_leaves - 1
    columns, decisions, *children = (
        block.numbers(key, np.int64, n) if n else np.empty(0, np.int64) for key in _NODE_LISTS if key != "threshold"
    )
    limits = block.numbers("threshold", np.float64, n) if n else np.empty(0)
    line = {key: block.values[key][0] for key in _NODE_LISTS if key in block.values}
    for k in np.flatnonzero(columns < 0)[:1].tolist():
        raise ValueError(f"line {line['split_feature']}: node {k} splits by feature {columns[k]}")
    for k in np.flatnonzero(np.isnan(limits))[:1].tolist():
        raise ValueError(f"line {line['threshold']}: the threshold of node {k} is NaN")
    for k in np.flatnonzero((decisions < 0) | (decisions >> _KIND > _NAN) | (decisions & _CATEGORICAL > 0))[:1].tolist():
        raise ValueError(f"line {line['decision_type']}: decision_type {decisions[k]} of node {k} is no split of a number")
    # A leaf is -1 - k.
    left, right = (np.append(np.where(side < 0, n - 1 - side, side), np.zeros(n_leaves, np.int64)) for side in children)
    tree = TreeArrays(
        np.append(columns, np.full(n_leaves, -1)),
        # A value <= the threshold goes left.
        np.append(np.nextafter(limits, np.inf), np.zeros(n_leaves)),
        np.append(_missing(decisions, limits), np.zeros(n_leaves, np.uint8)),
        left,
        right,
        np.append(np.zeros(n), leaves),
    )
    return checked(tree, n_features, lambda k: f"line {block.line}, " + (f"node {k}" if k < n else f"leaf {k - n}"))


def _missing(decisions: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Where missing values go. Nodes that know none take NaN for 0."""
    kinds = decisions >> _KIND
    right = np.where(kinds == _NOTHING, limits < 0.0, decisions & _LEFT == 0)
    return (RIGHT * right + ZEROS * (kinds == _ZERO)).astype(np.uint8)
