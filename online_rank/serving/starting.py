"""A service whose state cannot be opened when it starts ranks all the same, and learns as soon as it can be opened.

It ranks with the state as it lies there, which is read without writing. If that is damaged, it ranks with the newest model that
is whole: in the cache, of a day, or the one before the last. Without one it ranks as a new service does, and says that
requests should go elsewhere. Meanwhile it is as on a full disk: rankings are greedy, and feedback is answered with 503.
"""

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from online_rank.serving.cached import Cache
from online_rank.serving.durable import DurableService, restored_service
from online_rank.serving.identity import OtherService, go_on
from online_rank.serving.outcomes import PREVIOUS
from online_rank.serving.protocol import RankingService
from online_rank.serving.served import ServedModel
from online_rank.serving.snapshots import SNAPSHOT
from online_rank.storage.checkpoint import STATE
from online_rank.storage.database import at_rest
from online_rank.storage.files import ModelFileError, from_bytes
from online_rank.storage.folder import Folder, FolderInUse
from online_rank.storage.saved import Saved
from online_rank.storage.state import has_state

if TYPE_CHECKING:
    from online_rank.serving.models import Models

_log = logging.getLogger("online_rank.serving")

#: Seconds until a state is opened again, at first and at most: damaged ones are read in full each time.
_FIRST, _MOST = 1.0, 30.0

_NO_MODEL = "no learned model can be read: documents are ranked as by a new service"


class StandIn(ServedModel):
    """A model that ranks until its state can be opened.

    Parameters
    ----------
    service
        A service that is kept nowhere.
    why
        Why the state cannot be opened.
    again
        Opens it, and raises OSError or ValueError; None if others do that.
    is_learned
        Whether the service has learned as much as one that was not to be opened may have.
    """

    def __init__(
        self,
        service: RankingService,
        why: Exception,
        again: Callable[[], ServedModel] | None = None,
        is_learned: bool = True,
    ) -> None:
        super().__init__(DurableService(service))
        self.again = again
        self.why_not_ready = "" if is_learned else _NO_MODEL
        self.wait_for(why)

    def wait_for(self, why: Exception) -> None:
        """Why nothing can change now."""
        self.commits.full = as_os_error(why)


def as_os_error(error: Exception) -> OSError:
    """An error because of which nothing can be written."""
    return error if isinstance(error, OSError) else OSError(errno.EIO, str(error) or type(error).__name__)


def has_to_be_chosen(why: Exception) -> bool:
    """Whether nothing ranks until a person chooses: other options, another folder, a later release."""
    is_other = isinstance(why, OtherService | FolderInUse | FileNotFoundError | NotADirectoryError)
    return is_other or (isinstance(why, ModelFileError) and why.later)


def stand_in(
    make: Callable[[], RankingService],
    place: str | Path,
    why: Exception,
    again: Callable[[], ServedModel],
    *,
    replace_model: bool = False,
    cache: Cache | None = None,
) -> StandIn:
    """A model that ranks in place of one whose folder cannot be opened.

    Raises
    ------
    OSError, ValueError
        `why`, if the folder is of another service, in use, written by a later release, or at an address that does not exist.
    """
    if has_to_be_chosen(why):
        raise why
    _log.error("%s cannot be opened; until it can be, queries are ranked and nothing is learned: %s", place, why)
    folder = Path(place)
    try:
        if not has_state(folder):  # A new service.
            return StandIn(make(), why, again)
        with Folder(folder), at_rest(folder, STATE) as rows:
            service = restored_service(Saved(rows), str(folder))
    except FolderInUse:
        raise
    except (OSError, ValueError) as error:
        _log.error("its state cannot be read: %s", error)
    else:
        go_on(service, make(), str(folder), replace_model)
        return StandIn(service, why, again)
    kept = _with_kept_model(make, folder, cache)
    return StandIn(kept or make(), why, again, is_learned=kept is not None)


def with_cached_model(make: Callable[[], RankingService], cache: Cache) -> RankingService | None:
    """A new service with the model of a cache; None without a model that can be used."""
    return _with(make, cache.get(), f"the model in {cache.folder}")


def _with_kept_model(make: Callable[[], RankingService], folder: Path, cache: Cache | None) -> RankingService | None:
    """A new service with the newest model that is whole; None without one."""
    service = None if cache is None else with_cached_model(make, cache)
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted((path.name for path in folder.iterdir() if SNAPSHOT.fullmatch(path.name)), reverse=True)
    for name in (*names, PREVIOUS):
        if service is None:
            with contextlib.suppress(OSError):
                service = _with(make, (folder / name).read_bytes(), name)
    return service


def _with(make: Callable[[], RankingService], content: bytes | None, name: str) -> RankingService | None:
    if content is None:
        return None
    service = make()
    try:
        service.replace_model(from_bytes(content), None)
    except (ValueError, TypeError) as error:
        _log.error("%s cannot be used: %s", name, error)
        return None
    _log.warning("%s ranks", name)
    return service


async def open_again(models: "Models") -> None:
    """Let models that only rank learn as soon as their state can be opened, as long as this runs."""
    seconds = _FIRST
    while True:
        await asyncio.sleep(seconds)
        seconds = min(2.0 * seconds, _MOST)
        for key, model in [*models.open_models.items()]:
            if isinstance(model, StandIn) and model.again is not None and await _is_opened(models, key, model, model.again):
                seconds = _FIRST


async def _is_opened(models: "Models", key: str, model: StandIn, again: Callable[[], ServedModel]) -> bool:
    try:
        opened = await asyncio.to_thread(again)
    except (OSError, ValueError) as error:
        model.wait_for(error)
        return False
    if models.open_models.get(key) is not model:  # Its key was deleted meanwhile.
        await asyncio.to_thread(opened.durable.close)
        return False
    models.exchange(key, opened)
    _log.warning("the state of %s was opened: learning continues", opened.durable.store)
    return True
