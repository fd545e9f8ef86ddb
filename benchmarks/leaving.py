"""Does a model stay as fast when names of features come and go for ever?

    python -m benchmarks.leaving [--queries 1000000] [--other PYTHON]

Each query has ten documents with the names of ten items among a thousand. The oldest goes and a new one comes with
each query: a million queries bring a million names. Processor time a query, memory and size of the file, after each tenth, with
`max_features` of 2,000. Behind the map it is a tenth of the queries. PYTHON is the interpreter of an earlier checkout, such
as 8e619ce, whose features never leave; it learns a twenty-fifth of them.
"""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks._common import environment, parser, save, table
from benchmarks._other import add_other, commit_of, root_of
from benchmarks._timing import megabytes

MODELS = {
    "perceptron": "`PerceptronRanker()`",
    "map": "`StreamQuantileMap() | PerceptronRanker()`",
}
_SHARE = 25

#: A separate program, so that the interpreter of an earlier checkout runs it too.
PROGRAM = """
import json, sys, time, warnings
import numpy as np
from online_rank import PerceptronRanker, StreamQuantileMap, save
import os, tempfile
kind, n, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
warnings.simplefilter("ignore")
model = PerceptronRanker() if kind == "perceptron" else StreamQuantileMap() | PerceptronRanker()
for step in [model] if kind == "perceptron" else model.steps.values():
    if most:
        step.max_features = most * (2 if kind == "map" and step._is_ranker else 1)
rng, found, path = np.random.default_rng(0), [], os.path.join(tempfile.mkdtemp(), "model")
spent = 0.0
for t in range(n):
    x = [{f"item {j}": 1.0, "price": float(v)} for j, v in zip(rng.integers(t, t + 1000, 10), rng.normal(size=10))]
    y = np.arange(10) % 3
    started = time.process_time()
    model.learn_one(x, y)
    spent += time.process_time() - started
    if (t + 1) % (n // 10) == 0:
        save(model, path)
        found.append([t + 1, 1e3 * spent / (n // 10), megabytes("VmRSS"), os.path.getsize(path) / 1e3])
        spent = 0.0
print(json.dumps(found))
"""


def measured(python: Path | str, kind: str, n: int, most: int) -> list[list[float]]:
    """After each tenth: queries, ms a query, MB of memory, kB of the file."""
    python = Path(python)
    command = [python.absolute(), "-c", inspect.getsource(megabytes) + PROGRAM, kind, str(n), str(most)]
    # Its kernels are others.
    alone = {name: value for name, value in os.environ.items() if most or name != "NUMBA_CACHE_DIR"}
    made = subprocess.run(command, cwd=root_of(python), env=alone, capture_output=True, text=True, check=True)
    return json.loads(made.stdout.splitlines()[-1])


def report(n: int, other: Path | None) -> str:
    header = ("", "queries", "ms a query", "memory, MB", "file, kB")
    rows = []
    for kind, title in MODELS.items():
        # The map makes two columns of each of 2,000 features, which takes about 25 times as long.
        own = n if kind == "perceptron" else n // 10
        runs = [(title, measured(sys.executable, kind, own, 2000))]
        if other is not None:
            runs.append((f"{title}, commit {commit_of(other)}", measured(other, kind, max(1000, own // _SHARE), 0)))
        for name, found in runs:
            shown = [found[0], found[len(found) // 2], found[-1]]
            rows += [(name.replace("|", r"\|"), f"{t:,.0f}", f"{ms:.2f}", f"{mb:.0f}", f"{kb:,.0f}") for t, ms, mb, kb in shown]
    return f"""# Names that come and go

Queries of ten documents, each with a name among the thousand that are in use; each query brings a new name, and an old one goes
out of use. Processor time of `learn_one` over a tenth of the queries, and memory and file at its end. Features leave from 2,000
on (`max_features`). {environment()}.

{table(header, rows)}
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1_000_000)
    add_other(arguments)
    given = arguments.parse_args()
    save("leaving", report(given.queries, given.other))
