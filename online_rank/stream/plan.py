"""The roles of the columns of files, for readers, commands, reports and exports."""

import json
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from online_rank.base import abilities_of, names_added, steps_of
from online_rank.base.anatomy import parts_of
from online_rank.base.kinds import TEXT, WHOLE, Kinds
from online_rank.preprocessing._keys import DOCUMENT
from online_rank.preprocessing.history import History
from online_rank.preprocessing.vector_columns import vectors_of_columns
from online_rank.query.levels import is_level
from online_rank.query.names import in_nfc, is_index_name, is_outcome_name
from online_rank.query.times import RELATIVE
from online_rank.stream.pace import half_lives_of
from online_rank.stream.values import MISSING_WORDS, Faults, TimeFormat, arrow, numbers_of, other_than_dates, plain, time_format
from online_rank.stream.vectors import IN_CONTEXT, are_json_vectors, columns_named

#: The most different texts among the first rows of a column that is a category.
_MOST_LEVELS = 100

#: A number as programs write it for people, such as 1,200 or 50%.
_NUMBER = r"^[$€£¥]?\s?[-+]?[\d.,]*\d[\d.,]*\s?[%$€£¥]?$"

#: Reasons why columns of these kinds are not features.
_NO_NUMBERS = {
    "text": "text: convert numbers; AdditiveRanker takes categories (--ranker additive), HashedFeatures(text=...) words",
    "time": "a time: AdditiveRanker takes it (--ranker additive), others a number, such as an age in days",
    "empty": "it has no values at the beginning of the table: name it as a feature to read it",
    "vector": "a vector: AdditiveRanker takes it (--ranker additive)",
    "other": "neither numbers nor booleans",
}


_NOT_NAMED = "not among the features named"
_CORRECT = "name it as a feature to see it as an error, or correct the value"
_NO_TIME = TimeFormat("", "")


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    name : str
        Its name.
    type : str
        "number", "boolean" (0 and 1 as a feature), "text", "time", "empty" or "other".
    role : str
        "feature", "query", "grade", "document", "event time", "context", "part of a vector", or "left out".
    why : str
        Why it is left out.
    unit, zone : str
        How a column of times says them (`TimeFormat`); empty for any other.
    """

    name: str
    type: str
    role: str
    why: str = ""
    unit: str = ""
    zone: str = ""


class Plan:
    """The columns of a file with their roles.

    Parameters
    ----------
    columns
        The columns. They are made when somebody asks for one: one large id in LETOR text stands for millions.
    categories
        The features whose values are no numbers: texts, vectors, or booleans for a model that takes these as categories.
    texts
        Features whose words the model learns.
    joined
        For each vector that is made of other columns, the names of these.
    """

    def __init__(
        self,
        columns: Iterable[Column],
        *,
        categories: Collection[str] = (),
        texts: Collection[str] = (),
        joined: Mapping[str, tuple[str, ...]] = types.MappingProxyType({}),
    ) -> None:
        self._given, self.joined = columns, joined
        self.categories, self.texts = frozenset(categories), frozenset(texts)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of the file, features in the order in which they were named."""
        return tuple(self._given)

    def all(self, role: str) -> tuple[str, ...]:
        """The columns with a role."""
        return tuple(column.name for column in self.columns if column.role == role)

    def of(self, role: str) -> str | None:
        """The first column with a role, or None."""
        return next(iter(self.all(role)), None)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The columns that are features, in order."""
        return self.all("feature")

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kinds of the columns."""
        return {column.name: column.type for column in self.columns}

    def time_format(self, column: str) -> TimeFormat:
        """How a column says the time."""
        return next(TimeFormat(one.unit, one.zone) for one in self.columns if one.name == column)

    @property
    def left_out(self) -> tuple[Column, ...]:
        """The columns that are left out."""
        return tuple(column for column in self.columns if column.role == "left out")

    @property
    def unknown(self) -> list[str]:
        """The columns of numbers that are no features only because others were named."""
        others = (column for column in self.left_out if column.type in ("number", "boolean") and column.why == _NOT_NAMED)
        return [column.name for column in others if not (is_index_name(column.name) or is_outcome_name(column.name))]

    def in_words(self) -> list[str]:
        """A line about the features; if columns are left out, a line about them, with reasons.

        Examples
        --------
        >>> columns = [Column("price", "number", "feature"), Column("title", "text", "left out", "text")]
        >>> Plan(columns).in_words()
        ['1 features: price', 'left out: title (text)']
        """
        lines = [f"{len(self.features):,} features: {listed(self.features)}"]
        if words := [name for name in self.features if name in self.texts]:
            lines.append(f"texts whose words the model learns: {listed(words)}")
        reasons: dict[str, list[str]] = {}
        for column in self.left_out:
            reasons.setdefault(column.why, []).append(column.name)
        if reasons:
            lines.append(f"left out: {'; '.join(f'{listed(names)} ({why})' for why, names in reasons.items())}")
        if vectors := [one.name for one in self.columns if one.type == "vector" and one.role in ("feature", "context")]:
            size = "a matrix between two vectors of 768 numbers takes 2.4 MB, and its average as much"
            lines.append(f"vectors: {listed(vectors)}; {size}")
        times = [column for column in self.columns if column.unit and column.role != "left out"]
        if times:
            said = (f"{listed([one.name])}, {one.role} ({TimeFormat(one.unit, one.zone).in_words})" for one in times)
            lines.append(f"times: {'; '.join(said)}")
        return lines


