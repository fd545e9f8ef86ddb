"""Declarations of bounds: the decorator `bound` registers a function, which certificates then evaluate.

A bound for another family of models, or another kind of run, is one more decorated function:

    @bound("2 F(u) + ...", of=GradientRanker, covers={"optimizer": ("sgd",)})
    def my_bound(*, comparator_loss: float, norm: float) -> float:
        ...

Its parameters are the facts that it needs, by the names of `facts` in `certify`. The decorator checks their values.
"""

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from online_rank.arguments import number
from online_rank.support import registry

F = TypeVar("F", bound=Callable[..., float])

#: The properties of a plain run; a bound covers only plain runs unless it declares otherwise.
PLAIN = {"comparator": "fixed", "beginning": "zero", "scores": "own", "machines": "one"}

#: Descriptions of runs in messages, by property and value.
WORDS = {
    ("comparator", "none"): "runs without a comparator",
    ("comparator", "fixed"): "one comparator that does not change",
    ("comparator", "moved"): "a comparator that moves",
    ("beginning", "zero"): "runs that begin at w = 0",
    ("beginning", "given"): "runs that begin with given weights",
    ("scores", "own"): "learning from its own scores",
    ("scores", "served"): "learning from the scores that were served",
    ("machines", "one"): "one machine",
    ("machines", "several"): "weights mixed from several machines",
    ("machines", "uneven"): "weights mixed from a varying number of machines",
}

#: Facts of either sign, and facts above 0. Any other is a number >= 0, or infinite.
_SIGNED = {"inner_product", "path_product", "error_product", "beginning_product", "serving_gap", "luck"}
_POSITIVE = {"learning_rate", "margin", "m", "k", "v_max", "weight", "half_life", "n_candidates", "budget"}

#: The values of settings that a ranker does not have.
_DEFAULTS = {"served": "current", "norm_cap": None}


class Bound(NamedTuple):
    """The declaration of a bound.

    Attributes
    ----------
    name
        The name of its function.
    statement
        The bound in symbols, as certificates print it.
    value
        The function.
    of
        The classes of models that it covers.
    covers
        For each setting that its proof needs the values that it covers.
    runs
        For each property of a run (`PLAIN`) the values that it covers.
    needs
        The facts that it takes: a dict from parameters to names of facts.
    optional
        Its parameters that have a default.
    unless
        Given a model, the reason why it is not covered although its settings are, or None.
    in_expectation
        Whether it bounds the expected loss, which the loss of a run may exceed.
    """

    name: str
    statement: str
    value: Callable[..., float]
    of: tuple[type, ...]
    covers: Mapping[str, tuple[Any, ...]]
    runs: Mapping[str, tuple[str, ...]]
    needs: Mapping[str, str]
    optional: frozenset[str]
    unless: Callable[[Any], str | None] | None
    in_expectation: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it covers plain runs; certificates of other runs then give the reason why it does not apply."""
        return all(value in self.runs[name] for name, value in PLAIN.items())

    def misses(self, run: Mapping[str, str]) -> str | None:
        """Why the bound does not cover a run with these properties, or None."""
        for name, value in run.items():
            if value not in self.runs[name]:
                wanted = " or ".join(WORDS[name, option] for option in self.runs[name])
                return f"{self.name} covers {wanted}, not of {WORDS[name, value]}"
        return None

    def excludes(self, model: Any) -> str | None:
        """Why the bound does not cover the settings of a model of its class, or None."""
        for name, allowed in self.covers.items():
            value = setting(model, name)
            if value not in allowed:
                wanted = " or ".join(f"{name}={option!r}" for option in allowed)
                return f"{self.name} covers {wanted}, but the model has {name}={value!r}"
        reason = None if self.unless is None else self.unless(model)
        return None if reason is None else f"{self.name} {reason}"


#: Settings of a perceptron without a cap: it learns from its own mistakes or those that were served; from its own alone.
UNCAPPED: dict[str, tuple[Any, ...]] = {"norm_cap": (None,)}
OWN_MISTAKES = UNCAPPED | {"served": ("current",)}

#: Runs with any initial weights; and runs of every kind.
ANY_BEGINNING: dict[str, tuple[str, ...]] = {"beginning": ("zero", "given")}
ANY_RUN = {name: tuple(value for other, value in WORDS if other == name) for name in PLAIN}

#: Every declared bound by its name.
BOUNDS: dict[str, Bound] = {}


def declare_for(*kinds: type) -> None:
    """Import the modules that declare bounds of these classes of rankers, or of the classes that they extend."""
    for name in (base.__name__ for kind in kinds for base in kind.__mro__):
        _import(registry.BOUNDS.get(name, ()))


def declared(name: str) -> Bound | None:
    """The bound of that name, of any ranker; None if no module declares it."""
    for modules in registry.BOUNDS.values():
        _import(modules)
    return BOUNDS.get(name)


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(f"online_rank.{module}")


def bound(
    statement: str,
    *,
    of: type | tuple[type, ...],
    covers: Mapping[str, tuple[Any, ...]] | None = None,
    runs: Mapping[str, tuple[str, ...]] | None = None,
    takes: Mapping[str, str] | None = None,
    unless: Callable[[Any], str | None] | None = None,
    in_expectation: bool = False,
) -> Callable[[F], F]:
    """Declare a function as a bound.

    The function takes numbers by name. TypeError and ValueError are raised for what is no number, or out of range.

    Parameters
    ----------
    statement, of, covers, unless, in_expectation
        As in `Bound`.
    runs
        As in `Bound`; omitted properties are as in `PLAIN`.
    takes
        Parameters whose fact has another name.
    """

    def declare(function: F) -> F:
        parameters = inspect.signature(function).parameters

        @functools.wraps(function)
        def checked(**numbers: Any) -> float:
            for name in parameters:
                if name in numbers:
                    _require(name, numbers[name], optional=parameters[name].default is None)
            return function(**numbers)

        declared = Bound(
            name=function.__name__,
            statement=statement,
            value=checked,
            of=of if isinstance(of, tuple) else (of,),
            covers=covers or {},
            runs={name: (value,) for name, value in PLAIN.items()} | dict(runs or {}),
            needs={name: (takes or {}).get(name, name) for name in parameters},
            optional=frozenset(name for name, p in parameters.items() if p.default is not p.empty),
            unless=unless,
            in_expectation=in_expectation,
        )
        if (known := BOUNDS.get(declared.name)) is not None and known.value.__module__ != function.__module__:
            raise ValueError(f"{declared.name} is a bound of {known.value.__module__} already; give this one another name")
        BOUNDS[declared.name] = declared
        return cast(F, checked)

    return declare


def _require(name: str, value: Any, *, optional: bool) -> None:
    """Raise TypeError or ValueError unless a fact is a number in its range."""
    if name in _SIGNED:
        number(name, value, measured=True)
    elif name in _POSITIVE:
        number(name, value, above=0.0, optional=optional, measured=True)
    elif value != math.inf:
        number(name, value, 0.0, measured=True)


def setting(model: Any, name: str) -> Any:
    """The value of a setting in force, with None resolved to the default of the other settings
    (`PerceptronRanker.in_force`).
    """
    in_force = getattr(model, "in_force", {})
    return in_force[name] if name in in_force else getattr(model, name, _DEFAULTS.get(name))
