"""Compiles kernels ahead of time: models are made by their public names, as users make them."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Seconds between two lines about how far compiling is.
_EVERY = 5.0


def warm_up(*models: Any) -> None:
    """Compile the kernels that learning and ranking need ahead of time, for example while building a container image.

    A wheel for a system and a processor contains compiled kernels, so there is nothing to do. In a checkout, a call without
    models compiles the kernels of all rankers into one file in the user's cache folder (or in `ONLINE_RANK_CACHE_DIR`), which
    later processes load in milliseconds and without numba; this takes one to two minutes. A call that was stopped leaves the
    kernels that it finished, and the next call continues with them. On systems and processors without
    such files, and for given models, numba compiles the kernels and caches them next to the package if that folder is writable,
    otherwise in its own cache folder (`NUMBA_CACHE_DIR`). `online-rank --version` says which is in use.

    Parameters
    ----------
    *models
        Rankers or pipelines; copies of them learn and rank two small queries. The default, if no file of kernels can be
        used, is `AdditiveRanker()`, which services and commands begin with, then `PerceptronRanker()`, alone and behind a
        `StreamQuantileMap`, and `GradientRanker()`.

    Raises
    ------
    RuntimeError
        The file of kernels could not be made.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, warm_up
    >>> warm_up(PerceptronRanker())
    """
    from online_rank import AdditiveRanker, GradientRanker, PerceptronRanker, StreamQuantileMap
    from online_rank._kernels.ahead import loading

    if not models and loading.is_missing():
        if _build(loading.cache_folder(), loading.targets()[:1]):
            raise RuntimeError(
                "the kernels could not be compiled ahead of time, as the output above says; ONLINE_RANK_JIT=1 uses numba"
            )
        return
    defaults = AdditiveRanker(), PerceptronRanker(), StreamQuantileMap() | PerceptronRanker(), GradientRanker()
    chosen = models or defaults
    for dtype, model in itertools.product((np.float64, np.float32), chosen):
        _use(model, (np.arange(12.0).reshape(4, 3) % 5).astype(dtype), np.array([0, 1, 2, 0]))


def _use(model: Any, x: Any, grades: Any, served: Any = None) -> None:
    """Let a copy of a model learn and rank a query, and if it is no dict also two of its parts as a block."""
    import online_rank as o

    learner = model.clone()
    # The first query fixes the number of features; only later ones are plain.
    for _ in range(2):
        y: Any = grades
        if learner.abilities.draws:
            shown = learner.show_one(x)
            y = shown.clicked([shown.order[-1]])
            o.PositionBias(3).update(y)
        learner.learn_one(x, y, served=served)
    learner.rank_one(x)
    if not isinstance(x, dict) and y is grades:
        qid = [0, 0, 1, 1]
        learner.learn_many(x, grades, qid)
        learner.predict_many(x, qid)
        for name in ("ndcg@10", "map"):
            o.metrics.metric(name).update(grades, learner.predict_one(x))


def models() -> Iterator[Any]:
    """The models whose kernels go into an object file: each ranker and transformer with the settings that most users start
    with.
    """
    import online_rank as o

    yield o.AdditiveRanker()
    yield o.AdditiveRanker(trees=0)
    yield o.PerceptronRanker()
    yield o.GradientRanker()
    yield o.GradientRanker("logistic", optimizer="adagrad")
    yield o.RidgeRanker()
    yield o.DirectRanker()
    yield o.BlendRanker([o.PerceptronRanker(), o.RidgeRanker()])
    yield o.KernelPerceptronRanker()
    yield o.LossTracker(o.PerceptronRanker(), {"u": np.ones(3)}, measure_served=True)
    yield o.LossTracker(o.SlamRanker(), {"u": np.ones(3)})
    yield o.StreamScaler() | o.LossTracker(o.PerceptronRanker(), {"u": np.ones(3)})
    for transformer in (
        o.StreamScaler(), o.StreamQuantileMap(), o.MaxAbsStreamScaler(),
        o.QueryNormalizer("standard"), o.QueryNormalizer("minmax"),
    ):  # fmt: skip
        yield transformer | o.PerceptronRanker()


def _use_everything() -> None:
    """Call every kernel of an object file as users' code does: with read-only arrays, too."""
    from scipy.sparse import csr_array

    import online_rank as o
    from online_rank.support import registry

    grades = np.array([0, 1, 2, 0])
    arrays = [(np.arange(12.0).reshape(4, 3) % 5).astype(dtype) for dtype in (np.float64, np.float32)]
    X, X32 = (array.copy() for array in arrays)
    rows = csr_array(X)
    documents = {str(i): {"a": float(i), "b": float(i % 2)} for i in range(4)}
    texts = {name: {**features, "t": "x y"} for name, features in documents.items()}
    for model, array in itertools.product(models(), arrays):
        _use(model, array, grades)
    for array in (*arrays, X, grades):
        array.setflags(write=False)
    for model, array in itertools.product(models(), arrays):
        _use(model, array, grades)
    tracker, hashed = o.LossTracker(o.PerceptronRanker(), {"u": np.ones(3)}), o.HashedFeatures(text=("t",))
    measured = o.LossTracker(o.PerceptronRanker(), {"u": np.ones(3)}, measure_served=True)
    for model in (o.PerceptronRanker(), tracker):
        _use(model, X, grades, served=[0.1, 0.4, 0.2, 0.3])
    for model in (
        o.PerceptronRanker(),
        o.GradientRanker(),
        o.SlamRanker(),
        measured,
        o.MaxAbsStreamScaler() | o.PerceptronRanker(),
    ):
        _use(model, rows, grades)
    for policy, query in itertools.product((o.PlackettLuce(seed=1), o.FairPairs(seed=1)), (documents, X, X32)):
        _use(o.SwapRanker(policy=policy), query, grades)
    named = dict(zip(documents, grades.tolist(), strict=True))
    for model, query, y in (
        (measured, X, grades),
        (o.StreamScaler() | measured, X, grades),
        (o.StreamScaler() | o.PerceptronRanker(), documents, named),
        (hashed | o.PerceptronRanker(), texts, named),
        (hashed | o.SwapRanker(policy=o.PlackettLuce(seed=1)), texts, named),
        (o.ClickPerceptron(policy=o.FairPairs(seed=1)), X, grades),
    ):
        _use(model, query, y)
    shown = o.Impression((3, 0, 1, 2))
    for array in (*arrays, *(array.copy() for array in arrays)):
        clicks = o.ClickBlendRanker()
        for _ in range(2):
            clicks.learn_one(array, shown.clicked([1]))
        clicks.rank_one(array)
    # Trees grow only after some lists.
    trees = registry.public_class("ClickTrees")(depth=2, rate=1.0)
    for t in range(16):
        trees.learn_one(np.arange(12.0).reshape(4, 3) % (t + 2), shown.clicked([t % 4]))
    trees.rank_one(np.eye(3))
    file = "tree\nmax_feature_idx=0\nfeature_names=a\nTree=0\nnum_leaves=1\nleaf_value=1\nend of trees"
    o.FixedTrees(file).rank_one(documents)
    o.intervals.LossInterval((1.0, 0.5, 0.25)).interval()
    for first in (o.StreamScaler(), o.StreamQuantileMap()):
        parts = [(first | o.PerceptronRanker()).clone() for _ in range(2)]
        for part in parts:
            part.learn_one(X, grades)
        o.distributed.mix(parts)
    _use_vectors()
    _use_streams()


