"""TREC runs of several retrievers, as the commands for fused models take them."""

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from online_rank.base import serving_steps
from online_rank.cli.files import load_model
from online_rank.cli.reading import Reading, check_files, look_at_runs
from online_rank.preprocessing import RunFeatures
from online_rank.query import Runs
from online_rank.query.names import in_nfc
from online_rank.storage.files import write_atomically
from online_rank.stream.trec import read_run
from online_rank.support.progress import counted

#: What the rules are called; these names are taken.
RULES = {"rrf": "reciprocal rank fusion", "minmax": "mean of min-max scores"}
LEARNED = "learned"


def one_of(file: str | None, runs: Sequence[str] | None) -> tuple[Sequence[str], bool]:
    """The file or the runs that a command has, and whether these are runs. Raises ValueError unless it has one of them."""
    if (file is None) == (not runs):
        raise ValueError("give FILE, or --run for each retriever")
    return [file] if file is not None else runs or [], file is None


def queries_for(
    path: str, source: Sequence[str], of_runs: bool, reading: Reading, shown: bool | None = False
) -> tuple[Any, Iterator[tuple[str, Any, list[str]]]]:
    """A saved model, and the queries of a file, or of TREC runs: their ids, features as the model takes them, document ids."""
    if not of_runs:
        check_files(source)
        model = load_model(path)
        return model, _queries_of_file(source[0], reading, model, shown)
    if reading.dry_run:
        look_at_runs(source)
    model = load_model(path)
    require_runs(model, source)
    return model, ((query.qid, query.runs, [*map(str, query.runs.ids)]) for query in read_runs(source))


def _queries_of_file(file: str, reading: Reading, model: Any, shown: bool | None) -> Iterator[tuple[str, Any, list[str]]]:
    with reading.asked([file], model, with_ids=True, graded=False) as queries, counted(queries, "ranking", shown=shown) as each:
        if not queries.is_letor and queries.plan.of("document") is None:
            warnings.warn(
                "documents are numbered by their row within the query; name them with --document COLUMN", stacklevel=2
            )
        for X, _, qid, docids in each:
            yield qid, X, docids


class FusedQuery(NamedTuple):
    """A query: its id, what the retrievers returned, and its judgements."""

    qid: str
    runs: Runs
    judged: Mapping[Any, int]

    @property
    def grades(self) -> dict[Any, int]:
        """The grades of the candidates; one that was not judged has 0."""
        return {document: self.judged.get(document, 0) for document in self.runs.ids}


def ranked(model: Any, runs: Runs) -> dict[Any, float]:
    """The scores of the documents of a query, best first."""
    scores = model.predict_one(runs)
    return {document: scores[document] for document in sorted(scores, key=scores.__getitem__, reverse=True)}


def run_lines(qid: str, docids: Sequence[str], scores: Sequence[float]) -> list[str]:
    r"""The lines of one query of a run, best score first; equal scores keep their order.

    Examples
    --------
    >>> run_lines("q1", ["a", "b"], [0.5, 2.0])
    ['q1 Q0 b 1 2.0 online_rank\n', 'q1 Q0 a 2 0.5 online_rank\n']
    """
    best_first = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [f"{qid} Q0 {docids[i]} {rank} {scores[i]!r} online_rank\n" for rank, i in enumerate(best_first, start=1)]


def write_run(path: str, run: Mapping[str, Mapping[str, float]]) -> None:
    """Write a run, `{qid: {docid: score}}`, with lines `qid Q0 docid rank score tag`, best score first.

    Equal scores keep their order in `rank`; trec_eval orders them by document id. The file appears whole or not at all.

    Raises
    ------
    ValueError
        An id is empty or has blanks, which separate the columns, or a score is no finite number.
    OSError
        The file cannot be written, or is a device.
    """
    lines = []
    for qid, scores in run.items():
        for docid, score in scores.items():
            for what, word in (("query", qid), ("document", docid)):
                if len(str(word).split()) != 1:
                    raise ValueError(f"the {what} {word!r:.60} is empty or has blanks, which separate the columns of a run")
            if not math.isfinite(score):
                raise ValueError(f"query {qid}: the score of document {docid} is {score}; it must be a finite number")
        lines += run_lines(qid, [*scores], [*map(float, scores.values())])
    write_atomically(path, "".join(lines).encode())


def names_of(files: Sequence[str]) -> list[str]:
    """The retrievers, called as their files are without folder and ending, or by the whole path where that is ambiguous."""
    if len(files) < 2:
        raise ValueError("nothing to fuse: give at least two runs")
    short = [in_nfc(os.path.splitext(os.path.basename(file))[0]) for file in files]
    names = short if len(set(short)) == len(short) else list(files)
    if len(set(names)) < len(names) or {*names} & {*RULES, LEARNED}:
        raise ValueError(f"the runs are called {', '.join(names)}: they need different names, and no names of fusion rules")
    return names


def read_runs(files: Sequence[str]) -> Iterator[FusedQuery]:
    """The queries of TREC runs, by name of the files, without judgements."""
    return queries_of([read_run(file, by_rank=True) for file in files], names_of(files), {})


def require_runs(model: Any, files: Sequence[str]) -> None:
    """Raise ValueError if the model knows no retriever of the name of a file; warn of retrievers without a file."""
    features = serving_steps(model)[0]
    if not isinstance(features, RunFeatures) or features.runs is None:
        return
    names, known = names_of(files), ", ".join(features.runs)
    for name in names:
        if name not in features.runs:
            raise ValueError(f"the model fuses {known}, and no run {name!r}; runs are called as their files, without ending")
    if missing := [run for run in features.runs if run not in names]:
        warnings.warn(
            f"the model fuses {known}; without {', '.join(missing)}, none of its documents counts as found", stacklevel=2
        )


def queries_of(
    runs: Sequence[Mapping[str, Mapping[str, float]]], names: Sequence[str], judged: Mapping[str, Mapping[str, int]]
) -> Iterator[FusedQuery]:
    """The queries of all runs, in the order in which they are met. Raises ValueError for a run that shares none."""
    for name, run in zip(names, runs, strict=True):
        if not any(qid in run for other in runs if other is not run for qid in other):
            raise ValueError(f"the run {name} has no query of the others: ids may be spelled differently")
    for qid in dict.fromkeys(qid for run in runs for qid in run):
        lists: dict[Any, Any] = {name: list(run.get(qid, {}).items()) for name, run in zip(names, runs, strict=True)}
        yield FusedQuery(qid, Runs(lists), judged.get(qid, {}))
