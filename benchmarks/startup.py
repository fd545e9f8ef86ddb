"""What does it cost to begin? Processor time, memory and wall-clock time of fresh processes.

    python -m benchmarks.startup [--wheel FILE] [--repetitions 5]

The wheel is installed into an empty environment; by default `.ci/wheel` builds one first, with kernels for this machine alone.
Every process has an empty cache. `serve` is measured until it answers.
"""

import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks._common import ROOT, environment, parser, save, table
from benchmarks._timing import megabytes
from online_rank._kernels.ahead import loading

QUERY = "import numpy as np\nX = np.arange(12.0).reshape(4, 3) % 5; y = [0, 1, 2, 0]\n"
LEARN = "model.learn_one(X, y); model.rank_one(X)\n"
NAMED = "x = {n: {'a': float(i), 't': 'some words'} for i, n in enumerate('pqrs')}\n"
#: Each process with the seconds of processor time that it may take.
CASES: dict[str, tuple[str, float | None]] = {
    "`import numpy, river.base, river.compose`": ("import numpy, river.base, river.compose", None),
    "`import online_rank.metrics`": ("import online_rank.metrics", None),
    "first snippet": (QUERY + "from online_rank import AdditiveRanker; model = AdditiveRanker()\n" + LEARN, 0.5),
    "linear weights behind a quantile map": (
        QUERY + "from online_rank import PerceptronRanker, StreamQuantileMap\n"
        "model = StreamQuantileMap() | PerceptronRanker()\n" + LEARN, 0.5,
    ),
    "clicks": (
        NAMED + "from online_rank import *; m = SwapRanker(policy=PlackettLuce(seed=1))\n"
        "s = m.show_one({k: {'a': v['a']} for k, v in x.items()})\n"
        "m.learn_one({k: {'a': v['a']} for k, v in x.items()}, s.clicked([s.order[-1]]))", 1.5,
    ),
    "sparse": (
        NAMED + "from online_rank import *; m = HashedFeatures(text=('t',)) | PerceptronRanker()\n"
        "m.learn_one(x, dict(p=0, q=1, r=2, s=0)); m.rank_one(x)", 1.5,
    ),
    "`DirectRanker()`": (QUERY + "from online_rank import DirectRanker; model = DirectRanker()\n" + LEARN, 1.5),
    "`online-rank demo`": (
        "import sys; sys.argv = ['online-rank', 'demo']; from online_rank.cli import main\n"
        "try: main()\nexcept SystemExit: pass",
        2.5,
    ),
}  # fmt: skip
#: The same for the service, until it answers.
SERVE, SERVE_SECONDS = "`online-rank serve`, ready", 1.0
_AFTER = (
    f"\n{inspect.getsource(megabytes)}\nimport json, sys, time\n"
    "print(json.dumps([time.process_time(), megabytes('VmHWM'), 'numba' in sys.modules]))"
)
#: Processor seconds, MB, wall-clock seconds, and whether numba was imported.
Cost = tuple[float, float, float, bool]


class Place:
    """A Python that has the package, and the caches of the processes that it runs."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = python, folder

    def cost(self, code: str, cache: str) -> Cost:
        """The cost of a fresh process that runs `code`."""
        start = time.perf_counter()
        command = [self.python, "-c", code + _AFTER]
        done = subprocess.run(
            command, check=True, cwd=self.folder, env=self._environment(cache), capture_output=True, text=True
        )
        wall = time.perf_counter() - start
        seconds, megabytes, compiled = json.loads(done.stdout.splitlines()[-1])
        return seconds, megabytes, wall, compiled

    def serving(self, cache: str) -> Cost:
        """The cost of a service until it answers."""
        start = time.perf_counter()
        command = [self.python, "-m", "online_rank", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=self.folder, env=self._environment(cache), stderr=subprocess.PIPE, text=True)
        try:
            address = next(word for line in process.stderr for word in line.split() if word.startswith("http://"))
            urllib.request.urlopen(address.rstrip("/.,") + "/healthz", timeout=30).read()
            wall = time.perf_counter() - start
            ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            peak = megabytes("VmHWM", process.pid)
            loaded = "/numba/" in Path(f"/proc/{process.pid}/maps").read_text()
            return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), peak, wall, loaded
        finally:
            process.terminate()
            process.wait()

    def _environment(self, cache: str) -> dict[str, str]:
        ours = ("ONLINE_RANK_", "NUMBA_", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {**kept, "ONLINE_RANK_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache}


def build(folder: Path) -> Path:
    """A wheel of what git tracks, with kernels for this machine."""
    subprocess.run([ROOT / ".ci" / "wheel", folder, loading.targets()[0]], check=True)
    return next(folder.glob("*-manylinux_*.whl"))


def install(wheel: Path, folder: Path) -> Path:
    """The Python of an empty environment with the wheel."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"{wheel.resolve()}[cli,serve]"], check=True)
    return python


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--wheel", type=Path)
    given = arguments.parse_args()
    rows, columns = [], ["process", "s", "at most", "MB", "wall-clock s", "imports numba"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = install(given.wheel or build(folder / "wheel"), folder / "environment")
        place = Place(python, folder)
        cases: dict[str, tuple[Callable[[Place, str], Cost], float | None]] = {
            case: (lambda place, cache, code=code: place.cost(code, cache), most) for case, (code, most) in CASES.items()
        }
        cases[SERVE] = (Place.serving, SERVE_SECONDS)
        for number, (case, (cost, most)) in enumerate(cases.items()):
            # The first process of an environment reads its files from the disk.
            costs = [cost(place, str(folder / f"{number}-{n}")) for n in range(given.repetitions + 1)][1:]
            seconds, megabytes, wall = (statistics.median(values) for values in list(zip(*costs, strict=True))[:3])
            limit = "" if most is None else f"{most:g}"
            row = [case, f"{seconds:.2f}", limit, f"{megabytes:.0f}", f"{wall:.2f}", "yes" if costs[0][3] else "no"]
            rows.append(row)
            print(*row, flush=True)
    save(
        "startup",
        f"""# What it costs to begin

Processor seconds, memory and wall-clock seconds of fresh processes in an empty environment with the wheel, medians of
{given.repetitions}. {environment()}

{table(columns, rows)}
""",
    )


if __name__ == "__main__":
    main()
