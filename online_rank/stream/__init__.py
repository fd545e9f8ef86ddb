"""Files of others as streams of queries; synthetic streams with known truth; simulated users."""

from typing import TYPE_CHECKING

from online_rank.stream.clicked import read_clicks
from online_rank.stream.group import group_rows
from online_rank.stream.parts import Part, parts
from online_rank.stream.plan import Column, Plan
from online_rank.stream.reader import Documents, Queries, read
from online_rank.stream.source import ReadError, ReadWarning
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.stream.synth import Drifting, NoisyTeacher, Separable
    from online_rank.stream.weblike import WebLike
    from online_rank.stream.write import write_letor

__all__ = [
    "Column",
    "Documents",
    "Drifting",
    "NoisyTeacher",
    "Part",
    "Plan",
    "Queries",
    "ReadError",
    "ReadWarning",
    "Separable",
    "WebLike",
    "group_rows",
    "parts",
    "read",
    "read_clicks",
    "write_letor",
]

# Streams of studies, which readers of files do not need.
_OF_STUDIES = dict.fromkeys(("Drifting", "NoisyTeacher", "Separable"), "synth") | {"WebLike": "weblike", "write_letor": "write"}

__getattr__, __dir__ = lazily(__name__, _OF_STUDIES)
