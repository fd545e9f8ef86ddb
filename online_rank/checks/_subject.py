"""Queries for the checks, and a common interface to rankers and transformers."""

import contextlib
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base

from online_rank.base import Columns, Ranker, parts_of, steps_of
from online_rank.rankers.inside import averages

NAMES = ("clicks", "age", "bm25", "length", "const")
_EIGHT = tuple("abcdefgh")


def first_step(model: Any) -> Any:
    """The first step of a pipeline, or the model itself."""
    return steps_of(model)[0]


def is_ranker(model: Any) -> bool:
    """Whether a model is a ranker, or a pipeline that ends in one."""
    return isinstance(steps_of(model)[-1], Ranker)


def make_queries(n: int = 24, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Queries of 1 to 9 documents, with ties, a constant feature, and some with a single grade.

    Values have few binary digits, so that float32 holds them too.
    """
    rng = np.random.default_rng(seed)
    queries = []
    for t in range(n):
        m = 1 + t % 9
        X = np.round(rng.normal(size=(m, len(NAMES))) * 64) / 64
        X[:, 4] = 1.0
        X[:, 3] = np.round(X[:, 3])
        if m > 3:
            X[1] = X[2]
        y = np.clip(np.round(X[:, 0] - X[:, 1] + rng.normal(size=m) * 0.5), 0, 3).astype(np.int64)
        queries.append((X, y))
    return queries


def as_dicts(X: np.ndarray, y: np.ndarray) -> tuple[dict, dict]:
    """A query as {document: {feature: value}}, and its grades as {document: grade}."""
    ids = [f"doc{i}" for i in range(len(y))]
    return (
        {i: dict(zip(NAMES, row, strict=True)) for i, row in zip(ids, X.tolist(), strict=True)},
        dict(zip(ids, y.tolist(), strict=True)),
    )


def as_block(queries: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries stacked into a block: features (n, d), grades (n,) and the number of each document's query (n,)."""
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    return X, y, np.repeat(np.arange(len(queries)), [len(y) for _, y in queries])


def taught_by(model: Any, queries: list, dicts: bool = False) -> Any:
    """The model itself, after it has learned the queries one by one, as arrays or as dicts."""
    for X, y in queries:
        model.learn_one(*(as_dicts(X, y) if dicts else (X, y)))
    return model


def answer_of(model: Any, x: Any) -> Any:
    """The prediction of a ranker, or the output of a transformer, for a query."""
    return model.predict_one(x) if is_ranker(model) else model.transform_one(x)


def answer_many(model: Any, X: Any, qid: Any) -> Any:
    """As `answer_of`, for a block of queries."""
    return model.predict_many(X, qid) if is_ranker(model) else model.transform_many(X, qid)


def numbers(answer: Any) -> np.ndarray:
    """An answer in any form as an array, with a row or number for each document."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if len(answer) and isinstance(answer, list) and isinstance(answer[0], dict):
        answer = [list(document.values()) for document in answer]
    return np.asarray(answer, dtype=np.float64)


def sorted_numbers(model: Any, x: Any) -> np.ndarray:
    """The `numbers` that answer a query. A transformer's numbers are sorted, since it may return features in another order."""
    answer = numbers(answer_of(model, x))
    return np.sort(answer, axis=-1) if answer.ndim == 2 else answer


def state_of(value: Any) -> Any:
    """All state of a model, comparable bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(repr(key), state_of(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [state_of(part) for part in value]
    if isinstance(value, Columns):
        return Columns, [repr(name) for name in value.names]
    if isinstance(value, base.Base):
        return type(value), sorted(
            (key, state_of(part)) for key, part in vars(value).items() if not key.startswith("_inference")
        )
    if hasattr(value, "state_dict"):  # A module of torch, whose pickle has addresses in it.
        return type(value), [(name, tensor.numpy().tobytes()) for name, tensor in value.state_dict().items()]
    return repr(value) if inspect.isroutine(value) else pickle.dumps(value)


def same(a: Any, b: Any) -> bool:
    """Whether two models, or values, have the same state bit for bit."""
    return state_of(a) == state_of(b)


def close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two answers agree up to rounding, relative to the largest number in `b`."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max(initial=0.0))))


def late_and_known(ranker: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The answers to each query of a ranker for which half of the features appear late, and of one for which they were 0
    before, or missing.
    """
    late, known = ranker.clone(), ranker.clone()
    absent = dict.fromkeys(_EIGHT, np.nan if ranker.abilities.takes_missing else 0.0)
    for t, (X, y) in enumerate(make_queries()):
        # Four and eight features, so that sums in four lanes are rounded in the same way.
        named = np.hstack((X[:, :4], X[::-1, :4])).tolist()
        few = [dict(zip(_EIGHT[: 4 if t < 12 else 8], row, strict=False)) for row in named]
        whole = [{**absent, **features} for features in few]
        late.learn_one(few, y)
        known.learn_one(whole, y)
        yield numbers(late.predict_one(few)), numbers(known.predict_one(whole))


def last_weights(ranker: Any) -> Any:
    """A ranker with these settings that answers by the weights that learn; None if that is impossible."""
    ranker = ranker.clone({"half_life": 0} if averages(ranker) else {})
    return None if any(averages(part) for part in parts_of(ranker)) else ranker


@contextlib.contextmanager
def rejects(what: str) -> Iterator[list[BaseException]]:
    """A context whose body must raise ValueError or TypeError; it gives a list that holds the error afterwards."""
    found: list[BaseException] = []
    try:
        yield found
    except (ValueError, TypeError) as error:
        found.append(error)
        return
    raise AssertionError(f"{what} was accepted; it must raise ValueError or TypeError")
