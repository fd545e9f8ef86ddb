"""Random generators determined by a seed and a draw number."""

import functools
import zlib
from typing import Any

import numpy as np


def counted_generator(owner: Any, seed: int, number: int) -> np.random.Generator:
    """The generator of draw `number` of an object with a seed, whose only random state is then a count.

    The class is part of the key. All seeds are 0 by default, and without it a simulated user would draw the same numbers as the
    policy that ranked, and click on what the policy happened to put on top.

    Parameters
    ----------
    owner
        The object that draws.
    seed, number
        Its seed and the number of the draw, integers >= 0.

    Examples
    --------
    >>> from online_rank.base.draws import counted_generator
    >>> one, again, other = (counted_generator(owner, seed=0, number=3).random() for owner in ("a", "b", 1))
    >>> one == again, one == other
    (True, False)
    """
    return np.random.default_rng([_salt(type(owner).__name__), int(seed), int(number)])


@functools.cache
def _salt(name: str) -> int:
    return zlib.crc32(name.encode())
