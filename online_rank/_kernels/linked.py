"""How numba compiles a function that only kernels call: without separate machine code.

numba would optimise such a function together with all that it calls, and turn it into machine code, although each kernel that
calls it gets a copy, which is optimised and translated again: a third of the time of the first query of a process. Here a
function is optimised alone. Its intermediate code, with the code of what it calls, goes into the kernels, and numba compiles
these as ever. Results have the same bits.
"""

import contextlib
import functools
import operator
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import cgutils, compiler, config, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering
from numba.np.arrayobj import fix_integer_index, load_item, store_item

#: Kernels of more functions are large: loops are not unrolled in them, which would double their code and the time that LLVM
#: takes for it. They learn a query 1 to 10 per cent faster without, for code has to be read, too.
_LARGE = 100


def _optimise(library: JITCodeLibrary, vectorised: bool) -> None:
    """Optimise the code of a library, without unrolling loops."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=config.OPT)  # type: ignore[attr-defined]
    tuning.loop_unrolling = tuning.slp_vectorization = False
    tuning.loop_vectorization = vectorised
    builder = llvm.create_pass_builder(library._codegen._tm, tuning)
    passes = builder.getModulePassManager()
    passes.add_refprune_pass()
    passes.run(library._final_module, builder)


class _Entry(JITCodeLibrary):
    """The machine code of a kernel that Python calls, with all that it calls."""

    def _optimize_final_module(self) -> None:
        if sum(not function.is_declaration for function in self._final_module.functions) <= _LARGE:
            super()._optimize_final_module()
            return
        # As numba, which brings functions into a form first in which loops can be vectorised.
        how = {"loop_vectorize": False, "slp_vectorize": False, "opt": 0, "cost": "cheap"}
        passes, builder = self._codegen._module_pass_manager(**how)
        passes.run(self._final_module, builder)
        _optimise(self, vectorised=bool(config.LOOP_VECTORIZE))  # type: ignore[attr-defined]


class _Library(JITCodeLibrary):
    """The code of one function, for linking alone."""

    def _optimize_functions(self, module: Any) -> None:
        # What follows includes it.
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        # Reference counts of arrays must go before the function is part of a larger one, where fewer of them can. Loops are
        # vectorised in the larger one, where more is known about them.
        _optimise(self, vectorised=False)
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """The function and all that it calls; duplicates become one when a kernel links them."""
        self._ensure_finalized()
        if self._shared_module is None:
            module = self._final_module.clone()
            for library in dict.fromkeys(self._linking_libraries):
                module.link_in(library._get_module_for_linking(), preserve=True)
            for function in module.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._shared_module = module
        return self._shared_module

    @classmethod
    def of_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> "_Library":
        """A library that a cache had."""
        library = cls(codegen, name)
        library._shared_module = llvm.parse_bitcode(bitcode)
        library._finalized = True
        return library


def _nothing_to_call(fndesc: Any, environment: Any, library: _Library) -> Any:
    """numba finds what it has compiled by the function that Python would call; here nobody does."""
    return _dynfunc.make_function(fndesc.lookup_module(), fndesc.qualname, "", 0, environment, (library,))


#: Operators that numba writes in one way, whether an operand is a constant or not.
_OF_NUMBERS = {
    operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
    operator.ne, operator.iadd, operator.isub, operator.imul, operator.itruediv,
}  # fmt: skip


@functools.cache
def _size_of(target_data: Any, kind: Any) -> Any:
    return kind.get_abi_size(target_data)


class _Lower(Lower):
    """Writes most of a kernel by a short way: elements of arrays, and sums, products and comparisons of numbers.

    numba would come to the same instructions after looking for slices, broadcasts and operators with constants.
    """

    def init(self) -> None:
        """What is to be known before the first instruction."""
        super().init()
        # numba asks for the size of each variable, for debuggers, and has LLVM parse a module for each answer.
        self.context.get_abi_sizeof = functools.partial(_size_of, self.context.target_data)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """value[index]"""
        place = self._place(value, index, signature.args)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        element = load_item(self.context, self.builder, signature.args[0], place)
        return self.context.cast(self.builder, element, signature.args[0].dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """target[index] = value"""
        kind = self.typeof(value_var.name)
        place = self._place(target_var, index_var, signature.args) if isinstance(kind, types.Number | types.Boolean) else None
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, _, given = signature.args
        value = self.context.cast(self.builder, self.loadvar(value_var.name), kind, given)
        value = self.context.cast(self.builder, value, given, array.dtype)
        return store_item(self.context, self.builder, array, value, place)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """lhs op rhs"""
        operands = expr.lhs, expr.rhs
        kinds = [self.typeof(each.name) for each in operands]
        if op not in _OF_NUMBERS or not all(isinstance(kind, types.Integer | types.Float) for kind in kinds):
            return super().lower_binop(resty, expr, op)
        signature, values = self.fndesc.calltypes[expr], []
        for each, kind, wanted in zip(operands, kinds, signature.args, strict=True):
            values.append(self.context.cast(self.builder, self.loadvar(each.name), kind, wanted))
        result = self._function_of(op, signature)(self.builder, values)
        return self.context.cast(self.builder, result, signature.return_type, resty)

    def _function_of(self, op: Any, signature: Any) -> Any:
        """What computes an operator of numbers."""
        typing = self.context.typing_context
        function = typing.resolve_value_type(op)
        try:
            return self.context.get_function(function, signature)
        except KeyError:
            # Where numba has registered functions since this kernel got its types, it has a new object for the operator.
            function.get_call_type(typing, signature.args, {})
            return self.context.get_function(function, signature)

    def _place(self, array_var: Any, index_var: Any, kinds: Any) -> Any:
        """The address of an element; None if the array is not a plain one of numbers, or the index is not for one element."""
        array, kind = kinds[0], self.typeof(index_var.name)
        indices = getattr(kind, "types", (kind,))
        if (
            type(array) is not types.Array
            or not isinstance(array.dtype, types.Number)
            or array.ndim != len(indices)
            or not all(isinstance(each, types.Integer) for each in indices)
            or self.context.enable_boundscheck
        ):
            return None
        builder, model = self.builder, self.context.data_model_manager[array]
        value, index = self.loadvar(array_var.name), self.loadvar(index_var.name)
        values = cgutils.unpack_tuple(builder, index) if hasattr(kind, "types") else [index]
        shape = cgutils.unpack_tuple(builder, model.get(builder, value, "shape"))
        strides = cgutils.unpack_tuple(builder, model.get(builder, value, "strides")) if array.layout == "A" else []
        at = [
            fix_integer_index(self.context, builder, types.unliteral(each), i, n)
            for each, i, n in zip(indices, values, shape, strict=True)
        ]
        data = model.get(builder, value, "data")
        return cgutils.get_item_pointer2(self.context, builder, data, shape, strides, array.layout, at)


class _ShortLowering(NativeLowering):
    @property
    def lowering_class(self) -> Any:
        """What writes the intermediate code."""
        return _Lower


@register_pass(mutates_CFG=True, analysis_only=False)
class _LoweringOfEntry(_ShortLowering):
    _name: Any = "online_rank_lowering_of_entry"

    def run_pass(self, state: Any) -> bool:
        """From typed code to machine code."""
        state.library = _Entry(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(_ShortLowering):
    _name: Any = "online_rank_lowering"

    def run_pass(self, state: Any) -> bool:
        """From typed code to intermediate code."""
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = state.flags.no_cpython_wrapper = True
        super().run_pass(state)
        lowered = state["cr"]
        function = _nothing_to_call(lowered.fndesc, lowered.env, state.library)
        state.targetctx.insert_user_function(function, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=function)
        return True


#: Steps of numba for what no kernel has: closures and comprehensions, `with`, `literally`, `literal_unroll`, and expressions of
#: whole arrays, which are computed without the last step too.
_UNNEEDED = {
    "InlineClosureLikes", "MakeFunctionToJitFunction", "WithLifting", "FindLiterallyCalls", "LiteralUnroll",
    "LiteralPropagationSubPipelinePass", "NopythonRewrites",
}  # fmt: skip


class Pipeline(compiler.CompilerBase):
    """The `pipeline_class` of functions that only kernels call."""

    lowering: Any = _Lowering

    def define_pipelines(self) -> list[Any]:
        """As numba's, except for steps without a use and for the last one."""
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        wanted = [(item, name) for item, name in passes.passes if item.__name__ not in _UNNEEDED]
        passes.passes = [(self.lowering if item is NativeLowering else item, name) for item, name in wanted]
        # numba would look for the lifetimes of all variables after each step. The steps that need them look themselves.
        passes._ENFORCING = False
        passes.finalize()
        return [passes]


