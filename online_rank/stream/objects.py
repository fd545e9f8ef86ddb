"""Objects of JSON: one on a line, or all in one array."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from online_rank.limits import FREE_CELLS
from online_rank.stream.source import UTF8, ReadError, Text, n_lines, text_of

#: How many lines of a block show whether its names change.
_LOOKED_AT = 32

#: The characters of an array that are taken for white space: objects have commas between them.
_BETWEEN = " \t\r\n,"


def json_of(name: str, line: int, text: bytes) -> dict[str, Any]:
    """The object on a line. Raises ReadError that names the line."""
    where = f"{name}, line {line}"
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except _Twice as error:
        raise ReadError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        what = UTF8 if isinstance(error, UnicodeError) else "write one object a line, or one array of objects"
        raise ReadError(f"{where}: {error}: {what}") from None
    _require_text(where, found, text)
    return _require_object(where, found)


def is_array(head: bytes) -> bool:
    """Whether text begins as an array of objects does."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"[") and text[1:].lstrip()[:1] in (b"{", b"]", b"")


def n_names(block: bytearray) -> int:
    """The number of quotation marks before colons in a block of lines of JSON; an eighth of the time of `count`."""
    marks = np.frombuffer(block, np.uint8)
    return int(np.count_nonzero((marks[:-1] == ord('"')) & (marks[1:] == ord(":"))))


def has_changing_names(block: bytearray) -> bool:
    """Whether the names in lines of JSON, by some of them, may make a table of too many cells."""
    names: set[str] = set()
    new, n = 0, n_lines(block)
    for k in range(_LOOKED_AT):
        begin = block.rfind(b"\n", 0, k * len(block) // _LOOKED_AT) + 1
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(block[begin : block.find(b"\n", begin)])
            if isinstance(found, dict):
                new += len(found.keys() - names) * (k > 0)
                names.update(found)
    return (len(names) + new * n / _LOOKED_AT) * n > FREE_CELLS


def objects_of(text: Text) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a source, one a line or all in one array, and the place of each. Raises ReadError that names the place."""
    if is_array(text.head):
        yield from array_of(text)
        return
    for number, line in text.lines():
        yield f"{text.name}, line {number}", json_of(text.name, number, line)


def array_of(text: Text) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of one array of JSON, and the place of each. Raises ReadError that names the place."""
    decoder, blocks = json.JSONDecoder(object_pairs_hook=_unique), text.blocks()
    held, at, line, n, wanted, has_begun = "", 0, 1, 0, 0, False
    for block, first in itertools.chain(blocks, [(bytearray(), 0)]):
        held, at = held[at:] + text_of(text.name, first, block), 0
        if len(held) < wanted and block:
            continue
        while True:
            begin = at
            while at < len(held) and (held[at] in _BETWEEN or (held[at] == "[" and not has_begun)):
                has_begun |= held[at] == "["
                at += 1
            line += held.count("\n", begin, at)
            if at == len(held):
                break
            where = f"{text.name}, line {line}, object {n + 1}"
            if held[at] == "]":
                _require_end(text.name, held[at + 1 :], blocks)
                return
            try:
                found, end = decoder.raw_decode(held, at)
            except _Twice as error:
                raise ReadError(f"{where}: {error}") from None
            except RecursionError as error:
                raise ReadError(f"{where}: {error}") from None
            except ValueError:
                # Perhaps the object continues; its beginning is read again only when it has doubled.
                wanted = 2 * (len(held) - at)
                break
            _require_text(where, found, held[at:end])
            yield where, _require_object(where, found)
            n, wanted, line, at = n + 1, 0, line + held.count("\n", at, end), end
    _refuse_rest(f"{text.name}, line {line}, object {n + 1}", decoder, held, at)


def _refuse_rest(where: str, decoder: json.JSONDecoder, held: str, at: int) -> None:
    """Raise ReadError for an array that does not end, or whose last object cannot be read."""
    what = "the array is not closed by ]: the file is cut short"
    if held[at:].strip(_BETWEEN):
        try:
            decoder.raw_decode(held.rstrip(), at)
        except ValueError as error:
            what = str(error)
    raise ReadError(f"{where}: {what}")


def _require_end(name: str, rest: str, blocks: Iterator[tuple[bytearray, int]]) -> None:
    """Raise ReadError if something follows an array."""
    for more in (rest, *(text_of(name, first, block) for block, first in blocks)):
        if more.strip():
            raise ReadError(f"{name}: {more.strip()[:40]!r} follows the array of objects: a file holds one array")


def _require_text(where: str, found: Any, text: bytes | str) -> None:
    """Raise ReadError if a text of JSON has the half of a character, which no file holds."""
    if (b"\\ud" if isinstance(text, bytes) else "\\ud") in text:  # type: ignore[operator]
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeError as error:
            raise ReadError(f"{where}: {error}: {UTF8}") from None


class _Twice(ValueError):
    """A name comes twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises _Twice if a name comes twice, of which JSON itself would take the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        met: set[str] = set()
        twice = next(name for name, _ in pairs if name in met or met.add(name))  # type: ignore[func-returns-value]
        raise _Twice(f"{twice!r:.60} is given twice in one object")
    return found


def _require_object(where: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ReadError(f"{where}: a {type(found).__name__}, and an object is wanted")
    return found
