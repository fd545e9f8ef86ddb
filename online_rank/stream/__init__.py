"""Streams of queries: LETOR and svmlight text, tables, synthetic streams with known truth, simulated users."""

from online_rank.stream.columns import Column, TablePlan, plan_columns
from online_rank.stream.impressions import iter_impressions
from online_rank.stream.letor import LetorBlock, LetorError, LetorPosition, LetorWarning, iter_letor, read_letor, write_letor
from online_rank.stream.synth import Drifting, GradedGaussians, NoisyTeacher, Separable
from online_rank.stream.table_parts import TablePart, plan_tables
from online_rank.stream.table_rows import TableError
from online_rank.stream.tables import TableWarning, iter_table
from online_rank.stream.weblike import WebLike

__all__ = [
    "Column",
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
    "TablePlan",
    "TableWarning",
    "WebLike",
    "iter_impressions",
    "iter_letor",
    "iter_table",
    "plan_columns",
    "plan_tables",
    "read_letor",
    "write_letor",
]
