"""The changes made by requests, as recorded in the journal, and their answers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from online_rank.feedback import Clicks

#: File name of the model that was replaced last, in the folder of a service.
PREVIOUS = "previous.npz"
#: File name of the features that later ones are compared with, there too.
REFERENCE = "features.json"


class UnknownQuery(ValueError):
    """No query waits under the id that feedback names."""


class Outcome(NamedTuple):
    """The change made by a request, complete enough to repeat it without drawing or refusing anything.

    Attributes
    ----------
    fields
        The kind of change: `("rank", draws so far or None, numbers of the queries crowded out, rankings that two models might
        have drafted, share of the DCG that the draw keeps or None, time if it is not that of the query or None)`. With a
        budget it has the lists drafted so far, too, and what they may have cost. Others are
        `("learn", id, number of its query, time or None, day of the evidence)`, `("teach", id, time or None, day)`,
        `("feedback", time)` with a second time if it is ahead of the clock, `("close", id)` at the end of a window,
        `("drop", id)` if the feedback cannot be learned, `("late", time or None)`, `("time", time)`, `("promote", time, why)`,
        `("replace", time, why)` for a model from a file, `("line", whether it is of the same line, time, why)` for one that is
        compared with the ranking of today, or `("duplicate",)`.
    number
        The number of the query that waits from then on, or None.
    waiting
        That query: its id, its size, its time, the request, the scores, the draw.
    feedback
        The request with the feedback that was learned; the file of a model that replaced another one.
    gone
        The numbers of the queries that no longer wait.
    digest
        A digest of the feedback that was learned at once; 0 for a window.
    """

    fields: tuple[Any, ...]
    number: int | None = None
    waiting: tuple[Any, ...] = ()
    feedback: bytes = b""
    gone: tuple[int, ...] = ()
    digest: int = 0


class Reply(NamedTuple):
    """The result of a request.

    Attributes
    ----------
    answer
        The answer, for JSON.
    outcome
        The change, which a journal must record; None if nothing changed.
    learned
        Whether the answer acknowledges feedback, now or before, and so must wait until the journal is on the disk.
    command
        The command that the caller must carry out, or None.
    feedback
        The learned feedback, for monitoring: clicks, or the grades by document.
    served
        The scores with which the graded documents were ranked.
    loss
        The loss of that ranking; None without grades, or if there was nothing to rank.
    closed
        Replies for what happened at the same time: queries learned because their windows have ended, a promotion.
    docs
        The documents of a query that was ranked and waits, with their features, to watch them; None for no such query.
    is_refused
        Whether the request is of a kind that was not allowed.
    missing
        The declared inputs that a query lacks.
    is_unknown
        Whether it is feedback on a query that is not known.
    promoted
        How the challenger compared with the model whose place it takes; empty if none was promoted.
    """

    answer: dict[str, Any]
    outcome: Outcome | None = None
    learned: bool = False
    command: str | None = None
    feedback: Clicks | dict[str, Any] | None = None
    served: dict[str, float] | None = None
    loss: float | None = None
    closed: Sequence[Any] = ()  # of `Reply`; API pages cannot resolve a class that refers to itself
    promoted: str = ""
    docs: Any = None
    is_refused: bool = False
    is_unknown: bool = False
    missing: tuple[str, ...] = ()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that the journal must record, in order."""
        if self.outcome is None:
            return ()
        return (self.outcome, *(reply.outcome for reply in self.closed if reply.outcome is not None))

    @property
    def changed(self) -> bool:
        """Whether the request changed the state of the service."""
        return self.outcome is not None
