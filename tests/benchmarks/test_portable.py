"""The same bits everywhere: the comparison, and what is cheap to run of it."""

import pytest

from benchmarks import portable


def result(*digests):
    return {"digests": {"PerceptronRanker()": [*digests]}}


def test_a_model_that_differs_is_named():
    rows, wrong = portable.compared({"x86-64-v3": result("a", "b"), "aarch64": result("a", "b"), "plain": result("a")})
    assert rows == [["`PerceptronRanker()`", "`b`", "same", "same"]]
    assert wrong == []
    rows, wrong = portable.compared({"x86-64-v3": result("a", "b"), "aarch64": result("a", "c"), "plain": result("d")})
    assert rows == [["`PerceptronRanker()`", "`b`", "c", "d"]]
    assert wrong == ["PerceptronRanker()"]


def test_a_model_on_the_list_may_differ():
    (name,) = portable.NOT_PORTABLE
    found = {kind: {"digests": {name: [kind]}} for kind in ("x86-64-v3", "aarch64")}
    assert portable.compared(found)[1] == []


MODELS = (
    "PerceptronRanker()",
    "AdditiveRanker()",
    "AdditiveRanker(), missing values",
    "RidgeRanker()",
    "StreamQuantileMap() | PerceptronRanker()",
    "StreamScaler() | PerceptronRanker(credit='argmax', half_life=200)",
    "StreamScaler() | GradientRanker('logistic')",
)


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return portable.measured(None, [16], tmp_path_factory.mktemp("none"), *MODELS)["digests"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain Python", "OPENBLAS_CORETYPE=Nehalem", "NPY_DISABLE_CPU_FEATURES"])
def test_other_processes_learn_the_same_bits(name, usual, tmp_path, monkeypatch):
    # With the kernels of this process, compiled ahead or not.
    monkeypatch.setitem(portable.PROCESSES, name, (None, portable.PROCESSES[name][1]))
    assert portable.measured(name, [16], tmp_path, *MODELS)["digests"] == usual
