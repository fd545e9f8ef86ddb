"""Progressive evaluation: every query is a test first and a lesson afterwards."""

from online_rank.evaluate.repeat import Band, Repeated, Spread, repeat
from online_rank.evaluate.run import progressive
from online_rank.evaluate.trace import Comparison, Trace

__all__ = ["Band", "Comparison", "Repeated", "Spread", "Trace", "progressive", "repeat"]
