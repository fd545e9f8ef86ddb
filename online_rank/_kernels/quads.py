"""Four numbers at a time, in one instruction where the processor has it; the sums are those of numbers one by one."""

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _add_four(target, i, a, b, c, d):
    """target[i : i + 4] += (a, b, c, d), all float64."""
    for k, value in enumerate((a, b, c, d)):
        target[i + k] += value


def _typed(typingctx, target, i, a, b, c, d):
    """`_add_four` as LLVM has it: numba looks for no neighbours of its own accord (`NUMBA_SLP_VECTORIZE`)."""

    def emitted(context, builder, signature, args):
        kind = ir.VectorType(ir.DoubleType(), 4)
        four = ir.Constant(kind, ir.Undefined)
        for k in range(4):
            four = builder.insert_element(four, args[2 + k], ir.Constant(ir.IntType(32), k))
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())
        builder.store(builder.fadd(builder.load(place, align=8), four), place, align=8)
        return context.get_dummy_value()

    return types.void(target, types.intp, *[types.float64] * 4), emitted


add_four: Any = _add_four if numba.config.DISABLE_JIT else intrinsic(_typed)  # type: ignore[attr-defined]
