"""What does it cost to begin? Processor time, memory and wall-clock time of fresh processes, by how kernels are compiled.

    python -m benchmarks.startup [--repetitions 5] [--objects FOLDER]

*Ahead*: kernels from an object file, with an empty cache of numba: what a wheel gives. *Cold*: numba compiles, with an empty
cache: the first run from a checkout. *Warm*: an earlier process did that. Medians.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._common import ROOT, environment, parser, save, table
from online_rank._kernels.ahead import loading

QUERY = "X = np.arange(12.0).reshape(4, 3) % 5; y = [0, 1, 2, 0]\n"
LEARN = "model.learn_one(X, y); model.rank_one(X)\n"
NAMED = "x = {n: {'a': float(i), 't': 'some words'} for i, n in enumerate('pqrs')}\n"
CASES = {
    "`import numpy, river.base, river.compose`": "import numpy, river.base, river.compose",
    "`import online_rank.metrics`": "import online_rank.metrics",
    "first snippet": QUERY + "from online_rank import PerceptronRanker; model = PerceptronRanker()\n" + LEARN,
    "behind a scaler": QUERY + "from online_rank import *; model = StreamScaler() | PerceptronRanker()\n" + LEARN,
    "clicks": NAMED + "from online_rank import *; m = SwapRanker(policy=PlackettLuce(seed=1))\n"
    "s = m.show_one({k: {'a': v['a']} for k, v in x.items()})\n"
    "m.learn_one({k: {'a': v['a']} for k, v in x.items()}, s.clicked([s.order[-1]]))",
    "sparse": NAMED + "from online_rank import *; m = HashedFeatures(text=('t',)) | PerceptronRanker()\n"
    "m.learn_one(x, dict(p=0, q=1, r=2, s=0)); m.rank_one(x)",
    "`BlendRanker()`": QUERY + "from online_rank import BlendRanker; model = BlendRanker()\n" + LEARN,
    "`DirectRanker()`": QUERY + "from online_rank import DirectRanker; model = DirectRanker()\n" + LEARN,
    "`online-rank demo`": "import sys; sys.argv = ['online-rank', 'demo']; from online_rank.cli import main\n"
    "try: main()\nexcept SystemExit: pass",
}
_AFTER = (
    "\nimport json, resource, sys, time\n"
    "used = resource.getrusage(resource.RUSAGE_SELF)\n"
    "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, 'numba' in sys.modules]))"
)


def cost(code: str, **variables: str) -> tuple[float, float, float, bool]:
    """Processor seconds, MB, wall-clock seconds, and whether numba was imported, of a fresh process that runs `code`."""
    kept = {k: v for k, v in os.environ.items() if k not in ("ONLINE_RANK_JIT", "ONLINE_RANK_CACHE_DIR", "NUMBA_CACHE_DIR")}
    command = [sys.executable, "-c", "import numpy as np\n" + code + _AFTER]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, cwd=ROOT, env={**kept, **variables}, capture_output=True, text=True)
    wall = time.perf_counter() - start
    seconds, megabytes, compiled = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes, wall, compiled


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--objects", help="folder of object files; without, they are made first")
    given = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        objects, warm = given.objects or f"{folder}/objects", f"{folder}/warm"
        if not given.objects:
            target = loading.targets()[0]
            subprocess.run([sys.executable, "-m", "online_rank._warm_up", objects, target], check=True, cwd=ROOT)
        for number, (name, code) in enumerate(CASES.items()):
            empty = [str(Path(folder, f"{number}-{n}")) for n in range(given.repetitions + 1)]
            ahead = [cost(code, ONLINE_RANK_CACHE_DIR=objects, NUMBA_CACHE_DIR=place) for place in empty[1:]]
            cold = cost(code, ONLINE_RANK_JIT="1", NUMBA_CACHE_DIR=empty[0])
            cost(code, ONLINE_RANK_JIT="1", NUMBA_CACHE_DIR=warm)
            later = [cost(code, ONLINE_RANK_JIT="1", NUMBA_CACHE_DIR=warm) for _ in range(given.repetitions)]
            seconds, megabytes, wall = (statistics.median(run[k] for run in ahead) for k in range(3))
            rows.append(
                [
                    name, f"{seconds:.2f}", f"{megabytes:.0f}", f"{wall:.2f}", "yes" if ahead[0][3] else "no",
                    f"{cold[0]:.1f}", f"{statistics.median(run[0] for run in later):.2f}",
                    f"{statistics.median(run[1] for run in later):.0f}",
                ]
            )  # fmt: skip
            print(*rows[-1], flush=True)
    columns = ["process", "ahead, s", "ahead, MB", "ahead, wall s", "numba imported", "cold, s", "warm, s", "warm, MB"]
    save(
        "startup",
        f"""# What it costs to begin

Processor seconds, memory and wall-clock seconds of fresh processes, medians of {given.repetitions}, cold once. {environment()}

{table(columns, rows)}
""",
    )


if __name__ == "__main__":
    main()
