"""The trees of an `AdditiveRanker`: what they are, the window they grow from, and room for both."""

import copy
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from river import base

from online_rank._kernels import beside, leaves, splitting, window
from online_rank._kernels.splitting import Growth
from online_rank._kernels.window import Window
from online_rank.base.schema import Array, Derived, Schema
from online_rank.base.undo import Undo, record_state
from online_rank.limits import MAX_COUNT
from online_rank.rankers.hedge import OuterHedge, opening, outer_hedge

#: The weights of curves, averages of leaves and last leaves in each candidate, (7, 3); and their prior: half of it
#: is on the curves alone.
MIXTURES = np.array(
    [
        [1.0, 0.0, 0.0],
        [0.75, 0.25, 0.0],
        [0.5, 0.5, 0.0],
        [0.25, 0.75, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.5, 0.0, 0.5],
    ]
)
#: By how much trees fade with each new one.
KEEP = 0.99
#: Shard k numbers its trees from k times this on: the number of a tree decides what it draws.
OF_SHARD = 1 << 32
#: Places of the members' scales among the numbers of the blend.
SCALES = slice(beside.SCALES, beside.FACTOR)
_PRIOR = np.array([0.5, *[0.5 / 6.0] * 6])
#: Most bytes of the window, and most documents in it. Columns are read side by side: they begin at different places of the
#: caches if their length is no multiple of 4,096.
_MOST_BYTES, _MOST_DOCUMENTS, _ASIDE = 8 << 20, (1 << 16) - 320, 64
#: Bytes of a document in addition to its bins: two float32, and a share of the row of its query.
_OF_DOCUMENT, _DOCUMENTS_OF_QUERY = 12, 8
#: Most documents of a sample, and the share of the columns: at least 8 of them.
_SAMPLE, _COLUMNS, _LEAST_COLUMNS, _MOST_COLUMNS = (1 << 15) - 320, 0.35, 8, 1000
#: Room at first: documents, queries; trees that get room at a time; and the documents from which on room doubles.
_FIRST_DOCUMENTS, _FIRST_QUERIES, _MORE_TREES, _SMALL = 192, 16, 8, 4096
#: Queries during which there is no more than about one tree for each.
_FEW = 24
#: Trees for each feature, and the fewest.
_OF_FEATURE, _FEWEST = 4, 200
#: Operations of growth in the end, for each document that is read and for each of its values.
_OF_EACH, _OF_VALUE = 200.0, 7.0
#: The same at first: for each value, and at least and at most for each document. A tree of many features takes long; with few
#: features, more trees of the first queries would follow noise.
_OF_VALUE_AT_FIRST, _LEAST_AT_FIRST, _MOST_AT_FIRST = 160.0, 10_800.0, 25_000.0
#: The number of documents after which half of the difference is gone: for each feature, at least and at most.
_HALF, _LEAST_HALF, _MOST_HALF = 52.0, 2500.0, 8000.0
#: By how much mixtures with trees must have lost less than curves before trees are served, in losses of whole queries.
_EVIDENCE = 0.5


@functools.lru_cache(maxsize=64)
def most_trees(trees: int, n_features: int) -> int:
    """How many trees there may be, of at most `trees`: four for each feature, and at least 200."""
    return min(trees, max(_OF_FEATURE * n_features, _FEWEST))


