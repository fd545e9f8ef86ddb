"""The runtime functions that numba's machine code calls: reference counting of the arrays that kernels allocate.

numba's MemInfo is {count, destructor, its argument, data, size, allocator}.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

BYTE, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER = BYTE.as_pointer()
_DOUBLE = ir.DoubleType()
_WORDS, _SIZE = 6, 48


def declared(module: Any, name: str, result: Any, arguments: list[Any], var_arg: bool = False) -> Any:
    """The function with a name, declared once."""
    if name in module.globals:
        return module.globals[name]
    return ir.Function(module, ir.FunctionType(result, arguments, var_arg=var_arg), name)


def _begin(module: Any, name: str, result: Any, arguments: list[Any]) -> tuple[Any, Any]:
    function = declared(module, name, result, arguments)
    return function, ir.IRBuilder(function.append_basic_block())


def add_runtime(module: Any) -> None:
    """Define these functions in a module; unused ones are dropped by the linker."""
    null = ir.Constant(POINTER, None)
    aligned, b = _begin(module, "NRT_MemInfo_alloc_aligned", POINTER, [INT64, INT32])
    size, align = aligned.args[0], b.zext(aligned.args[1], INT64)
    block = b.call(declared(module, "malloc", POINTER, [INT64]), [b.add(b.add(size, align), INT64(_SIZE))])
    with b.if_then(b.icmp_unsigned("==", block, null)):
        b.ret(null)
    start = b.add(b.ptrtoint(block, INT64), INT64(_SIZE))
    past = b.urem(start, align)
    start = b.add(start, b.select(b.icmp_unsigned("==", past, INT64(0)), INT64(0), b.sub(align, past)))
    words = b.bitcast(block, INT64.as_pointer())
    for k, value in enumerate((INT64(1), INT64(0), INT64(0), start, size, INT64(0))):
        b.store(value, b.gep(words, [INT64(k)]))
    b.ret(block)

    function, b = _begin(module, "NRT_MemInfo_alloc", POINTER, [INT64])
    b.ret(b.call(aligned, [function.args[0], INT32(16)]))
    function, b = _begin(module, "NRT_Allocate", POINTER, [INT64])
    b.ret(b.call(declared(module, "malloc", POINTER, [INT64]), [function.args[0]]))
    _add_reshape(module)
    for name in ("NRT_MemInfo_call_dtor", "NRT_Free"):
        function, b = _begin(module, name, ir.VoidType(), [POINTER])
        b.call(declared(module, "free", ir.VoidType(), [POINTER]), [function.args[0]])
        b.ret_void()
    for name, of_libm, arguments in (
        ("numba_ldexp", "ldexp", [_DOUBLE, INT32]),
        ("numba_nextafter", "nextafter", [_DOUBLE] * 2),
    ):
        function, b = _begin(module, name, _DOUBLE, arguments)
        b.ret(b.call(declared(module, of_libm, _DOUBLE, arguments), list(function.args)))


def _add_reshape(module: Any) -> None:
    """Strides of a reshaped array; only contiguous ones, since kernels reshape no others."""
    words = INT64.as_pointer()
    arguments = [INT64, words, words, INT64, words, words, INT64, INT32]
    function, b = _begin(module, "numba_attempt_nocopy_reshape", INT32, arguments)
    n, shape, strides, new_n, new_shape, new_strides, size, _ = function.args
    expected = b.alloca(INT64)

    def backwards(length: Any, place: Any) -> Any:
        """The indices of the dimensions, from the last to the first."""
        return b.gep(place[0], [b.sub(b.sub(length, INT64(1)), place[1])])

    # Empty arrays may have any strides; numpy's have 0.
    b.store(INT64(1), expected)
    with cgutils.for_range(b, n) as loop:
        b.store(b.mul(b.load(expected), b.load(backwards(n, (shape, loop.index)))), expected)
    holds = b.icmp_signed("!=", b.load(expected), INT64(0))
    b.store(size, expected)
    with cgutils.for_range(b, n) as loop:
        length = b.load(backwards(n, (shape, loop.index)))
        stride = b.load(backwards(n, (strides, loop.index)))
        other = b.icmp_signed("!=", stride, b.load(expected))
        with b.if_then(b.and_(b.and_(other, holds), b.icmp_signed(">", length, INT64(1))), likely=False):
            b.ret(INT32(0))
        b.store(b.mul(b.load(expected), length), expected)
    b.store(size, expected)
    with cgutils.for_range(b, new_n) as loop:
        b.store(b.load(expected), backwards(new_n, (new_strides, loop.index)))
        b.store(b.mul(b.load(expected), b.load(backwards(new_n, (new_shape, loop.index)))), expected)
    b.ret(INT32(1))
