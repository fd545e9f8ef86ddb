"""Models to go back to: the one before, and those with which the last days began."""

import datetime
import re

from online_rank.serving.cached import Cache
from online_rank.serving.clock import CLOCK
from online_rank.serving.forgetting import without
from online_rank.serving.messages import Forget
from online_rank.serving.outcomes import PREVIOUS
from online_rank.storage.store import StateStore

#: The names of their files, each with its day.
SNAPSHOT = re.compile(r"snapshot-(\d{4}-\d\d-\d\d)\.npz")


class KeptModels:
    """The files of models, by the days that began with them; None stands for the model before.

    The model before is in memory too: a disk that fails does not lose it. Methods may run in any thread, one at a time.

    Parameters
    ----------
    store
        Where the files are; None keeps only the model before.
    n_days
        For how many days they are kept.
    cache
        A folder that has the present model, too; None for none.
    """

    def __init__(self, store: StateStore | None, n_days: int = 0, cache: Cache | None = None) -> None:
        self._store, self._n_days, self._day = store, n_days, ""
        self.cache = cache
        #: The version of the model in the cache, once this process has put one there.
        self.cached = ""
        self._previous: bytes | None = None

    @property
    def lacks_today(self) -> bool:
        """Whether the model with which this day began should be kept, and is not."""
        return bool(self._n_days) and self._store is not None and self._day != today()

    def days(self) -> list[str]:
        """The days whose models are kept, in order. Raises OSError."""
        names = [] if self._store is None else self._store.file_names()
        return sorted(found[1] for name in names if (found := SNAPSHOT.fullmatch(name)))

    def get(self, day: str | None = None) -> bytes | None:
        """The file of a model; None if it is not kept. Raises OSError."""
        if self._store is None or (day is None and self._previous is not None):
            return self._previous if day is None else None
        return self._store.file(_name(day))

    def put(self, content: bytes, day: str | None = None) -> None:
        """Keep the file of a model. Raises OSError."""
        if day is None:
            self._previous = content
        if self._store is not None:
            self._store.put_file(_name(day), content)

    def complete(self, day: str) -> None:
        """The model of this day is kept: delete the models of all but the last days. Raises OSError.

        Later days are of a clock that is wrong now, or was wrong then: they take no place of others, nor lose theirs.
        """
        days = self.days()
        for those in ([each for each in days if each <= day], [each for each in days if each > day]):
            for old in those[: -self._n_days]:
                self._store.delete_file(_name(old))  # type: ignore[union-attr]
        self._day = day

    def without(self, wanted: Forget) -> tuple[dict[str | None, bytes], frozenset[str]]:
        """The files that a request to forget has to change, and the names of features that go. Raises ValueError, OSError."""
        changed, names = dict[str | None, bytes](), frozenset[str]()
        for day in (None, *self.days()):
            content = self.get(day)
            if content is not None:
                try:
                    made, found = without(content, wanted)
                except ValueError as error:
                    raise ValueError(f"{_name(day)}: {error}") from error
                names |= found
                changed |= {} if made is content else {day: made}
        return changed, names


def today() -> str:
    """The day, in UTC."""
    return datetime.datetime.fromtimestamp(CLOCK.now(), datetime.UTC).date().isoformat()


def _name(day: str | None) -> str:
    return PREVIOUS if day is None else f"snapshot-{day}.npz"
