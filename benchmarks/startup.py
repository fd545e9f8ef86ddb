"""What does it cost to begin? Import, first call (cold and warm kernel cache), and the demo; each in a fresh process.

    python -m benchmarks.startup [--repetitions 5]

Medians of wall-clock times. *Cold*: an empty kernel cache, so that kernels are compiled. *Warm*: an earlier process did that.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks._common import ROOT, environment, parser, save, table

RIVER = "import river.base, river.compose, river.metrics"
LEARN = """
import numpy as np
from online_rank import PerceptronRanker
model = PerceptronRanker()
model.learn_one(np.arange(12.0).reshape(4, 3) % 5, [0, 1, 2, 0])
model.rank_one(np.ones((2, 3)))
"""


def seconds(code: str, cache: str) -> float:
    """Wall-clock time of a fresh process that runs `code`."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=5)
    repetitions = arguments.parse_args().repetitions
    demo = "import sys; sys.argv = ['online-rank', 'demo']; from online_rank.cli import main; main()"
    with tempfile.TemporaryDirectory() as cache:
        cold = {}
        for name, code in (("first learn_one and rank_one", LEARN), ("online-rank demo", demo)):
            with tempfile.TemporaryDirectory() as empty:
                cold[name] = seconds(code, empty)
            seconds(code, cache)
        times: dict[str, list[float]] = {}
        cases = {
            "python": "pass",
            "river.base, compose, metrics": RIVER,
            "the same and online_rank": RIVER + "; import online_rank",
            "first learn_one and rank_one": LEARN,
            "online-rank demo": demo,
        }
        for _ in range(repetitions):
            for name, code in cases.items():
                times.setdefault(name, []).append(seconds(code, cache))
    rows = [[name, f"{statistics.median(t):.2f}", f"{cold[name]:.2f}" if name in cold else ""] for name, t in times.items()]
    more = [b - a for a, b in zip(times["river.base, compose, metrics"], times["the same and online_rank"], strict=True)]
    save(
        "startup",
        f"""# What it costs to begin

Median of {repetitions} fresh processes, seconds of wall-clock time in all. {environment()}

{table(["process", "warm, s", "cold, s"], rows)}

`import online_rank` adds {statistics.median(more):.3f} s to the imports of river (median of the paired differences).
""",
    )


if __name__ == "__main__":
    main()
