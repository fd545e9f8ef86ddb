import pytest

from online_rank import Impression, PositionBias

pytest.importorskip("matplotlib").use("Agg")

from matplotlib import pyplot  # noqa: E402

from online_rank import plot  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def test_position_bias_and_its_truth():
    bias = PositionBias(k=2)
    for clicked in ("a", "a", "b"):
        bias.update(Impression(("a", "b"), logits=(0.0, 0.0)).clicked([clicked]))
    ax = plot.position_bias(bias, truth=(1.0, 0.5))
    points, truth = ax.get_lines()[0], ax.get_lines()[-1]
    assert points.get_ydata() == pytest.approx([1.0, 0.75])
    assert truth.get_ydata().tolist() == [1.0, 0.5]
    assert [text.get_text() for text in ax.texts] == ["truth"]
