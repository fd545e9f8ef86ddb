"""The classes of river that can be saved, with their settings and their state.

They are declared as this library declares its classes (`online_rank.base.schema`), and with their settings, since river's
constructors check few of them.
"""

import collections
import importlib
import numbers
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from online_rank import extensions
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
from online_rank.limits import is_name


class Declaration(NamedTuple):
    """The fields of a class of river: the arguments of its constructor, and its state."""

    settings: Mapping[str, Field]
    state: Mapping[str, Field]


class Such(Field):
    """A value that passes a test of it and its owner; `what` describes it in messages."""

    def __init__(self, what: str, is_such: Callable[[Any, Any], bool], *, optional: bool = False) -> None:
        self.what, self.is_such, self.optional = what, is_such, optional

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not self.is_such(value, owner):
            raise StateError(f"{where} should be {self.what}, not {type(value).__name__}")


class Extreme(Real):
    """A running maximum or minimum, of the type of the input, including True and False."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        if not isinstance(value, bool):
            super()._check(value, where, owner)


class Steps(ListOf):
    """At least one step: of a pipeline without steps, river's `isinstance` asks for the last one."""

    def _check(self, value: Any, where: str, owner: Any) -> None:
        super()._check(value, where, owner)
        if not value:
            raise StateError(f"{where} is empty")


def _compiled(name: str) -> Such:
    """A part that river implements in Rust, by its name in `COMPILED`; `tree` restores it from bytes that only river reads."""
    return Such(f"what river keeps in Rust for {name}", lambda value, _: compiled_name(value) == name)


def _is_statistic(value: Any, _: Any) -> bool:
    name = river_name(type(value)) or ""
    return name.startswith("river.stats.") or name == "river.utils.Rolling"


def _is_imputer(value: Any, _: Any) -> bool:
    return is_name(value) or (river_name(type(value)) or "").startswith("river.stats.")


def _is_key_set(value: Any, _: Any) -> bool:
    return isinstance(value, set | frozenset) and all(map(is_name, value))


#: The parts that river implements in Rust, by their names in files: the names of their classes, and functions that make them.
COMPILED: dict[str, tuple[str, Callable[[], Any]]] = {
    "ewmean": ("RsEWMean", lambda: river_class("river.stats.EWMean")()._ewmean),
    "ewvar": ("RsEWVar", lambda: river_class("river.stats.EWVar")()._ewvar),
    "iqr": ("RsIQR", lambda: river_class("river.stats.IQR")()._iqr),
    "quantile": ("RsQuantile", lambda: river_class("river.stats.Quantile")()._quantile),
}

#: Types that can be values of settings.
TYPES: dict[str, type] = {"bool": bool, "complex": complex, "float": float, "int": int, "str": str, "Number": numbers.Number}

