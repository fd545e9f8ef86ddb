"""Declarations of bounds: the decorator `bound` registers a function, and certificates, coverage checks and docs read it.

A bound for another family of models, or another kind of run, is one more decorated function:

    @bound("2 F(u) + ...", of=GradientRanker, covers={"optimizer": ("sgd",)})
    def my_bound(*, comparator_loss: float, norm: float, model: Any = None) -> float:
        ...

Its parameters are the facts that it needs, by the names of `facts` in `certify`.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from online_rank.arguments import number

__all__ = ["ANY_BEGINNING", "BOUNDS", "OWN_MISTAKES", "PLAIN", "UNCAPPED", "WORDS", "Bound", "bound",
           "require_covered", "setting", "uncovered"]  # fmt: skip

F = TypeVar("F", bound=Callable[..., float])

#: The properties of a plain run; a bound covers only plain runs unless it declares otherwise.
PLAIN = {"comparator": "fixed", "beginning": "zero", "scores": "own", "rankers": "one", "machines": "one"}

#: Descriptions of runs in messages, by property and value.
WORDS = {
    ("comparator", "none"): "runs without a comparator",
    ("comparator", "fixed"): "one comparator that does not change",
    ("comparator", "moved"): "a comparator that moves",
    ("beginning", "zero"): "runs that begin at w = 0",
    ("beginning", "given"): "runs that begin with given weights",
    ("scores", "own"): "learning from its own scores",
    ("scores", "served"): "learning from the scores that were served",
    ("rankers", "one"): "one ranker that learns throughout",
    ("rankers", "successive"): "rankers that follow one another",
    ("machines", "one"): "one machine",
    ("machines", "several"): "weights mixed from several machines",
    ("machines", "uneven"): "weights mixed from a varying number of machines, or with unequal shares",
}

#: Parameters of bounds that are settings of a model.
_OF_THE_MODEL = {"relative_margin", "learning_rate", "margin"}

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
        Those of its parameters that have a default.
    unless
        Given a model, the reason why it is not covered although its settings are, or None.
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


#: Settings of a perceptron without a cap, that learns from its own mistakes or those of served rankings; from its own alone.
UNCAPPED: dict[str, tuple[Any, ...]] = {"norm_cap": (None,)}
OWN_MISTAKES = UNCAPPED | {"served": ("current",)}

#: Runs whatever weights they began with.
ANY_BEGINNING: dict[str, tuple[str, ...]] = {"beginning": ("zero", "given")}

#: Every bound by its name.
BOUNDS: dict[str, Bound] = {}


def bound(
    statement: str,
    *,
    of: type | tuple[type, ...],
    covers: Mapping[str, tuple[Any, ...]] | None = None,
    runs: Mapping[str, tuple[str, ...]] | None = None,
    takes: Mapping[str, str] | None = None,
    unless: Callable[[Any], str | None] | None = None,
) -> Callable[[F], F]:
    """Declare a function as a bound.

    The function takes numbers by name, and `model`, or None to skip the check of settings. It raises ValueError if the bound
    does not cover the model; parameters that are settings of a model default to those of `model`.

    Parameters
    ----------
    statement, of, covers, unless
        As in `Bound`.
    runs
        As in `Bound`; omitted properties are as in `PLAIN`.
    takes
        Parameters whose fact has another name.
    """

    def declare(function: F) -> F:
        parameters = {name: p for name, p in inspect.signature(function).parameters.items() if name != "model"}
        declared = Bound(
            name=function.__name__,
            statement=statement,
            value=function,
            of=of if isinstance(of, tuple) else (of,),
            covers=covers or {},
            runs={name: (value,) for name, value in PLAIN.items()} | dict(runs or {}),
            needs={name: (takes or {}).get(name, name) for name in parameters},
            optional=frozenset(name for name, p in parameters.items() if p.default is not p.empty),
            unless=unless,
        )

        if (known := BOUNDS.get(declared.name)) is not None and known.value.__module__ != function.__module__:
            raise ValueError(f"{declared.name} is a bound of {known.value.__module__} already; give this one another name")
        plain = [name for name, p in parameters.items() if p.annotation in (float, int, float | None)]

        @functools.wraps(function)
        def checked(*, model: Any = None, **numbers: Any) -> float:
            if model is not None:
                require_covered(declared.name, model)
                for name in declared.optional & _OF_THE_MODEL - set(numbers):
                    if (value := setting(_held(model), name)) is not None:
                        numbers[name] = value
            for name in set(plain) & set(numbers):
                if not isinstance(numbers[name], float) or math.isnan(numbers[name]):
                    number(name, numbers[name], optional=parameters[name].default is None)
            return function(**numbers)

        BOUNDS[declared.name] = declared._replace(value=checked)
        return cast(F, checked)

    return declare


def setting(model: Any, name: str) -> Any:
    """The value of a setting in force, with None resolved to the default of the other settings
    (`PerceptronRanker.in_force`).
    """
    in_force = getattr(model, "in_force", {})
    return in_force[name] if name in in_force else getattr(model, name, _DEFAULTS.get(name))


def uncovered(bound: str, model: Any) -> str | None:
    """Why `bound` does not cover `model`, or None if it does.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.bounds import uncovered
    >>> uncovered("mass_bound", PerceptronRanker()) is None
    True
    >>> uncovered("theorem_5", PerceptronRanker())
    'theorem_5 covers a SlamRanker, not a PerceptronRanker'
    """
    declared, model = BOUNDS[bound], _held(model)
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(model), declared.of):
        return f"{bound} covers a {' or '.join(kind.__name__ for kind in declared.of)}, not a {type(model).__name__}"
    for name, allowed in declared.covers.items():
        value = setting(model, name)
        if value not in allowed:
            wanted = " or ".join(f"{name}={option!r}" for option in allowed)
            return f"{bound} covers {wanted}, but the model has {name}={value!r}"
    reason = None if declared.unless is None else declared.unless(model)
    return None if reason is None else f"{bound} {reason}"


def require_covered(bound: str, model: Any) -> None:
    """Raise ValueError if `bound` does not cover `model`; None is not checked."""
    reason = None if model is None else uncovered(bound, model)
    if reason is not None:
        raise ValueError(reason)


def _held(model: Any) -> Any:
    """The ranker whose losses a tracker measures, or the model itself."""
    return getattr(model, "learner", model)
