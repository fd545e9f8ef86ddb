"""Random and adversarial streams on which the theorems of `online_rank.bounds` are checked, by an independent slow learner.

    python -m tests.reference.bound_streams [1000]

prints for each theorem the number of streams, of violations, and the largest ratio of loss to bound. Nothing of the library's
rankers or kernels is used: a stream is learned here by the equations, with random weights on random violated pairs.
"""

import math
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from online_rank import KernelPerceptronRanker, SlamRanker
from online_rank.bounds.declaration import BOUNDS, declare_for
from tests.reference import perceptron

declare_for(KernelPerceptronRanker, SlamRanker)

#: Every declared bound, by name.
bounds = SimpleNamespace(**{name: declared.value for name, declared in BOUNDS.items()})

KINDS = ("random", "ties", "teacher", "adversary", "axes")


class Check(NamedTuple):
    """On one stream `smaller` is at most `larger`, says a theorem; `size` is what was added up, which rounding goes by."""

    name: str
    smaller: float
    larger: float
    size: float

    @property
    def violated(self) -> bool:
        return self.smaller > self.larger + 1e-9 * self.size

    @property
    def ratio(self) -> float:
        return self.smaller / self.larger if self.larger > 1e-9 * self.size else 0.0


class Query(NamedTuple):
    X: np.ndarray
    y: np.ndarray


class Update(NamedTuple):
    """What a round did: its loss by the scores that count, pair weights a_ij, direction g and margin tau."""

    loss: float
    a: np.ndarray
    g: np.ndarray
    tau: float

    @property
    def mass(self) -> float:
        return float(self.a.sum())


class Sums:
    """Everything that the bounds are functions of, added up round by round against one comparator for each round."""

    def __init__(self) -> None:
        self.loss = self.V = self.F = self.squares = self.margin = self.R = self.B = 0.0

    def add(self, query: Query, update: Update, u: np.ndarray, part: float = 1.0) -> None:
        self.loss += part * update.loss
        self.V += part * update.mass
        self.F += part * hinge(update.a, query.X @ u)
        self.squares += part * float(update.g @ update.g)
        self.margin += part * update.tau * update.mass
        self.R = max(self.R, float(np.linalg.norm(query.X, axis=1).max()))
        self.B = max(self.B, update.mass)

    def arguments(self, *names: str) -> dict[str, float]:
        values = {
            "comparator_loss": self.F,
            "squared_gradient_norms": self.squares,
            "margin_mass": self.margin,
            "R_X": self.R,
            "largest_mass": self.B,
        }
        return {name: values[name] for name in names}


def served_data(F: float, norm: float, squares: float, margin: float, lag: float) -> float:
    """The served-weights theorem with measured norms (`online_rank.bounds.served`); up to rounding the root is above 0."""
    return F + norm * math.sqrt(max(0.0, squares + 2.0 * margin + 2.0 * lag))


def delay_data(F: float, norm: float, R: float, B: float, mass: float, delayed_mass: float, beta: float = 0.0) -> float:
    """Late grades with measured delays (`online_rank.bounds.served`): masses V_t, and V_t D_t."""
    return F + norm * R * math.sqrt(4.0 * B * (1.0 + 2.0 * beta) * mass + 8.0 * B * delayed_mass)


def path_length(u: np.ndarray) -> float:
    """P, the sum of the ||u_{t+1} - u_t||, of comparators (T, d)."""
    return float(np.linalg.norm(np.diff(u, axis=0), axis=1).sum())


def mixing_penalty(masses: list[np.ndarray]) -> float:
    """kappa, the largest (sum_k V)^2 / sum_k V^2 of a period with a mass."""
    found = [float(V.sum() ** 2 / (V * V).sum()) for V in masses if V.sum() > 0.0]
    return max(found, default=1.0)


DATA = ("comparator_loss", "squared_gradient_norms", "margin_mass")
CLOSED = ("comparator_loss", "R_X", "largest_mass")


def of_mass(beta: float, largest_mass: float) -> float:
    """The beta of a margin beta sum ||z||^2 / sum V that may be as large as the fixed one of these streams, beta R_X^2."""
    return beta / (4.0 * largest_mass) if largest_mass > 0.0 else 0.0


