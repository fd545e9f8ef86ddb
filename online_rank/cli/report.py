"""A self-contained HTML page about a run: figures, plots, the worst and the slowest queries."""

import base64
import contextlib
import hashlib
import html
import importlib.metadata
import io
import math
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import online_rank
from online_rank import plot
from online_rank.base import serving_ranker, serving_steps
from online_rank.bounds import Certificate
from online_rank.cli.beside import kinds_of
from online_rank.cli.printing import measured
from online_rank.cli.query_log import WARM_UP, QueryLog, SeenQuery
from online_rank.evaluate import Trace
from online_rank.plot.additive import draw
from online_rank.plot.pairs import draw_pairs
from online_rank.preprocessing._columns import ColumnTransformer, names_made
from online_rank.rankers.pair_shapes import pair_shapes_of
from online_rank.rankers.shapes import has_shapes, shapes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Curves in a picture, and all that are drawn, most of them folded away.
_CURVES, _FOLDED = 12, 36

#: The figures of a pass: their labels, names and forms.
_OF_PASSES = (
    ("queries", "queries", ","), ("documents", "documents", ","), ("updates", "mistakes", ","),
    ("queries with nothing to learn", "skipped", ","), ("cumulative loss", "loss", ",.2f"), ("seconds", "elapsed", ".1f"),
)  # fmt: skip


def write_report(
    folder: str | os.PathLike[str],
    *,
    figures: Mapping[str, Any],
    settings: Mapping[str, Any],
    trace: Trace,
    log: QueryLog,
    model: Any,
    certificate: Certificate | None = None,
    feature_names: Sequence[str] | None = None,
) -> Path:
    """Write a run as `index.html` into a folder, which is created if needed.

    The page is one file, needs no network and runs no script.

    Parameters
    ----------
    folder
        Where to write.
    figures
        The figures of `online-rank train --json`.
    settings
        The settings of the run, shown unchanged.
    trace
        The trace of the run; each of its metrics is drawn.
    log
        What watched the queries.
    model
        The model at the end of the run.
    certificate
        A certificate of the run, or None.
    feature_names
        Names of the features, starting with feature 1; features beyond the list are shown by number.

    Returns
    -------
    The path of the page.

    Raises
    ------
    ImportError
        matplotlib is missing.
    """
    pictures = []
    if trace.n_queries:
        pictures.append(_picture(plot.trace(trace), "The measure before each query was learned from"))
    if intervals := [interval for interval in trace.served_intervals() if interval.n]:
        caption = "Mean loss of what was served, and where its expectation is at all times, with probability 95 %"
        pictures.append(_picture(plot.served_loss(intervals), caption))
    if trace.loss > 0.0:
        pictures.append(_picture(plot.loss(trace), "Cumulative loss of the weights that learn"))
    sections = [
        ("Figures", _figures(figures, trace)),
        ("Course", "".join(pictures) or "<p>No query was met.</p>"),
        _learned(model, list(feature_names or ())[: figures["features"]], figures["features"]),
        *_combined(model, feature_names or ()),
        *_kinds_of(model),
        ("Worst ranked", _worst(log)),
        ("Slowest", _slowest(log)),
        ("Settings", _table([], [(name, _shown(value)) for name, value in settings.items()])),
        ("Run it again", _reproduction([str(file) for file in settings.get("files", ())])),
    ]
    if certificate is not None:
        drawn = certificate.loss > 0.0 and any(0.0 < check.value < math.inf for check in certificate.bounds)
        picture = _picture(plot.certificate(certificate), "What each bound allows") if drawn else ""
        sections.insert(2, ("Certificate", picture + _certified(certificate)))
    return _write(folder, f"{figures['measure']} on {_named(figures)}", sections)