#: Any value that a file may hold: it was checked on its own.
_ANYTHING = Such("anything", lambda *_: True, optional=True)
#: A file holds its name, which whoever reads the file has registered.
_REGISTERED = Such("a function named by online_rank.register", lambda value, _: extensions.name_of(value) is not None)
_NOTHING = Such("None", lambda value, _: value is None)
_KEY_SET = Such("a set of names", _is_key_set)
_KIND = Such(f"one of the types {', '.join(TYPES)}", lambda value, _: value in TYPES.values())
_STATISTIC = Such("a statistic", _is_statistic)
_IMPUTER = Such("a statistic, or a plain value", _is_imputer, optional=True)
#: An object of the same class as the setting `how`.
_AS_HOW = Such("of the class of how", lambda value, owner: type(value) is type(owner.how))
_COUNT = Integer(0, 2**62)
_NUMBER = Real(-1e150, 1e150)
_EXTREME = Extreme(finite=False)
_CALL = TupleOf(ListOf(_ANYTHING, kind=tuple), DictOf(Text(), _ANYTHING))
_SIZE = Integer(1, 2**31 - 1, optional=True)
#: Only None: with a window, means and variances are objects that cannot be saved.
_NO_WINDOW = Integer(1, 0, optional=True)
_STEP = TupleOf(Text(), _ANYTHING)
_PIPELINE = {name: Derived() for name in ("_plan", "_inference_transformers", "_last_step_cached", "_last_step_params")}
_SEED = Integer(-(2**63), 2**63 - 1, optional=True)
_WEIGHT = Real(0.0)
_SHARE = Real(0.0, 1.0)
_FITTING = {"_feature_name": Derived(), "_groups": DictOf(Plain(), _AS_HOW)}
_GROUPED = {"by": ListOf(Plain(), optional=True), "how": _STATISTIC}
#: Only river's default tokenisation: a pattern or a function from a file would be executable.
_VECTORIZER = {
    "on": Plain(),
    "strip_accents": Flag(),
    "lowercase": Flag(),
    "preprocessor": _NOTHING,
    "stop_words": Such("a set of names", _is_key_set, optional=True),
    "tokenizer_pattern": Text(r"(?u)\b\w[\w\-]+\b"),
    "tokenizer": _NOTHING,
    "ngram_range": TupleOf(Integer(1, 100), Integer(1, 100)),
}

