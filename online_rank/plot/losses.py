"""Curves of measurements over the queries."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from online_rank.evaluate import Trace
from online_rank.intervals import Interval
from online_rank.plot._style import COLOURS, FONT, GREY, lines, name_lines, scale_to_settled, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from online_rank.plot.runs import LossCurve


def trace(
    trace: Trace | Mapping[str, Trace],
    *,
    metrics: Sequence[str] | None = None,
    drifts: Iterable[float] = (),
    ax: "Axes | None" = None,
) -> "Axes":
    """The metrics of a progressive evaluation over the queries.

    To draw a rolling window and the mean over all queries, measure both: `{"so far": NDCG(k=10),
    "last 500": Rolling(NDCG, 500, k=10)}`, with river's `utils.Rolling`.

    Parameters
    ----------
    trace
        The result of `evaluate.progressive`; or several, by the names of their models.
    metrics
        Names of the metrics to draw; None for all.
    drifts
        Numbers of queries to mark: where the truth changed, or where drift was detected.
    ax
        Axes to draw on.

    Raises
    ------
    KeyError
        A trace has no such metric.
    ValueError
        There is nothing to draw: there were no queries, or nothing was measured.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, evaluate, plot
    >>> query = [[1.0, 0.0], [0.0, 1.0]], [0, 1]
    >>> ax = plot.trace(evaluate.progressive([query] * 20, PerceptronRanker(), "ndcg"))
    >>> ax.get_xlabel()
    'queries'
    """
    traces = trace if isinstance(trace, Mapping) else {"": trace}
    curves = {}
    for model, one in traces.items():
        for name in metrics if metrics is not None else one.values:
            if name not in one.values:
                raise KeyError(f"the trace has no metric {name!r}; it has {list(one.values)}")
            label = ", ".join(part for part in (model, name if not model or len(one.values) > 1 else "") if part)
            curves[label] = one.columns["query"], one.columns[name]
    if not any(len(x) for x, _ in curves.values()):
        raise ValueError("there is nothing to draw: the trace has no query, or no metric")
    ax = styled(ax, "queries", "mean of the metric")
    lines(ax, curves)
    scale_to_settled(ax, curves)
    name_lines(ax, curves)
    for number, position in enumerate(drifts):
        ax.axvline(position, color=GREY, linewidth=1.0, linestyle=(0, (3, 2)), zorder=1)
        if number == 0:
            ax.annotate("drift", (position, 1.0), xytext=(3, -3), xycoords=("data", "axes fraction"), va="top",
                        textcoords="offset points", color=GREY, fontsize=FONT)  # fmt: skip
    return ax


def loss(curve: "LossCurve | Trace", *, bounds: Sequence[str] | None = None, ax: "Axes | None" = None) -> "Axes":
    """The cumulative loss, the comparator's loss and the bounds, over the queries learned.

    Parameters
    ----------
    curve
        The records. A `Trace` has only the loss.
    bounds
        Names of the bounds, as in the certificate; None for the two that are smallest at the end.
    ax
        Axes to draw on.

    Raises
    ------
    KeyError
        A bound is not among those that cover the model.
    ValueError
        Nothing has been recorded.
    """
    columns = curve.columns
    if isinstance(curve, Trace):
        columns = {"queries": columns["query"], "loss": columns["loss"]}
    if not columns or not len(columns["loss"]):
        raise ValueError("there is nothing to draw: no query was learned")
    known = list(columns)[3:]
    if bounds is None:
        bounds = sorted((name for name in known if math.isfinite(columns[name][-1])), key=lambda name: columns[name][-1])[:2]
    for name in bounds:
        if name not in known:
            raise KeyError(f"there is no bound {name!r}; the bounds that cover the model are {known}")
    drawn = {"loss": "loss"} | ({"F(u)": "F(u), of the comparator"} if "F(u)" in columns else {})
    statements = {} if isinstance(curve, Trace) else curve.statements
    drawn |= {name: statements.get(name, name) for name in bounds}
    curves = {label: (columns["queries"], columns[name]) for name, label in drawn.items()}
    ax = styled(ax, "queries", "cumulative loss")
    lines(ax, curves, dashed=[drawn[name] for name in bounds])
    top = max(float(y[-1]) for _, y in curves.values()) or 1.0
    ax.set_ylim(-0.04 * top, 1.06 * top)
    name_lines(ax, curves)
    return ax


def served_loss(intervals: Sequence[Interval], *, ax: "Axes | None" = None) -> "Axes":
    """The running mean of served losses as a line, and the interval around the expected one as a band.

    Parameters
    ----------
    intervals
        Intervals from `LossInterval.interval` at successive times.
    ax
        Axes to draw on.

    Raises
    ------
    ValueError
        There is no interval of any loss.

    Examples
    --------
    >>> from online_rank import plot
    >>> from online_rank.intervals import LossInterval
    >>> served, intervals = LossInterval(), []
    >>> for t in range(100):
    ...     served.update(0.3)
    ...     intervals.append(served.interval())
    >>> [text.get_text() for text in plot.served_loss(intervals).texts]
    ['95 % lower limit: 0.247', 'mean: 0.300', '95 % upper limit: 0.353']
    """
    shown = [interval for interval in intervals if interval.n]
    if not shown:
        raise ValueError("there is nothing to draw: no interval of a loss")
    ax = styled(ax, "queries with two grades", "mean served loss")
    n = [interval.n for interval in shown]
    level = f"{100 * shown[-1].level:g} %"
    curves = {
        "mean": (n, [interval.mean for interval in shown]),
        f"{level} upper limit": (n, [interval.upper for interval in shown]),
        f"{level} lower limit": (n, [interval.lower for interval in shown]),
    }
    (_, mean), (_, upper), (_, lower) = curves.values()
    ax.fill_between(n, lower, upper, color=COLOURS[0], alpha=0.15, linewidth=0)
    ax.plot(n, mean, color=COLOURS[0], linewidth=1.8)
    ax.set_ylim(0.0, 1.0)
    name_lines(ax, curves)
    # The band, the line and their labels have one colour.
    for text in ax.texts:
        text.set_color(COLOURS[0])
    return ax
