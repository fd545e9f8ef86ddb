"""RankingPipeline and functions in it."""

import copy
import pickle
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import compose, evaluate, linear_model, metrics, preprocessing

from online_rank import (
    BlendRanker,
    ForEachDocument,
    LossTracker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    Ranker,
    RankingPipeline,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.base.function import QueryFunction
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import NAMES, as_block, state_of, teacher_queries


def squares(query):
    """Works on arrays and on dicts of dicts."""
    if isinstance(query, dict):
        return {i: {**x, **{f"{name}^2": value**2 for name, value in x.items()}} for i, x in query.items()}
    return np.hstack([query, query**2])


PIPELINES = {
    "scaler": lambda: StreamScaler() | PerceptronRanker(),
    "chain": lambda: QueryNormalizer("minmax") | StreamScaler() | QueryNormalizer() | PerceptronRanker(),
    "function": lambda: squares | StreamScaler() | PerceptronRanker(),
    "function behind": lambda: StreamScaler() | squares | PerceptronRanker(),
}
every_pipeline = pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)


@every_pipeline
def test_a_pipeline_is_its_steps(make):
    pipeline, steps = make(), list(make().steps.values())
    for X, y in teacher_queries():
        pipeline.learn_one(X, y)
        for step in steps[:-1]:
            step.learn_one(X)
            X = step.transform_one(X)
        steps[-1].learn_one(X, y)
        assert repr(pipeline.last_round) == repr(steps[-1].last_round)
    assert [state_of(step) for step in pipeline.steps.values()] == [state_of(step) for step in steps]
    X, _ = teacher_queries(seed=1)[0]
    expected = X
    for step in steps[:-1]:
        expected = step.transform_one(expected)
    assert pipeline.transform_one(X).tobytes() == expected.tobytes()
    assert pipeline.predict_one(X) == steps[-1].predict_one(expected)
    assert pipeline.rank_one(X) == steps[-1].rank_one(expected)


@every_pipeline
def test_a_block_is_the_loop_bit_for_bit(make):
    stream = teacher_queries()
    weights = np.linspace(0.5, 2.0, len(stream))
    loop, block, halves = make(), make(), make()
    for (X, y), w in zip(stream, weights, strict=True):
        loop.learn_one(X, y, w)
    filled = [(query, w) for query, w in zip(stream, weights, strict=True) if len(query[1])]
    X, y, qid = as_block([query for query, _ in filled])
    w = np.array([w for _, w in filled])
    block.learn_many(X, y, qid, w=w)
    assert state_of(block) == state_of(loop)
    cut = np.searchsorted(qid, 10)
    halves.learn_many(X[:cut], y[:cut], qid[:cut], w=w[:10])
    halves.learn_many(X[cut:], y[cut:], qid[cut:], w=w[10:])
    assert state_of(halves) == state_of(loop)
    scores = block.predict_many(X, qid)
    assert scores.tolist() == [score for (X, _), _ in filled for score in loop.predict_one(X)]
    assert block.transform_many(X, qid).tobytes() == b"".join(loop.transform_one(X).tobytes() for (X, _), _ in filled)


def test_frames_as_queries_and_as_blocks():
    make = PIPELINES["chain"]
    one_by_one, block = make(), make()
    stream = [query for query in teacher_queries() if len(query[1])]
    for X, y in stream:
        one_by_one.learn_one(pd.DataFrame(X, columns=NAMES), pd.Series(y))
    X, y, qid = as_block(stream)
    frame = pd.DataFrame(X, columns=NAMES)
    block.learn_many(frame, y, qid)
    assert state_of(block) == state_of(one_by_one)
    assert isinstance(block.transform_many(frame, qid), pd.DataFrame)


def test_functions_see_the_form_that_was_given():
    seen = []

    def look(query):
        seen.append(type(query))
        return query

    pipeline = StreamScaler() | look | PerceptronRanker()
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    for x in ([{"a": 1.0}], {"i": {"a": 1.0}}, frame):
        pipeline.predict_one(x)
    pipeline.learn_many(frame, [0, 1], [0, 0])
    assert seen == [list, dict, pd.DataFrame, pd.DataFrame]


def test_a_function_may_give_each_query_its_own_named_features():
    def own(query):
        return [{name: value for name, value in x.items() if value} for x in query.to_dict("records")]

    frame = pd.DataFrame({"a": [0.0, 0.0, 1.0], "b": [2.0, 3.0, 0.0]})
    loop, block = StreamScaler(), own | StreamScaler()
    loop.learn_one(own(frame[:2]))
    loop.learn_one(own(frame[2:]))
    block.learn_many(frame, None, [0, 0, 1])
    assert state_of(block["StreamScaler"]) == state_of(loop)


