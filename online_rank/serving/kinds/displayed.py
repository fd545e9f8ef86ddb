"""What kinds of feedback have in common whose clients show a list: what they displayed, and who saw it."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from online_rank.serving.messages import Feedback, about

Displayed = Annotated[
    list[str],
    about("the documents in the order displayed, if the client changed the list; it is then left out of learning from swaps"),
]


class OfDisplayed(Feedback, kw_only=True):
    """Feedback on a list as a client displayed it."""

    displayed: Displayed | UnsetType = UNSET

    def as_displayed(self) -> list[str] | None:
        """The documents as the client displayed them, if it says so. Raises ValueError for what cannot be displayed."""
        if self.displayed is UNSET:
            return None
        if not self.displayed:
            raise ValueError("displayed is empty; there is feedback only on lists that were displayed")
        if len({*self.displayed}) < len(self.displayed):
            raise ValueError(f"displayed has document {max(self.displayed, key=self.displayed.count)[:100]!r} twice")
        return self.displayed
