"""Results as a table for LaTeX, with the package booktabs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from online_rank.evaluate.results import Results, Spread

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def escaped(text: str) -> str:
    r"""Text without special characters of LaTeX.

    Examples
    --------
    >>> print(escaped("p@5>=2 & 10 %"))
    p@5\textgreater{}=2 \& 10 \%
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def table(results: "Results", metrics: Sequence[str], digits: int, level: float) -> str:
    """The table of `Results.to_latex`."""
    pairs = [(stream, metric) for stream in results.streams for metric in metrics]
    best = {pair: results.best(pair[1], pair[0], level=level) for pair in pairs}
    lines = [rf"\begin{{tabular}}{{l{'r' * len(pairs)}}}", r"\toprule"]
    if len(results.streams) > 1:
        lines.append(
            " & ".join(["", *(rf"\multicolumn{{{len(metrics)}}}{{c}}{{{escaped(name)}}}" for name in results.streams)]) + r" \\"
        )
        ends = [(2 + i * len(metrics), 1 + (i + 1) * len(metrics)) for i in range(len(results.streams))]
        lines.append(" ".join(rf"\cmidrule(lr){{{first}-{last}}}" for first, last in ends))
    lines += [" & ".join(["model", *(escaped(metric) for _, metric in pairs)]) + r" \\", r"\midrule"]
    for model in results.models:
        cells = [
            _cell(results.spread(model, metric, stream), digits, best[stream, metric] == model) for stream, metric in pairs
        ]
        lines.append(" & ".join([escaped(model), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _cell(spread: "Spread", digits: int, bold: bool) -> str:
    if spread.n == 0:
        return "--"
    mean = rf"\mathbf{{{spread.mean:.{digits}f}}}" if bold else f"{spread.mean:.{digits}f}"
    return f"${mean}$" if spread.n == 1 else rf"${mean} \pm {spread.error:.{digits}f}$"
