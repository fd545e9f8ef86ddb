"""Probes: documents with the scores that an exported model must give, to ask a running engine."""

import copy
import functools
import json
import operator
import warnings
import zlib
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import serving_steps
from online_rank.base.form import Form, Trees
from online_rank.export.checking import scorer
from online_rank.export.ensembles import ZERO_FILLED, as_trees
from online_rank.export.probe_contexts import Asked, asked
from online_rank.export.probe_values import Limits, Walked, values_of
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.export.table import TARGETS
from online_rank.preprocessing import History

#: Targets that add up in single precision, or take features in it.
SINGLE = ("solr", "elasticsearch", "opensearch", "xgboost")
#: Targets that refuse features below 0.
_NOT_NEGATIVE = ("elasticsearch", "opensearch")
#: Targets that leave out the constant of a linear model.
_WITHOUT_CONSTANT = ("solr", "elasticsearch", "opensearch")
#: At least, and about at most, how many documents and numbers there are.
_FEWEST, _MOST_DOCUMENTS, _MOST_NUMBERS = 60, 6_000, 300_000
#: How many splits a row is tried for, and how often 64 rows may reach no other one.
_TRIES, _PATIENCE = 60, 3
#: The share of values that are missing, and documents of a query where scores depend on its other documents.
_MISSING, _IN_QUERY = 0.15, 25
#: The least number above 0 that PostgreSQL gets.
_LEAST = 1e-290
#: Levels of a boolean; it has no others.
_BOOLEANS = {"true", "false"}
#: Levels that no model knows: text that is code, or markup, or none of these, somewhere.
_HOSTILE = (
    "x' OR '1'='1",
    '"}} {{title}} ${efi.q}',
    "back\\slash",
    "<b>&amp;</b>",
    "naïve 漢字",
    "a,b;c|d",
    "-- }",
    "never met",
)


class Probes(NamedTuple):
    """Documents for an engine, and what it must answer.

    Attributes
    ----------
    target, name
        The target, and the name of the model there.
    features
        For each of the d raw features: its name in the target. A level of a category has the field, the level (None for all
        others) and the others. A column that is made of a vector has the field of the vector. An entry of the context says so.
    takes_missing
        Whether a missing value is different from 0.
    shift
        Whether the target leaves out a constant, so that scores are compared up to one.
    queries
        Lists of `Probe`s that are ranked together.
    contexts
        For each query the fields that are the same for all of its documents, such as the vector of the query, and the
        parameters that engines get in their place.
    reached, splits
        How many sides of splits of trees of raw features a probe reaches, with the threshold or the number just below it, and
        how many there are.
    """

    target: str
    name: str
    features: list[dict[str, Any]]
    takes_missing: bool
    shift: bool
    queries: list[list["Probe"]]
    reached: int
    splits: int
    contexts: list[dict[str, Any]]

    def to_json(self) -> str:
        """The probes as the content of a file."""
        body = self._asdict() | {"queries": [[probe._asdict() for probe in query] for query in self.queries]}
        return json.dumps({"online_rank_probes": 1, **body}, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Probes":
        """The inverse of `to_json`. Raises ValueError for another content."""
        try:
            body = json.loads(text)
            if body["online_rank_probes"] != 1:
                raise ValueError(f"version {body['online_rank_probes']} of probes is unknown")
            queries = [[Probe(**probe) for probe in query] for query in body["queries"]]
            return cls(**{field: body[field] for field in cls._fields} | {"queries": queries})
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"it does not contain probes, as online-rank export writes them ({error!r})") from None


class Probe(NamedTuple):
    """A document, and what an engine must answer.

    Attributes
    ----------
    id
        Its name.
    fields
        Values by the target's names of fields: numbers and texts; a missing one is left out.
    score
        The score that the exported model gives: what the engine must answer.
    model
        The score that the model itself gives, which differs where curves became trees.
    allowed
        By how much the engine's score may differ.
    """

    id: str
    fields: dict[str, Any]
    score: float
    model: float
    allowed: float


