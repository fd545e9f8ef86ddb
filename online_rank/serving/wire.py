"""Strict parsing of JSON requests, fast if orjson is installed."""

import contextlib
import gc
import json
from typing import Any

from online_rank.limits import MAX_REQUEST_DEPTH

try:
    import orjson
except ImportError:  # Without the extras `cli` and `serve`.
    orjson = None  # type: ignore[assignment]

__all__ = ["decoded", "encoded", "own"]


def decoded(request: bytes) -> dict[str, Any]:
    """Parse a request, which must be a JSON object.

    Parameters
    ----------
    request
        JSON in UTF-8.

    Raises
    ------
    ValueError
        It is not a JSON object, has a duplicate key, a number that is not valid JSON, or is nested too deeply.

    Examples
    --------
    >>> decoded(b'{"id": 1, "docs": {}}')
    {'id': 1, 'docs': {}}
    >>> decoded(b'{"id": 1, "id": 2}')
    Traceback (most recent call last):
        ...
    ValueError: 'id' stands twice in an object
    """
    # Collecting garbage would find nothing and take longer than parsing. What lets it go on is one call in C, chosen before, so
    # that no interrupt can come in between.
    go_on = gc.enable if gc.isenabled() else gc.isenabled
    try:
        gc.disable()
        fields = _fast(request) if orjson is not None else None
        fields = _strict(request) if fields is None else fields
        _require_shallow(fields, request)
        return fields
    except RecursionError:
        raise _too_deep() from None
    finally:
        go_on()


def own(text: bytes) -> Any:
    """What JSON that this library wrote stands for.

    Examples
    --------
    >>> own(b'["q1", 0.5, null]')
    ['q1', 0.5, None]
    """
    if orjson is not None:
        with contextlib.suppress(orjson.JSONDecodeError):  # A part of a character, which only an escape can spell.
            return orjson.loads(text)
    return json.loads(text.decode("ascii"))


def encoded(answer: dict[str, Any]) -> bytes:
    """An answer as JSON in UTF-8.

    Examples
    --------
    >>> encoded({"id": 1, "ranking": ["a", "b"]})
    b'{"id":1,"ranking":["a","b"]}'
    """
    if orjson is not None:
        try:
            return orjson.dumps(answer)
        except TypeError:  # A part of a character, which only an escape can spell.
            pass
    return json.dumps(answer, separators=(",", ":")).encode()


def _fast(request: bytes) -> dict[str, Any] | None:
    """The result of orjson if no key can be duplicated; None if the strict reader must check.

    orjson keeps the last of two pairs with the same key. Every pair has a colon, so if there are as many pairs as colons, none
    was lost.
    """
    try:
        fields = orjson.loads(request)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        raise _no_object(fields)
    n_pairs = len(fields)
    for value in fields.values():
        if type(value) is dict:
            n_pairs += len(value)
            for inner in value.values():
                if type(inner) is dict:
                    n_pairs += len(inner)
    return fields if n_pairs == request.count(b":") else None


def _strict(request: bytes) -> dict[str, Any]:
    fields = json.loads(request.decode(), parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    if not isinstance(fields, dict):
        raise _no_object(fields)
    return fields


def _require_shallow(fields: dict[str, Any], request: bytes) -> None:
    """Raise ValueError for values nested too deeply for recursion."""
    # Every container has a bracket, so where there are no more brackets than objects on three levels, nothing is nested deeper.
    n_objects = 1
    for value in fields.values():
        if type(value) is dict:
            n_objects += 1 + [*map(type, value.values())].count(dict)
    if request.count(b"{") + request.count(b"[") == n_objects:
        return
    level: list[Any] = [fields]
    for _ in range(MAX_REQUEST_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"it is nested deeper than {MAX_REQUEST_DEPTH} levels")


def _no_object(value: Any) -> ValueError:
    return ValueError(f"it is of type {type(value).__name__}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice[:100]!r} stands twice in an object")
    return found