def hinge(a: np.ndarray, scores: np.ndarray) -> float:
    """F_t(u): sum of a_ij max(0, 1 - (u-score of i - u-score of j))."""
    return float((a * np.maximum(0.0, 1.0 - (scores[:, None] - scores[None, :]))).sum())


def direction(a: np.ndarray, X: np.ndarray) -> np.ndarray:
    """g = sum a_ij (x_i - x_j)."""
    return (a.sum(axis=1) - a.sum(axis=0)) @ X


def update(stream: "Stream", query: Query, scores: np.ndarray, tau: float = 0.0) -> Update:
    """Random weights on a random part of the violated pairs, with a mass between the loss and 1; on the axes, the loss."""
    rng, exact = stream.rng, stream.kind == "axes"
    X, y = query
    m = len(y)
    loss = perceptron.loss("ndcg", scores.tolist(), y.tolist()) if len(set(y.tolist())) > 1 else 0.0
    nothing = Update(0.0, np.zeros((m, m)), np.zeros(X.shape[1]), tau)
    if loss <= 1e-12:
        return nothing
    violated = (y[:, None] > y[None, :]) & (scores[None, :] >= scores[:, None] - tau)
    a = violated * rng.random((m, m)) * (rng.random((m, m)) < rng.choice([0.3, 1.0]))
    if not a.any():
        a = violated * 1.0
    mass = loss if exact or rng.random() < 0.5 else rng.uniform(loss, 1.0)
    a *= mass / a.sum()
    return Update(loss, a, direction(a, X), tau)


class Stream:
    """A stream of queries; `adversary` puts the grades against the scores, `axes` is the stream that attains the bounds."""

    def __init__(self, rng: np.random.Generator, kind: str | None = None) -> None:
        self.rng = rng
        self.kind = kind or str(rng.choice(KINDS))
        self.T = int(rng.integers(1, 31))
        self.d = self.T if self.kind == "axes" else int(rng.integers(1, 6))
        self.scale = float(rng.choice([0.1, 1.0, 10.0]))
        self.teacher = rng.normal(size=self.d)
        self.t = 0
        if self.kind == "axes":
            self.u = np.full(self.d, 0.5 / self.scale)
        else:
            self.u = self.teacher * float(rng.choice([0.3, 1.0, 5.0])) / self.scale
            if rng.random() < 0.2:
                self.u = rng.normal(size=self.d) / self.scale

    def query(self, axis: int | None = None) -> Query:
        """The next query; grades are all 0 for the adversary to set."""
        rng = self.rng
        axis = self.t if axis is None else axis
        self.t += 1
        if self.kind == "axes":
            X = np.zeros((2, self.d))
            X[:, axis] = self.scale, -self.scale
            return Query(X, np.array([1, 0]))
        m = int(rng.integers(2, 7))
        X = rng.integers(-2, 3, (m, self.d)).astype(float) if self.kind == "ties" else rng.normal(size=(m, self.d))
        y = rng.integers(0, 4, m)
        if self.kind == "teacher":
            y = np.clip(np.rint(X @ self.teacher + 0.3 * rng.normal(size=m) + 1), 0, 4).astype(int)
        return Query(self.scale * X, y)

    def graded(self, query: Query, scores: np.ndarray) -> Query:
        if self.kind != "adversary":
            return query
        return Query(query.X, np.argsort(np.argsort(-scores)) % 4)

    def path(self) -> np.ndarray:
        """Comparators (T, d) that change now and then."""
        changes = self.rng.random((self.T, 1)) < 0.3
        steps = self.rng.normal(size=(self.T, self.d)) * changes * float(self.rng.choice([0.0, 0.1, 1.0]))
        return self.u + np.cumsum(steps, axis=0) / self.scale


def margin(rng: np.random.Generator, beta: float, query: Query, R: float) -> float:
    """Some tau_t between 0 and beta R_X^2, R_X the largest norm so far."""
    R = max(R, float(np.linalg.norm(query.X, axis=1).max()))
    return beta * R * R * float(rng.choice([0.0, rng.random(), 1.0]))


