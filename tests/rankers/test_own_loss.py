"""Losses of the user's own in the rankers that take a surrogate."""

import copy
import dataclasses
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from online_rank import DirectRanker, GradientRanker, ModelFileError, extensions, load, register, save
from online_rank.base.schema import declared_state
from online_rank.surrogates import Loss, Surrogate, lambdarank, listnet
from tests.models import HAS_TORCH

RANKERS = [GradientRanker, DirectRanker]


def own_listnet(s, y):
    """ListNet again, from its equation alone."""
    p, q = np.exp(y - y.max()), np.exp(s - s.max())
    p, q = p / p.sum(), q / q.sum()
    return -(p @ np.log(q)), q - p


@register("tests.squares")
@dataclasses.dataclass(frozen=True)
class Squares:
    """Squared distance of scores and grades, both less their mean, times `scale`."""

    scale: float = 1.0

    def value_and_gradient(self, s, y):
        miss = (s - s.mean()) - (y - y.mean())
        return self.scale * (miss @ miss) / 2, self.scale * miss


def queries(n, seed, d=4):
    rng = np.random.default_rng(seed)
    made = []
    for m in rng.integers(1, 9, size=n).tolist():
        X = rng.normal(size=(m, d))
        made.append((X, np.digitize(X[:, 0] - X[:, 1], [-0.5, 0.7])))
    return made


def learned(model, stream):
    for X, y in stream:
        model.learn_one(X, y)
    return model


@pytest.mark.parametrize("make", RANKERS)
def test_an_own_loss_learns_what_the_same_loss_of_the_library_learns(make):
    stream, probe = queries(60, 1), queries(1, 2)[0][0]
    own, builtin = (learned(make(surrogate=loss), stream) for loss in (own_listnet, "listnet"))
    np.testing.assert_allclose(own.predict_one(probe), builtin.predict_one(probe), rtol=1e-5, atol=1e-6)
    assert own.last_round.loss == builtin.last_round.loss


def test_one_step_by_hand():
    model = GradientRanker(Squares(scale=0.5), optimizer="sgd", learning_rate=0.1, half_life=0)
    model.learn_one([[1.0, 0.0], [0.0, 3.0]], [1, 0])
    # Scores 0, so miss = -(1 - 1/2) and 1/2, halved: w = -0.1 ((-1/4) x_1 + (1/4) x_2).
    assert model.weights.tolist() == [0.1 * 0.25, -0.1 * 0.25 * 3.0]


def test_queries_of_one_grade_are_not_given_to_it():
    asked = []

    def loss(s, y):
        asked.append((s.tolist(), y.tolist()))
        return 0.0, np.zeros(len(s))

    model = learned(GradientRanker(loss), [([[1.0], [2.0]], [1, 1]), ([[1.0], [2.0]], [0, 3])])
    assert asked == [([0.0, 0.0], [0, 3])]
    assert model.last_round.skipped is False


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "scale_free"])
def test_sparse_rows_and_blocks_give_the_same(optimizer):
    stream = queries(40, 3)
    dense, sparse, blocks = (GradientRanker(own_listnet, optimizer=optimizer) for _ in range(3))
    for X, y in stream:
        dense.learn_one(X, y)
        sparse.learn_one(csr_array(X), y)
    sizes = [len(y) for _, y in stream]
    blocks.learn_many(
        np.concatenate([X for X, _ in stream]), np.concatenate([y for _, y in stream]), np.repeat(range(40), sizes)
    )
    assert blocks.weights.tolist() == dense.weights.tolist()
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_compiled_loss_learns_as_the_plain_one():
    import numba

    if numba.config.DISABLE_JIT:
        pytest.skip("numba compiles nothing")

    @numba.njit
    def squares(s, y):
        miss = (s - s.mean()) - (y - y.mean())
        if s[0] > 1e6:
            raise ValueError("too large")
        return (miss @ miss) / 2, miss

    stream, probe = queries(40, 4), queries(1, 5)[0][0]
    compiled, plain = (learned(GradientRanker(loss, optimizer="sgd"), stream) for loss in (squares, squares.py_func))
    np.testing.assert_allclose(compiled.predict_one(probe), plain.predict_one(probe), rtol=1e-12)
    before = compiled.weights.tolist()
    with pytest.raises(ValueError, match="too large"):
        compiled.learn_one(np.full((2, 4), 1e9) * np.sign(compiled.weights), [0, 1])
    assert compiled.weights.tolist() == before


BAD = {
    "returned a float; it must return \\(value, gradient\\)": lambda s, y: 0.5,
    "gradient \\(1,\\) for 2 documents": lambda s, y: (0.5, s[:1]),
    "not finite": lambda s, y: (0.5, s * np.nan),
    "returned the value inf": lambda s, y: (np.inf, s),
    "returned complex numbers": lambda s, y: (0.5, s + 1j),
    "read-only": lambda s, y: (0.5, s.__iadd__(1.0)),
}


