"""What a ranking through a reader costs, in each form of a query, next to another version."""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._http import JSON, Server, asked
from benchmarks._other import root_of

#: Documents and features of a query, clients at a time, and turns that do not count.
SHAPE, CLIENTS, _FIRST = (50, 20), 16, 2
_BINARY = "application/vnd.online-rank.float32"
#: A model of curves, in each version, with the features of the queries.
_MODEL = """
import inspect, sys, numpy as np
from online_rank import AdditiveRanker, save
own = {"trees": 0} if "trees" in inspect.signature(AdditiveRanker).parameters else {}
model, rng = AdditiveRanker(**own), np.random.default_rng(0)
for _ in range(200):
    X = rng.normal(size=(50, 20))
    model.learn_one([{f"feature_{j}": x for j, x in enumerate(row)} for row in X.tolist()], (X[:, 0] > X[:, 1]).astype(int))
save(model, sys.argv[1])
"""


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


def seconds_of_rankings(pythons: dict[str, Path], turns: int, n: int) -> dict[tuple[str, str], list[float]]:
    """Processor seconds of a reader for a ranking, by version and form, in each turn: versions take turns."""
    sent, found = forms(100), dict[tuple[str, str], list[float]]()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        readers = {}
        for name, python in pythons.items():
            root, file = root_of(python), f"{folder}/{name}.npz"
            subprocess.run([python, "-c", _MODEL, file], check=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
            learner = running.enter_context(Server(root=root, python=python, options=(file,)))
            reads = "--reads-from", f"http://127.0.0.1:{learner.port}"
            readers[name] = running.enter_context(Server(root=root, python=python, options=reads))
        for turn in range(-_FIRST, turns):
            for name in [*readers][:: 1 if turn % 2 else -1]:
                for form, (kind, queries) in sent.items():
                    begun = readers[name].processor_seconds()
                    asyncio.run(asked(readers[name].port, queries, CLIENTS, first=(turn + _FIRST) * n, n=n, kind=kind))
                    if turn >= 0:
                        found.setdefault((name, form), []).append((readers[name].processor_seconds() - begun) / n)
    return found


def rows_of(found: dict[tuple[str, str], list[float]], now: str, before: str | None) -> list[list[str]]:
    """Rows (form, requests a second and core now, before, their ratio: the median and the range of turns)."""
    rows = []
    for form in dict.fromkeys(form for _, form in found):
        mine = found[now, form]
        row = [form, f"{1.0 / statistics.median(mine):,.0f}"]
        if before is not None:
            theirs = found[before, form]
            ratios = sorted(b / a for a, b in zip(mine, theirs, strict=True))
            row += [
                f"{1.0 / statistics.median(theirs):,.0f}",
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            ]
        rows.append(row)
    return rows
