"""Functions that only kernels call have no separate machine code, also when they come from numba's cache."""

import importlib
import sys

import numba
import numpy as np
import pytest

SOURCE = """
import numpy as np
from online_rank._kernels._jit import inner, kernel, leaf

@leaf
def square(x):
    return x * x

@inner
def squares(values):
    found = np.empty_like(values)
    for i in range(len(values)):
        found[i] = square(values[i])
    return found

@kernel
def total(values):
    return squares(values).sum() + square(1.0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Three functions that numba has not seen, and an empty cache."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    (tmp_path / "linked_example.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda: importlib.reload(importlib.import_module("linked_example"))
    sys.modules.pop("linked_example", None)


def _dispatcher(function):
    return getattr(function, "dispatcher", function)


def _result(function):
    (result,) = _dispatcher(function).overloads.values()
    return result


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_they_are_linked_and_not_translated(module):
    module = module()
    assert module.total(np.array([1.0, 2.0, 3.0])) == 15.0
    for function in module.squares, module.square:
        result = _result(function)
        assert result.library.get_pointer_to_function(result.fndesc.llvm_func_name) == 0
    result = _result(module.total)
    assert result.library.get_pointer_to_function(result.fndesc.llvm_cpython_wrapper_name) != 0


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_what_another_process_compiled_is_linked_too(module):
    first = module()
    assert first.total(np.array([1.0, 2.0])) == 6.0
    # The kernel is compiled for another type, the functions that it calls with it come from the cache.
    second = module()
    assert second.total(np.array([1.0, 9.0, 2.0, 9.0])[::2]) == 6.0
    assert _dispatcher(second.square).stats.cache_hits.total() == 1
    assert second.total(np.array([1.0, 2.0])) == 6.0
    assert _dispatcher(second.total).stats.cache_hits.total() == 1
