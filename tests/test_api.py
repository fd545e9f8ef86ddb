"""Docstrings describe the parameters that there are; `.ci/run lint` builds their pages."""

import importlib
import inspect
import re
import runpy
import warnings
from pathlib import Path

import pytest

import online_rank
from online_rank.support.registry import ROOMS


def rooms():
    """The public packages and modules that list names."""
    yield online_rank
    for name in ROOMS:
        yield importlib.import_module(f"online_rank.{name}")


@pytest.mark.slow
def test_every_public_name_has_a_page():
    pytest.importorskip("sphinx")
    pytest.importorskip("latex2mathml")
    pages = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "conf.py"))["api_pages"]()
    for room in rooms():
        listed = dict(re.findall(r"- :doc:`(\w+) <(.*?)>`", "\n".join(pages[room.__name__])))
        names = {name for name in room.__all__ if name != "__version__" and not inspect.ismodule(getattr(room, name))}
        assert listed.keys() == names
        assert {*listed.values()} <= pages.keys()


def test_every_room_that_users_import_from_is_public():
    public = {room.__name__.partition(".")[2] for room in rooms()}
    assert public >= {"base", "bounds", "checks", "evaluate", "metrics", "plot", "preprocessing", "query", "rankers", "serving",
                      "storage", "stream", "surrogates"}  # fmt: skip


def public_objects():
    for room in rooms():
        for name in room.__all__:
            own = getattr(room, name)
            if inspect.isfunction(own) or inspect.isclass(own):
                yield pytest.param(own, id=f"{room.__name__}.{name}")


@pytest.mark.parametrize("own", list(public_objects()))
def test_docstrings_are_numpydoc(own):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = inspect.getdoc(own)
        assert text, own
        described = [name.strip("*") for one in docscrape.NumpyDocString(text)["Parameters"] for name in one.name.split(", ")]
    if described and not issubclass(type(own), type(Exception)):
        parameters = list(inspect.signature(own).parameters)
        assert [name for name in described if name not in parameters] == []
