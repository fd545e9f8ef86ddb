"""Queries given as the result lists of retrievers."""

import itertools
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple


class Retrieved(NamedTuple):
    """A document's entry in the list of a retriever.

    Attributes
    ----------
    score
        Its score.
    rank
        Its position in the retriever's list, from 1.
    """

    score: float
    rank: int


class Runs:
    """One query as the result lists of several retrievers, to be fused into one ranking.

    The candidates are the union of the lists, in order of appearance: run by run, best first. A document that a
    retriever did not return has no score there, which is neither a score of 0 nor an error; `RunFeatures` makes features of
    scores, ranks and absences.

    Parameters
    ----------
    runs
        `{retriever: [(document id, score), ...]}` or `{retriever: {document id: score}}`; larger scores are better. A list must
        be best first, so that distances, or scores for which smaller is better, are not taken for their opposite; a dict is
        read best score first. Equal scores keep their order. A run may be empty.
    features
        `{document id: {feature: number}}`: further features of all or some candidates; None for none. A document that no
        retriever returned is refused.

    Raises
    ------
    TypeError, ValueError
        A run has another form, a document twice, a score that is not a finite number, or a list in which scores ascend. A
        document is an integer in one place and its text in another. A feature has the name of a run.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, RunFeatures, Runs
    >>> query = Runs({"bm25": [("d7", 12.3), ("d2", 11.9)], "vector": {"d2": 0.83, "d9": 0.41}})
    >>> query.ids
    ('d7', 'd2', 'd9')
    >>> query.documents["d2"]
    {'bm25': Retrieved(score=11.9, rank=2), 'vector': Retrieved(score=0.83, rank=1)}
    >>> model = RunFeatures() | PerceptronRanker()
    >>> model.learn_one(query, {"d7": 0, "d2": 2, "d9": 0})
    >>> model.rank_one(query)[0]
    'd2'
    """

    __slots__ = ("documents",)

    #: The candidates with their entries and features: `{document id: {name: Retrieved or number}}`.
    documents: dict[Hashable, dict[Hashable, Any]]

    def __init__(
        self,
        runs: Mapping[Hashable, Sequence[tuple[Hashable, float]] | Mapping[Hashable, float]],
        features: Mapping[Hashable, Mapping[Hashable, float]] | None = None,
    ) -> None:
        if not isinstance(runs, Mapping):
            raise TypeError(f"runs is of type {type(runs).__name__}; it must be {{retriever: [(document id, score), ...]}}")
        documents: dict[Hashable, dict[Hashable, Any]] = {}
        for name, run in runs.items():
            for rank, (document, score) in enumerate(_best_first(name, run), start=1):
                documents.setdefault(document, {})[name] = Retrieved(score, rank)
        _require_one_kind(documents)
        for document, known in ({} if features is None else features).items():
            if document not in documents:
                raise ValueError(f"features: no retriever returned the document {document!r}")
            if not isinstance(known, Mapping):
                raise TypeError(f"features[{document!r}] is of type {type(known).__name__}, not a dict of features")
            if shared := [feature for feature in known if feature in runs]:
                raise ValueError(f"features[{document!r}]: {shared[0]!r} is the name of a run, too")
            documents[document].update(known)
        self.documents = documents

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """The candidates, in order of appearance."""
        return tuple(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        return f"<Runs: {len(self)} candidates>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and [*self.documents.items()] == [*other.documents.items()]

    __hash__ = None  # type: ignore[assignment]


def _best_first(name: Hashable, run: Any) -> list[tuple[Hashable, float]]:
    """The entries of a run, best score first. Raises an error that names the run and the document."""
    if isinstance(run, Mapping):
        entries = [*run.items()]
    elif isinstance(run, Sequence) and not isinstance(run, str | bytes):
        entries = [*run]
    else:
        raise TypeError(f"runs[{name!r}] is of type {type(run).__name__}; it must be [(document id, score), ...]")
    found: dict[Hashable, float] = {}
    for i, entry in enumerate(entries):
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise TypeError(f"runs[{name!r}][{i}] is {entry!r:.60}; it must be (document id, score)")
        document, score = entry
        if isinstance(score, bool) or not hasattr(type(score), "__float__"):
            raise TypeError(f"runs[{name!r}]: the score of {document!r} is {score!r:.60}; it must be a number")
        if not -sys.float_info.max <= score <= sys.float_info.max:  # An integer may be too large.
            raise ValueError(f"runs[{name!r}]: the score of {document!r} is {score!r:.60}; it must be a finite number")
        if not isinstance(document, Hashable):
            raise TypeError(f"runs[{name!r}][{i}] has the document {document!r:.60}, which cannot be an id")
        if document in found:
            raise ValueError(f"runs[{name!r}] has the document {document!r} twice")
        found[document] = float(score)
    if isinstance(run, Mapping):
        return sorted(found.items(), key=lambda item: item[1], reverse=True)
    ranked = [*found.items()]
    for (_, before), (document, score) in itertools.pairwise(ranked):
        if score > before:
            raise ValueError(
                f"runs[{name!r}]: {document!r} scores {score!r:.60} behind {before!r:.60}; a list is best first, and larger "
                "scores are better: negate distances, or give a dict where the order means nothing"
            )
    return ranked


def _require_one_kind(documents: Mapping[Hashable, Any]) -> None:
    """Raise TypeError if an integer and its text are both documents, which two retrievers would mean as one."""
    if len({*map(type, documents)}) > 1:
        for document in documents:
            if not isinstance(document, str) and str(document) in documents:
                raise TypeError(f"runs: {document!r} and {str(document)!r} are both documents; give all ids in one type")
