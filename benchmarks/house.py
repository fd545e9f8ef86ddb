"""How large is the house? Lines of code, public names, options and parameters, counted the same way at every commit.

    python -m benchmarks.house [--root FOLDER] [--hooks]

A line of code is a line that holds part of a statement: blank lines, comments and docstrings do not count. A public name is a
name that a public module lists in `__all__`; a name that several modules list counts once. An option counts once for each
command of `online-rank` that takes it. `pyproject.toml` lists the parts: core, service, engines, studies. An import is wrong if
its part may not know the other (`benchmarks/_parts.py`). A name crosses a wall if the service, or the engines, use it of the
core and no public module lists it. A private access is an attribute with an underscore that a test takes of anything but
itself.
`--root` counts the lines and imports of another checkout; names, options, parameters and classes always come from the package
that is imported.

A ranker consists of its class and the classes of the package that it inherits from. A hook is a method that a class of the
package defines and another one overrides; `--hooks` lists the rankers with their classes, and the hooks that exactly one class
overrides.
"""

import ast
import importlib
import inspect
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import online_rank
from benchmarks._classes import hooks, hooks_of_one, rankers
from benchmarks._common import parser, table
from benchmarks._parts import PARTS, Parts

_ROOT = Path(__file__).parents[1]
#: The modules that open or parse files of users. At 8e619ce: stream/ without clicks, synth, weblike, zipf and writing, and the
#: kernel, which are 2,569 lines.
_READERS = (
    "_kernels/letor", "stream/source", "stream/letor", "stream/separated", "stream/tables", "stream/values", "stream/plan",
    "stream/rows", "stream/lists", "stream/reader", "stream/clicked", "stream/parts", "stream/trec",
)  # fmt: skip
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def code_lines(text: str) -> int:
    """The lines of a Python file that hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - set(_docstring_lines(ast.parse(text))))


def _docstring_lines(tree: ast.AST) -> Iterator[int]:
    """The lines of strings that stand alone: docstrings, and comments written as strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def lines_of(folder: Path) -> int:
    """The lines of code of all Python files in a folder."""
    return sum(code_lines(path.read_text()) for path in sorted(folder.rglob("*.py")))


def private_accesses(text: str) -> int:
    """How often a file takes an attribute with an underscore of anything but `self`, `cls` or `super()`."""
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in ("self", "cls", "super()")
        for node in ast.walk(ast.parse(text))
    )


def _lines_of_module(path: Path) -> int:
    return code_lines(path.read_text()) if path.exists() else 0


def public_names() -> set[str]:
    """The names that the public modules list."""
    from online_rank.support.registry import MODULES, ROOMS

    modules = ["online_rank", *(f"online_rank.{name}" for name in (*ROOMS, *MODULES))]
    return {name for module in modules for name in importlib.import_module(module).__all__} - {"__version__"}


def options() -> dict[str, list[str]]:
    """The options of each command of `online-rank`."""
    import typer

    from online_rank.cli.app import app

    return {command.name: _options_of(command) for command in _commands(typer.main.get_command(app))}


def _commands(command: Any) -> Iterator[Any]:
    """The commands that do something: those without commands below them."""
    below = getattr(command, "commands", None)
    if below is None:
        yield command
    else:
        for one in below.values():
            yield from _commands(one)


def _options_of(command: Any) -> list[str]:
    return [one.name for one in command.params if one.param_type_name == "option"]


def parameters(name: str) -> list[str]:
    """The parameters of the constructor of a public class."""
    return [*inspect.signature(getattr(online_rank, name)).parameters]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--root", type=Path, default=_ROOT, help="the checkout whose lines are counted")
    arguments.add_argument("--hooks", action="store_true", help="list classes and hooks, and count nothing else")
    given = arguments.parse_args()
    if given.hooks:
        print(table(("ranker", "its classes"), [(name, ", ".join(own)) for name, own in rankers().items()]), end="\n\n")
        print(table(("hook", "the only class that overrides it"), [*hooks_of_one().items()]))
        return
    root, houses = given.root, rankers()
    rooms = {folder.name: lines_of(folder) for folder in sorted((root / "online_rank").iterdir()) if folder.is_dir()}
    parts, tests = Parts(root), root / "tests"
    sizes = {part: sum(code_lines(text) for name, text in parts.modules.items() if parts.of(name) == part) for part in PARTS}
    rows = [
        ("code lines of online_rank/", lines_of(root / "online_rank")),
        *((f"of these in the {part}", lines) for part, lines in sizes.items()),
        *((f"of these in {room}/", lines) for room, lines in rooms.items() if lines),
        ("of these in readers of files", sum(_lines_of_module(root / "online_rank" / f"{name}.py") for name in _READERS)),
        *((f"code lines of {folder}/", lines_of(root / folder)) for folder in ("tests", "benchmarks", "examples")),
        ("wrong imports between the parts", len(parts.wrong())),
        *((f"names across the wall, from core to {part}", len(parts.across(part))) for part in ("service", "engines")),
        ("private accesses of tests", sum(private_accesses(path.read_text()) for path in sorted(tests.rglob("*.py")))),
        ("public names", len(public_names())),
        ("options of all commands", sum(map(len, options().values()))),
        ("parameters of PerceptronRanker", len(parameters("PerceptronRanker"))),
        *((f"classes of {name}", len(own)) for name, own in houses.items()),
        ("hooks, methods that a class overrides", len(hooks())),
        ("of these overridden by one class", len(hooks_of_one())),
    ]
    print(table(("what", "number"), [(what, f"{number:,}") for what, number in rows]))


if __name__ == "__main__":
    main()
