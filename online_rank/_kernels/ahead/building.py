"""Compiles kernels to one object file: `python -m online_rank.support.warm_up FOLDER` records the signatures and calls this."""

import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from online_rank._kernels.ahead.loading import object_name
from online_rank._kernels.ahead.trust import write_sealed

#: The processors of targets that are not named after them.
_PROCESSORS = {"aarch64": "generic", "macos-arm64": "apple-m1"}

#: Symbols present in any process that loads the object; a kernel that calls anything else is left to numba.
_OF_LIBM = {
    "ceil", "exp", "floor", "fmod", "ldexp", "log", "log10", "log1p", "log2", "nextafter", "pow", "rint", "sqrt", "sqrtf",
    "tanh", "trunc",
}  # fmt: skip
_OF_LIBC = {"free", "malloc", "memcpy", "memmove", "memset"}


def _processor(target: str) -> str:
    """The processor that the code of a target is for."""
    return _PROCESSORS.get(target, target.removeprefix("windows-"))


def _is_for_this_system(target: str) -> bool:
    """Whether the code of a target is compiled as numba compiles for its own process: on other systems than Linux."""
    return target.startswith(("macos", "windows"))


def _triple(target: str) -> str:
    """LLVM's name of the machine that the code of a target is for."""
    if _is_for_this_system(target):
        return str(llvm.get_process_triple())
    return f"{'aarch64' if target == 'aarch64' else 'x86_64'}-unknown-linux-gnu"


def environment(target: str) -> dict[str, str]:
    """Environment variables of a process that compiles for a target."""
    return {**os.environ, "NUMBA_CPU_NAME": _processor(target), "NUMBA_CPU_FEATURES": "", "ONLINE_RANK_JIT": "1"}


