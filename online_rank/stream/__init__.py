"""Files of others as streams of queries; synthetic streams with known truth; simulated users."""

from online_rank.stream.clicked import read_clicks
from online_rank.stream.group import group_rows
from online_rank.stream.parts import Part, parts
from online_rank.stream.plan import Column, Plan
from online_rank.stream.reader import Documents, Queries, read
from online_rank.stream.source import ReadError, ReadWarning
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
