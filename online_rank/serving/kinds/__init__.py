"""Kinds of feedback: each is a module with its message, its checks, and what it gives to documents; and all kinds of requests.

Decoding, the roles of tokens, the description and the guide follow from the list here.
"""

from typing import Any

from online_rank.serving.kinds.clicks import Clicks
from online_rank.serving.kinds.events import Event
from online_rank.serving.kinds.grades import Grades
from online_rank.serving.messages import Command, Explain, Feedback, Message, Rank, Teach

#: The kinds of feedback on rankings.
KINDS: tuple[type[Feedback], ...] = (Grades, Clicks, Event)

_DOCS = {"a": {"clicks": 3}, "b": {"clicks": 1}}
#: An example of each kind of request, whose name is its type in small letters.
EXAMPLES: dict[type[Message] | type[Command], dict[str, Any]] = {
    Rank: {"id": "q1", "docs": _DOCS},
    Explain: {"id": "q1", "docs": _DOCS, "explain": ["a", "b"]},
    Teach: {"id": "q2", "docs": _DOCS, "grades": {"a": 0, "b": 2}},
    **{kind: kind.example for kind in KINDS},
    Command: {"cmd": "stats"},
}
