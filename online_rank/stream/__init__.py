"""Streams of queries: LETOR and svmlight text, tables, synthetic streams with known truth."""

from online_rank.stream.letor import LetorBlock, LetorError, LetorPosition, LetorWarning, iter_letor, read_letor, write_letor
from online_rank.stream.synth import Drifting, GradedGaussians, NoisyTeacher, Separable
from online_rank.stream.tables import TableError, TablePart, TableWarning, iter_table, plan_tables
from online_rank.stream.weblike import WebLike

__all__ = [
    "Drifting",
    "GradedGaussians",
    "LetorBlock",
    "LetorError",
    "LetorPosition",
    "LetorWarning",
    "NoisyTeacher",
    "Separable",
    "TableError",
    "TablePart",
    "TableWarning",
    "WebLike",
    "iter_letor",
    "iter_table",
    "plan_tables",
    "read_letor",
    "write_letor",
]
