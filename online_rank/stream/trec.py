"""Runs and judgements as trec_eval reads them, in the formats of TREC and of others (`stream.forms`)."""

import itertools
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank.limits import MAX_COUNT
from online_rank.query import MAX_GRADE
from online_rank.stream.forms import Entries
from online_rank.stream.source import ReadError, ReadWarning
from online_rank.stream.values import MISSING_WORDS, too_high

#: The share of neighbours in rank whose scores must ascend before scores are taken for distances.
_ASCENDING = 0.9


class _Ranked(NamedTuple):
    """A document of a run as its line says."""

    docid: str
    score: float
    rank: float
    line: str


def read_run(path: str | os.PathLike[str], *, by_rank: bool = False) -> dict[str, dict[str, float]]:
    """The run of a file with lines `qid Q0 docid rank score tag`: `{qid: {docid: score}}`, best first.

    As in trec_eval, documents are ordered by score, in single precision, and equal scores by document id in reverse
    alphabetical order; lines that begin with # are comments, and what follows the sixth column is ignored. The file may be
    compressed by gzip and have a header. Blanks separate columns, and so do tabs alone in a line with one between any two
    columns, where ids may have blanks. A warning says where the ranks contradict the scores.

    Parameters
    ----------
    path
        The file.
    by_rank
        Follow the ranks where they say another order than trec_eval: equal scores are ordered by rank, and scores that ascend
        with the rank are distances, which are returned as negative numbers.

    Raises
    ------
    ValueError
        A line has other columns, a score is missing or not a finite number, or a document occurs twice; the message names the
        file and the line.
    """
    run: dict[str, dict[str, _Ranked]] = {}
    entries = Entries(path, "score")
    for at, found in entries:
        documents, docid = run.setdefault(found["qid"], {}), found["docid"]
        if docid in documents:
            first = documents[docid].line
            raise ReadError(f"{at}: document {docid} of query {found['qid']} occurs twice, first on {first}")
        rank = _number(found.get("rank", "nan"))
        with np.errstate(over="ignore"):
            # Without scores, the ranks order.
            score = float(np.float32(_number(found["score"]) if "score" in found else -rank))
        if not np.isfinite(score):
            named = "score" if "score" in found else "rank"
            raise ReadError(f"{at}: the {named} {_unreadable(found[named], 'a finite number')}")
        documents[docid] = _Ranked(docid, score, rank, at.rpartition(", ")[2])
    tell_form(path, entries, stacklevel=3)
    sign = -1.0 if _are_distances(path, run, by_rank) else 1.0
    return {qid: _best_first(documents.values(), sign, by_rank) for qid, documents in run.items()}


def _best_first(documents: Iterable[_Ranked], sign: float, by_rank: bool) -> dict[str, float]:
    ordered = sorted(documents, key=lambda one: one.docid, reverse=True)
    if by_rank:
        ordered.sort(key=lambda one: one.rank)
    return {one.docid: sign * one.score for one in sorted(ordered, key=lambda one: -sign * one.score)}


def _are_distances(path: Any, run: Mapping[str, Mapping[str, _Ranked]], by_rank: bool) -> bool:
    """Whether the scores count as distances; warn where ranks and scores say different orders."""
    n_pairs = n_ascending = n_equal = n_contradicting = 0
    for documents in run.values():
        ranked = sorted((one for one in documents.values() if np.isfinite(one.rank)), key=lambda one: one.rank)
        pairs = [(a, b) for a, b in itertools.pairwise(ranked) if a.rank < b.rank]
        ascending = sum(a.score < b.score for a, b in pairs)
        n_pairs, n_ascending = n_pairs + len(pairs), n_ascending + ascending
        n_contradicting += ascending > 0
        n_equal += bool(pairs) and all(a.score == b.score for a, b in pairs)
    are_distances = 0 < n_ascending >= _ASCENDING * n_pairs
    said = []
    if are_distances and by_rank:
        said.append("the scores ascend with the rank, so they are taken for distances, for which smaller is better")
    elif are_distances:
        said.append(
            "the scores ascend with the rank. Larger scores count as better, as in trec_eval; if these are distances, write "
            "them with a minus sign"
        )
    elif n_contradicting:
        said.append(
            f"in {n_contradicting:,} of {len(run):,} lists the ranks say another order than the scores; the scores count, as "
            "in trec_eval"
        )
    if n_equal:
        order = "rank" if by_rank else "document id, as in trec_eval, not by rank"
        said.append(f"in {n_equal:,} of {len(run):,} lists all scores are equal; the documents are ordered by {order}")
    if said:
        warnings.warn(f"{path}: {'; '.join(said)}", stacklevel=4)
    return are_distances and by_rank


