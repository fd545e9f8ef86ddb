"""Streams of queries: LETOR, svmlight and Vowpal Wabbit text, tables, synthetic streams with known truth, simulated users."""

from online_rank.stream.letor import LetorBlock, LetorError, LetorPosition, LetorWarning, iter_letor, read_letor, write_letor
from online_rank.stream.synth import Drifting, GradedGaussians, NoisyTeacher, Separable
from online_rank.stream.tables import TableError, TablePart, TableWarning, iter_table, plan_tables
from online_rank.stream.vw import iter_vw
from online_rank.stream.weblike import WebLike
from online_rank.stream.zipf import ZipfText

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
    "ZipfText",
    "iter_letor",
    "iter_table",
    "iter_vw",
    "plan_tables",
    "read_letor",
    "write_letor",
]
