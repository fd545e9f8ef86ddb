"""Grades of documents."""

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from online_rank.serving.messages import GIVEN_GRADES, Feedback, GradesOf, Ungraded
from online_rank.serving.plan import GRADE, FeedbackPlan


class Grades(Feedback, kw_only=True):
    """learns the query from grades"""

    example: ClassVar[dict[str, Any]] = {"id": "q1", "grades": {"a": 0, "b": 2}}

    grades: GradesOf
    ungraded: Ungraded | UnsetType = UNSET

    feedback = GIVEN_GRADES

    def given(self, plan: FeedbackPlan, draws: bool) -> tuple[str, dict[str, float]]:
        """The grades. Raises ValueError if the service learns from clicks."""
        if draws:
            raise ValueError("this service learns from clicks and events, not from grades")
        return GRADE, {**self.grades}