def _pretend_to_run_on(triple: str) -> None:
    """Make numba compile for another machine; to be called before it compiles anything."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    import numba.core.codegen

    if triple.split("-")[0] != llvm.get_process_triple().split("-")[0]:
        numba.core.codegen.ll.get_process_triple = lambda: triple


def build(
    calls: Iterable[tuple[Any, tuple[Any, ...]]],
    target: str,
    folder: Path,
    show: Callable[[int, int], None] = lambda done, n: None,
    kept_in: Path | None = None,
) -> tuple[Path, dict[str, str]]:
    """Compile kernels, for the argument types of recorded calls, to the object file of a target in `folder`.

    In a separate process, with the variables of `environment`. It calls `show` with how many of how many are done. Each kernel
    is kept in the folder `kept_in`, if given, as soon as it is compiled, and taken from there if an earlier build kept it.

    Returns
    -------
    The file, and the kernels left to numba, each with the reason.
    """
    triple = _triple(target)
    _pretend_to_run_on(triple)
    from numba.core.errors import NumbaError

    from online_rank._kernels.ahead.finished import Finished, alone
    from online_rank._kernels.ahead.wrappers import Unsuited, add_entry, mark_blas, module_of_wrappers

    signatures: dict[str, list[tuple[str, Any, tuple[Any, ...]]]] = {}
    modules, left_out, needs_blas = [], {}, set()
    runtime = {item.name for item in module_of_wrappers(triple).functions if item.blocks}
    merged = _merged(calls)
    finished = None if kept_in is None else Finished(kept_in, target)
    for done, (kernel, arguments) in enumerate(merged):
        show(done, len(merged))
        name = kernel.entry_name
        before = None if finished is None else finished.read(name, arguments)
        try:
            if before is None:
                compiled = _without_wrappers(kernel, arguments)
                if unknown := _unknown_symbols(compiled.library._final_module, runtime):
                    raise Unsuited(f"it calls {', '.join(sorted(unknown))}")
                signature = (compiled.fndesc.llvm_func_name, compiled.signature.return_type, arguments)
                # Tried separately first, so that a kernel that cannot be wrapped leaves nothing in the module.
                add_entry(module_of_wrappers(triple), name, [signature])
                part = alone(compiled.library._final_module, signature[0])
                if finished is not None:
                    finished.keep(name, part, signature)
            else:
                part, signature = before
        except (Unsuited, NumbaError) as reason:
            left_out[name] = str(reason).partition("\n")[0]
            continue
        if any(item.name.startswith("numba_xx") for item in part.functions):
            needs_blas.add(name)
        modules.append(part)
        signatures.setdefault(name, []).append(signature)
    wrappers = module_of_wrappers(triple)
    kept = {add_entry(wrappers, name, found) for name, found in signatures.items()}
    mark_blas(wrappers, needs_blas)
    kept |= {name for name in wrappers.globals if name.startswith("online_rank_")}
    whole = llvm.parse_assembly(str(wrappers))
    for part in modules:
        whole.link_in(part, preserve=True)
    path = folder / object_name(target)
    write_sealed(path, _machine_code(whole, kept, target))
    return path, left_out


def _merged(calls: Iterable[tuple[Any, tuple[Any, ...]]]) -> list[tuple[Any, tuple[Any, ...]]]:
    """Merge calls that differ only in which arrays are read-only: an array that is read-only in one call is taken as
    read-only.
    """
    found: dict[Any, Any] = {}
    for kernel, arguments in calls:
        key = kernel, tuple(map(_lent, arguments))
        before = found.get(key, arguments)
        found[key] = tuple(map(_of_both, before, arguments))
    return [(kernel, arguments) for (kernel, _), arguments in found.items()]


def _lent(kind: Any) -> Any:
    """A type with all its arrays read-only."""
    from numba import types

    from online_rank._kernels.ahead.wrappers import is_tuple

    if is_tuple(kind):
        return types.BaseTuple.from_types(tuple(map(_lent, kind.types)), getattr(kind, "instance_class", None))
    return kind.copy(readonly=True) if isinstance(kind, types.Array) else kind


def _of_both(one: Any, other: Any) -> Any:
    """Of two types that differ only in which arrays are read-only: each array read-only if it is in one of them."""
    from numba import types

    from online_rank._kernels.ahead.wrappers import is_tuple

    if is_tuple(one):
        return types.BaseTuple.from_types(tuple(map(_of_both, one.types, other.types)), getattr(one, "instance_class", None))
    return one if getattr(other, "mutable", True) else other


def _without_wrappers(kernel: Any, arguments: tuple[Any, ...]) -> Any:
    """A kernel compiled by numba without wrappers for Python and C."""
    import numba

    options = {**kernel.options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    bare = numba.njit(**options)(kernel.py_func)
    bare.compile(arguments)
    return bare.overloads[arguments]


def _unknown_symbols(module: Any, runtime: set[str]) -> set[str]:
    """The functions that a kernel calls and that neither the runtime nor a loading process has: loading would fail silently."""
    elsewhere = {item.name for item in [*module.functions, *module.global_variables] if item.is_declaration}
    known = _OF_LIBM | _OF_LIBC | runtime
    return {
        name
        for name in elsewhere - known
        if not name.startswith("llvm.") and not (name.startswith(("Py", "_Py")) and hasattr(ctypes.pythonapi, name))
    }


def _machine_code(whole: Any, kept: set[str], target: str) -> bytes:
    """The code of a module, in which only the `kept` symbols are visible.

    Position-independent on Linux. Elsewhere as numba makes it for LLVM's loader, which has no stubs for calls beyond 128 MB in
    files of macOS, and takes no files but ELF on Windows.
    """
    for item in [*whole.functions, *whole.global_variables]:
        if not item.is_declaration and item.name not in kept:
            item.linkage = "internal"
    triple, how = _triple(target), {"reloc": "pic", "codemodel": "default"}
    if _is_for_this_system(target):
        how = {"reloc": "static" if triple.startswith("x86") else "default", "codemodel": "jitdefault"}
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=_processor(target), features="", opt=2, **how)
    whole.data_layout = str(machine.target_data)
    whole.verify()
    # Nothing is optimised again: wrappers are straight-line code, and kernels were optimised by numba.
    passes = llvm.create_new_module_pass_manager()
    add = getattr(passes, "add_global_dead_code_eliminate_pass", None) or passes.add_global_dce_pass
    add()
    passes.run(whole, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))
    return machine.emit_object(whole)
