"""The functions through which Python calls machine code: `PyObject *entry(PyObject *fallback, PyObject *const *args, Py_ssize_t
n)`.

An entry tries one signature after the other: it checks the type of each argument, releases the GIL and calls numba's code. If
none fits, it calls `fallback(*args)`. It uses only Python's stable functions and the offsets of an array's data, shape and
strides (`loading`), so an object does not depend on the version of Python or numpy.
"""

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba.core import types

from online_rank._kernels.ahead import loading
from online_rank._kernels.ahead.runtime import BYTE, INT32, INT64, POINTER, add_runtime, declared

DOUBLE = ir.DoubleType()
_NULL = ir.Constant(POINTER, None)
#: Return codes of numba's code: 0 for a value, -2 for None, -1 if a Python error is set, and from 1 on another error.
_NONE, _PYTHON_ERROR = -2, -1
#: Python's Py_TPFLAGS_TUPLE_SUBCLASS: set in the flags of `tuple` and of every class derived from it.
_TUPLE_SUBCLASS = 1 << 26

_NUMBERS = {types.int64: INT64, types.float64: DOUBLE, types.boolean: BYTE}


class Unsuited(TypeError):
    """A type of argument or result that the wrappers do not support."""


def is_tuple(kind: Any) -> bool:
    """Whether a type is a tuple, named or not."""
    return isinstance(kind, types.BaseTuple)


def module_of_wrappers(triple: str) -> "ir.Module":
    """A module with the runtime and the slots that `loading` fills."""
    module = ir.Module("online_rank_entries")
    module.triple = triple
    for name in ("ndarray", "int64", "float64", "raise"):
        slot = ir.GlobalVariable(module, POINTER, f"online_rank_{name}")
        slot.initializer = _NULL
    add_runtime(module)
    return module


def add_entry(module: "ir.Module", name: str, signatures: list[tuple[str, Any, tuple[Any, ...]]]) -> str:
    """Add the entry of a kernel; signatures: (symbol, type of the result, types of the arguments). Returns its symbol."""
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), INT64]), f"entry.{name}")
    builder = ir.IRBuilder(function.append_basic_block("begin"))
    bodies = [function.append_basic_block(f"signature{k}") for k in range(len(signatures))]
    other = function.append_basic_block("other")
    builder.branch(bodies[0])
    for body, following, signature in zip(bodies, [*bodies[1:], other], signatures, strict=True):
        builder.position_at_end(body)
        _Call(module, builder, function, following).add(*signature)
    builder.position_at_end(other)
    fallback, args, n = function.args
    call = declared(module, "PyObject_Vectorcall", POINTER, [POINTER, POINTER.as_pointer(), INT64, POINTER])
    builder.ret(builder.call(call, [fallback, args, n, _NULL]))
    return function.name


def mark_blas(module: "ir.Module", names: Iterable[str]) -> None:
    """Mark the kernels that call the BLAS, for `loading`."""
    for name in names:
        ir.GlobalVariable(module, BYTE, f"online_rank_blas_of.{name}").initializer = BYTE(1)