def learn_query(stream: Stream, t: int, served: np.ndarray, beta: float, sums: Sums, u: np.ndarray) -> Update:
    """What is learned from query `t`, ranked by the weights `served`, with some margin; `sums` get it, against `u`."""
    query = stream.query(t)
    scores = query.X @ served
    query = stream.graded(query, scores)
    step = update(stream, query, scores, margin(stream.rng, beta, query, sums.R))
    sums.add(query, step, u)
    return step


def master(rng: np.random.Generator) -> Iterator[Check]:
    """Any pairs, any weights, any errors, any comparators."""
    stream = Stream(rng)
    u, w, last = stream.path(), np.zeros(stream.d), None
    sums, path, errors = Sums(), 0.0, 0.0
    for t in range(stream.T):
        query = stream.query(t)
        m = len(query.y)
        a = rng.random((m, m)) * (rng.random((m, m)) < 0.5)
        np.fill_diagonal(a, 0.0)
        e = rng.normal(size=stream.d) * rng.choice([0.0, 1.0])
        if last is not None:
            path += float((u[t] - last) @ w)
        last = u[t]
        sums.add(query, Update(0.0, a, direction(a, query.X), 0.0), u[t])
        errors += float(u[t] @ e)
        w = w + direction(a, query.X) - e
    product = float(u[-1] @ w)
    larger = bounds.master_bound(comparator_loss=sums.F, inner_product=product, path_product=path, error_product=errors)
    yield Check("master_bound", sums.V, larger, sums.F + abs(product) + abs(path) + abs(errors))


def served(rng: np.random.Generator) -> Iterator[Check]:
    """Served by a copy that is old, rounded or disturbed."""
    stream = Stream(rng)
    beta = float(rng.choice([0.0, 0.5, 2.0]))
    mode, keep = rng.choice(["stale", "rounded", "random", "same"]), int(rng.integers(1, 8))
    w, v, sums, lag = np.zeros(stream.d), np.zeros(stream.d), Sums(), 0.0
    for t in range(stream.T):
        if mode == "same" or (mode == "stale" and t % keep == 0):
            v = w
        elif mode == "rounded":
            v = np.rint(w / (0.3 * stream.scale)) * 0.3 * stream.scale
        elif mode == "random":
            v = w + rng.normal(size=stream.d) * stream.scale
        step = learn_query(stream, t, v, beta, sums, stream.u)
        lag += float((w - v) @ step.g)
        w = w + step.g
    norm, product = float(np.linalg.norm(stream.u)), float(stream.u @ w)
    size = sums.F + norm * float(np.linalg.norm(w))
    exact = bounds.mass_hindsight_bound(comparator_loss=sums.F, inner_product=product)
    data = served_data(sums.F, norm, sums.squares, sums.margin, lag)
    yield Check("mass_hindsight_bound, served weights", sums.V, exact, size)
    yield Check("served weights, measured", exact, data, size + norm * math.sqrt(sums.squares))
    yield Check("loss of what was served", sums.loss, data, size + norm * math.sqrt(sums.squares))


def averaged(rng: np.random.Generator) -> Iterator[Check]:
    """Served by the average, which learns from its own mistakes."""
    stream = Stream(rng)
    half_life, beta = float(rng.choice([0.5, 1.0, 3.0, 20.0])), float(rng.choice([0.0, 1.0]))
    w, v, count, sums = np.zeros(stream.d), np.zeros(stream.d), 0.0, Sums()
    for t in range(stream.T):
        step = learn_query(stream, t, v, beta, sums, stream.u)
        w = w + step.g
        count = 0.5 ** (1.0 / half_life) * count + 1.0
        v = v + (w - v) / count
    norm = float(np.linalg.norm(stream.u))
    larger = bounds.averaged_bound(
        norm=norm, half_life=half_life, relative_margin=of_mass(beta, sums.B), **sums.arguments(*CLOSED)
    )
    yield Check("averaged_bound", sums.V, larger, larger)


