"""Runs put together at random: certificates must agree with an account that is kept apart, in exact arithmetic.

The account knows only what anybody can see: what was answered, the features and the weights before each query. From that it
adds up losses, masses and hinges in fractions, by the pairs of `tests.reference.perceptron`.

    python -m tests.bounds.test_campaign N [SEED]
"""

import copy
import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import LossTracker, PerceptronRanker, StreamScaler
from online_rank.base import ranker_of
from online_rank.base.schema import declared_state
from online_rank.distributed.mixing import fork, mix
from online_rank.rankers.inside import unaveraged_scores
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference import perceptron as reference

#: Relative difference of sums of floats and of fractions.
CLOSE = 1e-9


class Account:
    """What a run lost, added up in fractions.

    `sums` has loss, served loss (None once it is unknown) and mass; `hinges` and `gained` F(u) and the sum of the updates.
    """

    def __init__(self, comparators):
        self.u = comparators
        self.loss, self.served, self.mass = Fraction(0), Fraction(0), Fraction(0)
        self.hinges = {name: Fraction(0) for name in comparators}
        self.gained = [Fraction(0)] * len(next(iter(comparators.values())))
        self.counted = Fraction(0)

    def add(self, X, y, decisive, answered, tau, weight, options):
        """A query with features X (m, d), the scores that decided the update, and what was answered before."""
        if len(set(y)) < 2:
            return
        weight = Fraction(weight)
        self.counted += weight
        lost = reference.loss("ndcg@10", decisive, y)
        served = reference.loss("ndcg@10", answered, y)
        self.loss += weight * Fraction(lost)
        self.served += weight * Fraction(served)
        if lost <= 1e-15:
            return
        v = reference.weights("ndcg@10", "mean", decisive, y)
        raw = reference.pair_weights(options["credit"], v, decisive, y, tau)
        raw = {pair: Fraction(a) for pair, a in raw.items()}
        total = sum(raw.values())
        mass = {"loss": Fraction(lost), "sqrt": Fraction(math.sqrt(lost))}[options["mass"]] * weight
        self.mass += mass
        rows = [[Fraction(float(x)) for x in row] for row in X]
        scores = {
            name: [sum(Fraction(float(a)) * x for a, x in zip(u, row, strict=True)) for row in rows]
            for name, u in self.u.items()
        }
        for (i, j), a in raw.items():
            a_ij = mass * a / total
            for name, s in scores.items():
                self.hinges[name] += a_ij * max(Fraction(0), 1 + s[j] - s[i])
            for f in range(len(self.gained)):
                self.gained[f] += a_ij * (rows[i][f] - rows[j][f])

    def plus(self, other, base):
        """Add what another account has beyond `base`."""
        self.loss += other.loss - base.loss
        self.served += other.served - base.served
        self.mass += other.mass - base.mass
        self.counted += other.counted - base.counted
        self.hinges = {name: f + other.hinges[name] - base.hinges[name] for name, f in self.hinges.items()}
        self.gained = [g + a - b for g, a, b in zip(self.gained, other.gained, base.gained, strict=True)]


def decisive_scores(learner, X, served):
    """The scores by which a perceptron will decide its update."""
    if served is not None:
        return [float(s) for s in served]
    if not learner.n_features:
        return [0.0] * len(X)
    if learner.served == "average":
        return [float(s) for s in learner._score(X)]
    return [float(s) for s in unaveraged_scores(learner, X)]


def numbers(answer):
    """The scores of an answer in any form."""
    return list(answer.values()) if isinstance(answer, dict) else list(answer)


def query(rng, d, kind):
    m = int(rng.integers(1, 8))
    X = rng.integers(-4, 5, (m, d)) / 4.0 if kind == "grid" else rng.normal(size=(m, d))
    if kind == "sparse":
        X[rng.random(X.shape) < 0.5] = 0.0
    return X * 10.0 ** rng.integers(-1, 2), rng.integers(0, 4, m)


