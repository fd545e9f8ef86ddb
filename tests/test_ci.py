"""`.ci/run`, which is a script for bash, and what else runs the tests."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from tests.conftest import LONGEST, pytest_collection_modifyitems

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "run"


@pytest.mark.skipif(shutil.which("bash") is None or not SCRIPT.exists(), reason="for a checkout, and bash")
def test_what_runs_in_parallel_with_a_step_that_fails_ends_with_it(tmp_path):
    program, pid = tmp_path / "long.py", tmp_path / "pid"
    program.write_text(f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    steps = f'''
long() {{ echo before; "{sys.executable}" "{program}"; }}
fails() {{ while ! [ -s "{pid}" ]; do sleep 0.05; done; false; }}
in_parallel long fails
'''
    begin = SCRIPT.read_text().partition("\ncase ")[0]
    # The output goes to a file: a pipe would stay open with a process that continues.
    with open(tmp_path / "output", "w") as output:
        done = subprocess.run(["bash", "-c", begin + steps, str(SCRIPT)], stdout=output, stderr=subprocess.DEVNULL, timeout=60)
    assert done.returncode != 0
    assert (tmp_path / "output").read_text().splitlines() == ["+ fails", "+ long", "before"]
    number = int(pid.read_text())
    until = time.monotonic() + 60.0
    while _runs(number) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(number)


def _runs(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_bill_of_materials_names_each_package_once():
    done = subprocess.run([sys.executable, SCRIPT.parent / "bom"], capture_output=True, text=True, check=True)
    bom = json.loads(done.stdout)
    assert (bom["bomFormat"], bom["specVersion"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "1.5", "online-rank")
    names = [component["name"] for component in bom["components"]]
    assert names == sorted({*names})
    assert {"numba", "numpy", "river", "scipy"} <= {*names}
    numpy = bom["components"][names.index("numpy")]
    assert numpy["purl"] == f"pkg:pypi/numpy@{metadata.version('numpy')}"
    assert "BSD-3-Clause" in numpy["licenses"][0]["license"]["name"]


def test_actions_are_pinned_by_digest():
    used = [
        line for path in (ROOT / ".github" / "workflows").iterdir() for line in path.read_text().splitlines() if "uses:" in line
    ]
    assert used
    assert all(re.search(r"@[0-9a-f]{40} # v[\d.]+$", line) for line in used)


def test_the_files_that_begin_first_exist():
    assert {*LONGEST} <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}


def test_the_first_cases_of_a_test_are_quick_and_the_others_slow(request):
    """`first(2)`, over five cases; a test without it stays quick."""
    pytest_function = type(request.node)
    module = request.node.parent

    def case(name, *marks):
        made = pytest_function.from_parent(module, name=name, callobj=lambda: None)
        for mark in marks:
            made.add_marker(mark)
        return made

    items = [case(f"test_of_cases[{i}]", pytest.mark.first(2)) for i in range(5)] + [case("test_alone")]
    pytest_collection_modifyitems(items)
    assert [item.get_closest_marker("slow") is not None for item in items] == [False, False, True, True, True, False]