@pytest.mark.parametrize("make", RANKERS)
@pytest.mark.parametrize("message", BAD)
def test_a_loss_that_fails_changes_nothing(make, message):
    failing = []

    def loss(s, y):
        return BAD[message](s, y) if failing else own_listnet(s, y)

    model = learned(make(surrogate=loss), [([[1.0, 2.0], [0.0, 1.0]], [0, 1])])
    before, state = model.predict_one([[1.0, 0.0]]), pickle.dumps(vars(declared_state(model)))
    failing.append(True)
    with pytest.raises((TypeError, ValueError), match=message) as error:
        model.learn_many([[1.0, 2.0], [0.0, 1.0]], [0, 1], [7, 7])
    assert any("raised by the surrogate" in note for note in error.value.__notes__)
    assert model.predict_one([[1.0, 0.0]]) == before
    assert pickle.dumps(vars(declared_state(model))) == state


@pytest.mark.parametrize("make", RANKERS)
def test_an_interrupt_in_a_loss_passes(make):
    def loss(s, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(surrogate=loss).learn_one([[1.0], [2.0]], [0, 1])


@pytest.mark.parametrize("wrong", [3, None, object()])
@pytest.mark.parametrize("make", RANKERS)
def test_what_is_no_loss_is_refused(make, wrong):
    with pytest.raises(TypeError, match="value_and_gradient"):
        make(surrogate=wrong)


def test_a_surrogate_of_another_measure_is_refused():
    with pytest.raises(ValueError, match="the surrogate has measure='ap'"):
        GradientRanker(lambdarank("ap"), measure="ndcg@5")


def test_a_surrogate_with_settings_is_that_surrogate():
    stream = queries(30, 6)
    for given, named in (
        (listnet(), {"surrogate": "listnet"}),
        (lambdarank("ap"), {"surrogate": "lambdarank", "measure": "ap"}),
    ):
        assert (
            learned(GradientRanker(given), stream).weights.tolist() == learned(GradientRanker(**named), stream).weights.tolist()
        )


def test_the_protocol():
    assert isinstance(Squares(), Loss)
    assert isinstance(listnet(), Loss)
    assert not isinstance(own_listnet, Loss)


@pytest.mark.parametrize("make", RANKERS)
@pytest.mark.parametrize("loss", ["tests.squares", Squares, Squares(scale=0.25), listnet()], ids=str)
def test_models_with_registered_losses_continue_from_their_files(make, loss, tmp_path):
    stream = queries(40, 7)
    model = learned(make(surrogate=loss), stream[:20])
    save(model, tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    if isinstance(loss, Squares | Surrogate):
        assert read.surrogate == loss
    for twin in (read, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)):
        assert (
            declared_state(learned(twin, stream[20:])).weights.tolist()
            == declared_state(learned(copy.deepcopy(model), stream[20:])).weights.tolist()
        )


def test_a_loss_without_a_name_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match=r"online_rank\.register"):
        save(GradientRanker(own_listnet), tmp_path / "model.npz")


SCRIPT = """
import sys
from online_rank import load
model = load(sys.argv[1])
model.learn_one([[1.0], [2.0]], [0, 1])
print(model.weights[0])
"""

MODULE = """
from online_rank import register

@register("elsewhere.up")
def up(s, y):
    return 0.0, -(y - y.mean())
"""


@pytest.mark.slow
def test_another_process_must_know_the_name(tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import elsewhere

    model = GradientRanker(elsewhere.up, optimizer="sgd", learning_rate=1.0, half_life=0)
    save(model, tmp_path / "model.npz")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model.npz")]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert alone.returncode != 0
    assert "'elsewhere.up' is not registered" in alone.stderr
    named = {**environment, "ONLINE_RANK_IMPORT": "elsewhere"}
    assert subprocess.run(command, env=named, capture_output=True, text=True, check=True).stdout == "0.5\n"


def test_a_name_that_is_unknown_is_refused_by_load(tmp_path):
    with extensions.no_names():
        register("tests.gone")(own_listnet)
        save(GradientRanker("tests.gone"), tmp_path / "named.npz")
        save(GradientRanker(own_listnet), tmp_path / "given.npz")
    for name in ("named", "given"):
        with pytest.raises(ModelFileError, match=r"'tests.gone' is not registered: import the module"):
            load(tmp_path / f"{name}.npz")


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_torch_modules_learn_own_losses():
    import torch

    from online_rank import TorchRanker

    stream = queries(20, 8)
    module = torch.nn.Linear(4, 1).double()
    own, builtin = (learned(TorchRanker(module, surrogate=loss), stream) for loss in (own_listnet, "listnet"))
    np.testing.assert_allclose(declared_state(own).weights, declared_state(builtin).weights, rtol=1e-9)
    with pytest.raises(ValueError, match="not finite"):
        TorchRanker(module, surrogate=lambda s, y: (0.0, s * np.nan)).learn_one(*stream[0])
