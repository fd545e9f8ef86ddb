"""Watches what goes into a model: unknown and missing features, and whether their values have changed.

A model says which features it needs, and the first documents seen become the reference. Queries and documents are sampled, so
that watching costs little at any traffic.
"""

import bisect
import collections
import logging
import math
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np

from online_rank import arguments
from online_rank.base import ranker_of, serving_steps
from online_rank.base.explain import feature_weights
from online_rank.rankers.frozen import FrozenRanker
from online_rank.serving.clock import CLOCK

_log = logging.getLogger("online_rank.serving")

#: Unknown names that this process has logged: models of keys come and go.
_LOGGED: set[str] = set()

_SECONDS_BETWEEN, _SECONDS_BETWEEN_LINES = 0.05, 60.0
_DOCUMENTS = 5
_MOST_FEATURES = 300
_MOST_NAMES = 100
#: Most names that are learned, and the longest; with more, nobody can tell which name is unknown.
_MOST_KNOWN = 20_000
_LONGEST_NAME = 200
_SHOWN = 10
_PARTS = 10
_HALF_LIFE = 1000.0
_LEAST = 200.0
#: The share of reference documents from which a feature is expected in every query.
_EXPECTED = 0.9


def stability_index(reference: np.ndarray, current: np.ndarray) -> np.ndarray:
    r"""The population stability index between two histograms: sum_b (q_b - p_b) ln(q_b / p_b), the symmetric divergence of
    Kullback and Leibler.

    By the usual rule of thumb [1], below .1 nothing has changed, above .25 much has. Half a document is added to each bin, so
    that empty ones count little.

    Parameters
    ----------
    reference, current
        Numbers of documents, shape (..., bins).

    References
    ----------
    [1] Siddiqi, *Credit Risk Scorecards*, Wiley 2006.

    Examples
    --------
    >>> bool(stability_index(np.array([50.0, 50.0]), np.array([50.0, 50.0])) == 0.0)
    True
    >>> round(float(stability_index(np.array([79.5, 19.5]), np.array([19.5, 79.5]))), 4)  # .6 ln(.8 / .2), twice
    1.6636
    """
    p, q = ((each + 0.5) / (each + 0.5).sum(axis=-1, keepdims=True) for each in (reference, current))
    return ((q - p) * np.log(q / p)).sum(axis=-1)