def probes(model: Any, to: str, *, name: str = "online_rank", names: Names = None) -> Probes:
    """Documents that show whether an engine computes an exported model: typical and extreme ones, missing values, ties, levels.

    Every threshold and knot of a raw feature occurs, as does the number just below it. Where trees are on raw features, there
    are documents that reach the splits with these. Values in single precision where the target has them.

    Parameters
    ----------
    model, to, name, names
        As in `export`; `to` is a target that takes features.

    Returns
    -------
    The `Probes`; `to_json` writes them.

    Raises
    ------
    TypeError, ValueError
        As `export`; or `to` fuses runs.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> made = probes(PerceptronRanker.from_weights({"clicks": 2.0}), "json")
    >>> made.queries[0][1].fields, made.queries[0][1].score
    ({'clicks': 0.0}, 0.0)
    """
    if to not in TARGETS or "fusion" in TARGETS[to].kinds:
        raise ValueError(f"to is {to!r}: probes are for targets that take features")
    given = prepared(model, to, names)
    X, walked = _documents(given, to)
    queries = asked(given, _queries(X, given))
    score = scorer(given, to)
    made, number = [], 0
    for query_asked in queries:
        rows = query_asked.rows
        texts = [_texts(given, row) | own for row, own in zip(rows, query_asked.vectors, strict=True)]
        found, own = np.asarray(score(rows), dtype=float), _own(model, given, query_asked)
        allowed = _allowed(given, to, rows, found)
        query = []
        for fields, *numbers in zip(texts, found.tolist(), own.tolist(), allowed.tolist(), strict=True):
            query.append(Probe(f"p{number}", fields, *numbers))
            number += 1
        made.append(query)
    shift = given.kind == "linear" and to in _WITHOUT_CONSTANT
    splits = 2 * int((walked.columns >= 0).sum())
    reached = splits - len(walked.missed())
    contexts = [{"fields": one.fields, "parameters": one.parameters} for one in queries]
    return Probes(to, name, _features(given), given.form.takes_missing, shift, made, reached, splits, contexts)


def _features(given: Prepared) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"name": text} for text in given.texts]
    for j, level in given.levels.items():
        made[j] |= {"field": level.field, "level": level.level, "others": [*level.others]}
    for vector in given.vectors:
        for j in vector.columns:
            made[j] |= {"vector": vector.field, "k": vector.k, "p": vector.p, "given": vector.given}
    for j in given.context:
        made[j]["context"] = True
    return made


