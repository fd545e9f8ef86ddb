"""Checks of how a model treats its input."""

import math
from typing import Any

import numpy as np

from online_rank.checks._subject import (
    NAMES,
    answer_many,
    answer_of,
    as_block,
    as_dicts,
    close,
    first_step,
    make_queries,
    numbers,
    rejects,
    same,
    sorted_numbers,
    state_of,
    taught_by,
)


def forms_agree(model: Any) -> None:
    """Learning from arrays and from named features gives the same answers, up to rounding."""
    arrays, dicts = taught_by(model.clone(), make_queries()), taught_by(model.clone(), make_queries(), dicts=True)
    for X, y in make_queries(seed=1):
        by_array, by_name = sorted_numbers(arrays, X), sorted_numbers(dicts, as_dicts(X, y)[0])
        assert close(by_array, by_name, 1e-6), "arrays and dicts of the same features were answered differently"


def degenerate_queries(model: Any) -> None:
    """Queries with no document, one document or a single grade are accepted, even if nothing can be learned from them."""
    for taught in (False, True):
        model = taught_by(model.clone(), make_queries() if taught else [])
        for x, y in (
            (np.empty((0, len(NAMES))), []),
            ([], []),
            (np.ones((1, len(NAMES))), [2]),
            (np.ones((3, len(NAMES))), [0, 0, 0]),
            (np.eye(len(NAMES)), [1] * len(NAMES)),
        ):
            model.learn_one(x, y)
            assert len(answer_of(model, x)) == len(y), f"{len(y)} documents did not get {len(y)} answers"
        assert len(model.clone().learn_many(np.empty((0, len(NAMES))), [], []) or []) == 0
        assert len(answer_many(model, np.empty((0, len(NAMES))), [])) == 0, "an empty block was answered"
    model = taught_by(model.clone(), make_queries(), dicts=True)
    model.learn_one({}, {})
    assert answer_of(model, {}) == {}, "a query without documents was answered"


def unknown_features(model: Any) -> None:
    """Features may appear, vanish and come back. Unknown ones are accepted in a query to answer, and affect no later answer."""
    model = taught_by(model.clone(), make_queries(), dicts=True)
    known = as_dicts(*make_queries(seed=1)[8])[0]
    before = state_of(answer_of(model, known))
    queries: tuple[dict[str, dict[str, float]], ...] = (
        {"i": {"never": 1.0}, "j": {"seen": 2.0}},
        {"i": {"never": 1.0, "age": 2.0}, "j": {}},
        {"i": {}, "j": {}},
    )
    for x in queries:
        assert list(answer_of(model, x)) == ["i", "j"], "documents were lost"
    assert state_of(answer_of(model, known)) == before, "features never learned from changed later answers"
    for x in (*queries, known):
        model.learn_one(x, dict.fromkeys(x, 1) | {next(iter(x)): 0})
        assert np.isfinite(numbers([*answer_of(model, known).values()])).all(), "an answer is not finite"


def rejected_input_changes_nothing(model: Any) -> None:
    """Bad input raises ValueError or TypeError, and leaves the model unchanged, bit for bit."""
    queries = make_queries()
    X, y = queries[7]
    nan, infinite, negative, fraction = X.copy(), X.copy(), y.copy(), y + 0.5
    nan[2, 1], infinite[-1, -1], negative[1] = np.nan, np.inf, -1
    bad: list[tuple[str, Any, Any]] = [
        ("NaN", nan, y),
        ("infinity", infinite, y),
        ("a document without a query", X[0], y[:1]),
        ("text", "query", y),
        ("nothing", None, y),
        ("a grade too few", X, y[1:]),
        ("text for grades", X, "grades"),
        ("a fractional grade", X, fraction),
    ]
    takes_nan = model.abilities.takes_missing
    bad = bad[1:] if takes_nan else bad
    if model._supervised:
        bad.append(("a negative grade", X, negative))
    if first_step(model)._reader is not None:
        bad.append(("a feature too few", X[:, 1:], y))
    _reject(model, bad, False, queries[8:])
    learn = taught_by(model.clone(), queries[:6])
    for what, x, grades in [case for case in bad if case[0] in ("NaN", "infinity", "a negative grade")]:
        before, block = state_of(learn), as_block([queries[6], queries[5]])
        rows = [np.concatenate([part, new, part]) for part, new in zip(block, (x, grades, [9] * len(y)), strict=True)]
        rows[2][-len(block[2]) :] = 10
        with rejects(f"{what} within a block"):
            learn.learn_many(rows[0], y=rows[1], qid=rows[2])
        assert state_of(learn) == before, f"{what} within a block was rejected, but changed the model"
    x, grades = as_dicts(X, y)
    missing = {name: grade for name, grade in grades.items() if name != "doc1"}
    what, value = ("infinity", math.inf) if takes_nan else ("NaN", math.nan)
    broken = {**x, "doc2": {**x["doc2"], "bm25": value}}
    _reject(
        model,
        [
            (what, broken, grades),
            ("a missing grade", x, missing),
            ("a grade too many", x, {**grades, "stranger": 1}),
            ("no dict of features", {**x, "doc2": 3.0}, grades),
        ],
        True,
        queries[8:],
    )
    with rejects(what) as caught:
        taught_by(model.clone(), queries, dicts=True).learn_one(broken, grades)
    for name in ("doc2", "bm25"):
        assert name in str(caught[0]), f"the error for {what} does not name {name!r}: {caught[0]}"


def _reject(model: Any, bad: list[tuple[str, Any, Any]], dicts: bool, after: list) -> None:
    """Every bad query is rejected by a new model and by a trained one, without any later effect."""
    for taught in (False, True):
        model, twin = (taught_by(model.clone(), make_queries()[:6] if taught else [], dicts) for _ in range(2))
        for what, x, grades in bad:
            if not taught and what == "a feature too few":
                continue
            before = state_of(model)
            with rejects(what):
                model.learn_one(x, grades)
            assert state_of(model) == before, f"{what} was rejected, but changed the model"
            if what in ("NaN", "infinity", "text", "nothing"):
                with rejects(f"{what} in a query to answer"):
                    answer_of(model, x)
                assert state_of(model) == before, f"{what} in a query to answer was rejected, but changed the model"
        assert same(taught_by(model, after, dicts), taught_by(twin, after, dicts)), "rejected queries changed what came after"
