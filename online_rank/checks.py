"""The contract of rankers and of transformers of queries, as checks that anyone can run on a class of his own.

In a test suite, one test a check:

    @pytest.mark.parametrize("check", yield_checks(MyRanker()), ids=str)
    def test_contract(check):
        check()
"""

import copy
import functools
import inspect
import itertools
import math
import pickle
import random
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import base, compose

from online_rank.base import QueryEstimator, QueryTransformer, Ranker

__all__ = ["Check", "CheckFailed", "check_ranker", "check_transformer", "yield_checks"]

NAMES = ("clicks", "age", "bm25", "length", "const")

#: Those of river's checks on streams that are about features: they are given queries turned over, {feature: {document: value}}.
RIVER_ON_FEATURES = (
    "check_shuffle_features_no_impact",
    "check_emerging_features",
    "check_disappearing_features",
    "check_radically_disappearing_features",
)

#: Those that are given queries as they are, {document: {feature: value}}.
RIVER_ON_QUERIES = (
    "check_learn_one",
    "check_pickling",
    "check_predict_one_pure",
    "check_predict_one_before_any_learn",
    "check_no_state_aliasing_with_input",
    "check_clone_is_independent",
    "check_transform_one",
    "check_seeding_is_idempotent",
    "check_bounded_memory_growth",
)


class CheckFailed(AssertionError):  # noqa: N818 - it is what a failed check raises, like a failed assertion
    """A model does not keep the contract; the message names the check and what went wrong."""


