"""The API pages: every public name is there, nothing is warned of, and docstrings describe the parameters that there are."""

import importlib
import inspect
import warnings

import pytest

import online_rank
from online_rank.support.registry import ROOMS

pdoc = pytest.importorskip("pdoc")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    pdoc.render.configure(docformat="numpy", math=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        pdoc.pdoc("online_rank", *(f"online_rank.{room}" for room in ROOMS), output_directory=folder)
    return folder


def rooms():
    """The public packages and modules that list names."""
    yield online_rank
    for name in ROOMS:
        yield importlib.import_module(f"online_rank.{name}")


def test_every_public_name_has_its_place(pages):
    for room in rooms():
        page = (pages / f"{room.__name__.replace('.', '/')}.html").read_text()
        for name in room.__all__:
            own = getattr(room, name)
            if inspect.ismodule(own):
                assert (pages / f"{own.__name__.replace('.', '/')}.html").exists(), own
            else:
                assert f'id="{name}"' in page, f"{room.__name__}.{name}"
        assert ".. math::" not in page.replace('<span class="sd">', "").split('<div class="pdoc-code')[0]


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
