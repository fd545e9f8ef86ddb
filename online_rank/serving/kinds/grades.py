"""Grades of documents."""

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from online_rank.serving.messages import Feedback, GradesOf, Ungraded
from online_rank.serving.plan import GRADE, FeedbackPlan


class Grades(Feedback, kw_only=True):
    """learns the query from grades"""

    example: ClassVar[dict[str, Any]] = {"id": "q1", "grades": {"a": 0, "b": 2}}

    grades: GradesOf
    ungraded: Ungraded | UnsetType = UNSET

    def feedback(self) -> tuple[dict[str, int], int | str | None]:
        """The grades, and what becomes of documents without a grade, if it says that."""
        return self.grades, None if self.ungraded is UNSET else self.ungraded

    def given(self, plan: FeedbackPlan, draws: bool) -> tuple[str, dict[str, float]]:
        """The grades. Raises ValueError if the service learns from clicks."""
        if draws:
            raise ValueError("this service learns from clicks and events, not from grades")
        return GRADE, {**self.grades}
