"""Streams of queries: LETOR and svmlight text, tables, synthetic streams with known truth, simulated users."""

from online_rank.stream.columns import Column, TablePlan, plan_columns
from online_rank.stream.impressions import iter_impressions
from online_rank.stream.letor import LetorError, LetorPosition, LetorWarning, iter_letor, read_letor, write_letor
from online_rank.stream.synth import Drifting, NoisyTeacher, Separable
from online_rank.stream.table_text import TableError
from online_rank.stream.tables import TableWarning, iter_table
from online_rank.stream.weblike import WebLike

__all__ = [
    "Column",
    "Drifting",
    "LetorError",
    "LetorPosition",
    "LetorWarning",
    "NoisyTeacher",
    "Separable",
    "TableError",
    "TablePlan",
    "TableWarning",
    "WebLike",
    "iter_impressions",
    "iter_letor",
    "iter_table",
    "plan_columns",
    "read_letor",
    "write_letor",
]