_Edges = Annotated[list[float], msgspec.Meta(max_length=_PARTS - 1)]
_Histogram = Annotated[list[Annotated[float, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=_PARTS + 1, max_length=_PARTS + 1)]


class _Kept(msgspec.Struct):
    """A reference in a file: names, and for each feature the upper ends of its bins and their numbers of documents."""

    known: list[str] | None
    expected: list[str]
    features: dict[str, tuple[_Edges, _Histogram]]


class InputWatch:
    """What goes into a model, from a sample of its queries, since the process began; the reference may be older.

    Parameters
    ----------
    model
        The model that gets these queries; None for none yet.
    documents
        Number of documents that become the reference.
    clock
        The time in seconds; for tests.

    Attributes
    ----------
    n_queries, n_with_unknown, n_with_missing : int
        Numbers of sampled queries: all, those with a feature that neither the model nor the reference knows, and those
        without a feature that is expected. That is one that nine of ten reference documents have, and one that the model needs
        (`online_rank.base.explain.feature_weights`) unless the reference has it now and then. If a query lacks most of what the
        model needs, queries have few features each, and only the reference says what is missing.
    """

    def __init__(self, model: Any = None, *, documents: int = 1000, clock: Callable[[], float] = time.monotonic) -> None:
        arguments.integer("documents", documents, 10)
        self.n_queries = self.n_with_unknown = self.n_with_missing = 0
        self._documents = documents
        self._clock = clock
        #: From when on the next query is to be looked at, by the clock.
        self.looks_from = -math.inf
        #: None for too many to know them.
        self._known: set[str] | None = set()
        #: What the model needs, the most important first.
        self._needed: list[str] = []
        self.serve(model)
        # What has met the ranking of today alone learns the names of all others; so does a model that takes documents as they
        # are, and looks at some of their features.
        frozen = model is not None and isinstance(ranker_of(model), FrozenRanker)
        self._learns_names = not self._known or frozen or self._known <= begun_with(model)
        self._unknown: collections.Counter[str] = collections.Counter()
        self._missing: collections.Counter[str] = collections.Counter()
        #: How many queries lacked each of the inputs that the model declares, and from when on the log says it again.
        self.declared: collections.Counter[str] = collections.Counter()
        self._tells_from = -math.inf
        #: When a query last had what is counted, in seconds since 1970, by the names of `figures`.
        self.last: dict[str, float] = {}
        #: Values seen so far, by feature, until there are enough for the reference.
        self._values: dict[str, array[float]] = {}
        self._n_seen = 0
        self._edges: dict[str, list[float]] = {}
        self._reference = np.zeros((0, _PARTS + 1))
        self._current = np.zeros((0, _PARTS + 1))
        self._expected: frozenset[str] = frozenset()

    def serve(self, model: Any) -> None:
        """Know the features of a model, and expect those that it needs, in place of the features of the model before."""
        steps = [] if model is None else serving_steps(model)
        self._steps = [step for step in steps if hasattr(step, "n_unknown")]
        names = next((names for step in steps if (names := getattr(step, "feature_names", None)) is not None), ())
        if self._known is not None:
            own = next((own for step in steps if (own := getattr(step, "query_names", None)) is not None), names)
            self._known |= {name for name in own if isinstance(name, str)}
        needed = [name for name in (feature_weights(model) if names else ()) if len(name) <= _LONGEST_NAME]
        self._needed = needed[:_MOST_FEATURES]

    @property
    def has_reference(self) -> bool:
        """Whether the reference is complete."""
        return bool(self._edges)

    def look(self, documents: Mapping[str, dict[str, Any]]) -> bool:
        """Look at some documents of a query. Returns whether the reference has just become complete."""
        self.looks_from = self._clock() + _SECONDS_BETWEEN
        names = [*documents][:: max(1, len(documents) // _DOCUMENTS)][:_DOCUMENTS]
        chosen = [documents[name] for name in names]
        if not chosen:
            return False
        self.n_queries += 1
        # What is null is missing.
        present = {
            name for document in chosen for name, value in document.items() if value is not None and len(name) <= _LONGEST_NAME
        }
        if self._learns_names and self._known is not None:
            self._known |= {*sorted(present - self._known)[:_MOST_FEATURES]}
            if len(self._known) > _MOST_KNOWN:
                self._known = None
        unknown = set() if self._known is None or self._learns_names else present - self._known
        for name in sorted(unknown - _LOGGED)[: min(_SHOWN, _MOST_NAMES - len(_LOGGED))]:
            _LOGGED.add(name)
            _log.warning("feature %r is new, or a typo: neither the model nor the reference of features knows it", name)
        self._count(unknown, self._unknown, "n_with_unknown")
        lacking = [name for name in self._needed if name not in present]
        is_whole = 2 * len(lacking) <= len(self._needed)
        missing = [name for name in lacking if is_whole and name not in self._edges]
        self._count({*missing, *(self._expected - present)}, self._missing, "n_with_missing")
        if self.has_reference:
            for each in chosen:
                self._add(each)
            return False
        for each in chosen:
            self._keep(each)
        if self._n_seen >= self._documents:
            self._complete()
        return self.has_reference

    def lacks(self, names: Iterable[str]) -> None:
        """Count a query that lacks inputs which the model declares; the log says so once a minute."""
        self.declared.update(names)
        self.last["declared"] = CLOCK.now()
        if self._clock() >= self._tells_from:
            self._tells_from = self._clock() + _SECONDS_BETWEEN_LINES
            each = ", ".join(f"{name!r} ({n})" for name, n in self.declared.most_common(_SHOWN))
            _log.warning("queries lack inputs that the model declares, and are ranked without: %s so far", each)

    def figures(self) -> dict[str, Any]:
        """What was found, for JSON: the names that are unknown or missing most often, and the features that drifted most.

        Unknown levels, categories that lost the blanks around them, and ignored values, are counts of the model over all of its
        queries.
        """
        index = self.drift()
        most = sorted(index, key=index.__getitem__, reverse=True)[:_SHOWN]
        return {
            "queries": self.n_queries,
            "with_unknown": self.n_with_unknown,
            "with_missing": self.n_with_missing,
            "unknown": dict(self._unknown.most_common(_SHOWN)),
            "unknown_levels": max((step.n_unknown.levels for step in self._steps), default=0),
            "trimmed": max((getattr(step, "n_trimmed", 0) for step in self._steps), default=0),
            "ignored": max((getattr(step, "n_ignored", 0) for step in self._steps), default=0),
            "missing": dict(self._missing.most_common(_SHOWN)),
            "declared": dict(self.declared.most_common(_SHOWN)),
            "last": self.last,
            "reference": int(self._reference[0].sum()) if self.has_reference else None,
            "drift": {name: round(index[name], 4) for name in most},
        }

    def drift(self) -> dict[str, float]:
        """The population stability index of each feature; nothing until there are enough documents."""
        if not self.has_reference or self._current[0].sum() < _LEAST:
            return {}
        return dict(zip(self._edges, stability_index(self._reference, self._current).tolist(), strict=True))

    def forget(self, is_forgotten: Callable[[str], bool]) -> None:
        """Forget names of features."""
        kept = [j for j, name in enumerate(self._edges) if not is_forgotten(name)]
        self._reference, self._current = self._reference[kept], self._current[kept]
        for names in (self._edges, self._values, self._unknown, self._missing):
            for name in [name for name in names if is_forgotten(name)]:
                del names[name]
        self._needed = [name for name in self._needed if not is_forgotten(name)]
        self._known = None if self._known is None else {name for name in self._known if not is_forgotten(name)}
        self._expected = frozenset(name for name in self._expected if not is_forgotten(name))

    def to_json(self) -> bytes:
        """The reference, to be kept."""
        histograms = zip(self._edges.items(), self._reference.tolist(), strict=True)
        features = {name: (edges, histogram) for (name, edges), histogram in histograms}
        known = None if self._known is None else sorted(self._known)
        return msgspec.json.encode(_Kept(known, sorted(self._expected), features))

    def restore(self, text: bytes) -> None:
        """Take a reference that was kept. Raises ValueError for anything else."""
        try:
            kept = msgspec.json.decode(text, type=_Kept)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"the reference of features is damaged: {error}") from None
        edges = {name: edges for name, (edges, _) in kept.features.items()}
        if not edges or any(each != sorted(each) for each in edges.values()):
            raise ValueError("the reference of features is damaged: it has no bins, or bins that do not ascend")
        reference = np.array([histogram for _, histogram in kept.features.values()])
        self._known = None if kept.known is None or self._known is None else self._known | {*kept.known}
        self._learns_names, self._expected = False, frozenset(kept.expected)
        self._edges, self._reference, self._current = edges, reference, np.zeros_like(reference)

    def _count(self, names: set[str] | frozenset[str], counter: collections.Counter[str], total: str) -> None:
        if names:
            setattr(self, total, getattr(self, total) + 1)
            self.last["unknown" if counter is self._unknown else "missing"] = CLOCK.now()
            for name in names if len(names) <= _SHOWN else sorted(names)[:_SHOWN]:
                if name not in counter and len(counter) >= _MOST_NAMES:  # What came once, long ago, leaves.
                    del counter[min(counter, key=counter.__getitem__)]
                counter[name] += 1

    def _keep(self, document: dict[str, Any]) -> None:
        """Keep the values of a document for the reference; features that few documents had give way to others."""
        values, rare = self._values, None
        for name, value in document.items():
            if not _is_number(value):
                continue
            if name not in values and len(values) >= _MOST_FEATURES:
                if rare is None:
                    rare = [own for own, seen in values.items() if 2 * len(seen) < self._n_seen and own not in document]
                if not rare or len(name) > _LONGEST_NAME:
                    continue
                del values[rare.pop()]
            if len(name) <= _LONGEST_NAME:
                values.setdefault(name, array("d")).append(value)
        self._n_seen += 1

    def _complete(self) -> None:
        """Make the reference of what was seen: a bin for documents without the feature, and about ten for its values."""
        histograms = []
        for name, values in self._values.items():
            cuts = np.unique(np.quantile(np.array(values), np.arange(1, _PARTS) / _PARTS, method="inverted_cdf"))
            self._edges[name] = cuts.tolist()
            counts = np.bincount(np.searchsorted(cuts, np.array(values)) + 1, minlength=_PARTS + 1).astype(float)
            counts[0] = self._n_seen - len(values)
            histograms.append(counts)
        self._reference = np.array(histograms).reshape(len(histograms), _PARTS + 1)
        self._current = np.zeros_like(self._reference)
        self._expected = frozenset(n for n, values in self._values.items() if len(values) >= _EXPECTED * self._n_seen)
        self._learns_names = False
        self._values.clear()

    def _add(self, document: dict[str, Any]) -> None:
        """Count a document after the reference."""
        bins = []
        for name, edges in self._edges.items():
            value = document.get(name)
            bins.append(bisect.bisect_left(edges, value) + 1 if _is_number(value) else 0)  # type: ignore[type-var]
        self._current *= 0.5 ** (1.0 / _HALF_LIFE)
        self._current[np.arange(len(bins)), bins] += 1.0


def begun_with(model: Any) -> frozenset[str]:
    """The features by which a model ranked before it had learned anything."""
    today = None if model is None else getattr(serving_steps(model)[-1], "today", None)
    return frozenset(map(str, today)) if isinstance(today, Mapping) else frozenset()


def _is_number(value: Any) -> bool:
    """Whether a value of a request is a number that a float can hold; integers may be larger."""
    return type(value) in (int, float) and -sys.float_info.max <= value <= sys.float_info.max
