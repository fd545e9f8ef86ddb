"""A LETOR file at once, as a block of queries."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from online_rank import arguments
from online_rank.stream.letor.arguments import Sizes, row_reader
from online_rank.stream.letor.repeated import (
    LetorWarning,
    RepeatedQid,
    check_repeated_qid,
    first_repeated,
    grouped_rows,
    repeated,
)
from online_rank.stream.letor.rows import LetorError, LetorPosition
from online_rank.stream.letor.source import Source
from online_rank.stream.letor.sparse import Gathered, Sparse, rows_at
from online_rank.support.progress import progress as shown_progress


class LetorBlock(NamedTuple):
    """A LETOR file in memory.

    Attributes
    ----------
    X : (n, d) float array, or SparseRows
        Features.
    y : (n,) int64
        Grades.
    qid : (n,) int64, or str where an id is not an integer
        Ids of the queries; documents of one query are contiguous.
    docid : list of str or None
        Ids of the documents, if requested.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray
    docid: list[str] | None = None


def read_letor(
    *sources: Source | Sequence[Source],
    with_docid: bool = False,
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    zero_based: bool = False,
    null: Literal["zero", "error"] = "zero",
    negative: Literal["error", "zero", "skip"] = "error",
    on_error: Literal["raise", "skip"] = "raise",
    repeated_qid: RepeatedQid = "warn",
    group: Sizes | Sequence[Sizes | None] | None = None,
    sparse: Sparse = False,
    progress: bool | None = None,
) -> LetorBlock:
    r"""Load LETOR / svmlight text at once, as `Ranker.learn_many` takes it.

    Reads the same text as `iter_letor`, whose documentation explains the parameters. `progress` is whether to show a progress
    bar on stderr
    (extra `cli`); None shows one on a terminal only.

    Returns
    -------
    LetorBlock
        X (n, d), y (n,), qid (n,) and, with `with_docid`, docid. Without `n_features`, d is the largest feature number in the
        file.

    Raises
    ------
    LetorError
        See `iter_letor`.

    Examples
    --------
    >>> import io
    >>> block = read_letor(io.StringIO("2 qid:10 1:0.5\n0 qid:10 2:1\n1 qid:11 5:1\n"))
    >>> block.X.shape, block.y, block.qid
    ((3, 5), array([2, 0, 1]), array([10, 10, 11]))
    """
    check_repeated_qid(repeated_qid)
    arguments.flag("with_docid", with_docid)
    rows = row_reader(
        sources, group, LetorPosition(), grow=True, with_docid=with_docid, n_features=n_features, dtype=dtype,
        zero_based=zero_based, null=null, negative=negative, on_error=on_error, sparse=sparse,
    )  # fmt: skip
    X, y = Gathered(rows.n_features or 0, dtype), [np.empty(0, np.int64)]
    firsts: list[int] = []
    qids: list[str] = []
    docids: list[str] = []
    n = 0
    position = LetorPosition()
    places: list[LetorPosition] = []
    with shown_progress("reading", unit="documents", shown=progress, part=lambda: rows.fraction(position)) as show:
        for block in rows:
            rows.require_moderate(n + len(block.y), "the text has", LetorPosition())
            X.add(block.X)
            y.append(block.y)
            firsts += [n + first for first, _, _ in block.starts]
            qids += [qid for _, qid, _ in block.starts]
            places += [place for _, _, place in block.starts]
            docids += block.docids or []
            n += len(block.y)
            if block.starts:
                position = block.starts[-1][2]
            show(n)
    qid = np.repeat(_integers(qids), np.diff([*firsts, n]))
    loaded = LetorBlock(X.all(), np.concatenate(y), qid, docids if with_docid else None)
    again = None if repeated_qid == "new" else first_repeated(qids)
    if again is None:
        return loaded
    if repeated_qid == "group":
        order = grouped_rows(np.diff([*firsts, n]), qids)
        ids = [docids[i] for i in order.tolist()] if with_docid else None
        return LetorBlock(rows_at(loaded.X, order), loaded.y[order], qid[order], ids)
    name, line = rows.name_of(places[again].file), places[again].line
    if repeated_qid == "error":
        raise LetorError(f"query {qids[again]} comes back after another one", name, line)
    warnings.warn(repeated(qids[again], f"{name}, line {line}"), LetorWarning, stacklevel=2)
    return loaded


def _integers(qids: list[str]) -> np.ndarray:
    """The ids as int64 if all of them are integers in canonical form, otherwise as strings."""
    try:
        numbers = np.array([int(qid) for qid in qids], np.int64)
    except (ValueError, OverflowError):
        return np.array(qids)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), qids)) else np.array(qids)
