"""Losses and their bounds: where the literature's bound fails, where ours is attained, and what certificates say.

    python -m benchmarks.bounds [SECTION ...]

Sections: counterexample, attained, separable, file, theorems, intervals, interval, limits, tightness, hedging, curves, trees,
before, counterexample_of_blends, pairs, exchanges, swaps, generalisation.

Writes a table (benchmarks/results/bounds.md) and figures (benchmarks/results/bounds_*.png). Every section is written as soon as
it is measured, in place of the one that the page has.
"""

import itertools
import math
import time
from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog

from benchmarks._bounds_batch import generalisation
from benchmarks._bounds_blends import before, counterexample_of_blends, pairs, tightness
from benchmarks._bounds_clicks import exchanges
from benchmarks._bounds_intervals import intervals
from benchmarks._bounds_streams import curves, hedging, limits, trees
from benchmarks._bounds_swaps import swaps
from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks._data import MQ2008, Queries, data_folder, mq2008_parts, offsets_of
from benchmarks._figures import Curve, figure, number, saved
from online_rank import (
    AdditiveRanker,
    LossTracker,
    PerceptronRanker,
    SlamRanker,
    StreamScaler,
    batch_weights,
    bounds,
    plot,
    read,
)
from online_rank.base import Ranker
from online_rank.bounds import Certificate, certificate_of
from online_rank.query import query_offsets
from online_rank.stream.synth import Separable
from tests.reference import bound_streams, perceptron

DRIVEN = ("argmax", "spread")