def test_a_function_must_keep_the_documents():
    with pytest.raises(ValueError, match="function drop must return the documents"):
        QueryFunction(lambda query: query).clone({"func": drop}).transform_one([[1.0], [2.0]])
    with pytest.raises(ValueError, match="function turned must return the documents"):
        QueryFunction(turned).transform_one({"i": {"a": 1.0}, "j": {"a": 2.0}})
    with pytest.raises(TypeError, match="func is of type int"):
        QueryFunction(3)


def drop(query):
    return query[1:]


def turned(query):
    return dict(reversed(query.items()))


BAD = {
    "grade": (lambda X, y: (X, np.where(np.arange(len(y)) == 1, -1, y)), "grade of document 1 is -1"),
    "nan": (lambda X, y: (np.where(np.arange(X.size).reshape(X.shape) == 4, np.nan, X), y), "feature 1 of document 1 is nan"),
    "huge": (lambda X, y: (X * np.array([1.0, 1e200, 1.0]), y), "too large"),
    "count": (lambda X, y: (X, y[1:]), "grades, but x has"),
    "columns": (lambda X, y: (X[:, :2], y), r"has \d features, but"),
}


@every_pipeline
@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_rejected_queries_change_nothing(make, spoil, message):
    if message == "too large":
        message = "too large|not finite|non-finite|inf"
    pipeline = make()
    stream = [query for query in teacher_queries() if len(query[1]) > 3]
    for X, y in stream[:3]:
        pipeline.learn_one(X, y)
    if make is PIPELINES["chain"] and "large" in message:
        return  # The logarithm of 1e200 is not large.
    before = state_of(pipeline)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match=message):
        pipeline.learn_one(*spoil(*stream[3]))
    assert state_of(pipeline) == before
    if message != "grades, but x has" and "columns" not in message and "features" not in message:
        X, y, qid = as_block([stream[4], spoil(*stream[3]), stream[5]])
        with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match=r"x|y"):
            pipeline.learn_many(X, y, qid)
        assert state_of(pipeline) == before
    with pytest.raises(ValueError, match="w is"):
        pipeline.learn_one(*stream[3], w=-1.0)
    assert state_of(pipeline) == before


def test_a_failing_function_leaves_the_steps_before_it():
    def fail(query):
        raise RuntimeError("no")

    pipeline = StreamScaler() | fail | PerceptronRanker()
    before = state_of(pipeline)
    with pytest.raises(RuntimeError, match="no"):
        pipeline.learn_one([[1.0], [2.0]], [0, 1])
    assert state_of(pipeline) == before


@every_pipeline
def test_predictions_change_nothing(make):
    pipeline = make()
    for X, y in teacher_queries(5):
        pipeline.learn_one(X, y)
    before, (X, y) = state_of(pipeline), teacher_queries(1, seed=2)[0]
    kept = X.copy()
    pipeline.predict_one(X)
    pipeline.rank_one(X)
    pipeline.transform_one(X)
    pipeline.debug_one(X)
    pipeline.predict_many(X)
    assert state_of(pipeline) == before
    pipeline.learn_one(X, y)
    assert (kept == X).all()


def test_learn_during_predict():
    usual, early = StreamScaler() | PerceptronRanker(), StreamScaler() | PerceptronRanker()
    for X, y in teacher_queries():
        usual.learn_one(X, y)
        with compose.learn_during_predict():
            early.predict_one(X)
            early.learn_one(X, y)
    assert state_of(early) == state_of(usual)
    before = state_of(early)
    with compose.learn_during_predict(), pytest.raises(ValueError, match="nan"):
        early.predict_one(np.full((1, 3), np.nan))
    assert state_of(early) == before


def test_composition():
    ranker = PerceptronRanker()
    assert type(StreamScaler() | ranker) is RankingPipeline
    assert list((squares | ranker).steps) == ["squares", "PerceptronRanker"]
    assert list((("first", QueryNormalizer()) | StreamScaler() | QueryNormalizer() | ranker).steps) == [
        "first",
        "StreamScaler",
        "QueryNormalizer",
        "PerceptronRanker",
    ]
    assert list((QueryNormalizer() | (StreamScaler() | ranker)).steps) == [
        "QueryNormalizer",
        "StreamScaler",
        "PerceptronRanker",
    ]
    assert list(((QueryNormalizer() | StreamScaler()) | (QueryNormalizer() | ranker)).steps) == [
        "QueryNormalizer",
        "StreamScaler",
        "QueryNormalizer1",
        "PerceptronRanker",
    ]
    assert next(iter((compose.FuncTransformer(squares) | (StreamScaler() | ranker)).steps)) == "squares"
    pipeline = RankingPipeline(("scale", StreamScaler), ("rank", PerceptronRanker))
    assert isinstance(pipeline["scale"], StreamScaler)
    assert isinstance(pipeline, Ranker)
    pipeline = StreamScaler()
    pipeline |= QueryNormalizer()
    pipeline |= ranker
    assert isinstance(pipeline[-1], PerceptronRanker)
    assert len(pipeline) == 3


