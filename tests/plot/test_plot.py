import subprocess
import sys

import numpy as np
import pytest
from matplotlib import pyplot

from online_rank import ClickBlendRanker, LossTracker, PerceptronRanker, StreamScaler, evaluate, plot
from online_rank.plot._style import spread_out
from online_rank.stream.synth import Separable

QUERY = [[1.0, 0.0], [0.0, 1.0]], [0, 1]


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.fixture
def tracker():
    stream = Separable(n_queries=60, n_features=4, n_documents=5, margin=0.3, seed=1)
    tracker = LossTracker(PerceptronRanker(), comparators={"teacher": stream.teacher, "nothing": np.zeros(4)})
    for X, y in stream:
        tracker.learn_one(X, y)
    return tracker


def test_progressive_draws_the_records_and_names_each_line():
    trace = evaluate.progressive([QUERY] * 20, PerceptronRanker(), ["ndcg", "mrr"])
    ax = plot.trace(trace, drifts=(5, 10))
    for line, name in zip(ax.lines, ("ndcg", "mrr"), strict=False):
        assert line.get_xdata().tolist() == trace.columns["query"].tolist()
        assert line.get_ydata().tolist() == trace.columns[name].tolist()
    assert texts(ax) == [f"mrr: {trace.values['mrr']:.3g}", f"ndcg: {trace.values['ndcg']:.3g}", "drift"]
    assert [line.get_xdata() for line in ax.lines[2:]] == [[5, 5], [10, 10]]


def test_progressive_compares_models_on_given_axes():
    traces = {name: evaluate.progressive([QUERY] * 9, PerceptronRanker(), "ndcg") for name in ("one", "two")}
    _, ax = pyplot.subplots()
    assert plot.trace(traces, ax=ax) is ax
    assert len(ax.lines) == 2
    assert {text.split(":")[0] for text in texts(ax)} == {"one", "two"}


def test_names_at_the_same_height_are_moved_apart():
    trace = evaluate.progressive([QUERY] * 9, PerceptronRanker(), "ndcg")
    ax = plot.trace(dict.fromkeys("abc", trace))
    heights = sorted(text.xyann[1] for text in ax.texts)
    assert sum(heights) == pytest.approx(0.0)
    assert min(np.diff(heights)) > 9.0


def test_loss_curve_records_less_and_less_often_and_ends_with_the_present():
    tracker = LossTracker(PerceptronRanker(), comparators={"u": [1.0, 0.0]})
    curve = plot.LossCurve(tracker)
    for _ in range(1500):
        tracker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
        curve()
    queries = curve.columns["queries"]
    assert queries[:100].tolist() == list(range(1, 101))
    assert len(queries) < 400
    assert queries[-1] == 1500
    assert curve.columns["loss"][-1] == tracker.totals.loss
    assert curve.columns["mass_bound"][-1] == tracker.certificate().bound("mass_bound")
    assert len(plot.LossCurve(tracker).columns["queries"]) == 1


def test_loss_draws_the_smallest_bounds_above_the_loss(tracker):
    ax = plot.loss(plot.LossCurve(tracker, comparator="teacher"))
    ends = {line.get_label(): line.get_ydata()[-1] for line in ax.lines}
    certificate = tracker.certificate("teacher")
    smallest = sorted(certificate.bounds, key=lambda check: check.value)[:2]
    assert ends == {
        "loss": certificate.loss,
        "F(u), of the comparator": certificate.pair_loss,
        **{check.statement: check.value for check in smallest},
    }


def test_loss_of_a_trace_alone():
    trace = evaluate.progressive([QUERY] * 20, PerceptronRanker(), "ndcg")
    (line,) = plot.loss(trace).lines
    assert line.get_ydata().tolist() == trace.columns["loss"].tolist()


def test_certificate_has_a_row_for_each_bound(tracker):
    certificate = tracker.certificate("teacher")
    ax = plot.certificate(certificate)
    assert [label.get_text() for label in ax.get_yticklabels()] == [b.statement for b in certificate.bounds]
    assert [line.get_xdata()[1] for line in ax.lines[:-1]] == [b.value for b in certificate.bounds]
    assert ax.lines[-1].get_xdata() == [certificate.loss] * 2


