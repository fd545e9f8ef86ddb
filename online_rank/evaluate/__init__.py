"""Progressive evaluation: every query is a test first and a lesson afterwards."""

from typing import TYPE_CHECKING

from online_rank.evaluate.run import progressive
from online_rank.evaluate.trace import Comparison, Trace
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.evaluate.seeds import Band, Repeated, Spread, repeat

__all__ = ["Band", "Comparison", "Repeated", "Spread", "Trace", "progressive", "repeat"]

__getattr__, __dir__ = lazily(__name__, dict.fromkeys(("Band", "Repeated", "Spread", "repeat"), "seeds"))