class _Documents:
    """Raw rows whose levels are as documents have them: of one category a row has one level, or none."""

    def __init__(self, given: Prepared, to: str) -> None:
        self.rng = np.random.default_rng(0)
        self.given = given
        single = to in SINGLE
        computed = _computed(given, to)
        self.values = values_of(computed, single)
        if single:
            self.values = [values[np.abs(values) < 1e30] for values in self.values]
        if to == "postgresql":
            # Products of smaller numbers are errors there.
            self.values = [np.where((v != 0.0) & (np.abs(v) < _LEAST), np.copysign(_LEAST, v), v) for v in self.values]
        if to in _NOT_NEGATIVE:
            self.values = [v if given.texts[j] in given.templates else v[v >= 0.0] for j, v in enumerate(self.values)]
        self.numbers = [j for j in range(len(given.texts)) if j not in given.levels]
        self.categories: dict[str, dict[str | None, int]] = {}
        for j, level in given.levels.items():
            self.categories.setdefault(level.field, {})[level.level] = j
        trees = computed.head.trees if isinstance(computed.head, Trees) else ()
        if given.kind == "curves" and not trees:
            trees = tuple(tree for form in _inner(computed) if isinstance(form.head, Trees) for tree in form.head.trees)
        self.walked = Walked(trees if given.kind in ("trees", "curves") else (), single, given.levels)

    def random(self, n: int) -> np.ndarray:
        """Rows in which every value of each feature occurs, if there are enough."""
        X = np.zeros((n, len(self.given.texts)))
        for j in self.numbers:
            values = self.rng.permutation(self.values[j])
            X[:, j] = np.resize(values, n)
            X[self.rng.random(n) < _MISSING, j] = np.nan
        for levels in self.categories.values():
            # Next to the levels: an unknown one, and none.
            for i, k in enumerate(self.rng.integers(0, len(levels) + 1, n).tolist()):
                if k < len(levels):
                    X[i, [*levels.values()][k]] = 1.0
        return X

    def reach(self, X: np.ndarray, most: int) -> np.ndarray:
        """The rows, with more that reach the splits of trees which none reaches."""
        self.walked.walk(X)
        missed, stale = self.walked.missed(), 0
        while missed and len(X) < most and stale < _PATIENCE:
            rows = np.array([self._row_to(missed) for _ in range(min(64, most - len(X)))])
            self.walked.walk(rows)
            X = np.concatenate([X, rows])
            left = self.walked.missed()
            missed, stale = left, stale + 1 if len(left) == len(missed) else 0
        return X

    def _row_to(self, missed: list[tuple[int, int]]) -> np.ndarray:
        """A row that reaches splits with their thresholds, or the numbers below, as many of some as go together."""
        limits: Limits = {}
        for k in self.rng.integers(0, len(missed), _TRIES).tolist():
            node, side = missed[k]
            wider = self.walked.way_to(node, side, limits)
            if wider is not None and self._has_document(wider):
                limits = wider
        row = self.random(1)[0]
        for j, (low, high) in limits.items():
            if j in self.given.levels:
                row[j] = 0.0
            elif low == high or high <= -1e200:
                row[j] = low if np.isfinite(low) else np.nan
            else:
                row[j] = self.rng.choice(self._fitting(j, low, high))
        for j, (low, _) in limits.items():
            if j in self.given.levels and low > 0.0:
                row[[*self.categories[self.given.levels[j].field].values()]] = 0.0
                row[j] = 1.0
        return row

    def _fitting(self, j: int, low: float, high: float) -> np.ndarray:
        first, stop = np.searchsorted(self.values[j], [low, high])
        return self.values[j][first:stop]

    def _has_document(self, limits: Limits) -> bool:
        """Whether some document is within limits: it has one level of a category, and values that are probed."""
        had: set[str] = set()
        for j, (low, high) in limits.items():
            if j not in self.given.levels:
                if low == high and np.isfinite(low) and j in self.numbers and low not in self.values[j]:
                    return False
                if low < high and not len(self._fitting(j, low, high)):
                    return False
            elif low == high and low not in (0.0, 1.0):
                return False
            elif low > 0.0:
                field = self.given.levels[j].field
                if field in had:
                    return False
                had.add(field)
        return True


def _inner(form: Form) -> list[Form]:
    return list(getattr(form.head, "forms", ()))


def _computed(given: Prepared, to: str) -> Form:
    """The form that the target computes."""
    if given.kind in ("trees", "curves") and "document" not in TARGETS[to].kinds:
        trees = as_trees(given, zero_filled=ZERO_FILLED.get(to, ""))
        return Form(given.form.names, given.form.n_features, (), Trees(trees, given.form.takes_missing))
    return given.form


