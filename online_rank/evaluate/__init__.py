"""Progressive evaluation: every query is a test first and a lesson afterwards. Experiments: many models, streams and seeds."""

from typing import TYPE_CHECKING

from online_rank.evaluate.run import progressive
from online_rank.evaluate.trace import Comparison, Trace
from online_rank.support.lazy import lazily

if TYPE_CHECKING:
    from online_rank.evaluate.click_study import ClickStudy
    from online_rank.evaluate.episode import Run
    from online_rank.evaluate.experiment import Experiment
    from online_rank.evaluate.results import Band, Results, Spread
    from online_rank.evaluate.results_file import read_results
    from online_rank.evaluate.retrained import Retrained

#: What only experiments need, which belongs to the studies.
_STUDIES = {
    "Band": "results",
    "ClickStudy": "click_study",
    "Experiment": "experiment",
    "Results": "results",
    "Retrained": "retrained",
    "Run": "episode",
    "Spread": "results",
    "read_results": "results_file",
}

__all__ = [
    "Band",
    "ClickStudy",
    "Comparison",
    "Experiment",
    "Results",
    "Retrained",
    "Run",
    "Spread",
    "Trace",
    "progressive",
    "read_results",
]

__getattr__, __dir__ = lazily(__name__, _STUDIES)
