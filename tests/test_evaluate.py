import json

import numpy as np
import pytest
from river import metrics as river_metrics
from river import utils

from online_rank import (
    AdditiveRanker,
    CheckpointError,
    GradientRanker,
    PerceptronRanker,
    PlackettLuce,
    RidgeRanker,
    StreamScaler,
    SwapRanker,
)
from online_rank.base.schema import declared_state
from online_rank.evaluate import Trace, progressive
from online_rank.intervals import LossInterval
from online_rank.measures.learned import measure
from online_rank.metrics import NDCG
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream.synth import NoisyTeacher


def queries(n=30, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(5, 3)), rng.integers(0, 3, 5)) for _ in range(n)]


class Log:
    """A ranker, as far as an evaluation needs one, that writes down what it is asked for."""

    def __init__(self):
        self.calls = []

    def predict_one(self, x):
        self.calls.append(("predict", x))
        return [0.0, 1.0]

    def learn_one(self, x, y, **arguments):
        self.calls.append(("learn", x, y, arguments))


def test_every_query_is_ranked_before_it_is_learned_and_arguments_reach_the_model():
    model = Log()
    trace = progressive([("a", [0, 1]), ("b", [1, 0], {"w": 2.0})], model, [])
    assert model.calls == [("predict", "a"), ("learn", "a", [0, 1], {}), ("predict", "b"), ("learn", "b", [1, 0], {"w": 2.0})]
    assert (trace.n_queries, trace.n_documents, trace.loss) == (2, 4, 0.0)


def test_figures_equal_the_loop_by_hand():
    trace = progressive(queries(), PerceptronRanker(), {"top": "ndcg@2", "all": NDCG(k=None)}, every=10)
    model, top, all_, loss, mistakes, skipped = PerceptronRanker(), NDCG(k=2), NDCG(k=None), 0.0, 0, 0
    for X, y in queries():
        scores = model.predict_one(X)
        top.update(y, scores)
        all_.update(y, scores)
        model.learn_one(X, y)
        loss += model.last_round.loss
        mistakes += model.last_round.mass > 0
        skipped += model.last_round.skipped
    assert trace.values == {"top": top.get(), "all": all_.get()}
    assert (trace.loss, trace.mistakes, trace.skipped) == (loss, mistakes, skipped)
    assert trace.columns["query"].tolist() == [10, 20, 30]
    assert trace.columns["loss"][-1] == loss
    assert 0 < trace.columns["loss"][0] < loss
    assert trace.to_dict()["metrics"] == trace.values


@pytest.mark.parametrize("model", [GradientRanker, SwapRanker])
def test_updates_without_mass_are_counted(model):
    at_once = progressive(queries(), model(), [])
    in_turn = progressive(((X, y, {"w": 1.0}) for X, y in queries()), model(), [])
    ranker, changed = model(), 0
    for X, y in queries():
        before = ranker.weights
        ranker.learn_one(X, y)
        changed += not np.array_equal(before, ranker.weights) and len(before) > 0
    # The first query had no weights to compare.
    assert at_once.mistakes == in_turn.mistakes == changed + 1


def test_weights_count_in_the_cumulative_loss():
    X, y = np.array([[1.0], [0.0]]), [0, 1]
    once = progressive([(X, y)], PerceptronRanker("ndcg"), [])
    double = progressive([(X, y, {"w": 2.0})], PerceptronRanker("ndcg"), [])
    assert once.loss == pytest.approx(1 - 1 / np.log2(3))
    assert double.loss == 2 * once.loss


def test_metrics_by_name_by_object_and_rolling():
    rolling = utils.Rolling(NDCG, window_size=2, k=10)
    trace = progressive(queries(), PerceptronRanker(), ["ndcg@5", NDCG(k=3), "map"])
    assert list(trace.values) == ["ndcg@5", "NDCG@3", "map"]
    trace = progressive(queries(), PerceptronRanker(), {"recent": rolling})
    assert trace.values["recent"] == rolling.get()


