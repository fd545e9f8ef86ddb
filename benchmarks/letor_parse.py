"""How fast LETOR text is read, and in how much memory: this reader, scikit-learn's, and pandas / polars routes.

    python -m benchmarks.letor_parse [--megabytes 500] [--peer-megabytes 60] [--repetitions 3]

Writes a file like MSLR-WEB30K's (136 features, counts, lengths, scores and probabilities, docid comments) into a temporary
folder and reads it in a fresh process for each figure, pinned to one core where the system allows it, the readers taking turns.
Medians. Slow readers get a shorter file of the same kind; the table says which.
"""

import argparse
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._common import save

FEATURES = 136


def generate(path: Path, megabytes: float) -> None:
    """Write about so many megabytes of MSLR-like text."""
    rng = np.random.default_rng(0)
    form = " ".join(f"{feature}:%s" for feature in range(1, FEATURES + 1))
    size, query = 0, 0
    with open(path, "w") as file:
        while size < megabytes * 1e6:
            query += 1
            m = int(np.clip(rng.lognormal(4.6, 0.5), 5, 1000))
            X = np.exp(rng.normal(0.0, 1.5, (m, FEATURES)))
            grades = rng.choice(5, m, p=[0.52, 0.32, 0.13, 0.02, 0.01])
            lines = []
            for grade, x in zip(grades.tolist(), X, strict=True):
                values = x.tolist()
                # By turns: covered query terms, stream lengths, ratios, BM25 and language models, often absent anchors.
                values[0::5] = [int(v) % 4 for v in values[0::5]]
                values[1::5] = [int(40 * v) for v in values[1::5]]
                values[2::5] = [f"{v / 100:.6g}" for v in values[2::5]]
                values[3::5] = [f"{-5 * v:.6f}" for v in values[3::5]]
                values[4::5] = [f"{v:.6f}" if v > 1 else 0 for v in values[4::5]]
                lines.append(
                    f"{grade} qid:{query} {form % tuple(values)} #docid = GX{query % 1000:03d}-{len(lines):07d} inc = 1\n"
                )
            text = "".join(lines)
            file.write(text)
            size += len(text)


def read_ours_stream(path: str) -> int:
    from online_rank import read

    return sum(len(y) for _, y in read(path))


def read_ours_docid(path: str) -> int:
    from online_rank import read

    return sum(len(docids) for _, _, _, docids in read(path, with_ids=True))


def read_ours_block(path: str) -> int:
    from online_rank import read

    return len(read(path).all().y)


def read_sklearn(path: str) -> int:
    from sklearn.datasets import load_svmlight_file

    X, _, _ = load_svmlight_file(path, query_id=True)
    return X.shape[0]


def read_pandas(path: str) -> int:
    """Columns of "id:value" strings, split column by column; needs every feature in every row."""
    import pandas as pd

    frame = pd.read_csv(path, sep=" ", header=None, comment="#", dtype=str, usecols=range(FEATURES + 2))
    X = np.empty((len(frame), FEATURES))
    for j in range(FEATURES):
        X[:, j] = frame[j + 2].str.split(":", n=1).str[1].astype(float)
    frame[0].astype(int)
    frame[1].str.slice(4).astype(int)
    return len(X)


def read_polars(path: str) -> int:
    """As the pandas route, in polars, on the one core that everybody gets."""
    import polars as pl

    frame = pl.read_csv(
        path, separator=" ", has_header=False, comment_prefix=None, infer_schema=False, truncate_ragged_lines=True
    )
    values = [
        pl.nth(j + 2).str.split_exact(":", 1).struct.field("field_1").cast(pl.Float64).alias(str(j)) for j in range(FEATURES)
    ]
    X = frame.select(values).to_numpy()
    frame.select(pl.nth(0).cast(pl.Int64), pl.nth(1).str.slice(4).cast(pl.Int64))
    return len(X)