#: Classes by their names in files.
RIVER = {
    "river.compose.Discard": Declaration({"keys": ListOf(Plain())}, {}),
    "river.compose.FuncTransformer": Declaration({"func": _REGISTERED}, {}),
    "river.compose.Grouper": Declaration(
        {"transformer": _ANYTHING, "by": ListOf(Plain())}, {"transformers": DictOf(Text(), _ANYTHING)}
    ),
    "river.compose.Pipeline": Declaration({"steps": Steps(_STEP)}, _PIPELINE),
    "river.compose.Prefixer": Declaration({"prefix": Text()}, {}),
    "river.compose.Renamer": Declaration({"mapping": DictOf(Plain(), Plain())}, {}),
    "river.compose.Select": Declaration({"keys": ListOf(Plain())}, {}),
    "river.compose.SelectType": Declaration({"types": ListOf(_KIND)}, {}),
    "river.compose.Suffixer": Declaration({"suffix": Text()}, {}),
    "river.compose.TransformerProduct": Declaration({"transformers": ListOf(_STEP)}, {}),
    "river.compose.TransformerUnion": Declaration({"transformers": ListOf(_STEP)}, {}),
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
    "river.feature_selection.VarianceThreshold": Declaration(
        {"threshold": _NUMBER, "min_samples": Integer()}, {"variances": DictOf(Plain(), Nested("Var"))}
    ),
    "river.preprocessing.AdaptiveStandardScaler": Declaration(
        {"fading_factor": _SHARE}, {"vars": DictOf(Plain(), Nested("EWVar")), "means": DictOf(Plain(), Nested("EWMean"))}
    ),
    "river.preprocessing.Binarizer": Declaration({"threshold": _NUMBER, "dtype": _KIND}, {}),
    "river.preprocessing.FeatureHasher": Declaration(
        {"n_features": Integer(1, 2**31 - 1), "seed": _SEED, "alternate_sign": Flag()}, {"_seed": Integer(0, 2**32 - 1)}
    ),
    "river.preprocessing.MaxAbsScaler": Declaration({"window_size": _SIZE}, {"abs_max": DictOf(Plain(), Nested("AbsMax"))}),
    "river.preprocessing.MinMaxScaler": Declaration(
        {"window_size": _SIZE}, {"min": DictOf(Plain(), Nested("Min")), "max": DictOf(Plain(), Nested("Max"))}
    ),
    "river.preprocessing.Normalizer": Declaration({"order": Integer(1, 1000)}, {}),
    "river.preprocessing.OneHotEncoder": Declaration(
        {"categories": DictOf(Plain(), _KEY_SET, optional=True), "drop_zeros": Flag(), "drop_first": Flag()},
        {"values": DictOf(Plain(), _KEY_SET), "_zero_dict": DictOf(Text(), Integer(0, 0))},
    ),
    "river.preprocessing.OrdinalEncoder": Declaration(
        {
            "categories": DictOf(Plain(), DictOf(Plain(), Integer()), optional=True),
            "unknown_value": Integer(optional=True),
            "none_value": Integer(),
        },
        {"values": DictOf(Plain(), DictOf(Plain(), Integer())), "_reserved_category_codes": Derived()},
    ),
    "river.preprocessing.PreviousImputer": Declaration({}, {"_latest": DictOf(Plain(), Plain())}),
    "river.preprocessing.RobustScaler": Declaration(
        {"with_centering": Flag(), "with_scaling": Flag(), "q_inf": _SHARE, "q_sup": _SHARE},
        {"median": DictOf(Plain(), Nested("Quantile")), "iqr": DictOf(Plain(), Nested("IQR"))},
    ),
    "river.preprocessing.StandardScaler": Declaration(
        {"with_std": Flag(), "window_size": _NO_WINDOW},
        {"counts": DictOf(Plain(), _COUNT), "means": DictOf(Plain(), _NUMBER), "vars": DictOf(Plain(), _NUMBER)},
    ),
    "river.preprocessing.StatImputer": Declaration({"imputers": ListOf(TupleOf(Plain(), _IMPUTER))}, {"stats": Derived()}),
    "river.stats.AbsMax": Declaration({}, {"abs_max": _EXTREME}),
    "river.stats.BayesianMean": Declaration({"prior": _NUMBER, "prior_weight": _WEIGHT}, {"_mean": Nested("Mean")}),
    "river.stats.Count": Declaration({}, {"n": _COUNT}),
    "river.stats.EWMean": Declaration({"fading_factor": _SHARE}, {"_ewmean": _compiled("ewmean")}),
    "river.stats.EWVar": Declaration({"fading_factor": _SHARE}, {"_ewvar": _compiled("ewvar")}),
    "river.stats.IQR": Declaration({"q_inf": _SHARE, "q_sup": _SHARE}, {"_iqr": _compiled("iqr"), "_is_updated": Flag()}),
    "river.stats.Max": Declaration({}, {"max": _EXTREME}),
    "river.stats.Mean": Declaration({}, {"n": _WEIGHT, "_mean": _EXTREME}),
    "river.stats.Min": Declaration({}, {"min": _EXTREME}),
    "river.stats.Mode": Declaration({"k": Integer(-1)}, {"counts": DictOf(Plain(), _COUNT)}),
    "river.stats.Quantile": Declaration({"q": _SHARE}, {"_quantile": _compiled("quantile"), "_is_updated": Flag()}),
    "river.stats.Sum": Declaration({}, {"sum": _EXTREME}),
    "river.stats.Var": Declaration({"ddof": Integer(0, 2**31)}, {"mean": Nested("Mean"), "_S": _EXTREME}),
    "river.utils.Rolling": Declaration(
        {"window_size": Integer(1, 2**31 - 1)}, {"obj": _ANYTHING, "window": ListOf(_CALL, kind=collections.deque)}
    ),
}


def river_name(cls: type) -> str | None:
    """The name of a class of river in files; None if it is not listed. Imports nothing."""
    module = ".".join(cls.__module__.split(".")[:2])
    name = f"{module}.{cls.__name__}"
    return name if name in RIVER and getattr(sys.modules.get(module), cls.__name__, None) is cls else None


def compiled_name(value: Any) -> str | None:
    """The name of a part that river implements in Rust; None for anything else."""
    kind = type(value)
    if not kind.__module__.startswith("river._river_rust."):
        return None
    return next((name for name, (own, _) in COMPILED.items() if own == kind.__name__), None)


def river_class(name: str) -> Any:
    """The class of river with a name in `RIVER`."""
    module, _, bare = name.rpartition(".")
    return getattr(importlib.import_module(module), bare)
