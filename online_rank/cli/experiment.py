"""`online-rank experiment`: what its commands do."""

import json
import math
from pathlib import Path
from typing import Any

from online_rank.evaluate.results import Results
from online_rank.evaluate.results_file import read_results


def run(file: str, save: str | None, processes: int, again: bool, as_json: bool) -> None:
    """Run an experiment, or repeat it and compare. Exits with 1 if the repeated one differs."""
    from online_rank.evaluate.table_file import experiment_of

    experiment, results = experiment_of(file), _results(file) if save is None else Path(save)
    shown = False if as_json else None
    if not again:
        measured = experiment.run(results, processes=processes, progress=shown)
        print(json.dumps(_summary(measured)) if as_json else f"{measured}\n{results}")
        return
    found = experiment.again(results, processes=processes, progress=shown)
    if as_json:
        print(json.dumps({"runs": len(experiment.keys), "differences": found}))
    else:
        print("\n".join(found) or f"{len(experiment.keys)} runs repeated: equal to the bit")
    if found:
        raise SystemExit(1)


def show(file: str, latex: bool, plots: str | None, as_json: bool) -> None:
    """Print tables, and draw pictures."""
    results = read_results(_results(file))
    if plots is not None:
        _draw(results, Path(plots))
    if as_json:
        print(json.dumps(_summary(results)))
    else:
        print(results.to_latex() if latex else results)


def compare(file: str, metric: str | None, as_json: bool) -> None:
    """Print who is better than whom."""
    results = read_results(_results(file))
    if as_json:
        found = {stream: [one._asdict() for one in results.better(metric, stream)] for stream in results.streams}
        print(json.dumps({"metric": metric or results.metrics[0], "better": found}))
        return
    for stream in results.streams:
        print(f"{stream}, {metric or results.metrics[0]}")
        print("\n".join(f"  {line}" for line in results.statements(metric, stream).splitlines()))


def _results(file: str) -> Path:
    return Path(file).with_suffix(".json")


def _summary(results: Results) -> dict[str, Any]:
    """Means and standard errors as plain numbers."""
    found: dict[str, Any] = {}
    for stream in results.streams:
        for model in results.models:
            for metric in results.metrics:
                spread = results.spread(model, metric, stream)
                numbers = {name: None if math.isnan(value) else value for name, value in spread._asdict().items()}
                found.setdefault(stream, {}).setdefault(model, {})[metric] = numbers
    return {"results": found, "seeds": results.seeds, "missing": len(results.missing)}


def _draw(results: Results, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from online_rank import plot

    folder.mkdir(parents=True, exist_ok=True)
    for number, stream in enumerate(results.streams, start=1):
        for name in ("bands", "differences", "time"):
            if name == "bands" and results.about["settings"]["streams"][stream]["test"] is not None:
                continue
            ax = getattr(plot, name)(results, stream=stream)
            path = folder / f"{number}_{name}.png"
            ax.figure.savefig(path)
            print(f"{path}: {stream}")
