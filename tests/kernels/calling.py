"""Calls from Python of kernels that only kernels call."""

import functools
from typing import NamedTuple

import numba
import numpy as np

from online_rank._kernels import workspace as workspaces
from online_rank._kernels._jit import _teach_numba
from online_rank._kernels.graded import Graded, gain


@functools.cache
def from_python(inner):
    """A function that Python can call, which calls the inner kernel; the kernel itself where nothing is compiled.

    The kernel is the one that other kernels call, so what numba has compiled of it is in its cache.
    """
    if not hasattr(inner, "py_func"):
        return inner
    _teach_numba()  # Where kernels were compiled ahead, what `inner` calls is not compiled yet.
    if inner.targetoptions.get("inline") == "always":
        return numba.njit(error_model="numpy")(inner.py_func)  # numba inlines no call with *arguments.
    return numba.njit(lambda *arguments: inner(*arguments))


class Module(NamedTuple):
    """A module of kernels, all of whose functions Python can call."""

    module: object

    def __getattr__(self, name):
        return from_python(getattr(self.module, name))


def workspace(longest):
    """A `Workspace` for queries of up to `longest` documents."""
    return from_python(workspaces.workspace)(longest)


def graded(y, kind=0, depth=None):
    """Grades (m,) as kernels see them; Z(R) is left at 1."""
    grade, level, count = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    gains = np.array([from_python(gain)(kind, int(g)) for g in grade])
    level = level.astype(np.int64)
    return Graded(len(grade), level, grade.astype(np.int64), gains, count.astype(np.int64), depth or len(level), 1.0)
