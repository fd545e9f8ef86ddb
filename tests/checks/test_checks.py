"""The contract, run over every public ranker and transformer; and every check, shown to catch what it is for."""

import importlib
import inspect
import pickle
import pkgutil
import types

import numpy as np
import pytest
from river import preprocessing

import online_rank
from online_rank import (
    PerceptronRanker,
    Ranker,
    StreamScaler,
    TorchRanker,
    save,
)
from online_rank.base.schema import declared_state
from online_rank.base.transformer import QueryTransformer
from online_rank.checks import CheckFailed, check_ranker, check_transformer, yield_checks
from tests.checks.planted import FAULTS, Plain, documented_ranker
from tests.checks.reading import INHERITED, OTHER_ARRAYS, all_checks
from tests.models import HAS_TORCH, NOT_CHECKED, NOT_SAVED, REGISTRY, parts_of, variants


@pytest.mark.parametrize("name", variants(REGISTRY, slow={"click blend"}))
def test_contract(name):
    for check in all_checks(REGISTRY[name](), INHERITED):
        check()


# Each kind of array is another type for numba, which then compiles the kernels of a model again: of these the most.
COMPILES_LONG = {"direct, RankNet", "click perceptron"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in COMPILES_LONG)) for name in REGISTRY])
def test_arrays_of_other_kinds(name):
    for function in OTHER_ARRAYS:
        function(REGISTRY[name]())


def test_every_public_class_is_in_the_registry():
    found = set()
    for info in pkgutil.walk_packages(online_rank.__path__, "online_rank."):
        if info.name.rpartition(".")[2].startswith("_"):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            steps = inspect.isclass(value) and issubclass(value, Ranker | QueryTransformer) and not inspect.isabstract(value)
            if steps and not name.startswith("_") and value.__module__.startswith("online_rank"):
                found.add(value)
    assert PerceptronRanker in found
    assert StreamScaler in found
    if not HAS_TORCH:
        found.discard(TorchRanker)
    covered = {type(part) for make in REGISTRY.values() for part in parts_of(make())}
    assert sorted(cls.__name__ for cls in found - covered - NOT_CHECKED) == []


@pytest.mark.parametrize("name", REGISTRY)
def test_all_but_the_named_ones_can_be_saved(name, tmp_path):
    try:
        save(REGISTRY[name](), tmp_path / "model.npz")
    except TypeError:
        assert name in NOT_SAVED or "torch" in name or "pointwise" in name or "pairwise" in name
    else:
        assert name not in NOT_SAVED


def test_other_models_are_refused():
    check_transformer(StreamScaler())
    with pytest.raises(TypeError, match="check_ranker checks rankers"):
        check_ranker(StreamScaler())
    with pytest.raises(TypeError, match="check_transformer checks transformers"):
        check_transformer(StreamScaler() | PerceptronRanker())
    with pytest.raises(TypeError, match="check_transformer checks transformers"):
        check_transformer(preprocessing.StandardScaler())


def failed(model, name=None):
    """Names of the checks that fail, of all or of those called `name`."""
    names = []
    for check in all_checks(model):
        if name not in (None, check.name):
            continue
        try:
            check()
        except CheckFailed as error:
            names.append(str(error).removeprefix(f"{type(model).__name__} fails ").partition(": ")[0])
    return names


def test_a_correct_ranker_of_the_users_own_passes():
    assert failed(Plain()) == []


class Addressed:
    """Parameters whose pickle differs each time, as the pickle of a torch module, which contains addresses."""

    pickled = 0

    def state_dict(self):
        return {}

    def __reduce__(self):
        Addressed.pickled += 1
        return Addressed, (), {"address": Addressed.pickled}


class HoldsAddresses(Plain):
    """A correct ranker with such parameters."""

    def __init__(self):
        super().__init__()
        self._module = Addressed()


@pytest.mark.slow
def test_a_ranker_whose_pickles_differ_passes():
    model = HoldsAddresses()
    assert pickle.dumps(model) != pickle.dumps(model)
    assert failed(model) == []


class TeachesItsClones(Plain):
    """A clone counts queries with the original, in one dict."""

    def __init__(self):
        super().__init__()
        self._counted = {"queries": 0}

    def clone(self, new_params=None, include_attributes=False):
        made = super().clone(new_params, include_attributes)
        made._counted = self._counted
        return made

    def _learn(self, block, rounds):
        self._counted["queries"] += len(block.w)
        return super()._learn(block, rounds)


def test_a_clone_that_learns_with_the_original_is_found():
    (check,) = (check for check in yield_checks(TeachesItsClones()) if check.name == "clones")
    with pytest.raises(CheckFailed, match="a clone learns what the original learns"):
        check()


@pytest.mark.parametrize("cls", FAULTS, ids=lambda cls: cls.__name__)
def test_every_fault_is_found(cls):
    assert FAULTS[cls] in failed(cls(), FAULTS[cls])


@pytest.mark.first(1)
@pytest.mark.parametrize("spoiled", [False, True])
def test_the_ranker_of_the_documentation_fails_once_it_forgets_its_weights(spoiled):
    found = failed(documented_ranker(spoiled=spoiled)())
    assert ("late_features" in found) is spoiled
    assert bool(found) is spoiled


def test_every_check_of_ours_finds_a_fault():
    ours = {check.name for check in all_checks(Plain()) if not check.name.startswith("river.")}
    assert ours - set(FAULTS.values()) == {"files"}  # A class of the user's own cannot be saved; see below.


def test_files_that_lose_something_are_found(monkeypatch):
    from online_rank.storage import files

    def lossy(path):
        model = load(path)
        model._counters = np.zeros_like(declared_state(model).counters)
        return model

    load = files.load
    monkeypatch.setattr(files, "load", lossy)
    assert failed(PerceptronRanker()) == ["files"]


class Faulty(QueryTransformer):
    """A transformer with a fault of choice."""

    def __init__(self, fault="none"):
        super().__init__()
        self.fault = fault
        self._seen = 0

    def _transform_block(self, block):
        if not np.isfinite(block.X).all():
            raise ValueError("x: feature 'bm25' of document 'doc2' is not finite")
        if self.fault == "impure":
            self._seen += 1
        return block._replace(X=block.X + (np.arange(len(block.X))[:, None] if self.fault == "order" else 0.0))

    def _learn_block(self, block):
        if self.fault == "learns first":
            self._seen += 1
            return types.SimpleNamespace()
        self._seen += len(block.w) if self.fault != "block" else 1
        return self._transform_block(block)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("impure", "prediction_is_pure"),
        ("order", "permutation_equivariance"),
        ("block", "learn_many_is_the_loop"),
        ("learns first", "rejected_input_changes_nothing"),
    ],
)
def test_faults_of_transformers_are_found(fault, check):
    assert failed(Faulty()) == []
    assert check in failed(Faulty(fault))
