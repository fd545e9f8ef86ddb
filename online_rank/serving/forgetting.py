"""What a service forgets on request: queries by their ids, by their context, or by a document."""

import copy
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from online_rank.base.forgetting import forget_names, parts_of
from online_rank.base.transformer import QueryTransformer
from online_rank.base.undo import all_or_nothing
from online_rank.preprocessing._keyed import keyed_steps
from online_rank.preprocessing.crosses import CrossFeatures, suffix_of
from online_rank.query import Runs
from online_rank.rankers.growing_trees import GrowingTrees
from online_rank.rankers.worded import without_entry
from online_rank.serving.declared import DOCUMENT
from online_rank.serving.messages import BINARY_BEGINS, Forget
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import GIVERS, evidence_key, read, request_of
from online_rank.serving.waiting import pages_of
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import strings_of


class Forgotten(NamedTuple):
    """What was forgotten.

    Attributes
    ----------
    queries
        Numbers of the queries that no longer wait.
    learned
        Ids that are no longer known to be learned.
    early
        Number of queries that feedback had come for, but no ranking.
    features
        Names of features that no model has any more.
    keys
        Number of keys that `History` and `Tastes` have no longer, of pairs with an entry of the context that no ranker has any
        more, and of counts of what this session or user has clicked today.
    """

    queries: tuple[int, ...] = ()
    learned: tuple[str | int, ...] = ()
    early: int = 0
    features: frozenset[str] = frozenset()
    keys: int = 0

    def answer(self) -> dict[str, Any]:
        """For JSON."""
        found = {
            "waiting": len(self.queries),
            "early": self.early,
            "learned": len(self.learned),
            "features": len(self.features),
            **({"keys": self.keys} if self.keys else {}),
        }
        return {"forgotten": found, **({} if any(found.values()) else {"note": "nothing found"})}


def forget(service: RankingService, wanted: Forget) -> Forgotten:
    """Let a service forget. A checkpoint has to follow, since the journal still has what is forgotten.

    Raises
    ------
    ValueError
        Before anything changes: the model keeps the name of a feature where it cannot be taken away.
    """
    challenge = service.challenge
    model, names, n_keys = _without(service.model, wanted)
    rival, also, n_more = (None, frozenset[str](), 0) if challenge is None else _without(challenge.model, wanted)
    ids = {page for each in wanted.ids or () for page in pages_of(each)}
    document, pending = wanted.document, service._pending

    def is_about(query_id: Any) -> bool:
        return query_id in ids or document in pending.totals(query_id)

    is_read = wanted.context or document is not UNSET
    waiting = [each for each in pending.ids() if is_about(each) or (is_read and _has(pending.get(each)[0], wanted))]
    early = [query_id for query_id in pending.early_ids() if is_about(query_id)]
    learned = tuple(query_id for query_id in ids if service.learned_as(query_id) is not None)
    numbers = tuple(pending.number(query_id) or 0 for query_id in waiting)
    evidence = [key for key in _given_by(wanted) if key in (service._evidence or ())]
    with all_or_nothing(service) as changes:
        changes.include_entries(service._learned, learned, sort=True)
        service.model = model
        if wanted.context or document is not UNSET:
            service.replaced = None
        for query_id in learned:
            service._learned.pop(query_id, None)
        gone = [query_id for query_id in (*ids, *waiting, *early) if query_id in service._shares]
        changes.include_entries(service._shares, gone)
        for query_id in {*gone}:
            del service._shares[query_id]
        changes.include_entries(service._evidence, evidence, sort=True)
        for key in evidence:
            del service._evidence[key]
        pending.forget([*waiting, *early])
        service._read.clear()
        service._contested = {name: of for name, of in (service._contested or {}).items() if name not in names | also}
        if challenge is not None:
            challenge.model = rival
    return Forgotten(numbers, learned, len(early), names | also, n_keys + n_more + len(evidence))


def _given_by(wanted: Forget) -> list[str]:
    """The keys under which a service counts the feedback that a session or a user gave today."""
    if wanted.entry is None or wanted.entry[0] not in GIVERS:
        return []
    key = evidence_key(*wanted.entry)
    return [key, f"share {key}"]


def without(content: bytes, wanted: Forget) -> tuple[bytes, frozenset[str]]:
    """The file of a model, without features and keys that have to be forgotten, and the names of the features.

    Raises ValueError as `forget`.
    """
    before = from_bytes(content)
    model, names, _ = _without(before, wanted)
    return content if model is before else to_bytes(model), names


