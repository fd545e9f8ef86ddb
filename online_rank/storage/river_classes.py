"""The classes of river that can be saved, with their settings and their state.

They are declared like those of this library (`online_rank.base.schema`), and with their settings, since river's constructors
check few of them.
"""

import collections
import importlib
import numbers
import sys
from collections.abc import Callable, Mapping
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


class Declaration(NamedTuple):
    """The fields of a class of river: the arguments of its constructor, and its state."""

    settings: Mapping[str, Field]
    state: Mapping[str, Field]


class Anything(Field):
    """Any value that a file may hold: it was checked on its own."""

    optional = True

    def _check(self, value: Any, where: str, owner: Any) -> None:
        pass


class Extreme(Real):
    """A running maximum or minimum, of the type of the input, including True and False."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, bool):
            super()._check(value, where, owner)


class Nothing(Field):
    """None."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if value is not None:
            raise StateError(f"{where} should be None")


class KeySet(Field):
    """A set of names."""

    def __init__(self, *, optional: bool = False) -> None:
        self.optional = optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, set | frozenset):
            raise StateError(f"{where} should be a set of names")
        for name in value:
            Plain().check(name, where, owner)


class Compiled(Field):
    """A part that river implements in Rust, by its name in `COMPILED`. `tree` restores it from bytes that only river
    understands.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if compiled_name(value) != self.name:
            raise StateError(f"{where} should be what river keeps in Rust for {self.name}")


class SameAs(Field):
    """An object of the same class as a setting."""

    def __init__(self, setting: str) -> None:
        self.setting = setting

    def _check(self, value: Any, where: str, owner: Any) -> None:
        expected = type(getattr(owner, self.setting))
        if type(value) is not expected:
            raise StateError(f"{where} should be a {expected.__name__}, not {type(value).__name__}")


class Steps(ListOf):
    """At least one step: of a pipeline without steps, river's `isinstance` asks for the last one."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        super()._check(value, where, owner)
        if not value:
            raise StateError(f"{where} is empty")


class Kinds(Field):
    """A type of values, one of `TYPES`."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if value not in TYPES.values():
            raise StateError(f"{where} should be one of the types {', '.join(TYPES)}")


class Statistic(Field):
    """A statistic of one variable that can be saved; `constant` also takes a plain value."""

    def __init__(self, constant: bool = False) -> None:
        self.constant = constant

    def _check(self, value: Any, where: str, owner: Any) -> None:
        name = river_name(type(value)) or ""
        if name.startswith("river.stats.") or (name == "river.utils.Rolling" and not self.constant):
            return
        if not self.constant:
            raise StateError(f"{where} should be a statistic, not {type(value).__name__}")
        Plain().check(value, where, owner)


class RandomState(Field):
    """A generator of Python's random module."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if type(value).__name__ != "Random":
            raise StateError(f"{where} should be a random number generator")


#: The parts that river implements in Rust, by their names in files, with functions that make new ones.
COMPILED: dict[str, Callable[[], Any]] = {
    "adwin": lambda: _river("drift").ADWIN()._helper,
    "ewmean": lambda: _river("stats").EWMean()._ewmean,
    "ewvar": lambda: _river("stats").EWVar()._ewvar,
    "iqr": lambda: _river("stats").IQR()._iqr,
    "quantile": lambda: _river("stats").Quantile()._quantile,
}
_COMPILED_NAMES = {
    "AdaptiveWindowing": "adwin",
    "RsEWMean": "ewmean",
    "RsEWVar": "ewvar",
    "RsIQR": "iqr",
    "RsQuantile": "quantile",
}

#: Types that can be values of settings.
TYPES: dict[str, type] = {"bool": bool, "complex": complex, "float": float, "int": int, "str": str, "Number": numbers.Number}

_COUNT = Integer(0, 2**62)
_NUMBER = Real(-1e150, 1e150)
_EXTREME = Extreme(finite=False)
_CALL = TupleOf(ListOf(Anything(), kind=tuple), DictOf(Text(), Anything()))
_SIZE = Integer(1, 2**31 - 1, optional=True)
#: Only None: with a window, means and variances are objects that cannot be saved.
_NO_WINDOW = Integer(1, 0, optional=True)
_STEP = TupleOf(Text(), Anything())
_PIPELINE = {name: Derived() for name in ("_plan", "_inference_transformers", "_last_step_cached", "_last_step_params")}
_DRIFT = {"_drift_detected": Flag()}
_SEED = Integer(-(2**63), 2**63 - 1, optional=True)
_WEIGHT = Real(0.0)
_SHARE = Real(0.0, 1.0)
_FITTING = {"_feature_name": Derived(), "_groups": DictOf(Plain(), SameAs("how"))}
_GROUPED = {"by": ListOf(Plain(), optional=True), "how": Statistic()}
#: Only river's default tokenisation: a pattern or a function from a file would be executable.
_VECTORIZER = {
    "on": Plain(),
    "strip_accents": Flag(),
    "lowercase": Flag(),
    "preprocessor": Nothing(),
    "stop_words": KeySet(optional=True),
    "tokenizer_pattern": Text(r"(?u)\b\w[\w\-]+\b"),
    "tokenizer": Nothing(),
    "ngram_range": TupleOf(Integer(1, 100), Integer(1, 100)),
}

