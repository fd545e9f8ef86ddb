"""Events of kinds that were declared with their values, which a window adds up."""

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from online_rank.query.grades import MAX_GRADE
from online_rank.serving.kinds.displayed import OfDisplayed
from online_rank.serving.messages import Grade, about
from online_rank.serving.plan import FeedbackPlan

_Event = Annotated[str, about("a kind of event that was declared (`--event`); needs a feedback window")]
_Doc = Annotated[str, about("the document that the event is about")]
_Value = Annotated[
    Grade | Annotated[float, Meta(ge=0, le=MAX_GRADE)] | None,
    about("what the event is worth, if not what its kind is; 0 takes it back"),
]


class Event(OfDisplayed, kw_only=True):
    """adds an event to the feedback of a query"""

    example: ClassVar[dict[str, Any]] = {"id": "q1", "event": "purchase", "doc": "b", "ts": 1763000000}

    event: _Event
    doc: _Doc
    value: _Value | UnsetType = UNSET

    @property
    def feedback(self) -> tuple[Any, None]:
        """Raises ValueError: events are not learned at once."""
        raise ValueError("events are added up over a window, and this service has none: start it with --feedback-window")

    def given(self, plan: FeedbackPlan, draws: bool) -> tuple[str, dict[str, float]]:
        """The value of the event. Raises ValueError for one that was not declared."""
        return self.event, {self.doc: plan.value_of(self.event, None if self.value is UNSET else self.value)}
