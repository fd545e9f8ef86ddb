"""What contestants of `benchmarks.interactions` rank, kept in a folder if they are slow, and paired differences."""

import itertools
import json
import re
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import online_rank
from benchmarks._interaction_streams import STREAMS, Stream
from benchmarks._kept import commit
from benchmarks._other import OtherModel, commit_of
from online_rank import measure

NDCG = measure("ndcg@10")
DEFAULT, BASE, BLEND, LIGHTGBM = "this", "AdditiveRanker() before", "BlendRanker() before", "LightGBM"
ROUNDS = 200
#: Plain learners; the best one on development seeds is compared.
PLAIN = (
    "StreamQuantileMap() | PerceptronRanker()",
    "StreamQuantileMap() | RidgeRanker()",
    "StreamQuantileMap() | GradientRanker()",
    "StreamScaler() | PerceptronRanker()",
    "StreamScaler() | RidgeRanker()",
)


class Figures(NamedTuple):
    """NDCG@10 of a pass: of each query before it is learned, and of held-out queries; NaN where all grades are equal."""

    progressive: np.ndarray
    held_out: np.ndarray
    seconds: float = np.nan

    @property
    def means(self) -> tuple[float, float]:
        """The mean of each; NaN of none."""
        return tuple(float(np.nanmean(each)) if len(each) else np.nan for each in (self.progressive, self.held_out))


class Runs:
    """Figures of contestants by stream and seed.

    Parameters
    ----------
    model
        The default that is measured, an expression in the names of `online_rank`; it is measured at each call.
    other
        The interpreter of another checkout, whose `AdditiveRanker()` and `BlendRanker()` are comparators. None: they are
        `AdditiveRanker(trees=0)` of this one, and no blend.
    cache
        A folder for figures of comparators; None keeps them in memory only.
    """

    def __init__(self, model: str, other: Path | None, cache: Path | None) -> None:
        self.other = other
        self._model, self._cache = model, cache
        self._known: dict[tuple[str, str, int], Figures] = {}
        self._streams: dict[tuple[str, int], Stream] = {}

    def stream(self, name: str, seed: int) -> Stream:
        """A stream; only the last one is kept."""
        if (name, seed) not in self._streams:
            self._streams = {(name, seed): STREAMS[name](seed)}
        return self._streams[name, seed]

    def figures(self, who: str, name: str, seed: int) -> Figures:
        """What a contestant reaches on a stream: `DEFAULT`, `BASE`, `BLEND`, `LIGHTGBM`, or an expression."""
        if (who, name, seed) not in self._known:
            found = self._read(who, name, seed) if who != DEFAULT else None
            if found is None:
                found = self._measured(who, self.stream(name, seed))
                if who != DEFAULT:
                    self._write(who, name, seed, found)
            self._known[who, name, seed] = found
        return self._known[who, name, seed]

    def made(self, who: str) -> Any:
        """A new model."""
        if who in (BASE, BLEND) and self.other is not None:
            return self.apart(who)
        names = {name: getattr(online_rank, name) for name in online_rank.__all__}
        return eval(self._expression(who), names)

    def apart(self, who: str) -> OtherModel:
        """A new model in a separate process: of the other checkout, if it is a learner before, and if there is another."""
        before = who in (BASE, BLEND) and self.other is not None
        return OtherModel(self.other if before else Path(sys.executable), self._expression(who))

    def _expression(self, who: str) -> str:
        if who == BASE:
            return "AdditiveRanker()" if self.other is not None else "AdditiveRanker(trees=0)"
        if who == BLEND and self.other is None:
            raise SystemExit("BlendRanker() is a comparator of another checkout: give --other, or --cache with its figures")
        return {DEFAULT: self._model, BLEND: "BlendRanker()"}.get(who, who)

    def _measured(self, who: str, stream: Stream) -> Figures:
        if who == LIGHTGBM:
            return trained(stream)
        model = self.made(who)
        try:
            return passed(model, stream)
        finally:
            if isinstance(model, OtherModel):
                model.close()

    def _path(self, who: str, name: str, seed: int) -> Path | None:
        if self._cache is None:
            return None
        words = re.sub(r"\W+", "-", f"{who} {name} {seed}").strip("-")
        return self._cache / f"{words}.json"

    def _read(self, who: str, name: str, seed: int) -> Figures | None:
        path = self._path(who, name, seed)
        if path is None or not path.exists():
            return None
        kept = json.loads(path.read_text())
        if kept["checksum"] != checksum(self.stream(name, seed)):
            return None
        return Figures(*(np.array(kept[key], dtype=float) for key in ("progressive", "held_out")), kept["seconds"])

    def _write(self, who: str, name: str, seed: int, found: Figures) -> None:
        path = self._path(who, name, seed)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        before = who in (BASE, BLEND) and self.other is not None
        kept = {
            "who": who, "stream": name, "seed": seed, "commit": commit_of(self.other) if before else commit(),
            "checksum": checksum(self.stream(name, seed)), "seconds": found.seconds,
            "progressive": found.progressive.tolist(), "held_out": found.held_out.tolist(),
        }  # fmt: skip
        new = path.with_suffix(".new")
        new.write_text(json.dumps(kept))
        new.replace(path)


