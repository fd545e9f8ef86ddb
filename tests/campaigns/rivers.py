"""River's transformers in front of the default, for as long as a day: time and memory stay, and a loaded file continues.

The pipeline has `TargetAgg` over a `Rolling` mean, `TFIDF`, one-hot levels and numbers, in a union; river's `ADWIN` watches the
losses. It is saved and loaded in the middle. A fixed loop, in which a young pipeline learns the same queries again and again,
runs in between, and cancels what a busy machine does to the times.
"""

import copy
import pickle
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._timing import megabytes
from online_rank import AdditiveRanker, ForEachDocument, load, save
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found

_DOCUMENTS, _KINDS, _BRANDS, _WORDS = 8, 30, 20, 300
#: Queries of a chunk and of the fixed loop after it, and chunks of a half that count: the first ones are of a young model.
_CHUNK, _LOOP = 250, 20
#: By how much the second half may take more than the end of the first one.
_TIME, _SIZE = 0.1, 0.05


def made() -> Any:
    """The pipeline."""
    from river import compose, feature_extraction, preprocessing, stats, utils

    kinds = feature_extraction.TargetAgg(by="kind", how=utils.Rolling(stats.Mean(), window_size=50))
    levels = compose.Select("brand") | preprocessing.OneHotEncoder()
    steps = kinds + feature_extraction.TFIDF(on="title") + levels + compose.Select("price")
    return ForEachDocument(steps) | AdditiveRanker()


def queries(n: int, seed: int) -> Iterator[tuple[dict[str, dict[str, Any]], dict[str, int]]]:
    """Queries with grades; what is relevant turns over in the middle."""
    rng = np.random.default_rng(seed)
    words, kinds, brands = (rng.normal(size=size) for size in (_WORDS, _KINDS, _BRANDS))
    for t in range(n):
        sign = 1.0 if t < n // 2 else -1.0
        x, y = {}, {}
        for i in range(_DOCUMENTS):
            kind, brand, title = rng.integers(_KINDS), rng.integers(_BRANDS), rng.integers(0, _WORDS, 4)
            truth = sign * (kinds[kind] + brands[brand] + words[title].sum()) + rng.normal()
            text = " ".join(f"w{word}" for word in title)
            x[f"d{i}"] = {"kind": f"k{kind}", "brand": f"b{brand}", "title": text, "price": float(rng.random())}
            y[f"d{i}"] = int(truth > 1.5)
        yield x, y


def rivers(n_queries: int = 20_000, seed: int = 0) -> Found:
    """A day of the pipeline."""
    from river import drift

    warnings.simplefilter("ignore")  # Each model warns of names that come as words do.
    model, adwin, young = made(), drift.ADWIN(), made()
    fixed = [*queries(_LOOP, seed + 1)]
    for x, y in queries(4 * _LOOP, seed + 2):
        young.learn_one(x, y)
    found, ratios, sizes, spent, drifts = Found(queries=n_queries), list[float](), list[float](), 0.0, 0
    for t, (x, y) in enumerate(queries(n_queries, seed), 1):
        began = time.process_time()
        scores = model.predict_one(x)
        model.learn_one(x, y)
        spent += time.process_time() - began
        best = max(scores, key=scores.__getitem__)
        adwin.update(1 - min(y[best], 1))
        drifts += adwin.drift_detected
        if t % _CHUNK == 0:
            ratios.append(spent / _loop(young, fixed))
            sizes.append(megabytes("VmRSS"))
            spent = 0.0
        if t == n_queries // 2:
            before = model
            model, adwin = _again(model), pickle.loads(pickle.dumps(adwin))
            same = all(model.predict_one(x) == before.predict_one(x) for x, _ in fixed)
            found.expect(same and to_bytes(model) == to_bytes(before), "the loaded pipeline is another one")
    found.count(drifts=int(drifts))
    found.expect(drifts > 0, "ADWIN saw no drift, and there was one")
    _look_at(found, np.array(ratios), np.array(sizes))
    return found


def _again(model: Any) -> Any:
    """A model from its file."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.npz")
        return load(Path(folder) / "model.npz")


def _loop(young: Any, fixed: list[Any]) -> float:
    """The processor time in which a copy of a young model learns some queries."""
    model = copy.deepcopy(young)
    began = time.process_time()
    for x, y in fixed:
        model.predict_one(x)
        model.learn_one(x, y)
    return time.process_time() - began


def _look_at(found: Found, ratios: np.ndarray, sizes: np.ndarray) -> None:
    """Complain if the last quarter takes more time or memory than the second one."""
    quarter = len(ratios) // 4
    early, late = slice(quarter, 2 * quarter), slice(3 * quarter, None)
    time_by, size_by = (float(np.median(each[late]) / np.median(each[early])) for each in (ratios, sizes))
    found.expect(time_by <= 1.0 + _TIME, f"the last quarter took {time_by:.3f} of the time of the second one")
    found.expect(size_by <= 1.0 + _SIZE, f"the last quarter took {size_by:.3f} of the memory of the second one")
    print(f"time {time_by:.3f}, memory {size_by:.3f}, {sizes[-1]:.0f} MB")