class PipelineOfEntry(Pipeline):
    """The `pipeline_class` of functions that Python calls."""

    lowering: Any = _LoweringOfEntry


@contextlib.contextmanager
def signatures_remembered() -> Iterator[None]:
    """Let numba look for the signature of an operator or function once for the same types, while it compiles a kernel.

    It would ask all that was ever registered for `a + b`, twice at least for each sum in each kernel.
    """
    context = cpu_target.typing_context
    # While a kernel that calls this one is compiled, they are remembered already.
    if "resolve_function_type" in vars(context) or not hasattr(context, "_lookup_global"):
        yield
        return
    context.resolve_function_type = functools.partial(_signature, context, {})
    try:
        yield
    finally:
        del context.resolve_function_type


def _signature(context: Any, known: dict[Any, Any], function: Any, arguments: Any, named: Any) -> Any:
    """The signature of a call; not remembered for functions that numba compiles for their callers."""
    resolve, kind = type(context).resolve_function_type, context._lookup_global(function) or function
    if named or type(kind) is not types.Function:
        return resolve(context, function, arguments, named)
    key = kind, tuple(arguments)
    if key not in known:
        found = resolve(context, function, arguments, named)
        if found is None or getattr(kind, "_impl_keys", {}).get(found.args) is not kind.typing_key:
            return found
        known[key] = found
    return known[key]


class _Results(CompileResultCacheImpl):
    def get_filename_base(self, fullname: Any, abiflags: Any) -> Any:
        """Name of the files; an entry that kernels call has others for Python."""
        return f"{super().get_filename_base(fullname, abiflags)}.linked"

    def reduce(self, cres: Any) -> Any:
        """What can be pickled of a result."""
        cres.fndesc.typemap = cres.fndesc.calltypes = None
        bitcode = cres.library._get_module_for_linking().as_bitcode()
        return cres.library.name, bitcode, cres.fndesc, cres.environment, cres.signature

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The result again."""
        name, bitcode, fndesc, environment, signature = payload
        library = _Library.of_bitcode(target_context.codegen(), name, bitcode)
        return compiler.compile_result(
            target_context=target_context,
            typing_context=target_context.typing_context,
            entry_point=_nothing_to_call(fndesc, environment, library),
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=fndesc,
            library=library,
            environment=environment,
            reload_init=(),
        )


class Cache(FunctionCache):
    """numba's cache on disk, for results of `Pipeline`."""

    _impl_class = _Results