def run(seed):
    """One run of random settings. Returns the model, its account, and what a certificate may state."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    kind = rng.choice(["grid", "normal", "sparse"])
    options = {"credit": rng.choice(["spread", "argmax"]).item(), "mass": rng.choice(["loss", "sqrt"]).item()}
    half_life = [None, 0, 3.0][rng.integers(3)]
    cap = [None, None, 0.3, 1.0][rng.integers(4)]
    by_average = half_life != 0 and rng.random() < 0.25
    ranker_options = {**options, "half_life": half_life, "relative_margin": float(rng.choice([0.0, 0.3])), "norm_cap": cap,
                      "served": "average" if by_average else "current"}  # fmt: skip
    ranker = PerceptronRanker(**ranker_options)
    begins = rng.random() < 0.3
    if begins:
        ranker = PerceptronRanker.from_weights(rng.normal(size=d), **ranker_options)
    vectors = {"a": rng.normal(size=d), "b": 3.0 * rng.normal(size=d)}
    scaled = rng.random() < 0.4
    dtype = np.float32 if rng.random() < 0.3 else np.float64
    as_rows = kind == "sparse" and cap is None and not scaled and rng.random() < 0.5
    gives = rng.choice([0.0, 0.0, 0.3, 1.0])
    named = kind == "sparse" and not as_rows and dtype == np.float64 and rng.random() < 0.5
    named = named and not scaled and not begins
    names = list("wxyz")[:d]
    u = {key: dict(zip(names, u.tolist(), strict=True)) if named else u for key, u in vectors.items()}
    tracker = LossTracker(ranker, u, measure_served=bool(rng.random() < 0.7))
    model = StreamScaler() | tracker if scaled else tracker
    account, waiting, n_given, learned = Account(vectors), [], 0, 0

    def form(X):
        """A query's features as they are given."""
        if named:
            rows = ({f: float(x) for f, x in zip(names, row, strict=True) if x} for row in X)
            return {str(i): row for i, row in enumerate(rows)}
        return sp.csr_array(X) if as_rows else X

    def learn(model, account, n):
        nonlocal n_given, learned
        for _ in range(n):
            X, y = query(rng, d, kind)
            X = X.astype(dtype)
            weight = float(rng.choice([1.0, 1.0, 0.25, 0.0, 3.0]))
            answered = numbers(model.predict_one(form(X)))
            served = None
            if rng.random() < gives:
                # Grades that come late: other scores than those that it would give now.
                waiting.append((X, y, answered))
                X, y, answered = waiting.pop(int(rng.integers(len(waiting))))
                served = answered
            holder = ranker_of(model)
            features = X
            if scaled:
                after = copy.deepcopy(model["StreamScaler"])
                after.learn_one(X)
                features = np.asarray(after.transform_one(X))
            inner = declared_state(holder).learner
            columns = [names.index(f) for f in inner.feature_names] if named and inner.n_features else slice(None)
            decisive = decisive_scores(inner, np.ascontiguousarray(features[:, columns]), served)
            options = {"credit": inner.credit, "mass": inner.in_force["mass"]}
            grades = {str(i): int(g) for i, g in enumerate(y)} if named else y
            given = served if not named or served is None else dict(zip(grades, served, strict=True))
            model.learn_one(form(X), grades, weight, **({} if given is None else {"served": given}))
            n_given += served is not None
            learned += 1
            account.add(features, y.tolist(), decisive, answered, holder.last_round.margin, weight, options)
            if rng.random() < 0.1:
                with pytest.raises(ValueError, match="finite"):
                    model.learn_one(form(np.full((2, d), np.nan)), {"0": 1, "1": 0} if named else [1, 0])
            if rng.random() < 0.05:
                model = from_bytes(to_bytes(model))
        return model

    model = learn(model, account, int(rng.integers(5, 25)))
    mixes = half_life != 3.0 and rng.random() < 0.3
    if mixes:
        base, shards, before = model, [], copy.deepcopy(account)
        for _ in range(int(rng.integers(1, 4))):
            own = copy.deepcopy(before)
            shards.append(learn(fork(base), own, int(rng.integers(0, 10))))
            account.plus(own, before)
        model = mix(shards, base=base)
    return model, account, {"given": n_given, "learned": learned, "scaled": scaled, "cap": cap}


def check(seed):
    """A run's certificates against its account."""
    model, account, known = run(seed)
    tracker = ranker_of(model)
    totals, u = tracker.totals, account.u
    assert totals.loss == pytest.approx(float(account.loss), rel=CLOSE, abs=1e-12)
    assert totals.mass == pytest.approx(float(account.mass), rel=CLOSE, abs=1e-12)
    assert totals.counted_weight == pytest.approx(float(account.counted), rel=CLOSE)
    if not math.isnan(totals.served_loss):
        assert totals.served_loss == pytest.approx(float(account.served), rel=CLOSE, abs=1e-12)
    gained = np.array([float(g) for g in account.gained])
    size = float(np.abs(gained).sum()) + totals.R_X * totals.mass
    for name in u:
        certificate = tracker.certificate(name)
        text = str(certificate)
        if "of the served rankings:" in text:
            assert float(account.loss) == pytest.approx(float(account.served), rel=CLOSE, abs=1e-12), text
        if "of the scores given as served:" in text:
            assert known["given"] == known["learned"], text
        hinges, norm = float(account.hinges[name]), float(np.linalg.norm(u[name]))
        assert certificate.pair_loss == pytest.approx(hinges, rel=CLOSE, abs=1e-9 * norm * size + 1e-12), text
        assert certificate.facts["weight_norm"] == pytest.approx(np.linalg.norm(gained), rel=CLOSE, abs=CLOSE * size), text
        product = float(u[name] @ gained)
        assert certificate.facts["gain_product"] == pytest.approx(product, rel=CLOSE, abs=CLOSE * norm * size + 1e-12), text
        # The truth that no certificate may contradict.
        assert hinges >= totals.mass - product - CLOSE * (norm * size + totals.mass) - 1e-12
        assert certificate.bounds, text
        assert certificate.holds, text
        for bound in certificate.bounds:
            assert bound.value >= totals.mass - CLOSE * (norm * size + totals.mass) - 1e-12, (bound, text)
        assert certificate.loss == totals.loss


@pytest.mark.slow
@given(st.integers(0, 10**9))
@settings(max_examples=40)
def test_certificates_agree_with_an_account_that_is_kept_apart(seed):
    check(seed)


if __name__ == "__main__":
    number, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    failed = 0
    for seed in itertools.islice(itertools.count(first), number):
        try:
            check(seed)
        except Exception as error:
            failed += 1
            print(seed, type(error).__name__, str(error)[:400].replace("\n", " "), flush=True)
    print(f"{number:,} runs, {failed:,} failed")
