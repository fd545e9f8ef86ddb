"""Learners of one stream that are killed again and again: every query is in the last mix, once."""

import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks._common import in_memory
from benchmarks._learners import in_processes
from online_rank import PerceptronRanker, StreamScaler
from online_rank.distributed.learners import Learner, exchange_at
from tests.campaigns.found import Found
from tests.helpers import linear_queries


def make():
    return StreamScaler() | PerceptronRanker()


def run_alone(folder: Path, queries: list) -> None:
    """Learn some queries as the only learner."""
    learner = Learner(exchange_at(folder / "exchange"), make(), number=0, of=1, seconds=1e9)
    for offset, (X, y) in enumerate(queries):
        learner.learn(X, y, partition=0, offset=offset)
    learner.exchange()


def kill_learners(n_kills: int, seed: int = 0, *, of: int = 2, n_queries: int = 600, seconds: float = 0.2) -> Found:
    """Kill one of the learners at random instants, this many times; then let them come to the end."""
    found, n = Found(), 0
    while found.counts["kills"] < n_kills:
        queries = linear_queries(n_queries, seed=random.Random(seed + n).randrange(1 << 30))
        # Kernels are loaded before the first process begins; otherwise all are killed before they have learned anything.
        with in_memory() as folder:
            run_alone(folder, queries[:3])
        with in_memory() as folder:
            last, killed, _, again = in_processes(
                folder / "exchange",
                make,
                queries,
                of,
                seconds=seconds,
                pause=0.003,
                n_kills=n_kills - found.counts["kills"],
                seed=seed + n,
            )
        n += 1
        documents = np.concatenate([X for X, _ in queries])
        scaler = last.model["StreamScaler"]
        found.count(kills=killed, learned=last.n_queries, rounds=last.round, again=again - n_queries)
        found.expect(last.n_queries == n_queries, f"seed {seed}: {last.n_queries} of {n_queries} queries were learned")
        found.expect(last.offsets == {k: len(queries[k::of]) for k in range(of)}, f"seed {seed}: other offsets: {last.offsets}")
        found.expect(scaler.n_documents == len(documents), f"seed {seed}: {scaler.n_documents} of {len(documents)} documents")
        # One query in place of another would be another mean.
        same = scaler.means == pytest.approx(documents.mean(axis=0), rel=1e-9, abs=1e-12)
        found.expect(bool(same), f"seed {seed}: other queries were learned")
    return found
