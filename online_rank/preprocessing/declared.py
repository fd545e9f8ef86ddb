"""The features that a model is meant to get, written down."""

import collections
import difflib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.arguments import flag
from online_rank.base.anatomy import Abilities
from online_rank.base.form import Layer
from online_rank.base.reader import as_array, as_numbers
from online_rank.base.schema import Schema
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Block, document_name, with_features
from online_rank.query.names import are_nfc, in_nfc, names_in_nfc


class DeclaredFeatures(QueryTransformer):
    """Refuse features that were not declared, and count declared ones that are missing.

    Without it a model takes any feature, and a misspelt one is a new feature whose weight is 0, and the declared one is always
    missing. Put it first. The columns are the declared ones, in their order, from the first query on; a feature that a document
    lacks is 0, and NaN stays as it is, for the next step to take or to refuse. An array has one column for each.

    Parameters
    ----------
    features
        Names of the features, each once.
    texts
        Whether the next step takes texts and missing values, as `AdditiveRanker` does: dicts are passed on as they are, and a
        feature that a document lacks is missing, not 0.

    Attributes
    ----------
    n_missing : dict
        For each feature the number of documents without it in the queries learned by this object. It is not saved or copied.

    Raises
    ------
    TypeError, ValueError
        `features` is empty, names a feature twice, or is a single text. On use: a document has a feature that is not declared,
        an array another number of columns.

    Examples
    --------
    >>> from online_rank import DeclaredFeatures, PerceptronRanker
    >>> model = DeclaredFeatures(["price", "stars"]) | PerceptronRanker()
    >>> model.learn_one({"a": {"price": 3.0, "stars": 4.5}, "b": {"price": 9.0}}, {"a": 1, "b": 0})
    >>> model["DeclaredFeatures"].n_missing
    {'price': 0, 'stars': 1}
    >>> model.rank_one({"a": {"prise": 3.0}, "b": {"price": 9.0}})
    Traceback (most recent call last):
    ...
    ValueError: x: document 'a' has a feature 'prise', which is not declared; the nearest that is: 'price'
    """

    _schema = Schema()

    # In a slot: the counts are not state.
    __slots__ = ("_missing",)

    _missing: collections.Counter[Hashable]

    def __init__(self, features: Sequence[Hashable], *, texts: bool = False) -> None:
        super().__init__()
        flag("texts", texts)
        if isinstance(features, str | bytes) or not isinstance(features, Sequence):
            raise TypeError(f"features is {features!r}; it is a list of names")
        if not features:
            raise ValueError("features is empty; it names at least one feature")
        if twice := [name for name, n in collections.Counter(features).items() if n > 1]:
            raise ValueError(f"features names {twice[0]!r} more than once")
        self.texts = texts
        self.features = features if are_nfc(features) else names_in_nfc(features, "features")

    @property
    def feature_names(self) -> tuple[Hashable, ...]:
        """The declared names, in the order of the columns."""
        return tuple(self.features)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.features)

    @property
    def n_missing(self) -> dict[Hashable, int]:
        """For each feature the number of documents without it, in the queries learned by this object."""
        with self._lock:
            return {name: self._counts[name] for name in self.features}

    @property
    def _counts(self) -> collections.Counter[Hashable]:
        if not hasattr(self, "_missing"):
            self._missing = collections.Counter()
        return self._missing

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=not self.texts, passes_documents=self.texts, takes_missing=self.texts, learns=False)

    _rises = True

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        return ()

    def _transform_block(self, block: Block) -> Block:
        documents, own = block.X, self.feature_names
        if isinstance(documents, list):
            self._require_declared(documents, block.ids)
            if self.texts:
                return block
            block = as_numbers(block)
        elif block.names is not None:
            self._require_declared([dict.fromkeys(block.names)], None)
        X = as_array(block.X, self)
        if block.names is None:
            if len(X) and X.shape[1] != len(own):
                raise ValueError(f"x has {X.shape[1]} columns, but {len(own)} features are declared")
            return with_features(block, X if len(X) else np.zeros((0, len(own)), X.dtype), own)
        if block.names == own:
            return block
        arranged = np.full((len(X), len(own)), np.nan if self.texts else 0.0, X.dtype)
        arranged[:, [own.index(name) for name in block.names]] = X
        return with_features(block, arranged, own)

    def _require_declared(self, documents: Sequence[Mapping[Hashable, Any]], ids: Sequence[Hashable] | None) -> None:
        """Raise ValueError for the first feature that is not declared."""
        known = set(self.features)
        for i, x in enumerate(documents):
            if known.issuperset(x):
                continue
            for name in (name for name in x if in_nfc(name) not in known):
                near = difflib.get_close_matches(str(name), map(str, self.features), n=1)
                of = "x" if ids is None and len(documents) == 1 else f"x: {document_name(i, ids)}"
                told = f"; the nearest that is: {near[0]!r}" if near else ""
                raise ValueError(f"{of} has a feature {name!r}, which is not declared{told}")

    def _learn_block(self, block: Block) -> Block:
        made = self._transform_block(block)
        if isinstance(block.X, list):
            n = len(self.features)
            for x in block.X:
                if len(x) < n:
                    self._counts.update(name for name in self.features if name not in x)
        elif block.names is not None and len(block.names) < len(self.features):
            lacking = [name for name in self.features if name not in set(block.names)]
            self._counts.update(dict.fromkeys(lacking, block.n_documents))
        return made

    _asks_blocks = True
