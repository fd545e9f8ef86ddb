"""`online-rank stream`: the service of `online_rank.serving.protocol` on standard input and output."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import RankingService
from online_rank.serving.wire import encoded
from online_rank.storage.files import require_replaceable, save

__all__ = ["Places", "run"]

_CHUNK = 1 << 18


class Places(NamedTuple):
    """Where the service keeps its state, and how much it may keep."""

    checkpoint: str | None
    every: int
    save: str | None
    max_line: int


def run(service: RankingService, places: Places) -> None:
    """Serve until the input ends, then save."""
    if places.save is not None:
        require_replaceable(places.save)  # Now, and not when all is learned.
    sys.stdout.flush()
    with contextlib.closing(DurableService(service, places.checkpoint, places.every)) as state:
        number = 0
        for lines in _batches(0, places.max_line):
            answers, records, learned = [], [], False
            for line in lines:
                number += 1
                if line is None:
                    answers.append({"error": f"a line of more than {places.max_line} bytes", "line": number})
                elif not line.strip():
                    answers.append({"error": "an empty line", "line": number})
                else:
                    reply = state.service.handle(line, number)
                    if reply.changed:
                        records.append(reply.outcome)
                        learned |= reply.learned
                    if reply.command == "save":
                        state.append(records, sync=learned)
                        records, learned = [], False
                        answers.append(_saved(state, places, number))
                    else:
                        answers.append(reply.answer)
            state.append(records, sync=learned)
            _write(b"".join(encoded(answer) + b"\n" for answer in answers))
            state.between_commits()
        _save(state, places)


def _save(state: DurableService, places: Places) -> str | None:
    """Write checkpoint and model; returns where to."""
    state.save()
    if places.save is not None:
        save(state.service.model, places.save)
    return places.save or places.checkpoint


def _saved(state: DurableService, places: Places, number: int) -> dict[str, Any]:
    place = _save(state, places)
    return (
        {"saved": place}
        if place
        else {"error": "there is nowhere to save to: start with --save or --checkpoint", "line": number}
    )


def _batches(file: int, max_line: int) -> Iterator[list[bytes | None]]:
    """The lines that are there, again and again until the end; None stands for a line that is too long."""
    pieces: list[bytes] = []
    size, dropping = 0, False
    while data := os.read(file, _CHUNK):
        *ended, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ended:
            too_long = dropping or size + len(piece) > max_line
            lines.append(None if too_long else b"".join([*pieces, piece]))
            pieces, size, dropping = [], 0, False
        if dropping or size + len(rest) > max_line:
            pieces, size, dropping = [], 0, True
        elif rest:
            pieces.append(rest)
            size += len(rest)
        if lines:
            yield lines
    if dropping or pieces:
        yield [None if dropping else b"".join(pieces)]


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
