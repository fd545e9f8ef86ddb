import math
import pickle

import numpy as np
import pytest

from online_rank import KernelPerceptronRanker, PerceptronRanker
from online_rank._kernels.kernel_machine import score
from online_rank.base import Round
from online_rank.base.schema import declared_state
from online_rank.bounds import mass_bound
from online_rank.bounds.certificate import Run, certify
from online_rank.bounds.declaration import BOUNDS, PLAIN
from online_rank.bounds.projection import projection_bound
from online_rank.metrics import NDCG
from online_rank.query import read_query
from tests.reference import bounds as bounds_reference
from tests.reference import kernel_machine as reference
from tests.reference import perceptron as perceptron_reference

KERNELS = {
    "rbf": (lambda: reference.rbf(0.5), {"kernel": "rbf", "gamma": 0.5}),
    "polynomial": (
        lambda: reference.polynomial(0.3, 2, 0.5),
        {"kernel": "polynomial", "gamma": 0.3, "degree": 2, "coef0": 0.5},
    ),
}


def stream(n, seed, d=3, most=9):
    """Queries whose grades are not linear in the features; some have one grade, one document, or ties."""
    rng = np.random.default_rng(seed)
    queries = []
    for _ in range(n):
        X = rng.normal(size=(int(rng.integers(1, most)), d))
        if len(X) > 4:
            X[1] = X[2]
        queries.append((X, np.digitize(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=len(X)), [0.0, 1.0])))
    return queries


def block(queries):
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    return X, y, np.repeat(np.arange(len(queries)), [len(y) for _, y in queries])


def kernel_values(model, X, documents, coefficients):
    """Values at X (n, d) of a function with the kernel of a model, but other documents."""
    values = np.empty(len(X))
    score(X, documents, coefficients, *model._config[3:], model._in_use, values)
    return values


def pair_loss(model, s, y, learned, u):
    """The loss of a comparator's scores u (m,) on the pairs of an update by the scores s (m,)."""
    if not learned.mass > 0.0:
        return 0.0
    grades = perceptron_reference.effective(model.measure, y.tolist())
    v = perceptron_reference.weights(model.measure, "mean", s.tolist(), grades)
    pairs = perceptron_reference.pair_weights("spread", v, s.tolist(), grades, learned.margin)
    hinges = sum(a * max(0.0, 1.0 + u[j] - u[i]) for (i, j), a in pairs.items())
    return learned.mass * hinges / sum(pairs.values())


def certified(model, queries, documents, coefficients):
    """Let a new ranker learn a stream, and certify it against u = sum_b mu_b k(z_b, .): documents z (n, d), numbers mu (n,)."""
    z = np.ascontiguousarray(documents, dtype=np.float64)
    mu = np.ascontiguousarray(coefficients, dtype=np.float64)
    rows, hinges = [], 0.0
    for x, y in queries:
        query = read_query(x, y)
        row = np.empty((1, len(Round._fields)))
        query = model._reader.align(model, query, grow=True)
        s = model._values(query.X, declared_state(model).weights)
        assert model._learn(query, row) == 1
        model._last_round = row
        hinges += pair_loss(model, s, query.y, Round.from_row(row[0]), kernel_values(model, query.X, z, mu))
        rows.append(np.nan_to_num(row[0]))
    table = np.array(rows).reshape(-1, len(Round._fields))
    total, most = Round._make(table.sum(axis=0).tolist()), Round._make(table.max(axis=0, initial=0.0).tolist())
    norm = math.sqrt(max(float(mu @ kernel_values(model, z, z, mu)), 0.0))
    stored, weights = declared_state(model).stored[: model.n_stored], declared_state(model).weights[: model.n_stored]
    error = model.projection_error
    totals = {
        "n_rounds": len(rows),
        "n_mistakes": sum(row[0] > 0.0 for row in rows),
        "n_skipped": int(total.skipped),
        "loss": total.loss,
        "mass": total.mass,
        "squared_gradient_norms": total.squared_gradient_norm,
        "margin_mass": sum(round_.margin * round_.mass for round_ in map(Round._make, rows)),
        "largest_mass": most.mass,
        "R_X": most.largest_norm,
    }
    facts = {
        "comparator_loss": hinges,
        "norm": norm,
        "inner_product": float(kernel_values(model, stored, z, mu) @ weights),
        "projection_error": error,
        "tolerance": model.tolerance,
        "relative_margin": model.relative_margin,
    }
    # A projection error is the square root of a difference, so only half of its digits are exact.
    size = 100.0 * (1.0 + total.mass + hinges + norm * (1.0 + error))
    return certify(model, Run(PLAIN, totals, facts, size=size, comparator="u"))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("measure", ["ndcg@10", "ndcg", "ap", "linear_ndcg"])