def read_judgements(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """The judgements of a file with lines `qid 0 docid grade`: `{qid: {docid: grade}}`.

    A negative grade counts as 0, like an unjudged document. Grades may be written as 1.0, or as true and false. Lines that
    begin with # are comments. The file may be compressed by gzip and have a header that names its columns, as in BEIR. Blanks
    or tabs separate columns, as in `read_run`. A line that says the same again is merged.

    Raises
    ------
    ValueError
        The file is empty, a line has other columns, a grade is missing or no integer, or a document is judged twice with
        different grades; the message names the file and the line.
    """
    judgements: dict[str, dict[str, int]] = {}
    entries = Entries(path, "grade")
    for at, found in entries:
        value = _number(found["grade"])
        if not (abs(value) <= MAX_COUNT and value.is_integer()):
            raise ReadError(f"{at}: the grade {_unreadable(found['grade'], 'an integer')}")
        grade = max(int(value), 0)
        if grade > MAX_GRADE:
            raise ReadError(f"{at}: the grade {found['grade']!r:.60} {too_high(MAX_GRADE)}")
        before = judgements.setdefault(found["qid"], {}).setdefault(found["docid"], grade)
        if before != grade:
            twice = f"document {found['docid']} of query {found['qid']} is judged twice"
            raise ReadError(f"{at}: {twice}, {before} before and {found['grade']} here")
    if not judgements:
        raise ReadError(f"{path}: no judgements: the file is empty, or has comments and headers alone")
    tell_form(path, entries, stacklevel=3)
    return judgements


def tell_form(path: Any, entries: Entries, stacklevel: int) -> None:
    """Warn in which form a file was read, unless it is the form of TREC."""
    if entries.note:
        warnings.warn(f"{path}: {entries.note}", ReadWarning, stacklevel=stacklevel + 1)


def judged_rankings(
    run: str | os.PathLike[str], judgements: str | os.PathLike[str], *, complete: bool = False
) -> Iterator[tuple[dict[str, int], dict[str, float]]]:
    r"""(grades, scores), for metrics, of the queries that are both in a run and judged.

    A document without a judgement has grade 0, and one not retrieved has score -inf. Scores are 0, -1, ... in the order of the
    run, so there are no ties. A warning says how many queries are left out.

    Parameters
    ----------
    run, judgements
        The files, as `read_run` and `read_judgements` take them.
    complete
        Also yield the judged queries that are not in the run, as queries that found nothing (`trec_eval -c`).

    Raises
    ------
    ValueError
        A file is empty; or no query, or no retrieved document, is judged: the files are not of the same collection.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "run").write_text("q1 Q0 a 1 0.9 tag\nq1 Q0 b 2 0.5 tag\n")
    >>> _ = (folder / "qrels").write_text("q1 0 a 1\nq1 0 c 2\n")
    >>> list(judged_rankings(folder / "run", folder / "qrels"))
    [({'a': 1, 'b': 0, 'c': 2}, {'a': 0.0, 'b': -1.0, 'c': -inf})]
    """
    ranked, judged = read_run(run), read_judgements(judgements)
    _require_overlap(run, ranked, judgements, judged, complete)
    for qid in judged if complete else ranked:
        if qid in judged:
            order = {docid: float(-place) for place, docid in enumerate(ranked.get(qid, ()))}
            missing = {docid: -np.inf for docid in judged[qid] if docid not in order}
            yield {docid: judged[qid].get(docid, 0) for docid in order | missing}, order | missing


def _require_overlap(run: Any, ranked: Mapping[str, Any], judgements: Any, judged: Mapping[str, Any], complete: bool) -> None:
    """Refuse files that have nothing in common, and warn of queries that only one of them has."""
    both = ranked.keys() & judged.keys()
    if not ranked and not complete:
        raise ReadError(f"{run}: no lists: the file is empty, or has comments and headers alone")
    if not both:
        raise ValueError(
            f"no query of {run} is judged in {judgements}: the first is {next(iter(ranked), None)!r} there, "
            f"{next(iter(judged), None)!r} here"
        )
    if not any(ranked[qid].keys() & judged[qid].keys() for qid in both):
        raise ValueError(f"no retrieved document of {run} is judged in {judgements}: are the ids of documents the same?")
    unjudged, absent = len(ranked) - len(both), len(judged) - len(both)
    if unjudged or absent:
        also = f"{absent:,} that are judged but not in it" + (
            ", counted as queries that found nothing" if complete else "; --complete counts these as queries that found nothing"
        )
        warnings.warn(
            f"queries that both files have, and that are measured: {len(both):,}; left out: {unjudged:,} of {run} that are "
            f"not judged; {also}",
            stacklevel=3,
        )


def _number(text: str) -> float:
    """A number, or NaN; true is 1 and false 0."""
    try:
        return float("nan" if "_" in text else text)  # Python reads 1_0.
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower(), float("nan"))


def _unreadable(text: str, wanted: str) -> str:
    return f"is missing: {text!r}" if text in MISSING_WORDS else f"{text!r:.60} is not {wanted}"
