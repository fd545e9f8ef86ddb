"""`online-rank rank`: a TREC run by a saved model."""

import re
import sys
import warnings
from collections.abc import Sequence
from urllib.parse import quote

from online_rank.cli.reading import Reading, warn_of_unknown
from online_rank.cli.runs import queries_for, run_lines
from online_rank.stream.reader import first_repeated


def rank(path: str, source: Sequence[str], of_runs: bool, reading: Reading) -> None:
    """Rank the queries of a file, or of the TREC runs of retrievers, by a saved model and print TREC run lines."""
    # No progress bar if the lines themselves are printed to the terminal.
    model, queries = queries_for(path, source, of_runs, reading, shown=False if sys.stdout.isatty() else None)
    repeated, rewritten, n_queries = None, False, 0
    for n_queries, (qid, x, docids) in enumerate(queries, start=1):
        if reading.document is not None and "" in docids:
            what = f"document {docids.index('') + 1} has no id in column {reading.document!r}"
            raise ValueError(f"{source[0]}: query {qid}: {what}")
        answer = model.predict_one(x)
        names = [_word(docid, str(i)) for i, docid in enumerate(docids, start=1)]
        if repeated is None and (repeated := first_repeated(names)) is not None:
            warnings.warn(f"query {qid} has document {repeated!r} more than once in the run", stacklevel=2)
        if not rewritten and (rewritten := _word(qid, "") != qid):
            warnings.warn(f"query {qid!r}: white space separates the columns of a run: it is written as %20", stacklevel=2)
        scores = [*answer.values()] if isinstance(answer, dict) else answer
        sys.stdout.write("".join(run_lines(_word(qid, str(n_queries)), names, scores)))
    warn_of_unknown(model)
    if not n_queries:
        warnings.warn(f"{source[0]}: no queries to rank", stacklevel=2)


def _word(text: str, default: str) -> str:
    """Text without white space, which separates the columns of a run: as in addresses, %20. Different texts stay different."""
    if not re.search(r"\s|%[0-9A-F]{2}", text):
        return text or default
    return re.sub(r"[\s%]", lambda match: quote(match[0]), text)