@pytest.mark.parametrize(
    ("metrics", "error"),
    [
        ("no_such", ValueError),
        (["ndcg", "ndcg"], ValueError),
        ({"loss": "ndcg"}, ValueError),
        ([3], TypeError),
        (river_metrics.MAE, TypeError),
    ],
)
def test_bad_metrics_are_refused_before_anything_is_read(metrics, error):
    stream = iter(queries())
    with pytest.raises(error, match="metric"):
        progressive(stream, PerceptronRanker(), metrics)
    assert len(list(stream)) == 30


@pytest.mark.parametrize(("value", "message"), [(np.nan, "nan"), ([[1e300], [-1e300], [0], [0], [0]], "non-finite")])
def test_a_bad_query_leaves_model_and_metrics_as_the_queries_before_it_made_them(value, message):
    ndcg, model = NDCG(), PerceptronRanker()
    with pytest.raises(ValueError, match=message):
        progressive([*queries(4), (np.full((5, 3), 1.0) * value, [0, 1, 2, 0, 1])], model, ndcg)
    expected, untouched = NDCG(), PerceptronRanker()
    progressive(queries(4), untouched, expected)
    assert to_bytes([model, ndcg]) == to_bytes([untouched, expected])


@pytest.mark.parametrize(
    "make",
    [
        lambda: utils.Rolling(NDCG, window_size=2),
        lambda: utils.Rolling(NDCG, window_size=100),
        lambda: NDCG(k=5) + NDCG(k=1),
        lambda: utils.Rolling(Collected, window_size=2),
    ],
    ids=["full window", "open window", "sum", "of others"],
)
@pytest.mark.parametrize("grades", [[0, 1, 2, 0, 1], [0, 1, 2, 0, -1]], ids=["of the model", "of the metric"])
def test_a_bad_query_leaves_a_window_of_queries_as_it_was(make, grades):
    metric, expected = make(), make()
    parts = list(metric) if isinstance(metric, river_metrics.base.Metrics) else [metric.obj]
    with pytest.raises(ValueError, match=r"nan|-1"):
        progressive([*queries(4), (np.full((5, 3), np.nan), grades)], Careless(), {"m": metric})
    progressive(queries(4), Careless(), {"m": expected})
    assert metric.get() == expected.get()
    assert parts[0] is (metric[0] if len(parts) == 2 else metric.obj)
    # What comes after is what it would have been: what left the window is there again.
    progressive(queries(5, seed=1), Careless(), {"m": metric})
    progressive(queries(5, seed=1), Careless(), {"m": expected})
    assert metric.get() == expected.get()


class Collected(river_metrics.base.Metric):
    """A metric of somebody else: a list that changes in place."""

    def __init__(self):
        self.losses = []

    def update(self, y_true, y_pred, w=1.0):
        self.losses.append(y_pred[0])
        if min(y_true) < 0:
            raise ValueError("-1")

    def revert(self, y_true, y_pred, w=1.0):
        self.losses.remove(y_pred[0])

    def get(self):
        return sum(self.losses)

    bigger_is_better = requires_labels = True

    def works_with(self, model):
        return True


class Careless(PerceptronRanker):
    """A ranker that answers without checking its input."""

    def predict_one(self, x):
        return super().predict_one(np.nan_to_num(x))


def test_the_interval_covers_what_was_served():
    rng = np.random.default_rng(3)
    stream = [(rng.normal(size=(5, 3)), rng.integers(0, 2, 5)) for _ in range(60)]
    stream[7] = (stream[7][0], np.ones(5, dtype=int))
    twin, expected = StreamScaler() | PerceptronRanker("ap"), LossInterval()
    for X, y in stream:
        if 0 < y.sum() < 5:
            expected.update(measure("ap").loss(twin.predict_one(X), y, ties="pessimistic"))
        twin.learn_one(X, y)
    trace = progressive(stream, StreamScaler() | PerceptronRanker("ap"), "ndcg", every=10)
    assert trace.served.sums.tolist() == pytest.approx(expected.sums.tolist(), abs=1e-12)
    assert trace.served_interval(0.9) == expected.interval(0.9)
    assert len(trace.served_intervals()) == 6
    assert trace.served_intervals()[-1] == trace.served_interval()
    assert "to" in repr(trace)
    assert trace.to_dict()["served"]["n"] == expected.n <= 59
    assert progressive([], PerceptronRanker()).to_dict()["served"] is None


