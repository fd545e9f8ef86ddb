"""The data sets that benchmarks share, and the ways they are read, cut and shuffled."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import ROOT
from online_rank import read
from online_rank.query import query_offsets
from online_rank.stream import Documents

MQ2008 = "mq2008"
LIGHTGBM = "lightgbm_lambdarank"

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def data_folder() -> Path:
    """The folder of data sets: `ONLINE_RANK_DATA`, or `../shared/data` next to the project."""
    return Path(os.environ.get("ONLINE_RANK_DATA", ROOT.parent / "shared" / "data"))


def known_folders(*names: str) -> list[Path]:
    """The named data sets that are there."""
    return [folder for folder in (data_folder() / name for name in names) if folder.exists()]


class Fold(NamedTuple):
    """Training, test and validation part of one fold."""

    train: Documents
    test: Documents
    validation: Documents | None = None
    """On which batch learners choose their rounds; None where the data has none."""


def folds(folder: Path) -> Iterator[Fold]:
    """The folds of a folder, in whichever of three layouts it has.

    - S1.txt .. S5.txt (LETOR): fold i trains on parts i, i+1, i+2, validates on part i+3 and tests on part i+4, counted round;
    - Fold1/ .. Fold5/ with train.txt, test.txt and perhaps vali.txt (LETOR, MSLR);
    - rank.train, rank.test and their .query files (LightGBM's example).
    """
    if (folder / "S1.txt").exists():
        parts = mq2008_parts(folder)
        width = read(parts[0]).all().X.shape[1]
        for i in range(5):
            train, test, validation = ([parts[(i + k) % 5] for k in ks] for ks in ((0, 1, 2), (4,), (3,)))
            yield Fold(*(read(*names, n_features=width).all() for names in (train, test, validation)))
    elif (folder / "Fold1").is_dir():
        for fold in sorted(folder.glob("Fold*")):
            train = read(fold / "train.txt").all()
            others = [fold / name for name in ("test.txt", "vali.txt") if (fold / name).exists()]
            yield Fold(train, *(read(name, n_features=train.X.shape[1]).all() for name in others))
    elif (folder / "rank.train").exists():
        train = read(folder / "rank.train").all()
        yield Fold(train, read(folder / "rank.test", n_features=train.X.shape[1]).all())
    else:
        raise SystemExit(f"{folder} holds neither S1.txt, nor Fold1/, nor rank.train")


def mq2008_parts(folder: Path) -> list[Path]:
    """S1.txt .. S5.txt of a folder."""
    return [folder / f"S{i}.txt" for i in range(1, 6)]


class Queries(NamedTuple):
    """Queries in order, and a folder for files made of them."""

    X: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    folder: Path = Path()

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def qid(self) -> np.ndarray:
        return np.repeat(np.arange(self.n_queries), np.diff(self.offsets))

    def first(self, n_queries: int) -> "Queries":
        """The first queries, as views."""
        offsets = self.offsets[: n_queries + 1]
        return self._replace(X=self.X[: offsets[-1]], y=self.y[: offsets[-1]], offsets=offsets)

    def queries(self, dtype: type = np.float64) -> list[tuple[np.ndarray, np.ndarray]]:
        """(X, y) of each query."""
        X = self.X.astype(dtype, copy=False)
        return [(X[a:b], self.y[a:b]) for a, b in itertools.pairwise(self.offsets)]


def offsets_of(block: Documents) -> np.ndarray:
    """Where the queries of a block begin, and where the last one ends: (q + 1,)."""
    return query_offsets(block.qid, len(block.y))


def queries_of(X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """(X, y) of each query of a block."""
    return [(X[a:b], y[a:b]) for a, b in itertools.pairwise(query_offsets(qid, len(y)).tolist())]


def shuffled(block: Documents, seed: int) -> Triple:
    """X, y and qid of the block with its queries in random order."""
    offsets = offsets_of(block)
    order = np.random.default_rng(seed).permutation(len(offsets) - 1)
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in order])
    return block.X[rows], block.y[rows], np.repeat(np.arange(len(order)), np.diff(offsets)[order])
