"""Applies any river transformer to queries."""

import datetime as dt
import functools
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from river import base

from online_rank.base.anatomy import Abilities
from online_rank.base.names import Columns
from online_rank.base.reader import as_array
from online_rank.base.schema import Schema
from online_rank.base.step import QueryStep
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import Undo
from online_rank.limits import MAX_FEATURES, MAX_LIFTED
from online_rank.preprocessing._journal import Journal, is_timed, kind_of, parts_of, shared_part, transformed, unchanged
from online_rank.query import Block, Retrieved, document_name, feature_dicts, require_finite, require_grades, with_features
from online_rank.query.forms import flat, from_dicts
from online_rank.query.names import are_nfc, in_nfc, keys_in_nfc

#: Types of numbers that need no look at one after the other.
_NUMBERS = frozenset((bool, float, int))


class ForEachDocument(QueryTransformer):
    """Lift a river transformer of single documents to queries: it learns and transforms one document after the other.

    Documents reach the transformer as feature dicts; features of an array are named by their position. As the first step of a
    pipeline it gets them unchanged, so text and categories are allowed there; its output must be finite numbers. A feature that
    it returns only for some documents is 0 for the others, and so is NaN, which river's `MinMaxScaler` returns before it has
    learned anything.

    Learning takes about as long however much was learned before, except from classes outside river's `compose`, `preprocessing`
    and `feature_extraction`, whose state is copied for each query.

    All documents of a query are learned before the first is transformed. A supervised transformer learns the documents' grades
    after the query was transformed, as in river's own pipelines.

    River's mini-batch methods are not used. They differ from its `learn_one` and `transform_one`, for example on constant
    features, and a block must give what a loop gives. `StreamScaler` is much faster than a lifted `StandardScaler`.

    Parameters
    ----------
    transformer
        A river transformer, supervised or not, or a pipeline or union of them. What has a window of time, `utils.TimeRolling`,
        needs the time of each query: `learn_one(x, y, t=...)`.

    Raises
    ------
    TypeError
        `transformer` is something else.
    ValueError
        An object that learns is in `transformer` twice.

    Examples
    --------
    >>> from river import compose, preprocessing
    >>> from online_rank import ForEachDocument, PerceptronRanker
    >>> kind = compose.Select("kind") | preprocessing.OneHotEncoder()
    >>> size = compose.Select("size") | preprocessing.MinMaxScaler()
    >>> model = ForEachDocument(kind + size) | PerceptronRanker()
    >>> model.learn_one([{"kind": "pdf", "size": 10}, {"kind": "html", "size": 30}], [0, 1])
    >>> model.transform_one([{"kind": "html", "size": 15}])
    [{'size': 0.25, 'kind_pdf': 0.0, 'kind_html': 1.0}]
    >>> model.rank_one({"a": {"kind": "pdf", "size": 30}, "b": {"kind": "html", "size": 20}})
    ['b', 'a']
    """

    #: Undoes what was learned last; the columns of an encoder, by their names. In slots, like the lock: they are not state.
    __slots__ = ("_categories", "_journal")

    #: What it makes may have other names in each query.
    _makes_names = True

    _schema = Schema()

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=True, takes_time=any(map(is_timed, parts_of(self.transformer))))

    def __init__(self, transformer: Any):
        super().__init__()
        if isinstance(transformer, QueryStep):
            raise TypeError(f"transformer: {type(transformer).__name__} works on queries already")
        if not isinstance(transformer, base.Transformer | base.SupervisedTransformer):
            raise TypeError(
                f"transformer is {transformer!r}; it is a river transformer, or a pipeline or union of them "
                "(a function goes into river.compose.FuncTransformer)"
            )
        if (twice := shared_part(transformer)) is not None:
            raise ValueError(f"transformer has the same object twice, {twice}: make another one for the second place")
        self.transformer: Any = transformer

    @property
    def _supervised(self) -> bool:
        return self.transformer._supervised

    def __str__(self) -> str:
        return f"ForEachDocument({self.transformer})"

    def _given(self, n_features: int) -> int:
        n_columns = _n_columns(self.transformer, n_features)
        # In a dictionary, a product with its name takes as much memory as 8 numbers in each of two arrays.
        return n_columns if n_columns <= n_features else 8 * n_columns

    def _cells(self, n_documents: int, n_features: int) -> int:
        return n_documents * self._given(n_features)

    def _record(self, log: list[Undo], block: Any = None) -> None:
        before, self._journal = getattr(self, "_journal", None), Journal(self.transformer)
        if before is not None:
            # What encloses the last change may enclose this one, and then undoes both.
            before.enclose(self._journal)
        log.append(self._journal.undo)

    def _transform_block(self, block: Block) -> Block:
        # One copy after the other: of thousands of small documents, copies take twenty times their JSON.
        documents = map(dict, _documents(block, self.transformer))
        with unchanged(self.transformer):
            answers, zeros = transformed(self.transformer, documents, functools.partial(self._of_each, block))
            return self._answer(block, answers, zeros)

    def _learn_block(self, block: Block) -> Block:
        transformer, journal = self.transformer, self._journal
        if journal.is_supervised:
            if not isinstance(block.y, np.ndarray):
                raise TypeError(f"{self} is supervised: it learns from grades, y")
            require_grades(block.y, block.ids)
        if self.abilities.takes_time and block.at is None:
            raise ValueError(f"{self} has a window of time: learn_one needs t=, and learn_many at=, the query's time")
        answers: list[dict[Hashable, Any]] = []
        for query in block.each():
            documents, grades = _documents(query, transformer), query.y.tolist() if journal.is_supervised else None
            each = functools.partial(self._of_each, query)
            answers += journal.learn_and_transform(documents, grades, _moment(query), each)
        return self._answer(block, answers, journal.zeros)

    def _of_each(self, block: Block, call: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        """The results of a call for each document. Any error becomes a ValueError that names the document."""
        made: list[Any] = []
        try:
            made.extend(map(call, *arguments))
            if len(made) < block.n_documents:  # To `map` it is the end of the documents.
                raise RuntimeError("it raised StopIteration")
        except KeyError as error:
            raise ValueError(
                f"x: {document_name(len(made), block.ids)} has no feature {error.args[0]!r}, which {self} looks up: give every "
                'document of a query the feature, for example 0, or "" for a text'
            ) from error
        except (TypeError, ValueError, MemoryError):
            raise
        # River's transformers raise errors of any kind: a norm of 0 is a ZeroDivisionError, and Rust's panics are no Exception.
        except BaseException as error:
            if not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
                raise
            raise ValueError(f"x: {self} cannot take {document_name(len(made), block.ids)}: {error}") from error
        return made

    def _answer(self, block: Block, answers: list[dict[Hashable, Any]], zeros: dict[Any, int] | None) -> Block:
        if zeros is not None:
            if (answer := self._with_zeros(block, answers, zeros)) is not None:
                return answer
            answers = [{**zeros, **x} for x in answers]
        read = from_dicts(answers, block.ids)
        X = as_array(read.X, self)
        answer = with_features(block, X, read.names)
        # A product of infinity, and NaN, is not finite; the test of all takes three times as long.
        if not math.isfinite(np.vdot(X, X)) and not np.isfinite(X).all():
            # The input was finite, so NaN means that the transformer cannot compute the value yet. The array is a new one.
            np.copyto(X, 0.0, where=np.isnan(X))
            require_finite(answer)
        return answer

    def _with_zeros(self, block: Block, ones: list[dict[Hashable, Any]], zeros: dict[Any, int]) -> Block | None:
        """The answer of an encoder by its ones, and all columns that it knows; None if there are others, or none."""
        known, columns = tuple(zeros), getattr(self, "_categories", None)
        if columns is None or columns.names != known[: len(columns)]:
            columns = self._categories = Columns()
        new = known[len(columns) :]
        if len(known) > MAX_FEATURES or not are_nfc(new):
            return None
        columns.add(new)
        places = columns.of(flat(ones))
        if not len(places) or places.min() < 0:
            return None
        X = np.zeros((len(ones), len(known)))
        X[np.repeat(np.arange(len(ones)), [*map(len, ones)]), places] = 1.0
        return with_features(block, X, columns.names)


def _documents(block: Block, transformer: Any) -> Iterable[dict[Hashable, Any]]:
    """The documents of a block, not copied. Raises an error for a number too large for river, or a text that is one's."""
    X = block.X if type(block.X) is list else feature_dicts(block)
    numbers_only = transformer if _norms(transformer) else None
    if _are_plain(X, numbers_only is None):
        return X
    return (_taken(x, i, block, numbers_only) for i, x in enumerate(X))


def _are_plain(X: list[Any], with_texts: bool) -> bool:
    """Whether all names and values are as river's transformers take them; False also if that takes a closer look."""
    values = flat(map(dict.values, X))
    texts = [value for value in values if type(value) is str]
    if texts:
        if not with_texts or not "".join(texts).isascii():
            return False
        values = [value for value in values if type(value) is not str]
    are_numbers = _NUMBERS.issuperset(map(type, values))
    return are_numbers and all(map(MAX_LIFTED.__ge__, map(abs, values))) and are_nfc(set().union(*X))


def _taken(x: dict[Hashable, Any], i: int, block: Block, numbers_only: Any) -> dict[Hashable, Any]:
    """A document as river's transformers take it; `numbers_only` is one that takes no text."""
    taken = dict(keys_in_nfc(x, f"x: {document_name(i, block.ids)}"))
    for name, value in taken.items():
        if type(value) is Retrieved:
            raise TypeError("x is Runs, whose absent scores are not 0: put RunFeatures() first, as in RunFeatures() | ranker")
        if isinstance(value, str):
            if numbers_only is not None:
                what = f"feature {name!r} of {document_name(i, block.ids)}"
                raise TypeError(f"x: {what} is {value[:80]!r}; {numbers_only} takes numbers")
            taken[name] = in_nfc(value)
        elif isinstance(value, int | float | np.number) and not -MAX_LIFTED <= value <= MAX_LIFTED:
            require_finite(block)
            raise ValueError(
                f"x: feature {name!r} of {document_name(i, block.ids)} is {value!r:.30}; transformers of river take "
                f"numbers of at most {MAX_LIFTED:g} in size"
            )
    return taken


def _norms(transformer: Any) -> bool:
    """Whether a transformer begins with a norm, for which NumPy takes 500 bytes for each character of a text."""
    kind = kind_of(type(transformer))
    if kind == "pipeline":
        return _norms(next(iter(transformer.steps.values())))
    if kind == "union":
        return any(map(_norms, transformer.transformers.values()))
    return type(transformer).__name__ == "Normalizer"


def _n_columns(transformer: Any, n_features: int) -> int:
    """How many columns a transformer makes of a document, at most; products of features are many."""
    kind = kind_of(type(transformer))
    if kind == "pipeline":
        return functools.reduce(lambda n, step: _n_columns(step, n), transformer.steps.values(), n_features)
    if kind == "union":
        return sum(_n_columns(part, n_features) for part in transformer.transformers.values())
    if type(transformer).__name__ == "PolynomialExtender":
        return math.comb(n_features + transformer.degree, transformer.degree)
    return n_features


def _moment(query: Block) -> dt.datetime | None:
    """The time of a query as river's windows take it: in UTC, without a time zone."""
    return None if query.at is None else dt.datetime.fromtimestamp(query.at[0], dt.UTC).replace(tzinfo=None)
