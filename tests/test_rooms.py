"""CONTRIBUTING.md shows the rooms as the layering contract has them."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks._parts import PARTS, Parts, allowed_across
from online_rank.support.registry import COMMANDS

ROOT = Path(__file__).resolve().parents[1]


def test_the_diagram_agrees_with_the_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [re.sub(r"[()]", "", layer) for layer in contract["layers"]]
    diagram = re.search(r"```text\n(cli .*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[1]
    assert [re.split(r"\s{2,}", line)[0] for line in diagram.splitlines()] == layers


def test_every_room_is_in_the_diagram_and_every_test_folder_is_a_room():
    rooms = {path.stem for path in (ROOT / "online_rank").iterdir() if not path.stem.startswith("__") and path.stem != "py"}
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [room for room in rooms if not re.search(rf"^(\w+ \| )*{room}\b", text, re.MULTILINE)] == []
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert folders - rooms <= {"benchmarks", "campaigns", "fuzz", "kernels", "reference"}


def test_the_diagram_of_the_parts_shows_all():
    diagram = re.search(r"```text\n(studies .*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[1]
    assert {*re.findall(r"^[ |]*([a-z]{2,}) {3,}\S", diagram, re.MULTILINE)} == {*PARTS}


@pytest.mark.slow
def test_no_part_imports_one_that_it_may_not_know():
    assert Parts().wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ["service", "engines"])
def test_what_a_part_uses_of_the_core_is_public_or_listed(part):
    assert sorted(Parts().across(part)) == allowed_across(part)
    assert len(allowed_across(part)) <= 60


def test_the_modules_of_a_part_may_import_one_another():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    walls = {contract["id"]: contract for contract in contracts if contract["type"] == "protected"}
    assert [*walls] == [part for part in PARTS if part != "core"]
    for part, wall in walls.items():
        others = ["online_rank.cli.live"] if part == "service" else []
        assert wall["allowed_importers"] == [*wall["protected_modules"], *others]
    assert {name for wall in walls.values() for name in wall["protected_modules"]} <= {*Parts().modules}


@pytest.mark.slow
def test_a_certificate_finds_the_bounds_of_a_ranker_of_studies_without_an_import():
    code = (
        "import sys, numpy as np\n"
        "from online_rank import LossTracker, PerceptronRanker, SlamRanker\n"
        "tracker = LossTracker(PerceptronRanker())\n"
        "print('online_rank.rankers.slam' in sys.modules, 'online_rank.bounds.theorems' in sys.modules)\n"
        "tracker = LossTracker(SlamRanker(), {'u': np.ones(1)})\n"
        "tracker.learn_one(np.array([[0.0], [1.0]]), [0, 1])\n"
        "print(*(check.name for check in tracker.certificate('u').bounds))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, names = done.stdout.splitlines()
    # The name of SlamRanker alone loads its module; a tracker around another ranker loads no bound of it.
    assert before == "True False"
    assert {"any_step_bound", "regret_bound"} <= {*names.split()}


def test_every_command_is_registered():
    modules = {path.stem for path in (ROOT / "online_rank" / "cli" / "commands").glob("[!_]*.py")}
    assert COMMANDS.keys() == modules


#: Private names of the room `base` are shared by all that extend its classes; the last two are hooks of files, the next to last
#: of river's checks, and `_helper` belongs to river.
HOOKS = {"_check_state", "_derive", "_unit_test_skips", "_helper", "_fields", "_make", "_replace", "_asdict"}


def _private(name):
    return name.startswith("_") and not name.startswith("__")


def _names_made(nodes):
    """The private names that a module gives: functions, classes, variables and attributes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _private(node.name):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _private(node.attr):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and _private(node.id):
            yield node.id


@pytest.mark.slow
def test_no_room_reaches_into_another():
    modules = {path: [*ast.walk(ast.parse(path.read_text()))] for path in (ROOT / "online_rank").rglob("*.py")}
    rooms = {path: path.relative_to(ROOT / "online_rank").parts[0].removesuffix(".py") for path in modules}
    made = {}
    for path, nodes in modules.items():
        made.setdefault(rooms[path], set()).update(_names_made(nodes))
    strange = {room: set().union(*made.values()) - own - made["base"] - HOOKS for room, own in made.items()}
    reached = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path, nodes in modules.items()
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in strange[rooms[path]]
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]
    assert reached == []
