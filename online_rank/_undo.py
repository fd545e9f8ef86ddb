"""Changes of which either all are made or none."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
from river import base

__all__ = ["all_or_nothing", "begin"]


def begin(part: base.Base) -> Callable[[], None]:
    """Make `part` ready for a change that may fail; calling the answer undoes it.

    The change is made to copies of the arrays, and all other state is replaced, never changed in place; so undoing is putting
    the old values back. A part with other state says how in a method `_begin` of its own.
    """
    before = dict(part.__dict__)
    part.__dict__.update({name: value.copy() for name, value in before.items() if isinstance(value, np.ndarray)})

    def undo() -> None:
        part.__dict__.clear()
        part.__dict__.update(before)

    return undo


@contextlib.contextmanager
def all_or_nothing(*parts: base.Base) -> Iterator[None]:
    """Undo every change to the state of `parts` (rankers, transformers, metrics) when the body raises; see `begin`."""
    undo = [part._begin() if hasattr(part, "_begin") else begin(part) for part in parts]
    try:
        yield
    except BaseException:
        for undo_part in undo:
            undo_part()
        raise
