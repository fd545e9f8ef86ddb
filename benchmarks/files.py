"""How fast files are read, and in how much memory: csv, parquet, JSON lines and LETOR text of the same rows.

    python -m benchmarks.files [--rows 1000000] [--repetitions 3] [--other PYTHON]

Writes rows with 20 features, ids of queries and documents, and grades into a temporary folder, in queries of 20 documents.
Reads each file in a fresh process for each figure, pinned to one core if the system allows it. Readers take turns; figures are
medians. pyarrow alone splits and converts a whole file, without queries, roles of columns, ids or messages. `--other` is the
Python of another checkout, which reads the LETOR text too, by `iter_letor` if it has no `read`. Memory is read from /proc, so
this runs on Linux.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._kept import commit
from benchmarks._other import root_of

FEATURES, SIZE = 20, 20
_FORMATS = {"csv": "csv", "parquet": "parquet", "JSON lines": "jsonl", "LETOR": "txt"}

#: Read a file, after a short one to warm up, and print the figures as JSON.
_MEASURE = """
import json, re, sys, time
{read}
def most():
    "The most memory so far, in MB; unlike getrusage's, without what the parent had."
    return int(re.search("VmHWM: *([0-9]+)", open("/proc/self/status").read().replace("\\t", " "))[1]) / 1024
path, small = sys.argv[1:]
read(small)
before = most()
start, cpu = time.perf_counter(), time.process_time()
rows = read(path)
figures = {{"rows": rows, "seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}}
print(json.dumps({{**figures, "peak": most(), "before": before}}))
"""

_OURS = """
import online_rank
def read(path):
    names = {} if path.endswith("txt") else {"query": "query", "grade": "grade", "document": "document"}
    return sum(len(y) for _, y, _, ids in online_rank.read(path, with_ids=True, **names))
"""

_OTHERS = """
try:
    from online_rank import read as open_file
except ImportError:
    from online_rank.stream import iter_letor
    def open_file(path, with_ids):
        return iter_letor(path, with_qid=True, with_docid=with_ids)
def read(path):
    return sum(len(query[1]) for query in open_file(path, with_ids=True))
"""

_ALONE = {
    "csv": "from pyarrow import csv\ndef read(path): return csv.read_csv(path, csv.ReadOptions(use_threads=False)).num_rows",
    "parquet": "from pyarrow import parquet\ndef read(path): return parquet.read_table(path, use_threads=False).num_rows",
    "JSON lines": "from pyarrow import json as lines\n"
    "def read(path): return lines.read_json(path, lines.ReadOptions(use_threads=False)).num_rows",
}


def generate(folder: Path, rows: int) -> None:
    """Write the same rows in all formats."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from online_rank.stream import write_letor

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, FEATURES)).round(4), rng.integers(0, 3, rows)
    qid, docid = np.arange(rows) // SIZE, [f"d{i}" for i in range(rows)]
    columns = {"query": qid, "document": docid, "grade": y, **{f"f{j}": X[:, j] for j in range(FEATURES)}}
    parquet.write_table(pa.table(columns), folder / "rows.parquet")
    csv.write_csv(pa.table(columns), folder / "rows.csv")
    write_letor(folder / "rows.txt", X, y, qid, docid=docid)
    with open(folder / "rows.jsonl", "w") as file:
        for row in pa.table(columns).to_pylist():
            file.write(json.dumps(row) + "\n")


def run(python: Path, code: str, path: Path, small: Path) -> dict[str, float]:
    """The figures of one reading, in a fresh process on one core."""
    pin = (lambda: os.sched_setaffinity(0, {0})) if hasattr(os, "sched_setaffinity") else None
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    root = root_of(python)
    if root != root_of(Path(sys.executable)):
        environment.pop("NUMBA_CACHE_DIR", None)  # Its kernels are others.
    command = [python.absolute(), "-c", _MEASURE.format(read=code), path, small]
    done = subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True, text=True, preexec_fn=pin)
    return json.loads(done.stdout)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--repetitions", type=int, default=3)
    options.add_argument("--other", type=Path, help="the Python of another checkout")
    given = options.parse_args()
    here = Path(sys.executable)
    readers = {(name, "read"): (here, _OURS) for name in _FORMATS}
    readers |= {(name, "pyarrow alone"): (here, code) for name, code in _ALONE.items()}
    if given.other:
        readers["LETOR", f"read, {commit(root_of(given.other))}"] = given.other, _OTHERS
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as long, tempfile.TemporaryDirectory() as short:
        generate(Path(long), given.rows)
        generate(Path(short), 1000)
        for _ in range(given.repetitions):
            for (name, reader), (python, code) in readers.items():
                path, small = (Path(folder) / f"rows.{_FORMATS[name]}" for folder in (long, short))
                found.setdefault((name, reader), []).append(run(python, code, path, small))
        sizes = {name: (Path(long) / f"rows.{ending}").stat().st_size / 1e6 for name, ending in _FORMATS.items()}
    medians = {key: {name: statistics.median(one[name] for one in runs) for name in runs[0]} for key, runs in found.items()}
    rows = []
    for name, size in sizes.items():
        # The last one is pyarrow, or another checkout.
        alone = [one for (of, _), one in medians.items() if of == name][-1]
        for (of, reader), one in medians.items():
            if of == name:
                speed = f"{size / one['cpu']:.0f}"
                cells = f"{one['seconds']:.2f}", f"{one['cpu']:.2f}", f"{one['cpu'] / alone['cpu']:.2f}", f"{size:.0f}", speed
                rows.append((f"{name}, {reader}", *cells, f"{one['peak']:.0f}", f"{one['peak'] - one['before']:.0f}"))
    heads = ("", "seconds", "processor", "ratio", "file, MB", "MB/s", "peak, MB", "of these for the file")
    lines = [
        "# Reading files",
        "",
        f"{given.rows:,} documents with {FEATURES} features in queries of {SIZE}, with ids of queries and documents. One core, "
        "a fresh and warmed process for every reading, readers by turns, medians. The ratio is the processor time divided by "
        "the time of the last reader of the same file: pyarrow alone, which holds the file as columns in memory and makes "
        "no queries; or, for LETOR text, which pyarrow does not read, another checkout.",
        "",
        table(heads, rows),
    ]
    save("files", "\n".join(lines))


if __name__ == "__main__":
    main()
