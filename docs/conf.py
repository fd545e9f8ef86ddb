"""The site, built by `python -m sphinx -W -c docs . FOLDER` in the root of a clone: CONTRIBUTING.md, "The site".

The whole clone is the source, so that a relative link leads to the same page or file here and on the code host.
"""

import importlib
import inspect
import re
from pathlib import Path

import latex2mathml.converter
import typer.cli
from docutils import nodes
from sphinx.util.inspect import stringify_signature

from online_rank import __version__
from online_rank.cli.app import app as commands
from online_rank.support.registry import MODULES, ROOMS

_ROOT = Path(__file__).parents[1]
#: Pages that are written before each build: of the API, and of the commands.
_WRITTEN = _ROOT / "docs" / "api"

project = "online_rank"
author = copyright = "The online_rank developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_gallery.gen_gallery"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/README.md",
    "benchmarks/results/*",
    "examples/langchain/README.md",
    "tests/campaigns/results.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "dist", "docs/notebooks/*.py", "docs/notebooks/*.ipynb"]

html_theme = "furo"
html_title = f"online_rank {__version__}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
html_math_renderer = "mathml"

myst_heading_anchors = 4
# Pictures with a width are tags: read as pictures, so that the build copies them and the page finds them.
myst_enable_extensions = ["html_image"]
# Quotation marks and dots, no dashes: options of commands begin with two hyphens.
smartquotes_action = "qe"
default_role = "py:obj"
autodoc_member_order = "bysource"
maximum_signature_line_length = 100
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "examples/notebooks",
    "gallery_dirs": "docs/notebooks",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}


def write_pages(app):
    """Write the pages of the API and of the commands, and remove the pages of names that are gone."""
    pages = {f"{name}.rst": lines for name, lines in api_pages().items()}
    group = typer.main.get_command(commands)
    pages["commands.md"] = [typer.cli.get_docs_for_click(obj=group, ctx=typer.Context(group), name="online-rank")]
    _WRITTEN.mkdir(exist_ok=True)
    for path in _WRITTEN.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, lines in pages.items():
        path, text = _WRITTEN / name, "\n".join([*lines, ""])
        # An unchanged page is not read again.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def api_pages():
    """A page for each public module, and one for each public name, where the first module that lists it has it."""
    pages, homes, modules = {}, {}, ["online_rank", *(f"online_rank.{name}" for name in (*ROOMS, *MODULES))]
    for module in modules:
        lines = [module, "=" * len(module), "", f".. automodule:: {module}", ""]
        own = []
        for name in sorted(set(importlib.import_module(module).__all__) - {"__version__"}):
            value = getattr(importlib.import_module(module), name)
            if inspect.ismodule(value):
                continue
            key = id(value) if callable(value) else (module, name)
            if key not in homes:
                homes[key] = f"{module}.{name}"
                own.append(homes[key])
                pages[homes[key]] = page_of(homes[key], value)
            lines += [f"- :doc:`{name} <{homes[key]}>`: {first_line(value)}"]
        lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {name.rpartition('.')[2]} <{name}>" for name in own)]
        pages[module] = lines
    entries = [f"   {module}" for module in sorted(modules)]
    return {**pages, "index": ["Python", "======", "", ".. toctree::", "   :maxdepth: 1", "", *entries]}


def page_of(name, value):
    """The page of a public name."""
    kind = "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) else "data"
    # Bases are often private; what is inherited is on the page anyway.
    options = ["   :members:", "   :inherited-members:"] if kind == "class" else []
    title = name.rpartition(".")[2]
    guides = guides_of(title)
    related = ["", ".. rubric:: Comes with", "", *(f"- :doc:`{heading} </docs/{page}>`" for page, heading in guides)]
    return [title, "=" * len(title), "", f".. auto{kind}:: {name}", *options, *(related if guides else [])]


def guides_of(name):
    """The guides that name something most often in code, at most five: their pages and headings."""
    found = []
    for path in sorted((_ROOT / "docs").glob("*.md")):
        text = path.read_text()
        times = len(re.findall(rf"`[^`\n]*\b{name}\b[^`\n]*`|^[^`|\n]*\b{name}\(", text, re.MULTILINE))
        if times:
            found.append((-times, path.stem, text.partition("\n")[0].lstrip("# ")))
    return [(page, heading) for _, page, heading in sorted(found)[:5]]


def first_line(value):
    """What a class or a function is, in one line."""
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ") if callable(value) else ""


def lead_to_notebooks(app, page, source):
    """On the code host a link leads to the script of a notebook, here to what it printed and drew."""
    source[0] = re.sub(r"\]\([./]*examples/notebooks/(\w+)\.py\)", r"](/docs/notebooks/\1.rst)", source[0])


def keep_errors_together(app, page, source):
    """A line of a narrow column never ends between ± and its figure."""
    source[0] = re.sub(r"± (?=[\d.])", "±\N{NO-BREAK SPACE}", source[0])


def skip_foreign(app, kind, name, value, skip, options):
    """Leave out what classes inherit from other packages."""
    home = getattr(getattr(value, "fget", value), "__module__", None) or "online_rank"
    return None if home.startswith("online_rank") else True


def signature_of(app, kind, name, value, options, signature, returns):
    """The parameters of a class: a common `__new__` hides them."""
    if signature and signature.startswith("(*arguments"):
        return stringify_signature(
            inspect.signature(value).replace(return_annotation=None), unqualified_typehints=True, show_return_annotation=False
        ), returns
    return None


def unlink(app, tree):
    """NDCG@10 is no address of mail."""
    for node in list(tree.findall(nodes.reference)):
        if node.get("refuri", "").startswith("mailto:"):
            node.replace_self(node.children)


def as_mathml(display):
    """Visits of formulas: browsers show MathML without a script."""

    def visit(translator, node):
        translator.body.append(latex2mathml.converter.convert(node.astext(), display=display))
        raise nodes.SkipNode

    return visit, None


def lead_to_index(app, error):
    """The address of the site leads to its first page."""
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "index.html").write_text('<meta http-equiv="refresh" content="0; url=docs/index.html">\n')


def setup(app):
    """Connect the above."""
    app.add_html_math_renderer("mathml", as_mathml("inline"), as_mathml("block"))
    app.connect("builder-inited", write_pages)
    app.connect("source-read", lead_to_notebooks)
    app.connect("source-read", keep_errors_together)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", signature_of)
    app.connect("doctree-read", unlink)
    app.connect("build-finished", lead_to_index)