def test_records_stay_few_on_a_long_stream_and_end_with_the_present():
    trace = Trace()
    for t in range(100_001):
        trace._add(1, None, {"m": float(t)})
    columns = trace.columns
    assert 512 <= len(columns["query"]) <= 1025
    assert columns["query"][-1] == 100_001
    steps = np.diff(columns["query"][:-1])
    assert (steps == steps[0]).all()
    assert (columns["m"] == columns["query"] - 1).all()


def test_an_empty_stream():
    trace = progressive([], PerceptronRanker(), "ndcg")
    assert trace.n_queries == 0
    assert all(len(column) == 0 for column in trace.columns.values())
    assert "queries" in repr(trace)


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "10"])
def test_bad_every(every):
    with pytest.raises((TypeError, ValueError), match="every"):
        progressive([], PerceptronRanker(), every=every)


def test_the_table_is_aligned():
    lines = repr(progressive(queries(), PerceptronRanker(), ["ndcg@10"])).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split() == ["queries", "30"]


def test_a_trace_is_saved_with_everything():
    trace = progressive(queries(), PerceptronRanker(), every=7)
    again = from_bytes(to_bytes(trace))
    assert repr(again) == repr(trace)
    assert all((again.columns[name] == column).all() for name, column in trace.columns.items())


