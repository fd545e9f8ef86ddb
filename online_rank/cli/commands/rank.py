"""`online-rank rank`."""

from typing import Annotated

from online_rank.cli.options import FILE, ModelFile, TrecRuns
from online_rank.cli.reading import ToRank, warned_on_stderr


def rank(model: ModelFile, reading: ToRank, file: Annotated[str | None, FILE] = None, runs: TrecRuns = None) -> None:
    """Rank the documents of every query and print TREC run lines: qid Q0 docid rank score online_rank."""
    from online_rank.cli.rank import rank as run
    from online_rank.cli.runs import one_of

    with warned_on_stderr():
        run(model, *one_of(file, runs), reading)
