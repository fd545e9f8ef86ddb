"""`online-rank explain`: why one document ranks above another."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from online_rank.cli.files import load_model, opened
from online_rank.cli.reading import Reading
from online_rank.cli.runs import read_runs, require_runs

__all__ = ["explain", "explain_runs"]

#: Two documents; None for the best and the second best.
_Pair: TypeAlias = tuple[str | None, str | None]


def explain(path: str, file: str, query: str, documents: _Pair, reading: Reading, as_json: bool) -> None:
    """Print the contribution of each feature to the difference between the scores of two documents of a query.

    Without documents, the two that rank first are compared.
    """
    from online_rank.base import explain_one

    model, reading, asked = opened(path, [file], reading, graded=False)
    with reading.queries([file], with_ids=True) as queries:
        for X, _, qid, docids in queries:
            if qid != query:
                continue
            x: Any = asked(X)
            names = [name or str(i + 1) for i, name in enumerate(docids)]
            scores = model.predict_one(x)
            best = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
            if len(best) < 2:
                raise ValueError(f"{file}: query {query} has one document; there is none to compare it with")
            a, b = (place if name is None else _place(name, names, query) for name, place in zip(documents, best, strict=False))
            _print(explain_one(model, x, a, b)._replace(a=names[a], b=names[b]), as_json)
            return
    raise ValueError(f"{file}: there is no query {query!r}")


def explain_runs(path: str, runs: Sequence[str], query: str, documents: _Pair, as_json: bool) -> None:
    """The same for a query of TREC runs: the contribution of each feature of each retriever."""
    from online_rank.base import explain_one

    model = load_model(path)
    require_runs(model, runs)
    asked = next((found.runs for found in read_runs(runs) if found.qid == query), None)
    if asked is None:
        raise ValueError(f"{', '.join(runs)}: there is no query {query!r}")
    best, names = model.rank_one(asked), [str(document) for document in asked.ids]
    if len(best) < 2:
        raise ValueError(f"{', '.join(runs)}: query {query} has one document; there is none to compare it with")
    a, b = (found if name is None else names[_place(name, names, query)] for name, found in zip(documents, best, strict=False))
    _print(explain_one(model, asked, a, b), as_json)


def _print(found: Any, as_json: bool) -> None:
    """Print an explanation, the largest contributions first."""
    found = found._replace(contributions={str(name): value for name, value in found.largest_first()})
    print(json.dumps(found._asdict()) if as_json else found.in_words())


def _place(name: str, names: list[str], query: str) -> int:
    if name not in names:
        raise ValueError(f"query {query} has no document {name!r}; there are {', '.join(names[:10])}")
    return names.index(name)
