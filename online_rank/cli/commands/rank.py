"""`online-rank rank`."""

from typing import Annotated

from online_rank.cli.options import FILE, ModelFile, TrecRuns
from online_rank.cli.reading import ToRank, warned_on_stderr

__all__ = ["rank"]


def rank(model: ModelFile, reading: ToRank, file: Annotated[str | None, FILE] = None, runs: TrecRuns = None) -> None:
    """Rank the documents of every query and print TREC run lines: qid Q0 docid rank score online_rank."""
    from online_rank.cli.rank import rank as rank_file
    from online_rank.cli.rank import rank_runs
    from online_rank.cli.runs import one_of

    with warned_on_stderr():
        if one_of(file, runs):
            rank_file(model, file or "", reading)
        else:
            rank_runs(model, runs or [])