class Options(NamedTuple):
    """How sources are read: the arguments of `read`, with columns in Unicode's form C.

    Attributes
    ----------
    named
        The column of each role; None for a role without one.
    known
        The features that the model knows by name; None if it knows none.
    learned
        What it has learned them as: "text" or "number".
    by_name, categories, takes_vectors
        Whether the model knows features by name, takes texts, and takes vectors.
    vectors, query_vectors
        The columns of vectors of documents and of queries, by the names of the vectors.
    untrimmed
        The features of which it has learned categories with blanks around them.
    words, kinds
        Whether the model learns words of texts, and the kinds of features that were declared.
    keys, timed, half_lives
        The columns that are keys of the model's `History`, whether it takes the time of a query, and its half-lives.
    max_grade
        The largest grade that the model takes.
    tells_missing
        Whether to warn of missing values that are read as 0.
    """

    named: Mapping[str, str | None]
    features: Sequence[str] | None
    exclude: Collection[str]
    context: Sequence[str]
    known: Sequence[str] | None
    learned: Mapping[str, str]
    by_name: bool = False
    categories: bool = False
    takes_vectors: bool = False
    vectors: Mapping[str, str] = types.MappingProxyType({})
    query_vectors: Mapping[str, str] = types.MappingProxyType({})
    words: bool = False
    kinds: Mapping[str, str] = types.MappingProxyType({})
    untrimmed: Collection[str] = ()
    keys: Collection[str] = ()
    timed: bool = False
    half_lives: Sequence[str] = ()
    with_ids: bool = False
    negative: str = "error"
    max_grade: float = 2.0**53
    missing: str = "error"
    tells_missing: bool = False
    repeated_qid: str = "error"
    skip_bad: float = 0.0
    n_features: int | None = None
    batch_rows: int = 1 << 14
    max_query_bytes: int = 1 << 26


def usual_missing(model: Any, without: str) -> str:
    """What becomes of missing values unless they are declared: NaN for a model that takes it, else 0; `without` a model."""
    if model is None:
        return without
    return "keep" if abilities_of(model).takes_missing else "zero"


def options_of(
    model: Any,
    named: Mapping[str, str | None],
    features: Sequence[str] | None,
    exclude: Collection[str],
    context: Sequence[str],
    words: bool = True,
    **others: Any,
) -> Options:
    """How sources are read for a model. Raises TypeError unless columns are None or sequences of names."""
    given = {"features": features, "exclude": exclude, "context": context, "known": known_to(model)}
    for name, columns in given.items():
        if columns is not None and (isinstance(columns, str) or not all(isinstance(column, str) for column in columns)):
            raise TypeError(f"{name} is a sequence of names of columns")
    in_form: dict[str, Any] = {
        name: columns if columns is None else [in_nfc(column) for column in columns] for name, columns in given.items()
    }
    roles = {role: column if column is None else in_nfc(column) for role, column in named.items()}
    by_name, able = in_form["known"] is not None, abilities_of(model)
    steps = () if model is None else steps_of(model)
    keys = dict.fromkeys(in_nfc(name) for step in steps if isinstance(step, History) for name in step.names)
    kinds = [part.kinds for part in (() if model is None else parts_of(model)) if hasattr(part, "feature_kinds")]
    # What is no feature is known of the query itself, such as who asked.
    in_form["context"] = [*in_form["context"], *(name for name in in_form["exclude"] if name in keys)]
    in_form["exclude"] = dict.fromkeys(name for name in in_form["exclude"] if name not in keys)
    return Options(
        roles, **in_form, learned=_learned_by(model), by_name=by_name, categories=able.takes_documents,
        takes_vectors=able.takes_vectors, keys=tuple(keys),
        words=words and bool(kinds), kinds={name: kind for own in kinds for name, kind in (own or {}).items()},
        timed=able.takes_time, untrimmed=_untrimmed_by(model), half_lives=half_lives_of(model), **others,
    )  # fmt: skip


