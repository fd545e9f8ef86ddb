"""What undoes the learning of river's transformers, at a cost that does not depend on what they learned before.

A class of river whose state grows with features, groups or terms keeps the state in dictionaries. Learning adds entries at the
end, and changes the entries of the document. Their lengths, and the entries that a query changes, are all that has to be kept.
The whole state is copied for any other class.
"""

import collections
import contextlib
import copy
import functools
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from river import base, compose, utils

from online_rank.base.undo import Undo, put_back, record, roll_back

#: Types of values that never change.
_FIXED = frozenset((bool, int, float, str, bytes, tuple, type(None)))

#: Features of a document.
_Document = dict[Any, Any]
#: Calls a function for each of the documents: `each(call, documents, grades)`, as `map` does, and returns the results.
Each = Callable[..., list[Any]]


def _names(_: Any, documents: Sequence[_Document], each: Each) -> Iterable[Any]:
    return set().union(*documents)


def _groups(part: Any, documents: Sequence[_Document], each: Each) -> Iterable[Any]:
    # Without one of the features there is no such group, and learning raises the error.
    return dict.fromkeys(zip(*([x.get(key) for x in documents] for key in part.by), strict=True)) if part.by else [None]


def _terms(part: Any, documents: Sequence[_Document], each: Each) -> Iterable[Any]:
    part.read.clear()
    return set().union(*each(part.process_text, documents))


#: The dictionaries of a class of river, and the keys that documents have in them.
_KEYED: dict[str, tuple[tuple[str, ...], Callable[[Any, Sequence[_Document], Each], Iterable[Any]]]] = {
    "AdaptiveStandardScaler": (("means", "vars"), _names),
    "Agg": (("_groups",), _groups),
    "MaxAbsScaler": (("abs_max",), _names),
    "MinMaxScaler": (("min", "max"), _names),
    "OneHotEncoder": (("values", "_zero_dict"), _names),
    "OrdinalEncoder": (("values",), _names),
    "PreviousImputer": (("_latest",), _names),
    "RobustScaler": (("median", "iqr"), _names),
    "StandardScaler": (("counts", "means", "vars"), _names),
    "StatImputer": (("stats",), lambda part, *_: part.stats),
    "TFIDF": (("dfs",), _terms),
    "TargetAgg": (("_groups",), _groups),
    "VarianceThreshold": (("variances",), _names),
}


def parts_of(transformer: Any) -> list[Any]:
    """The transformers in pipelines, unions and groupers; a grouper itself, and the one that it copies for each group."""
    kind = kind_of(type(transformer))
    if kind == "pipeline":
        inside = transformer.steps.values()
    elif kind == "union":
        inside = transformer.transformers.values()
    else:
        return [transformer, *parts_of(transformer.transformer)] if kind == "grouper" else [transformer]
    return [part for step in inside for part in parts_of(step)]


def shared_part(transformer: Any) -> Any:
    """A part that learns, and is in a transformer twice; None without one."""
    parts = [part for part in parts_of(transformer) if kind_of(type(part)) != "constant"]
    return next((part for i, part in enumerate(parts) if any(part is other for other in parts[:i])), None)


#: Kinds of transformers that hold others.
_NESTED = frozenset(("pipeline", "union", "grouper"))


def _kind_of(cls: Any) -> str:
    # What teaches or transforms in another way is copied as a whole. Unions of river transform in several ways.
    pipeline, union = compose.Pipeline, compose.TransformerUnion
    if issubclass(cls, pipeline) and (cls.learn_one, cls.transform_one) == (pipeline.learn_one, pipeline.transform_one):
        return "pipeline"
    if issubclass(cls, union) and cls.learn_one is union.learn_one:
        return "union"
    if cls.__module__.startswith("river.") and cls.__name__ in _KEYED:
        return "keyed"
    if cls.__module__.startswith("river.compose."):
        return "grouper" if cls is compose.Grouper else "constant"
    return "other" if hasattr(cls, "transform_one") else "filter"


#: Whether transformers of a class are pipelines, unions, groupers, in `_KEYED`, without state, filters, or others.
kind_of: Callable[[Any], str] = functools.cache(_kind_of)


