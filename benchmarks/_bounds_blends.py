"""Sections of `benchmarks.bounds` on real data: blends next to batch weights, and paired intervals."""

import itertools
import math
import time

import numpy as np

from benchmarks._common import table
from benchmarks._data import LIGHTGBM, MQ2008, folds, known_folders, mq2008_parts, offsets_of, queries_of, shuffled
from online_rank import (
    AdditiveRanker,
    BlendRanker,
    LossTracker,
    PerceptronRanker,
    RidgeRanker,
    StreamScaler,
    bounds,
    evaluate,
    read,
)
from online_rank.intervals import LossInterval
from online_rank.stream.synth import Drifting, NoisyTeacher

ORDERS = 3


def streams() -> dict[str, list[list[tuple[np.ndarray, np.ndarray]]]]:
    """Queries by stream and order."""
    found = {}
    for folder in known_folders(MQ2008, LIGHTGBM):
        block = read(*mq2008_parts(folder)).all() if folder.name == MQ2008 else next(folds(folder)).train
        found[folder.name] = [queries_of(*shuffled(block, order)) for order in range(ORDERS)]
    for name, make in (("noisy teacher", NoisyTeacher), ("drifting", Drifting)):
        found[name] = [list(make(800, seed=seed)) for seed in range(2)]
    return found


def before() -> str:
    """What is known before a run of the default: how much its loss may exceed the loss of its best fixed candidate."""
    rows = []
    for name, orders in streams().items():
        model = AdditiveRanker()
        for X, y in orders[0]:
            model.learn_one(X, y)
        c = bounds.certificate_of(model)
        if not c.holds:
            raise SystemExit(f"a certificate fails:\n{c}")
        n, accounts = c.totals["n_counted"], (model.account, model.trees_beside.account)
        gap = max(account.serving_gap for account in accounts)
        excess = (c.loss - c.facts["least_loss"], c.bound("blend_bound") - c.facts["least_loss"], _allowed_before(model, n))
        drawn = sum(int(account.n_drawn) for account in accounts)
        rows.append((name, n, f"{c.loss:.2f}", *(f"{x:.2f}" for x in excess), f"{gap:.2f}", drawn))
    header = ("stream", "n", "served", "excess over the best candidate", "allowed after the run", "allowed before it",
              "largest G of its blends", "draws")  # fmt: skip
    note = (
        "`AdditiveRanker()`, one pass. *Allowed before*: by the number of queries alone, in expectation over the draws, for "
        "the candidate of the curves with the least prior: `blend_closed_bound` with W = T / 4, of the blend of the curves and "
        "of the blend with trees together. Candidates are drawn once G_m exceeds 1."
    )
    return f"{table(header, rows)}\n\n{note}"


def _allowed_before(model: AdditiveRanker, n: int) -> float:
    """The excess that both blends allow in n queries of which nothing is known."""
    parts = (
        (model.candidate_prior.min(), len(model.candidate_prior)),
        (model.trees_beside.prior[0], len(model.trees_beside.prior)),
    )
    return sum(
        bounds.blend_closed_bound(least_loss=0.0, least_cost=-math.log(pi), n_candidates=N, rate=1.0, variance=n / 4)
        for pi, N in parts
    )


def counterexample_of_blends(n: int = 2000) -> str:
    """Two rankers that disagree, and grades against every ranking that a blend serves: how near the loss comes to the bound."""
    one, other = (PerceptronRanker.from_weights(w) for w in ([1.0, 0.0], [0.0, 1.0]))
    model = BlendRanker([one, other], measure="ndcg", grid=4)
    X = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for _ in range(n):
        scores = model.predict_one(X)
        # What is served by the mean is wrong; a draw is not known beforehand, so there the grades alternate.
        wrong = [1, 0] if scores[0] <= scores[1] else [0, 1]
        model.learn_one(X, [model.n_queries % 2, 1 - model.n_queries % 2] if model.draws_candidates else wrong)
    c = bounds.certificate_of(model)
    lost = 1.0 - 1.0 / np.log2(3.0)
    return (
        f"{n:,} queries graded against the ranking that the mean of the candidates serves, in units of one lost query: served "
        f"{c.loss / lost:,.0f}, best fixed blend {c.facts['least_loss'] / lost:,.0f}, certified "
        f"{c.bound('blend_bound') / lost:,.0f}, {c.totals['n_drawn']:,} draws."
    )