def test_weights_of_a_tracker_behind_a_scaler_largest_first():
    model = StreamScaler() | LossTracker(PerceptronRanker())
    for _ in range(3):
        model.learn_one({"a": {"clicks": 3.0, "age": 1.0, "same": 1.0}, "b": {"clicks": 1.0, "age": 1.2, "same": 1.0}}, [0, 2])
    ranker = model["LossTracker"].learner
    by_name = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
    ax = plot.weights(model, n=2)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == sorted(by_name, key=lambda name: -abs(by_name[name]))[:2]
    assert [bar.get_width() for bar in ax.patches] == [by_name[name] for name in names]


def test_weights_of_features_without_names():
    model = PerceptronRanker()
    model.learn_one([[1.0, 0.0], [0.0, 2.0]], [0, 1])
    assert [label.get_text() for label in plot.weights(model).get_yticklabels()] == ["feature 1", "feature 0"]
    named = plot.weights(model, names=["bm25", "clicks"])
    assert [label.get_text() for label in named.get_yticklabels()] == ["clicks", "bm25"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: plot.trace(evaluate.Trace()), ValueError, "no query"),
        (
            lambda t: plot.trace(evaluate.progressive([QUERY], PerceptronRanker(), "ndcg"), metrics=["map"]),
            KeyError,
            "'ndcg'",
        ),
        (lambda t: plot.LossCurve(t.learner), TypeError, "LossTracker"),
        (
            lambda t: plot.loss(plot.LossCurve(LossTracker(PerceptronRanker(), {"u": [1.0]}))),
            ValueError,
            "no query was learned",
        ),
        (lambda t: plot.loss(evaluate.Trace()), ValueError, "no query was learned"),
        (lambda t: plot.loss(plot.LossCurve(t, comparator="teacher"), bounds=["theorem_5"]), KeyError, "mass_bound"),
        (lambda t: plot.weights(PerceptronRanker()), ValueError, "learned from no query"),
        (lambda t: plot.weights(StreamScaler()), TypeError, "PerceptronRanker"),
        (lambda t: plot.weights(t, names=["a"]), ValueError, "names has 1 entries, but the model has 4"),
    ],
)
def test_what_cannot_be_drawn(tracker, call, error, message):
    with pytest.raises(error, match=message):
        call(tracker)


@pytest.mark.slow
def test_without_matplotlib_it_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from online_rank import PerceptronRanker, plot\n"
        "try: plot.weights(PerceptronRanker.from_weights([1.0]))\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "online_rank[plot]"' in done.stdout


@pytest.mark.slow
def test_nothing_is_imported_before_the_first_picture():
    code = "import sys; from online_rank import plot; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_labels_are_spread_out_as_little_as_possible():
    # Two that overlap move apart by as much each; the third has room.
    assert spread_out([10.0, 12.0, 100.0], gap=6.0, bottom=0.0) == pytest.approx([8.0, 14.0, 100.0])
    # Pushed up, the third pulls along: means of 10, 12 - 6, 13 - 12.
    assert spread_out([10.0, 12.0, 13.0], gap=6.0, bottom=0.0) == pytest.approx([17 / 3, 17 / 3 + 6, 17 / 3 + 12])
    assert spread_out([10.0, 12.0], gap=6.0, bottom=9.0) == pytest.approx([9.0, 15.0])
    assert spread_out([], gap=6.0, bottom=9.0) == []


def taught(model, n=20):
    rng = np.random.default_rng(0)
    for _ in range(n):
        X = rng.normal(size=(30, 4))
        model.learn_one(X, (X[:, 1] > 0.5).astype(int))
    return model


def test_importance():
    for model in (taught(ClickBlendRanker()), taught(StreamScaler() | ClickBlendRanker())):
        ax = plot.importance(model, n=2)
        names = [label.get_text() for label in ax.get_yticklabels()]
        assert "2" in names
        assert len(names) == 2
    with pytest.raises(ValueError, match="no tree has split"):
        plot.importance(ClickBlendRanker())
    with pytest.raises(TypeError, match="PerceptronRanker has no importance"):
        plot.importance(PerceptronRanker())


@pytest.mark.parametrize("name", [r"$\frac{$", "$x_1$", "a$b$c"])
def test_names_are_drawn_as_they_are_and_never_read_as_formulas(name):
    model = PerceptronRanker.from_weights({name: 1.0, "y": -1.0})
    ax = plot.weights(model)
    ax.figure.canvas.draw()
    assert name in [label.get_text() for label in ax.get_yticklabels()]
    explanation = model.explain_one({name: {name: 1.0}, "b": {"y": 1.0}}, name, "b")
    plot.explanation(explanation).figure.canvas.draw()
