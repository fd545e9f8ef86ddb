"""The classes of river that may stand in files, with their settings and their state.

They are declared like our own (`online_rank.base.schema`), but here, since their bodies are not ours, and with their settings,
since river's constructors check few of them.
"""

import collections
import importlib
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from online_rank.base.schema import (
    Derived,
    DictOf,
    Field,
    Flag,
    Integer,
    ListOf,
    Nested,
    Plain,
    Real,
    StateError,
    Text,
    TupleOf,
)

__all__ = ["RIVER", "Declaration", "river_class", "river_name"]


class Declaration(NamedTuple):
    """The fields of a class of river: the arguments of its constructor, and its state."""

    settings: Mapping[str, Field]
    state: Mapping[str, Field]


class Anything(Field):
    """Whatever a file may hold: values that were checked by themselves."""

    optional = True

    def _check(self, value: Any, where: str, owner: Any) -> None:
        pass


class Extreme(Real):
    """A number that was the largest or the smallest so far: as it came in, True and False too."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, bool):
            super()._check(value, where, owner)


class KeySet(Field):
    """A set of names."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, set | frozenset):
            raise StateError(f"{where} should be a set of names")
        for name in value:
            Plain().check(name, where, owner)


class AdwinWindow(Field):
    """The window of an ADWIN. `tree` makes one of bytes that only river understands."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        kind = type(value)
        if (kind.__module__, kind.__name__) != ("river._river_rust.drift", "AdaptiveWindowing"):
            raise StateError(f"{where} should be the window of an ADWIN")


class RandomState(Field):
    """A generator of Python's random module."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if type(value).__name__ != "Random":
            raise StateError(f"{where} should be a random number generator")


_COUNT = Integer(0, 2**62)
_NUMBER = Real(-1e150, 1e150)
_EXTREME = Extreme(finite=False)
_CALL = TupleOf(ListOf(Anything(), kind=tuple), DictOf(Text(), Anything()))
_SIZE = Integer(1, 2**31 - 1, optional=True)
#: None: with a window means and variances are objects, which no file holds.
_NO_WINDOW = Integer(1, 0, optional=True)
_STEPS = ListOf(TupleOf(Text(), Anything()))
_PIPELINE = {name: Derived() for name in ("_plan", "_inference_transformers", "_last_step_cached", "_last_step_params")}
_DRIFT = {"_drift_detected": Flag()}
_SEED = Integer(-(2**63), 2**63 - 1, optional=True)

#: Classes by the names that files use.
RIVER = {
    "river.compose.Discard": Declaration({"keys": ListOf(Plain())}, {}),
    "river.compose.Pipeline": Declaration({"steps": _STEPS}, _PIPELINE),
    "river.compose.Prefixer": Declaration({"prefix": Text()}, {}),
    "river.compose.Renamer": Declaration({"mapping": DictOf(Plain(), Plain())}, {}),
    "river.compose.Select": Declaration({"keys": ListOf(Plain())}, {}),
    "river.compose.Suffixer": Declaration({"suffix": Text()}, {}),
    "river.compose.TransformerUnion": Declaration({"transformers": _STEPS}, {}),
    "river.drift.ADWIN": Declaration(
        {
            "delta": Real(1e-300, 1.0),
            "clock": Integer(1, 2**31 - 1),
            "max_buckets": Integer(1, 1000),
            "min_window_length": Integer(1, 2**31 - 1),
            "grace_period": Integer(0, 2**31 - 1),
        },
        {**_DRIFT, "_helper": AdwinWindow()},
    ),
    "river.drift.KSWIN": Declaration(
        {
            "alpha": Real(0.0, 1.0),
            "window_size": Integer(2, 2**20),
            "stat_size": Integer(1, lambda kswin: kswin.window_size // 2),
            "seed": _SEED,
        },
        {
            **_DRIFT,
            "p_value": Real(0.0, 1.0),
            "n": _COUNT,
            "window": ListOf(Real(), kind=collections.deque),
            "_rng": RandomState(),
        },
    ),
    "river.drift.NoDrift": Declaration({}, _DRIFT),
    "river.feature_extraction.PolynomialExtender": Declaration(
        {"degree": Integer(1, 10), "interaction_only": Flag(), "include_bias": Flag(), "bias_name": Plain()}, {}
    ),
    "river.preprocessing.FeatureHasher": Declaration(
        {"n_features": Integer(1, 2**31 - 1), "seed": _SEED, "alternate_sign": Flag()}, {"_seed": Integer(0, 2**32 - 1)}
    ),
    "river.preprocessing.MaxAbsScaler": Declaration({"window_size": _SIZE}, {"abs_max": DictOf(Plain(), Nested("AbsMax"))}),
    "river.preprocessing.MinMaxScaler": Declaration(
        {"window_size": _SIZE}, {"min": DictOf(Plain(), Nested("Min")), "max": DictOf(Plain(), Nested("Max"))}
    ),
    "river.preprocessing.Normalizer": Declaration({"order": Integer(1, 1000)}, {}),
    "river.preprocessing.StandardScaler": Declaration(
        {"with_std": Flag(), "window_size": _NO_WINDOW},
        {"counts": DictOf(Plain(), _COUNT), "means": DictOf(Plain(), _NUMBER), "vars": DictOf(Plain(), _NUMBER)},
    ),
    "river.stats.AbsMax": Declaration({}, {"abs_max": _EXTREME}),
    "river.stats.Max": Declaration({}, {"max": _EXTREME}),
    "river.stats.Min": Declaration({}, {"min": _EXTREME}),
    "river.utils.Rolling": Declaration(
        {"window_size": Integer(1, 2**31 - 1)}, {"obj": Anything(), "window": ListOf(_CALL, kind=collections.deque)}
    ),
}


def river_name(cls: type) -> str | None:
    """The name by which files know a class of river; None for one that is not listed. Imports nothing."""
    for name in RIVER:
        module, _, bare = name.rpartition(".")
        if bare == cls.__name__ and getattr(sys.modules.get(module), bare, None) is cls:
            return name
    return None


def river_class(name: str) -> Any:
    """The class of river of that name. Raises KeyError for one that is not listed."""
    module, _, bare = name.rpartition(".")
    if name not in RIVER:
        raise KeyError(name)
    return getattr(importlib.import_module(module), bare)
