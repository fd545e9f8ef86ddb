"""Runs and judgements in the formats of TREC, as trec_eval reads them."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["judged_rankings", "read_judgements", "read_run", "run_lines", "write_run"]


def read_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """The run of a file with lines `qid Q0 docid rank score tag`: `{qid: {docid: score}}`, best first.

    As in trec_eval, the rank is ignored: documents are ordered by score, in single precision, and equal scores by document id
    in reverse alphabetical order.

    Raises
    ------
    ValueError
        A line has other columns, a score is not a finite number, or a document occurs twice; the message names the line.
    """
    run: dict[str, dict[str, float]] = {}
    for number, (qid, _, docid, _, score, *_) in _lines(path, 6, "qid Q0 docid rank score tag"):
        scores = run.setdefault(qid, {})
        if docid in scores:
            raise ValueError(f"{path}, line {number}: document {docid} of query {qid} occurs twice")
        try:
            value = np.float32(score)
        except ValueError:
            value = np.float32(np.nan)
        if not np.isfinite(value):
            raise ValueError(f"{path}, line {number}: the score {score!r} is not a finite number")
        scores[docid] = float(value)
    return {
        qid: dict(sorted(scores.items(), key=lambda entry: (entry[1], entry[0]), reverse=True)) for qid, scores in run.items()
    }


def read_judgements(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """The judgements of a file with lines `qid 0 docid grade`: `{qid: {docid: grade}}`. A negative grade counts as 0, like an
    unjudged document.

    Raises
    ------
    ValueError
        A line has other columns, or a grade is not an integer; the message names the line.
    """
    judgements: dict[str, dict[str, int]] = {}
    for number, (qid, _, docid, grade) in _lines(path, 4, "qid 0 docid grade"):
        try:
            judgements.setdefault(qid, {})[docid] = max(int(grade), 0)
        except ValueError:
            raise ValueError(f"{path}, line {number}: the grade {grade!r} is not an integer") from None
    return judgements


def run_lines(qid: str, docids: Sequence[str], scores: Sequence[float], tag: str) -> list[str]:
    r"""The lines of one query of a run, best score first; equal scores keep their order.

    Examples
    --------
    >>> run_lines("q1", ["a", "b"], [0.5, 2.0], "fused")
    ['q1 Q0 b 1 2.0 fused\n', 'q1 Q0 a 2 0.5 fused\n']
    """
    best_first = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [f"{qid} Q0 {docids[i]} {rank} {scores[i]!r} {tag}\n" for rank, i in enumerate(best_first, start=1)]


def write_run(path: str | os.PathLike[str], run: Mapping[str, Mapping[str, float]], tag: str = "online_rank") -> None:
    """Write a run, `{qid: {docid: score}}`, with lines `qid Q0 docid rank score tag`, best score first.

    Equal scores keep their order in `rank`; trec_eval orders them by document id. The file appears whole or not at all.

    Raises
    ------
    ValueError
        An id is empty or has blanks, which separate the columns, or a score is no finite number.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run"
    >>> write_run(path, {"q1": {"a": 0.5, "b": 2.0}}, tag="fused")
    >>> print(path.read_text(), end="")
    q1 Q0 b 1 2.0 fused
    q1 Q0 a 2 0.5 fused
    >>> read_run(path)
    {'q1': {'b': 2.0, 'a': 0.5}}
    """
    lines = []
    for qid, scores in run.items():
        for docid, score in scores.items():
            for what, word in (("query", qid), ("document", docid), ("tag", tag)):
                if len(str(word).split()) != 1:
                    raise ValueError(f"the {what} {word!r:.60} is empty or has blanks, which separate the columns of a run")
            if not np.isfinite(score):
                raise ValueError(f"query {qid}: the score of document {docid} is {score}; it must be a finite number")
        lines += run_lines(qid, [*scores], [*map(float, scores.values())], tag)
    new = Path(f"{os.fspath(path)}.new")
    new.write_text("".join(lines), encoding="utf-8")
    new.replace(path)


def judged_rankings(
    run: str | os.PathLike[str], judgements: str | os.PathLike[str]
) -> Iterator[tuple[dict[str, int], dict[str, float]]]:
    r"""(grades, scores), for metrics, of the queries that are both in a run and judged.

    A document without a judgement has grade 0, and one not retrieved has score -inf. Scores are 0, -1, ... in the order of the
    run, so there are no ties. A warning says how many queries are left out.

    Raises
    ------
    ValueError
        No query, or no retrieved document, is judged: the files are not of the same collection.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "run").write_text("q1 Q0 a 1 0.5 tag\nq1 Q0 b 2 0.5 tag\n")
    >>> _ = (folder / "qrels").write_text("q1 0 a 1\nq1 0 c 2\n")
    >>> list(judged_rankings(folder / "run", folder / "qrels"))
    [({'b': 0, 'a': 1, 'c': 2}, {'b': 0.0, 'a': -1.0, 'c': -inf})]
    """
    ranked, judged = read_run(run), read_judgements(judgements)
    _require_overlap(run, ranked, judgements, judged)
    for qid, scores in ranked.items():
        if qid in judged:
            order = {docid: float(-place) for place, docid in enumerate(scores)}
            missing = {docid: -np.inf for docid in judged[qid] if docid not in order}
            yield {docid: judged[qid].get(docid, 0) for docid in order | missing}, order | missing


def _require_overlap(run: Any, ranked: Mapping[str, Any], judgements: Any, judged: Mapping[str, Any]) -> None:
    """Refuse files that have nothing in common, and warn of queries that only one of them has."""
    both = ranked.keys() & judged.keys()
    if not both:
        raise ValueError(
            f"no query of {run} is judged in {judgements}: the first is {next(iter(ranked), None)!r} there, "
            f"{next(iter(judged), None)!r} here"
        )
    if not any(ranked[qid].keys() & judged[qid].keys() for qid in both):
        raise ValueError(f"no retrieved document of {run} is judged in {judgements}: are the ids of documents the same?")
    left_out = len(ranked) - len(both), len(judged) - len(both)
    if any(left_out):
        warnings.warn(
            f"queries that both files have, and that are measured: {len(both):,}; left out: {left_out[0]:,} of {run} that are "
            f"not judged, {left_out[1]:,} that are judged but not in it",
            stacklevel=3,
        )


def _lines(path: str | os.PathLike[str], columns: int, form: str) -> Iterator[tuple[int, list[str]]]:
    """The non-blank lines of a file as columns, with their numbers."""
    with Path(path).open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            parts = line.split()
            if parts and len(parts) != columns:
                raise ValueError(f"{path}, line {number}: {len(parts)} columns, not {form!r}")
            if parts:
                yield number, parts