class _Call:
    """One signature of an entry: checks, the call, and what it returns."""

    def __init__(self, module: Any, builder: Any, function: Any, unfit: Any) -> None:
        self.module, self.b, self.function, self.unfit = module, builder, function, unfit
        self.values: list[Any] = []

    def add(self, symbol: str, result: Any, arguments: tuple[Any, ...]) -> None:
        b = self.b
        _, args, n = self.function.args
        self._need(b.icmp_signed("==", n, INT64(len(arguments))))
        for k, kind in enumerate(arguments):
            self._take(b.load(b.gep(args, [INT64(k)])), kind)
        returned = _type_of_result(result)
        slot, error = b.alloca(returned), b.alloca(POINTER)
        b.store(ir.Constant(returned, None), slot)
        kinds = [returned.as_pointer(), POINTER.as_pointer(), *[value.type for value in self.values]]
        code = declared(self.module, symbol, INT32, kinds)
        saved = b.call(declared(self.module, "PyEval_SaveThread", POINTER, []), [])
        status = b.call(code, [slot, error, *self.values])
        b.call(declared(self.module, "PyEval_RestoreThread", ir.VoidType(), [POINTER]), [saved])
        fine = b.or_(b.icmp_signed("==", status, INT32(0)), b.icmp_signed("==", status, INT32(_NONE)))
        with b.if_then(b.not_(fine), likely=False):
            with b.if_then(b.icmp_signed("==", status, INT32(_PYTHON_ERROR))):
                b.ret(_NULL)
            self._raise(b.load(error))
        b.ret(self._as_object(result, None if result == types.none else b.load(slot)))

    def _need(self, condition: Any) -> None:
        """Continue with the next signature unless the condition holds."""
        fits = self.function.append_basic_block()
        self.b.cbranch(condition, fits, self.unfit)
        self.b.position_at_end(fits)

    def _field(self, at: Any, offset: int, kind: Any) -> Any:
        b = self.b
        return b.load(b.bitcast(b.gep(at, [INT64(offset)]), kind.as_pointer()))

    def _slot(self, name: str) -> Any:
        return self.b.load(self.module.globals[f"online_rank_{name}"])

    def _global(self, name: str) -> Any:
        known = self.module.globals
        return known[name] if name in known else ir.GlobalVariable(self.module, BYTE, name)

    def _need_class(self, value: Any, of_python: str, of_numpy: str) -> None:
        b, own = self.b, self._field(value, 8, POINTER)
        known = self._global(of_python), self._slot(of_numpy)
        self._need(b.or_(*(b.icmp_unsigned("==", own, kind) for kind in known)))

    def _take(self, value: Any, kind: Any) -> None:
        """Check an argument, and append its values in numba's calling convention."""
        b = self.b
        if is_tuple(kind):
            # A named tuple too: numba's code has its items, and no names.
            flags = b.call(declared(self.module, "PyType_GetFlags", INT64, [POINTER]), [self._field(value, 8, POINTER)])
            self._need(b.icmp_signed("!=", b.and_(flags, INT64(_TUPLE_SUBCLASS)), INT64(0)))
            size = b.call(declared(self.module, "PyTuple_Size", INT64, [POINTER]), [value])
            self._need(b.icmp_signed("==", size, INT64(len(kind.types))))
            for k, item in enumerate(kind.types):
                get = declared(self.module, "PyTuple_GetItem", POINTER, [POINTER, INT64])
                self._take(b.call(get, [value, INT64(k)]), item)
        elif isinstance(kind, types.Array):
            self._take_array(value, kind)
        elif kind == types.none:
            self._need(b.icmp_unsigned("==", value, self._global("_Py_NoneStruct")))
            self.values.append(_NULL)
        elif kind == types.boolean:
            true, false = self._global("_Py_TrueStruct"), self._global("_Py_FalseStruct")
            self._need(b.or_(b.icmp_unsigned("==", value, true), b.icmp_unsigned("==", value, false)))
            self.values.append(b.zext(b.icmp_unsigned("==", value, true), BYTE))
        elif kind == types.int64:
            self._need_class(value, "PyLong_Type", "int64")
            overflow = b.alloca(INT32)
            convert = declared(self.module, "PyLong_AsLongLongAndOverflow", INT64, [POINTER, INT32.as_pointer()])
            number = b.call(convert, [value, overflow])
            self._need(b.icmp_signed("==", b.load(overflow), INT32(0)))
            self.values.append(number)
        elif kind == types.float64:
            self._need_class(value, "PyFloat_Type", "float64")
            self.values.append(b.call(declared(self.module, "PyFloat_AsDouble", DOUBLE, [POINTER]), [value]))
        else:
            raise Unsuited(f"an argument of type {kind}")

    def _take_array(self, value: Any, kind: Any) -> None:
        b = self.b
        if str(kind.dtype) not in loading.TYPE_NUMBERS or kind.layout not in "CA":
            raise Unsuited(f"an argument of type {kind}")
        self._need(b.icmp_unsigned("==", self._field(value, 8, POINTER), self._slot("ndarray")))
        descriptor = self._field(value, loading.DESCRIPTOR, POINTER)
        number = self._field(descriptor, loading.TYPE_NUMBER, INT32)
        one, other = loading.TYPE_NUMBERS[str(kind.dtype)]
        fits = b.or_(b.icmp_signed("==", number, INT32(one)), b.icmp_signed("==", number, INT32(other)))
        order = self._field(descriptor, loading.BYTE_ORDER, BYTE)
        # Bytes have no order, '|'.
        fits = b.and_(fits, b.icmp_signed("==", order, BYTE(ord("|" if kind.dtype.bitwidth == 8 else "="))))
        fits = b.and_(fits, b.icmp_signed("==", self._field(value, loading.ND, INT32), INT32(kind.ndim)))
        wanted = loading.ALIGNED | (loading.C_CONTIGUOUS if kind.layout == "C" else 0) | (loading.WRITEABLE * kind.mutable)
        flags = b.and_(self._field(value, loading.FLAGS, INT32), INT32(wanted))
        self._need(b.and_(fits, b.icmp_signed("==", flags, INT32(wanted))))
        lengths, steps = (
            b.bitcast(self._field(value, offset, POINTER), INT64.as_pointer())
            for offset in (loading.DIMENSIONS, loading.STRIDES)
        )
        shape = [b.load(b.gep(lengths, [INT64(k)])) for k in range(kind.ndim)]
        strides = [b.load(b.gep(steps, [INT64(k)])) for k in range(kind.ndim)]
        size = shape[0]
        for length in shape[1:]:
            size = b.mul(size, length)
        # MemInfo and parent are null: an array passed to a kernel is neither retained nor released.
        width = INT64(max(kind.dtype.bitwidth, 8) // 8)
        self.values += [_NULL, _NULL, size, width, self._field(value, loading.DATA, POINTER), *shape, *strides]

    def _raise(self, information: Any) -> None:
        """Raise the error that numba's code describes: {bytes, their number, ...}."""
        b = self.b
        with b.if_then(b.icmp_unsigned("==", information, _NULL)):
            b.ret(b.call(declared(self.module, "PyErr_NoMemory", POINTER, []), []))
        pickled, size = self._field(information, 0, POINTER), b.sext(self._field(information, 8, INT32), INT64)
        new = declared(self.module, "PyBytes_FromStringAndSize", POINTER, [POINTER, INT64])
        pickled = b.call(new, [pickled, size])
        call = declared(self.module, "PyObject_CallFunctionObjArgs", POINTER, [POINTER], var_arg=True)
        b.call(call, [self._slot("raise"), pickled, _NULL])
        b.call(declared(self.module, "Py_DecRef", ir.VoidType(), [POINTER]), [pickled])
        b.ret(_NULL)

    def _as_object(self, kind: Any, value: Any) -> Any:
        b = self.b
        if kind == types.none:
            none = self._global("_Py_NoneStruct")
            b.call(declared(self.module, "Py_IncRef", ir.VoidType(), [POINTER]), [none])
            return none
        if isinstance(kind, types.Tuple | types.UniTuple):
            items = [self._as_object(item, b.extract_value(value, k)) for k, item in enumerate(kind.types)]
            pack = declared(self.module, "PyTuple_Pack", POINTER, [INT64], var_arg=True)
            both = b.call(pack, [INT64(len(items)), *items])
            for item in items:
                b.call(declared(self.module, "Py_DecRef", ir.VoidType(), [POINTER]), [item])
            return both
        if kind == types.float64:
            return b.call(declared(self.module, "PyFloat_FromDouble", POINTER, [DOUBLE]), [value])
        if kind == types.boolean:
            return b.call(declared(self.module, "PyBool_FromLong", POINTER, [INT64]), [b.zext(value, INT64)])
        return b.call(declared(self.module, "PyLong_FromLongLong", POINTER, [INT64]), [value])


def _type_of_result(kind: Any) -> Any:
    if kind == types.none:
        return POINTER
    if isinstance(kind, types.Tuple | types.UniTuple):
        return ir.LiteralStructType([_type_of_result(item) for item in kind.types])
    if kind not in _NUMBERS:
        raise Unsuited(f"a result of type {kind}")
    return _NUMBERS[kind]
