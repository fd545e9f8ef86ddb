"""How an `AdditiveRanker` reads texts, levels beyond those that have a curve, and the query's own words, and learns them.

A text gives its words as entries of a sparse table (`words`), and one column with their number. With a text in the context of
the query, it also gives the share of the query's words that it has, weighted by their rarity, and whether it has them in a row.
Pairs of a word of the query with a word of the document, and of an entry of the context with a level, are entries that are
learned once they recur.
"""

import copy
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from online_rank.base.explain import Split
from online_rank.base.forgetting import parts_of
from online_rank.base.kinds import CATEGORY, IGNORED, TEXT, WHOLE, Kinds, Seen
from online_rank.query import Block, with_features
from online_rank.query.levels import Levels, read_block
from online_rank.query.names import in_nfc
from online_rank.query.times import seconds_of_text
from online_rank.query.words import Entries, Tokens, Worded, crossed, entries_of, joined, key_of_pair, keys_of, words_of
from online_rank.rankers.hedge import HedgeAccount
from online_rank.rankers.loose import loose_in
from online_rank.rankers.words import WORDS_OF_FEATURE, Words

__all__ = [
    "Texts",
    "begun",
    "columns_made",
    "learn_words",
    "length_of",
    "with_words",
    "without_entry",
]

#: The most words of a query, and of a text, that are paired with one another.
_OF_QUERY, _OF_TEXT = 16, 64
#: Evidence of one value of the context: four queries count as a whole.
_CONTEXT = 4
#: Names of the columns that a text makes.
_LENGTH, _SHARE, _PHRASE = "words of {}", "query words in {}", "query phrase in {}"
_NOTHING = Kinds()
#: Types of values of which none is a text.
_PLAIN_NUMBERS = frozenset((float, int, bool, type(None)))


def columns_made(names: Sequence[Hashable], texts: Sequence[Hashable]) -> tuple[str, ...]:
    """Which of the columns of a model were made of its texts."""
    own = set(names)
    return tuple(made for name in texts for made in (f.format(name) for f in (_LENGTH, _SHARE, _PHRASE)) if made in own)


def length_of(name: Hashable) -> str:
    """The name of the column with the number of words of a text."""
    return _LENGTH.format(name)