def known_to(model: Any) -> list[str] | None:
    """The features that a model has learned from, if it knows them by name."""
    steps = () if model is None else steps_of(model)
    names = next((names for step in steps if (names := getattr(step, "feature_names", None))), None)
    # The levels of a category are features of the model, and one of a table.
    vectors = vectors_of_columns(model)
    found = dict.fromkeys(vectors.get(str(name), str(name[0] if is_level(name) else name)) for name in names or ())
    found |= dict.fromkeys(_texts_of(model))
    return None if names is None else [name for name in found if name not in names_added(model)]


def _texts_of(model: Any) -> list[str]:
    """The features of which a model learns the words."""
    parts = () if model is None else parts_of(model)
    return [*dict.fromkeys(str(name) for part in parts for name in getattr(part, "text_features", ()))]


def _learned_by(model: Any) -> dict[str, str]:
    """What a model has learned each feature as: "text", a category, or "number"."""
    steps = () if model is None else steps_of(model)
    names = next((names for step in [*steps][::-1] if (names := getattr(step, "feature_names", None))), ())
    found = {str(name[0]): "text" for name in names if is_level(name)} | {
        name: "number" for name in names if isinstance(name, str)
    }
    return found | dict.fromkeys(_texts_of(model), "text")


def _untrimmed_by(model: Any) -> frozenset[str]:
    """The features of which a model has learned categories with blanks around them, as earlier versions did."""
    names = (name for step in (() if model is None else steps_of(model)) for name in getattr(step, "feature_names", None) or ())
    return frozenset(str(name[0]) for name in names if is_level(name) and name[2] and name[2] != name[2].strip())


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned from in arrays; None before the first."""
    counts = [step.n_features for step in (() if model is None else steps_of(model)) if getattr(step, "n_features", 0)]
    return counts[0] - len(names_added(model)) if counts else None


def plan_of(table: Any, named: Mapping[str, str | None], options: Options) -> Plan:
    """Decide the role of each column of a `Table`; `named` are the columns with roles, or None.

    Features known to the model are the features, as far as they are there. Otherwise numbers and booleans are, except the index
    of a pandas frame that was written to the file, and columns whose names are outcomes; for a model that takes texts also
    columns of at most 100 different texts. A model that learns words takes texts that recur, or have several words. Other text,
    times and empty columns are left out.

    Raises
    ------
    ValueError
        A column does not exist or has two roles, a feature is not numeric, one that is declared to be text is no text, or no
        features are left.
    """
    features, exclude, known = options.features, options.exclude, options.known
    joined = joined_columns(table, options)
    if known is None:
        _require_texts(table, options.kinds)
    roles: dict[str, str] = {column: "part of a vector" for parts in joined.values() for column in parts}
    roles |= {column: "context" for column in vectors_of_queries(table, options) if column not in roles}
    features = None if features is None else [name for name in features if name not in joined]
    _require_columns(table, [*filter(None, named.values()), *options.context, *(features or ()), *exclude])
    for role, column in [*named.items(), *(("context", column) for column in options.context)]:
        if column is not None:
            if column in roles:
                raise ValueError(f"{table.name}: column {column!r} cannot be {roles[column]} and {role} at once")
            roles[column] = role
    keys = [key for key in options.keys if key not in roles and key != DOCUMENT]
    _require_columns(table, keys)
    if features is not None and len(set(features)) < len(features):
        raise ValueError("features names a column twice")
    for column in features or ():
        if column in roles:
            raise ValueError(f"{table.name}: column {column!r} cannot be {roles[column]} and a feature at once")
    if features is None and known is not None:
        features = [name for name in known if name in table.kinds and name not in roles and name not in exclude]
        if not features and not joined:
            raise ValueError(f"{table.name}: no column is called as one of the features of the model: {listed(known)}")
    if features is not None:
        features = [*dict.fromkeys([*features, *keys])]
    index, chosen = _index_of(table.metadata), None if features is None else frozenset(features)
    columns = []
    for column, kind in table.kinds.items():
        if column in roles:
            how = _format_of(table, column) if roles[column] == "event time" else _NO_TIME
            kind = _kind_of(table, column, options) if roles[column] == "context" else kind
            columns.append(Column(column, kind, roles[column], "", *how))
            continue
        kind, why = _use_of(table, column, chosen, index, options)
        how = _format_of(table, column) if kind == "time" and not why else _NO_TIME
        columns.append(Column(column, kind, "left out" if why else "feature", why, *how))
    if features is not None:
        found = {column.name: column for column in columns}
        columns = [*(found[name] for name in features), *(column for column in columns if column.role != "feature")]
    columns += [Column(name, "vector", "context" if name.startswith(IN_CONTEXT) else "feature") for name in joined]
    categories = [column.name for column in columns if column.role == "feature" and _is_category(column, options)]
    texts = [name for name in categories if _is_text(table, name, options)]
    plan = Plan(columns, categories=categories, texts=texts, joined=joined)
    # A log of clicks may name documents alone.
    if not plan.features and (features is None or "click" not in named):
        reasons = f" ({'; '.join(plan.in_words()[1:])})" if plan.left_out else ""
        raise ValueError(f"{table.name}: features is empty: no other column has numbers{reasons}")
    return plan


def joined_columns(table: Any, options: Options) -> dict[str, tuple[str, ...]]:
    """The columns of each vector that is declared: of documents by its name, of queries after `IN_CONTEXT`.

    Raises ValueError if a column is not there, or a vector is called as another column.
    """
    declared = {**options.vectors, **{IN_CONTEXT + name: spec for name, spec in options.query_vectors.items()}}
    found: dict[str, tuple[str, ...]] = {}
    for name, spec in declared.items():
        try:
            found[name] = columns_named(spec, [*table.kinds])
        except ValueError as error:
            raise ValueError(f"{table.name}: {error}") from None
        if name in table.kinds and found[name] != (name,):
            raise ValueError(f"{table.name}: the vector {name!r} is called as a column that is no part of it")
    return found


def vectors_of_queries(table: Any, options: Options) -> list[str]:
    """The columns that are vectors of queries by their names."""
    if not options.takes_vectors:
        return []
    return [name for name in table.kinds if name.startswith(IN_CONTEXT) and _kind_of(table, name, options) == "vector"]


def _kind_of(table: Any, column: str, options: Options) -> str:
    """The kind of a column: texts that are JSON lists are vectors for a model that takes them."""
    kind = table.kinds[column]
    is_vector = kind == "text" and options.takes_vectors and are_json_vectors(table.column(table.first, column))
    return "vector" if is_vector else kind


def _require_columns(table: Any, columns: Iterable[str]) -> None:
    if missing := [*dict.fromkeys(repr(column) for column in columns if column not in table.kinds)]:
        shown = ", ".join(map(repr, list(table.kinds)[:10])) + (", ..." if len(table.kinds) > 10 else "")
        raise ValueError(f"{table.name}: no column{'s' * (len(missing) > 1)} {', '.join(missing)}; there are {shown}")


def _require_texts(table: Any, kinds: Mapping[str, str]) -> None:
    """Raise ValueError if a column that is declared to have texts of a kind is not there, or has numbers or times."""
    _require_columns(table, kinds)
    for name, kind in kinds.items():
        if (found := table.kinds[name]) in ("number", "time"):
            raise ValueError(
                f"{table.name}: column {name!r} is declared {kind!r} (--kind, kinds=), which is for texts, and has {found}s: "
                "leave it undeclared, or out (--exclude)"
            )


def _is_category(column: Column, options: Options) -> bool:
    """Whether a feature is a category: text, or booleans unless the model has learned them as numbers."""
    is_boolean = column.type == "boolean" and options.categories and options.learned.get(column.name) != "number"
    return column.type in ("text", "vector") or is_boolean


def _is_text(table: Any, column: str, options: Options) -> bool:
    """Whether a model that learns words reads a column as a text: it was declared, or its first values say so."""
    if not options.words or table.kinds.get(column) != "text":
        return False
    if column in options.kinds:
        return options.kinds[column] == TEXT
    values = [value for value in plain(table.column(table.first, column)).to_pylist() if value and value.strip()]
    kinds = Kinds()
    # A table has several queries.
    for first in range(0, len(values), WHOLE):
        kinds = kinds.learned({column: kinds.seen(column, values[first : first + WHOLE])})
    return kinds.of(column) == TEXT


def _format_of(table: Any, column: str) -> TimeFormat:
    """How a column says the time, by the first rows; relative if it does not, so that each row is a fault."""
    return time_format(table.column(table.first, column)) or TimeFormat(RELATIVE, "")


def _has_dates(table: Any, column: str, options: Options) -> bool:
    """Whether most texts of a column are dates, but not all, and the model takes these."""
    return options.categories and other_than_dates(plain(table.column(table.first, column))) is not None


def _use_of(
    table: Any, column: str, features: Collection[str] | None, index: Collection[str], options: Options
) -> tuple[str, str]:
    """The kind of a column without another role, and why it is not a feature; empty if it is."""
    kind, chosen = _kind_of(table, column, options), column in (options.keys if features is None else features)
    learned = options.learned.get(column, kind)
    if column in options.exclude:
        return kind, "excluded"
    if features is not None and not chosen:
        return kind, _NOT_NAMED
    if not chosen and (column in index or is_index_name(column)):
        return kind, "the index of a pandas frame"
    if not chosen and kind not in _NO_NUMBERS and is_outcome_name(column):
        return kind, "an outcome by its name: name the features (--features) to use it"
    if chosen and (kind == "text" or (learned == "text" and table.is_text and kind != "boolean")):
        # Words are errors with their row where the model knows numbers; numbers are words where it knows words.
        kind = "time" if learned == "number" and kind == "text" and _has_dates(table, column, options) else learned
    if kind == "time" and learned == "text":  # By an earlier version, each date as a category.
        kind = "text"
    is_taken = (kind == "time" and options.categories) or (kind == "vector" and options.takes_vectors)
    why = "" if is_taken else _NO_NUMBERS.get(kind, "")
    if kind == "text":
        kind, why = _use_of_text(table, column, chosen, options)
    if chosen and why and kind != "empty":
        raise ValueError(f"{table.name}: column {column!r} is not a feature: {why}")
    return kind, "" if chosen else why


def _use_of_text(table: Any, column: str, chosen: bool, options: Options) -> tuple[str, str]:
    """As `_use_of`; numbers or dates with a word among them are these if the column is chosen, so that the word is an error."""
    if chosen and options.learned.get(column) == "text":
        return "text", ""
    compute, values = arrow("pyarrow.compute"), plain(table.column(table.first, column))
    if options.categories and (other := other_than_dates(values)) is not None:
        what = f"{values[other].as_py()!r:.60} ({table.where(other)})"
        return ("time", "") if chosen else ("text", f"text, because of {what}, among dates: {_CORRECT}")
    texts = compute.utf8_trim_whitespace(values)
    number = compute.fill_null(compute.match_substring_regex(texts, _NUMBER), False)
    word = compute.invert(compute.or_(number, compute.is_in(texts, arrow().array([None, *MISSING_WORDS]))))
    if number.true_count > word.true_count:
        if chosen:
            return "number", ""
        numbers_of(values, "number", unread := Faults(), column)
        if not unread:
            return "text", "numbers in quotation marks: name it as a feature to read them"
        what = f"{texts[min(unread)].as_py()!r:.60} ({table.where(min(unread))})"
        return "text", f"text, because of {what}: {_CORRECT}"
    if not options.categories:
        return "text", _NO_NUMBERS["text"]
    n = compute.count_distinct(texts).as_py()
    if _is_text(table, column, options):
        return "text", ""
    # A model that learns words keeps the levels that matter lately.
    most = len(values) if options.words else _MOST_LEVELS
    is_category = 1 < n <= min(most, max(2, len(values) / 2))
    return "text", "" if is_category or chosen else f"text with {n:,} different values among the first {len(values):,}"


def _index_of(metadata: Mapping[bytes, bytes] | None) -> set[str]:
    """The columns that the metadata of pandas lists as an index."""
    try:
        noted = json.loads((metadata or {}).get(b"pandas", b"{}"))
    except (ValueError, RecursionError):
        return set()
    columns = noted.get("index_columns", []) if isinstance(noted, dict) else []
    return {column for column in columns if isinstance(column, str)}


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in print; in quotes if white space around one is part of it."""
    shown = ["(unnamed)" if not name.strip() else name if name == name.strip() else repr(name) for name in names[:most]]
    more = [f"... ({len(names) - most:,} more)"] if len(names) > most else []
    return ", ".join([*shown, *more])
