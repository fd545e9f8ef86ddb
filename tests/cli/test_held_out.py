"""What is foretold of held-out clicks, in a time that does not grow with the deepest position."""

import numpy as np
import pytest

from online_rank.cli.held_out import HeldOut


def drawn(deepest):
    """Lists of ten documents, the last one at the deepest position."""
    draw, held_out = np.random.default_rng(0), HeldOut()
    for _ in range(60):
        places, gains = np.arange(10), np.zeros(10)
        places[-1], gains[draw.integers(10)] = deepest - 1, 1.0
        held_out.lists.append((draw.normal(size=10), places, gains))
    return held_out


def test_one_deep_position_takes_no_more_room_and_says_the_same():
    # At 10**6, a matrix with a row for each position would take 8 TB.
    assert drawn(10**6).loss() == pytest.approx(drawn(100).loss(), rel=1e-12)
    assert drawn(10**6).loss() == pytest.approx(drawn(50).loss(), rel=1e-9)
