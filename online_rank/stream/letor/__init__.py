"""LETOR / svmlight text, ``grade qid:id feature:value ... # docid = X``: as a stream or at once."""

from online_rank.stream.letor.lines import LetorError
from online_rank.stream.letor.plan import LetorPart, plan
from online_rank.stream.letor.queries import LetorBlock, LetorIterator, iter_letor, read_letor
from online_rank.stream.letor.rows import LetorPosition, LetorWarning
from online_rank.stream.letor.source import FileRange
from online_rank.stream.letor.write import write_letor

__all__ = [
    "FileRange",
    "LetorBlock",
    "LetorError",
    "LetorIterator",
    "LetorPart",
    "LetorPosition",
    "LetorWarning",
    "iter_letor",
    "plan",
    "read_letor",
    "write_letor",
]
