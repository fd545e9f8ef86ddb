"""Snapshots: the models with which the last days began, to go back to."""

import datetime
import re

from online_rank.serving.clock import CLOCK
from online_rank.storage.store import StateStore

__all__ = ["SNAPSHOT", "days", "keep_for", "named", "today"]

#: The names of their files, each with its day.
SNAPSHOT = re.compile(r"snapshot-(\d{4}-\d\d-\d\d)\.npz")


def today() -> str:
    """The day, in UTC."""
    return datetime.datetime.fromtimestamp(CLOCK.now(), datetime.UTC).date().isoformat()


def named(day: str) -> str:
    """The name of the file of a day.

    Examples
    --------
    >>> named("2026-11-25")
    'snapshot-2026-11-25.npz'
    """
    return f"snapshot-{day}.npz"


def days(store: StateStore) -> list[str]:
    """The days of which a store has a snapshot, in order. Raises OSError."""
    return sorted(found[1] for name in store.file_names() if (found := SNAPSHOT.fullmatch(name)))


def keep_for(store: StateStore, n_days: int) -> None:
    """Delete the snapshots of all but the last days, today's included. Raises OSError."""
    for day in days(store)[:-n_days]:
        store.delete_file(named(day))
