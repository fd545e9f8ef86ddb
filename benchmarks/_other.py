"""What a model of another checkout ranks, in a process of the Python of that checkout."""

import argparse
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks._common import ROOT
from benchmarks._kept import commit

_CODE = """
import pickle, sys, time
from online_rank import *
model = eval(sys.argv[1])
given, told = sys.stdin.buffer, sys.stdout.buffer
while True:
    try:
        X, y = pickle.load(given)
    except EOFError:
        break
    start = time.process_time()
    scores = list(model.predict_one(X))
    ranked = time.process_time()
    if y is not None:
        model.learn_one(X, y)
    told.write(pickle.dumps((scores, (ranked - start, time.process_time() - ranked))))
    told.flush()
"""


class OtherModel:
    """A model of another checkout, in a separate process.

    Parameters
    ----------
    python
        The interpreter of the environment of the checkout.
    expression
        The model, in the names of `online_rank`.

    Attributes
    ----------
    seconds
        Processor time of ranking and learning.
    last_seconds
        The same of the last query: of ranking, of learning.
    """

    def __init__(self, python: Path, expression: str) -> None:
        command, root = [python.absolute(), "-c", _CODE, expression], root_of(python)
        # Its kernels are others: it has a separate cache.
        alone = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR" or root == ROOT}
        self.process = subprocess.Popen(command, cwd=root, env=alone, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.seconds, self.last_seconds = 0.0, (0.0, 0.0)

    def asked(self, X: Any, y: Any = None) -> list[float]:
        """The scores of a query, which is learned afterwards if it has grades."""
        given, told = self.process.stdin, self.process.stdout
        assert given is not None
        assert told is not None
        given.write(pickle.dumps((X, y)))
        given.flush()
        scores, self.last_seconds = pickle.load(told)
        self.seconds += sum(self.last_seconds)
        return scores

    predict_one = asked

    def learn_one(self, X: Any, y: Any) -> None:
        """Learn a query."""
        self.asked(X, y)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def add_other(options: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The option `--other PYTHON`."""
    text = "the interpreter of the environment of another checkout: FOLDER/.venv/bin/python"
    options.add_argument("--other", type=Path, required=required, metavar="PYTHON", help=text)


def root_of(python: Path) -> Path:
    """The checkout of an interpreter; of the one that runs, this checkout."""
    return ROOT if python == Path(sys.executable) else python.absolute().parents[2]


def commit_of(python: Path) -> str:
    """The commit of the checkout of an interpreter."""
    return commit(root_of(python))
