import pytest

from online_rank import PerceptronRanker, plot


def test_bars_are_the_contributions_and_the_rest_is_one_bar():
    model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -1.0, "price": 0.5})
    why = model.explain_one({"a": {"clicks": 1, "age": 1, "price": 3}, "b": {"clicks": 2, "age": 5, "price": 1}}, "a", "b")
    ax = plot.explanation(why, n=2)  # age: -1 (1 - 5), clicks: 2 (1 - 2), price: 0.5 (3 - 1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age", "clicks", "1 others"]
    assert [bar.get_width() for bar in ax.patches] == [4.0, -2.0, 1.0]
    assert "+3" in ax.get_title(loc="left")


def test_equal_documents_have_nothing_to_draw():
    model = PerceptronRanker.from_weights({"clicks": 2.0})
    why = model.explain_one({"a": {"clicks": 1}, "b": {"clicks": 1}}, "a", "b")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.explanation(why)
