"""From a raw log to a deployed model: a million rows of parquet, unsorted, and the commands of one page of the guide.

`python -m benchmarks.log` writes a log like a shop's: an index column, booleans, times, missing values, text, unordered rows.
It runs the commands of docs/data.md on it, and writes their time, memory and results to benchmarks/results/log.md.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import parser, save, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "data.md"
COMMANDS = tuple(re.findall(r"^online-rank ((?:train|evaluate) .*log\.parquet .*|export .*)$", PAGE.read_text(), re.MULTILINE))


class Measured(NamedTuple):
    """What a command took, and what it printed."""

    command: str
    seconds: float
    processor: float
    megabytes: float
    output: str


def write_log(path: Path, n_rows: int) -> None:
    """A log of queries of 20 documents, its rows shuffled, its index kept."""
    import pandas as pd

    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(n_rows // 20), 20)
    n = len(query)
    price, clicks, bm25 = np.round(rng.lognormal(3, 1, n), 2), rng.poisson(3, n), rng.gamma(2, 3, n)
    age, stars = rng.exponential(100, n), rng.integers(1, 6, n).astype(float)
    score = 0.5 * np.log1p(clicks) + 0.075 * bm25 - 0.2 * np.log(price) + 0.3 * (age < 20) + rng.normal(0, 0.7, n)
    log = pd.DataFrame(
        {
            "query": [f"q{i:05d}" for i in query.tolist()],
            # No query has a product twice.
            "product": [f"p{i}" for i in (rng.integers(0, 10**6, n) * 20 + np.arange(n) % 20).tolist()],
            "price": price,
            "clicks": clicks,
            "bm25": bm25,
            "age": age,
            "new": age < 20,
            "stars": np.where(rng.random(n) < 0.2, np.nan, stars),
            "stock": rng.integers(0, 500, n),
            "title": rng.choice(["red shoe", "lamp", "table"], n),
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(query * 60, unit="s"),
            "grade": np.digitize(score, [0.3, 1.2, 2.0]),
        }
    )
    log.sample(frac=1, random_state=1).to_parquet(path, row_group_size=100_000)


#: Runs its arguments, and prints what they took, from a small process: each begins with the memory of the one that starts it.
_RUN = (
    "import json, resource, subprocess, sys\n"
    "code = subprocess.call(sys.argv[1:], stderr=subprocess.STDOUT)\n"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
    "print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))"
)


def run(command: str, folder: str) -> Measured:
    """Run a command in a separate process."""
    start = time.perf_counter()
    arguments = [sys.executable, "-c", _RUN, sys.executable, "-m", "online_rank", *shlex.split(command)]
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "COLUMNS": "120", "TERM": "dumb"}
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder, env=environment, check=True)
    output, _, used = done.stdout.rstrip().rpartition("\n")
    code, seconds, megabytes = json.loads(used)
    if code:
        raise SystemExit(f"{command}: {output}")
    return Measured(command, time.perf_counter() - start, seconds, megabytes, output)


def report(n_rows: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        # In a separate process, whose memory the commands do not begin with.
        writing = [sys.executable, "-m", "benchmarks.log", "--rows", str(n_rows), "--write", f"{folder}/log.parquet"]
        subprocess.run(writing, check=True)
        size = os.path.getsize(Path(folder) / "log.parquet") / 1e6
        found = [run(command, folder) for command in COMMANDS]
        # The file is to be included, so nothing in it is used yet.
        strict = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable"]
        subprocess.run(["cc", "-c", "-O2", *strict, "model.c", "-o", "model.o"], check=True, cwd=folder)
    rows = [(f"`{m.command.split()[0]}`", f"{m.seconds:.0f}", f"{m.processor:.0f}", f"{m.megabytes:.0f}") for m in found]
    printed = "\n\n".join(f"$ online-rank {m.command}\n{m.output.strip()}" for m in found)
    return f"""# From a log to the engine

{n_rows:,} rows in parquet ({size:.0f} MB), in no order, with an index column, booleans, times, missing values and text, on a
busy machine. The exported C compiles without warnings.

{table(("command", "s", "processor s", "peak memory, MB"), rows)}

```text
{printed}
```
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--write", help="only write the log, to this file")
    given = arguments.parse_args()
    if given.write:
        write_log(Path(given.write), given.rows)
    else:
        save("log", report(given.rows))
