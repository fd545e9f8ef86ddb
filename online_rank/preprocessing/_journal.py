"""What undoes the learning of river's transformers, at a cost that does not depend on what they learned before.

A class of river whose state grows with features, groups or terms keeps the state in dictionaries. Learning adds entries at the
end, and changes the entries of the document. Their lengths, and the entries that a query changes, are all that has to be kept.
The whole state is copied for any other class.
"""

import copy
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from river import base, compose, utils

from online_rank.base.undo import Undo, record, roll_back

#: Types of values that never change.
_FIXED = frozenset((bool, int, float, str, bytes, tuple, type(None)))

#: Features of a document.
_Document = dict[Any, Any]
#: Calls a function for each of the documents: `each(call, documents, grades)`, as `map` does, and returns the results.
Each = Callable[..., list[Any]]


def _names(_: Any, x: _Document) -> Collection[Any]:
    return x


def _group(part: Any, x: _Document) -> Collection[Any]:
    return (part._make_key(x),)


#: The dictionaries of a class of river, and the keys that a document has in them.
_KEYED: dict[str, tuple[tuple[str, ...], Callable[[Any, _Document], Collection[Any]]]] = {
    "AdaptiveStandardScaler": (("means", "vars"), _names),
    "Agg": (("_groups",), _group),
    "MaxAbsScaler": (("abs_max",), _names),
    "MinMaxScaler": (("min", "max"), _names),
    "OneHotEncoder": (("values", "_zero_dict"), _names),
    "OrdinalEncoder": (("values",), _names),
    "PreviousImputer": (("_latest",), _names),
    "RobustScaler": (("median", "iqr"), _names),
    "StandardScaler": (("counts", "means", "vars"), _names),
    "StatImputer": (("stats",), lambda part, _: part.stats),
    "TFIDF": (("dfs",), lambda part, x: part.process_text(x)),
    "TargetAgg": (("_groups",), _group),
    "VarianceThreshold": (("variances",), _names),
}


def parts_of(transformer: Any) -> Iterator[Any]:
    """The transformers in pipelines, unions and groupers; a grouper itself, and the one that it copies for each group."""
    kind = _kind(transformer)
    inside: Any = ()
    if kind == "pipeline":
        inside = transformer.steps.values()
    elif kind == "union":
        inside = transformer.transformers.values()
    else:
        yield transformer
        if kind == "grouper":
            inside = (transformer.transformer,)
    for part in inside:
        yield from parts_of(part)


def shared_part(transformer: Any) -> Any:
    """A part that learns, and is in a transformer twice; None without one."""
    parts = [part for part in parts_of(transformer) if _kind(part) != "constant"]
    return next((part for i, part in enumerate(parts) if any(part is other for other in parts[:i])), None)


def _kind(part: Any) -> str:
    """Whether a transformer is a pipeline, a union, a grouper, in `_KEYED`, without state, or another."""
    return _kind_of(type(part))  # type: ignore[arg-type]


@functools.cache
def _kind_of(cls: Any) -> str:
    # A pipeline first: to river, one that ends in a union is a union too.
    if issubclass(cls, compose.Pipeline):
        return "pipeline"
    if issubclass(cls, compose.TransformerUnion):
        return "union"
    if cls.__module__.startswith("river.") and cls.__name__ in _KEYED:
        return "keyed"
    if cls.__module__.startswith("river.compose."):
        return "grouper" if cls is compose.Grouper else "constant"
    return "other"


def is_timed(part: Any) -> bool:
    """Whether a transformer of river aggregates over a window of time: `learn_one` then needs `t=`."""
    return isinstance(getattr(part, "how", None), utils.TimeRolling)


