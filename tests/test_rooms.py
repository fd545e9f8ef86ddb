"""CONTRIBUTING.md shows the rooms as the layering contract has them."""

import re
import tomllib
from pathlib import Path

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
    assert folders - rooms <= {"benchmarks", "kernels", "reference"}