def drift(rng: np.random.Generator) -> Iterator[Check]:
    """The unchanged algorithm against a path of comparators."""
    stream = Stream(rng)
    beta, u = float(rng.choice([0.0, 1.0])), stream.path()
    w, sums, path, largest = np.zeros(stream.d), Sums(), 0.0, 0.0
    for t in range(stream.T):
        path += float((u[t] - u[t - 1]) @ w) if t else 0.0
        step = learn_query(stream, t, w, beta, sums, u[t])
        w = w + step.g
        largest = max(largest, float(np.linalg.norm(w)))
    norm, P = float(np.linalg.norm(u[-1])), path_length(u)
    exact = bounds.master_bound(comparator_loss=sums.F, inner_product=float(u[-1] @ w), path_product=path)
    by_norms = sums.F + norm * float(np.linalg.norm(w)) + P * largest
    data = bounds.path_data_bound(norm=norm, path_length=P, **sums.arguments(*DATA))
    closed = bounds.path_bound(norm=norm, path_length=P, relative_margin=of_mass(beta, sums.B), **sums.arguments(*CLOSED))
    size = sums.F + data
    yield Check("master_bound, moving", sums.V, exact, size)
    yield Check("moving, with the norms of the weights", exact, by_norms, size)
    yield Check("path_data_bound", by_norms, data, size)
    yield Check("path_bound", sums.V, closed, closed)


def capped(rng: np.random.Generator) -> Iterator[Check]:
    """Weights that are scaled down to kappa sqrt(Q)."""
    stream = Stream(rng)
    beta, kappa, u = float(rng.choice([0.0, 1.0])), float(rng.choice([0.05, 0.2, 0.5, 1.0])), stream.path()
    w, sums = np.zeros(stream.d), Sums()
    for t in range(stream.T):
        step = learn_query(stream, t, w, beta, sums, u[t])
        w = w + step.g
        norm, largest = float(np.linalg.norm(w)), kappa * math.sqrt(sums.squares + 2.0 * sums.margin)
        w = w * min(1.0, largest / norm) if norm else w
    U = float(np.linalg.norm(u, axis=1).max())
    larger = bounds.capped_bound(largest_norm=U, path_length=path_length(u), cap=kappa, **sums.arguments(*DATA))
    yield Check("capped_bound", sums.V, larger, larger)


def scaler(rng: np.random.Generator) -> Iterator[Check]:
    """Behind a scaler that moves: one comparator on raw features."""
    stream = Stream(rng)
    w, sums, scales, path, last = np.zeros(stream.d), Sums(), [], 0.0, None
    centre, scale = np.zeros(stream.d), np.ones(stream.d)
    for t in range(stream.T):
        raw = stream.query(t)
        if rng.random() < 0.5:
            scale = scale * np.exp(0.3 * rng.normal(size=stream.d))
            centre = centre + rng.normal(size=stream.d)
        scales.append(scale)
        query = Query((raw.X - centre) / scale, raw.y)
        scores = query.X @ w
        query = stream.graded(query, scores)
        step = update(stream, query, scores)
        u = scale * stream.u
        path += float((u - last) @ w) if last is not None else 0.0
        last = u
        sums.add(query, step, u)
        # The same loss, measured on raw features.
        assert math.isclose(hinge(step.a, query.X @ u), hinge(step.a, raw.X @ stream.u), rel_tol=1e-7, abs_tol=1e-9)
        w = w + step.g
    P = path_length(np.array(scales) * stream.u)
    norm = float(np.linalg.norm(last))
    exact = bounds.master_bound(comparator_loss=sums.F, inner_product=float(last @ w), path_product=path)
    data = bounds.path_data_bound(norm=norm, path_length=P, **sums.arguments(*DATA))
    yield Check("master_bound behind a scaler", sums.V, exact, sums.F + data)
    yield Check("path_data_bound behind a scaler", exact, data, sums.F + data)