def checksum(stream: Stream) -> int:
    """A checksum of a stream's grades and of its last query: figures of another stream are measured again."""
    X, _ = stream.learned[-1]
    last = X.tobytes() if isinstance(X, np.ndarray) else repr(X).encode()
    grades = np.concatenate([y for _, y in (*stream.learned, *stream.held_out)]).astype(np.int64)
    return zlib.crc32(grades.tobytes() + last)


def value(scores: Any, y: Any) -> float:
    """NDCG@10, ties expected; NaN where all grades are equal."""
    return 1.0 - NDCG.loss(np.array(scores), np.array(y), ties="expected") if min(y) < max(y) else np.nan


def passed(model: Any, stream: Stream) -> Figures:
    """A pass of an online ranker."""
    own, found = isinstance(model, OtherModel), []
    start = time.process_time()
    for X, y in stream.learned:
        if own:
            scores = model.asked(X, y)
        else:
            scores = model.predict_one(X)
            model.learn_one(X, y)
        found.append(value(scores, y))
    seconds = model.seconds if own else time.process_time() - start
    held_out = [value(model.predict_one(X), y) for X, y in stream.held_out]
    return Figures(np.array(found)[stream.uncounted :], np.array(held_out), seconds)


def trained(stream: Stream) -> Figures:
    """LightGBM of `ROUNDS` rounds on everything."""
    import lightgbm

    start = time.process_time()
    model = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=ROUNDS, verbose=-1, n_jobs=1)
    X, y = (np.concatenate(parts) for parts in zip(*stream.learned, strict=True))
    model.fit(X, y, group=[len(y) for _, y in stream.learned])
    seconds = time.process_time() - start
    scores = np.asarray(model.predict(np.concatenate([X for X, _ in stream.held_out])))
    ends = np.cumsum([0, *(len(y) for _, y in stream.held_out)])
    parts = [scores[a:b] for a, b in itertools.pairwise(ends)]
    held_out = [value(s, y) for s, (_, y) in zip(parts, stream.held_out, strict=True)]
    return Figures(np.empty(0), np.array(held_out), seconds)


class Difference(NamedTuple):
    """A mean paired difference, its standard error, and the mean of each seed."""

    mean: float
    error: float
    each: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.error:.4f}"

    def verdict(self, bar: float) -> str:
        """Whether the bar is met; it is missed if the figure lies more than two standard errors below."""
        if self.mean >= bar:
            return "met"
        return "met within two errors" if self.mean + 2.0 * self.error >= bar else "missed"


def difference(own: Sequence[np.ndarray], other: Sequence[np.ndarray], over: str = "queries") -> Difference:
    """Paired differences of streams, an array for each seed.

    Parameters
    ----------
    over
        What the standard error is over: `"queries"` of all streams, `"seeds"`, or `"orders"`: all streams have the same
        queries, whose differences are averaged first.
    """
    away = [a - b for a, b in zip(own, other, strict=True)]
    each = [one[~np.isnan(one)] for one in away]
    means = np.array([one.mean() for one in each])
    if over == "seeds":
        error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    elif over == "orders":
        mean = np.mean(away, axis=0)
        mean = mean[~np.isnan(mean)]
        error = mean.std(ddof=1) / np.sqrt(len(mean))
    else:
        error = np.sqrt(sum(one.var(ddof=1) / len(one) for one in each)) / len(each)
    return Difference(float(means.mean()), float(error), tuple(means.tolist()))
