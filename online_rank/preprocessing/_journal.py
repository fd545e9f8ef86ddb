"""What undoes the learning of river's transformers, at a cost that does not depend on what they learned before.

A class of river whose state grows with features, groups or terms keeps the state in dictionaries. Learning adds entries at the
end, and changes the entries of the document. Their lengths, and the entries that a query changes, are all that has to be kept.
The whole state is copied for any other class.
"""

import copy
import functools
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

from river import base, compose, utils

from online_rank.base.undo import Undo, record, roll_back

#: Types of values that never change.
_FIXED = frozenset((bool, int, float, str, bytes, tuple, type(None)))

#: Teaches a part one document: its features, its grade, and the time of the query.
Learn = Callable[[dict[Any, Any], Any, Any], None]


def _names(_: Any, x: dict[Any, Any]) -> Collection[Any]:
    return x


def _group(part: Any, x: dict[Any, Any]) -> Collection[Any]:
    return (part._make_key(x),)


#: The dictionaries of a class of river, and the keys that a document has in them.
_KEYED: dict[str, tuple[tuple[str, ...], Callable[[Any, dict[Any, Any]], Collection[Any]]]] = {
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
    """Teaches a transformer of river one document after the other, and undoes what it learned.

    Parameters
    ----------
    transformer
        The transformer, or a pipeline or union of several.

    Attributes
    ----------
    learn : callable
        Teaches it one document.
    """

    def __init__(self, transformer: Any) -> None:
        self._log: list[Undo] = []
        #: The groups of groupers, each with what teaches it.
        self._groups: dict[tuple[int, Any], Learn] = {}
        # During predictions river's pipelines teach their steps themselves.
        whole = compose.Pipeline._LEARN_UNSUPERVISED_DURING_PREDICT
        if whole or not all(hasattr(part, "transform_one") for part in parts_of(transformer)):
            record(self._log, transformer)
            self.learn = _call(transformer, any(map(is_timed, parts_of(transformer))))
        else:
            self.learn = self._learner(transformer)

    def undo(self) -> None:
        """Undo all that was learned."""
        roll_back(self._log)

    def _learner(self, part: Any) -> Learn:
        """What teaches a part one document as river's pipelines do, and notes what undoes it."""
        kind = _kind(part)
        if kind == "pipeline":
            *steps, last = part.steps.values()
            return _chain([self._step(step) for step in steps], self._learner(last))
        if kind == "union":
            return _each([self._learner(inside) for inside in part.transformers.values()])
        if kind == "grouper":
            self._log.append(functools.partial(cut, part.transformers, len(part.transformers)))
            return functools.partial(self._learn_in_group, part)
        if kind == "constant":
            return _no_lesson
        if kind == "other":
            record(self._log, part)
            return _call(part, is_timed(part))
        dictionaries_of, keys_of = _KEYED[type(part).__name__]
        state = vars(part)
        self._log.append(functools.partial(state.update, {n: value for n, value in state.items() if type(value) in _FIXED}))
        dictionaries = [state[name] for name in dictionaries_of]
        self._log += [functools.partial(cut, entries, len(entries)) for entries in dictionaries]
        return self._kept_first(part, dictionaries, keys_of)

    def _step(self, step: Any) -> Callable[[dict[Any, Any], Any, Any], dict[Any, Any]]:
        """What teaches a step of a pipeline, and returns what the step makes of the document."""
        inside = [*step.transformers.values()] if _kind(step) == "union" else [step]
        before = _each([self._learner(part) for part in inside if not part._supervised])
        after = _each([self._learner(part) for part in inside if part._supervised])

        def through(x: dict[Any, Any], y: Any, t: Any) -> dict[Any, Any]:
            before(x, y, t)
            answer: dict[Any, Any] = step.transform_one(x)
            after(x, y, t)
            return answer

        return through

    def _learn_in_group(self, grouper: compose.Grouper, x: dict[Any, Any], y: Any, t: Any) -> None:
        key = grouper._get_key(x)
        learn = self._groups.get((id(grouper), key))
        if learn is None:
            learn = self._groups[id(grouper), key] = self._learner(grouper.transformers[key])
        learn(x, y, t)

    def _kept_first(
        self, part: Any, dictionaries: list[dict[Any, Any]], keys_of: Callable[[Any, dict[Any, Any]], Collection[Any]]
    ) -> Learn:
        """What teaches a part one document, and keeps the entries of the document before."""
        log, kept, learn = self._log, set[Any](), _call(part, is_timed(part))
        categories = part.values if type(part).__name__ == "OneHotEncoder" and part.categories is None else None

        first, n_first = dictionaries[0], len(dictionaries[0])

        def learn_one(x: dict[Any, Any], y: Any, t: Any) -> None:
            if not kept and len(dictionaries) == 1 and len(first) > n_first:
                # Added when the query was transformed.
                kept.update(itertools.islice(reversed(first), len(first) - n_first))
            for key in keys_of(part, x):
                if key not in kept:
                    kept.add(key)
                    for entries in dictionaries:
                        if key in entries:
                            _keep(log, entries, key)
            if categories is not None:
                for name, value in x.items():
                    known = categories.get(name)
                    for category in () if known is None else value if isinstance(value, list | set) else (value,):
                        if category not in known:
                            log.append(functools.partial(known.discard, category))
            learn(x, y, t)

        return learn_one


def _no_lesson(x: dict[Any, Any], y: Any, t: Any) -> None:
    """For a transformer that learns nothing."""


def _call(part: Any, timed: bool) -> Learn:
    """A transformer's `learn_one`, with the arguments that it takes."""
    supervised = part._supervised

    def learn_one(x: dict[Any, Any], y: Any, t: Any) -> None:
        if timed and t is not None:
            part.learn_one(*((x, y) if supervised else (x,)), t=t)
        elif supervised:
            part.learn_one(x, y)
        else:
            part.learn_one(x)

    return learn_one


def _each(learners: list[Learn]) -> Learn:
    """All of several, in turn."""
    if len(learners) == 1:
        return learners[0]

    def learn_one(x: dict[Any, Any], y: Any, t: Any) -> None:
        for learn in learners:
            learn(x, y, t)

    return learn_one


def _chain(steps: list[Callable[..., dict[Any, Any]]], last: Learn) -> Learn:
    """Steps, each of which gets what the one before it makes of the document, then the last one."""

    def learn_one(x: dict[Any, Any], y: Any, t: Any) -> None:
        for step in steps:
            x = step(x, y, t)
        last(x, y, t)

    return learn_one


def cut(entries: dict[Any, Any], n: int) -> None:
    """Remove all entries but the first."""
    while len(entries) > n:
        entries.popitem()


def _keep(log: list[Undo], entries: dict[Any, Any], key: Any) -> None:
    """Keep an entry that is about to change."""
    value = entries[key]
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
