"""Progressive evaluation: every query is a test first and a lesson afterwards."""

from online_rank.evaluate.run import progressive
from online_rank.evaluate.trace import Comparison, Trace

__all__ = ["Comparison", "Trace", "progressive"]