def _documents(given: Prepared, to: str) -> tuple[np.ndarray, Walked]:
    """The raw rows of the probes, and the splits that they reach."""
    made = _Documents(given, to)
    most = int(min(_MOST_DOCUMENTS, max(_FEWEST, _MOST_NUMBERS // max(len(given.texts), 1))))
    needed = max((len(made.values[j]) for j in made.numbers), default=0)
    X = made.random(min(most, max(_FEWEST, int(needed / (1.0 - _MISSING)))))
    typical = np.zeros((2, X.shape[1]))
    for j in made.numbers:
        typical[:, j] = made.values[j][len(made.values[j]) // 2]
    nothing, zeros = np.zeros((1, X.shape[1])), np.zeros((1, X.shape[1]))
    nothing[:, made.numbers] = np.nan
    # Two are alike: a tie.
    X = np.concatenate([typical, zeros, nothing, X])
    return made.reach(X, most), made.walked


def _queries(X: np.ndarray, given: Prepared) -> list[np.ndarray]:
    """The rows as queries: one, unless scores depend on other documents of the query."""
    if given.kind != "query":
        return [X[[len(X) - 1, 2, *range(2), *range(3, len(X) - 1)]]] if len(X) > 3 else [X]
    parts = [X[k : k + _IN_QUERY] for k in range(0, len(X), _IN_QUERY)]
    return [*parts, X[:2], X[3:4], X[-1:]]


def _texts(given: Prepared, row: np.ndarray) -> dict[str, Any]:
    """The fields of a raw row."""
    fields: dict[str, Any] = {}
    for j, value in enumerate(row.tolist()):
        if j in given.context or j in given.of_vectors:
            continue
        if j not in given.levels:
            if value == value:
                fields[given.texts[j]] = value
            continue
        level = given.levels[j]
        if value == 1.0:
            fields[level.field] = _unknown(level.others, row) if level.level is None else level.level
    for field, own in _categories(given).items():
        if not own.keys().isdisjoint(given.context):
            continue
        # Half of the documents without a level that has a column have an unknown one.
        levels = tuple(text for text in own.values() if text is not None)
        if len(levels) == len(own) and {*levels} != _BOOLEANS and not row[[*own]].any() and _mixed(row) % 2:
            fields[field] = _unknown(levels, row)
    return fields


def _categories(given: Prepared) -> dict[str, dict[int, str | None]]:
    """The columns of each category, with their levels."""
    found: dict[str, dict[int, str | None]] = {}
    for j, level in given.levels.items():
        found.setdefault(level.field, {})[j] = level.level
    return found


def _mixed(row: np.ndarray) -> int:
    """A number that differs from row to row."""
    return zlib.crc32(row.tobytes())


def _unknown(others: tuple[str, ...], row: np.ndarray) -> str:
    """A level that has no column, another one for other rows."""
    known = [text for text in _HOSTILE if text not in others]
    if {*others} < _BOOLEANS:
        return "false" if "true" in others else "true"
    return known[_mixed(row) // 2 % len(known)]


def _own(model: Any, given: Prepared, query: Asked) -> np.ndarray:
    """The model's own scores of a query."""
    known, rows = given.form.names, query.rows
    model = _without_histories(model, given)
    with warnings.catch_warnings(action="ignore"):
        if known is None:
            filled = rows if given.form.takes_missing else np.nan_to_num(rows)
            return np.asarray(model.predict_one(filled), dtype=float)
        own = {level.field: known[j][0] for j, level in given.levels.items()}  # type: ignore[index]
        own |= {given.texts[j]: name for j, name in enumerate(known) if j not in given.levels}
        documents: list[dict[Any, Any]] = [{own[field]: value for field, value in _texts(given, row).items()} for row in rows]
        names = {vector.field: vector.name for vector in given.vectors}
        for document, vectors in zip(documents, query.vectors, strict=True):
            document |= {names[field]: vector for field, vector in vectors.items()}
        context = {"context": query.context} if query.context else {}
        return np.asarray(model.predict_one(documents, **context), dtype=float)


def _without_histories(model: Any, given: Prepared) -> Any:
    """The model without the steps that keep what documents have as fields."""
    steps = serving_steps(model)
    if not given.n_before or not any(isinstance(step, History) for step in steps[: given.n_before]):
        return model
    rest = copy.deepcopy([step for step in steps if not isinstance(step, History)])
    return functools.reduce(operator.or_, rest)


def _allowed(given: Prepared, to: str, rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """By how much scores may differ: by rounding, of sums of terms that may be larger than the sum."""
    size = np.full(len(scores), max(float(np.abs(scores).max(initial=0.0)), 1e-9))
    if given.kind == "linear":
        from online_rank.export.linear import linear_form

        size = np.maximum(np.abs(np.nan_to_num(rows)) @ np.abs(linear_form(given.form).weights), np.abs(scores)) + 1e-9
    tolerance = 1e-5 if to in SINGLE else 1e-6
    return tolerance * size