class Check(NamedTuple):
    """One check of one model; call it to run it.

    Attributes
    ----------
    name
        The name of the check; those of river begin with `river.`.
    function
        What is called with a clone of the model. Its docstring says what is demanded.
    model
        The model. It stays as it is.
    """

    name: str
    function: Callable[[Any], None]
    model: Any

    def __str__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Run the check. Raises CheckFailed."""
        state = random.getstate()
        random.seed(0)  # River's checks draw features.
        try:
            self.function(self.model.clone())
        except Exception as error:
            reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
            raise CheckFailed(f"{type(self.model).__name__} fails {self.name}: {type(error).__name__}: {reason}") from error
        finally:
            random.setstate(state)


def check_ranker(model: Any) -> None:
    """Check that a ranker, or a pipeline that ends in one, keeps the contract of `online_rank.Ranker`.

    Run are river's general checks, river's checks on streams (with queries), and those of this module: answers in the form that
    was asked for; prediction changes nothing; no state shared with the input; a block gives bit for bit what the loop gives;
    rejected input changes nothing; copies, clones and files; float32, read-only and strided arrays; documents scored alike in
    every order (Theorem 10 of [CT]); features that appear, vanish and change places; bounded memory.

    Parameters
    ----------
    model
        A ranker or pipeline that takes numeric features, in every form of a query. It stays as it is: clones are checked.

    Raises
    ------
    CheckFailed
        An AssertionError that names the first check that failed, and what went wrong.
    TypeError
        `model` is no ranker.

    References
    ----------
    [CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> from online_rank.checks import check_ranker
    >>> check_ranker(StreamScaler() | PerceptronRanker())
    >>> class Forgetful(PerceptronRanker):
    ...     def predict_one(self, x):
    ...         self._weights[:] = 0.0
    ...         return super().predict_one(x)
    >>> check_ranker(Forgetful())
    Traceback (most recent call last):
    ...
    online_rank.checks.CheckFailed: Forgetful fails prediction_is_pure: AssertionError: predict_one changed the model
    """
    if not _is_ranker(model):
        raise TypeError(f"model is {model!r}; check_ranker checks rankers, and pipelines that end in one")
    for check in yield_checks(model):
        check()


def check_transformer(model: Any) -> None:
    """Check that a transformer of queries, or a pipeline of them, keeps the contract of `online_rank.base.QueryTransformer`.

    The checks are those of `check_ranker`, as far as they apply.

    Parameters
    ----------
    model
        A transformer or pipeline that takes numeric features, in every form of a query. It stays as it is: clones are checked.

    Raises
    ------
    CheckFailed
        An AssertionError that names the first check that failed, and what went wrong.
    TypeError
        `model` is no transformer of queries.

    Examples
    --------
    >>> from online_rank import QueryNormalizer
    >>> from online_rank.checks import check_transformer
    >>> check_transformer(QueryNormalizer())
    """
    if _is_ranker(model) or not isinstance(model, QueryTransformer | compose.Pipeline):
        raise TypeError(f"model is {model!r}; check_transformer checks transformers of queries, and pipelines of them")
    for check in yield_checks(model):
        check()


def yield_checks(model: Any) -> Iterator[Check]:
    """The checks of `check_ranker`, or of `check_transformer`, one by one.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.checks import yield_checks
    >>> [check.name for check in yield_checks(PerceptronRanker())][-3:]
    ['permutation_equivariance', 'ranking', 'last_round']
    """
    from river.checks import common

    for name, function in vars(common).items():
        if name.startswith("check_") and list(inspect.signature(function).parameters) == ["model"]:
            # River asks a class for parameters to test it with; a pipeline has none, and is tested as it is.
            if not isinstance(model, compose.Pipeline) or "unit_test_params" not in inspect.getsource(function):
                yield Check(f"river.{name}", function, model)
    for name in RIVER_ON_QUERIES:
        if hasattr(common, name):
            yield Check(f"river.{name}", functools.partial(_on_queries, getattr(common, name)), model)
    for name in RIVER_ON_FEATURES:
        if hasattr(common, name):
            yield Check(f"river.{name}", functools.partial(_on_features, getattr(common, name)), model)
    for own in (*_CHECKS, *(_RANKER_CHECKS if _is_ranker(model) else ())):
        yield Check(own.__name__, own, model)


def _first_step(model: Any) -> Any:
    return next(iter(model.steps.values())) if isinstance(model, compose.Pipeline) else model


def _is_ranker(model: Any) -> bool:
    while isinstance(model, compose.Pipeline) and model.steps:
        model = list(model.steps.values())[-1]
    return isinstance(model, Ranker)


# ------------------------------------------------------------------------------------------------------------ queries to learn


def _queries(n: int = 24, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Queries of 1 to 9 documents; among them ties, a constant feature, and some with one grade only.

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


def _as_dicts(X: np.ndarray, y: np.ndarray) -> tuple[dict, dict]:
    """A query as {document: {feature: value}}, and its grades as {document: grade}."""
    ids = [f"doc{i}" for i in range(len(y))]
    return (
        {i: dict(zip(NAMES, row, strict=True)) for i, row in zip(ids, X.tolist(), strict=True)},
        dict(zip(ids, y.tolist(), strict=True)),
    )


def _as_block(queries: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    return X, y, np.repeat(np.arange(len(queries)), [len(y) for _, y in queries])


def _taught(model: Any, queries: list, dicts: bool = False) -> Any:
    for X, y in queries:
        model.learn_one(*(_as_dicts(X, y) if dicts else (X, y)))
    return model


def _answer(model: Any, x: Any) -> Any:
    """What a ranker predicts, or what a transformer makes of a query."""
    return model.predict_one(x) if _is_ranker(model) else model.transform_one(x)


def _answer_many(model: Any, X: Any, qid: Any) -> Any:
    return model.predict_many(X, qid) if _is_ranker(model) else model.transform_many(X, qid)


def _numbers(answer: Any) -> np.ndarray:
    """An answer in any form as an array, one row or number a document."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if len(answer) and isinstance(answer, list) and isinstance(answer[0], dict):
        answer = [list(document.values()) for document in answer]
    return np.asarray(answer, dtype=np.float64)


def _state(value: Any) -> Any:
    """All state of a model, comparable bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(repr(key), _state(part)) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [_state(part) for part in value]
    if isinstance(value, base.Base):
        return type(value), sorted((key, _state(part)) for key, part in vars(value).items() if not key.startswith("_inference"))
    return repr(value) if inspect.isroutine(value) else pickle.dumps(value)


def _same(a: Any, b: Any) -> bool:
    return _state(a) == _state(b)


def _close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max(initial=0.0))))


# -------------------------------------------------------------------------------------------------------------- river's checks


def _on_queries(check: Callable, model: Any) -> None:
    if check.__name__ == "check_seeding_is_idempotent" and not model._is_stochastic:
        return
    if check.__name__ == "check_transform_one" and _is_ranker(model):
        return
    n = 400 if check.__name__ == "check_bounded_memory_growth" else 24
    check(model, [_as_dicts(X, y) for X, y in _queries(n)])


def _on_features(check: Callable, model: Any) -> None:
    queries = [_as_dicts(X, y) for X, y in _queries()]
    check(_TurnedOver(model), [(_turned_over(x), y) for x, y in queries])


class _TurnedOver(base.Estimator):
    """A model that takes queries as {feature: {document: value}}: what river's checks do to features, they do to this one's."""

    def __init__(self, model: Any):
        self.model = model

    @property
    def _supervised(self) -> bool:
        return True

    def learn_one(self, x: dict, y: dict) -> None:
        self.model.learn_one(_turned_over(x), y)

    def predict_one(self, x: dict) -> Any:
        return _answer(self.model, _turned_over(x))


def _turned_over(x: dict[Any, dict]) -> dict[Any, dict]:
    turned: dict[Any, dict] = {}
    for outer, inner in x.items():
        for key, value in inner.items():
            turned.setdefault(key, {})[outer] = value
    return turned


# ------------------------------------------------------------------------------------------------- checks of rankers and others


def answers_in_kind(model: Any) -> None:
    """A query in any form is answered in that form, before and after learning."""
    for taught in (False, True):
        (X, y), model = _queries()[5], _taught(model.clone(), _queries() if taught else [], dicts=True)
        x, _ = _as_dicts(X, y)
        named, listed = _answer(model, x), _answer(model, list(x.values()))
        assert type(named) is dict, f"a dict of documents was answered with {type(named).__name__}"
        assert list(named) == list(x), "a dict of documents was answered with other documents"
        assert type(listed) is list, f"a list of documents was answered with {type(listed).__name__}"
        assert list(named.values()) == listed, "a dict and a list of the same documents got different answers"
        if _is_ranker(model):
            kinds = {type(score) for score in listed}
            assert kinds == {float}, f"scores are of type {kinds.pop().__name__}, not float"
    model = _taught(model.clone(), _queries())
    arrays, rows = _answer(model, X), _answer(model, X.tolist())
    assert len(arrays) == len(X), f"{len(X)} documents got {len(arrays)} answers"
    assert _same(_numbers(arrays), _numbers(rows)), "an array and the list of its rows got different answers"
    assert np.isfinite(_numbers(arrays)).all(), "an answer is not finite"


def forms_agree(model: Any) -> None:
    """Learning from arrays and from named features comes to the same (but for rounding)."""
    arrays, dicts = _taught(model.clone(), _queries()), _taught(model.clone(), _queries(), dicts=True)
    for X, y in _queries(seed=1):
        by_array, by_name = _numbers(_answer(arrays, X)), _numbers(_answer(dicts, _as_dicts(X, y)[0]))
        assert (
            _close(np.sort(by_array, axis=-1), np.sort(by_name, axis=-1), 1e-6)
            if by_array.ndim == 2
            else _close(by_array, by_name, 1e-6)
        ), "arrays and dicts of the same features were answered differently"


def frames(model: Any) -> None:
    """A pandas frame is a query, or a block, of named features (checked where pandas is installed)."""
    try:
        import pandas as pd
    except ImportError:
        return
    by_frame, by_dict = model.clone(), model.clone()
    for X, y in _queries():
        by_frame.learn_one(pd.DataFrame(X, columns=list(NAMES)), pd.Series(y))
        by_dict.learn_one(list(_as_dicts(X, y)[0].values()), y.tolist())
    for X, y in _queries(seed=1):
        frame = pd.DataFrame(X, columns=list(NAMES))
        answer = _answer(by_frame, frame)
        assert _is_ranker(model) or isinstance(answer, pd.DataFrame), f"a frame was answered with {type(answer).__name__}"
        expected = _numbers(_answer(by_dict, list(_as_dicts(X, y)[0].values())))
        assert _same(_numbers(answer), expected), "a frame and a list of dicts got different answers"


def degenerate_queries(model: Any) -> None:
    """No document, one document and one grade only are no errors; there may be nothing to learn from them."""
    for taught in (False, True):
        model = _taught(model.clone(), _queries() if taught else [])
        for x, y in (
            (np.empty((0, len(NAMES))), []),
            ([], []),
            (np.ones((1, len(NAMES))), [2]),
            (np.ones((3, len(NAMES))), [0, 0, 0]),
            (np.eye(len(NAMES)), [1] * len(NAMES)),
        ):
            model.learn_one(x, y)
            assert len(_answer(model, x)) == len(y), f"{len(y)} documents did not get {len(y)} answers"
        assert len(model.clone().learn_many(np.empty((0, len(NAMES))), qid=[], y=[]) or []) == 0
        assert len(_answer_many(model, np.empty((0, len(NAMES))), [])) == 0, "an empty block was answered"
    model = _taught(model.clone(), _queries(), dicts=True)
    model.learn_one({}, {})
    assert _answer(model, {}) == {}, "a query without documents was answered"


def prediction_is_pure(model: Any) -> None:
    """A prediction changes neither the model nor the query."""
    asked = ["predict_one", "rank_one", "predict_many"] if _is_ranker(model) else ["transform_one"]
    for dicts in (False, True):
        model = _taught(model.clone(), _queries(), dicts)
        x = _as_dicts(*_queries()[7])[0] if dicts else _queries()[7][0]
        for method in [name for name in asked if not dicts or name != "predict_many"]:
            before, query = _state(model), copy.deepcopy(x)
            getattr(model, method)(x)
            assert _state(model) == before, f"{method} changed the model"
            assert _same(x, query), f"{method} changed the query"


def no_aliasing(model: Any) -> None:
    """The model keeps nothing of what it was given, and gives nothing of what it keeps, that could be changed from outside."""
    for dicts in (False, True):
        model, twin = (_taught(model.clone(), _queries(), dicts) for _ in range(2))
        X, y = (part.copy() for part in _queries()[7])
        x, grades = _as_dicts(X, y) if dicts else (X, y)
        kept = copy.deepcopy((x, grades))
        for learner in (model, twin):
            learner.learn_one(x, grades)
            assert _same((x, grades), kept), "learn_one changed its input"
        answer = _answer(model, x)
        for part in (x, grades, answer):
            _spoil(part)
        x, grades = kept
        assert _same(model, twin), "a change to the input, or to an answer, after learn_one changed the model"
        assert _same(_answer(model, x), _answer(twin, x)), "a change to the input after learn_one changed the answers"
    model, twin = model.clone(), twin.clone()
    block, kept = _as_block(_queries()), _as_block(_queries())
    for learner in (model, twin):
        learner.learn_many(block[0], y=block[1], qid=block[2])
        assert _same(block, kept), "learn_many changed its input"
    _spoil(_answer_many(model, block[0], block[2]))
    for part in block:
        part[:] = 3
    assert _same(model, twin), "a change to the input after learn_many changed the model"


def _spoil(value: Any) -> None:
    """Change all that is in a query, grades or an answer."""
    if isinstance(value, np.ndarray):
        value[:] = 7
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []:
        if isinstance(value[key], dict):
            _spoil(value[key])
        else:
            value[key] = 7


def learn_many_is_the_loop(model: Any) -> None:
    """`learn_many` and `predict_many` give bit for bit what a loop of `learn_one` and of `predict_one` gives."""
    queries = _queries()
    X, y, qid = _as_block(queries)
    cut = int(np.searchsorted(qid, 10))
    loop, block, halves = _taught(model.clone(), queries), model.clone(), model.clone()
    block.learn_many(X, y=y, qid=qid)
    halves.learn_many(X[:cut], y=y[:cut], qid=qid[:cut])
    halves.learn_many(X[cut:], y=y[cut:], qid=qid[cut:])
    assert _same(block, loop), "a block left another state than the loop"
    assert _same(halves, loop), "two blocks left another state than the loop"
    one_by_one = np.concatenate([_numbers(_answer(loop, x)) for x, _ in queries])
    assert _same(_numbers(_answer_many(loop, X, qid)), one_by_one), "a block was answered differently from the loop"


def rejected_input_changes_nothing(model: Any) -> None:
    """Bad input raises ValueError or TypeError, and leaves the model bit for bit as it was."""
    queries = _queries()
    X, y = queries[7]
    nan, infinite, negative, fraction = X.copy(), X.astype(np.float32), y.copy(), y + 0.5
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
    if model._supervised:
        bad.append(("a negative grade", X, negative))
    if isinstance(_first_step(model), QueryEstimator):
        bad.append(("a feature too few", X[:, 1:], y))
    _reject(model, bad, False, queries[8:])
    learn = _taught(model.clone(), queries[:6])
    for what, x, grades in [case for case in bad if case[0] in ("NaN", "infinity", "a negative grade")]:
        before, block = _state(learn), _as_block([queries[6], queries[5]])
        rows = [np.concatenate([part, new, part]) for part, new in zip(block, (x, grades, [9] * len(y)), strict=True)]
        rows[2][-len(block[2]) :] = 10
        with _raises(f"{what} within a block"):
            learn.learn_many(rows[0], y=rows[1], qid=rows[2])
        assert _state(learn) == before, f"{what} within a block was rejected, but changed the model"
    x, grades = _as_dicts(X, y)
    missing = {name: grade for name, grade in grades.items() if name != "doc1"}
    broken = {**x, "doc2": {**x["doc2"], "bm25": math.nan}}
    _reject(
        model,
        [
            ("NaN", broken, grades),
            ("a missing grade", x, missing),
            ("a grade too many", x, {**grades, "stranger": 1}),
            ("no dict of features", {**x, "doc2": 3.0}, grades),
        ],
        True,
        queries[8:],
    )
    with _raises("NaN") as caught:
        _taught(model.clone(), queries, dicts=True).learn_one(broken, grades)
    for name in ("doc2", "bm25"):
        assert name in str(caught.error), f"the error for NaN does not name {name!r}: {caught.error}"


def _reject(model: Any, bad: list[tuple[str, Any, Any]], dicts: bool, after: list) -> None:
    """Every bad query is rejected by a new model and by a taught one, which go on as if nothing had happened."""
    for taught in (False, True):
        model, twin = (_taught(model.clone(), _queries()[:6] if taught else [], dicts) for _ in range(2))
        for what, x, grades in bad:
            if not taught and what == "a feature too few":
                continue
            before = _state(model)
            with _raises(what):
                model.learn_one(x, grades)
            assert _state(model) == before, f"{what} was rejected, but changed the model"
            if what in ("NaN", "infinity", "text", "nothing"):
                with _raises(f"{what} in a query to answer"):
                    _answer(model, x)
                assert _state(model) == before, f"{what} in a query to answer was rejected, but changed the model"
        assert _same(_taught(model, after, dicts), _taught(twin, after, dicts)), "rejected queries changed what came after"


class _raises:  # noqa: N801 - reads as a statement, like pytest's
    """The body raises ValueError or TypeError."""

    def __init__(self, what: str):
        self.what = what
        self.error: BaseException | None = None

    def __enter__(self) -> "_raises":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is None:
            raise AssertionError(f"{self.what} was accepted; ValueError or TypeError is due")
        self.error = error
        return isinstance(error, ValueError | TypeError)


def copies(model: Any) -> None:
    """Copies by `copy.deepcopy` and by `pickle` answer alike, learn alike, and share nothing with the original."""
    _require_twins(model, lambda taught: copy.deepcopy(taught), "a deep copy")
    _require_twins(model, lambda taught: pickle.loads(pickle.dumps(taught)), "a pickled copy")


def files(model: Any) -> None:
    """A model read from a file answers and learns like the one that was saved; what cannot be saved says so, by TypeError."""
    from online_rank.persistence import load, save

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.npz"
        try:
            save(_taught(model.clone(), _queries()[:2]), path)
        except TypeError:
            assert not path.exists(), "save refused the model, but left a file"
            return

        def through_file(taught: Any) -> Any:
            save(taught, path)
            return load(path)

        _require_twins(model, through_file, "a saved and loaded copy")


def _require_twins(model: Any, duplicate: Callable[[Any], Any], what: str) -> None:
    for taught, dicts in itertools.product((False, True), repeat=2):
        original = _taught(model.clone(), _queries() if taught else [], dicts)
        twin = duplicate(original)
        assert repr(twin) == repr(original), f"{what} has other parameters"
        before = _state(original)
        _taught(twin, _queries(seed=1), dicts)
        assert _state(original) == before, f"{what} shares state with the original"
        _taught(original, _queries(seed=1), dicts)
        for X, y in _queries(seed=2):
            x = _as_dicts(X, y)[0] if dicts else X
            assert _same(_answer(twin, x), _answer(original, x)), f"{what} answers differently"


def clones(model: Any) -> None:
    """A clone has the parameters and has learned nothing; two clones that learn the same are the same (seeds hold)."""
    fresh = model.clone()
    clone = _taught(model.clone(), _queries()).clone()
    assert repr(clone) == repr(fresh), "a clone has other parameters"
    x = _queries()[8][0]
    assert _same(_answer(clone, x), _answer(fresh, x)), "a clone has learned something"
    assert _same(_taught(clone, _queries()), _taught(fresh, _queries())), "two clones learned differently from the same queries"


def float32(model: Any) -> None:
    """float32 features are learned from and answered, much as float64 ones are."""
    single = _taught(model.clone(), [(X.astype(np.float32), y) for X, y in _queries()])
    double = _taught(model.clone(), _queries())
    for X, _ in _queries(seed=1):
        assert np.isfinite(_numbers(_answer(single, X.astype(np.float32)))).all(), "an answer to float32 is not finite"
        answer, expected = _numbers(_answer(double, X.astype(np.float32))), _numbers(_answer(double, X))
        assert _close(answer, expected, 1e-4), "float32 and float64 features of the same values got different answers"


def arrays_of_all_kinds(model: Any) -> None:
    """Read-only, strided, column-major and integer arrays are queries like any other; nothing is written to them."""

    def read_only(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X.flags.writeable = False
        return X

    def strided(X: np.ndarray) -> np.ndarray:
        return np.repeat(np.repeat(X, 2, axis=0), 3, axis=X.ndim - 1)[::2, ::3] if X.ndim == 2 else np.repeat(X, 2)[::2]

    for kind, make in (("read-only", read_only), ("strided", strided), ("column-major", np.asfortranarray)):
        plain, other = model.clone(), model.clone()
        for X, y in _queries():
            plain.learn_one(X, y)
            other.learn_one(make(X), make(y))
            assert _same(_numbers(_answer(other, make(X))), _numbers(_answer(plain, X))), f"{kind} arrays got other answers"
        X, y, qid = _as_block(_queries(seed=1))
        plain.learn_many(X, y=y, qid=qid)
        other.learn_many(make(X), y=make(y), qid=make(qid))
        assert _same(plain, other), f"{kind} arrays were learned differently"
    whole = [(np.round(X * 10).astype(np.int64), y.astype(np.uint8)) for X, y in _queries()]
    same = [(X.astype(np.float64), y) for X, y in whole]
    assert _same(_taught(model.clone(), whole), _taught(model.clone(), same)), "integers were learned differently from floats"


def unknown_features(model: Any) -> None:
    """Features never learned from, all of them or some, are no error in a query to answer, and have no effect on the next."""
    model = _taught(model.clone(), _queries(), dicts=True)
    known = _as_dicts(*_queries(seed=1)[8])[0]
    before = _state(_answer(model, known))
    for x in ({"i": {"never": 1.0}, "j": {"seen": 2.0}}, {"i": {"never": 1.0, "age": 2.0}, "j": {}}, {"i": {}, "j": {}}):
        assert list(_answer(model, x)) == ["i", "j"], "documents were lost"
    assert _state(_answer(model, known)) == before, "features never learned from changed later answers"


def permutation_equivariance(model: Any) -> None:
    """What a document gets does not depend on where it stands: answer(X[p]) = answer(X)[p] [CT, Theorem 10]."""
    for dicts in (False, True):
        model, rng = _taught(model.clone(), _queries(), dicts), np.random.default_rng(0)
        for X, y in _queries(seed=1):
            p = rng.permutation(len(y))
            answer = _numbers(_answer(model, _as_dicts(X, y)[0] if dicts else X))
            turned = _numbers(_answer(model, _as_dicts(X[p], y[p])[0] if dicts else X[p]))
            assert _close(turned, answer[p], 1e-9), "the order of the documents changed what they got"


_CHECKS = (
    answers_in_kind,
    forms_agree,
    frames,
    degenerate_queries,
    prediction_is_pure,
    no_aliasing,
    learn_many_is_the_loop,
    rejected_input_changes_nothing,
    copies,
    files,
    clones,
    float32,
    arrays_of_all_kinds,
    unknown_features,
    permutation_equivariance,
)


# ----------------------------------------------------------------------------------------------------- checks of rankers alone


def ranking(model: Any) -> None:
    """`rank_one` sorts the documents by score, best first, equal ones in the order in which they were given."""
    for dicts in (False, True):
        model = _taught(model.clone(), _queries(), dicts)
        for X, y in _queries(seed=1):
            scores = _numbers(model.predict_one(_as_dicts(X, y)[0] if dicts else X))
            ranked = model.rank_one(_as_dicts(X, y)[0] if dicts else X)
            order = np.argsort(-scores, kind="stable").tolist()
            assert ranked == ([f"doc{i}" for i in order] if dicts else order), "rank_one does not follow the scores"


def last_round(model: Any) -> None:
    """`last_round` is None at first, then what happened in the last query learned; weights of queries are told."""
    assert model.last_round is None, "last_round is not None before the first query"
    for t, (X, y) in enumerate(_queries()):
        try:
            model.learn_one(X, y, w=0.5 + t % 3)
        except ValueError as error:
            assert "w" in str(error) and t % 3 != 1, f"a weight was rejected: {error}"
            continue
        told = model.last_round
        assert 0.0 <= told.loss <= 1.0, f"the loss of a query is {told.loss}"
        assert told.n_documents == len(y), f"{len(y)} documents were told as {told.n_documents}"
        assert told.weight == 0.5 + t % 3, f"the weight {0.5 + t % 3} was told as {told.weight}"
        fields = (told.mass, told.squared_gradient_norm, told.margin, told.largest_norm, told.v_max)
        assert not any(field < 0.0 for field in fields), f"a field of {told} is negative"
    before = _state(model)
    for w in (-1.0, math.nan, math.inf):
        with _raises(f"the weight {w}"):
            model.learn_one(X, y, w=w)
        assert _state(model) == before, f"the weight {w} was rejected, but changed the model"


_RANKER_CHECKS = (ranking, last_round)