def _use_vectors() -> None:
    """Rank and learn vectors: of arrays and among features, from grades and from clicks, until terms are folded in."""
    import online_rank as o

    D, grades = np.eye(4, 3, dtype=np.float32), np.array([0, 1, 2, 0])
    context = {"embedding": np.arange(3, dtype=np.float32)}
    documents = [{"a": float(i), "embedding": d} for i, d in enumerate(D)]
    for model, x in ((o.VectorRanker(), D), (o.AdditiveRanker(), documents)):
        # Each query brings a term: what is right changes.
        for t in range(80):
            y: Any = np.roll(grades, t)
            if model.abilities.draws:
                shown = model.show_one(x, context=context)
                y = y if t % 2 else shown.clicked([shown.order[-1]])
            model.learn_one(x, y, context=context)
        model.rank_one(x, context=context)


def _use_streams() -> None:
    """Read text, and rank and learn it one by one and in blocks, with an interval of the loss."""
    import online_rank as o

    o.query.columns.Columns.numbers_in(b"[[1,2]]", ["a", "b"], ["c"])
    text = "".join(f"{g} qid:{q} 1:{q}.5 2:{g} # doc\n" for q in range(24) for g in (0, 2, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "queries.txt")
        path.write_text(text)
        queries = list(o.read(path))
        for ranker in (o.PerceptronRanker(), o.LossTracker(o.PerceptronRanker(), measure_served=True)):
            for model in (ranker, o.StreamScaler() | ranker, o.StreamQuantileMap() | ranker):
                o.evaluate.progressive(queries, model.clone(), {"ndcg@10": o.metrics.NDCG(k=10)})
        o.batch_weights(queries[:2], max_evaluations=2, progress=False)


def _build(folder: Path, targets: Iterable[str], only: Iterable[str] = ()) -> int:
    """Build the object files of some targets, each in a separate process. Returns how many failed.

    `only` names kernels, such as `dense.score`; if empty, all are built. A complete file for this machine is kept only after
    another process has called each of its kernels, because faulty machine code would crash that process and every later one.
    Each kernel is kept as soon as it is compiled: a build that is stopped, by Ctrl-C or a kill, continues where it was.
    """
    from online_rank._kernels.ahead import loading
    from online_rank._kernels.ahead.building import environment
    from online_rank._kernels.ahead.finished import Finished
    from online_rank._kernels.ahead.trust import make_folder

    # Processes that try the code ignore relative paths.
    folder = folder.resolve()
    make_folder(folder)
    failed = 0
    with tempfile.TemporaryDirectory(dir=folder) as untried:
        command = [sys.executable, "-m", "online_rank.support.warm_up"]
        running = {
            target: subprocess.Popen(
                [*command, untried, target, *only],
                env={**environment(target), "_ONLINE_RANK_RECORD": "1", "NUMBA_DISABLE_JIT": "1"},
            )
            for target in targets
        }
        for target, process in running.items():
            ended = process.wait()
            built = ended == 0
            if built and not only and target in loading.targets()[:1]:
                tried = {**os.environ, "ONLINE_RANK_CACHE_DIR": untried}
                built = subprocess.run([*command, "--try"], env=tried).returncode == 0
            if built:
                name = loading.object_name(target)
                os.replace(Path(untried, name), folder / name)
            # What a signal has stopped continues from the kept kernels; what failed is compiled again.
            if ended >= 0:
                Finished(folder, target).forget()
            failed += not built
    return failed


def _record_and_build(folder: Path, target: str, only: Iterable[str]) -> None:
    """Run models as plain Python, record the signatures with which they call kernels, and compile these."""
    import numba

    from online_rank._kernels import _jit
    from online_rank._kernels.ahead.building import build

    print(f"online-rank: compiling the kernels for {target}, which takes some minutes", file=sys.stderr, flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _use_everything()
    numba.config.DISABLE_JIT = 0  # type: ignore[attr-defined]
    _jit.Kernel.forget()
    calls = [call for call in _jit.recorded or {} if not only or call[0].entry_name in only]
    begin = shown = time.monotonic()

    def show(done: int, n: int) -> None:
        nonlocal shown
        if (now := time.monotonic()) - shown >= _EVERY:
            shown = now
            print(f"online-rank: {done} of {n} kernels for {target}, {now - begin:.0f} s", file=sys.stderr, flush=True)

    # `_build` makes the folder of files that are not tried yet inside the folder of object files.
    path, left_out = build(calls, target, folder, show, kept_in=folder.parent)
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
        # python -m online_rank.support.warm_up FOLDER [TARGET [KERNEL ...]]: targets are separated by commas; by default all of
        # this system and processor.
        from online_rank._kernels.ahead.loading import family

        folder, *rest = sys.argv[1:]
        sys.exit(_build(Path(folder), rest[0].split(",") if rest else family(), rest[1:]))
