"""River's checks on streams, given queries."""

import random

import pytest
from river import base
from river.checks import common

from online_rank.checks._subject import answer_of, as_dicts, make_queries
from tests.models import REGISTRY, parts_of, variants

#: Checks about features, which get transposed queries, {feature: {document: value}}.
RIVER_ON_FEATURES = (
    "check_shuffle_features_no_impact",
    "check_emerging_features",
    "check_disappearing_features",
    "check_radically_disappearing_features",
)

#: Checks that get ordinary queries, {document: {feature: value}}. Left out are checks that drop items of a dict, here
#: documents, but keep their grades, checks of mini-batches of single documents, and checks that compare pickles, which may
#: differ for equal models: torch writes addresses into them. `no_aliasing` and `clones` compare states.
RIVER_ON_QUERIES = (
    "check_learn_one",
    "check_pickling",
    "check_predict_one_pure",
    "check_predict_one_before_any_learn",
    "check_seeding_is_idempotent",
)


@pytest.mark.parametrize("name", variants(REGISTRY))
@pytest.mark.parametrize("check", [*RIVER_ON_QUERIES, *RIVER_ON_FEATURES])
def test_models_pass_rivers_checks_on_streams(name, check):
    model = REGISTRY[name]()
    skipped = {skip for part in parts_of(model) for skip in part._unit_test_skips()}
    if check in skipped or (check == "check_seeding_is_idempotent" and not model._is_stochastic):
        pytest.skip("the model declares that it may fail")
    random.seed(0)
    queries = [as_dicts(X, y) for X, y in make_queries()]
    if check in RIVER_ON_QUERIES:
        getattr(common, check)(model, queries)
    else:
        getattr(common, check)(_TurnedOver(model), [(_turned_over(x), y) for x, y in queries])


class _TurnedOver(base.Estimator):
    """A model that takes queries as {feature: {document: value}}, so that river's checks of features act on its features."""

    def __init__(self, model):
        self.model = model

    @property
    def _supervised(self):
        return True

    def learn_one(self, x, y):
        self.model.learn_one(_turned_over(x), y)

    def predict_one(self, x):
        return answer_of(self.model, _turned_over(x))


def _turned_over(x):
    turned = {}
    for outer, inner in x.items():
        for key, value in inner.items():
            turned.setdefault(key, {})[outer] = value
    return turned
