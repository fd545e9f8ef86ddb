"""`online-rank stream`: the service on standard input and output."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from online_rank.cli.files import check_outputs
from online_rank.cli.logs import say
from online_rank.cli.options import Service
from online_rank.cli.service import say_where_it_goes_on
from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import Outcome, RankingService
from online_rank.storage.files import save
from online_rank.storage.postgres import is_postgres, shown

_CHUNK = 1 << 18


def run(service: RankingService, options: Service, place: str | None, max_request: int = 1 << 22) -> None:
    """Serve until the input ends, then write the model to `place`; a longer line than `max_request` is refused."""
    check_outputs([], save=place, checkpoint=None if is_postgres(options.checkpoint) else options.checkpoint)
    sys.stdout.flush()
    remember = options.seconds["remember"]
    durable = DurableService(service, options.checkpoint, options.every, options.replace_model, remember)
    say_where_it_goes_on(durable)
    with contextlib.closing(durable) as state:
        number = 0
        for lines in _batches(0, max_request):
            answers: list[dict[str, Any]] = []
            records: list[Outcome] = []
            learned = False
            for line in lines:
                number += 1
                if line is None:
                    answers.append({"error": f"a line of more than {max_request} bytes", "line": number})
                elif not line.strip():
                    answers.append({"error": "an empty line", "line": number})
                else:
                    reply = state.service.handle(line, number)
                    if reply.promoted:
                        say(f"promoted: {reply.promoted}", logging.WARNING)
                    if reply.changed:
                        records += reply.outcomes
                        learned |= reply.learned
                    if reply.command == "save":
                        state.append(records, sync=learned)
                        records, learned = [], False
                        answers.append(_saved(state, options.checkpoint, place, number))
                    else:
                        answers.append(reply.answer)
            state.append(records, sync=learned)
            _write(b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers))
            state.between_commits()
        _save(state, place)


def _save(state: DurableService, place: str | None) -> None:
    """Write checkpoint and model."""
    state.save()
    if place is not None:
        save(state.service.model, place)


def _saved(state: DurableService, checkpoint: str | None, place: str | None, number: int) -> dict[str, Any]:
    _save(state, place)
    where = place or (shown(checkpoint) if checkpoint and is_postgres(checkpoint) else checkpoint)
    return {"saved": where} if where else {"error": "nowhere to save to: start with --save or --checkpoint", "line": number}


def _batches(file: int, max_request: int) -> Iterator[list[bytes | None]]:
    """The available lines, in lists, until the end; None stands for a line that is too long."""
    pieces: list[bytes] = []
    size, dropping = 0, False
    while data := os.read(file, _CHUNK):
        *ended, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ended:
            too_long = dropping or size + len(piece) > max_request
            lines.append(None if too_long else b"".join([*pieces, piece]))
            pieces, size, dropping = [], 0, False
        if dropping or size + len(rest) > max_request:
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