class Texts:
    """What is read of the texts in a block of documents, while `read_documents` reads the other features.

    Parameters
    ----------
    ranker
        An `AdditiveRanker`.
    block
        Its documents, as dicts.
    learns
        Whether they are read to be learned.
    """

    def __init__(self, ranker: Any, block: Block, learns: bool) -> None:
        self.ranker, self.block, self.n, self.learns = ranker, block, block.n_documents, learns
        self.kinds: Kinds = ranker._kinds or _NOTHING
        self.declared = ranker.kinds or {}
        self.seen: dict[Hashable, Seen] = {}
        #: How many texts of each feature had blanks around them.
        self.trimmed: dict[Hashable, int] = {}
        #: How many values of each feature are ignored.
        self.ignored: dict[Hashable, int] = {}
        self.texts: dict[Hashable, tuple[list[int], list[list[str]]]] = {}
        #: Levels of each document, of the features whose texts are categories.
        self.levels: dict[Hashable, tuple[list[int], list[list[str]]]] = {}
        self.full: list[Hashable] = []
        self.known: Levels | None = None

    @property
    def taken(self) -> frozenset[Hashable]:
        """The features that are texts, or ignored, also in a query without texts."""
        if not self.declared and self.ranker._kinds is None:
            return frozenset()
        kinds = self.kinds.known() | self.declared
        return frozenset(name for name, kind in kinds.items() if kind != CATEGORY)

    def take(self, name: Hashable, rows: list[int], values: list[Any], levels: Levels) -> bool:
        """Whether the values of a feature are no columns: words, or ids, which are left out."""
        self.known, declared = levels, self.declared.get(name)
        known = levels.levels_of(name)
        if not known and declared is None and levels.kind_of(name) == "number":
            return False
        if not known and declared is None and not self.kinds.knows(name) and _PLAIN_NUMBERS.issuperset(map(type, values)):
            return False
        given = [(i, text) for i, value in zip(rows, values, strict=True) if isinstance(value, str) and (text := _plain(value))]
        if not given:
            if (declared or self.kinds.of(name)) in (TEXT, IGNORED):
                self._note_odd(name, values)
                return True
            self._take_lists(name, rows, values)
            return False
        texts = [value for _, value in given]
        if not known and declared is None and not self.kinds.knows(name) and _are_dates(texts):
            return False
        kind = declared
        if kind is None:
            kind = CATEGORY
            # A ranker inside others keeps the levels that a text had while it was a category.
            if not known.keys() >= {*texts} or self.kinds.of(name) != CATEGORY:
                kind = self._kind_of(name, texts)
        if kind == CATEGORY:
            self._take_lists(name, rows, values)
            return False
        if kind == TEXT:
            self.texts[name] = [i for i, _ in given], [words_of(value) for value in texts]
            if len(given) < len(values):
                self._note_odd(name, values)
        elif kind == IGNORED:
            self.ignored[name] = len(texts)
        return kind in (TEXT, IGNORED)

    def _note_odd(self, name: Hashable, values: list[Any]) -> None:
        """Count values of a text that are no texts, which are missing; a query of such values speaks against a text."""
        odd = sum(not (value is None or isinstance(value, str) or value != value) for value in values)
        if odd:
            self.ignored[name] = odd
            if odd == len(values) and name not in self.seen:
                self.seen[name] = Seen(min(odd / WHOLE, 1.0), 0.0, 0.0, np.zeros(0, dtype=np.uint32))

    def _kind_of(self, name: Hashable, texts: list[str], whole: int = WHOLE) -> str:
        """The kind of a feature with these values; what they show is kept where it is to be learned, or nothing is known."""
        if name not in self.seen and (self.learns or not self.kinds.knows(name)):
            self.seen[name] = self.kinds.seen(name, texts, whole)
        return self.kinds.of(name, self.seen.get(name))

    def _take_lists(self, name: Hashable, rows: list[int], values: list[Any]) -> None:
        """Keep the levels of a category."""
        lists = [[value] if isinstance(value, str) else value for value in values]
        kept = [
            (i, [plain for text in own if (plain := _plain(text))])
            for i, own in zip(rows, lists, strict=True)
            if isinstance(own, list | tuple) and all(isinstance(text, str) for text in own)
        ]
        if kept:
            self.levels[name] = [i for i, _ in kept], [[*dict.fromkeys(own)] for _, own in kept]

    def with_columns(self, block: Block) -> Block:
        """A block that was read, with the columns that texts make."""
        made: dict[str, np.ndarray] = {}
        queries = [self._query_words(t) for t in range(len(self.block.w))]
        for name, (rows, words) in self.texts.items():
            length = np.full(self.n, np.nan)
            length[rows] = [*map(len, words)]
            made[_LENGTH.format(name)] = length
            if any(queries):
                made[_SHARE.format(name)], made[_PHRASE.format(name)] = self._matches(name, rows, words, queries)
        if taken := made.keys() & {*(block.names or ())}:
            raise ValueError(f"x has a feature that is called as one that is made of a text: {min(taken)!r}")
        X = np.column_stack([block.X, *made.values()])
        return with_features(block, X, (*(block.names or ()), *made))

    def attached(self, block: Block) -> Block:
        """A block whose array of features carries the words of its documents."""
        self.full = [name for name in self.levels if self.known is not None and self.known.is_full(name)]
        parts = [entries_of(self.n, name, *own) for name, own in self.texts.items()]
        levels = {name: entries_of(self.n, name, *own) for name, own in self.levels.items() if name in self.full}
        parts += [*levels.values(), *self._pairs(levels)]
        if not parts:
            return block
        tokens = joined(self.n, parts)
        return with_features(block, Worded.of(block.X, tokens, self.seen), block.names)

    def named(self, i: int) -> Iterator[tuple[Hashable, int, float]]:
        """The entries of a document, after `take`: what each is called, its key and its value."""
        self.full = [name for name in self.levels if self.known is not None and self.known.is_full(name)]
        t = int(np.searchsorted(self.block.offsets, i, side="right")) - 1
        query = [f"query={word}" for word in self._query_words(t)]
        context = {} if self.block.context is None else self.block.context[t]
        about = [f"{name}={in_nfc(value)}" for name, value in context.items() if self._is_level(name, value)]
        for found, wanted, is_text in ((self.texts, query, True), (self.levels, about, False)):
            for name, (rows, lists) in found.items():
                own = lists[rows.index(i)] if i in rows else []
                counts = Counter(own)
                for text, count in counts.items():
                    if is_text or name in self.full:
                        # A level is a part of its category.
                        called: Hashable = f"{name}={text}" if is_text else name
                        yield called, int(keys_of([f"{name}="], [[text]])[0]), float(count)
                for text, count in Counter(own[:_OF_TEXT] if is_text else own).items():
                    for whole in wanted:
                        yield f"{whole} x {name}={text}", key_of_pair(whole, f"{name}={text}"), float(count)

    def _query_words(self, t: int) -> list[str]:
        """The words of the texts in the context of a query."""
        if self.block.context is None:
            return []
        words = [words_of(value) for name, value in self.block.context[t].items() if self._is_text(name, value)]
        return [*dict.fromkeys(word for own in words for word in own)][:_OF_QUERY]

    def _is_text(self, name: str, value: Any) -> bool:
        """Whether an entry of the context is a text, whose words are read."""
        if not isinstance(value, str) or not value.strip():
            return False
        kind = self.declared.get(name)
        if kind is None:
            kind = self._kind_of(("context", name), [in_nfc(value)], _CONTEXT)
        return bool(kind == TEXT)

    def _pairs(self, levels: dict[Hashable, Entries]) -> list[Entries]:
        """Pairs of what is known of the query with what is known of the documents."""
        if self.block.context is None:
            return []
        words = [[f"query={word}" for word in self._query_words(t)] for t in range(len(self.block.w))]
        about = [
            [f"{name}={in_nfc(value)}" for name, value in context.items() if self._is_level(name, value)]
            for context in self.block.context
        ]
        made = []
        if any(words) and self.texts:
            of_texts = [
                entries_of(self.n, name, rows, [own[:_OF_TEXT] for own in lists]) for name, (rows, lists) in self.texts.items()
            ]
            made += [self._crossed(own, words) for own in of_texts]
        if any(about):
            for name, own in self.levels.items():
                entries = levels.get(name) or entries_of(self.n, name, *own)
                made.append(self._crossed(entries, about))
        return made

    def _is_level(self, name: str, value: Any) -> bool:
        """Whether an entry of the context is a level: of one word or number, or one that recurs."""
        return isinstance(value, str | int) and not self._is_text(name, value)

    def _crossed(self, entries: Entries, wanted: list[list[str]]) -> Entries:
        ends = np.cumsum([0, *map(len, wanted)])
        of_query = np.stack([ends[:-1], ends[1:]], axis=1)
        firsts = np.repeat(of_query, np.diff(self.block.offsets), axis=0)
        return crossed(entries, firsts, keys_of([""], [[text for own in wanted for text in own]]))

    def _matches(
        self, name: Hashable, rows: list[int], words: list[list[str]], queries: list[list[str]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The share of the query's words that each document has, by rarity, and whether it has all in a row."""
        share, phrase = np.full(self.n, np.nan), np.full(self.n, np.nan)
        rarity = [self._rarity(name, query) for query in queries]
        of_document = np.repeat(np.arange(len(queries)), np.diff(self.block.offsets))
        for i, own in zip(rows, words, strict=True):
            query = queries[of_document[i]]
            if query:
                has = set(own)
                weights = rarity[of_document[i]]
                found = sum(weight for word, weight in zip(query, weights, strict=True) if word in has)
                share[i] = found / sum(weights)
                phrase[i] = float(f" {' '.join(query)} " in f" {' '.join(own)} ")
        return share, phrase

    def _rarity(self, name: Hashable, query: list[str]) -> list[float]:
        """ln(1 + N / (n + .5)) of each word, n of the N queries lately with it, counted by their share of documents."""
        words: Words | None = self.ranker._words
        if words is None or not query:
            return [1.0] * len(query)
        counts = words.counts_of(keys_of([f"{name}="], [query]))
        return np.log1p(words.n_lately / (counts + 0.5)).tolist() if words.n_lately else [1.0] * len(query)


def _plain(text: str) -> str:
    """A text as levels are called: in form NFC, without blanks around it."""
    return str(in_nfc(text)).strip()


def _are_dates(texts: list[str]) -> bool:
    """Whether texts are dates, which are read as numbers."""
    return all(seconds_of_text(text.strip()) is not None for text in texts)


def _no_tokens(n: int) -> Tokens:
    """No entries, for n documents."""
    return Tokens(np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64))


def most_words(ranker: Any) -> int:
    """How many words a ranker keeps."""
    return WORDS_OF_FEATURE * int(ranker.max_features)


def learn_words(ranker: Any, block: Block, scores: Any) -> float:
    """Let the words of a ranker learn one query, and its kinds what the query shows of them.

    scores : gives the scores (m,) by what is next to the words, before the query is learned

    Returns the loss of what was served, or NaN if there is nothing to learn.
    """
    X = block.X
    tokens = X.tokens if type(X) is Worded and X.tokens is not None else None
    if tokens is not None and X.seen and block.w[0] > 0.0:
        ranker._kinds = (ranker._kinds or _NOTHING).learned(X.seen)
    if ranker._words is None:
        if tokens is None or not len(tokens.keys):
            return math.nan
        ranker._words = begun(ranker)
    tokens = _no_tokens(len(X)) if tokens is None else tokens
    ranker._words.has_names |= type(X) is Worded and X.has_names
    keep = float(ranker._kept(block)[0, 0])
    served = np.empty(0) if block.served is None else block.served
    loss: float = ranker._words.learn(
        tokens, block.y, float(block.w[0]), served, scores(np.asarray(X)), -math.log2(keep), most_words(ranker),
        ranker._rule(len(X)), ranker.seed, ranker._n_queries,
    )  # fmt: skip
    return loss


def begun(ranker: Any) -> Words:
    """The words of a ranker that has met none so far."""
    words, trees = Words(), ranker.trees_beside
    account: HedgeAccount = ranker.account if trees is None else trees.account
    words.begin(account)
    return words


def with_words(ranker: Any, told: Split, block: Block, a: int, b: int) -> Split:
    """How the difference between two documents is split, with their words: each is called "title=red", a pair "red x shoe"."""
    words: Words = ranker._words
    values = [*(words.factor * told.values)]
    pairs = {places: words.factor * value for places, value in told.pairs.items()}
    names, places = [*told.names], {name: k for k, name in enumerate(told.names)}
    for sign, (name, key, value) in _entries_of_two(ranker, block, a, b) if words.share else ():
        if added := sign * value * float(words.weights_of(np.array([key]))[0]):
            if name not in places:
                places[name] = len(names)
                names.append(name)
                values.append(0.0)
            values[places[name]] += added
    return told._replace(names=tuple(names), values=np.array(values), pairs=pairs)


def _entries_of_two(ranker: Any, block: Block, a: int, b: int) -> Iterator[tuple[float, tuple[Hashable, int, float]]]:
    """The entries of two documents, of the second with sign -1: what each is called, its key and its value."""
    two, texts = ((1.0, a), (-1.0, b)), None
    if type(block.X) is list:
        levels, texts = Levels(ranker._columns.names, ranker.max_levels), Texts(ranker, block, False)
        block = read_block(block, levels, None, texts.take, texts.taken)
    found = loose_in(ranker, block, False)
    for sign, i in two:
        for entry in texts.named(i) if texts is not None else ():
            yield sign, entry
        if found is not None:
            for entry in zip(found.names, found.keys.tolist(), found.values[i].tolist(), strict=True):
                yield sign, entry


def without_entry(model: Any, without: Any, name: str, value: str) -> tuple[Any, int]:
    """A model without the pairs of an entry of the context with levels and words, and how many there were.

    The checksum by which its kinds remember the value goes, too. `without` is the model, or a copy that may change.
    """
    value = in_nfc(value)
    keys, feature = keys_of([""], [[f"{name}={value}"]]), ("context", name)
    has_pairs = any(words.has_pairs_of(keys) for words in parts_of(without, Words))
    if not (has_pairs or any(kinds.has_mark(feature, value) for kinds in parts_of(without, Kinds))):
        return without, 0
    without = copy.deepcopy(model) if without is model else without
    for kinds in parts_of(without, Kinds):
        kinds.forget(feature, value)
    return without, sum(words.forget(keys) for words in parts_of(without, Words))