@pytest.mark.parametrize(("budget", "tolerance", "beta"), [(100, 0.2, 0.0), (4, 0.0, 0.3), (12, 0.5, 0.3)])
def test_learns_what_the_reference_learns(kernel, measure, budget, tolerance, beta):
    make, settings = KERNELS[kernel]
    twin = reference.Projectron(make(), measure, budget, tolerance, beta)
    model = KernelPerceptronRanker(measure=measure, budget=budget, tolerance=tolerance, relative_margin=beta, **settings)
    for t, (X, y) in enumerate(stream(12, seed=len(measure) + budget)):
        weight = (1.0, 0.5)[t % 2]
        model.learn_one(X, y, weight)
        loss, mass, square, tau, _ = twin.learn(X.tolist(), y.tolist(), weight)
        told = model.last_round
        assert (told.loss, told.mass) == pytest.approx((loss, mass), abs=1e-9)
        assert told.squared_gradient_norm == pytest.approx(square, rel=1e-6, abs=1e-9)
        if not told.skipped:
            assert told.margin == pytest.approx(tau, rel=1e-6)
        assert model.n_stored == len(twin.stored) <= budget
        assert model.projection_error == pytest.approx(twin.error, abs=1e-5)
        assert model._values(X, declared_state(model).weights) == pytest.approx(twin.values(X.tolist()), rel=1e-5, abs=1e-6)


def test_an_update_by_hand():
    # Scores 0: one violated pair of mass 1 - 1 / log2(3), k(a, b) = exp(-1/4): both documents are stored, nothing is lost.
    model = KernelPerceptronRanker(gamma=1.0, half_life=0)
    model.learn_one([[0.5], [0.0]], [1, 0])
    mass, k = 1.0 - 1.0 / math.log2(3), math.exp(-0.25)
    assert model.predict_one([[0.5], [0.0]]) == pytest.approx([mass * (1.0 - k), mass * (k - 1.0)])
    assert model.last_round.squared_gradient_norm == pytest.approx(mass**2 * (2.0 - 2.0 * k))
    assert np.sum((declared_state(model).factor.T @ declared_state(model).weights) ** 2) == pytest.approx(
        mass**2 * (2.0 - 2.0 * k)
    )
    assert model.last_round.largest_norm == 1.0
    assert (model.n_stored, model.projection_error) == (2, pytest.approx(0.0, abs=1e-7))


def test_the_linear_kernel_is_the_perceptron():
    linear = KernelPerceptronRanker("polynomial", gamma=1.0, degree=1, coef0=0.0, tolerance=0.0, relative_margin=0.0)
    perceptron = PerceptronRanker(credit="spread", half_life=None)
    for X, y in stream(60, seed=3):
        linear.learn_one(X, y)
        perceptron.learn_one(X, y)
        assert linear.predict_one(X) == pytest.approx(perceptron.predict_one(X), rel=1e-6, abs=1e-9)
    assert linear.n_stored == 3  # a basis


