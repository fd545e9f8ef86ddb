"""Compiled versions of `primitives`, as vector instructions of LLVM. Imported when numba is first used."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof
from numba.core import cgutils, types
from numba.core.imputils import lower_constant
from numba.extending import lower_builtin, models, register_model, type_callable

from online_rank._kernels import primitives
from online_rank._kernels.primitives import LANES, N_NODES, TOGETHER

_DOUBLE, _INT32, _INT64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_FOUR = ir.VectorType(_DOUBLE, LANES)

# Rows that are read side by side look like no sequence to a processor, which then fetches nothing ahead from memory, and a pass
# over a block takes three times as long. So that is asked for: this many bytes ahead, a cache line at a time. (Of 1 to 32 kB,
# 8 took least.) It takes a twentieth off one row after the other, too.
_BYTES_AHEAD, _CACHE_LINE = 8192, 64
_READ, _INTO_ALL_CACHES, _DATA = 0, 3, 1


class VerbType(types.Callable, types.Dummy):
    """The type of a `_jit.Verb`: a call of it is a call of the kernel for the type of the first argument."""

    def __init__(self, verb: Any) -> None:
        self.verb = verb
        super().__init__(f"verb {verb.name}")

    def _kernel(self, arguments: Any) -> Any:
        kind = np.ndarray if isinstance(arguments[0], types.Array) else getattr(arguments[0], "instance_class", object)
        return typeof(self.verb.choose.dispatch(kind))

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature of a call with arguments of these types: the kernel's. Numba asks for it while it infers types."""
        return self._kernel(args).get_call_type(context, args, kws)

    def get_impl_key(self, sig: Any) -> Any:
        """The key under which numba finds the machine code for a signature: the kernel's."""
        return self._kernel(sig.args).get_impl_key(sig)

    def get_call_signatures(self) -> Any:
        """The signatures known ahead: none, and that others may follow. Numba prints them in messages."""
        return (), True


register_model(VerbType)(models.OpaqueModel)
lower_constant(VerbType)(lambda context, builder, kind, value: context.get_dummy_value())