@functools.lru_cache(maxsize=64)
def most_documents(n_features: int) -> int:
    """How many documents the window may have."""
    return min(_MOST_DOCUMENTS, _MOST_BYTES // (n_features + _OF_DOCUMENT))


def most_queries(n_features: int) -> int:
    """How many queries the window may have."""
    return max(most_documents(n_features) // _DOCUMENTS_OF_QUERY, 1)


class GrowingTrees(base.Base):
    """Trees of depth 4 next to curves: grown from a window of queries, with leaves that learn at each query.

    All state is in arrays, which kernels change in place (`online_rank._kernels.beside`), a half-grown tree among them. This
    class gives them room: they begin small, and are replaced by larger ones.
    """

    _schema = Schema(
        _splits=Array(None, leaves.N_SPLITS, dtype="int16", low=0),
        _trees=Array(lambda own: len(own._splits), leaves.N_PARTS),
        _bins=Array(None, None, dtype="uint8", high=leaves.N_BINS - 1),
        _documents=Array(window.N_OF_DOCUMENT, lambda own: own._bins.shape[1], dtype="float32"),
        _queries=Array(None, window.N_OF_QUERY, low=0.0),
        _sample=Array(None, None, dtype="uint8", high=leaves.N_BINS - 1),
        _packed=Array(lambda own: own._sample.shape[1], dtype="int64"),
        _listed=Array(lambda own: own._sample.shape[1], dtype="int16", low=0),
        _integers=Array(None, dtype="int64"),
        _numbers=Array(None),
        _blend=Array(beside.N_NUMBERS),
        _table=Derived(lambda own: len(own._splits), leaves.N_LEAVES),
    )

    def __init__(self) -> None:
        self._splits = np.zeros((0, leaves.N_SPLITS), dtype=np.int16)
        self._trees = np.zeros((0, leaves.N_PARTS))
        self._bins = np.zeros((0, 0), dtype=np.uint8)
        self._documents = np.zeros((window.N_OF_DOCUMENT, 0), dtype=np.float32)
        self._queries = np.zeros((0, window.N_OF_QUERY))
        self._sample = np.zeros((1, 0), dtype=np.uint8)
        self._packed = np.zeros(0, dtype=np.int64)
        self._listed = np.zeros(0, dtype=np.int16)
        self._integers = np.zeros(splitting.CHOSEN, dtype=np.int64)
        self._numbers = np.zeros(splitting.USES)
        self._blend = np.zeros(beside.N_NUMBERS)
        self._blend[beside.ACCOUNT : beside.SCALES] = opening()
        self._blend[beside.FACTOR] = 1.0
        self._table = np.zeros((0, leaves.N_LEAVES))

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return int(self._integers[window.N_TREES])

    @property
    def n_queries(self) -> int:
        """How many queries the window has."""
        return int(self._integers[window.COUNT])

    @property
    def bytes_of_queries(self) -> int:
        """How many bytes the window and the sample of the growing tree take."""
        parts = self._bins, self._documents, self._queries, self._sample, self._packed, self._listed
        return sum(part.nbytes for part in parts)

    @property
    def n_grown(self) -> int:
        """How many trees have grown."""
        return int(self._integers[window.N_GROWN]) % OF_SHARD

    @property
    def n_served(self) -> int:
        """How many trees are served: none while there is no evidence that they help."""
        return int(self._blend[beside.SERVED])

    @property
    def hedge(self) -> OuterHedge:
        """The blend with the curves, by `MIXTURES`: the curves alone, with averages of leaves, and with the last leaves."""
        return outer_hedge(self._blend[: beside.N_CANDIDATES], self._blend[beside.ACCOUNT : beside.SCALES], _PRIOR)

    @property
    def window(self) -> Window:
        """The queries that trees grow from: the arrays themselves, which kernels change."""
        return Window(self._bins, self._documents, self._queries, self._integers)

    @property
    def growth(self) -> Growth:
        """The trees, and the one that is growing: the arrays themselves, which kernels change."""
        own = self._splits, self._trees, self._sample, self._packed, self._listed, self._integers, self._numbers
        return Growth(*own)

    @property
    def blend(self) -> np.ndarray:
        """The numbers of the blend with the curves: the array itself, with the places that `beside` names."""
        return self._blend

    @property
    def factor(self) -> float:
        """The factor of the curves in what is served."""
        return float(self._blend[beside.FACTOR])

    def _check_state(self) -> None:
        """Raise ValueError if loaded trees or windows would make kernels read out of bounds."""
        d, n, integers = len(self._bins), self._bins.shape[1], self._integers
        rooms = splitting.CHOSEN + (len(self._sample) - 1) * splitting.OF_COLUMN
        if len(integers) != rooms or len(self._numbers) != splitting.USES + d or not len(self._sample):
            raise ValueError("the state of a growing tree lacks a part")
        n_trees, counts = self.n_trees, integers[: splitting.NEW]
        if counts.min() < 0 or counts.max() > MAX_COUNT or n_trees > len(self._splits):
            raise ValueError("a count of trees or queries is impossible")
        if self._splits[:n_trees, : leaves.N_NODES].max(initial=-1) >= d:
            raise ValueError("a tree splits by a feature that does not exist")
        self._check_window(d, n)
        self._check_growth(d)

    def _check_window(self, d: int, n: int) -> None:
        first, count, head, pushed, held = self._integers[: window.HELD + 1].tolist()
        rows = self._queries
        if count > len(rows) or (len(rows) and first >= len(rows)) or head > n or pushed < count:
            raise ValueError("the window has other queries than it counts")
        used = rows[(first + np.arange(count)) % max(len(rows), 1)]
        starts, sizes = used[:, window.START], used[:, window.SIZE]
        whole = (used[:, : window.WEIGHT] % 1.0 == 0.0).all() and (sizes >= 1.0).all()
        if not whole or (starts + sizes > n).any() or sizes.sum() != held:
            raise ValueError("a query of the window lies outside it")

    def _check_growth(self, d: int) -> None:
        integers, room = self._integers, self._sample.shape
        phase, level, column = integers[splitting.PHASE], integers[splitting.LEVEL], integers[splitting.COLUMN]
        sampled, columns = integers[splitting.SAMPLED], integers[splitting.COLUMNS]
        if (
            phase > splitting.SCORE
            or level > 4
            or sampled > room[1]
            or columns > room[0] - 1
            or integers[splitting.LISTED] > sampled
            or integers[splitting.SMALLER] > 255
        ):
            raise ValueError("a growing tree is in no known state")
        busy = phase in (splitting.SPLIT, splitting.PART)
        if busy and (level > 3 or integers[splitting.AT] > sampled or column >= max(columns, 1)):
            raise ValueError("a growing tree is in no known state")
        if (self._listed[: integers[splitting.LISTED]] >= max(sampled, 1)).any():
            raise ValueError("a growing tree counts a document that it has not")
        # Documents that were parted are in nodes of the next level.
        nodes, parted = self._sample[-1, :sampled], integers[splitting.AT] if phase == splitting.PART else 0
        misplaced = busy and ((nodes[parted:] >> level).any() or (nodes[:parted] >> (level + 1)).any())
        if misplaced or (nodes >= leaves.N_LEAVES).any():
            raise ValueError("a document of a growing tree is in no node")
        features = (
            integers[splitting.NEW : splitting.NEW + leaves.N_NODES],
            integers[splitting.OLD : splitting.OLD + leaves.N_NODES],
        )
        chosen, best = integers[splitting.CHOSEN :][:columns], integers[splitting.BEST : splitting.BEST_BIN]
        for own in (*features, chosen):
            if own.min(initial=0) < 0 or (len(own) and own.max() >= max(d, 1)):
                raise ValueError("a growing tree splits by a feature that does not exist")
        if phase != splitting.IDLE and (best.max() >= columns or best.min() < -1):
            raise ValueError("a growing tree splits by a column that does not exist")

    def draw(self, seed: int, query: int) -> None:
        """Compute what is served next, from the state."""
        self._table = np.zeros((len(self._trees), leaves.N_LEAVES))
        if not self.n_trees:
            # The curves answer alone; the kernel, which is needed for nothing else, takes a second to compile.
            self._blend[beside.FACTOR :] = 1.0, 0.0
            return
        beside.draw_leaves(
            self._blend, MIXTURES, _PRIOR, self._trees, self.n_trees, _EVIDENCE, seed, query, self._table
        )  # fmt: skip

    def state(self) -> tuple[np.ndarray, ...]:
        """The arrays, in the order of `beside.learn`."""
        return (
            self._splits, self._trees, self._sample, self._packed, self._listed, self._bins, self._documents, self._queries,
            self._integers, self._numbers, self._blend, self._table, MIXTURES, _PRIOR,
        )  # fmt: skip

    def served(self) -> tuple[np.ndarray, np.ndarray]:
        """Splits and leaves of the trees that are served."""
        return self._splits[: self.n_served], self._table[: self.n_served]

    def answers(self, rows: Any, scores: np.ndarray) -> np.ndarray:
        """The scores (m,) of a query by the curves, by its rows, and as they are served with trees: (2, m)."""
        answers = np.empty((2, len(scores)))
        leaves.answer(rows.g, rows.cells, self._splits, self._table, self._blend[beside.FACTOR :], scores, answers)
        return answers

    def limits(self, trees: int) -> np.ndarray:
        """The settings of `beside.learn`."""
        return _limits(trees, *self._bins.shape)

    def add_features(self, zero: np.ndarray) -> None:
        """Add features: earlier documents lacked them, or had the value 0, where `zero` (n,) is true."""
        d, n = len(self._bins), len(zero)
        bins = np.zeros((d + n, self._bins.shape[1]), dtype=np.uint8)
        bins[:d] = self._bins
        bins[d:][zero] = leaves.MIDDLE
        self._bins = bins
        self._numbers = np.append(self._numbers, np.zeros(n))
        if bins.shape[1] > most_documents(d + n):
            self._rearrange(most_documents(d + n), len(self._queries))

    def fork(self, number: int) -> None:
        """From now on draw other columns and queries than shards with other numbers do."""
        self._trees[:, leaves.BORN] %= OF_SHARD
        self._integers[window.N_GROWN] = self.n_grown + number * OF_SHARD

    def shed(self, first_query: int, of: int) -> "GrowingTrees":
        """What a mix of `of` shards takes: no tree that is growing, and of the window the last queries from a number on."""
        made, d = copy.copy(self), len(self._bins)
        made._start_again()
        made._integers = made._integers[: splitting.CHOSEN]
        made._sample, made._packed, made._listed = np.zeros((1, 0), np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int16)
        rows = self.rows_of_queries()
        # No mix takes more, unless shards are of different length: then it takes older queries of the base.
        is_last = np.cumsum(rows[::-1, window.SIZE])[::-1] <= most_documents(d) // of
        made.fill([(self, row) for row in rows[is_last & (rows[:, window.NUMBER] >= first_query)]])
        return made

    def keep_only(self, kept: np.ndarray) -> None:
        """Keep only some features, in ascending order: nodes that split by another one send all documents left."""
        to = np.full(len(self._bins), -1)
        to[kept] = np.arange(len(kept))
        self._bins = self._bins[kept]
        uses = self._numbers[splitting.USES :][kept]
        self._numbers = np.concatenate([self._numbers[: splitting.USES], uses])
        splits = self._splits.copy()
        features = to[splits[:, : leaves.N_NODES]] if len(to) else np.zeros((len(splits), leaves.N_NODES), dtype=np.int64)
        splits[:, : leaves.N_NODES] = np.maximum(features, 0)
        splits[:, leaves.N_NODES :][features < 0] = leaves.NEVER
        self._splits = splits
        self._start_again()

    def arranged(self, order: np.ndarray) -> "GrowingTrees":
        """A copy for mixing whose feature j was feature `order[j]`, without the tree that is growing; it shares what stays."""
        made, to = copy.copy(self), np.argsort(order)
        if (np.diff(order) != 1).any():
            made._bins = np.ascontiguousarray(self._bins[order])
        made._numbers = self._numbers.copy()
        made._numbers[splitting.USES :] = self._numbers[splitting.USES :][order]
        made._splits = self._splits.copy()
        made._splits[:, : leaves.N_NODES] = to[self._splits[:, : leaves.N_NODES]] if len(to) else 0
        made._start_again()
        return made

    def empty_window(self) -> int:
        """Forget the queries of the window, and the tree that grows from them; returns how many queries."""
        n = int(self._integers[window.COUNT])
        self._start_again()
        self._integers[[window.FIRST, window.COUNT, window.HEAD, window.HELD]] = 0
        self._integers[splitting.CHOSEN :] = 0
        for name in ("_bins", "_documents", "_queries", "_sample", "_packed", "_listed"):
            setattr(self, name, np.zeros_like(getattr(self, name)))
        return n

    def _start_again(self) -> None:
        """Drop the tree that is growing."""
        self._integers = self._integers.copy()
        self._integers[splitting.PHASE] = splitting.IDLE
        self._integers[splitting.NEW : splitting.BEST] = 0
        self._integers[[splitting.SAMPLED, splitting.COLUMNS, splitting.SMALLER, splitting.LISTED]] = 0

    def rows_of_queries(self) -> np.ndarray:
        """The rows of the window's queries, the oldest first."""
        first, count = self._integers[[window.FIRST, window.COUNT]]
        rows: np.ndarray = self._queries[(first + np.arange(count)) % max(len(self._queries), 1)]
        return rows

    def fill(self, queries: Sequence[tuple["GrowingTrees", np.ndarray]]) -> None:
        """Replace the window by queries of the windows of others, the oldest first: whose, and their rows."""
        rows, d = np.array([row for _, row in queries]).reshape(-1, window.N_OF_QUERY), len(self._bins)
        stops = np.cumsum(rows[:, window.SIZE]).astype(np.int64)
        held = int(stops[-1]) if queries else 0
        room = min(most_documents(d), held + _ASIDE) if queries else 0
        self._bins = np.zeros((d, room), dtype=np.uint8)
        self._documents = np.zeros((window.N_OF_DOCUMENT, room), dtype=np.float32)
        for (one, row), stop in zip(queries, stops.tolist(), strict=True):
            at, m = int(row[window.START]), int(row[window.SIZE])
            self._bins[:, stop - m : stop] = one._bins[:, at : at + m]
            self._documents[:, stop - m : stop] = one._documents[:, at : at + m]
        rows[:, window.START] = stops - rows[:, window.SIZE]
        self._queries = rows
        self._integers[: window.HELD + 1] = 0, len(rows), held, len(rows), held

    def make_room(self, n_documents: int, trees: int) -> None:
        """Give the next query room, and the next tree."""
        d, room = self._bins.shape
        # One look at the integers: each takes longer than all that follows.
        counts = self._integers[: splitting.AT].tolist()
        head, most, documents, queries = counts[window.HEAD], most_documents(d), room, len(self._queries)
        if head + n_documents > room and room < most:
            more = room // 2 if room < _SMALL else room
            documents = min(most, max(room + more, head + n_documents, _FIRST_DOCUMENTS) + _ASIDE)
        # What soon needs more room, too, gets it now: copying takes longer than a query.
        if counts[window.COUNT] >= (queries if documents == room else queries // 2) and queries < most_queries(d):
            queries = min(most_queries(d), max(2 * queries, _FIRST_QUERIES))
        if (documents, queries) != (room, len(self._queries)):
            self._rearrange(documents, queries)
        # At first about a tree for each query, so that many models of few queries are small.
        most_now, pushed = most_trees(trees, d), counts[window.PUSHED]
        if counts[window.N_TREES] == len(self._trees) < most_now and (pushed >= _FEW or len(self._trees) <= pushed):
            n = min(_MORE_TREES, most_now - len(self._trees))
            self._splits = np.concatenate([self._splits, np.zeros((n, leaves.N_SPLITS), dtype=np.int16)])
            self._trees = np.concatenate([self._trees, np.zeros((n, leaves.N_PARTS))])
            self._table = np.concatenate([self._table, np.zeros((n, leaves.N_LEAVES))])
        if counts[splitting.PHASE] == splitting.IDLE:
            self._room_for_sample(d)

    def _room_for_sample(self, d: int) -> None:
        columns = -splitting.ABREAST * (
            -min(d, max(_LEAST_COLUMNS, min(_MOST_COLUMNS, round(_COLUMNS * d)))) // splitting.ABREAST
        )
        documents = min(self._bins.shape[1], _SAMPLE)
        if self._sample.shape[1] < documents or len(self._sample) != columns + 1:
            self._sample = np.zeros((columns + 1, documents), dtype=np.uint8)
            self._packed = np.zeros(documents, dtype=np.int64)
            self._listed = np.zeros(documents, dtype=np.int16)
            more = np.zeros(columns * splitting.OF_COLUMN, dtype=np.int64)
            self._integers = np.concatenate([self._integers[: splitting.CHOSEN], more])

    def _rearrange(self, documents: int, queries: int) -> None:
        """Copy the window to arrays with room for as many documents and queries."""
        bins = np.zeros((len(self._bins), documents), dtype=np.uint8)
        own = np.zeros((window.N_OF_DOCUMENT, documents), dtype=np.float32)
        rows = np.zeros((queries, window.N_OF_QUERY))
        self._integers = self._integers.copy()
        window.arrange(self._bins, self._documents, self._queries, self._integers, bins, own, rows)
        self._bins, self._documents, self._queries = bins, own, rows

    def record(self, log: list[Undo], n_documents: int | None) -> None:
        """Add to a log what undoes learning a query of as many documents; None for any number of queries."""
        if n_documents is None:
            record_state(log, self)
            return
        # Of the window, most of the state, a query changes only its own places.
        room, head = self._bins.shape[1], int(self._integers[window.HEAD])
        start = head if head + n_documents <= room else 0
        places = slice(start, start + n_documents)
        log.append(functools.partial(_put_places_back, self._bins, places, self._bins[:, places].copy()))
        record_state(log, self, replaced=frozenset({"_bins"}))


@functools.lru_cache(maxsize=64)
def _limits(trees: int, n_features: int, n_documents: int) -> np.ndarray:
    """The settings of `beside.learn` for a window of `n_documents`: an array that nobody changes."""
    d = max(n_features, 1)
    late, early = _OF_EACH + _OF_VALUE * d, min(max(_OF_VALUE_AT_FIRST * d, _LEAST_AT_FIRST), _MOST_AT_FIRST)
    credits = late / d, max(early, late) / d, min(max(_HALF * d, _LEAST_HALF), _MOST_HALF)
    return np.array([most_trees(trees, n_features), KEEP, min(n_documents, _SAMPLE), *credits, _EVIDENCE])


def _put_places_back(array: np.ndarray, places: slice, before: np.ndarray) -> None:
    array[:, places] = before