@pytest.mark.slow
def test_the_bounds_hold_on_1000_streams():
    tight = used_up = 0.0
    for seed in range(1000):
        rng = np.random.default_rng([seed, 7])
        settings = dict(list(KERNELS.values())[seed % 2][1])
        model = KernelPerceptronRanker(
            measure=("ndcg@10", "ndcg", "ap", "linear_ndcg")[seed % 4],
            budget=int(rng.choice([1, 4, 15, 60])),
            tolerance=float(rng.choice([0.0, 0.05, 0.5])),
            relative_margin=float(rng.choice([0.0, 0.3, 2.0])),
            **settings,
        )
        queries = stream(25, seed)
        if seed % 3:
            documents, coefficients = rng.normal(size=(5, 3)), rng.normal(size=5) * 10.0 ** rng.integers(-2, 2)
        else:
            # What is learned from the whole stream, at its best scale, is a comparator that comes close.
            best = model.clone()
            best.learn_many(*block(queries))
            documents = declared_state(best).stored[: best.n_stored]
            coefficients = declared_state(best).weights[: best.n_stored] * 3.0
        certificate = certified(model, queries, documents, coefficients)
        assert certificate.holds, (seed, certificate)
        mass, values = certificate.totals["mass"], {check.name: check.value for check in certificate.bounds}
        assert certificate.loss <= mass * (1 + 1e-9), seed
        assert mass <= min(values.values()) + 1e-7 * (1.0 + mass + certificate.norm), seed
        used_up += "projection_bound" not in values
        if mass:
            tight = max(tight, mass / certificate.bound("projection_hindsight_bound"))
    assert 100 < used_up < 900
    assert tight > 0.5


def test_the_comparators_loss_equals_the_reference():
    twin = reference.Projectron(reference.rbf(0.5), "ndcg@10", 8, 0.1, 0.3)
    model = KernelPerceptronRanker(gamma=0.5, budget=8)
    queries, u = stream(15, seed=5), np.array([[0.3, 1.0, 0.0], [-1.0, 0.2, 0.4]])
    expected = 0.0
    for X, y in queries:
        *_, a = twin.learn(X.tolist(), y.tolist())
        expected += bounds_reference.pair_loss(a, (reference.gram(twin.k, X, u) @ [2.0, -1.0]).tolist(), y.tolist())
    certificate = certified(model, queries, u, np.array([2.0, -1.0]))
    assert certificate.pair_loss == pytest.approx(expected, rel=1e-6)
    assert certificate.norm == pytest.approx(math.sqrt(4.0 + 1.0 - 4.0 * twin.k(*u)))


def test_bounds_know_what_they_cover():
    lasting = KernelPerceptronRanker(gamma=0.5, tolerance=0.3, budget=400)
    used_up = KernelPerceptronRanker(gamma=0.5, tolerance=0.01, budget=2)
    for model in (lasting, used_up):
        model.learn_many(*block(stream(40, seed=1)))
    assert BOUNDS["projection_bound"].excludes(lasting) is None
    assert "budget that lasts" in BOUNDS["projection_bound"].excludes(used_up)
    assert BOUNDS["projection_data_bound"].excludes(used_up) is None
    assert not issubclass(type(lasting), BOUNDS["mass_bound"].of)
    assert not issubclass(PerceptronRanker, BOUNDS["projection_data_bound"].of)
    closed = {"comparator_loss": 1.0, "norm": 2.0, "R_X": 1.5, "largest_mass": 1.0, "relative_margin": 0.0}
    assert projection_bound(tolerance=0.0, **closed) == mass_bound(**closed)
    assert projection_bound(tolerance=0.5, **closed) == math.inf


def test_beats_the_linear_perceptron_where_the_truth_is_not_linear():
    train, test = block(stream(400, seed=11, d=4, most=20)), block(stream(150, seed=12, d=4, most=20))
    measured = []
    for model in (PerceptronRanker(), KernelPerceptronRanker(budget=500)):
        model.learn_many(*train)
        metric = NDCG(10)
        metric.update_many(test[1], model.predict_many(test[0], test[2]), test[2])
        measured.append(metric.get())
    assert measured[1] > measured[0] + 0.05


