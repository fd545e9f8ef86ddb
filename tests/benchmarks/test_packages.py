"""What a service installs beyond the required packages, and what each package is for."""

import re

import pytest

from benchmarks import packages
from benchmarks._common import RESULTS

EXTRAS = [extras for extras in packages.SETS.values() if extras]


def test_a_service_installs_at_most_30_mb_beyond_the_required_packages():
    found = packages.beyond(packages.SETS["service"])
    assert {"starlette", "uvicorn", "typer"} <= found.keys()
    assert sum(found.values()) <= packages.MOST == 30.0


@pytest.mark.parametrize("extras", [(), *EXTRAS])
def test_every_package_has_a_use(extras):
    assert packages.needed(extras) <= packages.USES.keys()


def test_the_project_requires_these_packages_and_what_they_need():
    assert packages.needed() == {"llvmlite", "narwhals", "numba", "numpy", "river", "scipy"}


def test_the_page_has_every_package_and_its_use():
    rows = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+?) \|", (RESULTS / "packages.md").read_text(), re.MULTILINE))
    rows.pop("package", None)
    assert rows == packages.USES
