"""The runtime functions that numba's machine code calls: reference counting of the arrays that kernels allocate.

numba's MemInfo is {count, destructor, its argument, data, size, allocator}.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from online_rank._kernels.ahead.loading import BLAS

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
    free = declared(module, "free", ir.VoidType(), [POINTER])
    for name in ("NRT_Free", "NRT_MemInfo_call_dtor"):
        function, b = _begin(module, name, ir.VoidType(), [POINTER])
        b.call(free, [function.args[0]])
        b.ret_void()
    _add_blas(module)
    for name, of_libm, arguments in (
        ("numba_ldexp", "ldexp", [_DOUBLE, INT32]),
        ("numba_nextafter", "nextafter", [_DOUBLE] * 2),
    ):
        function, b = _begin(module, name, _DOUBLE, arguments)
        b.ret(b.call(declared(module, of_libm, _DOUBLE, arguments), list(function.args)))


def _add_blas(module: Any) -> None:
    """numba's ways to the BLAS, for float64 and float32: `kind` is 'd' or 's'. They answer 0. `loading` fills the slots."""
    for name in BLAS:
        slot = ir.GlobalVariable(module, POINTER, f"online_rank_{name}")
        slot.initializer = ir.Constant(POINTER, None)

    def by_reference(b: Any, value: Any) -> Any:
        value = b.trunc(value, INT32) if value.type == INT64 else value
        place = b.alloca(value.type)
        b.store(value, place)
        return b.bitcast(place, POINTER)

    def call(b: Any, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, [POINTER] * len(arguments)).as_pointer()
        return b.call(b.bitcast(b.load(module.globals[f"online_rank_{name}"]), kind), arguments)

    def each(name: str, arguments: list[Any], body: Any) -> None:
        function, b = _begin(module, name, INT32, arguments)
        with b.if_else(b.icmp_signed("==", function.args[0], BYTE(ord("d")))) as (double, single):
            with double:
                body(b, "d", function.args)
            with single:
                body(b, "s", function.args)
        b.ret(INT32(0))

    def gemm(b: Any, kind: str, given: Any) -> None:
        _, trans_a, trans_b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc = given
        sizes = [by_reference(b, value) for value in (trans_a, trans_b, m, n, k)]
        lda, ldb, ldc = (by_reference(b, value) for value in (lda, ldb, ldc))
        call(b, f"{kind}gemm", ir.VoidType(), [*sizes, alpha, A, lda, B, ldb, beta, C, ldc])

    def gemv(b: Any, kind: str, given: Any) -> None:
        _, trans, m, n, alpha, A, lda, x, beta, y = given
        sizes = [by_reference(b, value) for value in (trans, m, n)]
        one = by_reference(b, INT32(1))
        call(b, f"{kind}gemv", ir.VoidType(), [*sizes, alpha, A, by_reference(b, lda), x, one, beta, y, one])

    def dot(b: Any, kind: str, given: Any) -> None:
        _, _, n, x, y, out = given
        result, one = _DOUBLE if kind == "d" else ir.FloatType(), by_reference(b, INT32(1))
        b.store(call(b, f"{kind}dot", result, [by_reference(b, n), x, one, y, one]), b.bitcast(out, result.as_pointer()))

    p, i = POINTER, INT64
    each("numba_xxgemm", [BYTE, BYTE, BYTE, i, i, i, p, p, i, p, i, p, p, i], gemm)
    each("numba_xxgemv", [BYTE, BYTE, i, i, p, p, i, p, p, p], gemv)
    each("numba_xxdot", [BYTE, BYTE, i, p, p, p], dot)
    function, b = _begin(module, "numba_gil_ensure", ir.VoidType(), [POINTER])
    state = b.call(declared(module, "PyGILState_Ensure", INT32, []), [])
    b.store(state, b.bitcast(function.args[0], INT32.as_pointer()))
    b.ret_void()


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
