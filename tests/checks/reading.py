"""Checks of what every model inherits: how queries are read and answered, its last round, and its lock.

`online_rank.checks` has the others.
"""

import copy
import math

import numpy as np

from online_rank.base import ranker_of
from online_rank.base.anatomy import learned_measure, parts_of
from online_rank.checks import Check, yield_checks
from online_rank.checks._subject import (
    NAMES,
    answer_many,
    answer_of,
    as_block,
    as_dicts,
    close,
    is_ranker,
    last_weights,
    make_queries,
    numbers,
    rejects,
    same,
    sorted_numbers,
    state_of,
    taught_by,
)
from tests.checks.locks import methods_hold_the_lock, one_lock


def frames(model):
    """A pandas frame is a query, or a block, of named features (checked where pandas is installed)."""
    try:
        import pandas as pd
    except ImportError:
        return
    by_frame, by_dict = model.clone(), model.clone()
    for X, y in make_queries():
        by_frame.learn_one(pd.DataFrame(X, columns=list(NAMES)), pd.Series(y))
        by_dict.learn_one(list(as_dicts(X, y)[0].values()), y.tolist())
    for X, y in make_queries(seed=1):
        frame = pd.DataFrame(X, columns=list(NAMES))
        answer = answer_of(by_frame, frame)
        assert is_ranker(model) or isinstance(answer, pd.DataFrame), f"a frame was answered with {type(answer).__name__}"
        expected = numbers(answer_of(by_dict, list(as_dicts(X, y)[0].values())))
        assert same(numbers(answer), expected), "a frame and a list of dicts got different answers"


def no_aliasing(model):
    """The model shares no mutable data with its input or its answers."""
    for dicts in (False, True):
        model, twin = (taught_by(model.clone(), make_queries(), dicts) for _ in range(2))
        X, y = (part.copy() for part in make_queries()[7])
        x, grades = as_dicts(X, y) if dicts else (X, y)
        kept = copy.deepcopy((x, grades))
        twin.learn_one(*copy.deepcopy(kept))
        model.learn_one(x, grades)
        assert same((x, grades), kept), "learn_one changed its input"
        answer = answer_of(model, x)
        for part in (x, grades, answer):
            _spoil(part)
        x, grades = kept
        assert same(model, twin), "a change to the input, or to an answer, after learn_one changed the model"
        assert same(answer_of(model, x), answer_of(twin, x)), "a change to the input after learn_one changed the answers"
    model, twin = model.clone(), model.clone()
    block, unchanged = as_block(make_queries()), as_block(make_queries())
    twin.learn_many(unchanged[0].copy(), y=unchanged[1].copy(), qid=unchanged[2].copy())
    model.learn_many(block[0], y=block[1], qid=block[2])
    assert same(block, unchanged), "learn_many changed its input"
    _spoil(answer_many(model, block[0], block[2]))
    for part in block:
        part[:] = 3
    assert same(model, twin), "a change to the input after learn_many changed the model"


def _spoil(value):
    """Overwrite the contents of a query, grades or an answer."""
    if isinstance(value, np.ndarray):
        value[:] = 7
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []:
        if isinstance(value[key], dict):
            _spoil(value[key])
        else:
            value[key] = 7


def float32(model):
    """float32 features give nearly the same answers as float64."""
    single = taught_by(model.clone(), [(X.astype(np.float32), y) for X, y in make_queries()])
    double = taught_by(model.clone(), make_queries())
    for X, _ in make_queries(seed=1):
        assert np.isfinite(numbers(answer_of(single, X.astype(np.float32)))).all(), "an answer to float32 is not finite"
        answer, expected = numbers(answer_of(double, X.astype(np.float32))), numbers(answer_of(double, X))
        assert close(answer, expected, 1e-4), "float32 and float64 features of the same values got different answers"
    X, y = make_queries()[7]
    X[-1, -1] = np.inf
    before = state_of(single)
    with rejects("float32 infinity"):
        single.learn_one(X.astype(np.float32), y)
    assert state_of(single) == before, "float32 infinity was rejected, but changed the model"


def arrays_of_all_kinds(model):
    """Read-only, strided, column-major and integer arrays are accepted, and never written to."""

    def read_only(X):
        X = X.copy()
        X.flags.writeable = False
        return X

    def strided(X):
        return np.repeat(np.repeat(X, 2, axis=0), 3, axis=X.ndim - 1)[::2, ::3] if X.ndim == 2 else np.repeat(X, 2)[::2]

    for kind, make in (("read-only", read_only), ("strided", strided), ("column-major", np.asfortranarray)):
        plain, other = model.clone(), model.clone()
        for X, y in make_queries():
            plain.learn_one(X, y)
            other.learn_one(make(X), make(y))
            assert same(numbers(answer_of(other, make(X))), numbers(answer_of(plain, X))), f"{kind} arrays got other answers"
        X, y, qid = as_block(make_queries(seed=1))
        plain.learn_many(X, y=y, qid=qid)
        other.learn_many(make(X), y=make(y), qid=make(qid))
        assert same(plain, other), f"{kind} arrays were learned differently"
    whole = [(np.round(X * 10).astype(np.int64), y.astype(np.uint8)) for X, y in make_queries()]
    floats = [(X.astype(np.float64), y) for X, y in whole]
    assert same(taught_by(model.clone(), whole), taught_by(model.clone(), floats)), (
        "integers were learned differently from floats"
    )


