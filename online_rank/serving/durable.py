"""A service whose state survives being killed: generations, a journal, and recovery from them."""

import errno
import gc
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard

import msgspec

from online_rank.base.undo import all_or_nothing
from online_rank.serving.forgetting import Forgotten, forget
from online_rank.serving.identity import OtherService, go_on
from online_rank.serving.journalled import change_of, id_in_journal, parsed, written
from online_rank.serving.messages import Forget
from online_rank.serving.outcomes import Outcome
from online_rank.serving.protocol import RankingService
from online_rank.serving.stored_times import set_back
from online_rank.storage.database import FULL
from online_rank.storage.folder import CheckpointError, ValueRefused
from online_rank.storage.generations import taken
from online_rank.storage.places import opened, saved_in
from online_rank.storage.saved import Saved
from online_rank.storage.store import Generation, StateStore

_log = logging.getLogger("online_rank.serving")

#: Seconds until a failed checkpoint is tried again: initially, and at most.
_PATIENCE = 1.0
_MOST_PATIENCE = 60.0

#: Bits of the filter of learned ids: with 50,000 of them one in thirty unknown ids is looked up in vain.
_BITS = 1 << 19


class DurableService:
    """A `RankingService` with a store, such as a folder, that keeps everything it has acknowledged.

    Parameters
    ----------
    service
        A new service. If the store has the state of one with the same settings, it continues from there.
    store
        A folder, or the address of a PostgreSQL database (`PostgresState`); or another `StateStore`, which is then closed with
        the service; None for a service that keeps nothing beyond its process.
    every
        Number of changes between two checkpoints.
    replace_model
        Whether the model of a service with another `origin` replaces the one in the store; otherwise it is refused.
    remember
        Seconds for which the store keeps the ids of learned queries, by which repeated feedback is recognised: seconds in which
        the service runs, by the monotonic clock.

    Attributes
    ----------
    store : StateStore or None
        The store, opened.
    checkpoint_failure : Exception or None
        Why the last checkpoint could not be written; None if it was. Nothing is lost: the journal continues, and the checkpoint
        is tried again, first after a second, then at growing intervals of at most a minute.

    Raises
    ------
    CheckpointError
        The store is in use or damaged, or belongs to a service with other settings.
    OSError
        It cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.serving.durable import DurableService
    >>> folder = tempfile.mkdtemp()
    >>> request = b'{"id": 1, "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}'
    >>> killed = DurableService(RankingService(PerceptronRanker()), folder)
    >>> killed.append([killed.service.handle(request).outcome], sync=True)
    >>> killed.close()
    >>> again = DurableService(RankingService(PerceptronRanker()), folder)
    >>> again.service.stats()["ranked"]
    1
    >>> again.close()
    """

    #: Whether changes are kept anywhere; if not, nothing has to be appended.
    keeps = False

    def __init__(
        self,
        service: RankingService,
        store: str | os.PathLike[str] | StateStore | None = None,
        every: int = 10_000,
        replace_model: bool = False,
        remember: float = 86_400.0,
    ) -> None:
        self.service = service
        self.checkpoint_failure: Exception | None = None
        self._every = every
        self.store: StateStore | None = None
        self._gone: list[int] = []
        self._remember = remember
        #: A bit for each of two places of a learned id: most ids are new, and no thread has to ask the database.
        self._seen = bytearray(_BITS // 8)
        #: When the seconds began for which the service runs.
        self._began = time.monotonic()
        #: Learned ids, in JSON, to be forgotten with the next checkpoint, if they were not learned after these changes.
        self._forgotten: dict[str, int] = {}
        # How often something was forgotten, and how often before nothing of it was left in the files.
        self._n_forgets = self._n_covered = self._n_purged = 0
        self.saved_at = service.n_changes
        self._patience, self._not_before = _PATIENCE, 0.0
        if store is not None:
            self.keeps = True
            self.store = opened(store) if isinstance(store, str | os.PathLike) else store
            try:
                self._recover(self.store, replace_model)
            except BaseException:
                self.close()
                raise

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is due."""
        due = self.store is not None and self.service.n_changes - self.saved_at >= self._every
        return due and not self.seconds_to_wait

    @property
    def seconds_to_wait(self) -> float:
        """Seconds until a failed checkpoint is tried again; 0 if none has failed."""
        return 0.0 if self.checkpoint_failure is None else max(0.0, self._not_before - time.monotonic())

    @property
    def is_untidy(self) -> bool:
        """Whether `tidy` has something to do."""
        return self.store is not None and self.store.is_untidy

    @property
    def is_saved(self) -> bool:
        """Whether the last checkpoint covers all changes."""
        return self.store is None or self.service.n_changes == self.saved_at

    @property
    def journal_bytes(self) -> int | None:
        """Size of the journal that a restart would replay. None without a journal."""
        return None if self.store is None else self.store.journal_bytes

    def append(self, outcomes: Sequence[Outcome | None], sync: bool) -> None:
        """Write the changes of requests to the journal, in order; they are on the disk when this returns if `sync`.

        This method, the steps of `writing` and `tidy` may run in another thread than the rest, one at a time.

        Raises
        ------
        OSError, CheckpointError
            They are not on the disk. Nothing may be acknowledged, and nothing more appended.
        """
        happened = [outcome for outcome in outcomes if outcome is not None]
        if self.store is None or not (happened or sync):
            return
        now, first = self._now, self.store.change + 1
        changes, number, learned = [], 0, []
        for place, outcome in enumerate(happened, first):
            change = change_of(outcome, now)
            changes.append(change)
            if change.number is not None:
                number = change.number
            if change.learned is not None:
                learned.append((outcome.fields[1], place))
        self.store.append(changes, sync)
        for outcome, change in zip(happened, changes, strict=True):
            self._gone += outcome.gone
            if change.learned is not None:
                self._see(change.learned[0])
        self.service.stored(number, learned)

    def append_each(self, outcomes: Sequence[Outcome]) -> tuple[int, ValueRefused | None]:
        """Write changes one by one, up to the first whose values the store cannot keep. Returns how many, and that error.

        The changes before it are on the disk. Raises as `append`.
        """
        for n_kept, outcome in enumerate(outcomes):
            try:
                self.append([outcome], sync=True)
            except ValueRefused as error:
                return n_kept, error
        return len(outcomes), None

    def read_again(self) -> None:
        """Let the service be what the store has: nothing is left of changes that were not written. Raises as at the start."""
        if self.store is None:
            return
        began = self._began
        self.store.read_again()
        self._recover(self.store, False)
        self._began = began

    def save(self) -> None:
        """Write a checkpoint. All changes must have been appended. Raises OSError if it cannot be written."""
        for _ in self.writing(self.generation()):
            pass

    def between_commits(self) -> None:
        """Write a checkpoint if it is due, and tidy, when no request is waiting.

        If a checkpoint cannot be written, `checkpoint_failure` has the reason. Raises OSError if the disk fails.
        """
        try:
            if self.is_due:
                self.save()
            self.tidy()
        except (OSError, ValueError, MemoryError) as error:
            if is_fatal(error):
                raise
            _log.error("the checkpoint cannot be written; the journal continues, and it is tried again: %s", error)

    def generation(self) -> Generation | None:
        """A snapshot of the service; None if nothing is kept, or it cannot be taken (see `checkpoint_failure`)."""
        if self.store is None:
            return None
        try:
            snapshot = taken((self.service.without_rows(), self.service._pending.numbers()))
        except (TypeError, ValueError, MemoryError) as error:
            self._failed(error)
            raise
        # What is forgotten from now on is still in this generation.
        self._n_covered, forgotten = self._n_forgets, tuple(self._forgotten.items())
        return Generation(self.service.n_changes, snapshot, tuple(self._gone), self._now - self._remember, forgotten)

    def writing(self, generation: Generation | None) -> Iterator[None]:
        """Write a checkpoint in steps, between which `append` may be called. It must begin before anything else is appended.

        Raises
        ------
        OSError, ValueError, MemoryError
            It could not be written; `checkpoint_failure` keeps the reason.
        """
        if generation is None or self.store is None:
            return
        try:
            yield from self.store.replacing(generation)
            if self._n_covered > self._n_purged:
                yield
                yield from self.store.purge()
        except (OSError, ValueError, MemoryError) as error:
            self._failed(error)
            raise
        del self._gone[: len(generation.gone)]
        for text, change in generation.forgotten:
            if self._forgotten.get(text) == change:
                del self._forgotten[text]
        self._n_purged = self._n_covered
        self.saved_at = generation.change
        self.checkpoint_failure, self._patience = None, _PATIENCE

    def forget(self, wanted: Forget) -> Forgotten:
        """Let the service forget; once the next checkpoint is written, nothing of it is in the files.

        Raises
        ------
        ValueError
            The model cannot forget it; nothing has changed.
        """
        with all_or_nothing(self.service) as changes:
            done = forget(self.service, wanted)
            ids = [*map(id_in_journal, wanted.ids or ())]
            changes.include_entries(self._forgotten, ids)
            # Another thread may be writing: the list and the dictionary stay the same objects.
            self._forgotten.update(dict.fromkeys(ids, self.service.n_changes))
            self._n_forgets += 1
            self._gone += done.queries
        return done

    def set_back(self, now: float) -> int:
        """Let all stored times that lie ahead of `now` be that time, here and in the store. Returns how many there were.

        If it is killed in between, it can be done again. Raises OSError.
        """
        # The rows of queries are part of the digests of the journal, which is empty after a checkpoint.
        self.save()
        n, ids = set_back(self.service, now)
        if self.store is not None:
            pending = self.service._pending
            rows = {number: (query_id, *pending._queries[query_id][1:3], *pending.get(query_id))
                    for query_id in ids if (number := pending.number(query_id)) is not None}  # fmt: skip
            self.store.replace_queries({number: written(row) for number, row in rows.items()})
        self.save()
        return n

    def tidy(self) -> None:
        """Housekeeping between two commits, after requests were answered."""
        if self.store is not None:
            self.store.tidy()

    def close(self) -> None:
        """Release the store. May be called again."""
        if self.store is not None:
            self.store.close()

    def _failed(self, error: Exception) -> None:
        self.checkpoint_failure = error
        self._not_before = time.monotonic() + self._patience
        self._patience = min(2.0 * self._patience, _MOST_PATIENCE)

    def _recover(self, store: StateStore, replace_model: bool) -> None:
        """Continue from the newest generation, and replay the journal since then."""
        if store.saved.value is None:
            if self.service.n_changes:
                raise CheckpointError(
                    f"{store} has no state, and the service is not new: its queries and ids are in no journal"
                )
            # At once, because the journal can only be replayed with the parameters that it began with.
            self.save()
        else:
            given, self.service = self.service, restored_service(store.saved, str(store), self._see)
            changed = go_on(self.service, given, str(store), replace_model)
            # Counted before the replayed changes: otherwise a service killed again and again would never write a checkpoint.
            self.saved_at = store.saved.start
            waiting = {*self.service._pending.numbers().tolist()}
            self._gone = [number for number in store.saved.queries() if number not in waiting]
            self._began -= store.saved.latest
            if changed:
                self.save()
        self.service.keep_in_store(lambda number: tuple(parsed(store.query(number))[3:]), self._find_learned)

    @property
    def _now(self) -> float:
        """Seconds for which the service has run, as far as its learned ids know."""
        return time.monotonic() - self._began

    def _find_learned(self, query_id: str | int) -> int | None:
        """The digest of the feedback from which a query was learned; None if that is unknown, forgotten or too long ago."""
        text = id_in_journal(query_id)
        for place in _places(text):
            if not self._seen[place >> 3] >> (place & 7) & 1:
                return None
        found = None if self.store is None else self.store.learned(text)
        if found is None or found[0] <= self._forgotten.get(text, 0) or found[2] < self._now - self._remember:
            return None
        return found[1]

    def _see(self, query_id: str) -> None:
        """An id, in JSON, may be found in the store."""
        for place in _places(query_id):
            self._seen[place >> 3] |= 1 << (place & 7)


def is_fatal(error: Exception) -> bool:
    """Whether an error means that the journal cannot be trusted either, since earlier writes may not be on the disk."""
    return isinstance(error, OSError) and error.errno == errno.EIO


def is_for_room(error: BaseException) -> TypeGuard[OSError]:
    """Whether an error means that there is no room, or the database is busy: nothing was written, and later it may be."""
    return isinstance(error, OSError) and error.errno in (*FULL, errno.EBUSY)


def read_service(path: str | os.PathLike[str]) -> RankingService:
    """The current service in a folder, or in a PostgreSQL database, even while another process uses it.

    Raises
    ------
    CheckpointError, ModelFileError
        It is damaged, or was not written by a service.
    OSError
        There is none, or it cannot be read.
    """
    with saved_in(path) as saved:
        return restored_service(saved, str(path))


def _places(text: str) -> tuple[int, int]:
    """The places of a text in the filter of this process."""
    number = hash(text)
    return number % _BITS, number // _BITS % _BITS


def restored_service(saved: Saved, store: str, see: Callable[[str], None] = lambda _: None) -> RankingService:
    """The saved service, with the changes since its generation; `store` is named in messages, `see` gets learned ids.

    Raises CheckpointError: OtherService for what was not written by a service.
    """
    service = saved.value
    if not isinstance(service, RankingService):
        raise OtherService(f"{store} does not hold the state of a service")
    try:
        go_on = gc.enable if gc.isenabled() else gc.isenabled
        try:
            # Collecting garbage would find nothing and take longer than parsing.
            gc.disable()
            service.restore({number: parsed(content) for number, content in saved.waiting()})
        finally:
            go_on()
        for outcome, number, content in saved.since():
            fields, _, feedback = outcome.partition(b"\n")
            service.replay(msgspec.json.decode(fields), number, () if content is None else parsed(content), feedback)
        service.require_free(saved.queries())
    except CheckpointError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{store}: the journal cannot be replayed: {error}") from error
    # The rows of these ids will be all that is known of them, when the journal, which was replayed here, is gone.
    stored = {}
    for text, change, digest in saved.learned():
        see(text)
        if change > saved.start:
            stored[text] = change, digest
    for query_id, row in service.take_learned().items():
        if stored.get(id_in_journal(query_id)) != row:
            raise CheckpointError(f"{store}: the id learned by change {row[0]} is missing or damaged")
    return service