def _without(model: Any, wanted: Forget) -> tuple[Any, frozenset[str], int]:
    """A model without the features and the keys that were made of what is forgotten, their names, and the number of keys.

    Raises ValueError if the model keeps one where it cannot be taken away.
    """
    entries: list[Any] = [] if wanted.entry is None else [wanted.entry]
    entries += [] if wanted.document is UNSET else [(DOCUMENT, wanted.document)]
    without, names = _without_crosses(model, wanted)
    without = _without_windows(without, model)
    without, n_words = (without, 0) if wanted.entry is None else without_entry(model, without, *wanted.entry)
    kept = [name for step in keyed_steps(without) for name in step.names]
    if not any(name in kept for name, _ in entries):
        return without, names, n_words
    emptied = without
    without = copy.deepcopy(model) if without is model else without
    n_keys = sum(step.forget(name, value) for step in keyed_steps(without) for name, value in entries)
    return (without if n_keys else emptied), names, n_keys + n_words


def _without_windows(without: Any, model: Any) -> Any:
    """A model whose trees have forgotten the queries that they grow from: these have no ids, so all of them go."""
    if not any(trees.n_queries for trees in parts_of(without, GrowingTrees)):
        return without
    without = copy.deepcopy(model) if without is model else without
    for trees in parts_of(without, GrowingTrees):
        trees.empty_window()
    return without


def _without_crosses(model: Any, wanted: Forget) -> tuple[Any, frozenset[str]]:
    """A model without the features that were made of an entry of the context, and their names.

    Raises ValueError if the model keeps one where it cannot be taken away.
    """
    entry = wanted.entry
    if entry is None or not any(entry[0] in each.categories for each in parts_of(model, CrossFeatures)):
        return model, frozenset()
    try:
        names = _crossed_with(entry, {*strings_of(model)}, [*parts_of(model, QueryTransformer)])  # type: ignore[type-abstract]
        if not names:
            return model, names
        without = copy.deepcopy(model)
        forget_names(without, names.__contains__)
        kept = names & {*strings_of(without)}
    except TypeError as error:
        raise ValueError(f"nobody can say what the model keeps: {error}") from None
    if kept:
        raise ValueError(
            f"the model keeps the name {min(kept)!r:.200} in a model of another library, where it cannot be taken away: "
            "replace it by one that was trained without these queries"
        )
    return without, names


def _crossed_with(entry: tuple[str, str], names: set[str], steps: Sequence[QueryTransformer]) -> frozenset[str]:
    """The names that `CrossFeatures` made of an entry of the context, and the names that other steps made of these.

    Examples
    --------
    >>> from online_rank import StreamQuantileMap
    >>> names = {"x", "x*user=3", "x*user=13", "x*user=3 in query", "y*user=3", "user", "3"}
    >>> sorted(_crossed_with(("user", "3"), names, [StreamQuantileMap()]))
    ['x*user=3', 'x*user=3 in query']
    """
    begin, end = suffix_of(entry[0], ""), suffix_of(*entry)

    def is_crossed(name: str) -> bool:
        """Whether a name is another one with any value of this context."""
        return any(name[: found.start()] in names for found in re.finditer(re.escape(begin), name))

    made = {name for name in names if (base := name.removesuffix(end)) != name and base in names and not is_crossed(base)}
    found: set[str] = set()
    while made:
        found |= made
        made = {name for step in steps for name in _named_by(step, made)} & names - found
    return frozenset(found)


def _named_by(step: QueryTransformer, names: Collection[str]) -> Collection[Any]:
    """The names that a step gives to what it makes of features with these names."""
    if isinstance(step, CrossFeatures):
        return ()
    fresh, query = step.clone(), [dict.fromkeys(names, 1.0), dict.fromkeys(names, 2.0)]
    try:
        fresh.learn_one(query, [1, 0])
        return [*fresh.transform_one(query)[0]]
    except (TypeError, ValueError):  # It makes nothing of such features.
        return ()


def _has(text: str, wanted: Forget) -> bool:
    """Whether a request has the entry of the context, or the document."""
    # Parsing takes much longer than looking for both, which stand in JSON as they are, or with escapes.
    context, document = wanted.entry, wanted.document
    is_binary = request_of(text).startswith(BINARY_BEGINS)
    may_have = is_binary or "\\" in text or (context is not None and context[0] in text and context[1].lower() in text.lower())
    if not may_have and (document is UNSET or document not in text):
        return False
    message: Any = read(request_of(text))
    if context is not None:
        value = (message.context or {}).get(context[0])
        if type(value) in (str, int, bool) and str(value) == context[1]:
            return True
    asked = message.asked()
    return document in (asked.ids if isinstance(asked, Runs) else asked)
