"""How good is one pass over raw web-like features with linear, additive and forest truths, next to LightGBM of 200 rounds?

    python -m benchmarks.weblike [--cases additive:1000:0 ... forest:4000:1] [--keep FILE]

The streams are `WebLike`: 136 features up to 10^8, 40 to 80 documents, 400 held-out queries. The settings of the rankers were
chosen on validation parts and on streams of the same generator with other truths (`benchmarks.blends`: world seeds 100 and on).
Differences are to LightGBM, with standard errors, paired over the held-out queries.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import AdditiveRanker, BlendRanker, GradientRanker, PerceptronRanker, RidgeRanker, StreamQuantileMap, measure
from online_rank.base import Ranker
from online_rank.stream import WebLike

CASES = [
    *(f"{truth}:1000:{seed}" for truth in ("additive", "forest", "linear") for seed in range(4)),
    *(f"{truth}:4000:{seed}" for truth in ("additive", "forest") for seed in range(2)),
]
#: Seeds of the held-out queries minus the seeds of the stream; and the number of these queries.
_HELD_OUT, _N_HELD_OUT = 10**6, 400
LIGHTGBM, ROUNDS = "LightGBM lambdarank", 200
ONLINE: dict[str, Callable[[], Ranker]] = {
    "map | PerceptronRanker()": lambda: StreamQuantileMap() | PerceptronRanker(),
    "map | GradientRanker()": lambda: StreamQuantileMap() | GradientRanker(),
    "map | RidgeRanker()": lambda: StreamQuantileMap() | RidgeRanker(),
    "AdditiveRanker()": lambda: AdditiveRanker(),
    "BlendRanker()": lambda: BlendRanker(),
}


def block(truth: str, n_queries: int, seed: int, world_seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries of a stream as features, grades and offsets."""
    queries = [*WebLike(n_queries, truth=truth, n_documents=(40, 80), seed=seed, world_seed=world_seed)]
    sizes = [len(y) for _, y in queries]
    return np.concatenate([X for X, _ in queries]), np.concatenate([y for _, y in queries]), np.cumsum([0, *sizes])


def run(truth: str, n_queries: int, seed: int, found: dict[str, dict[str, Any]]) -> None:
    """NDCG@10 of each held-out query, and processor seconds of learning, of each contestant that `found` does not have."""
    import lightgbm

    X, y, offsets = block(truth, n_queries, seed, seed)
    X_out, y_out, offsets_out = block(truth, _N_HELD_OUT, seed + _HELD_OUT, seed)
    qid, qid_out = (np.repeat(np.arange(len(o) - 1), np.diff(o)) for o in (offsets, offsets_out))
    ndcg = measure("ndcg@10")
    for name in [who for who in (LIGHTGBM, *ONLINE) if who not in found]:
        start = time.process_time()
        if name == LIGHTGBM:
            model: Any = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=ROUNDS, verbose=-1, n_jobs=1)
            model.fit(X, y, group=np.diff(offsets))
        else:
            model = ONLINE[name]()
            model.learn_many(X, y, qid)
        seconds = time.process_time() - start
        scores = model.predict(X_out) if name == LIGHTGBM else model.predict_many(X_out, qid_out)
        values = [ndcg.value(scores[a:b], y_out[a:b]) for a, b in itertools.pairwise(offsets_out) if y_out[a:b].any()]
        found[name] = {"values": values, "seconds": seconds}
        print(f"{truth} {n_queries}, seed {seed}: {name} {np.mean(values):.4f}, {seconds:.1f} s", file=sys.stderr, flush=True)


def cell(by_seed: list[dict[str, dict[str, Any]]], name: str) -> str:
    """Mean over seeds; the paired difference to LightGBM with its standard error over held-out queries, and of each seed."""
    own, other = ([np.array(found[who]["values"]) for found in by_seed] for who in (name, LIGHTGBM))
    mean = np.mean([values.mean() for values in own])
    if name == LIGHTGBM:
        return f"{mean:.4f}"
    differences = [a - b for a, b in zip(own, other, strict=True)]
    each = [difference.mean() for difference in differences]
    error = np.sqrt(sum(difference.var(ddof=1) / len(difference) for difference in differences)) / len(differences)
    return f"{mean:.4f} ({np.mean(each):+.4f} ± {error:.4f}: {' / '.join(f'{value:+.4f}' for value in each)})"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--cases", nargs="+", default=CASES, metavar="TRUTH:QUERIES:SEED")
    arguments.add_argument("--keep", type=Path, metavar="FILE", help="continue from what this file has")
    chosen = arguments.parse_args()
    kept = json.loads(chosen.keep.read_text()) if chosen.keep and chosen.keep.exists() else {}
    columns: dict[str, list[dict[str, dict[str, Any]]]] = {}
    for case in chosen.cases:
        truth, n_queries, seed = case.split(":")
        found = kept.setdefault(case, {})
        columns.setdefault(f"{truth}, {n_queries}", []).append(found)
        if not {LIGHTGBM, *ONLINE} <= set(found):
            run(truth, int(n_queries), int(seed), found)
            if chosen.keep:
                chosen.keep.write_text(json.dumps(kept))
    longest = max(columns, key=lambda column: int(column.split(", ")[1]))
    rows = [
        [
            name.replace("|", r"\|"),
            *(cell(by_seed, name) for by_seed in columns.values()),
            f"{columns[longest][-1][name]['seconds']:.1f}",
        ]
        for name in [*ONLINE, LIGHTGBM]
    ]
    save(
        "weblike",
        f"""# One pass over web-like streams

NDCG@10 on 400 held-out queries after one pass, mean over seeds; in parentheses the difference to LightGBM's lambdarank
of {ROUNDS} rounds on the same queries ± its standard error, paired, and the difference of each seed, from 0 on. Each seed is
another truth. Seconds are of one thread, learning, for the last seed. `map` is `StreamQuantileMap()`.
{environment("lightgbm")}

{table(["NDCG@10", *columns, f"seconds, {longest}"], rows)}
""",
    )


if __name__ == "__main__":
    main()
