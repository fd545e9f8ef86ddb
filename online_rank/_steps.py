"""What can stand in a pipeline of queries, and what is said to somebody who puts something else there."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from river import base, compose

from online_rank._undo import begin

if TYPE_CHECKING:
    from online_rank.compose import RankingPipeline

__all__ = ["QueryStep", "check_calling_pipeline", "require_query_step"]


class QueryStep(base.Estimator):
    """What can stand in a `RankingPipeline`: a ranker, or a transformer of queries."""

    def __or__(self, other: Any) -> "RankingPipeline":
        """`self | other`: a pipeline in which `other` works on what this step gives."""
        from online_rank.compose import RankingPipeline

        return RankingPipeline(self, other)

    def __ror__(self, other: Any) -> "RankingPipeline":
        """`other | self`: a pipeline in which this step works on what `other` gives."""
        from online_rank.compose import RankingPipeline

        return RankingPipeline(other, self)

    def _begin(self) -> Callable[[], None]:
        """Make ready for a change that may fail; calling the answer undoes it (see `all_or_nothing`)."""
        return begin(self)


def require_query_step(step: Any) -> None:
    """Raise TypeError, with advice, unless `step` works on whole queries."""
    if isinstance(step, QueryStep | compose.FuncTransformer):
        return
    name = type(step).__name__
    if hasattr(step, "transform_one"):
        raise TypeError(
            f"{name} transforms one document, but the steps before a ranker get whole queries: "
            f"wrap it, ForEachDocument({name}(...)), from online_rank"
        )
    raise TypeError(
        f"{name} is neither a ranker nor a transformer of queries; PointwiseRanker({name}(...)) makes a ranker of a "
        "classifier or regressor, PairwiseRanker of a classifier"
        if isinstance(step, base.Estimator)
        else f"{step!r} is neither a ranker nor a transformer of queries"
    )


def check_calling_pipeline() -> None:
    """Raise TypeError, with advice, when the caller of the caller is a river pipeline with a step for single documents.

    `StandardScaler() | ranker` calls no method of the ranker: river's `|` builds a plain pipeline, which hands whole queries
    to a transformer of single documents. But river asks its steps for `_supervised` when such a pipeline is first used, and
    only then can the mistake be told apart from an error deep inside the transformer.
    """
    pipeline = sys._getframe(2).f_locals.get("self")
    if isinstance(pipeline, compose.Pipeline):
        for step in pipeline.steps.values():
            require_query_step(step)
