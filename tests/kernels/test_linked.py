"""Functions that only kernels call have no separate machine code, also when they come from numba's cache."""

import gc
import importlib
import operator
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

@kernel
def twice(values):
    return 2.0 * total(values)

@leaf
def times(x, n):
    found = 1.0
    for i in range(n):
        found *= x
    return found

@kernel
def power(x, n):
    return times(x, n) * times(x, 3)

@inner
def elements(a, b, u, out):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[-1, i] + b[i % 2, np.uint64(i % 3)] + out[u[i]] / (i + 1)
        b[0, i] = i
        out[i] = total
        out[-1] = 3
        out[0] = total > 1.0
        u[i] = 250 + i
    return total

@kernel
def use_elements(a, b, u, out):
    return elements(a, b, u, out)

@inner
def of_arrays(values):
    return (2.0 * values + values[::-1]) / 4.0

@kernel
def use_arrays(values):
    return of_arrays(values)
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


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_constants_and_variables_share_one_version(module):
    module = module()
    assert module.power(2.0, 1) == 2.0 * 2.0 * 2.0 * 2.0
    assert len(_dispatcher(module.times).overloads) == 1


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_an_entry_is_linked_where_kernels_call_it(module):
    module = module()
    assert module.twice(np.array([1.0, 2.0])) == 2.0 * (1.0 + 4.0 + 1.0)
    # Its machine code is for Python, which has not called it.
    assert not _dispatcher(module.total).overloads
    assert module.total(np.array([1.0, 2.0])) == 1.0 + 4.0 + 1.0
    # Both are found in the cache.
    again = importlib.reload(module)
    assert again.twice(np.array([1.0, 2.0])) == 12.0
    assert again.total(np.array([1.0, 2.0])) == 6.0
    assert _dispatcher(again.total).stats.cache_hits.total() == 1


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
@pytest.mark.parametrize("step", [1, 2])
def test_elements_are_those_that_numba_reads_and_writes(module, step):
    """At places of each kind: negative, unsigned, constant, of slices; with values that are converted."""

    def arrays():
        rng = np.random.default_rng(0)
        b, u = rng.random((2, 8)).astype(np.float32), rng.integers(0, 8, 8).astype(np.uint8)
        return rng.random(8)[::step], b[:, ::step], u[::step], rng.random(300)

    by_kernel, by_numba, module = arrays(), arrays(), module()
    assert module.use_elements(*by_kernel) == numba.njit(module.elements.py_func)(*by_numba)
    for one, other in zip(by_kernel, by_numba, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_expressions_of_arrays_need_no_separate_step(module):
    assert module().use_arrays(np.array([1.0, 2.0])).tolist() == [(2.0 + 2.0) / 4.0, (4.0 + 1.0) / 4.0]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_signatures_of_operators_are_looked_up_once(module, monkeypatch):
    """numba looked for each sum in each kernel, twice at least, among all that was registered for sums."""
    asked, look_up, context = [], numba.types.Function.get_call_type, numba.core.registry.cpu_target.typing_context

    def look_up_and_note(function, context, arguments, named):
        asked.append((function, tuple(arguments)))
        return look_up(function, context, arguments, named)

    monkeypatch.setattr(numba.types.Function, "get_call_type", look_up_and_note)
    module().use_elements(np.ones(8), np.ones((2, 8), np.float32), np.ones(8, np.uint8), np.ones(300))
    # Where bounds are checked, numba writes elements, and asks again.
    for operator_ in (operator.add, operator.iadd, *([] if numba.config.BOUNDSCHECK else [operator.getitem])):
        found = [call for call in asked if call[0].typing_key is operator_]
        assert len(found) == len(set(found)) > 0
    assert "resolve_function_type" not in vars(context)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_garbage_is_collected_as_before_once_a_kernel_is_compiled(module):
    before = gc.get_threshold()
    assert module().total(np.array([1.0])) == 2.0
    assert gc.get_threshold() == before


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs numba")
def test_operators_are_found_where_functions_were_registered_since_types_were_found(module, monkeypatch):
    """A KeyError (float64, float64): numba then has a new object for the operator, which has not met these types."""
    from online_rank._kernels import linked

    lower = linked._Lowering.run_pass

    def later(self, state):
        numba.extending.overload(operator.mul)(lambda a, b: None)
        state.typingctx.refresh()
        return lower(self, state)

    monkeypatch.setattr(linked._Lowering, "run_pass", later)
    assert module().total(np.array([1.0, 2.0])) == 6.0