def write_figures(
    folder: str | os.PathLike[str],
    *,
    figures: Mapping[str, Any],
    settings: Mapping[str, Any],
    model: Any,
    names: Sequence[str],
) -> Path:
    """Write a run on clicks as a page, as `write_report` does for a run on grades.

    Parameters
    ----------
    folder, settings, model
        As for `write_report`.
    figures
        The figures of `online-rank train --clicks --json`.
    names
        Names of the features.
    """
    rows = [(name, _shown(value)) for name, value in figures.items() if name != "verdict"]
    sections = [
        ("Figures", f"<p>{html.escape(figures['verdict'])}</p>" + _table([], rows)),
        _learned(model, names, figures["features"]),
        *_combined(model, names),
        *_kinds_of(model),
        ("Settings", _table([], [(name, _shown(value)) for name, value in settings.items()])),
        ("Run it again", _reproduction(figures["files"])),
    ]
    return _write(folder, f"clicks in {_named(figures)}", sections)


def _named(figures: Mapping[str, Any]) -> str:
    """The names of the files of a run."""
    return ", ".join(os.path.basename(str(file)) for file in figures["files"])


def _curves(ranker: Any, given: Sequence[str]) -> str:
    """Pictures of what features add to scores: the first ones, others folded away, and a note on the rest."""
    shapes = shapes_of(ranker)
    if not shapes:
        return "<p>No feature was met.</p>"
    if ranker.feature_names is None:
        called = _numbered(given)
        shapes = [shape._replace(name=called(shape.name)) for shape in shapes]
    caption = "What values add to a score, the features that matter most first; the band is the range of the members"
    pictures = [
        _picture(draw(shapes[first : first + _CURVES])[0], "Further features" if first else caption)
        for first in range(0, min(len(shapes), _FOLDED), _CURVES)
    ]
    folded = f"<details><summary>Further features</summary>{''.join(pictures[1:])}</details>" if pictures[1:] else ""
    left = len(shapes) - _FOLDED
    return (
        pictures[0]
        + folded
        + (f"<p>{left:,} more features vary less; <code>plot.curves</code> draws them.</p>" if left > 0 else "")
    )


def _numbered(given: Sequence[str]) -> Callable[[Any], str]:
    """What a page calls a feature that a model knows by its number."""
    names = dict(zip(map(str, range(1, len(given) + 1)), given, strict=True))
    return lambda number: names.get(str(number), f"feature {number}")


def _combined(model: Any, given: Sequence[str]) -> list[tuple[str, str]]:
    """A heading, and heat maps of the pairs of features that trees combine; nothing for a model without such pairs."""
    ranker = serving_ranker(model)
    shapes = pair_shapes_of(ranker)
    if not shapes:
        return []
    if ranker.feature_names is None:
        called = _numbered(given)
        shapes = [shape._replace(names=(called(shape.names[0]), called(shape.names[1]))) for shape in shapes]
    caption = "What two values add to a score together, beyond what each adds alone"
    return [("Pairs of features", _picture(draw_pairs(shapes)[0], caption))]


def _kinds_of(model: Any) -> list[tuple[str, str]]:
    """A heading, and the kind of each feature; nothing for a model whose features are all numbers."""
    kinds = kinds_of(model)
    if not kinds:
        return []
    ignored = serving_ranker(model).n_ignored
    told = f"<p>{ignored:,} values of ignored features were met.</p>" if ignored else ""
    return [("Kinds of features", "<p>All others are numbers.</p>" + told + _table(["feature", "kind"], [*kinds.items()]))]


def _learned(model: Any, names: Sequence[str], n_features: int) -> tuple[str, str]:
    """A heading, and pictures of what a model has learned of its features."""
    ranker = serving_ranker(model)
    if not n_features:
        return "Features", "<p>No feature was met.</p>"
    if has_shapes(ranker):
        return "Curves", _curves(ranker, names)
    with contextlib.suppress(TypeError, ValueError):  # It has no trees, or none that has split yet.
        return "Trees", _picture(plot.importance(model), "Features by which the trees split")
    if len(getattr(ranker, "served_weights", ())):
        return "Weights", _weights(model, names, n_features)
    return "Features", f"<p>A {type(ranker).__name__} has neither weights nor curves of features to draw.</p>"


