"""`online-rank stream`: the service of `online_rank.serving.protocol` on standard input and output."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from online_rank.serving.protocol import RankingService
from online_rank.storage.checkpoint import CheckpointDirectory, CheckpointError
from online_rank.storage.files import require_replaceable, save
from online_rank.storage.journal import Journal, new_run
from online_rank.storage.tree import settings_of

__all__ = ["Places", "State", "run"]

_CHUNK = 1 << 18


class Places(NamedTuple):
    """Where the service keeps its state, and how much it may keep."""

    checkpoint: str | None
    every: int
    save: str | None
    max_line: int


class State:
    """The service, its journal and its checkpoint; only `commit` lets answers out."""

    def __init__(self, service: RankingService, places: Places) -> None:
        self.service = service
        self._places = places
        self._directory: CheckpointDirectory | None = None
        self._journal: Journal | None = None
        self._run = ""
        if places.checkpoint is not None:
            self._directory = CheckpointDirectory(places.checkpoint)
            try:
                self._recover(self._directory)
            except BaseException:
                self.close()
                raise
        self._saved_at = self.service.n_changes

    def _recover(self, directory: CheckpointDirectory) -> None:
        """Go on from the checkpoint and replay the journal."""
        saved = directory.read()
        if saved is None:
            self._run = new_run()
            self._journal = Journal.begin(directory.path, self._run)
            # Now already: the journal is of use only with the parameters that it began with.
            directory.write({"run": self._run, "service": self.service})
            return
        if not isinstance(saved, dict) or set(saved) != {"run", "service"}:
            raise CheckpointError(f"{directory.path} holds something else than the state of a service")
        if settings_of(saved["service"]) != settings_of(self.service):
            raise CheckpointError(f"{directory.path} holds the state of a service with other options")
        self._run, self.service = saved["run"], saved["service"]
        self._journal = Journal(directory.path, self._run, self.service.n_changes)
        for record in self._journal.replay():
            if not self.service.handle(record).changed:
                raise CheckpointError(f"{directory.path}: the journal has a request that the model refuses")

    def commit(self, records: list[bytes], learned: bool) -> None:
        """Make what was learned durable; after this it may be acknowledged."""
        if self._journal is None or not records:
            return
        self._journal.append(records, sync=learned)
        if learned and self._directory is not None:
            self._directory.require_in_place()
        if self.service.n_changes - self._saved_at >= self._places.every:
            self.save()

    def save(self) -> str | None:
        """Write checkpoint and model; returns where to."""
        if self._directory is not None and self._journal is not None:
            self._journal.prepare(self.service.n_changes)
            self._directory.write({"run": self._run, "service": self.service})
            self._journal.switch(self.service.n_changes)
            self._saved_at = self.service.n_changes
        if self._places.save is not None:
            save(self.service.model, self._places.save)
        return self._places.save or self._places.checkpoint

    def close(self) -> None:
        """Give the directory free."""
        if self._journal is not None:
            self._journal.close()
        if self._directory is not None:
            self._directory.close()


def run(service: RankingService, places: Places) -> None:
    """Serve until the input ends, then save."""
    if places.save is not None:
        require_replaceable(places.save)  # Now, and not when all is learned.
    sys.stdout.flush()
    with contextlib.closing(State(service, places)) as state:
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
                        records.append(line)
                        learned |= reply.learned
                    if reply.command == "save":
                        state.commit(records, learned)
                        records, learned = [], False
                        answers.append(_saved(state, number))
                    else:
                        answers.append(reply.answer)
            state.commit(records, learned)
            _write(b"".join(json.dumps(answer, separators=(",", ":")).encode() + b"\n" for answer in answers))
        state.save()


def _saved(state: State, number: int) -> dict[str, Any]:
    place = state.save()
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