def delays(rng: np.random.Generator, T: int) -> list[tuple[int, bool]]:
    """Events (query, whether its grades come): every query is served once, and its grades come later, in some order."""
    kind = rng.choice(["constant", "random", "heavy", "blocks"])
    if kind == "blocks":
        D = int(rng.integers(1, 6))
        late = [(t // D + 1) * D for t in range(T)]
    else:
        D = int(rng.integers(0, 8))
        draw = {
            "constant": lambda: D,
            "random": lambda: int(rng.integers(0, D + 1)),
            "heavy": lambda: int(min(rng.pareto(1.0), T)),
        }[str(kind)]
        late = [t + 1 + draw() for t in range(T)]
    events = [(t, 1, t, False) for t in range(T)] + [(late[t], 0, t, True) for t in range(T)]
    return [(query, arrival) for _, _, query, arrival in sorted(events)]


def delayed(rng: np.random.Generator) -> Iterator[Check]:
    """Grades that come late; pairs of the scores that were served."""
    stream = Stream(rng)
    beta = float(rng.choice([0.0, 1.0]))
    # On the axes every query is asked a few times before its grades come.
    copies = int(rng.integers(1, 5)) if stream.kind == "axes" else 1
    plan = delays(rng, stream.T) if copies == 1 else blocks(stream.T, copies)
    w, sums, lag, late, D = np.zeros(stream.d), Sums(), 0.0, 0.0, 0
    waiting: dict[int, tuple[Query, np.ndarray]] = {}
    for number, arrival in plan:
        if not arrival:
            query = stream.query(number // copies)
            waiting[number] = stream.graded(query, query.X @ w), w
            continue
        query, v = waiting.pop(number)
        step = update(stream, query, query.X @ v, margin(rng, beta, query, sums.R))
        sums.add(query, step, stream.u)
        lag += float((w - v) @ step.g)
        late += len(waiting) * step.mass
        D = max(D, len(waiting) if step.mass else 0)
        w = w + step.g
    norm, product = float(np.linalg.norm(stream.u)), float(stream.u @ w)
    exact = bounds.mass_hindsight_bound(comparator_loss=sums.F, inner_product=product)
    measured = served_data(sums.F, norm, sums.squares, sums.margin, lag)
    numbers = sums.arguments(*CLOSED) | {"norm": norm, "relative_margin": of_mass(beta, sums.B)}
    data = delay_data(sums.F, norm, sums.R, sums.B, sums.V, late, of_mass(beta, sums.B))
    closed = bounds.delay_bound(delay=D, **numbers)
    yield Check("mass_hindsight_bound, late grades", sums.V, exact, sums.F + data)
    yield Check("served weights, measured, late grades", sums.V, measured, sums.F + data)
    yield Check("late grades, with measured delays", max(sums.loss, measured), data, sums.F + data)
    yield Check("delay_bound", sums.V, closed, closed)


def blocks(T: int, copies: int) -> list[tuple[int, bool]]:
    """Every query `copies` times, before the grades of all of these come."""
    plan = []
    for t in range(T):
        numbers = range(t * copies, (t + 1) * copies)
        plan += [(number, False) for number in numbers] + [(number, True) for number in numbers]
    return plan


def mixing(rng: np.random.Generator) -> Iterator[Check]:
    """K machines, mixed uniformly, by mass, or by any weights; with the same shard they attain the factor."""
    for how in ("uniform", "mass", "any"):
        yield from mixed(rng, how, int(rng.integers(1, 6)))


def mixed(rng: np.random.Generator, how: str, K: int) -> Iterator[Check]:
    """One way of mixing."""
    lockstep = bool(rng.random() < 0.3)
    stream = Stream(rng, "axes" if lockstep else None)
    beta = float(rng.choice([0.0, 1.0]))
    w, gains, total, weighted, masses = np.zeros(stream.d), np.zeros(stream.d), Sums(), Sums(), []
    t = 0
    while t < stream.T:
        length = int(rng.integers(1, 5))
        queries = [stream.query(min(s, stream.T - 1)) for s in range(t, min(t + length, stream.T))]
        t += length
        shards = []
        for _ in range(K):
            own, rounds = w, []
            for query in queries if lockstep else [stream.query(min(stream.t % stream.T, stream.T - 1)) for _ in queries]:
                scores = query.X @ own
                query = stream.graded(query, scores)
                step = update(stream, query, scores, 0.0 if lockstep else margin(rng, beta, query, total.R))
                total.add(query, step, stream.u)
                rounds.append((query, step))
                own = own + step.g
            shards.append((own - w, rounds))
        V = np.array([sum(step.mass for _, step in rounds) for _, rounds in shards])
        mu = np.full(K, 1.0 / K)
        if how == "mass" and V.sum():
            mu = V / V.sum()
        elif how == "any":
            mu = rng.dirichlet(np.ones(K))
        for part, (_, rounds) in zip(mu, shards, strict=True):
            for query, step in rounds:
                weighted.add(query, step, stream.u, float(part))
        masses.append(V)
        gains += sum(gain for gain, _ in shards)
        w = w + sum(part * gain for part, (gain, _) in zip(mu, shards, strict=True))
    norm, product = float(np.linalg.norm(stream.u)), float(stream.u @ gains)
    exact = bounds.mass_hindsight_bound(comparator_loss=total.F, inner_product=product)
    yield Check("mass_hindsight_bound, machines", total.V, exact, total.F + abs(product))
    larger = bounds.mixing_data_bound(norm=norm, n_machines=1, **weighted.arguments(*DATA))
    yield Check(f"mixing_data_bound, weighted by mu ({how})", weighted.V, larger, larger)
    if how == "any":
        return
    # By mass, kappa times the bounds of the weighted sums.
    sums, machines, factor = (total, K, 1.0) if how == "uniform" else (weighted, 1, mixing_penalty(masses))
    data = factor * bounds.mixing_data_bound(norm=norm, n_machines=machines, **sums.arguments(*DATA))
    sizes = {**total.arguments("R_X", "largest_mass"), "relative_margin": of_mass(beta, total.B)}
    closed = factor * bounds.mixing_bound(comparator_loss=sums.F, norm=norm, n_machines=machines, **sizes)
    yield Check(f"mixing_data_bound, {how}", total.V, data, data)
    yield Check(f"mixing_bound, {how}", total.V, closed, closed)


def clicked(rng: np.random.Generator) -> Iterator[Check]:
    """Clicks with known propensities: pathwise."""
    yield from click_checks(click_run(rng, Stream(rng)))


class ClickRun(NamedTuple):
    """What a run over clicks adds up to: pathwise and, without the hat, with relevances in place of c / p."""

    estimate: float
    pair_loss: float
    squares: float
    product: float
    cost: float
    relevance_loss: float
    R: float
    B: float
    norm: float


def click_run(rng: np.random.Generator, stream: Stream) -> ClickRun:
    w, u = np.zeros(stream.d), stream.u
    estimate = F = squares = cost = relevance_loss = R = B = 0.0
    by_rank = bool(stream.T % 2)
    for t in range(stream.T):
        query = stream.query(t)
        X, s = query.X, query.X @ w
        m = len(s)
        relevance = query.y / 4.0
        rank = (s[None, :] >= s[:, None]).sum(axis=1).astype(float)
        lam = rank - 1.0 if by_rank else 1.0 - 1.0 / np.log2(rank + 1.0)
        p = 1.0 / (1.0 + 0.5 * (rank - 1.0))
        clicks = rng.random(m) < p * relevance
        above = (s[None, :] >= s[:, None]) & ~np.eye(m, dtype=bool)
        unit = above * np.where(rank > 1.0, lam / np.maximum(rank - 1.0, 1.0), 0.0)[:, None]
        a = unit * (clicks / p)[:, None]
        mass = float((clicks * lam / p).sum())
        assert math.isclose(float(a.sum()), mass, abs_tol=1e-9)
        estimate += mass
        F += hinge(a, X @ u)
        relevance_loss += hinge(unit * relevance[:, None], X @ u)
        cost += float((relevance * lam).sum())
        g = direction(a, X)
        squares += float(g @ g)
        R, B = max(R, float(np.linalg.norm(X, axis=1).max())), max(B, float((lam / p).sum()))
        w = w + g
    return ClickRun(estimate, F, squares, float(u @ w), cost, relevance_loss, R, B, float(np.linalg.norm(u)))


def click_checks(run: ClickRun) -> Iterator[Check]:
    exact = bounds.mass_hindsight_bound(comparator_loss=run.pair_loss, inner_product=run.product)
    data = bounds.mass_data_bound(comparator_loss=run.pair_loss, norm=run.norm, squared_gradient_norms=run.squares)
    closed = bounds.click_bound(comparator_loss=run.pair_loss, norm=run.norm, R_X=run.R, largest_mass=run.B)
    size = run.pair_loss + data
    yield Check("mass_hindsight_bound, clicks", run.estimate, exact, size)
    yield Check("mass_data_bound, clicks", exact, data, size)
    yield Check("click_bound", run.estimate, closed, closed)


def clicks_in_expectation(seed: int, repeats: int = 60) -> Iterator[Check]:
    """The mean over repeats of one stream, allowing for four standard errors of the difference."""
    runs = []
    for repeat in range(repeats):
        # The same queries in every repeat; only the clicks are drawn again.
        stream = Stream(np.random.default_rng(seed), "teacher")
        runs.append(click_run(np.random.default_rng([seed, repeat]), stream))
    mean = ClickRun(*np.mean(runs, axis=0).tolist())
    differences = [r.cost - r.relevance_loss - r.norm * math.sqrt(r.squares) for r in runs]
    slack = 4.0 * float(np.std(differences)) / math.sqrt(repeats)
    data = bounds.mass_data_bound(comparator_loss=mean.relevance_loss, norm=mean.norm, squared_gradient_norms=mean.squares)
    yield Check("mass_data_bound, clicks, in expectation", mean.cost, data + slack, data)


def truncated(rng: np.random.Generator) -> Iterator[Check]:
    """Rounded and pruned weights."""
    stream = Stream(rng)
    w, sums, errors = np.zeros(stream.d), Sums(), 0.0
    unit, prune = stream.scale * float(rng.choice([1e-3, 0.1])), bool(rng.random() < 0.5)
    for t in range(stream.T):
        query = stream.query(t)
        scores = query.X @ w
        query = stream.graded(query, scores)
        step = update(stream, query, scores)
        sums.add(query, step, stream.u)
        full = w + step.g
        w = np.where(np.abs(full) < unit, 0.0, full) if prune else np.rint(full / unit) * unit
        errors += float(np.linalg.norm(full - w))
    norm = float(np.linalg.norm(stream.u))
    larger = bounds.mass_hindsight_bound(comparator_loss=sums.F, inner_product=float(stream.u @ w)) + norm * errors
    yield Check("cut weights", sums.V, larger, sums.F + norm * float(np.linalg.norm(w)) + norm * errors)


def projected(rng: np.random.Generator) -> Iterator[Check]:
    """Updates projected on the stored ones, where the residual is small."""
    stream = Stream(rng)
    eta = stream.scale * float(rng.choice([0.0, 0.2, 1.0]))
    beta = float(rng.choice([0.0, 1.0]))
    w, basis, sums = np.zeros(stream.d), np.zeros((0, stream.d)), Sums()
    for t in range(stream.T):
        step = learn_query(stream, t, w, beta, sums, stream.u)
        inside = step.g @ basis.T @ basis
        residual = step.g - inside
        size = float(np.linalg.norm(residual))
        if size <= max(eta * step.mass, 1e-12 * float(np.linalg.norm(step.g))):
            w = w + inside
        else:
            # Twice: what Gram and Schmidt leave over must be orthogonal.
            residual = residual - residual @ basis.T @ basis
            basis = np.vstack([basis, residual / np.linalg.norm(residual)])
            w = w + step.g
    norm = float(np.linalg.norm(stream.u))
    kept = 1.0 - eta * norm
    larger = bounds.mass_data_bound(norm=norm, **sums.arguments(*DATA)) / kept if kept > 0.0 else math.inf
    yield Check("projected updates", sums.V, larger, larger if math.isfinite(larger) else 1.0)


def running_margin(rng: np.random.Generator) -> Iterator[Check]:
    """tau is beta times the mean squared update for its mass."""
    stream = Stream(rng)
    beta = float(rng.choice([0.1, 0.3, 1.0, 3.0]))
    w, sums, largest = np.zeros(stream.d), Sums(), 0.0
    for t in range(stream.T):
        query = stream.query(t)
        scores = query.X @ w
        query = stream.graded(query, scores)
        tau = beta * sums.squares / sums.V if sums.V else 0.0
        largest = max(largest, tau)
        step = update(stream, query, scores, tau)
        sums.add(query, step, stream.u)
        w = w + step.g
    norm = float(np.linalg.norm(stream.u))
    data = bounds.mass_data_bound(norm=norm, **sums.arguments(*DATA))
    closed = bounds.mass_bound(norm=norm, relative_margin=beta, **sums.arguments(*CLOSED))
    yield Check("mass_data_bound with a running margin", sums.V, data, data)
    yield Check("mass_bound", sums.V, closed, closed)
    yield Check("running margin", largest, 4.0 * beta * sums.B * sums.R**2, 4.0 * beta * sums.B * sums.R**2)


def signed(rng: np.random.Generator) -> Iterator[Check]:
    """Weights projected onto a cone of signs that holds the comparator, and the initial weights."""
    stream = Stream(rng)
    beta, kappa = float(rng.choice([0.0, 0.5])), float(rng.choice([0.0, 0.3]))
    signs = np.sign(stream.u) * (rng.random(stream.d) < 0.7)
    beginning = float(rng.choice([0.0, 1.0])) * np.abs(rng.normal(size=stream.d)) * np.sign(stream.u) / stream.scale
    beginning = np.zeros(stream.d) if kappa else beginning
    w, sums = beginning.copy(), Sums()
    for t in range(stream.T):
        step = learn_query(stream, t, w, beta, sums, stream.u)
        w = w + step.g
        if kappa:
            largest = kappa * math.sqrt(sums.squares + 2.0 * sums.margin)
            w = w * min(1.0, largest / max(float(np.linalg.norm(w)), 1e-300))
        for j in range(stream.d):
            if w[j] * signs[j] < 0.0:
                w[j] = 0.0
    norm, begun = float(np.linalg.norm(stream.u)), float(np.linalg.norm(beginning))
    if kappa:
        larger = bounds.capped_bound(largest_norm=norm, path_length=0.0, cap=kappa, **sums.arguments(*DATA))
        yield Check("capped_bound with signs", sums.V, larger, larger)
        return
    gains = float(stream.u @ (w - beginning))
    yield Check("hindsight with signs", sums.V, sums.F + gains, sums.F + norm * float(np.linalg.norm(w)) + norm * begun)
    larger = bounds.beginning_data_bound(
        norm=norm, beginning_norm=begun, beginning_product=float(stream.u @ beginning), **sums.arguments(*DATA)
    )
    yield Check("mass_data_bound with signs", sums.V, larger, sums.F + norm * begun + larger)


THEOREMS = (
    master, served, averaged, drift, capped, scaler, delayed, mixing, clicked, truncated, projected, running_margin,
    signed,
)  # fmt: skip


def delayed_to_the_point(T: int, D: int) -> tuple[float, float, float]:
    """The stream that attains the delayed bound: served loss, bound with measured delays, exact form."""
    w, V, late = np.zeros(T), 0.0, 0.0
    c = 1.0 - 1.0 / math.log2(3)
    for t in range(T):
        assert w[t] == 0.0
        for waiting in range(D, -1, -1):
            w[t] += 2.0 * c
            V += c
            late += c * waiting
    u = np.full(T, 0.5)
    data = delay_data(0.0, float(np.linalg.norm(u)), 1.0, c, V, late)
    return V, data, bounds.mass_hindsight_bound(comparator_loss=0.0, inner_product=float(u @ w))


def run(n: int, seed: int = 0) -> dict[str, tuple[int, int, float]]:
    """For each statement: how many streams, how many violations, largest ratio."""
    found: dict[str, tuple[int, int, float]] = {}
    for t, theorem in enumerate(THEOREMS):
        for number in range(n):
            for check in theorem(np.random.default_rng([seed, t, number])):
                streams, violations, ratio = found.get(check.name, (0, 0, 0.0))
                found[check.name] = streams + 1, violations + check.violated, max(ratio, check.ratio)
    for seed in range(max(1, n // 20)):
        for check in clicks_in_expectation(seed):
            streams, violations, ratio = found.get(check.name, (0, 0, 0.0))
            found[check.name] = streams + 1, violations + check.violated, max(ratio, check.ratio)
    return found


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name, (streams, violations, ratio) in run(n).items():
        print(f"{name:<50} {streams:>6,} streams  {violations} violations  largest ratio {ratio:.6f}")
    for T, D in ((20, 3), (10, 9)):
        print(f"T = {T}, D = {D}: loss %.4f, bound with measured delays %.4f, exact form %.4f" % delayed_to_the_point(T, D))


if __name__ == "__main__":
    main()