def _weights(model: Any, given: Sequence[str], n_features: int) -> str:
    """A picture of the weights of a linear model."""
    names: Any = [*given, *(f"feature {j + 1}" for j in range(len(given), n_features))]
    for step in serving_steps(model)[:-1]:
        # A step that makes several columns of one feature names them.
        names = names_made(step, tuple(names)) if isinstance(step, ColumnTransformer) else names
    return _picture(plot.weights(model, names=names), "Weights of the features, behind the scaling")


def _write(folder: str | os.PathLike[str], title: str, sections: Iterable[tuple[str, str]]) -> Path:
    """Write a page with headings and what is below them; returns its path."""
    body = "".join(f"<section><h2>{heading}</h2>{content}</section>" for heading, content in sections)
    path = Path(folder) / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    page = _PAGE.format(title=html.escape(title), style=_STYLE, body=body, version=online_rank.__version__)
    path.write_text(page, encoding="utf-8")
    return path


def _picture(ax: "Axes", caption: str) -> str:
    """An HTML figure of the Axes, whose figure is then closed."""
    import matplotlib
    from matplotlib import pyplot

    buffer = io.BytesIO()
    # So that the same run gives the same page.
    with matplotlib.rc_context({"svg.hashsalt": "online_rank"}):
        figure: Any = ax.figure
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    data = base64.b64encode(buffer.getvalue()).decode()
    label = html.escape(caption)
    return f'<figure><figcaption>{label}</figcaption><img alt="{label}" src="data:image/svg+xml;base64,{data}"></figure>'


def _figures(figures: Mapping[str, Any], trace: Trace) -> str:
    """The tables of the measure and of the passes."""
    rows = [*measured(figures, trace)]
    served = trace.served_interval()
    if served.n:
        text = f"{served.lower:.4f} to {served.upper:.4f} around {served.mean:.4f}"
        rows.append(("expected loss of what was served, 95 % at all times", text, f"{served.n:,}"))
    # One column for each pass: there are few passes, and a narrow screen has no room for a column for each figure.
    passes = [(label, *(f"{one[name]:{form}}" for one in figures["passes"])) for label, name, form in _OF_PASSES]
    head = ["", *(f"pass {number}" for number in range(1, len(figures["passes"]) + 1))]
    rate = trace.n_queries / trace.elapsed if trace.elapsed > 0.0 else 0.0
    speed = f"<p>{figures['features']:,} features; {rate:,.0f} queries/s, read, ranked, measured and learned.</p>"
    return _table(["", figures["measure"], "queries"], rows) + _table(head, passes) + speed


def _certified(certificate: Certificate) -> str:
    """A certificate as tables: what was measured, what each bound allows, and why other bounds do not cover the model."""
    rows = certificate.rows()
    against = [] if certificate.comparator is None else [("against", certificate.comparator)]
    measured = against + [(row.label, row.text) for row in rows if row.part in ("run", "note")]
    bounds = [(row.label, row.text, row.verdict) for row in rows if row.part == "bound"]
    others = [(row.label, row.text) for row in rows if row.part == "not covered"]
    return (
        _table([], measured)
        + _table(["the loss is at most", "bound", ""], bounds)
        + (f"<details><summary>Bounds that do not cover the model</summary>{_table([], others)}</details>" if others else "")
    )


def _worst(log: QueryLog) -> str:
    """The worst-ranked queries, each with its top documents and the relevant ones it missed."""
    if not log.worst:
        return "<p>No query to show.</p>"
    parts = [
        f"<p>The lowest {html.escape(log.measure)} after the first {WARM_UP} queries, each before it was learned from.</p>"
    ]
    for seen in log.worst:
        rows = [(str(rank), name, f"{score:.4g}", str(grade)) for rank, (name, score, grade) in enumerate(seen.top, start=1)]
        rows += [(str(rank), name, f"{score:.4g}", str(grade)) for name, rank, score, grade in seen.missed]
        heading = f"query {html.escape(seen.qid)}: {seen.value:.4f}"
        note = f"number {seen.number:,} of the run, {seen.n_documents:,} documents"
        parts.append(f"<h3>{heading} <small>{note}</small></h3>" + _table(["rank", "document", "score", "grade"], rows))
    return "".join(parts)


