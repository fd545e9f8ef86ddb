"""Measures by name: one table for what rankers learn for and what metrics measure."""

import pytest

from online_rank import measure
from online_rank._kernels.codes import PRECISION
from online_rank.measures import table
from online_rank.measures.learned import Measure
from online_rank.measures.table import MEASURES, listed, parsed
from online_rank.metrics import metric

FORMS = {"@K": "@7", ">=GRADE": ">=2", "@K>=GRADE": "@7>=2", "": ""}


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, one in MEASURES.items() for form in FORMS])
def test_every_name_is_taken_as_the_table_says(name, form):
    text = name + FORMS[form]
    if form in MEASURES[name].forms:
        made = metric(text)
        assert getattr(made, "k", None) == (7 if "@K" in form else None)
        assert made.threshold == (2 if "GRADE" in form else 1)
    else:
        with pytest.raises(ValueError, match=f"metric '{text}' is unknown; there are ndcg.@K., ap.@K..>=GRADE., "):
            metric(text)
    if form in MEASURES[name].learned:
        parts = measure(text)
        assert parts == Measure(MEASURES[name].kind, 7 if "@K" in form else 0, 2 if "GRADE" in form else 1)
        assert parts.name == text
    else:
        kind = "a metric only; rankers learn for" if form in MEASURES[name].forms else "unknown; there are"
        with pytest.raises(ValueError, match=f"measure '{text}' is {kind} ndcg.@K., ap.>=GRADE., linear_ndcg$"):
            measure(text)


def test_metric_of_a_name_computes_its_measure():
    # A wrong order: the relevant document stands second of two.
    expected = {"mrr": 1 / 2, "ap": 1 / 2, "p@1": 0.0, "recall@2": 1.0, "hit_rate@1": 0.0, "pairwise_accuracy": 0.0}
    for name, value in expected.items():
        made = metric(name)
        made.update([0, 1], [2.0, 1.0])
        assert made.get() == pytest.approx(value), name


def test_spellings():
    assert parsed("MAP@5") == parsed("ap@5") == ("ap", 5, None)
    assert parsed("HitRate@5>=2") == parsed("hit_rate@5>=2") == ("hit_rate", 5, 2)
    assert measure("LinearNDCG").name == "linear_ndcg"
    for text in ("", "ndcg@", "ndcg@0", "ndcg@05", "ap>=0", "p>=2@5", "_", "ndcg@10 "):
        with pytest.raises(ValueError, match="is unknown; there are"):
            parsed(text)
    with pytest.raises(TypeError, match="measure is 10; it is a name, such as 'ndcg@10'"):
        measure(10)


def test_a_name_may_have_digits(monkeypatch):
    monkeypatch.setitem(table.MEASURES, "f1", table.Named(PRECISION, ("@K",)))
    monkeypatch.setitem(table._SPELLED, "f1", "f1")
    assert parsed("F1@5") == ("f1", 5, None)
    with pytest.raises(ValueError, match="metric 'ndcg10' is unknown"):
        parsed("ndcg10")


def test_help_lists_the_names():
    assert listed(learned=True) == "ndcg[@K], ap[>=GRADE], linear_ndcg"
    assert {"mrr[@K][>=GRADE]", "p@K[>=GRADE]", "pairwise_accuracy"} <= set(listed().split(", "))
