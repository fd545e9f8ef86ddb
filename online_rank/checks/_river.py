"""River's checks on streams, given queries."""

from collections.abc import Callable
from typing import Any

from river import base

from online_rank.checks._subject import answer_of, as_dicts, make_queries

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


def on_queries(check: Callable, model: Any) -> None:
    """Run a check of river on queries as dicts of dicts."""
    if check.__name__ == "check_seeding_is_idempotent" and not model._is_stochastic:
        return
    check(model, [as_dicts(X, y) for X, y in make_queries()])


def on_features(check: Callable, model: Any) -> None:
    """Run a check of river on the features of queries."""
    queries = [as_dicts(X, y) for X, y in make_queries()]
    check(_TurnedOver(model), [(_turned_over(x), y) for x, y in queries])


class _TurnedOver(base.Estimator):
    """A model that takes queries as {feature: {document: value}}, so that river's checks of features act on its features."""

    def __init__(self, model: Any):
        self.model = model

    @property
    def _supervised(self) -> bool:
        return True

    def learn_one(self, x: dict, y: dict) -> None:
        self.model.learn_one(_turned_over(x), y)

    def predict_one(self, x: dict) -> Any:
        return answer_of(self.model, _turned_over(x))


def _turned_over(x: dict[Any, dict]) -> dict[Any, dict]:
    turned: dict[Any, dict] = {}
    for outer, inner in x.items():
        for key, value in inner.items():
            turned.setdefault(key, {})[outer] = value
    return turned
