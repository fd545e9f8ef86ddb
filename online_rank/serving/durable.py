"""A service whose state survives being killed: its checkpoint, its journal, and how they are brought together."""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from online_rank.serving.protocol import RankingService
from online_rank.storage.checkpoint import CheckpointDirectory, CheckpointError
from online_rank.storage.files import to_bytes
from online_rank.storage.journal import Journal, new_run
from online_rank.storage.tree import settings_of

__all__ = ["DurableService", "Snapshot"]


class Snapshot(NamedTuple):
    """A service after its first `n_changes` changes, as a checkpoint holds it."""

    n_changes: int
    content: bytes


class DurableService:
    """A `RankingService` with a directory that holds all that it has acknowledged.

    Parameters
    ----------
    service
        A service that has not begun. Where the directory holds the state of one with the same settings, it goes on from there.
    path
        The directory; None for a service without memory beyond its process.
    every
        Number of changes between two checkpoints.

    Raises
    ------
    CheckpointError
        The directory is in use, damaged, or of a service with other settings.
    OSError
        It cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.serving.durable import DurableService
    >>> directory = tempfile.mkdtemp()
    >>> request = b'{"id": 1, "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}'
    >>> killed = DurableService(RankingService(PerceptronRanker()), directory)
    >>> killed.append([request] if killed.service.handle(request).changed else [], sync=True)
    >>> killed.close()
    >>> again = DurableService(RankingService(PerceptronRanker()), directory)
    >>> again.service.stats()["ranked"]
    1
    >>> again.close()
    """

    def __init__(self, service: RankingService, path: str | os.PathLike[str] | None = None, every: int = 10_000) -> None:
        self.service = service
        self.path = None if path is None else Path(path)
        self._every = every
        self._run = ""
        self._directory: CheckpointDirectory | None = None
        self._journal: Journal | None = None
        self._saved_at = service.n_changes
        if self.path is not None:
            self._directory = CheckpointDirectory(self.path)
            try:
                self._journal = self._recovered(self._directory)
            except BaseException:
                self.close()
                raise

    @property
    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self._journal is not None and self.service.n_changes - self._saved_at >= self._every

    @property
    def journal_bytes(self) -> int | None:
        """Size of the journal: what a restart would have to replay. None where there is none."""
        if self.path is None:
            return None
        size = 0
        for path in self.path.glob("journal-*"):
            with contextlib.suppress(FileNotFoundError):  # A checkpoint may delete one meanwhile.
                size += path.stat().st_size
        return size

    def append(self, records: list[bytes], sync: bool) -> None:
        """Write requests that changed the service to the journal, in their order; wait until they are on the disk if `sync`.

        Only this and `write` may run in another thread than the rest, one at a time.

        Raises
        ------
        OSError, CheckpointError
            They are not on the disk. Nothing may be acknowledged, and nothing more appended.
        """
        if self._journal is None or not records:
            return
        self._journal.append(records, sync)
        if sync and self._directory is not None:
            self._directory.require_in_place()

    def save(self) -> None:
        """Write a checkpoint. All requests that changed the service must have been appended."""
        if self._journal is not None:
            self.write(self.snapshot())

    @property
    def is_saved(self) -> bool:
        """Whether the last checkpoint covers all changes."""
        return self._journal is None or self.service.n_changes == self._saved_at

    def snapshot(self) -> Snapshot:
        """The service as it is now."""
        return Snapshot(self.service.n_changes, to_bytes({"run": self._run, "service": self.service}))

    def write(self, snapshot: Snapshot) -> None:
        """Write a checkpoint of the service as it was, when its journal ends with the snapshot's last change."""
        if self._directory is None or self._journal is None:
            return
        self._journal.prepare(snapshot.n_changes)
        self._directory.write_bytes(snapshot.content)
        self._journal.switch(snapshot.n_changes)
        self._saved_at = snapshot.n_changes

    def close(self) -> None:
        """Give the directory free; may be called again."""
        if self._journal is not None:
            self._journal.close()
        if self._directory is not None:
            self._directory.close()

    def _recovered(self, directory: CheckpointDirectory) -> Journal:
        """The journal of the directory, after the service went on from the checkpoint and replayed it."""
        saved = directory.read()
        if saved is None:
            self._run = new_run()
            journal = Journal.begin(directory.path, self._run)
            # Now already: the journal is of use only with the parameters that it began with.
            directory.write({"run": self._run, "service": self.service})
            return journal
        if not isinstance(saved, dict) or set(saved) != {"run", "service"}:
            raise CheckpointError(f"{directory.path} holds something else than the state of a service")
        if settings_of(saved["service"]) != settings_of(self.service):
            raise CheckpointError(f"{directory.path} holds the state of a service with other options")
        self._run, self.service = saved["run"], saved["service"]
        # Not what is replayed after it: a service that is killed again and again would never write another.
        self._saved_at = self.service.n_changes
        journal = Journal(directory.path, self._run, self.service.n_changes)
        for record in journal.replay():
            if not self.service.handle(record).changed:
                raise CheckpointError(f"{directory.path}: the journal has a request that the model refuses")
        return journal
