"""Where the state of a service is, by its name: in a folder, or in a PostgreSQL database."""

import os
from contextlib import AbstractContextManager

from online_rank.storage.postgres import PostgresState, is_postgres, saved_in_postgres
from online_rank.storage.saved import Saved, saved_state
from online_rank.storage.state import StateDirectory
from online_rank.storage.store import StateStore

Place = str | os.PathLike[str]


def opened(place: Place) -> StateStore:
    """Open a state, to read and write it. Raises as `StateDirectory` and `PostgresState`."""
    return PostgresState(str(place)) if is_postgres(place) else StateDirectory(place)


def saved_in(place: Place) -> AbstractContextManager[Saved]:
    """Read a state, even while another process uses it. Raises as `saved_state`."""
    return saved_in_postgres(str(place)) if is_postgres(place) else saved_state(place)