def test_memory_is_bounded_by_the_budget():
    model = KernelPerceptronRanker(gamma=5.0, budget=7, tolerance=0.0)
    sizes = []
    for X, y in stream(60, seed=4):
        model.learn_one(X, y)
        sizes.append(len(pickle.dumps(model)))
    assert model.n_stored == 7
    assert sizes[-1] == sizes[1]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_numbers_that_cannot_be_computed_with_change_nothing(value):
    model = KernelPerceptronRanker()
    model.learn_many(*block(stream(10, seed=1)))
    before = pickle.dumps(model)
    X = np.zeros((3, 3))
    X[1, 2] = value
    for bad in (X, X.tolist()):
        with pytest.raises(ValueError, match=r"finite|document 1"):
            model.learn_one(bad, [0, 1, 2])
    with pytest.raises(ValueError, match=r"finite|document 1"):
        model.predict_one(X)
    assert pickle.dumps(model) == before


def test_features_that_appear_later_are_zero_before():
    model, wide = (KernelPerceptronRanker(gamma=0.5) for _ in range(2))
    for X, y in stream(10, seed=6, d=2):
        model.learn_one([dict(zip("ab", row, strict=True)) for row in X], y)
        wide.learn_one([{"a": a, "b": b, "c": 0.0} for a, b in X], y)
    late = [{"a": 1.0, "c": 2.0}, {"b": -1.0}, {"c": 1.0}]
    model.learn_one(late, [0, 1, 2])
    wide.learn_one(late, [0, 1, 2])
    assert model.predict_one(late) == wide.predict_one(late)
    assert model.n_features == 3


@pytest.mark.slow
def test_many_documents_take_the_long_way_to_the_same_credit():
    # More than 64 documents can be outscored, so they are lined up.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 3, 150)
    model = KernelPerceptronRanker(gamma=0.5, measure="ndcg", tolerance=0.3, relative_margin=0.0)
    twin = reference.Projectron(reference.rbf(0.5), "ndcg", 0, 0.3, 0.0)
    model.learn_one(X, y)
    loss, mass, _, _, a = twin.learn(X.tolist(), y.tolist())
    assert (model.last_round.loss, model.last_round.mass) == pytest.approx((loss, mass))
    c = np.zeros(150)
    for (i, j), a_ij in a.items():
        c[i] += a_ij
        c[j] -= a_ij
    update = reference.gram(twin.k, X, X) @ c
    # Values of the projection differ from values of the update by at most the error, since k(x, x) = 1.
    assert np.abs(model._values(X, declared_state(model).weights) - update).max() <= 0.3 * mass + 1e-9


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"kernel": "cubic"}, ValueError, "kernel is 'cubic'"),
        ({"gamma": 0.0}, ValueError, "gamma is 0.0"),
        ({"gamma": "1"}, TypeError, "gamma is '1'"),
        ({"degree": 0}, ValueError, "degree is 0"),
        # One multiplication for each: a model file with 2^62 would never have answered.
        ({"degree": 1 << 62}, ValueError, "degree is 4611686018427387904"),
        ({"degree": 2.0}, TypeError, "degree is 2.0"),
        ({"budget": 0}, ValueError, "budget is 0"),
        ({"coef0": -1.0}, ValueError, "coef0 is -1.0"),
        ({"tolerance": math.nan}, ValueError, "tolerance is nan"),
        ({"relative_margin": -0.1}, ValueError, "relative_margin is -0.1"),
        ({"measure": "recall"}, ValueError, "recall"),
        ({"half_life": -1.0}, ValueError, "half_life is -1.0"),
    ],
)
def test_settings_that_make_no_sense(settings, error, message):
    with pytest.raises(error, match=message):
        KernelPerceptronRanker(**settings)
