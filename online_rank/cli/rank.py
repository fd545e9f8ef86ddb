"""`online-rank rank`: a TREC run by a saved model."""

import re
import sys
import warnings
from collections.abc import Sequence

from online_rank.cli.files import load_model, opened
from online_rank.cli.reading import Reading
from online_rank.cli.runs import read_runs, require_runs
from online_rank.stream.table_rows import first_repeated
from online_rank.stream.trec import run_lines
from online_rank.support.progress import progress

__all__ = ["rank", "rank_runs"]

#: The last column of a run.
TAG = "online_rank"


def rank_runs(path: str, runs: Sequence[str]) -> None:
    """Fuse the queries of TREC runs by a saved model and print TREC run lines."""
    model = load_model(path)
    require_runs(model, runs)
    for query in read_runs(runs):
        scores = model.predict_one(query.runs)
        sys.stdout.write("".join(run_lines(query.qid, [*scores], [*scores.values()], TAG)))


def rank(path: str, file: str, reading: Reading) -> None:
    """Rank the queries of a file by a saved model and print TREC run lines."""
    model, reading, asked = opened(path, [file], reading, graded=False)
    if reading.query is not None and reading.document is None:
        warnings.warn("documents are numbered by their row within the query; name them with --document COLUMN", stacklevel=2)
    # No progress bar if the lines themselves are printed to the terminal.
    shown = False if sys.stdout.isatty() else None
    repeated, rewritten, n_queries = None, False, 0
    with (
        reading.queries([file], with_ids=True) as queries,
        progress("ranking", shown=shown, part=lambda: queries.fraction) as show,
    ):
        for n_queries, (X, _, qid, docids) in enumerate(queries, start=1):
            if reading.document is not None and "" in docids:
                what = f"document {docids.index('') + 1} has no id in column {reading.document!r}"
                raise ValueError(f"{file}: query {qid}: {what}")
            scores = model.predict_one(asked(X))
            names = [_word(docid, str(i)) for i, docid in enumerate(docids, start=1)]
            if repeated is None and (repeated := first_repeated(names)) is not None:
                warnings.warn(f"query {qid} has document {repeated!r} more than once in the run", stacklevel=2)
            if not rewritten and (rewritten := _word(qid, "") != qid):
                warnings.warn(f"query {qid!r}: white space separates the columns of a run, and is written as _", stacklevel=2)
            sys.stdout.write("".join(run_lines(_word(qid, str(n_queries)), names, scores, TAG)))
            show(n_queries)
    if not n_queries:
        warnings.warn(f"{file}: no queries to rank", stacklevel=2)


def _word(text: str, default: str) -> str:
    """Text without white space, which separates the columns of a run."""
    return re.sub(r"\s+", "_", text.strip()) or default
