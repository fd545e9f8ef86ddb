"""How numba compiles a function that only kernels call: without separate machine code.

numba would optimise such a function together with all that it calls, and turn it into machine code, although each kernel that
calls it gets a copy, which is optimised and translated again: a third of the time of the first query of a process. Here a
function is optimised alone. Its intermediate code, with the code of what it calls, goes into the kernels, and numba compiles
these as ever. Results have the same bits.
"""

from typing import Any

import llvmlite.binding as llvm
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import compiler
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class _Library(JITCodeLibrary):
    """The code of one function, for linking alone."""

    def _optimize_functions(self, module: Any) -> None:
        # What follows includes it.
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        # Reference counts of arrays must go before the function is part of a larger one, where fewer of them can.
        passes, builder = self._codegen._module_pass_manager(slp_vectorize=False)
        passes.run(self._final_module, builder)
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


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "online_rank_lowering"

    def run_pass(self, state: Any) -> bool:
        """From typed code to intermediate code."""
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        function = _nothing_to_call(lowered.fndesc, lowered.env, state.library)
        state.targetctx.insert_user_function(function, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=function)
        return True


class Pipeline(compiler.CompilerBase):
    """The `pipeline_class` of functions that only kernels call."""

    def define_pipelines(self) -> list[Any]:
        """As numba's, except for the last step."""
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if item is NativeLowering else item, name) for item, name in passes.passes]
        passes.finalize()
        return [passes]


class _Results(CompileResultCacheImpl):
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
