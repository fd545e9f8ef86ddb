"""What a model of another checkout ranks, in a process of the Python of that checkout."""

import argparse
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._kept import commit

_CODE = """
import pickle, sys
from online_rank import *
found = []
for expression, queries in pickle.load(sys.stdin.buffer):
    model = eval(expression)
    scores = []
    for X, y in queries:
        scores.append(list(model.predict_one(X)))
        model.learn_one(X, y)
    found.append(scores)
sys.stdout.buffer.write(pickle.dumps(found))
"""


def add_other(options: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The option `--other PYTHON`."""
    text = "the interpreter of the environment of another checkout: FOLDER/.venv/bin/python"
    options.add_argument("--other", type=Path, required=required, metavar="PYTHON", help=text)


def root_of(python: Path) -> Path:
    """The checkout of an interpreter."""
    return python.absolute().parents[2]


def commit_of(python: Path) -> str:
    """The commit of the checkout of an interpreter."""
    return commit(root_of(python))


def scores_of(python: Path, expression: str, queries: list[tuple[np.ndarray, np.ndarray]]) -> list[Any]:
    """The scores of each query, made before it is learned, by a model: an expression in the names of `online_rank`."""
    given = pickle.dumps([(expression, queries)])
    done = subprocess.run([python.absolute(), "-c", _CODE], cwd=root_of(python), input=given, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python}: {done.stderr.decode()[-600:]}")
    return pickle.loads(done.stdout)[0]
