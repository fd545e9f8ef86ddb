import copy
import pickle

import numpy as np
import pytest

from online_rank import StreamScaler, measure, save
from online_rank.base.schema import declared_state
from online_rank.metrics import PairwiseAccuracy
from online_rank.surrogates import Surrogate, listnet
from tests.helpers import as_block

torch = pytest.importorskip("torch")
from online_rank import TorchRanker  # noqa: E402


def stream(n, seed, d=3, most=9):
    """Queries whose grades are not linear in the features; some have one grade or one document."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most, size=n)
    return [(X, np.digitize(X[:, 0] * X[:, 1], [0.0, 1.0])) for X in (rng.normal(size=(m, d)) for m in sizes.tolist())]


def linear(d=3, dtype=torch.float64):
    module = torch.nn.Linear(d, 1, bias=False, dtype=dtype)
    with torch.no_grad():
        module.weight.zero_()
    return module


class SelfAttention(torch.nn.Module):
    """Every document is scored in the light of all others of its query."""

    def __init__(self, d=3):
        super().__init__()
        self.mix = torch.nn.MultiheadAttention(d, 1, dtype=torch.float64)
        self.score = torch.nn.Linear(d, 1, dtype=torch.float64)

    def forward(self, x):
        return self.score(x + self.mix(x, x, x, need_weights=False)[0])[:, 0]


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.documents = 0, 0
        self.score = linear()

    def forward(self, x):
        self.calls += 1
        self.documents += len(x)
        return self.score(x)


def pair_accuracy(model, queries):
    metric = PairwiseAccuracy()
    for X, y in queries:
        metric.update(y, model.predict_one(X))
    return metric.get()


def numbers(model):
    return [
        part.tobytes()
        for part in (
            declared_state(model).weights,
            declared_state(model).average,
            declared_state(model).state,
            declared_state(model).counters,
            *declared_state(model).buffers,
        )
    ]


@pytest.mark.parametrize("surrogate", ["logistic", "listnet", "lambdarank", "squared"])
def test_a_linear_module_learns_by_the_gradient_of_the_surrogate(surrogate):
    # w <- w - rate X^T dphi/ds: the chain rule by hand.
    model, w = TorchRanker(linear(), surrogate=surrogate, optimizer="sgd", learning_rate=0.1), np.zeros(3)
    phi = Surrogate(surrogate)
    for t, (X, y) in enumerate(stream(20, seed=1)):
        weight = (1.0, 0.5)[t % 2]
        model.learn_one(X, y, weight)
        z = weight * X.T @ phi.gradient(X @ w, y)
        w = w - 0.1 * z
        assert declared_state(model).weights == pytest.approx(w, rel=1e-9, abs=1e-12)
        assert model.last_round.squared_gradient_norm == pytest.approx(z @ z)
    assert model.predict_one(X) == pytest.approx((X @ w).tolist())


def test_a_document_is_scored_once_a_round():
    module = Counted()
    model = TorchRanker(module)
    model.learn_one(np.eye(3), [0, 1, 2])
    assert (module.calls, module.documents) == (1, 3)
    model.predict_one(np.eye(3))
    assert (module.calls, module.documents) == (2, 6)


def test_a_surrogate_with_parameters():
    named, made = TorchRanker(linear(), surrogate="listnet"), TorchRanker(linear(), surrogate=listnet())
    for X, y in stream(10, seed=2):
        named.learn_one(X, y)
        made.learn_one(X, y)
    assert numbers(named) == numbers(made)


def test_comparisons_are_antisymmetric_and_transitive():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    model = TorchRanker(module)
    model.learn_many(*as_block(stream(30, seed=3)))
    X = np.random.default_rng(0).normal(size=(12, 3))
    g = np.array(model.predict_one(X))
    r = g[:, None] - g[None, :]
    assert np.array_equal(r, -r.T)
    for i, j, k in np.random.default_rng(1).integers(12, size=(200, 3)):
        assert not (r[i, j] >= 0 and r[j, k] >= 0) or r[i, k] >= 0


def test_the_module_stays_as_it_is():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    before = copy.deepcopy(module.state_dict())
    model = TorchRanker(module, half_life=None)
    queries = [query for query in stream(20, seed=4) if len(query[1]) > 1]
    model.learn_many(*as_block(queries))
    model.predict_one(queries[0][0])
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert declared_state(model).buffers[2] == len(
        [y for _, y in queries if len(set(y)) > 1]
    )  # batches that BatchNorm has counted


def test_a_context_module_sees_one_query_at_a_time():
    torch.manual_seed(0)
    model = StreamScaler() | TorchRanker(SelfAttention())
    loop = model.clone()
    queries = [query for query in stream(15, seed=5) if len(query[1]) > 1]
    X, y, qid = as_block(queries)
    model.learn_many(X, y, qid)
    for query in queries:
        loop.learn_one(*query)
    alone = np.concatenate([loop.predict_one(x) for x, _ in queries])
    assert model.predict_many(X, qid).tolist() == alone.tolist()
    assert model.predict_many(X).tolist() != alone.tolist()  # as one query it is another


def test_images_are_read_from_rows():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(2 * 4, 1))
    model = TorchRanker(module, shape=(1, 4, 4))
    images = np.random.default_rng(0).normal(size=(5, 1, 4, 4)).astype(np.float32)
    model.learn_one(images.reshape(5, 16), [0, 1, 2, 0, 1], w=0.0)  # Only the number of features.
    assert model.predict_one(images.reshape(5, 16)) == pytest.approx(module(torch.from_numpy(images)).ravel().tolist())
    with pytest.raises(ValueError, match="room for 16"):
        TorchRanker(module, shape=(1, 4, 4)).learn_one(np.zeros((2, 17)), [0, 1])


def test_learns_what_is_not_linear():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    model = TorchRanker(module, learning_rate=0.02)
    train, test = stream(600, seed=6), [query for query in stream(100, seed=7) if len(set(query[1])) > 1]
    before = pair_accuracy(model, test)
    model.learn_many(*as_block(train))
    assert before < 0.65
    assert pair_accuracy(model, test) > 0.8


@pytest.mark.parametrize("half_life", [0, 20])
def test_a_copy_learns_on_and_what_serves_is_a_plain_module(half_life, tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    model = TorchRanker(module, half_life=half_life)
    queries = [([dict(zip("ab", row, strict=True)) for row in X], y) for X, y in stream(20, seed=8, d=2) if len(y) > 1]
    for X, y in queries:
        model.learn_one(X, y)
    other = pickle.loads(pickle.dumps(model))
    assert numbers(other) == numbers(model)
    for X, y in queries:
        model.learn_one(X, y)
        other.learn_one(X, y)
    assert numbers(other) == numbers(model)
    # Any program can use what serves rankings.
    scores = other.learned_module()(torch.tensor([list(x.values()) for x in queries[0][0]], dtype=torch.float32))
    assert scores[:, 0].tolist() == pytest.approx(other.predict_one(queries[0][0]), rel=1e-5, abs=1e-6)
    with pytest.raises(TypeError, match="cannot save"):
        save(model, tmp_path / "model")


def test_dropout_follows_the_seed():
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    queries = as_block(stream(20, seed=9))
    states = []
    for seed in (1, 1, 2):
        model = TorchRanker(module, seed=seed)
        torch.manual_seed(seed + len(states))
        model.learn_many(*queries)
        states.append(numbers(model))
    assert states[0] == states[1] != states[2]
    assert model.predict_one(queries[0][:3]) == model.predict_one(queries[0][:3])


def test_the_loss_measures_the_ranking_before_the_query():
    torch.manual_seed(0)
    model = TorchRanker(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), learning_rate=0.1)
    first, *others = stream(20, seed=10)
    model.learn_one(*first)  # Before, no feature is known.
    for X, y in others:
        expected = measure("ndcg@10").loss(np.array(model.predict_one(X)), y, ties="pessimistic")
        model.learn_one(X, y)
        assert model.last_round.loss == pytest.approx(expected)


@pytest.mark.parametrize(
    "part", [lambda: torch.nn.Dropout(0.5), lambda: torch.nn.BatchNorm1d(4)], ids=["dropout", "batch norm"]
)
@pytest.mark.parametrize("surrogate", ["logistic", lambda s, y: (float(((s - y) ** 2).sum()), 2.0 * (s - y))])
def test_the_loss_measures_the_ranking_that_is_given_not_the_scores_while_learning(part, surrogate):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), part(), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    model = TorchRanker(module, surrogate=surrogate, learning_rate=0.1)
    queries = [(X, y) for X, y in stream(40, seed=10) if len(y) > 1]
    model.learn_one(*queries[0])
    for X, y in queries[1:]:
        expected = measure("ndcg@10").loss(np.array(model.predict_one(X)), y, ties="pessimistic")
        model.learn_one(X, y)
        assert model.last_round.loss == pytest.approx(expected, abs=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_module_on_a_gpu_learns_as_on_the_cpu(tmp_path):
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    module = torch.nn.Sequential(*layers).double()
    here, there = TorchRanker(module, half_life=10), TorchRanker(copy.deepcopy(module).cuda(), half_life=10)
    for X, y in stream(50, seed=3):
        if len(y) > 1:
            here.learn_one(X, y)
            there.learn_one(X, y)
            np.testing.assert_allclose(there.predict_one(X), here.predict_one(X), atol=1e-9)
    for a, b in zip(there._buffers, here._buffers, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert pickle.loads(pickle.dumps(there)).predict_one(X) == there.predict_one(X)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_dropout_on_a_gpu_follows_the_seed_and_leaves_others_alone():
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).cuda()
    block = as_block(stream(20, seed=9))
    torch.cuda.manual_seed(5)
    expected = torch.rand(3, device="cuda").tolist()
    torch.cuda.manual_seed(5)
    models = [TorchRanker(module, seed=seed) for seed in (1, 1, 2)]
    for model in models:
        model.learn_many(*block)
    assert numbers(models[0]) == numbers(models[1]) != numbers(models[2])
    assert torch.rand(3, device="cuda").tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "x", "w"),
    [(torch.float32, 1e100, 1.0), (torch.float64, 1e300, 1.0), (torch.float32, 1.0, 1e200), (torch.float64, 1.0, 1e200)],
)
def test_numbers_that_overflow_are_refused(dtype, x, w):
    model = TorchRanker(linear(dtype=dtype))
    before = numbers(model)
    with pytest.raises(ValueError, match="would make TorchRanker non-finite"):
        model.learn_one(np.eye(3) * x, [0, 1, 2], w=w)
    assert numbers(model) == before


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_numbers_change_nothing(value):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
    model = TorchRanker(module)
    model.learn_one(np.eye(3), [0, 1, 2])
    before = numbers(model)
    X = np.eye(3)
    X[1, 2] = value
    with pytest.raises(ValueError, match="document 1"):
        model.learn_one(X, [0, 1, 2])
    with pytest.raises(ValueError, match="document 1"):
        model.predict_one(X)
    with pytest.raises(ValueError, match="document 4"):
        model.learn_many(np.concatenate([np.eye(3), X]), [0, 1, 2] * 2, [0] * 3 + [1] * 3)
    assert numbers(model) == before


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TorchRanker(object()), TypeError, "module is of type object"),
        (lambda: TorchRanker(torch.nn.ReLU()), ValueError, "no parameters"),
        (lambda: TorchRanker(torch.nn.Sequential(linear(), linear(dtype=torch.float32))), TypeError, "float32"),
        (lambda: TorchRanker(linear().half()), TypeError, "float16"),
        (lambda: TorchRanker(linear().to("meta")), ValueError, r"module has parameters on \['meta'\]"),
        (lambda: TorchRanker(torch.nn.Sequential(linear(), linear().to("meta"))), ValueError, "all must be on one device"),
        (lambda: TorchRanker(linear(), surrogate="ranksvm"), ValueError, "surrogate is 'ranksvm'"),
        (lambda: TorchRanker(linear(), optimizer="lbfgs"), ValueError, "optimizer is 'lbfgs'"),
        (lambda: TorchRanker(linear(), shape=(0, 3)), ValueError, "shape is"),
        (lambda: TorchRanker(linear(), learning_rate=0.0), ValueError, "learning_rate is 0.0"),
        (lambda: TorchRanker(linear(), l2=-1.0), ValueError, "l2 is -1.0"),
        (lambda: TorchRanker(torch.nn.Linear(3, 2)).learn_one(np.eye(3), [0, 1, 2]), ValueError, "module answered 3 documents"),
    ],
)
def test_what_makes_no_sense(make, error, message):
    with pytest.raises(error, match=message):
        make()
