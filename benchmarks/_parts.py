"""Four parts in one package: core, service, engines, studies. Who imports whom, and what crosses the walls.

`pyproject.toml` lists the modules of the last three, as contracts of import-linter; all others are core.
"""

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "online_rank"
_PROJECT = Path(__file__).parents[1] / "pyproject.toml"
#: The parts, and which of them each may import.
PARTS = {
    "core": {"core"},
    "service": {"core", "service"},
    "engines": {"core", "engines"},
    "studies": {"core", "service", "studies"},
}


class Import(NamedTuple):
    """A name, or a module, that a module imports from another one of the package."""

    by: str
    module: str
    name: str | None


class Parts:
    """The parts of a package.

    Parameters
    ----------
    root
        The folder that has the package.
    """

    def __init__(self, root: Path = _PROJECT.parent) -> None:
        files = sorted((root / PACKAGE).rglob("*.py"))
        names = {path: ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in files}
        self.modules = {name: path.read_text() for path, name in names.items()}
        contracts = tomllib.loads(_PROJECT.read_text())["tool"]["importlinter"]["contracts"]
        self._listed = {part: _protected(contracts, part) for part in PARTS if part != "core"}

    def of(self, module: str) -> str:
        """The part of a module."""
        for part, listed in self._listed.items():
            if any(f"{module}.".startswith(f"{one}.") for one in listed):
                return part
        return "core"

    def imports(self) -> Iterator[Import]:
        """What modules import from one another, also inside functions; not what only types need."""
        for by, text in self.modules.items():
            for node in _running(ast.parse(text)):
                if isinstance(node, ast.Import):
                    yield from (Import(by, alias.name, None) for alias in node.names if alias.name in self.modules)
                elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == PACKAGE:
                    for alias in node.names:
                        inner = f"{node.module}.{alias.name}"
                        if inner in self.modules:
                            yield Import(by, inner, None)
                        else:
                            yield Import(by, node.module, alias.name)

    def wrong(self) -> list[tuple[str, str]]:
        """The modules that import one of a part that theirs may not know."""
        pairs = {(found.by, found.module) for found in self.imports()}
        return sorted(pair for pair in pairs if self.of(pair[1]) not in PARTS[self.of(pair[0])])

    def across(self, part: str) -> dict[str, set[str]]:
        """What a part uses of the core and no public module lists: each name, with the modules that use it."""
        found: dict[str, set[str]] = {}
        for by, module, name in self.imports():
            if (self.of(by), self.of(module)) != (part, "core"):
                continue
            for used in [name] if name else _attributes(self.modules[by], module):
                if used not in _public():
                    found.setdefault(f"{module.removeprefix(f'{PACKAGE}.')}.{used}", set()).add(by)
        return found


def allowed_across(part: str) -> list[str]:
    """The list of what a part may use of the core although no public module lists it."""
    return tomllib.loads(_PROJECT.read_text())["tool"][PACKAGE]["across"][part]


def _protected(contracts: list[dict], part: str) -> list[str]:
    return next(contract["protected_modules"] for contract in contracts if contract.get("id") == part)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree, without the bodies of `if TYPE_CHECKING:`."""
    yield node
    skipped = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else ()
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield from _running(child)


def _attributes(text: str, module: str) -> set[str]:
    """The attributes that a file uses of a module that it imports whole."""
    tree = ast.parse(text)
    last = module.rpartition(".")[2]
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" == module
    } or {last}
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    }


def _public() -> set[str]:
    from online_rank.support.registry import MODULES, ROOMS

    modules = (PACKAGE, *(f"{PACKAGE}.{name}" for name in (*ROOMS, *MODULES)))
    return {name for module in modules for name in importlib.import_module(module).__all__}