class _Line:
    """The elements of a vector, or of a row of a matrix, as float64: one by one, or four neighbours at once."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any, row: Any = None) -> None:
        self.b, self.kind = builder, kind
        array = context.make_array(kind)(context, builder, value)
        shape, strides = cgutils.unpack_tuple(builder, array.shape), cgutils.unpack_tuple(builder, array.strides)
        self.length, self.stride = shape[-1], strides[-1]
        self.start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        if row is not None:
            self.start = builder.gep(self.start, [builder.mul(row, strides[0])])
        self.element = context.get_data_type(kind.dtype)
        self.size = kind.dtype.bitwidth // 8

    def _wide(self, value: Any, into: Any) -> Any:
        # None unless it is an integer.
        signed = getattr(self.kind.dtype, "signed", None)
        if signed is not None:
            return (self.b.sitofp if signed else self.b.uitofp)(value, into)
        return value if self.element == _DOUBLE else self.b.fpext(value, into)

    def one(self, j: Any) -> Any:
        step = self.b.mul(j, ir.Constant(_INT64, self.size) if self.kind.layout == "C" else self.stride)
        place = self.b.bitcast(self.b.gep(self.start, [step]), self.element.as_pointer())
        return self._wide(self.b.load(place, align=self.size), _DOUBLE)

    def fetch_ahead(self, j: Any, rows: int) -> None:
        """Have memory fetched that follows, as much of it as four features of `rows` rows take; j features of each are done."""
        b = self.b
        done = b.mul(j, ir.Constant(_INT64, rows * self.size))
        for k in range(0, rows * LANES * self.size, _CACHE_LINE):
            self.fetch(b.add(done, ir.Constant(_INT64, _BYTES_AHEAD + k)))

    def fetch(self, at: Any) -> None:
        """Have the cache line fetched that is `at` bytes after the first element."""
        b, byte = self.b, ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        prefetch = b.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        b.call(prefetch, [b.gep(self.start, [at]), *(ir.Constant(_INT32, of) for of in (_READ, _INTO_ALL_CACHES, _DATA))])

    def four(self, j: Any) -> Any:
        b = self.b
        if self.kind.layout == "C":
            kind = ir.VectorType(self.element, LANES)
            place = b.gep(self.start, [b.mul(j, ir.Constant(_INT64, self.size))])
            return self._wide(b.load(b.bitcast(place, kind.as_pointer()), align=self.size), _FOUR)
        lanes = ir.Constant(_FOUR, ir.Undefined)
        for k in range(LANES):
            lanes = b.insert_element(lanes, self.one(b.add(j, ir.Constant(_INT64, k))), ir.Constant(_INT32, k))
        return lanes


def _lane_sums(builder: Any, lines: list[_Line], terms: Any, rows: int = 0) -> list[Any]:
    """Sums over the elements of lines of equal length of the values of `terms`, in the order of the lanes.

    The first `rows` lines are rows of one matrix that follow one another in memory, as do the rows of the next sums.
    """
    b, length = builder, lines[0].length
    zero = ir.Constant(_INT64, 0)
    whole = b.and_(length, ir.Constant(_INT64, -LANES))
    n_sums = len(terms(b, [ir.Constant(_DOUBLE, 0.0)] * len(lines)))
    sums = [cgutils.alloca_once_value(b, ir.Constant(_FOUR, [0.0] * LANES)) for _ in range(n_sums)]
    with cgutils.for_range_slice(b, zero, whole, ir.Constant(_INT64, LANES)) as (j, _):
        if rows:
            lines[0].fetch_ahead(j, rows)
        for place, term in zip(sums, terms(b, [line.four(j) for line in lines]), strict=True):
            b.store(_added(b, b.load(place), term), place)
    left = b.sub(length, whole)
    with b.if_then(b.icmp_signed(">", left, zero)):
        # What is left over, and zeros, which change no lane: a lane is never -0.
        values = [cgutils.alloca_once_value(b, ir.Constant(_FOUR, [0.0] * LANES)) for _ in lines]
        for k in range(LANES - 1):
            with b.if_then(b.icmp_signed(">", left, ir.Constant(_INT64, k))):
                for line, place in zip(lines, values, strict=True):
                    one = line.one(b.add(whole, ir.Constant(_INT64, k)))
                    b.store(b.insert_element(b.load(place), one, ir.Constant(_INT32, k)), place)
        for place, term in zip(sums, terms(b, [b.load(value) for value in values]), strict=True):
            b.store(_added(b, b.load(place), term), place)
    return [_add_lanes(b, b.load(place)) for place in sums]


def _added(b: Any, lanes: Any, term: Any) -> Any:
    """The lanes with a term, or with a product that is a pair of factors and exact.

    A processor may fuse this product with the addition, which then rounds once, as the addition alone does: the bits are equal.
    """
    if not isinstance(term, tuple):
        return b.fadd(lanes, term)
    kind = ir.FunctionType(_FOUR, [_FOUR] * 3)
    return b.call(cgutils.get_or_insert_function(b.module, kind, "llvm.fmuladd.v4f64"), [*term, lanes])


def _add_lanes(b: Any, lanes: Any) -> Any:
    """(lane 0 + lane 1) + (lane 2 + lane 3)."""
    one, other = (b.extract_element(lanes, ir.Constant(_INT32, k)) for k in (0, 1))
    third, fourth = (b.extract_element(lanes, ir.Constant(_INT32, k)) for k in (2, 3))
    return b.fadd(b.fadd(one, other), b.fadd(third, fourth))


def _sums(
    function: Any, rows: int, vectors: int, n_sums: int, terms: Any, exact: Any = None, in_turn: bool = True
) -> None:  # fmt: skip
    """Teach numba a sum: of `vectors`, or of `rows` rows of a matrix from row i on and the vectors after them.

    `exact` gives the terms of float32 numbers, with exact products as pairs (`_added`). `in_turn` says whether callers go
    through a matrix row after row.
    """

    @type_callable(function)
    def typed(context: Any) -> Any:
        result = types.float64 if n_sums == 1 else types.UniTuple(types.float64, n_sums)
        if rows:
            return ((lambda X, i: result), (lambda X, i, w: result), (lambda X, i, w, v: result))[vectors]
        return (lambda a: result) if vectors == 1 else (lambda a, b: result)

    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        if rows:
            row = context.cast(builder, args[1], kinds[1], types.int64)
            lines = [
                _Line(context, builder, kinds[0], args[0], builder.add(row, ir.Constant(_INT64, k))) for k in range(rows)
            ] + [_Line(context, builder, kind, value) for kind, value in zip(kinds[2:], args[2:], strict=True)]
        else:
            lines = [_Line(context, builder, kind, value) for kind, value in zip(kinds, args, strict=True)]
        # The product of two float32 numbers is a float64 number.
        single = kinds[0].dtype == types.float32
        sums = _lane_sums(
            builder, lines, exact if single and exact else terms, rows if rows and in_turn and kinds[0].layout == "C" else 0
        )
        return sums[0] if n_sums == 1 else context.make_tuple(builder, signature.return_type, sums)

    kinds = ((types.Array, types.Integer) if rows else ()) + (types.Array,) * vectors
    lower_builtin(function, *kinds)(lowered)


def _products(b: Any, values: Any) -> list[Any]:
    *rows, w = values
    return [b.fmul(x, w) for x in rows]


def _squares(b: Any, values: Any) -> list[Any]:
    return [b.fmul(x, x) for x in values]


def _products_and_squares(b: Any, values: Any) -> list[Any]:
    return _products(b, values) + _squares(b, values[:-1])


def _double_products_and_squares(b: Any, values: Any) -> list[Any]:
    *rows, w, v = values
    return _products(b, [*rows, w]) + _products(b, [*rows, v]) + _squares(b, rows)


def _exact_products(_: Any, values: Any) -> list[Any]:
    *rows, w = values
    return [(x, w) for x in rows]


def _exact_squares(_: Any, values: Any) -> list[Any]:
    return [(x, x) for x in values]


def _products_and_exact_squares(b: Any, values: Any) -> list[Any]:
    return _products(b, values) + _exact_squares(b, values[:-1])


def _double_products_and_exact_squares(b: Any, values: Any) -> list[Any]:
    *rows, w, v = values
    return _products(b, [*rows, w]) + _exact_products(b, [*rows, v]) + _exact_squares(b, rows)


def _squared_difference(b: Any, values: Any) -> list[Any]:
    difference = b.fsub(*values)
    return [b.fmul(difference, difference)]


_sums(primitives.lane_sum, 0, 1, 1, lambda b, values: values)
_sums(primitives.dot, 0, 2, 1, _products)
_sums(primitives.sum_of_squares, 0, 1, 1, _squares)
_sums(primitives.squared_distance, 0, 2, 1, _squared_difference)
_sums(primitives.row_dot, 1, 1, 1, _products, in_turn=False)
_sums(primitives.four_row_dots, 4, 1, 4, _products)
_sums(primitives.eight_row_dots, 8, 1, 8, _products, _exact_products)
_sums(primitives.four_row_squares, 4, 0, 4, _squares, _exact_squares)
_sums(primitives.row_dot_and_square, 1, 1, 2, _products_and_squares, _products_and_exact_squares)
_sums(primitives.four_row_dots_and_squares, 4, 1, 8, _products_and_squares, _products_and_exact_squares)
_sums(
    primitives.three_row_double_dots_and_squares, 3, 2, 9, _double_products_and_squares, _double_products_and_exact_squares
)  # fmt: skip


def _lowers(function: Any, typed: Any, *kinds: Any) -> Any:
    """Decorates the code of a primitive; `typed` gives the type of its result from the types of its arguments."""
    type_callable(function)(lambda context: typed)
    return lower_builtin(function, *kinds)


@_lowers(primitives.fetch, lambda X, i, n: types.void, types.Array, types.Integer, types.Integer)
def _fetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kinds = signature.args
    row, n = (context.cast(builder, args[k], kinds[k], types.int64) for k in (1, 2))
    line = _Line(context, builder, kinds[0], args[0], row)
    size = builder.mul(n, ir.Constant(_INT64, line.size))
    with cgutils.for_range_slice(builder, ir.Constant(_INT64, 0), size, ir.Constant(_INT64, _CACHE_LINE)) as (at, _):
        line.fetch(at)
    return context.get_dummy_value()


@_lowers(
    primitives.add_scaled_four,
    lambda target, i, x, source, k: types.void,
    types.Array, types.Integer, types.Float, types.Array, types.Integer,
)  # fmt: skip
def _add_scaled_four(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    # numba does not vectorise neighbouring elements by default (`NUMBA_SLP_VECTORIZE`).
    place = _places_of_fours(context, builder, signature, args)
    target, source = place(0, 1), builder.load(place(3, 4), align=8)
    scaled = builder.fmul(_broadcast(builder, args[2]), source)
    builder.store(builder.fadd(builder.load(target, align=8), scaled), target, align=8)
    return context.get_dummy_value()


def _broadcast(builder: Any, number: Any) -> Any:
    four = ir.Constant(_FOUR, ir.Undefined)
    for k in range(LANES):
        four = builder.insert_element(four, number, ir.Constant(_INT32, k))
    return four


def _places_of_fours(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """A function that gives the address of four elements of the array in one argument, from the index in another one on."""

    def place(array: int, index: int, more: Any = 0) -> Any:
        data = context.make_array(signature.args[array])(context, builder, args[array]).data
        i = context.cast(builder, args[index], signature.args[index], types.int64)
        i = builder.add(i, more if more else ir.Constant(_INT64, 0))
        return builder.bitcast(builder.gep(data, [i]), _FOUR.as_pointer())

    return place


@_lowers(
    primitives.add_line_four,
    lambda target, i, x, source, k: types.void,
    types.Array, types.Integer, types.Float, types.Array, types.Integer,
)  # fmt: skip
def _add_line_four(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    place = _places_of_fours(context, builder, signature, args)
    start, slope = builder.load(place(3, 4), align=8), builder.load(place(3, 4, ir.Constant(_INT64, LANES)), align=8)
    line = builder.fadd(start, builder.fmul(_broadcast(builder, args[2]), slope))
    builder.store(builder.fadd(builder.load(place(0, 1), align=8), line), place(0, 1), align=8)
    return context.get_dummy_value()


@_lowers(
    primitives.sum_fours,
    lambda target, i, step, source, k, jump, n: types.void,
    types.Array, types.Integer, types.Integer, types.Array, *[types.Integer] * 3,
)  # fmt: skip
def _sum_fours(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    place = _places_of_fours(context, builder, signature, args)
    step, jump, n = (context.cast(builder, args[k], signature.args[k], types.int64) for k in (2, 5, 6))
    total = cgutils.alloca_once_value(builder, ir.Constant(_FOUR, [0.0] * LANES))
    with cgutils.for_range(builder, n) as loop:
        four = builder.load(place(3, 4, builder.mul(loop.index, jump)), align=8)
        builder.store(builder.fadd(builder.load(total), four), total)
        builder.store(builder.load(total), place(0, 1, builder.mul(loop.index, step)), align=8)
    return context.get_dummy_value()


@_lowers(primitives.count_eight, lambda values, i, counts: types.void, types.Array, types.Integer, types.Array)
def _count_eight(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    b, whole = builder, ir.VectorType(_INT64, LANES)
    values, counts = (context.make_array(signature.args[k])(context, b, args[k]) for k in (0, 2))
    i = context.cast(b, args[1], signature.args[1], types.int64)

    def halves(data: Any, row: Any, kind: Any) -> list[Any]:
        first = b.mul(row, ir.Constant(_INT64, 2 * LANES))
        return [b.bitcast(b.gep(data, [b.add(first, ir.Constant(_INT64, k))]), kind.as_pointer()) for k in (0, LANES)]

    own = [b.load(place, align=8) for place in halves(values.data, i, _FOUR)]
    sums = [cgutils.alloca_once_value(b, ir.Constant(whole, [0] * LANES)) for _ in own]
    with cgutils.for_range(b, b.extract_value(values.shape, 0)) as loop:
        for total, mine, place in zip(sums, own, halves(values.data, loop.index, _FOUR), strict=True):
            other = b.load(place, align=8)
            for comparison in ("<", "<="):
                found = b.zext(b.fcmp_ordered(comparison, other, mine), whole)
                b.store(b.add(b.load(total), found), total)
    for total, place in zip(sums, halves(counts.data, i, whole), strict=True):
        b.store(b.load(total), place, align=8)
    return context.get_dummy_value()


@_lowers(
    primitives.find_leaves, lambda bins, first, splits, out: types.void, types.Array, types.Integer, types.Array, types.Array
)
def _find_leaves(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    # Written by loops, a look-up first compares the places of all arrays, which takes three times as long as the rest.
    b, byte = builder, ir.IntType(8)
    bins, splits, out = (context.make_array(signature.args[k])(context, b, args[k]) for k in (0, 2, 3))
    first = context.cast(b, args[1], signature.args[1], types.int64)
    n, stride = b.extract_value(out.shape, 0), b.extract_value(bins.strides, 0)
    signed = signature.args[2].dtype.bitwidth < 64

    def split(k: int) -> Any:
        return b.load(b.gep(splits.data, [ir.Constant(_INT64, k)]))

    rows, thresholds = [], []
    for node in range(N_NODES):
        feature = b.sext(split(node), _INT64) if signed else split(node)
        rows.append(b.gep(bins.data, [b.add(b.mul(feature, stride), first)]))
        thresholds.append(b.trunc(split(N_NODES + node), byte))

    def leaves_at(at: Any, together: int) -> None:
        kind = ir.VectorType(byte, together)

        def all_are(number: Any) -> Any:
            one = b.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(_INT32, 0))
            return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INT32, together), [0] * together))

        goes_right = []
        for row, threshold in zip(rows, thresholds, strict=True):
            own = b.load(b.bitcast(b.gep(row, [at]), kind.as_pointer()), align=1)
            goes_right.append(b.icmp_unsigned(">", own, all_are(threshold)))
        leaf = ir.Constant(kind, [0] * together)
        level, bit = goes_right, 8
        # Of the nodes below, those on the side where a document goes.
        while True:
            here, bits = level[0], ir.Constant(kind, [bit] * together)
            leaf = b.or_(leaf, b.select(here, bits, ir.Constant(kind, [0] * together)))
            if bit == 1:
                break
            level, bit = _below(b, here, level), bit // 2
        b.store(leaf, b.bitcast(b.gep(out.data, [at]), kind.as_pointer()), align=1)

    zero, whole = ir.Constant(_INT64, 0), ir.Constant(_INT64, TOGETHER)
    with b.if_else(b.icmp_signed(">=", n, whole)) as (many, few):
        with many:
            last = b.sub(n, whole)
            with cgutils.for_range_slice(b, zero, n, whole) as (at, _):
                # The last ones once more, in place of less than a whole vector.
                leaves_at(b.select(b.icmp_signed("<", at, last), at, last), TOGETHER)
        with few, cgutils.for_range(b, n) as loop:
            leaves_at(loop.index, 1)
    return context.get_dummy_value()


def _below(builder: Any, right: Any, tree: list[Any]) -> list[Any]:
    """The tree below a root, on the side where a document goes: the nodes of a complete tree, level by level."""
    chosen, begin, width = [], 1, 2
    while begin < len(tree):
        half = width // 2
        for k in range(half):
            chosen.append(builder.select(right, tree[begin + half + k], tree[begin + k]))
        begin, width = begin + width, 2 * width
    return chosen


@_lowers(primitives.power_of_two, lambda shifted: shifted, types.Float)
def _power_of_two(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    width, mantissa, bias = (64, 52, 1023) if signature.args[0] == types.float64 else (32, 23, 127)
    integer = ir.IntType(width)
    bits = builder.bitcast(args[0], integer)
    exponent = builder.shl(builder.add(bits, ir.Constant(integer, bias)), ir.Constant(integer, mantissa))
    return builder.bitcast(exponent, args[0].type)


@_lowers(primitives.split_float, lambda x: types.UniTuple(types.float64, 2), types.Float)
def _split_float(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    b, least = builder, ir.Constant(_INT64, 0x3FE6A09E667F3BCD)
    bits = b.add(b.bitcast(args[0], _INT64), ir.Constant(_INT64, 0x3FF0000000000000 - 0x3FE6A09E667F3BCD))
    mantissa = b.bitcast(b.add(b.and_(bits, ir.Constant(_INT64, 0x000FFFFFFFFFFFFF)), least), _DOUBLE)
    exponent = b.sitofp(b.sub(b.lshr(bits, ir.Constant(_INT64, 52)), ir.Constant(_INT64, 1023)), _DOUBLE)
    return context.make_tuple(builder, signature.return_type, [mantissa, exponent])


@_lowers(primitives.bit_pattern, lambda x: types.int64, types.Float)
def _bit_pattern(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], _INT64)


def _type_of_own_gradient(address: Any, s: Any, y: Any, gradient: Any) -> Any:
    contiguous = all(getattr(array, "layout", None) == "C" for array in (s, y, gradient))
    fits = contiguous and (s.dtype, y.dtype, gradient.dtype) == (types.float64, types.int64, types.float64)
    return types.int64 if fits else None


@_lowers(primitives.own_gradient, _type_of_own_gradient, types.Integer, *[types.Array] * 3)
def _own_gradient(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    b, pointer = builder, ir.IntType(8).as_pointer()
    arrays = [context.make_array(kind)(context, b, value) for kind, value in zip(signature.args[1:], args[1:], strict=True)]
    s, y, gradient = (b.bitcast(array.data, pointer) for array in arrays)
    kind = ir.FunctionType(_INT64, [pointer, pointer, _INT64, pointer])
    function = b.inttoptr(context.cast(b, args[0], signature.args[0], types.int64), kind.as_pointer())
    return b.call(function, [s, y, b.extract_value(arrays[0].shape, 0), gradient])
