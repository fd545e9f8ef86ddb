"""Features by hashed names, without a vocabulary, for numbers, text and categories."""

import itertools
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels.hashing import hash_names
from online_rank._kernels.sparse import merge_repeated
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Schema
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Block, SparseRows, document_name, require_finite
from online_rank.query.forms import as_floats, flat
from online_rank.query.names import encoded, in_lines, in_nfc, names_in_nfc
from online_rank.query.sparse import as_rows, merged
from online_rank.query.words import WORDS

#: As many columns as a model may have features.
MOST_BITS = 24


class HashedFeatures(QueryTransformer):
    r"""Put features into 2^bits columns by a hash of their names, so that no vocabulary is kept and memory is fixed.

    The hash of a name gives its column and a sign, by which its values are multiplied, so that collisions cancel on average
    ([1]). Entries of a document in the same column add up. The result is sparse for every input.

    Documents may contain more than numbers:

    - a number is the feature `name`;
    - a string is a category: the feature `name=string`, with value 1;
    - a string in a field of `text` is a bag of words: each word w, in lower case, is the feature `name=w`, with the number of
      its occurrences as value. A word is a maximal run of letters, digits and underscores (`\w+`);
    - a list or tuple of strings is a bag of these: each string w is the feature `name=w`, counted.

    So `{"kind": "pdf"}` is `{"kind=pdf": 1}`. A name is a string or an integer, which stands for its digits: feature n of an
    array, or of LETOR text, is the name "n".

    The hash is FNV-1a with 64 bits over the name in UTF-8, mixed by MurmurHash3's fmix64. It depends only on the name, not on
    the process, the platform or other names. The lowest bits are the column, the highest is the sign.

    Parameters
    ----------
    bits
        The number of columns is 2^bits, at most 2^24. A linear ranker takes 32 bytes for each column.
    text
        Names of the fields whose strings are split into words; None for none.
    others
        Whether features other than `text` are hashed too. A blend may leave those to another ranker.

    References
    ----------
    [1] Weinberger, Dasgupta, Langford, Smola & Attenberg, *Feature Hashing for Large Scale Multitask Learning*, ICML 2009.

    Examples
    --------
    >>> from online_rank import HashedFeatures, PerceptronRanker
    >>> model = HashedFeatures(18, text=("title",)) | PerceptronRanker()
    >>> query = {
    ...     "a": {"title": "Breaking news", "kind": "html", "clicks": 3},
    ...     "b": {"title": "Older news", "kind": "pdf"},
    ... }
    >>> model.learn_one(query, {"a": 2, "b": 0})
    >>> model.rank_one({"c": {"title": "more news", "kind": "pdf"}, "d": {"title": "breaking", "kind": "html"}})
    ['d', 'c']
    >>> HashedFeatures(4).transform_one([{"clicks": 3.0}, {"kind": "pdf"}])
    [{...}, {...}]
    """

    _schema = Schema()

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=True, takes_sparse=True, learns=False)

    def __init__(self, bits: int = 22, *, text: tuple[str, ...] | None = None, others: bool = True) -> None:
        super().__init__()
        arguments.integer("bits", bits, 1, MOST_BITS)
        if text is not None and not (isinstance(text, tuple) and text and all(isinstance(name, str) for name in text)):
            raise TypeError(f"text is {text!r}; it is None, or a tuple of names of features")
        arguments.flag("others", others)
        if text is None and not others:
            raise ValueError("others=False hashes the features of text, and text is None")
        self.bits = bits
        self.text = text and tuple(names_in_nfc(text, "text"))
        self.others = others

    def _transform_block(self, block: Block) -> Block:
        X = block.X
        if not self.others:
            # Columns of numbers have no texts.
            X = X if isinstance(X, list) else [{}] * block.n_documents
            X = [{name: x[name] for name in self.text or () if x.get(name) is not None} for x in X]
        rows = self._of_columns(block) if isinstance(X, np.ndarray | SparseRows) else self._of_documents(X, block.ids)
        return block._replace(X=rows, names=None)

    def _of_documents(self, documents: Sequence[Mapping[Hashable, Any]], ids: Sequence[Hashable] | None) -> SparseRows:
        """Feature dicts as hashed rows."""
        lengths: Iterable[int] = map(len, documents)
        names: Sequence[Iterable[Hashable]] = documents
        values = as_floats(flat(x.values() for x in documents))
        if values is None:
            # Pairs of all documents at once would take a hundred bytes for each feature.
            parts, numbers = list[list[Hashable]](), array("d")
            for i, x in enumerate(documents):
                features = [*self._features_of(x, i, ids)]
                parts.append([name for name, _ in features])
                numbers.extend([value for _, value in features])
            names, lengths, values = parts, map(len, parts), np.frombuffer(numbers)
        starts = np.array([0, *itertools.accumulate(lengths)], dtype=np.int64)
        if not np.isfinite(values).all():
            require_finite(Block(documents, None, starts, values, ids))
        columns = hashed(names, self.bits, values)
        n = merge_repeated(starts, columns, values)
        return SparseRows(starts, columns[:n], values[:n], 1 << self.bits)

    def _features_of(self, document: Mapping[Hashable, Any], i: int, ids: Any) -> Iterator[tuple[Hashable, float]]:
        """The names and numbers of a document that contains more than numbers."""
        fields = self.text or ()
        for name, value in document.items():
            if isinstance(value, str):
                value = in_nfc(value)
                words = Counter(WORDS.findall(value.casefold())) if in_nfc(name) in fields else {value: 1}
            elif isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
                words = Counter(map(in_nfc, value))
            elif hasattr(type(value), "__float__") and not isinstance(value, np.complexfloating | np.ndarray):
                try:
                    yield name, float(value)
                except OverflowError:
                    raise ValueError(f"x: feature {name!r} of {document_name(i, ids)} is too large for a float") from None
                continue
            else:
                remedy = ": leave a missing one out" if value is None else ""
                what = f"feature {name!r} of {document_name(i, ids)} is {value!r:.80}"
                raise TypeError(f"x: {what}; features are numbers, texts, or lists of texts{remedy}")
            for word, count in words.items():
                yield f"{_as_text(name)}={word}", float(count)

    def _of_columns(self, block: Block) -> SparseRows:
        """Features in columns as hashed rows."""
        require_finite(block)
        rows = as_rows(block.X)
        if block.names is None and rows.n_columns > len(rows.columns):
            used, places = np.unique(rows.columns, return_inverse=True)
        else:
            used, places = np.arange(rows.n_columns), rows.columns
        names = [str(j + 1) for j in used.tolist()] if block.names is None else block.names
        signs = np.ones(len(used))
        columns = hashed([names], self.bits, signs)
        return merged(rows.starts, columns[places], rows.values * signs[places], 1 << self.bits)


def hashed(names: Sequence[Iterable[Hashable]], bits: int, values: np.ndarray) -> np.ndarray:
    """The columns, int32, of n names in several parts; their n `values` are multiplied by the signs of the names, in place.

    Raises
    ------
    TypeError, ValueError
        A name is neither a string nor an integer; or two of a part are one text in Unicode.

    Examples
    --------
    >>> values = np.ones(3)
    >>> hashed([["clicks", "age"], ["clicks"]], 4, values), values
    (array([11,  3, 11], dtype=int32), array([-1., -1., -1.]))
    """
    columns = np.empty(len(values), dtype=np.int32)
    text = in_lines(flat(names), lambda name: encoded(_as_text(name)))
    if not text.isascii():
        for part in names:
            names_in_nfc(part, "x")
        text = in_lines([*map(in_nfc, flat(names))], lambda name: encoded(_as_text(name)))
    hash_names(np.frombuffer(text, np.uint8), bits, columns, values)
    return columns


def _as_text(name: Hashable) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        return str(int(name))
    raise TypeError(f"x: the feature name {name!r} is of type {type(name).__name__}; names to hash are strings or integers")
