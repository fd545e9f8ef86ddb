"""What `online-rank train` learns from what, and how: its settings, and the queries that they name."""

import os
import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from online_rank.cli.serve import check_files

__all__ = ["Made", "Settings"]

SHUFFLE_BUFFER = 2048

#: Synthetic streams that can be learned from in place of files: 1,000 queries each.
SYNTHETIC = {"synthetic:separable": "Separable", "synthetic:noisy": "NoisyTeacher"}


def synthetic(name: str) -> Any:
    """The synthetic stream of that name in `SYNTHETIC`."""
    from online_rank.stream import synth

    return getattr(synth, SYNTHETIC[name])()


def _with_ids(stream: Any) -> Iterator[tuple]:
    """The queries of a synthetic stream, with ids as those of a file have them."""
    for number, (X, y) in enumerate(stream):
        yield X, y, str(number), [f"{number}-{i}" for i in range(len(y))]


class Made(Iterator[tuple]):
    """Queries made of those of a source; the progress bar asks it how far the source is."""

    def __init__(self, queries: Iterable[tuple], source: Any) -> None:
        self._queries = iter(queries)
        self._source = source
        self.n_queries: int | None = getattr(source, "n_queries", None)

    def __next__(self) -> tuple:
        return next(self._queries)

    @property
    def fraction(self) -> float | None:
        """Which part of the source has been read, where it knows."""
        return getattr(self._source, "fraction", None)


class Settings(NamedTuple):
    """What is learned from what, and how. Files may also be one synthetic stream, by its name in `SYNTHETIC`."""

    files: list[str]
    test: list[str]
    measure: str
    passes: int
    scale: str
    log: bool
    seed: int | None
    features: int | None
    certify: bool = False
    ranker: str = "perceptron"

    def queries(self, number: int, position: Any = None, with_ids: bool = False) -> Iterable[tuple]:
        """The queries of pass `number`, which counts from 0; shuffled ones always from the beginning."""
        from online_rank.stream.letor import iter_letor

        source: Any
        if self.files[0] in SYNTHETIC:
            source = synthetic(self.files[0])
            queries = _with_ids(source) if with_ids else source
        else:
            source = queries = iter_letor(
                self.files, n_features=self.features, start=position, with_qid=with_ids, with_docid=with_ids
            )
        if self.seed is not None:
            queries = shuffled(queries, random.Random(f"{self.seed} {number}"))
        return queries if queries is source else Made(queries, source)

    @property
    def teacher(self) -> Any:
        """The weights that made a synthetic stream, where the ranker sees its features as they are; else None."""
        if self.files[0] not in SYNTHETIC or self.scale != "none" or self.log:
            return None
        stream = synthetic(self.files[0])
        return stream.teacher / getattr(stream, "margin", 1.0)

    def of_run(self) -> dict[str, Any]:
        """What must be the same when a run goes on from a checkpoint."""
        sizes = [os.path.getsize(file) if os.path.exists(file) else None for file in self.files]
        return {**self._asdict(), "files": [os.path.abspath(file) for file in self.files], "sizes": sizes, "test": None}

    def check(self) -> None:
        """Raise before anything is read when it could not end well."""
        if "-" in self.files and self.passes > 1:
            raise ValueError("standard input (-) can be read once: give a file, or --passes 1")
        if [*self.files, *self.test].count("-") > 1:
            raise ValueError("standard input (-) can be read once, but it is given more than once")
        if len(self.files) > 1 and any(file in SYNTHETIC for file in self.files):
            raise ValueError("a synthetic stream is learned from alone, without other files")
        check_files([file for file in self.files if file not in SYNTHETIC] + self.test)
        if self.certify and self.ranker != "perceptron":
            raise ValueError("--certify speaks of the perceptron: leave out --ranker")
        if self.certify and (self.passes > 1 or "-" in self.files):
            raise ValueError("--certify reads the queries twice, for one pass of learning: give files, and --passes 1")


def shuffled(queries: Iterable[Any], rng: random.Random) -> Iterator[Any]:
    """The queries in random order, as far as a buffer of `SHUFFLE_BUFFER` queries allows."""
    buffer: list[Any] = []
    for query in queries:
        if len(buffer) < SHUFFLE_BUFFER:
            buffer.append(query)
            continue
        i = rng.randrange(SHUFFLE_BUFFER)
        yield buffer[i]
        buffer[i] = query
    rng.shuffle(buffer)
    yield from buffer