class Journal:
    """Teaches a transformer of river documents, and undoes what it learned.

    Parameters
    ----------
    transformer
        The transformer, or a pipeline or union of several.
    """

    def __init__(self, transformer: Any) -> None:
        self._log: list[Undo] = []
        #: By the id of a part, what keeps the entries that documents change; None for a part that is copied.
        self._kept: dict[int, _Entries | None] = {}
        parts = [*parts_of(transformer)]
        # During predictions river's pipelines teach their steps themselves.
        self._whole = compose.Pipeline._LEARN_UNSUPERVISED_DURING_PREDICT or not all(
            hasattr(part, "transform_one") for part in parts
        )
        for part in [transformer] if self._whole else parts:
            self._begin(part)

    def undo(self) -> None:
        """Undo all that was learned."""
        roll_back(self._log)

    def transform(self, part: Any, documents: Sequence[_Document], each: Each) -> Sequence[_Document]:
        """What a transformer makes of documents."""
        if self._whole or _kind(part) != "pipeline":
            return each(part.transform_one, documents)
        for step in part.steps.values():
            documents = each(step.transform_one, documents)
        return documents

    def _begin(self, part: Any) -> str:
        """Prepare to undo what a part will learn. Returns its kind."""
        kind = "other" if self._whole else _kind(part)
        if id(part) in self._kept:
            return kind
        self._kept[id(part)] = _Entries(part, self._log) if kind == "keyed" else None
        if kind == "other":
            record(self._log, part)
        elif kind == "grouper":
            self._log.append(functools.partial(cut, part.transformers, len(part.transformers)))
        return kind

    def learn(self, part: Any, documents: Sequence[_Document], grades: Sequence[Any], t: Any, each: Each) -> None:
        """Teach a transformer documents with their grades, at the time of the query, one after the other."""
        kind = self._begin(part)
        if kind == "pipeline":
            *steps, last = part.steps.values()
            for step in steps:
                documents = self._pass(step, documents, grades, t, each)
            self.learn(last, documents, grades, t, each)
        elif kind == "union":
            for inside in part.transformers.values():
                self.learn(inside, documents, grades, t, each)
        elif kind == "grouper":
            each(lambda x, y: self.learn(part.transformers[part._get_key(x)], [x], [y], t, _plainly), documents, grades)
        elif kind != "constant":
            if (kept := self._kept[id(part)]) is not None:
                kept.keep(documents, each)
            timed = t is not None and any(map(is_timed, parts_of(part)))
            learn_one = functools.partial(part.learn_one, t=t) if timed else part.learn_one
            each(learn_one, documents, *((grades,) if part._supervised else ()))

    def _pass(
        self, step: Any, documents: Sequence[_Document], grades: Sequence[Any], t: Any, each: Each
    ) -> Sequence[_Document]:
        """What a step of a pipeline makes of documents, as it learns one after the other."""
        kind = _kind(step)
        if kind == "constant":
            return each(step.transform_one, documents)
        inside = [*step.transformers.values()] if kind == "union" else [step]
        before = [part for part in inside if not part._supervised]
        after = [part for part in inside if part._supervised]

        def passed(x: _Document, y: Any) -> _Document:
            for part in before:
                self.learn(part, [x], [y], t, _plainly)
            answer: _Document = step.transform_one(x)
            for part in after:
                self.learn(part, [x], [y], t, _plainly)
            return answer

        return each(passed, documents, grades)


def _plainly(call: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    return [*map(call, *arguments)]


class _Entries:
    """Keeps the entries of a part's dictionaries that documents change, and what undoes the change in a log."""

    def __init__(self, part: Any, log: list[Undo]) -> None:
        self._part, self._log = part, log
        dictionaries_of, self._keys_of = _KEYED[type(part).__name__]
        state = vars(part)
        self._dictionaries = [state[name] for name in dictionaries_of]
        self._kept: set[Any] = set()
        self._n = len(self._dictionaries[0])
        log.append(functools.partial(state.update, {n: value for n, value in state.items() if type(value) in _FIXED}))
        log += [functools.partial(cut, entries, len(entries)) for entries in self._dictionaries]

    def keep(self, documents: Sequence[_Document], each: Each) -> None:
        """Keep the entries of documents."""
        first = self._dictionaries[0]
        # Those that were added when the documents were transformed go again.
        self._kept.update(itertools.islice(reversed(first), len(first) - self._n))
        self._n = len(first)
        keys = set().union(
            *(documents if self._keys_of is _names else each(functools.partial(self._keys_of, self._part), documents))
        )
        keys -= self._kept
        self._kept |= keys
        for entries in self._dictionaries:
            before = {key: entries[key] for key in keys if key in entries}
            if _FIXED.issuperset(map(type, before.values())):
                self._log.append(functools.partial(dict.update, entries, before))  # A Counter's adds.
            else:
                for key, value in before.items():
                    _keep(self._log, entries, key, value)
        if type(self._part).__name__ == "OneHotEncoder" and self._part.categories is None:
            self._keep_categories(documents)

    def _keep_categories(self, documents: Sequence[_Document]) -> None:
        known = self._part.values
        for name, value in itertools.chain.from_iterable(map(dict.items, documents)):
            categories = known.get(name)
            for category in () if categories is None else value if isinstance(value, list | set) else (value,):
                if category not in categories:
                    self._log.append(functools.partial(categories.discard, category))


def cut(entries: dict[Any, Any], n: int) -> None:
    """Remove all entries but the first."""
    while len(entries) > n:
        entries.popitem()


def _keep(log: list[Undo], entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep an entry that is about to change."""
    if type(value) in _FIXED:
        log.append(functools.partial(entries.__setitem__, key, value))
    elif isinstance(value, dict):
        log.append(functools.partial(cut, value, len(value)))
    elif hasattr(value, "__dict__"):
        _keep_state(log, value)
    elif not isinstance(value, set):
        log.append(functools.partial(entries.__setitem__, key, copy.deepcopy(value)))


def _keep_state(log: list[Undo], value: Any) -> None:
    """Keep the state of a statistic, with those inside it."""
    state = vars(value)
    before = state.copy()
    log.append(functools.partial(state.update, before))
    for name, held in () if _FIXED.issuperset(map(type, before.values())) else before.items():
        if type(held) in _FIXED:
            continue
        if isinstance(held, base.Base):
            _keep_state(log, held)
        else:
            # Events of a window never change; only the list of them does.
            before[name] = copy.copy(held) if isinstance(value, utils.Rolling | utils.TimeRolling) else copy.deepcopy(held)
