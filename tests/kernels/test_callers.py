"""Kernels without a Python wrapper crash the process when Python calls them: nothing outside `_kernels` may."""

import ast
import importlib
from pathlib import Path

import pytest

import online_rank

ROOT = Path(online_rank.__file__).parent
KERNELS = "online_rank._kernels"


def kernels_called(source):
    """(line, kernel) of each call of a kernel by code that imports it, or its module, from `_kernels`."""
    tree = ast.parse(source)
    functions, modules = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(KERNELS):
            for name in node.names:
                known = modules if node.module == KERNELS else functions
                known[name.asname or name.name] = importlib.import_module(
                    f"{KERNELS}.{name.name}" if node.module == KERNELS else node.module
                )
                if known is functions:
                    functions[name.asname or name.name] = getattr(functions[name.asname or name.name], name.name)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in functions:
            yield node.lineno, functions[node.func.id]
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id in modules:
            yield node.lineno, getattr(modules[node.func.value.id], node.func.attr)


def without_wrapper(kernel):
    return bool(getattr(kernel, "targetoptions", {}).get("no_cpython_wrapper"))


@pytest.mark.slow
def test_no_module_calls_a_kernel_that_only_kernels_can_call():
    calls = [
        (f"{path.relative_to(ROOT)}:{line}", kernel)
        for path in sorted(ROOT.rglob("*.py"))
        if "_kernels" not in path.parts
        for line, kernel in kernels_called(path.read_text())
    ]
    assert len(calls) > 20
    assert [place for place, kernel in calls if without_wrapper(kernel)] == []


def test_such_a_call_is_found():
    source = "from online_rank._kernels import network as kernels\nkernels.layer(1)\n"
    ((line, kernel),) = kernels_called(source)
    assert line == 2
    assert without_wrapper(kernel)
