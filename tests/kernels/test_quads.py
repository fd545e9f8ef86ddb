"""Four sums at once, as a kernel makes them and as plain Python does."""

import numba
import numpy as np

from online_rank._kernels import quads


def test_four_neighbours_grow_and_no_other():
    values, expected = np.arange(8.0), [0.0, 1.0, 2.0, 3.5, 3.0, 5.0, 1e300, 7.0]

    @numba.njit
    def compiled(target, i):
        quads_add_four(target, i, 0.5, -1.0, 0.0, 1e300)

    for add in (compiled, lambda target, i: quads._add_four(target, i, 0.5, -1.0, 0.0, 1e300)):
        target = values.copy()
        add(target, 3)
        assert target.tolist() == expected


quads_add_four = quads.add_four