def shuffled_features(model):
    """Once features are known, their order in a document does not matter."""
    model, twin = (taught_by(model.clone(), make_queries()[5:6], dicts=True) for _ in range(2))
    rng = np.random.default_rng(0)
    for X, y in make_queries():
        x, grades = as_dicts(X, y)
        names = rng.permutation(NAMES).tolist()
        shuffled = {i: {name: document[name] for name in names} for i, document in x.items()}
        model.learn_one(x, grades)
        twin.learn_one(shuffled, grades)
        changed = not close(sorted_numbers(model, x), sorted_numbers(twin, shuffled), 1e-9)
        assert not changed, "the order of the features changed the answer"


def answers_in_kind(model):
    """A query in any form is answered in that form, before and after learning."""
    for taught in (False, True):
        (X, y), model = make_queries()[5], taught_by(model.clone(), make_queries() if taught else [], dicts=True)
        x, _ = as_dicts(X, y)
        named, listed = answer_of(model, x), answer_of(model, list(x.values()))
        assert type(named) is dict, f"a dict of documents was answered with {type(named).__name__}"
        assert list(named) == list(x), "a dict of documents was answered with different documents"
        assert type(listed) is list, f"a list of documents was answered with {type(listed).__name__}"
        assert list(named.values()) == listed, "a dict and a list of the same documents got different answers"
        if is_ranker(model):
            kinds = {type(score) for score in listed}
            assert kinds == {float}, f"scores are of type {kinds.pop().__name__}, not float"
    model = taught_by(model.clone(), make_queries())
    arrays, rows = answer_of(model, X), answer_of(model, X.tolist())
    assert len(arrays) == len(X), f"{len(X)} documents got {len(arrays)} answers"
    assert same(numbers(arrays), numbers(rows)), "an array and the list of its rows got different answers"
    assert np.isfinite(numbers(arrays)).all(), "an answer is not finite"


def ranking(model):
    """`rank_one` sorts the documents by score, best first, equal ones in the order in which they were given."""
    for dicts in (False, True):
        model = taught_by(model.clone(), make_queries(), dicts)
        for X, y in make_queries(seed=1):
            scores = numbers(model.predict_one(as_dicts(X, y)[0] if dicts else X))
            ranked = model.rank_one(as_dicts(X, y)[0] if dicts else X)
            order = np.argsort(-scores, kind="stable").tolist()
            assert ranked == ([f"doc{i}" for i in order] if dicts else order), "rank_one does not follow the scores"


def _learns(model, X, y, w):
    """Learn a weighted query, unless the ranker does not support weights, which it says in an error."""
    try:
        model.learn_one(X, y, w=w)
    except ValueError:
        if w == 1.0:
            raise
        return False
    return True


def last_round(model):
    """`last_round` is None at first, then describes the last query learned, with its weight."""
    assert model.last_round is None, "last_round is not None before the first query"
    for t, (X, y) in enumerate(make_queries()):
        w = (0.5, 1.0, 2.0)[t % 3]
        if not _learns(model, X, y, w):
            continue
        told = model.last_round
        assert 0.0 <= told.loss <= 1.0, f"the loss of a query is {told.loss}"
        assert told.n_documents == len(y), f"{len(y)} documents were reported as {told.n_documents}"
        assert told.weight == w, f"the weight {w} was reported as {told.weight}"
        fields = (told.mass, told.squared_gradient_norm, told.margin, told.largest_norm, told.v_max)
        assert not any(field < 0.0 for field in fields), f"a field of {told} is negative"
    before = state_of(model)
    for w in (-1.0, math.nan, math.inf):
        with rejects(f"the weight {w}"):
            model.learn_one(X, y, w=w)
        assert state_of(model) == before, f"the weight {w} was rejected, but changed the model"


def honest_loss(model):
    """`last_round.loss` is 1 - measure of the ranking by the weights that learn, before the query was learned. The weight of
    the query does not change it.
    """
    ranker = last_weights(ranker_of(model))
    if ranker is None or ranker.abilities.takes_clicks:
        return  # It answers by other weights than those that learn, or its loss is about clicks.
    measure = learned_measure(ranker)
    for t, (X, y) in enumerate(make_queries(40)):
        w = (1.0, 0.5, 2.0)[t % 3]
        expected = measure.loss(numbers(ranker.predict_one(X)), y, ties="pessimistic")
        if not _learns(ranker, X, y, w):
            continue
        told = ranker.last_round.loss
        assert abs(told - expected) < 1e-9, f"a ranking with a loss of {expected:.6g} was reported with {told:.6g}"


#: Checks that hand in arrays of other types and layouts, as data frames do, too. numba compiles the kernels again for each.
OTHER_ARRAYS = (arrays_of_all_kinds, float32, frames)
INHERITED = (
    no_aliasing, shuffled_features, answers_in_kind, ranking, last_round, honest_loss, methods_hold_the_lock, one_lock,
)  # fmt: skip

OF_RANKERS = (ranking, last_round, honest_loss)


def all_checks(model, inherited=(*INHERITED, *OTHER_ARRAYS)):
    """The checks of the contract, then the checks of what it inherits."""
    yield from yield_checks(model)
    skipped = {name for part in parts_of(model) for name in part._unit_test_skips()}
    for function in inherited:
        if function.__name__ not in skipped and (is_ranker(model) or function not in OF_RANKERS):
            yield Check(function.__name__, function, model)