READERS = {
    "read": (read_ours_stream, True),
    "read, with ids": (read_ours_docid, True),
    "read, all at once": (read_ours_block, True),
    "scikit-learn load_svmlight_file": (read_sklearn, False),
    "pandas read_csv and split": (read_pandas, False),
    "polars read_csv and split": (read_polars, False),
}


def measure(reader: str, path: str, small: str) -> None:
    """In a process of its own: read once to warm up (a small file), then `path`; print the figures as JSON."""
    function = READERS[reader][0]
    function(small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    rows = function(path)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scale = 1024 if sys.platform != "darwin" else 1024**2
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "peak": peak / scale, "before": before / scale}))


def run(reader: str, path: Path, small: Path) -> dict[str, float]:
    """The figures of one reading, in a fresh process on one core."""
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.letor_parse", "--measure", reader, str(path), str(small)]
    pin = (lambda: os.sched_setaffinity(0, {0})) if hasattr(os, "sched_setaffinity") else None
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, preexec_fn=pin)
    return json.loads(done.stdout)


def table(folder: Path, megabytes: float, peer_megabytes: float, repetitions: int) -> list[str]:
    """Generate, measure, and word the result."""
    paths = {True: folder / "long.txt", False: folder / "short.txt"}
    small = folder / "small.txt"
    generate(small, 0.2)
    generate(paths[True], megabytes)
    generate(paths[False], min(megabytes, peer_megabytes))
    for path in list(paths.values()):
        with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=6) as zipped:
            shutil.copyfileobj(plain, zipped, 1 << 20)
    figures: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(repetitions):
        for reader, (_, is_ours) in READERS.items():
            for suffix in ("", ".gz"):
                figures.setdefault((reader, suffix), []).append(run(reader, Path(f"{paths[is_ours]}{suffix}"), small))
    sizes = {is_ours: path.stat().st_size / 1e6 for is_ours, path in paths.items()}
    plain, zipped = (
        {
            reader: {
                name: statistics.median(one[name] for one in figures[reader, suffix]) for name in figures[reader, suffix][0]
            }
            for reader in READERS
        }
        for suffix in ("", ".gz")
    )
    lines = [
        "# Reading LETOR text",
        "",
        f"`python -m benchmarks.letor_parse --megabytes {megabytes:g} --peer-megabytes {peer_megabytes:g} "
        f"--repetitions {repetitions}`: {FEATURES} features a line, docid comments. One core, a fresh and warmed process for "
        "every reading, readers by turns, medians. MB/s of uncompressed text, by the clock and by the processor's time (what "
        "other programs took from the clock is not in it); memory is the peak of the process, and of that what it had before "
        f"the file was opened. Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores.",
        "",
        "| reader | file, MB | MB/s | MB/s, processor | documents/s | x scikit-learn | gzip, MB/s | peak, MB | before |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    speeds = {reader: sizes[is_ours] / plain[reader]["cpu"] for reader, (_, is_ours) in READERS.items()}
    for reader, (_, is_ours) in READERS.items():
        one, size = plain[reader], sizes[is_ours]
        lines.append(
            f"| {reader} | {size:.0f} | {size / one['seconds']:.0f} | {speeds[reader]:.0f} | {one['rows'] / one['cpu']:,.0f} | "
            f"{speeds[reader] / speeds['scikit-learn load_svmlight_file']:.1f} | {size / zipped[reader]['cpu']:.0f} | "
            f"{one['peak']:.0f} | {one['before']:.0f} |"
        )
    lines += [
        "",
        "pandas and polars only read files in which every line names every feature in order; theirs are the routes that people "
        "take, without a check of what they split. All but `read` hold the whole file's numbers in memory. "
        "Documents/s, ratios and gzip go by processor time.",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=500, help="size of the file")
    parser.add_argument("--peer-megabytes", type=float, default=60, help="size of the file that the slow readers get")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--measure", nargs=3, metavar=("READER", "FILE", "SMALL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        lines = table(Path(folder), options.megabytes, options.peer_megabytes, options.repetitions)
    save("letor_parse", "\n".join(lines))


if __name__ == "__main__":
    main()
