"""Queries in columns: the names of features once, and a row of values for each document."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels.arrays import all_finite
from online_rank._kernels.json_rows import read_rows
from online_rank.limits import MAX_FEATURES
from online_rank.query.blocks import ONE, Block, single
from online_rank.query.forms import as_floats, flat
from online_rank.query.levels import numbers
from online_rank.query.names import are_nfc

__all__ = ["Columns"]

_MOST_LACKING = 0.5


class Columns(Mapping[str, dict[str, Any]]):
    """One query as the names of its features, its documents, and a row of values for each document.

    As a mapping it is `{document: {feature: value}}`, without missing values.

    Parameters
    ----------
    features
        The names of the d features.
    documents
        The ids of the m documents.
    rows
        m lists of d values, or a float array (m, d); None and NaN are missing values.

    Raises
    ------
    ValueError
        A name or an id occurs twice, or the rows have another shape.

    Examples
    --------
    >>> query = Columns(["clicks", "brand"], ["a", "b"], [[3, "acme"], [1, None]])
    >>> query["b"]
    {'clicks': 1}
    """

    __slots__ = ("_places", "_rows", "features")

    def __init__(self, features: Sequence[str], documents: Sequence[str], rows: Sequence[Sequence[Any]] | np.ndarray) -> None:
        self.features, self._rows = tuple(features), rows
        self._places = dict(zip(documents, range(len(documents)), strict=True))
        for what, names, different in (("features", features, {*features}), ("documents", documents, self._places)):
            if len(different) < len(names):
                twice = Counter(names).most_common(1)[0][0]
                raise ValueError(f"{what} has {twice[:100]!r} twice")
        if len(rows) != len(documents):
            raise ValueError(f"rows has {len(rows)} rows, but documents has {len(documents)} ids: one row a document")
        if ({rows.shape[1]} if isinstance(rows, np.ndarray) else {*map(len, rows)}) - {len(features)}:
            document, row = next(pair for pair in zip(documents, rows, strict=True) if len(pair[1]) != len(features))
            raise ValueError(
                f"the row of document {document[:100]!r} has {len(row)} values, but features has {len(features)} names: null "
                "is a missing value"
            )

    @staticmethod
    def numbers_in(text: bytes | memoryview, features: Sequence[str], documents: Sequence[str]) -> np.ndarray | None:
        """Rows of numbers in valid JSON, float64 (m, d), without an object for each.

        None if they have another shape, if some are no numbers or need exact conversion, or if names have to be looked at.
        """
        shape = len(documents), len(features)
        # Each number takes two bytes or more: the array is no larger than what has come allows.
        if not (0 < 2 * shape[0] * shape[1] <= len(text) and shape[1] <= MAX_FEATURES and are_nfc(tuple(features))):
            return None
        X = np.empty(shape)
        return X if read_rows(np.frombuffer(text, np.uint8), X) else None

    def without(self, name: str) -> set[str]:
        """The documents that lack a feature."""
        if name not in self.features:
            return {*self._places}
        place, rows = self.features.index(name), self._rows
        return {document for document, i in self._places.items() if (value := rows[i][place]) is None or value != value}

    def __getitem__(self, document: str) -> dict[str, Any]:
        row = self._rows[self._places[document]]
        values = row.tolist() if isinstance(row, np.ndarray) else row
        return {name: v for name, v in zip(self.features, values, strict=True) if v is not None and v == v}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def as_block(self, *, categories: bool, missing: Callable[[], bool]) -> Any:
        """The query as a block, without a dict for a document; itself, if its values or names have to be looked at one by one.

        Parameters
        ----------
        categories
            Whether the model takes booleans as categories, not as numbers.
        missing
            Says whether it takes NaN for a missing value; asked only where something is missing.
        """
        names = self.features
        X = self._floats(categories, missing) if self._places and 0 < len(names) <= MAX_FEATURES and are_nfc(names) else None
        if X is None:
            return self
        self._rows = X
        if not all_finite(X.ravel()) and (lacking := np.isnan(X)).any():
            # A model may take what is mostly missing for words, which are sparse.
            if lacking.mean() > _MOST_LACKING or not missing():
                return self
            # As in dicts, a feature that no document has is not met.
            known = ~lacking.all(axis=0)
            X, names = np.ascontiguousarray(X[:, known]), tuple(np.array(names, object)[known])
        return Block(X, None, single(len(self)), ONE, tuple(self._places), names, form=dict)

    def _floats(self, categories: bool, missing: Callable[[], bool]) -> np.ndarray | None:
        """The values as float64 (m, d); None if some are no numbers."""
        if isinstance(self._rows, np.ndarray):
            return np.asarray(self._rows, np.float64)
        cells, convert = flat(self._rows), numbers if categories else as_floats
        X = convert(cells)
        if X is None and missing():
            X = convert([np.nan if value is None else value for value in cells])
        return None if X is None else X.reshape(len(self), len(self.features))
