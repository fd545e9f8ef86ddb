"""Clicks on the documents of a list that was drawn."""

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from online_rank.serving.kinds.displayed import OfDisplayed
from online_rank.serving.messages import about
from online_rank.serving.plan import GRADE, FeedbackPlan

NOT_CLICKS = (
    "this service learns from grades: its ranker draws no rankings that clicks could be learned from. Start it with "
    "--examination or --from-today to learn from clicks"
)

_Positive = Annotated[float, Meta(ge=0)]
_Clicks = Annotated[list[str] | dict[str, _Positive], about("documents that were clicked, or `{document: engagement}`")]


class Clicks(OfDisplayed, kw_only=True):
    """learns the query from clicks on the documents that were shown; with none of them, nothing was clicked"""

    example: ClassVar[dict[str, Any]] = {"id": "q1", "clicks": ["a"]}
    is_clicks = True

    clicks: _Clicks

    @property
    def feedback(self) -> tuple[Any, None]:
        """The clicks."""
        return self.clicks, None

    def given(self, plan: FeedbackPlan, draws: bool) -> tuple[str, dict[str, float]]:
        """The engagement with documents, 1 for a click. Raises ValueError if the service learns from grades."""
        if not draws:
            raise ValueError(NOT_CLICKS)
        return GRADE, self.clicks if isinstance(self.clicks, dict) else dict.fromkeys(self.clicks, 1)
