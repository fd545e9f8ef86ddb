"""Checks of a model's answers and copies."""

import copy
import itertools
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from online_rank.base import steps_of
from online_rank.checks._subject import (
    answer_many,
    answer_of,
    as_block,
    as_dicts,
    close,
    is_ranker,
    make_queries,
    numbers,
    same,
    state_of,
    taught_by,
)

#: The most bytes that a model may keep of recent queries.
_WINDOW = 16 << 20


def prediction_is_pure(model: Any) -> None:
    """A prediction changes neither the model nor the query."""
    asked = ["predict_one", "rank_one", "predict_many"] if is_ranker(model) else ["transform_one"]
    for dicts in (False, True):
        model = taught_by(model.clone(), make_queries(), dicts)
        x = as_dicts(*make_queries()[7])[0] if dicts else make_queries()[7][0]
        for method in [name for name in asked if not dicts or name != "predict_many"]:
            before, query = state_of(model), copy.deepcopy(x)
            getattr(model, method)(x)
            assert state_of(model) == before, f"{method} changed the model"
            assert same(x, query), f"{method} changed the query"


def learn_many_is_the_loop(model: Any) -> None:
    """`learn_many` and `predict_many` give the same as loops of `learn_one` and `predict_one`, bit for bit."""
    queries = make_queries()
    X, y, qid = as_block(queries)
    cut = int(np.searchsorted(qid, 10))
    loop, block, halves = taught_by(model.clone(), queries), model.clone(), model.clone()
    block.learn_many(X, y=y, qid=qid)
    halves.learn_many(X[:cut], y=y[:cut], qid=qid[:cut])
    halves.learn_many(X[cut:], y=y[cut:], qid=qid[cut:])
    assert same(block, loop), "a block left another state than the loop"
    assert same(halves, loop), "two blocks left another state than the loop"
    one_by_one = np.concatenate([numbers(answer_of(loop, x)) for x, _ in queries])
    assert same(numbers(answer_many(loop, X, qid)), one_by_one), "a block was answered differently from the loop"


def permutation_equivariance(model: Any) -> None:
    """The answer for a document does not depend on its position: answer(X[p]) = answer(X)[p] [CT, Theorem 10]."""
    for dicts in (False, True):
        model, rng = taught_by(model.clone(), make_queries(), dicts), np.random.default_rng(0)
        for X, y in make_queries(seed=1):
            p = rng.permutation(len(y))
            answer = numbers(answer_of(model, as_dicts(X, y)[0] if dicts else X))
            turned = numbers(answer_of(model, as_dicts(X[p], y[p])[0] if dicts else X[p]))
            assert close(turned, answer[p], 1e-9), "the order of the documents changed their answers"


def copies(model: Any) -> None:
    """Copies by `copy.deepcopy` and by `pickle` answer and learn like the original, and share nothing with it."""
    _require_twins(model, lambda taught: copy.deepcopy(taught), "a deep copy")
    _require_twins(model, lambda taught: pickle.loads(pickle.dumps(taught)), "a pickled copy")


def files(model: Any) -> None:
    """A model read from a file answers and learns like the saved one; a model that cannot be saved raises TypeError."""
    from online_rank.storage.files import load, save

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.npz"
        try:
            save(taught_by(model.clone(), make_queries()[:2]), path)
        except TypeError:
            assert not path.exists(), "save refused the model, but left a file"
            return

        def through_file(taught: Any) -> Any:
            save(taught, path)
            return load(path)

        _require_twins(model, through_file, "a saved and loaded copy")


def _require_twins(model: Any, duplicate: Callable[[Any], Any], what: str) -> None:
    for taught, dicts in itertools.product((False, True), repeat=2):
        original = taught_by(model.clone(), make_queries() if taught else [], dicts)
        twin = duplicate(original)
        assert repr(twin) == repr(original), f"{what} has other parameters"
        before = state_of(original)
        taught_by(twin, make_queries(seed=1), dicts)
        assert state_of(original) == before, f"{what} shares state with the original"
        taught_by(original, make_queries(seed=1), dicts)
        for X, y in make_queries(seed=2):
            x = as_dicts(X, y)[0] if dicts else X
            assert same(answer_of(twin, x), answer_of(original, x)), f"{what} answers differently"


def clones(model: Any) -> None:
    """A clone has the same parameters, has learned nothing, and does not learn with the original; two that learn the same end
    in the same state.
    """
    fresh = model.clone()
    clone = taught_by(model.clone(), make_queries()).clone()
    assert repr(clone) == repr(fresh), "a clone has other parameters"
    x = make_queries()[8][0]
    assert same(answer_of(clone, x), answer_of(fresh, x)), "a clone has learned something"
    assert same(taught_by(clone, make_queries()), taught_by(fresh, make_queries())), (
        "two clones learned differently from the same queries"
    )
    original = model.clone()
    clone = original.clone()
    before = state_of(clone)
    taught_by(original, make_queries())
    assert state_of(clone) == before, "a clone learns what the original learns"


def bounded_memory(model: Any) -> None:
    """Memory is bounded: queries with known features add less memory later than earlier, apart from a window of recent queries
    of at most 16 MiB (`_bytes_of_queries`).
    """
    # River's own check allows the second half of a stream to add three times as much as the first. The smallest recent size is
    # used, since a model may keep some queries for a while.
    queries, sizes = make_queries(700), [len(pickle.dumps(model))]
    for start, middle in ((0, 300), (400, 600)):
        taught_by(model, queries[start:middle])
        lately = []
        for query in queries[middle : middle + 100]:
            taught_by(model, [query])
            kept = sum(getattr(step, "_bytes_of_queries", 0) for step in steps_of(model))
            assert kept <= _WINDOW, f"it keeps {kept} bytes of recent queries"
            lately.append(len(pickle.dumps(model)) - kept)
        sizes.append(min(lately))
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second <= max(first / 2, 1024), f"300 queries added {first} bytes to the model, the next 300 another {second}"