def test_a_pipeline_of_transformers_alone():
    pipeline = QueryNormalizer() | StreamScaler()
    scaler = StreamScaler()
    for X, _ in teacher_queries():
        pipeline.learn_one(X)
        scaler.learn_one(QueryNormalizer().transform_one(X))
    assert state_of(pipeline[-1]) == state_of(scaler)
    with pytest.raises(TypeError, match=r"QueryNormalizer \| StreamScaler does not end in a ranker"):
        pipeline.predict_one([[1.0]])


WRONG = {
    "river step, construction": lambda r: preprocessing.StandardScaler() | (StreamScaler() | r),
    "river step in the middle": lambda r: StreamScaler() | preprocessing.StandardScaler() | r,
    "union": lambda r: (preprocessing.StandardScaler() + preprocessing.MinMaxScaler()) | (StreamScaler() | r),
    "river pipeline": lambda r: RankingPipeline(compose.Select("a") | preprocessing.StandardScaler(), r),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_transformers_of_single_documents_are_distinguished(make):
    with pytest.raises(TypeError, match=r"gets? whole queries: wrap it, ForEachDocument\("):
        make(PerceptronRanker())


def test_a_pipeline_of_river_does_not_ask_its_ranker_and_fails_in_the_transformer():
    ranker = PerceptronRanker()
    for model in (preprocessing.StandardScaler() | ranker, compose.Pipeline(("s", preprocessing.StandardScaler()), ranker)):
        assert type(model) is compose.Pipeline
        with pytest.raises(AttributeError, match="'list' object has no attribute 'items'"):
            model.predict_one([{"a": 1.0}])
        with pytest.raises(AttributeError, match="'list' object has no attribute 'items'"):
            model.learn_one([{"a": 1.0}], [1])
    assert ranker.last_round is None


def test_steps_of_other_kinds():
    with pytest.raises(TypeError, match="StreamScaler cannot follow PerceptronRanker: a ranker is the last step"):
        PerceptronRanker() | StreamScaler()
    with pytest.raises(TypeError, match="cannot follow"):
        PerceptronRanker() | (StreamScaler() | PerceptronRanker())
    with pytest.raises(TypeError, match="neither a ranker nor a transformer"):
        StreamScaler() | linear_model.LogisticRegression()
    with pytest.raises(TypeError, match="neither a ranker nor a transformer"):
        StreamScaler() | 3


def test_plain_pipelines_of_query_steps_work():
    plain, own = compose.Pipeline(StreamScaler(), PerceptronRanker()), StreamScaler() | PerceptronRanker()
    for X, y in teacher_queries():
        plain.learn_one(X, y)
        own.learn_one(X, y)
    assert plain.predict_one(X) == own.predict_one(X)


@every_pipeline
def test_copies(make):
    pipeline = make()
    for X, y in teacher_queries(5):
        pipeline.learn_one(X, y)
    for twin in (pickle.loads(pickle.dumps(pipeline)), copy.deepcopy(pipeline)):
        assert type(twin) is RankingPipeline
        assert state_of(twin) == state_of(pipeline)
    clone = pipeline.clone({"PerceptronRanker": {"measure": "map"}})
    assert type(clone) is RankingPipeline
    assert list(clone.steps) == list(pipeline.steps)
    assert clone["PerceptronRanker"].measure == "map"
    assert clone.last_round is None
    assert state_of(pipeline.clone()) == state_of(make())


def test_repr_and_html():
    pipeline = squares | StreamScaler() | PerceptronRanker()
    assert repr(pipeline).startswith('RankingPipeline (\n  QueryFunction (\n    func="squares"\n  ),\n  StreamScaler (\n')
    html = pipeline._repr_html_()
    for part in ("StreamScaler", "PerceptronRanker", "squares"):
        assert part in html


def test_debug_one():
    pipeline = StreamScaler() | PerceptronRanker()
    pipeline.learn_one(np.array([[1.0, 0.0], [3.0, 0.0]]), [1, 0])
    text = pipeline.debug_one(np.array([[2.0, 5.0], [5.0, 5.0], [0.0, 5.0]]), n_decimals=1, n_shown=2)
    # Mean 2, deviation 1; the second feature was constant. Less of the first feature is better.
    assert text.splitlines()[:9] == [
        "0. Input", "--------", "0: 0=2.0 1=5.0", "1: 0=5.0 1=5.0", "... (1 more)", "",
        "1. StreamScaler", "---------------", "0: 0=0.0 1=0.0",
    ]  # fmt: skip
    assert [line[:2] for line in text.splitlines()[-3:]] == ["2:", "0:", ".."]


def test_progressive_validation():
    class MeanFirst(metrics.base.Metric):
        """Mean grade of the first-ranked document."""

        def __init__(self):
            self.n, self.total = 0, 0.0

        def update(self, y_true, y_pred, w=1.0):
            if len(y_true):
                self.n += 1
                self.total += float(y_true[int(np.argmax(y_pred))])

        def revert(self, y_true, y_pred, w=1.0):
            raise NotImplementedError

        def get(self):
            return self.total / max(self.n, 1)

        @property
        def bigger_is_better(self):
            return True

        def works_with(self, model):
            return isinstance(model, Ranker)

    stream = NoisyTeacher(300, n_features=5, n_documents=(2, 10), grade_shares=(0.5, 0.3, 0.2))
    metric = evaluate.progressive_val_score(stream, StreamScaler() | PerceptronRanker(), MeanFirst())
    assert metric.get() > 1.2


def test_a_block_in_pieces_is_the_loop_and_counts_its_faults_from_the_beginning(monkeypatch):
    rng = np.random.default_rng(4)
    X, y, qid = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    whole, pieces = StreamScaler() | PerceptronRanker(), StreamScaler() | PerceptronRanker()
    whole.learn_many(X, y, qid, w=np.linspace(0.5, 2.0, 12))
    monkeypatch.setattr("online_rank.base.pipeline._BYTES_AT_ONCE", 3 * 5 * 3 * 8)
    pieces.learn_many(X, y, qid, w=np.linspace(0.5, 2.0, 12))
    weights = pieces["PerceptronRanker"].weights
    assert (weights == whole["PerceptronRanker"].weights).all()
    assert (pieces["StreamScaler"].means == whole["StreamScaler"].means).all()
    for bad, value, message in (
        (X, np.nan, "document 52 is nan"),
        (y, -1, "the grade of document 52 is -1"),
        (X, 1e200, "the query of document 50 has features too large"),
    ):
        kept = bad[52].copy()
        bad[52] = value
        with pytest.raises(ValueError, match=message):
            pieces.learn_many(X, y, qid)
        bad[52] = kept
        assert (pieces["PerceptronRanker"].weights == weights).all()
        assert pieces["StreamScaler"].n_documents == 60
    X[52] = 1e200
    with pytest.raises(ValueError, match="the query of document 50 would make PerceptronRanker non-finite"):
        ((lambda x: np.abs(x)) | PerceptronRanker()).learn_many(X, y, qid)


@pytest.mark.parametrize(
    "make",
    [
        *PIPELINES.values(),
        lambda: StreamQuantileMap() | PerceptronRanker(),
        lambda: QueryNormalizer() | ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(),
        lambda: StreamScaler() | PointwiseRanker(linear_model.LinearRegression()),
        lambda: StreamScaler() | LossTracker(PerceptronRanker()),
        lambda: StreamScaler() | BlendRanker([PerceptronRanker(), PairwiseRanker(linear_model.LogisticRegression())]),
    ],
)
@settings(max_examples=8)
@given(at=st.integers(0, 20), kind=st.sampled_from(["nan", "grade", "weight"]), per_piece=st.integers(1, 6))
def test_a_block_in_pieces_with_a_fault_anywhere_changes_nothing(make, at, kind, per_piece):
    model, stream = make(), [query for query in teacher_queries() if len(query[1]) > 1]
    for X, y in stream[:3]:
        model.learn_one(X, y)
    X, y, qid = as_block(stream[3:])
    w = np.ones(len(stream) - 3)
    start = np.flatnonzero(np.diff(qid, prepend=-1))[at]
    before, answers = state_of(model), model.predict_many(X, qid)
    if kind == "grade":
        y[start + 1], message = -1, f"the grade of document {start + 1} is -1"
    elif kind == "weight":
        w[at], message = -2.0, "w is -2"
    else:
        X[start + 1, 1], message = np.nan, f"document {start + 1} is nan"
    size = mock.patch("online_rank.base.pipeline._BYTES_AT_ONCE", per_piece * X.nbytes // len(w))
    with size, pytest.raises(ValueError, match=message):
        model.learn_many(X, y, qid, w=w)
    assert state_of(model) == before
    assert model.predict_many(as_block(stream[3:])[0], qid).tobytes() == answers.tobytes()
