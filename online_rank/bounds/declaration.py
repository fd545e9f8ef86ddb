"""A bound is declared once: `bound` makes a function the declaration that certificates, coverage and documentation read.

A bound of another family of models, or of another kind of run, is one more decorated function:

    @bound("2 F(u) + ...", of=GradientRanker, covers={"optimizer": ("sgd",)})
    def my_bound(*, comparator_loss: float, norm: float, model: Any = None) -> float:
        ...

Its parameters are what it needs, by the names of `facts` in `certify`.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

__all__ = ["ANY_BEGINNING", "BOUNDS", "OWN_MISTAKES", "PLAIN", "UNCAPPED", "WORDS", "Bound", "bound", "require_covered",
           "setting", "uncovered"]  # fmt: skip

F = TypeVar("F", bound=Callable[..., float])

#: What a run is when nothing is said of it; a bound covers such runs alone, unless it says otherwise.
PLAIN = {"comparator": "fixed", "beginning": "zero", "scores": "own", "rankers": "one", "machines": "one"}

#: What a bound speaks of, by property of the run and its value.
WORDS = {
    ("comparator", "none"): "runs without a comparator",
    ("comparator", "fixed"): "one comparator that stays",
    ("comparator", "moved"): "a comparator that is moved",
    ("beginning", "zero"): "runs that begin at w = 0",
    ("beginning", "given"): "runs that begin with given weights",
    ("scores", "own"): "learning from its own scores",
    ("scores", "served"): "learning from the scores that were served",
    ("rankers", "one"): "one ranker that learns throughout",
    ("rankers", "successive"): "rankers that follow one another",
    ("machines", "one"): "one machine",
    ("machines", "several"): "weights mixed from several machines",
    ("machines", "uneven"): "weights mixed from machines that are not always as many or do not count alike",
}

#: Parameters of bounds that are settings of a model.
_OF_THE_MODEL = {"relative_margin", "learning_rate", "margin"}

#: What a ranker without such a setting does.
_DEFAULTS = {"served": "current", "norm_cap": None}


class Bound(NamedTuple):
    """What is declared of a bound.

    Attributes
    ----------
    name
        Of its function.
    statement
        The bound in symbols, as certificates print it.
    value
        The function.
    of
        The classes of models that it speaks of.
    covers
        For each setting that its proof needs the values that it covers.
    runs
        For each property of a run (`PLAIN`) the values that it covers.
    needs
        The facts that it takes: parameter to name of the fact.
    optional
        The parameters among them that have a default.
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
        """Whether it speaks of plain runs, so that a certificate says why it does not speak of one that is not."""
        return all(value in self.runs[name] for name, value in PLAIN.items())

    def misses(self, run: Mapping[str, str]) -> str | None:
        """Why the bound does not speak of a run with these properties, or None."""
        for name, value in run.items():
            if value not in self.runs[name]:
                wanted = " or ".join(WORDS[name, option] for option in self.runs[name])
                return f"{self.name} speaks of {wanted}, not of {WORDS[name, value]}"
        return None


#: Settings of a perceptron that learns from its own mistakes; and of one that may learn from those of what was served.
UNCAPPED: dict[str, tuple[Any, ...]] = {"update": ("mistake",), "norm_cap": (None,)}
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

    The function takes numbers by name, and `model`, for which None stands where the caller answers for the settings. With a
    model it raises ValueError where the bound does not cover it, and parameters that are settings of the model and were not
    given are those of the model.

    Parameters
    ----------
    statement, of, covers, unless
        As in `Bound`.
    runs
        As in `Bound`; what is not named is as in `PLAIN`.
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

        @functools.wraps(function)
        def checked(*, model: Any = None, **numbers: Any) -> float:
            if model is not None:
                require_covered(declared.name, model)
                for name in declared.optional & _OF_THE_MODEL - set(numbers):
                    if (value := setting(_held(model), name)) is not None:
                        numbers[name] = value
            return function(**numbers)

        BOUNDS[declared.name] = declared._replace(value=checked)
        return cast(F, checked)

    return declare


def setting(model: Any, name: str) -> Any:
    """What a ranker learns by: a setting, or where that is None what goes with the others (`PerceptronRanker.in_force`)."""
    in_force = getattr(model, "in_force", {})
    return in_force[name] if name in in_force else getattr(model, name, _DEFAULTS.get(name))


def uncovered(bound: str, model: Any) -> str | None:
    """Why `bound` does not speak of `model`, or None when it does.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.bounds import uncovered
    >>> uncovered("mass_bound", PerceptronRanker()) is None
    True
    >>> uncovered("theorem_5", PerceptronRanker())
    "theorem_5 speaks of update='gradient', but the model has update='mistake'"
    """
    declared, model = BOUNDS[bound], _held(model)
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(model), declared.of):
        return f"{bound} speaks of a {' or '.join(kind.__name__ for kind in declared.of)}, not of a {type(model).__name__}"
    for name, allowed in declared.covers.items():
        value = setting(model, name)
        if value not in allowed:
            wanted = " or ".join(f"{name}={option!r}" for option in allowed)
            return f"{bound} speaks of {wanted}, but the model has {name}={value!r}"
    reason = None if declared.unless is None else declared.unless(model)
    return None if reason is None else f"{bound} {reason}"


def require_covered(bound: str, model: Any) -> None:
    """Raise ValueError when `bound` does not speak of `model`; None is taken on trust."""
    reason = None if model is None else uncovered(bound, model)
    if reason is not None:
        raise ValueError(reason)


def _held(model: Any) -> Any:
    """The ranker whose loss a tracker keeps account of, or the model itself."""
    return getattr(model, "learner", model)