def test_a_progress_bar_that_is_asked_for(capsys):
    progressive(queries(3), PerceptronRanker())
    assert capsys.readouterr() == ("", "")
    progressive(queries(3), PerceptronRanker(), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3 queries" in err
    assert "ndcg@10" in err


def test_watch_sees_every_query():
    seen = []
    progressive(queries(5), PerceptronRanker(), watch=lambda trace: seen.append(trace.n_queries))
    assert seen == [1, 2, 3, 4, 5]


def test_several_models_on_one_stream():
    queries = list(NoisyTeacher(150, n_features=5, n_documents=8, seed=3))
    models = {"ridge": RidgeRanker(), "perceptron": PerceptronRanker()}
    run = progressive(queries, models, ["ndcg@10", "map"])
    for name, make in (("ridge", RidgeRanker), ("perceptron", PerceptronRanker)):
        alone = progressive(queries, make(), ["ndcg@10", "map"])
        assert run.traces[name].values == alone.values
        assert run.traces[name].served.sums.tolist() == alone.served.sums.tolist()
    means = [run.traces[name].served.mean for name in models]
    assert run.difference("ridge", "perceptron").mean == pytest.approx(means[1] - means[0])
    assert run.paired.n == run.traces["ridge"].served.n
    assert "not on queries to come" in repr(run)
    json.dumps(run.to_dict())
    with pytest.raises(ValueError, match="checkpoint= supports a single model"):
        progressive(queries, models, checkpoint="x")
    with pytest.raises(ValueError, match=r"learn for ap and ndcg@10"):
        progressive(queries, {"a": PerceptronRanker("ap"), "b": PerceptronRanker()})


def test_an_evaluation_that_began_with_an_earlier_version_continues_as_it_began(tmp_path):
    queries = list(NoisyTeacher(60, n_features=5, n_documents=8, seed=3))
    whole, now = AdditiveRanker(trees=0), AdditiveRanker()
    progressive(queries, whole)
    progressive(queries[:40], AdditiveRanker(trees=0), checkpoint=tmp_path)
    with pytest.warns(UserWarning, match=f"^{tmp_path}: AdditiveRanker keeps trees=0, with which it began"):
        progressive(queries, now, checkpoint=tmp_path)
    assert to_bytes(now) == to_bytes(whole)
    with pytest.raises(CheckpointError, match="its model has other parameters"):
        progressive(queries, AdditiveRanker(trees=3), checkpoint=tmp_path)


def test_a_query_that_one_of_several_models_rejects_is_learned_by_none():
    class Fussy(PerceptronRanker):
        def learn_one(self, x, y, w=1.0, *, served=None):
            raise ValueError("not this one")

    models = {"good": PerceptronRanker(), "fussy": Fussy()}
    with pytest.raises(ValueError, match="not this one"):
        progressive([(np.eye(2), [0, 1])], models)
    assert models["good"].last_round is None


def one_by_one(queries):
    """The same queries from an iterator, of which nothing is read ahead."""
    yield from queries


@pytest.mark.parametrize("every", [None, 7])
def test_queries_that_are_read_ahead_leave_the_same_behind(every):
    # More than twice as many as there are records; some without a lesson, and one of another kind.
    teacher = enumerate(NoisyTeacher(2100, n_features=4, n_documents=6))
    queries = [(X[: 6 - t % 3], y[: 6 - t % 3] * (t % 5 > 0)) for t, (X, y) in teacher]
    queries[700] = (queries[699][0].tolist(), queries[699][1].tolist())
    traces, models = [], []
    for stream in (one_by_one(queries), queries):
        models.append(StreamScaler() | PerceptronRanker())
        traces.append(progressive(stream, models[-1], ["ndcg@10", "ap"], every=every))
        traces[-1].elapsed = 0.0
    assert to_bytes(models[0]) == to_bytes(models[1])
    assert to_bytes(traces[0]) == to_bytes(traces[1])
    assert traces[0].skipped > 400


@pytest.mark.parametrize("place", [17, 100, 271])
def test_queries_before_a_bad_one_are_learned_however_far_is_read_ahead(place):
    queries = list(NoisyTeacher(300, n_features=4, n_documents=6))
    queries[place] = (np.full((6, 4), np.nan), queries[place][1])
    model, expected = PerceptronRanker(), PerceptronRanker()
    for X, y in queries[:place]:
        expected.learn_one(X, y)
    with pytest.raises(ValueError, match="nan"):
        progressive(queries, model)
    assert to_bytes(model) == to_bytes(expected)


class Breaking(list):
    """A list that ends in an error."""

    def __iter__(self):
        yield from super().__iter__()
        raise OSError("the disk is gone")


def test_queries_before_an_error_of_the_stream_are_learned():
    queries = list(NoisyTeacher(60, n_features=4, n_documents=6))
    model, expected, ndcg = PerceptronRanker(), PerceptronRanker(), NDCG(k=10)
    for X, y in queries:
        expected.learn_one(X, y)
    with pytest.raises(OSError, match="the disk is gone"):
        progressive(Breaking(queries), model, ndcg)
    assert to_bytes(model) == to_bytes(expected)
    assert ndcg.n_queries + ndcg.n_skipped == 60


def test_an_iterator_is_read_one_by_one():
    model = PerceptronRanker()
    learned = []

    def stream():
        for query in NoisyTeacher(40, n_features=4, n_documents=6):
            learned.append(0.0 if model.last_round is None else float(declared_state(model).counters[2]))
            yield query

    progressive(stream(), model)
    assert all(np.diff(learned) >= 0.0)
    assert learned[-1] > learned[-3]


def test_clicks_are_learned_and_give_no_loss():
    """A `Feedback` is a tuple with `_fields`, which were taken for the fields of a batch."""
    rng, drawn = np.random.default_rng(0), SwapRanker(policy=PlackettLuce(seed=1))
    lists = [rng.normal(size=(5, 3)) for _ in range(6)]
    stream = [(X, drawn.show_one(X).clicked([int(rng.integers(5))])) for X in lists]
    one, two = SwapRanker(), SwapRanker()
    trace = progressive(stream, one)
    for X, clicks in stream:
        two.learn_one(X, clicks)
    assert one.weights.tolist() == two.weights.tolist() != [0.0, 0.0, 0.0]
    assert trace.n_queries == 6
    assert trace.values == {}
