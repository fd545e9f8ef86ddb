"""What a service forgets on request: queries by their ids, and everything about a user."""

import copy
import functools
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from online_rank.base.forgetting import forget_names
from online_rank.base.undo import Staged, at_once
from online_rank.limits import is_id
from online_rank.serving.protocol import RankingService
from online_rank.serving.wire import decoded
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import strings_of

__all__ = ["Forgotten", "Wanted", "forget", "forgetting", "without"]


class Wanted(NamedTuple):
    """What is to be forgotten.

    Attributes
    ----------
    ids
        Ids of queries.
    user
        The id of a user, or None: queries whose ids or contents have it as a word of its own, and features whose names do.
    """

    ids: tuple[str | int, ...] = ()
    user: str | None = None

    @classmethod
    def of(cls, request: bytes) -> "Wanted":
        """What a request says. Raises ValueError.

        Examples
        --------
        >>> Wanted.of(b'{"ids": ["q1", 7], "user": "u17"}')
        Wanted(ids=('q1', 7), user='u17')
        """
        fields = decoded(request)
        if not fields or not fields.keys() <= {"ids", "user"}:
            raise ValueError("the fields are ids and user, one of them or both")
        ids, user = fields.get("ids", []), fields.get("user")
        if not isinstance(ids, list) or not all(map(is_id, ids)):
            raise ValueError("ids must be a list of ids of queries")
        if "user" in fields and (not isinstance(user, str) or not user.strip() or not is_id(user)):
            raise ValueError("user must be the id of a user, a text that is not empty")
        return cls(tuple(ids), user)

    def names(self) -> Callable[[str], bool]:
        """Whether a text has the user's id as a word of its own.

        Examples
        --------
        >>> names = Wanted(user="u17").names()
        >>> names("price*user=u17"), names("price*user=u170")
        (True, False)
        """
        if self.user is None:
            return lambda text: False
        pattern = re.compile(rf"(?<!\w){re.escape(self.user)}(?!\w)")
        return lambda text: pattern.search(text) is not None


class Forgotten(NamedTuple):
    """What was forgotten.

    Attributes
    ----------
    queries
        Numbers of the queries that no longer wait.
    learned
        The learned ids, by their changes, as what they are remembered from now on: nothing that anybody knows.
    early
        Number of queries that feedback had come for, but no ranking.
    features
        Number of features.
    """

    queries: tuple[int, ...] = ()
    learned: dict[int, str] = {}  # noqa: RUF012  # never changed
    early: int = 0
    features: int = 0

    def answer(self) -> dict[str, Any]:
        """For JSON."""
        n_queries = len(self.queries) + self.early
        return {"forgotten": {"waiting": n_queries, "learned": len(self.learned), "features": self.features}}


def forget(service: RankingService, wanted: Wanted) -> Forgotten:
    """Let a service forget. A checkpoint has to follow, since the journal still has what was said before.

    Raises
    ------
    ValueError
        Before anything changes: the model keeps the user's id where it cannot be taken away.
    """
    changes, done = forgetting(service, wanted)
    at_once(changes)
    return done


def forgetting(service: RankingService, wanted: Wanted) -> tuple[list[Callable[[], Any]], Forgotten]:
    """The changes (`at_once`) by which a service forgets, and what it then has forgotten. Raises ValueError as `forget`."""
    names = wanted.names()
    challenge = service.challenge
    model, n_features = _without_names(service.model, names)
    rival, n_also = (None, 0) if challenge is None else _without_names(challenge.model, names)
    ids = {*wanted.ids}
    pending = service._pending
    waiting = [
        query_id
        for query_id in pending.ids()
        if query_id in ids or names(str(query_id)) or _is_about(pending, query_id, wanted.user, names)
    ]
    early = [
        query_id
        for query_id in pending.early_ids()
        if query_id in ids or names(str(query_id)) or any(names(str(name)) for name in pending.totals(query_id))
    ]
    learned = {query_id: secrets.token_hex(16) for query_id in service._learned if query_id in ids or names(str(query_id))}
    numbers = tuple(pending.number(query_id) or 0 for query_id in waiting)
    placeholders = {service._learned[query_id][0]: placeholder for query_id, placeholder in learned.items()}
    staged = Staged(service)
    staged["model"] = model
    if wanted.user is not None:
        staged["replaced"] = None
    if learned:
        staged["_learned"] = {learned.get(query_id, query_id): change for query_id, change in service._learned.items()}
    staged.calls += [*pending.forgetting(waiting, early), service._read.clear]
    if challenge is not None:
        staged.calls.append(functools.partial(setattr, challenge, "model", rival))
    return staged.changes(), Forgotten(numbers, placeholders, len(early), max(n_features, n_also))


def _without_names(model: Any, names: Callable[[str], bool]) -> tuple[Any, int]:
    """A model without features of such names, and how many there were. Raises ValueError if the model keeps one elsewhere."""
    try:
        if not any(map(names, strings_of(model))):
            return model, 0
    except TypeError as error:
        raise ValueError(f"nobody can say what the model keeps: {error}") from None
    without = copy.deepcopy(model)
    n = forget_names(without, names)
    if any(map(names, strings_of(without))):
        raise ValueError(
            "the model keeps the user's id in settings, or in a model of another library, where it cannot be taken away: "
            "replace it by one that was trained without this user"
        )
    return without, n


def without(content: bytes, wanted: Wanted) -> bytes:
    """The file of a model, without names of features that have to be forgotten. Raises ValueError if it cannot be done."""
    return to_bytes(_without_names(from_bytes(content), wanted.names())[0])


def _is_about(pending: Any, query_id: Any, user: str | None, names: Callable[[str], bool]) -> bool:
    """Whether the request of a waiting query, or what was given to it, has a text of which `names` is true."""
    if user is None:
        return False
    text, _, _ = pending.get(query_id)
    # Parsing takes much longer than looking for the id, which stands there as it is, or with escapes.
    is_there = (user in text or "\\" in text) and any(map(names, _texts(decoded(text.encode()))))
    return is_there or any(names(str(name)) for name in pending.totals(query_id))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value
    elif type(value) is int:
        yield str(value)
