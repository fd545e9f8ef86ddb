"""Learning and showing of click rankers, beside an earlier commit."""

import itertools
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks._clicks_speed_worker import RANKERS, N
from benchmarks._common import ROOT, table

__all__ = ["section"]

ROUNDS, BAR = 15, 1.10
SHAPES = ((20, 46), (120, 136))
TASKS = ("learn_one", "learn_many", "show_one")


def section(before: Path | None) -> str:
    """Both versions take turns, in processes of their own; medians of the ratios within a turn."""
    if before is None:
        raise SystemExit("--part speed needs --before CHECKOUT")
    workers = [_worker(before.resolve()), _worker(ROOT)]
    rows = []
    for shape, name, task in itertools.product(SHAPES, RANKERS, TASKS):
        turns = [[_seconds(worker, task, name, *shape) for worker in workers] for _ in range(ROUNDS + 1)][1:]
        ratio = statistics.median(now / earlier for earlier, now in turns)
        per_query = [f"{1e6 * statistics.median(seconds) / N:.1f}" for seconds in zip(*turns, strict=True)]
        verdict = "met" if ratio <= BAR else "missed"
        rows.append([f"{name}, {task}, {shape[0]} x {shape[1]}", *per_query, f"{ratio:.2f}", BAR, verdict])
        print(*rows[-1], flush=True)
    for worker in workers:
        worker.communicate()
    header = ("", "before, µs a query", "now, µs", "ratio of times", "at most", "")
    return f"""## Speed beside 3a8f3e3

{table(header, rows)}

Processor time of {N} queries, ten documents shown, in {ROUNDS} turns; load of the machine
{os.getloadavg()[0]:.1f}.
"""


def _worker(root: Path) -> "subprocess.Popen[str]":
    """A process with the code of a checkout."""
    script = ROOT / "benchmarks" / "_clicks_speed_worker.py"
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.Popen(
        [sys.executable, "-P", str(script)], env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _seconds(worker: "subprocess.Popen[str]", *task: object) -> float:
    """How long a version takes for a task."""
    worker.stdin.write(json.dumps(task) + "\n")  # type: ignore[union-attr]
    worker.stdin.flush()  # type: ignore[union-attr]
    return float(json.loads(worker.stdout.readline()))  # type: ignore[union-attr]