def _slowest(log: QueryLog) -> str:
    """The table of the slowest queries."""
    rows = []
    for seen in log.slowest:
        first = seen.top[0][0] if seen.top else "–"
        counts = f"{seen.number:,}", f"{seen.n_documents:,}", f"{1e3 * seen.seconds:.2f}"
        rows.append((seen.qid, *counts, _value(seen), first))
    head = ["query", "number", "documents", "ms", log.measure, "ranked first"]
    return _table(head, rows) if rows else "<p>No query to show.</p>"


def _reproduction(files: Sequence[str]) -> str:
    """The command, the versions and the files."""
    command = shlex.join(["online-rank", *sys.argv[1:]])
    versions = [("online_rank", online_rank.__version__), ("Python", platform.python_version())]
    versions += [(name, importlib.metadata.version(name)) for name in ("numpy", "numba", "river")]
    rows = []
    for file in files:
        if os.path.isfile(file):
            with open(file, "rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            rows.append((file, f"{os.path.getsize(file):,}", digest))
    installed = ", ".join(f"{name} {version}" for name, version in versions)
    table = _table(["file", "bytes", "SHA-256"], rows) if rows else ""
    where = f"{installed}, {platform.machine()}, {os.cpu_count()} cores"
    return f'<pre class="wrap">{html.escape(command)}</pre><p>{html.escape(where)}</p>{table}'


def _value(seen: SeenQuery) -> str:
    """A query's value as text."""
    return "–" if math.isnan(seen.value) else f"{seen.value:.4f}"


def _shown(value: Any) -> str:
    """A setting or a figure as text."""
    if isinstance(value, dict):  # An interval.
        return f"{value['mean']:.4f}, from {value['lower']:.4f} to {value['upper']:.4f}"
    return "–" if value is None or value == [] else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, which scrolls on its own if it is too wide. Cells are text, not HTML."""
    top = (
        "<thead><tr>" + "".join(f"<th>{html.escape(cell)}</th>" if cell else "<td></td>" for cell in head) + "</tr></thead>"
        if head
        else ""
    )
    lines = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    # With the focus, it is scrolled by keys.
    return f'<div class="table" tabindex="0"><table>{top}<tbody>{lines}</tbody></table></div>'


def _cell(text: str) -> str:
    """A cell of a table; numbers are right-aligned."""
    kind = ' class="number"' if re.fullmatch(r"[-+\d.,e]+( of [\d,]+)?|–", text) else ""
    return f"<td{kind}>{html.escape(text)}</td>"


_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; color: light-dark(#222, #e8e8e8); background: light-dark(#fff, #121212) }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem }
h3 { font-size: 1rem; margin: 1.2rem 0 0 }
small, figcaption, footer { color: light-dark(#5f5f5f, #a8a8a8); font-weight: normal; font-size: .87rem }
table { border-collapse: collapse; margin: .4rem 0 .8rem; font-variant-numeric: tabular-nums; font-size: .9rem }
.table { overflow-x: auto }
th, td { padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top }
td:not(.number) { overflow-wrap: anywhere; min-width: 6em } th { hyphens: none }
thead + tbody td.number { text-align: right; white-space: nowrap }
th { font-weight: 600 }
thead > tr > * { border-bottom: 1px solid #999 } tbody td { border-bottom: 1px solid light-dark(#eee, #333) }
figure { margin: 0 0 1.2rem } img { width: 600px; max-width: 100%; display: block }
@media (prefers-color-scheme: dark) { img { filter: invert(.93) hue-rotate(180deg) } }
@media (max-width: 40rem) { th, td { padding-right: .6rem } }
pre { background: light-dark(#f6f6f6, #1e1e1e); padding: .7rem; overflow-x: auto; font-size: .82rem }
pre.wrap { white-space: pre-wrap; overflow-wrap: anywhere }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>{body}</main><footer>online_rank {version}</footer></body>
</html>
"""
