"""What a request changed, as a journal holds it, and what it is answered."""

from typing import Any, NamedTuple

from online_rank.feedback import Clicks

__all__ = ["Outcome", "Reply"]


class Outcome(NamedTuple):
    """What a request changed: all that changing it again needs. Doing so draws nothing, and refuses nothing.

    Attributes
    ----------
    fields
        What happened, for JSON: `("rank", draws so far or None, numbers of the queries crowded out)`, `("learn", id, number of
        its query)`, `("teach", id)`, `("feedback", time)`, `("close", id)` at the end of a window, `("drop", id)` where what
        was given cannot be learned, `("late", time)`, `("time", time)` or `("duplicate",)`.
    number
        The number of the query that waits from then on; None where none does.
    waiting
        That query: its id, what it takes, its time, the request, the scores, the draw.
    feedback
        The request that was learned from.
    gone
        The numbers of the queries that wait no longer.
    """

    fields: tuple[Any, ...]
    number: int | None = None
    waiting: tuple[Any, ...] = ()
    feedback: bytes = b""
    gone: tuple[int, ...] = ()


class Reply(NamedTuple):
    """What a request led to.

    Attributes
    ----------
    answer
        The answer, for JSON.
    outcome
        What the request changed, which a journal must hold; None where it changed nothing.
    learned
        Whether the answer says that feedback was learned or accepted, now or before, and so must wait until the journal is on
        the disk.
    command
        The command that whoever runs the service has to carry out, or None.
    feedback
        What was learned, for those who watch: clicks, or the grades by document.
    served
        The scores with which the documents were ranked that now got grades.
    loss
        Of that ranking; None without grades, and where there was nothing to order.
    closed
        What was learned besides, of queries whose windows have ended.
    """

    answer: dict[str, Any]
    outcome: Outcome | None = None
    learned: bool = False
    command: str | None = None
    feedback: Clicks | dict[str, Any] | None = None
    served: dict[str, float] | None = None
    loss: float | None = None
    closed: "tuple[Reply, ...]" = ()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the journal must hold, in order."""
        if self.outcome is None:
            return ()
        return (self.outcome, *(reply.outcome for reply in self.closed if reply.outcome is not None))

    @property
    def changed(self) -> bool:
        """Whether the request changed the state of the service."""
        return self.outcome is not None
