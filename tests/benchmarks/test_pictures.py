import pytest
from matplotlib import pyplot

from benchmarks._pictures import position_bias, sensitivity, throughput
from online_rank import Impression, PositionBias


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def test_sensitivity_draws_means_and_spaces_wide_ranges_by_logarithm():
    ax = sensitivity("rate", [0.01, 1.0], {"several": [[1.0, 2.0], [3.0, 6.0]], "one": [1.0, 1.0]})
    assert ax.get_xscale() == "log"
    assert ax.lines[0].get_ydata().tolist() == [(1.0 + 2.0) / 2, (3.0 + 6.0) / 2]
    assert sensitivity("k", [1, 2], {"one": [1.0, 1.0]}).get_xscale() == "linear"


def test_throughput_has_the_fastest_on_top():
    ax = throughput({"peer": 10.0, "online_rank": 2000.0})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["online_rank", "peer"]
    assert [text.get_text() for text in ax.texts] == ["2,000", "10"]


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="1 entries, but there are 2"):
        sensitivity("k", [1, 2], {"a": [1.0]})


def test_position_bias_and_its_truth():
    bias = PositionBias(k=2)
    for clicked in ("a", "a", "b"):
        bias.update(Impression(("a", "b"), logits=(0.0, 0.0)).clicked([clicked]))
    ax = position_bias(bias, truth=(1.0, 0.5))
    points, truth = ax.get_lines()[0], ax.get_lines()[-1]
    assert points.get_ydata() == pytest.approx([1.0, 0.75])
    assert truth.get_ydata().tolist() == [1.0, 0.5]
    assert [text.get_text() for text in ax.texts] == ["truth"]