#: Classes by their names in files.
RIVER = {
    "river.compose.Discard": Declaration({"keys": ListOf(Plain())}, {}),
    "river.compose.Pipeline": Declaration({"steps": Steps(_STEP)}, _PIPELINE),
    "river.compose.Prefixer": Declaration({"prefix": Text()}, {}),
    "river.compose.Renamer": Declaration({"mapping": DictOf(Plain(), Plain())}, {}),
    "river.compose.Select": Declaration({"keys": ListOf(Plain())}, {}),
    "river.compose.SelectType": Declaration({"types": ListOf(Kinds())}, {}),
    "river.compose.Suffixer": Declaration({"suffix": Text()}, {}),
    "river.compose.TransformerUnion": Declaration({"transformers": ListOf(_STEP)}, {}),
    "river.drift.ADWIN": Declaration(
        {
            "delta": Real(1e-300, 1.0),
            "clock": Integer(1, 2**31 - 1),
            "max_buckets": Integer(1, 1000),
            "min_window_length": Integer(1, 2**31 - 1),
            "grace_period": Integer(0, 2**31 - 1),
        },
        {**_DRIFT, "_helper": Compiled("adwin")},
    ),
    "river.drift.DummyDriftDetector": Declaration(
        {
            "trigger_method": Text("fixed", "random"),
            "t_0": Integer(1, 2**31 - 1),
            "w": Integer(0, 2**31 - 1),
            "dynamic_cloning": Flag(),
            "seed": _SEED,
        },
        {
            **_DRIFT,
            "_rng": RandomState(),
            "_n": _COUNT,
            "_warmup": Integer(0, 2**31, optional=True),
            "_warmup_done": Flag(optional=True),
            "_trigger": Derived(),
        },
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
    "river.drift.PageHinkley": Declaration(
        {
            "min_instances": Integer(0, 2**31 - 1),
            "delta": _NUMBER,
            "threshold": _NUMBER,
            "alpha": _NUMBER,
            "mode": Text("up", "down", "both"),
        },
        {
            **_DRIFT,
            "_x_mean": Nested("Mean"),
            "_sum_increase": _EXTREME,
            "_sum_decrease": _EXTREME,
            "_min_increase": _EXTREME,
            "_max_decrease": _EXTREME,
            "_test_drift": Derived(),
        },
    ),
    "river.feature_extraction.Agg": Declaration({"on": Plain(), **_GROUPED}, _FITTING),
    "river.feature_extraction.BagOfWords": Declaration(_VECTORIZER, {"processing_steps": Derived()}),
    "river.feature_extraction.PolynomialExtender": Declaration(
        {"degree": Integer(1, 10), "interaction_only": Flag(), "include_bias": Flag(), "bias_name": Plain()}, {}
    ),
    "river.feature_extraction.TFIDF": Declaration(
        {"normalize": Flag(), **_VECTORIZER},
        {"processing_steps": Derived(), "dfs": DictOf(Plain(), _COUNT), "n": _COUNT},
    ),
    "river.feature_extraction.TargetAgg": Declaration({**_GROUPED, "target_name": Plain()}, {"on": Derived(), **_FITTING}),
    "river.preprocessing.AdaptiveStandardScaler": Declaration(
        {"fading_factor": _SHARE}, {"vars": DictOf(Plain(), Nested("EWVar")), "means": DictOf(Plain(), Nested("EWMean"))}
    ),
    "river.preprocessing.Binarizer": Declaration({"threshold": _NUMBER, "dtype": Kinds()}, {}),
    "river.preprocessing.FeatureHasher": Declaration(
        {"n_features": Integer(1, 2**31 - 1), "seed": _SEED, "alternate_sign": Flag()}, {"_seed": Integer(0, 2**32 - 1)}
    ),
    "river.preprocessing.MaxAbsScaler": Declaration({"window_size": _SIZE}, {"abs_max": DictOf(Plain(), Nested("AbsMax"))}),
    "river.preprocessing.MinMaxScaler": Declaration(
        {"window_size": _SIZE}, {"min": DictOf(Plain(), Nested("Min")), "max": DictOf(Plain(), Nested("Max"))}
    ),
    "river.preprocessing.Normalizer": Declaration({"order": Integer(1, 1000)}, {}),
    "river.preprocessing.OneHotEncoder": Declaration(
        {"categories": DictOf(Plain(), KeySet(), optional=True), "drop_zeros": Flag(), "drop_first": Flag()},
        {"values": DictOf(Plain(), KeySet()), "_zero_dict": DictOf(Text(), Integer(0, 0))},
    ),
    "river.preprocessing.OrdinalEncoder": Declaration(
        {
            "categories": DictOf(Plain(), DictOf(Plain(), Integer()), optional=True),
            "unknown_value": Integer(optional=True),
            "none_value": Integer(),
        },
        {"values": DictOf(Plain(), DictOf(Plain(), Integer())), "_reserved_category_codes": Derived()},
    ),
    "river.preprocessing.RobustScaler": Declaration(
        {"with_centering": Flag(), "with_scaling": Flag(), "q_inf": _SHARE, "q_sup": _SHARE},
        {"median": DictOf(Plain(), Nested("Quantile")), "iqr": DictOf(Plain(), Nested("IQR"))},
    ),
    "river.preprocessing.StandardScaler": Declaration(
        {"with_std": Flag(), "window_size": _NO_WINDOW},
        {"counts": DictOf(Plain(), _COUNT), "means": DictOf(Plain(), _NUMBER), "vars": DictOf(Plain(), _NUMBER)},
    ),
    "river.preprocessing.StatImputer": Declaration(
        {"imputers": ListOf(TupleOf(Plain(), Statistic(constant=True)))}, {"stats": Derived()}
    ),
    "river.stats.AbsMax": Declaration({}, {"abs_max": _EXTREME}),
    "river.stats.BayesianMean": Declaration({"prior": _NUMBER, "prior_weight": _WEIGHT}, {"_mean": Nested("Mean")}),
    "river.stats.Count": Declaration({}, {"n": _COUNT}),
    "river.stats.EWMean": Declaration({"fading_factor": _SHARE}, {"_ewmean": Compiled("ewmean")}),
    "river.stats.EWVar": Declaration({"fading_factor": _SHARE}, {"_ewvar": Compiled("ewvar")}),
    "river.stats.IQR": Declaration({"q_inf": _SHARE, "q_sup": _SHARE}, {"_iqr": Compiled("iqr"), "_is_updated": Flag()}),
    "river.stats.Max": Declaration({}, {"max": _EXTREME}),
    "river.stats.Mean": Declaration({}, {"n": _WEIGHT, "_mean": _EXTREME}),
    "river.stats.Min": Declaration({}, {"min": _EXTREME}),
    "river.stats.Mode": Declaration({"k": Integer(-1)}, {"counts": DictOf(Plain(), _COUNT)}),
    "river.stats.Quantile": Declaration({"q": _SHARE}, {"_quantile": Compiled("quantile"), "_is_updated": Flag()}),
    "river.stats.Sum": Declaration({}, {"sum": _EXTREME}),
    "river.stats.Var": Declaration({"ddof": Integer(0, 2**31)}, {"mean": Nested("Mean"), "_S": _EXTREME}),
    "river.utils.Rolling": Declaration(
        {"window_size": Integer(1, 2**31 - 1)}, {"obj": Anything(), "window": ListOf(_CALL, kind=collections.deque)}
    ),
}


#: The listed names by their last part.
_NAMES: dict[str, list[str]] = {}
for _name in RIVER:
    _NAMES.setdefault(_name.rpartition(".")[2], []).append(_name)


def river_name(cls: type) -> str | None:
    """The name of a class of river in files; None if it is not listed. Imports nothing."""
    for name in _NAMES.get(cls.__name__, ()):
        module, _, bare = name.rpartition(".")
        if getattr(sys.modules.get(module), bare, None) is cls:
            return name
    return None


def compiled_name(value: Any) -> str | None:
    """The name of a part that river implements in Rust; None for anything else."""
    kind = type(value)
    return _COMPILED_NAMES.get(kind.__name__) if kind.__module__.startswith("river._river_rust.") else None


def _river(module: str) -> Any:
    return importlib.import_module(f"river.{module}")


def river_class(name: str) -> Any:
    """The class of river with a name. Raises KeyError if it is not listed."""
    module, _, bare = name.rpartition(".")
    if name not in RIVER:
        raise KeyError(name)
    return getattr(importlib.import_module(module), bare)