def _path_of(transformer: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """The steps that documents pass in turn: those that select features at first, and the others; and the parts of the others.

    All documents can pass a step before the first of them passes the next. The step behind those that select changes no
    document in place: what they select is the same after learning. A pipeline that only river can pass documents through is its
    only step and part.
    """
    steps = [*transformer.steps.values()] if kind_of(type(transformer)) == "pipeline" else [transformer]
    kinds = [kind_of(type(step)) for step in steps]
    parts = steps if _NESTED.isdisjoint(kinds) else parts_of(transformer)
    # During predictions river's pipelines teach their steps themselves.
    if compose.Pipeline._LEARN_UNSUPERVISED_DURING_PREDICT or "filter" in map(kind_of, map(type, parts)):
        return [], [transformer], [transformer]
    n = 0
    while type(steps[n]).__module__ == "river.compose.select" and n < len(steps) - 1:
        n += 1
    if kinds[n] != "keyed":
        n = 0
    return steps[:n], steps[n:], parts[n:]


def _without_zeros(steps: list[Any]) -> tuple[list[Any], dict[Any, int] | None]:
    """The steps, and None; of an encoder that is the only step one without zeros, and its zeros by column."""
    step, *others = steps
    is_encoder = not others and type(step).__name__ == "OneHotEncoder" and kind_of(type(step)) == "keyed"
    if not is_encoder or step.categories is not None or step.drop_zeros or step.drop_first:
        return steps, None
    # By its class, since its module takes half a second to import.
    return [type(step)(drop_zeros=True)], step._zero_dict


def transformed(transformer: Any, documents: Iterable[_Document], each: Each) -> tuple[list[_Document], dict[Any, int] | None]:
    """What a transformer makes of documents, and the zeros that the answers lack."""
    selects, steps, _ = _path_of(transformer)
    steps, zeros = _without_zeros(steps)
    return _passed(documents, [*selects, *steps], each), zeros


def _passed(documents: Iterable[_Document], steps: list[Any], each: Each) -> list[_Document]:
    """What steps make of documents, one step after the other."""
    for step in steps:
        transform_one = step.transform_one
        if type(step) is compose.Select and len(step.keys) == 1:
            transform_one = _selection(*step.keys)
        documents = each(transform_one, documents)
    return documents  # type: ignore[return-value]


def _selection(name: Any) -> Callable[[_Document], _Document]:
    """Selects one feature, in a third of river's time."""
    return lambda x: {name: x[name]}


def is_timed(part: Any) -> bool:
    """Whether a transformer of river aggregates over a window of time: `learn_one` then needs `t=`."""
    return isinstance(getattr(part, "how", None), utils.TimeRolling)


class Journal:
    """Teaches a transformer of river documents, transforms them, and undoes what it learned.

    Parameters
    ----------
    transformer
        The transformer, or a pipeline or union of several.
    """

    def __init__(self, transformer: Any) -> None:
        self._log: list[Undo] = []
        #: By the id of a part, what keeps the entries that documents change; None for a part that is copied.
        self._kept: dict[int, _Entries | None] = {}
        self._transformer = transformer
        self._selects, self._steps, parts = _path_of(transformer)
        for part in parts:
            self._begin(part, kind_of(type(part)))
        self._has_groups = "grouper" in [kind_of(type(part)) for part in parts]
        #: Those that select learn nothing.
        self.is_supervised = True in [step._supervised for step in self._steps]
        #: What transforms for each step; the zeros of an encoder, which its answers lack.
        steps, self.zeros = _without_zeros(self._steps)
        self._asked = [kept.part if (kept := self._kept.get(id(step))) else step for step in steps]

    def enclose(self, later: "Journal") -> None:
        """Undo what a later journal has, too."""
        self._log.append(later.undo)

    def undo(self) -> None:
        """Undo all that was learned."""
        roll_back(self._log)

    def learn_and_transform(
        self, documents: Iterable[_Document], grades: Sequence[Any] | None, t: Any, each: Each
    ) -> list[_Document]:
        """Teach the transformer the documents of a query; what it makes of them then, or before it learns them with grades."""
        documents = _passed(documents, self._selects, each) if self._selects else [*map(dict, documents)]
        if grades is None:
            self._learn_steps(self._steps, documents, [None] * len(documents), t, each)
            return _passed(documents, self._asked, each)
        if (first := self._kept.get(id(self._steps[0]))) is not None:
            first.keep(documents, each)
        # What it would leave in the groups that it looks at is not kept: a group is kept when it learns.
        with unchanged(self._transformer) if self._has_groups else contextlib.nullcontext():
            answers = _passed(documents, self._asked, each)
        self._learn_steps(self._steps, documents, grades, t, each)
        return answers

    def _begin(self, part: Any, kind: str) -> None:
        """Prepare to undo what a part will learn."""
        if kind == "keyed":
            self._kept[id(part)] = _Entries(part, self._log)
        elif kind != "constant":
            self._kept[id(part)] = None
            if kind == "grouper":
                self._log.append(functools.partial(cut, part.transformers, len(part.transformers)))
            else:
                record(self._log, part)

    def _learn(self, part: Any, documents: Sequence[_Document], grades: Sequence[Any], t: Any, each: Each) -> None:
        """Teach a part documents with their grades, at the time of the query, one after the other."""
        kind = kind_of(type(part))
        is_kept = id(part) in self._kept
        if kind == "constant":
            pass
        elif kind == "pipeline" and not is_kept:
            self._learn_steps([*part.steps.values()], documents, grades, t, each)
        elif kind == "union" and not is_kept:
            for inside in part.transformers.values():
                self._learn(inside, documents, grades, t, each)
        else:
            if not is_kept:
                self._begin(part, kind)
            if kind == "grouper":
                each(lambda x, y: self._learn(part.transformers[part._get_key(x)], [x], [y], t, _plainly), documents, grades)
                return
            if (kept := self._kept[id(part)]) is not None:
                kept.keep(documents, each)
                part = kept.part
            timed = t is not None and any(map(is_timed, parts_of(part)))
            learn_one = functools.partial(part.learn_one, t=t) if timed else part.learn_one
            each(learn_one, documents, *((grades,) if part._supervised else ()))

    def _learn_steps(self, steps: list[Any], documents: Sequence[_Document], grades: Sequence[Any], t: Any, each: Each) -> None:
        for step in steps[:-1]:
            documents = self._pass(step, documents, grades, t, each)
        self._learn(steps[-1], documents, grades, t, each)

    def _pass(
        self, step: Any, documents: Sequence[_Document], grades: Sequence[Any], t: Any, each: Each
    ) -> Sequence[_Document]:
        """What a step of a pipeline makes of documents, as it learns one after the other."""
        kind = kind_of(type(step))
        if kind == "constant":
            return each(step.transform_one, documents)
        inside = [*step.transformers.values()] if kind == "union" else [step]
        before = [part for part in inside if not part._supervised]
        after = [part for part in inside if part._supervised]

        def passed(x: _Document, y: Any) -> _Document:
            for part in before:
                self._learn(part, [x], [y], t, _plainly)
            answer: _Document = step.transform_one(x)
            for part in after:
                self._learn(part, [x], [y], t, _plainly)
            return answer

        return each(passed, documents, grades)


def _plainly(call: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    # `map` would take a StopIteration of the call for the end of the documents.
    return [call(*each) for each in zip(*arguments, strict=True)]


@functools.cache
def _read_once(cls: Any) -> Any:
    """The class of a `TFIDF` that takes each text apart once, and shares the state of another one."""

    class ReadOnce(cls):
        __slots__ = ("read",)

        def __init__(self, part: Any) -> None:
            self.__dict__ = part.__dict__  # type: ignore[misc]
            #: The terms of each text of the query.
            self.read: dict[str, tuple[Any, ...]] = {}

        def process_text(self, x: _Document) -> Any:
            text = None if self.on is None else x[self.on]
            if type(text) is not str:
                return super().process_text(x)
            terms = self.read.get(text)
            if terms is None:
                terms = self.read[text] = (*super().process_text(x),)
            return terms

    return ReadOnce


class _Entries:
    """Keeps the entries of a part's dictionaries that documents change, and what undoes the change in a log."""

    def __init__(self, part: Any, log: list[Undo]) -> None:
        #: Learns and transforms for the part.
        self.part: Any = _read_once(part.__class__)(part) if type(part).__name__ == "TFIDF" else part
        self._log = log
        dictionaries_of, self._keys_of = _KEYED[type(part).__name__]
        state = vars(part)
        self._dictionaries = [state[name] for name in dictionaries_of]
        self._kept: set[Any] = set()
        lengths = [*map(len, self._dictionaries)]
        log.append(functools.partial(_restore, state, state.copy(), self._dictionaries, lengths))

    def keep(self, documents: Sequence[_Document], each: Each) -> None:
        """Keep the entries of documents."""
        if type(self.part).__name__ == "OneHotEncoder" and self.part.categories is None:
            self._keep_categories(documents)
        keys = [key for key in self._keys_of(self.part, documents, each) if key not in self._kept]
        if not keys:
            return
        self._kept.update(keys)
        before = [(entries, {key: entries[key] for key in keys if key in entries}) for entries in self._dictionaries]
        self._log.append(functools.partial(_put_back, before))
        for _, kept in before:
            # The values of a dictionary are all of one kind, or are replaced and never changed.
            if kept and type(next(iter(kept.values()))) not in _FIXED:
                kept.update({key: _kept(self._log, value) for key, value in kept.items()})
        if self._keys_of is _groups:
            self._add_groups(keys)

    def _add_groups(self, keys: list[Any]) -> None:
        """Add the groups that are new, as river would, but three times as fast as by its deep copies."""
        groups = self._dictionaries[0]
        new = [key for key in keys if key not in groups]
        if new and _is_rivers(self.part.how):
            with contextlib.suppress(Exception):  # River copies what cannot be pickled.
                empty = pickle.dumps(self.part.how, pickle.HIGHEST_PROTOCOL)
                for key in new:
                    groups[key] = pickle.loads(empty)

    def _keep_categories(self, documents: Sequence[_Document]) -> None:
        known = self.part.values
        for name, value in itertools.chain.from_iterable(map(dict.items, documents)):
            categories = known.get(name)
            for category in () if categories is None else value if isinstance(value, list | set) else (value,):
                if category not in categories:
                    self._log.append(functools.partial(categories.discard, category))


def _is_rivers(statistic: Any) -> bool:
    """Whether a statistic and those inside it are of river's classes; a user's class may say how it is copied."""
    return type(statistic).__module__.startswith("river.") and all(
        _is_rivers(held) for held in vars(statistic).values() if isinstance(held, base.Base)
    )


def _restore(state: dict[str, Any], before: dict[str, Any], dictionaries: list[dict[Any, Any]], lengths: list[int]) -> None:
    """Restore the state of a part, with the first entries of its dictionaries, which remain the same objects."""
    state.update(before)
    for entries, n in zip(dictionaries, lengths, strict=True):
        cut(entries, n)


def _put_back(before: list[tuple[dict[Any, Any], dict[Any, Any]]]) -> None:
    """Put the values of some entries back into dictionaries."""
    for entries, kept in before:
        dict.update(entries, kept)  # A Counter's adds.


def cut(entries: dict[Any, Any], n: int) -> None:
    """Remove all entries but the first."""
    while len(entries) > n:
        entries.popitem()


def _kept(log: list[Undo], value: Any) -> Any:
    """What stands for a value that is about to change: itself, if the log undoes the change, or a copy."""
    if isinstance(value, dict):
        log.append(functools.partial(cut, value, len(value)))
    elif hasattr(value, "__dict__"):
        _keep_state(log, value)
    elif type(value) not in _FIXED and not isinstance(value, set):
        return copy.deepcopy(value)
    return value


def _keep_state(log: list[Undo], value: Any) -> None:
    """Keep the state of a statistic, with those inside it."""
    state = vars(value)
    before = state.copy()
    log.append(functools.partial(put_back, value, before))
    for name, held in () if _FIXED.issuperset(map(type, before.values())) else before.items():
        if type(held) in _FIXED:
            continue
        if isinstance(held, base.Base):
            _keep_state(log, held)
        else:
            # Events of a window never change; only the list of them does.
            before[name] = copy.copy(held) if isinstance(value, utils.Rolling | utils.TimeRolling) else copy.deepcopy(held)


@contextlib.contextmanager
def unchanged(transformer: Any) -> Iterator[None]:
    """Remove the defaults that river's transformers add to defaultdicts for features that they were only asked about."""
    with contextlib.ExitStack() as stack:
        _watch(transformer, stack)
        yield


def _watch(transformer: Any, stack: contextlib.ExitStack) -> None:
    """Let a stack remove the defaults that the parts of a transformer are about to add."""
    for part in parts_of(transformer):
        for found in _defaults(part):
            stack.callback(cut, found, len(found))
        if kind_of(type(part)) == "grouper":
            stack.callback(setattr, part, "transformers", part.transformers)
            part.transformers = _Groups(part.transformers, stack)


class _Groups:
    """The groups of a grouper that is only asked. Those that it looks at are watched, too: looking at all takes too long."""

    def __init__(self, groups: dict[Any, Any], stack: contextlib.ExitStack) -> None:
        self._groups, self._stack, self._seen = groups, stack, set[Any]()

    def __getitem__(self, key: Any) -> Any:
        group = self._groups[key]
        if key not in self._seen:
            self._seen.add(key)
            _watch(group, self._stack)
        return group


def _defaults(part: Any) -> Iterator[collections.defaultdict[Any, Any]]:
    """The defaultdicts of a transformer, and of what a class of a user holds."""
    for value in vars(part).values():
        if isinstance(value, collections.defaultdict):
            yield value
        elif isinstance(value, base.Base):
            yield from _defaults(value)
        elif isinstance(value, dict) and not type(part).__module__.startswith("river."):
            for held in value.values():
                if isinstance(held, base.Base):
                    yield from _defaults(held)
