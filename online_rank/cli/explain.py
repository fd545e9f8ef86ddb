"""`online-rank explain`: why one document ranks above another."""

import json
from collections.abc import Sequence

from online_rank.cli.beside import kinds_in_words, kinds_of
from online_rank.cli.reading import Reading
from online_rank.cli.runs import queries_for


def explain(
    path: str,
    source: Sequence[str],
    of_runs: bool,
    query: str,
    documents: tuple[str | None, str | None],
    reading: Reading,
    as_json: bool,
) -> None:
    """Print the contribution of each feature to the difference between the scores of two documents of a query.

    Without documents, the two that rank first are compared. `source` is a file, or the TREC runs of retrievers.
    """
    from online_rank.base import explain_one

    model, queries = queries_for(path, source, of_runs, reading)
    x, docids = next(((x, docids) for qid, x, docids in queries if qid == query), (None, ()))
    if x is None:
        raise ValueError(f"{', '.join(source)}: there is no query {query!r}")
    answer = model.predict_one(x)
    known, scores = ([*answer], [*answer.values()]) if isinstance(answer, dict) else (range(len(answer)), answer)
    best = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    if len(best) < 2:
        raise ValueError(f"{', '.join(source)}: query {query} has one document; there is none to compare it with")
    names = [name or str(i + 1) for i, name in enumerate(docids)]
    a, b = (place if name is None else _place(name, names, query) for name, place in zip(documents, best, strict=False))
    found = explain_one(model, x, known[a], known[b])._replace(a=names[a], b=names[b])
    kinds = kinds_of(model)
    if not as_json:
        print(found.in_words())
        if kinds:
            print(f"kinds of features: {kinds_in_words(kinds)}")
        return
    parts = found._replace(pairs={}).largest_first()
    pairs = [[str(one), str(other), value] for (one, other), value in found.pairs.items()]
    print(
        json.dumps(
            found._asdict() | {"contributions": {str(name): value for name, value in parts}, "pairs": pairs, "kinds": kinds}
        )
    )


def _place(name: str, names: list[str], query: str) -> int:
    if name not in names:
        raise ValueError(f"query {query} has no document {name!r}; there are {', '.join(names[:10])}")
    return names.index(name)