def counterexample() -> str:
    """Theorem 5 of [CT] does not hold for the step that Algorithm 1 is printed with."""
    rows, curves = [], {}
    bound = 0.0
    for a in (1.0, 0.3, 0.1, 0.03, 0.01):
        X, y = a * np.array([[1.0, 0.0], [0.0, 0.0], [0.5, -0.3]]), np.array([2, 1, 0])
        teacher = {"u": np.array([1.0, 5.0]) / a}

        def run(model: Ranker, X: np.ndarray = X, y: np.ndarray = y, u: dict = teacher) -> tuple[Certificate, Curve]:
            tracker = LossTracker(model, u)
            rounds, losses, block = [], [], 1
            while tracker.last_round is None or tracker.last_round.loss:
                tracker.learn_many(np.tile(X, (block, 1)), np.tile(y, block), np.repeat(np.arange(block), 3))
                rounds.append(tracker.totals.n_rounds)
                losses.append(tracker.totals.loss)
                block = max(1, tracker.totals.n_rounds // 20)
            return tracker.certificate(), (rounds, losses)

        v_max = 1.5 / (1.0 / math.log2(3) - 0.5)
        step = bounds.theory_learning_rate(m=3, R_X=a, v_max=v_max)
        bound = bounds.theorem_5(comparator_loss=0.0, norm=math.sqrt(26.0) / a, m=3, R_X=a, v_max=v_max)
        for name, model in (
            ("Algorithm 1, step 1", SlamRanker("ndcg", within_grade="document")),
            ("Algorithm 1, theory step", SlamRanker("ndcg", within_grade="document", learning_rate=step)),
            ("mistake-driven, any step", PerceptronRanker("ndcg", credit="argmax")),
        ):
            certificate, curve = run(model)
            ours = min(check.value for check in certificate.bounds if check.name in ("mass_bound", "any_step_bound"))
            violated = " **violated**" if certificate.loss > bound else ""
            rows.append(
                (
                    name,
                    a,
                    f"{certificate.totals['n_mistakes']:,}",
                    f"{certificate.loss:,.4f}",
                    f"{bound:,.1f}{violated}",
                    number(ours),
                )
            )
            curves[name] = curve
    image = figure(
        "counterexample", "One query, repeated (a = 0.01): Algorithm 1 exceeds Theorem 5", "round",
        curves, {
            # A bound stands over the rounds of the update that it speaks of.
            "Theorem 5, said of Algorithm 1": ([1, 5e5], [bound] * 2),
            "mass theorem, of mistake-driven": ([1, curves["mistake-driven, any step"][0][-1]], [104.0] * 2),
        },
    )  # fmt: skip
    header = ("update", "a", "mistakes until correct", "cumulative loss", "Theorem 5", "true bound")
    note = (
        "The theory step is 1 / (4 m R_X² v_max). The true bound is the any-step bound for Algorithm 1 (`SlamRanker`) and the "
        "mass theorem for the mistake-driven update (`PerceptronRanker`)."
    )
    return f"{table(header, rows)}\n\n{note}\n\n{image}"


def attained() -> str:
    """A stream on which the mass theorem is an equality."""
    rows = []
    for horizon in (10, 50, 200, 1000):
        tracker = LossTracker(PerceptronRanker("ndcg", credit="spread"), {"u": np.full(horizon, 0.5)})
        rounds, losses, limits = [], [], []
        for t in range(horizon):
            X = np.zeros((2, horizon))
            X[:, t] = 1.0, -1.0
            tracker.learn_one(X, [1, 0])
            certificate = tracker.certificate()
            rounds.append(t + 1)
            losses.append(certificate.loss)
            limits.append(certificate.bound("mass_data_bound"))
        closed = certificate.bound("mass_bound")
        rows.append((horizon, *(f"{x:.4f}" for x in (losses[-1], limits[-1], closed)), f"{limits[-1] / losses[-1]:.12f}"))
    curves, dashed = {"loss": (rounds, losses)}, {"data-dependent bound": (rounds, limits)}
    image = figure("attained", "A stream on which the mass theorem is attained (T = 1,000)", "round", curves, dashed)
    header = ("T", "cumulative loss", "data-dependent bound", "closed form", "bound / loss")
    return f"{table(header, rows)}\n\n{image}"


def separable() -> str:
    """Separable streams with margin 0.1: the loss and its bounds over m, T and d."""
    gamma = 0.1
    sizes = [
        (10, 500, 20),
        (100, 500, 20),
        (1000, 200, 20),
        (10_000, 40, 20),
        (50, 100, 20),
        (50, 5000, 20),
        (50, 1000, 5),
        (50, 1000, 200),
    ]
    rows = []
    curves: dict[str, Curve] = {}
    dashed: dict[str, Curve] = {}
    for m, horizon, d in sizes:
        stream = Separable(horizon, n_features=d, n_documents=m, n_grades=3, margin=gamma, seed=m + horizon + d)
        u = {"teacher": stream.teacher / gamma}
        block = stream.block()
        losses, theorem = {}, 0.0
        for name in DRIVEN:
            tracker = LossTracker(PerceptronRanker("ndcg", credit=name), u)
            tracker.learn_many(*block)
            certificate = tracker.certificate()
            if not certificate.holds or certificate.pair_loss > 1e-9:
                raise SystemExit(f"a certificate fails:\n{certificate}")
            losses[name] = certificate.loss
        v_max = tracker.totals.v_max
        step = bounds.theory_learning_rate(m=m, R_X=1.0, v_max=v_max)
        algorithm_1 = LossTracker(SlamRanker("ndcg", learning_rate=step), u)
        algorithm_1.learn_many(*block)
        theorem = bounds.corollary_6(gamma=gamma, m=m, R_X=1.0, v_max=v_max)
        losses["Algorithm 1, theory step"] = algorithm_1.totals.loss
        mass = bounds.mass_separable_bound(gamma=gamma, R_X=1.0)
        rows.append(
            (
                f"m = {m:,}, T = {horizon:,}, d = {d}",
                *map(number, losses.values()),
                number(mass),
                number(theorem),
            )
        )
        if (d, horizon * m <= 400_000) == (20, True) and m != 50:
            for group, entries in (
                (curves, {n: losses[n] for n in ("argmax", "spread", "Algorithm 1, theory step")}),
                (dashed, {"mass theorem": mass, "Corollary 6 of [CT]": theorem}),
            ):
                for name, value in entries.items():
                    group.setdefault(name, ([], []))[0].append(m)
                    group[name][1].append(value)
    image = figure(
        "separable",
        "Separable streams, margin 0.1: only one of the bounds grows with m",
        "documents a query, m",
        curves,
        dashed,
    )
    header = ("stream", *DRIVEN, "Algorithm 1, theory step", "mass theorem 4 R_X²/γ²", "Corollary 6 of [CT]")
    return f"{table(header, rows)}\n\nEvery certificate holds.\n\n{image}"


def trace(tracker: LossTracker, block: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Iterator[int]:
    """Teach the tracker a block in growing parts; yields the number of queries learned so far."""
    X, y, qid = block
    starts = query_offsets(qid, len(y))
    points = np.unique(np.geomspace(1, len(starts) - 1, 60).astype(int))
    for first, stop in itertools.pairwise([0, *points]):
        rows = slice(starts[first], starts[stop])
        tracker.learn_many(X[rows], y[rows], qid[rows])
        yield int(stop)


def certified_run(tracker: LossTracker, block: tuple, shown: str) -> str:
    """Certificates against every comparator after a pass, and a figure of the bounds of one of them along the way."""
    rounds: list[float] = []
    losses: dict[str, list[float]] = {"loss": [], "loss as served": [], "F(u)": []}
    limits: dict[str, list[float]] = {}
    for n in trace(tracker, block):
        rounds.append(n)
        certificate = tracker.certificate(shown)
        for curve, value in zip(
            losses.values(), (certificate.loss, tracker.totals.served_loss, certificate.pair_loss), strict=True
        ):
            curve.append(value)
        # The third, closed form of the bound would leave no room for the rest.
        for check in certificate.bounds[:2]:
            limits.setdefault(check.name.replace("_", " "), []).append(check.value)
    rows = []
    for comparator in tracker.comparators or {}:
        c = tracker.certificate(comparator)
        if not c.holds:
            raise SystemExit(f"a certificate fails:\n{c}")
        rows.append(
            (comparator, *map(number, (c.norm, c.pair_loss, c.surrogate_loss, *(check.value for check in c.bounds[:3]))))
        )
    totals = tracker.totals
    image = figure(
        "file", "MQ2008, one pass; bounds against batch weights", "queries",
        {label: (rounds, y) for label, y in losses.items()}, {label: (rounds, y) for label, y in limits.items()}, log=False,
    )  # fmt: skip
    statements = [check.statement.replace("||", "‖") for check in certificate.bounds[:3]]
    header = ("comparator", "norm", "F(u)", "sum f(u)", *statements)
    text = (
        f"{totals.n_rounds - totals.n_skipped:,} queries with two grades, {totals.n_mistakes:,} with a loss: cumulative loss "
        f"{totals.loss:,.2f}, of the served (averaged) weights {totals.served_loss:,.2f}."
    )
    return f"{text}\n\n{table(header, rows)}\n\n```\n{tracker.certificate(shown)}\n```\n\n{image}"


def _mq2008() -> Queries:
    block = read(*mq2008_parts(data_folder() / MQ2008)).all()
    return Queries(block.X, block.y, offsets_of(block))


def theorems(n: int = 1000) -> str:
    """Every theorem on random and adversarial streams, by a learner that shares no code with the library."""
    rows = []
    for name, (streams, violations, ratio) in bound_streams.run(n).items():
        if violations:
            raise SystemExit(f"{name} is violated")
        rows.append((name, f"{streams:,}", violations, f"{ratio:.3f}"))
    note = "A ratio of 1.000 says that some stream attains the bound: no smaller one is true."
    return f"{table(('statement', 'streams', 'violations', 'largest ratio'), rows)}\n\n{note}"


def interval() -> str:
    """MQ2008, one pass with credit="spread": what was served, with its interval at every time."""
    model, found = StreamScaler() | LossTracker(PerceptronRanker(credit="spread"), measure_served=True), []
    for X, y in _mq2008().queries():
        model.learn_one(X, y)
        found.append(model["LossTracker"].served_interval(0.95))
    ax = plot.served_loss(found)
    return f"{found[-1]}.\n\n{saved(ax, 'interval', 'MQ2008: mean loss of what was served, and its interval')}"


def file() -> str:
    """MQ2008, features standardised on the way, with the weights of a batch learner as comparators."""
    raw, scaler, parts = _mq2008(), StreamScaler(), []
    for X, _ in raw.queries():
        scaler.learn_one(X)
        parts.append(scaler.transform_one(X))
    block = np.concatenate(parts), raw.y, raw.qid
    comparators, rows = {}, []
    for credit, lam in itertools.product(("argmax", "spread"), (1e-1, 1e-2, 1e-3)):
        start = time.perf_counter()
        best = batch_weights(block, measure="ndcg@10", lam=lam, credit=credit)
        seconds = time.perf_counter() - start
        rows.append(
            (
                f"{credit}, λ = {lam:g}",
                f"{best.objective:.4f}",
                f"{best.gap / best.objective:.1e}",
                number(float(np.linalg.norm(best.weights))),
                best.n_evaluations,
                f"{seconds:.1f}",
            )
        )
        if lam == 1e-2:
            comparators[f"batch weights, {credit}"] = best.weights
    tracker = LossTracker(PerceptronRanker(credit="spread", relative_margin=1.0), comparators, measure_served=True)
    header = ("batch weights", "objective", "relative gap", "norm", "passes", "seconds")
    note = (
        "`argmax` is the batch estimator of [CT, eq. 4]. On these grades SLAM has its minimum at w = 0, up to the gap: the "
        "largest hinge over the less relevant documents follows the noise. Against w = 0 a certificate says no more than that "
        "the loss is at most the mass."
    )
    run = certified_run(tracker, block, "batch weights, spread")
    return f"{table(header, rows)}\n\n{note}\n\n{run}\n\n{_least_f(block)}"


def _least_f(block: tuple[np.ndarray, np.ndarray, np.ndarray]) -> str:
    """The smallest F of any weights on the pairs of that run, by a slow learner; and what the default's run says."""
    X, y, qid = block
    w, D, masses, squares = np.zeros(X.shape[1]), [], [], 0.0
    for first, stop in itertools.pairwise(query_offsets(qid, len(y))):
        x, grades, scores = X[first:stop], y[first:stop].tolist(), (X[first:stop] @ w).tolist()
        loss = perceptron.loss("ndcg@10", scores, grades) if len(set(grades)) > 1 else 0.0
        if loss <= 1e-15:
            continue
        margin = squares / sum(masses) if masses else 0.0
        weights = perceptron.pair_weights(
            "spread", perceptron.weights("ndcg@10", "mean", scores, grades), scores, grades, margin
        )
        pairs, a = [*zip(*weights, strict=True)], np.array([*weights.values()])
        a *= loss / a.sum()
        D.append(x[list(pairs[0])] - x[list(pairs[1])])
        masses += a.tolist()
        z = a @ D[-1]
        w, squares = w + z, squares + float(z @ z)
    V, a = sum(masses), np.array(masses)
    D = np.concatenate(D)
    # The dual: the most mass, of each pair at most its own, whose differences cancel. Its marginals are the weights.
    least = linprog(-np.ones(len(a)), A_eq=D.T, b_eq=np.zeros(D.shape[1]), bounds=np.stack((np.zeros(len(a)), a), 1))
    norm = float(np.linalg.norm(least.eqlin.marginals))
    model = AdditiveRanker()
    raw = _mq2008()
    model.learn_many(raw.X, raw.y, raw.qid)
    certificate = certificate_of(model)
    limit = certificate.facts["weight_norm"] / certificate.totals["mass"]
    return (
        f"On the pairs of the same run the smallest F of any weights is {-least.fun / V:.3f} V, by linear programming; these "
        f"weights have norm {norm:.1f}. `AdditiveRanker()` on the raw features: served loss {certificate.loss:.1f}, best "
        f"fixed candidate {certificate.facts['least_loss']:.1f}, V = {certificate.totals['mass']:.1f}; no sum of curves of "
        f"norm 1 has a margin above {limit:.2f} on all of its pairs."
    )


SECTIONS = (
    counterexample, attained, separable, file, theorems, intervals, interval, limits, tightness, hedging, curves, trees,
    before, counterexample_of_blends, pairs, exchanges, swaps, generalisation,
)  # fmt: skip


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("sections", nargs="*", help="which to run; all if none is named")
    chosen = arguments.parse_args().sections
    RESULTS.mkdir(exist_ok=True)
    head = f"# Bounds\n\n{environment('scipy')}"
    for section in SECTIONS:
        if not chosen or section.__name__ in chosen:
            start = time.perf_counter()
            save("bounds", f"{head}\n\n## {section.__doc__}\n\n{section()}", part=True)
            print(f"{section.__name__}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
