"""What a ranking through a reader costs, in each form of a query."""

import asyncio
import contextlib
import json
import tempfile

import numpy as np

from benchmarks._http import JSON, Server, asked
from online_rank import AdditiveRanker, save

#: Documents and features of a query, clients at a time, and turns that do not count.
SHAPE, CLIENTS, _FIRST = (50, 20), 16, 2
_BINARY = "application/vnd.online-rank.float32"


def model() -> AdditiveRanker:
    """A model of curves that has learned 200 queries with the features of the rankings."""
    learned, rng = AdditiveRanker(trees=0), np.random.default_rng(0)
    for _ in range(200):
        X = rng.normal(size=SHAPE)
        named = [{f"feature_{j}": x for j, x in enumerate(row)} for row in X.tolist()]
        learned.learn_one(named, (X[:, 0] > X[:, 1]).astype(int))
    return learned


def forms(n: int) -> dict[str, tuple[str, list[list[tuple[str, bytes]]]]]:
    """The media type and n queries of each form, as `asked` takes them."""
    rng, found = np.random.default_rng(1), dict[str, tuple[str, list[bytes]]]()
    names, ids = [f"feature_{j}" for j in range(SHAPE[1])], [f"document {i}" for i in range(SHAPE[0])]
    head = {"id": "ID", "features": names, "documents": ids}
    values = [rng.normal(size=SHAPE).round(4) for _ in range(n)]
    found["in columns"] = JSON, [_json({**head, "rows": X.tolist()}) for X in values]
    found["binary"] = _BINARY, [b"float32\n" + _json(head) + b"\n" + X.astype("<f4").tobytes() for X in values]
    found["by document"] = (
        JSON,
        [
            _json({"id": "ID", "docs": {d: dict(zip(names, row, strict=True)) for d, row in zip(ids, X.tolist(), strict=True)}})
            for X in values
        ],
    )
    return {form: (kind, [[("/rank", body)] for body in bodies]) for form, (kind, bodies) in found.items()}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def seconds_of_rankings(turns: int, n: int) -> dict[str, list[float]]:
    """Processor seconds of a reader for a ranking, by form, in each turn."""
    sent, found = forms(100), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        save(model(), f"{folder}/model.npz")
        learner = running.enter_context(Server(options=(f"{folder}/model.npz",)))
        reader = running.enter_context(Server(options=("--reads-from", f"http://127.0.0.1:{learner.port}")))
        for turn in range(-_FIRST, turns):
            for form, (kind, queries) in sent.items():
                begun = reader.processor_seconds()
                asyncio.run(asked(reader.port, queries, CLIENTS, first=(turn + _FIRST) * n, n=n, kind=kind))
                if turn >= 0:
                    found.setdefault(form, []).append((reader.processor_seconds() - begun) / n)
    return found
