"""`online-rank compare --clicks`: what two models would have earned on a log of clicks, and which one its users prefer."""

import json
from collections.abc import Sequence
from typing import Any

from online_rank.cli.click_log import ClickLog
from online_rank.cli.files import load_two
from online_rank.cli.reading import look
from online_rank.metrics import OffPolicyValue, SwapComparison


def compare_clicks(paths: Sequence[str], log: ClickLog, as_json: bool) -> None:
    """Print what two saved models would have earned on lists of a log, and which of them its users prefer.

    Raises
    ------
    ValueError
        The log does not say the probability of its lists, or a model is compared with itself.
    """
    if log.origin == "moved":
        why = "lists that were not random say nothing about those that another model would have shown"
        raise ValueError(f"--clicks moved: {why}; use shuffled, above or place")
    models, shown = load_two(paths), False if as_json else None
    log = log._replace(model=models[0])
    if log.reading.dry_run:
        look(log.reader())
    seen = log.examined(shown)
    values = [OffPolicyValue() for _ in models]
    swaps = SwapComparison(k=seen.longest) if log.origin == "shuffled" and seen.longest > 1 else None
    as_shown = 0.0
    for x, given in log.watched("comparing", shown):
        clicks = seen.scaled(given)
        rankings = [model.rank_one(x) for model in models]
        for value, ranking in zip(values, rankings, strict=True):
            value.update(clicks, ranking)
        if swaps is not None:
            swaps.update(clicks, *rankings)
        as_shown += clicks.gains[0]
    report = {
        "lists": values[0].n,
        "late": seen.late,
        "largest_gain": seen.largest,
        "as_shown": as_shown / values[0].n,
        "values": {path: _about(value) for path, value in zip(paths, values, strict=True)},
        "preference": None if swaps is None else swaps.interval()._asdict(),
        "note": "Nothing is assumed about users.",
    }
    if as_json:
        print(json.dumps(report))
    else:
        _print(paths, report, values, swaps)


def _about(value: OffPolicyValue) -> dict[str, Any]:
    """A value with its interval, and the estimates without a guarantee where there is enough for them."""
    about = {**value.interval()._asdict(), "effective_lists": value.effective_sample_size}
    try:
        return {**about, "snips": value.snips(), "doubly_robust": value.doubly_robust()}
    except ValueError:
        return about


def _print(
    paths: Sequence[str], report: dict[str, Any], values: Sequence[OffPolicyValue], swaps: SwapComparison | None
) -> None:
    unit = "" if report["largest_gain"] == 1.0 else f", as fractions of {report['largest_gain']:g}"
    print(f"{report['lists']:,} lists; gain of the first document{unit}; as shown {report['as_shown']:.4f}.")
    if report["late"]:
        print(f"{report['late']:,} events came after the window of their list, and do not count.")
    width = max(map(len, paths))
    for path, value in zip(paths, values, strict=True):
        about = report["values"][path]
        print(f"  {path:<{width}}  {value.interval()}")
        effective = f"{about['effective_lists']:,.0f} effective lists"
        estimates = "no estimates: from fewer than 100 they mislead"
        if "snips" in about:
            estimates = f"estimates: SNIPS {about['snips']:.4f}, doubly robust {about['doubly_robust']:.4f}"
        print(f"  {'':<{width}}  {effective}; {estimates}")
    print(report["note"])
    if swaps is not None:
        interval = swaps.interval()
        better = paths[1] if interval.lower > 0.5 else paths[0] if interval.upper < 0.5 else None
        verdict = "neither is preferred at 95 %" if better is None else f"users prefer {better}"
        print(f"Exchanges of shown documents, for any users: {interval}; above 1/2 for {paths[1]}: {verdict}")
