"""Compiles kernels ahead of time."""

import itertools
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["warm_up"]


def warm_up(*models: Any) -> None:
    """Compile the kernels that learning and ranking need ahead of time, for example while building a container image.

    A wheel for Linux contains compiled kernels, so there is nothing to do. In a checkout on Linux, a call without models
    compiles the kernels of all rankers into one file in the user's cache folder (or in `ONLINE_RANK_CACHE_DIR`), which later
    processes load in milliseconds and without numba; this takes one to two minutes. On other systems, and for given models,
    numba compiles the kernels and caches them beside the package if that folder is writable, otherwise in its own cache folder
    (`NUMBA_CACHE_DIR`). `online-rank --version` says which is in use.

    Parameters
    ----------
    *models
        Rankers or pipelines; copies of them learn and rank two small queries. The default, where no file of kernels can be
        used, is `PerceptronRanker()`, alone and behind a `StreamQuantileMap`, and `GradientRanker()`.

    Raises
    ------
    RuntimeError
        The file of kernels could not be made.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, warm_up
    >>> warm_up(PerceptronRanker())
    """
    from online_rank import GradientRanker, PerceptronRanker, StreamQuantileMap
    from online_rank._kernels.ahead import loading

    if not models and loading.is_missing():
        if _build(loading.cache_folder(), loading.targets()[:1]):
            raise RuntimeError("the kernels could not be compiled ahead of time; the output above says why")
        return
    chosen = models or (PerceptronRanker(), StreamQuantileMap() | PerceptronRanker(), GradientRanker())
    for dtype, model in itertools.product((np.float64, np.float32), chosen):
        _use(model, (np.arange(12.0).reshape(4, 3) % 5).astype(dtype))


def _use(model: Any, X: np.ndarray) -> None:
    """Let a copy of a model learn and rank two small queries, one at a time and as a block."""
    from online_rank.metrics import NDCG

    grades, qid = [0, 1, 2, 0], [0, 0, 1, 1]
    learner = model.clone()
    learner.learn_one(X, grades)
    learner.learn_many(X, grades, qid)
    NDCG(k=10).update(grades, learner.predict_one(X))
    learner.rank_one(X)
    learner.predict_many(X, qid)


def models() -> Iterator[Any]:
    """The models whose kernels go into an object file: each ranker and transformer with the settings that most users start
    with.
    """
    import online_rank as o

    yield o.PerceptronRanker()
    yield o.PerceptronRanker(credit="argmax", served="average", average=200)
    yield o.GradientRanker()
    yield o.GradientRanker("logistic", optimizer="adagrad")
    yield o.RidgeRanker()
    yield o.BoostedRanker()
    yield o.DirectRanker()
    yield o.BlendRanker()
    yield o.KernelPerceptronRanker()
    yield o.LossTracker(o.PerceptronRanker(), {"u": np.ones(3)})
    yield o.DriftAwareRanker(o.PerceptronRanker())
    for transformer in (
        o.StreamScaler(), o.StreamQuantileMap(), o.StreamGaussianizer(), o.MaxAbsStreamScaler(),
        o.SignedLog(), o.QueryNormalizer("standard"), o.QueryNormalizer("minmax"), o.QueryRanks(),
    ):  # fmt: skip
        yield transformer | o.PerceptronRanker()
    yield o.StreamQuantileMap() | o.BlendRanker()


def _use_everything() -> None:
    """Call every kernel of an object file as users' code does: with read-only arrays."""
    import online_rank as o
    from online_rank import evaluate, metrics, stream

    for dtype, model in itertools.product((np.float64, np.float32), models()):
        X = (np.arange(12.0).reshape(4, 3) % 5).astype(dtype)
        _use(model, X)
        X.setflags(write=False)
        _use(model, X)
    documents = {str(i): {"a": float(i), "b": float(i % 2)} for i in range(4)}
    grades = dict(zip(documents, (0, 1, 2, 0), strict=True))
    texts = {name: {**features, "t": "x y"} for name, features in documents.items()}
    hashed = o.HashedFeatures(text=("t",))
    for learner, query in ((o.StreamScaler() | o.PerceptronRanker(), documents), (hashed | o.PerceptronRanker(), texts)):
        learner.learn_one(query, grades)
        learner.rank_one(query)
    for name in ("PlackettLuce", "FairPairs"):
        clicks = o.SwapRanker(policy=getattr(o, name)(seed=1))
        for _ in range(2):
            shown = clicks.show_one(documents)
            clicks.learn_one(documents, shown.clicked([shown.order[-1]]))
    text = "".join(f"{g} qid:{q} 1:{q}.5 2:{g} # doc\n" for q in range(3) for g in (0, 2, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "queries.txt")
        path.write_text(text)
        queries = list(stream.iter_letor(path))
        evaluate.progressive(queries, o.StreamScaler() | o.PerceptronRanker(), {"ndcg@10": metrics.NDCG(k=10)})


def _build(folder: Path, targets: Iterable[str], only: Iterable[str] = ()) -> int:
    """Build the object files of some targets, each in a process of its own. Returns how many failed.

    `only` names kernels, such as `dense.score`; if empty, all are built. A complete file for this machine is kept only after
    another process has called each of its kernels, because faulty machine code would crash that process and every later one.
    """
    from online_rank._kernels.ahead import loading
    from online_rank._kernels.ahead.building import environment

    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory(dir=folder) as untried:
        command = [sys.executable, "-m", "online_rank._warm_up"]
        running = {
            target: subprocess.Popen(
                [*command, untried, target, *only],
                env={**environment(target), "_ONLINE_RANK_RECORD": "1", "NUMBA_DISABLE_JIT": "1"},
            )
            for target in targets
        }
        for target, process in running.items():
            built = process.wait() == 0
            if built and not only and target in loading.targets()[:1]:
                tried = {**os.environ, "ONLINE_RANK_CACHE_DIR": untried}
                built = subprocess.run([*command, "--try"], env=tried).returncode == 0
            if built:
                name = loading.object_name(target)
                os.replace(Path(untried, name), folder / name)
            failed += not built
    return failed


def _record_and_build(folder: Path, target: str, only: Iterable[str]) -> None:
    """Run models as plain Python, record the signatures with which they call kernels, and compile these."""
    import numba

    from online_rank._kernels import _jit
    from online_rank._kernels.ahead.building import build

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _use_everything()
    numba.config.DISABLE_JIT = 0  # type: ignore[attr-defined]
    _jit.Kernel.forget()
    calls = [call for call in _jit.recorded or {} if not only or call[0].entry_name in only]
    path, left_out = build(calls, target, folder)
    print(f"{path}: {path.stat().st_size:,} bytes")
    for name, reason in left_out.items():
        print(f"  left to numba: {name}, since {reason}")


if __name__ == "__main__":
    if os.environ.get("_ONLINE_RANK_RECORD"):
        _record_and_build(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    elif sys.argv[1:] == ["--try"]:
        warnings.simplefilter("ignore")
        _use_everything()
    else:
        # python -m online_rank._warm_up FOLDER TARGET [KERNEL ...]; several targets are separated by commas.
        sys.exit(_build(Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]))