def pairs() -> str:
    """Paired intervals on MQ2008 compared with intervals of two single losses, and what an interval costs (statement 12)."""
    rows = []
    for folder in known_folders(MQ2008):
        queries = queries_of(*shuffled(read(*mq2008_parts(folder)).all(), 0))
        models = {
            "default": StreamScaler() | PerceptronRanker(),
            "spread": StreamScaler() | PerceptronRanker(credit="spread"),
            "ridge": StreamScaler() | RidgeRanker(),
            "last weights": StreamScaler() | PerceptronRanker(half_life=0),
        }
        run = evaluate.progressive(queries, models, progress=False)
        for name in list(models)[1:]:
            paired = run.difference("default", name)
            singles = [run.traces[model].served.interval(0.975) for model in ("default", name)]
            single = sum(interval.upper - interval.lower for interval in singles) / 2.0
            half = f"{(paired.upper - paired.lower) / 2.0:.3f}", f"{single:.3f}"
            rows.append((f"default against {name}", paired.n, f"{paired.mean:+.4f}", *half))
        said = "\n".join(f"- {statement}" for statement in run.better()) or "- nothing at 95 %"
    account = LossInterval([1000.0, 300.0, 20.0])
    account.interval()
    start = time.process_time()
    for _ in range(2000):
        account.interval()
    cost = (time.process_time() - start) / 2000 * 1e6
    header = ("models", "n", "difference of mean loss", "half width, paired", "half widths of two single intervals together")
    return (
        f"{table(header, rows)}\n\nSaid of all pairs at once:\n\n{said}\n\nAn interval costs {cost:.1f} µs of processor time."
    )


def tightness() -> str:
    """What certificates say of the default perceptron on real data: V, the limits, and two comparators (statement 3)."""
    rows = []
    for folder in known_folders(MQ2008, LIGHTGBM):
        block = read(*mq2008_parts(folder)).all() if folder.name == MQ2008 else next(folds(folder)).train
        for credit in ("adaptive", "spread"):
            scaler, parts = StreamScaler(), []
            for a, b in itertools.pairwise(offsets_of(block)):
                scaler.learn_one(block.X[a:b])
                parts.append(scaler.transform_one(block.X[a:b]))
            X = np.concatenate(parts)
            best = bounds.batch_weights((X, block.y, block.qid), lam=1e-2, credit="spread", progress=False)
            tracker = LossTracker(PerceptronRanker(credit=credit), {"best": best.weights, "zero": np.zeros(X.shape[1])})
            tracker.learn_many(X, block.y, block.qid)
            c, zero = tracker.certificate("best"), tracker.certificate("zero")
            V = c.totals["mass"]
            rows.append(
                (
                    f"{folder.name}, {credit}", f"{c.loss:.1f}", f"{V:.1f}", f"{V / c.loss:.2f}",
                    f"{zero.bound('mass_hindsight_bound') / V:.3f}", f"{c.pair_loss / V:.3f}",
                    f"{c.bound('mass_hindsight_bound'):.1f}", f"{c.bound('mass_data_bound'):.1f}",
                    f"{c.bound('mass_bound'):,.0f}",
                    f"{c.totals['counted_weight']:.0f}", f"{c.facts['weight_norm'] / V:.3f}",
                )
            )  # fmt: skip
    header = ("run", "loss", "V", "V / loss", "hindsight form at u = 0, of V", "F(u) / V, batch weights", "F(u) + <u, w>",
              "F(u) + ‖u‖ sqrt(Q)", "closed form", "queries counted", "‖w‖ / V: no margin above it")  # fmt: skip
    return table(header, rows)
