"""A ranker is spread over few classes, and few methods are hooks for one class alone."""

import pytest

from benchmarks._classes import hooks, hooks_of_one, house_of, rankers
from online_rank import PerceptronRanker, Ranker

#: The most classes of the package that a ranker consists of, and the most hooks with a single overrider.
MOST_CLASSES, MOST_HOOKS = 4, 12
#: A click blend is a blend in all but what it learns from: the account, files, forms, and how features are read are the same.
MORE_CLASSES = {"ClickBlendRanker": 5}


@pytest.mark.parametrize(("name", "own"), rankers().items())
def test_a_ranker_consists_of_at_most_four_classes_of_ours(name, own):
    assert own[0] == name
    assert len(own) <= MORE_CLASSES.get(name, MOST_CLASSES), own


def test_classes_of_ours_are_defined_in_the_package():
    class Own(PerceptronRanker):
        pass

    assert house_of(Own) == house_of(PerceptronRanker)
    assert house_of(Ranker) == ["Ranker", "QueryStep"]


def test_few_methods_are_overridden_by_exactly_one_class():
    found = hooks_of_one()
    assert len(found) <= MOST_HOOKS, found


def test_a_hook_counts_once_for_the_class_that_defines_it_first():
    found = hooks()
    assert {"AdditiveRanker", "LinearRanker"} <= {*found["Ranker", "_grow"]}
    # `LinearRanker` defines it again, and `GradientRanker` overrides that.
    assert "GradientRanker" in found["Ranker", "_grow"]
    assert ("LinearRanker", "_grow") not in found
    assert not any(name.startswith("__") for _, name in found)
