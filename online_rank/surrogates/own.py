"""Losses of the user's own, in the form in which kernels call them."""

import copy
import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from online_rank import extensions
from online_rank._kernels.codes import OWN_SURROGATE, SURROGATES
from online_rank.measures.learned import measure as parse_measure
from online_rank.surrogates.builtin import Surrogate

KernelArguments = tuple[np.ndarray, np.ndarray]

#: The default of a ranker's argument `measure`.
_MEASURE = "ndcg@10"

_C_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
#: As `ctypes.string_at`, which is Python around it.
_bytes_at = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)


@runtime_checkable
class Loss(Protocol):
    """What a loss of your own with settings offers; without settings a function (s, y) -> (value, gradient) is enough.

    To save models with it, register its class (`online_rank.register`): a file then holds the name and the arguments of the
    constructor, which are attributes of the same names; a frozen dataclass has all that.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np
    >>> from online_rank import GradientRanker, register
    >>> @register("docs.power")
    ... @dataclasses.dataclass(frozen=True)
    ... class Power:
    ...     p: float = 2.0
    ...     def value_and_gradient(self, s, y):
    ...         miss = s - s.mean() - (y - y.mean())
    ...         return (abs(miss) ** self.p).mean(), self.p * np.sign(miss) * abs(miss) ** (self.p - 1) / len(s)
    >>> isinstance(Power(), Loss)
    True
    >>> model = GradientRanker(Power(p=1.5))
    >>> model.learn_one([[0.0], [1.0]], [0, 1])
    """

    def value_and_gradient(self, s: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss of one query and its gradient in the scores.

        Parameters
        ----------
        s
            (m,) float64 scores, finite.
        y
            (m,) int64 grades >= 0, not all equal.

        Returns
        -------
        The value, a number, and the gradient in s, (m,) finite numbers.
        """


class OwnLoss:
    """A loss of the user's own, called by kernels through the address of a function.

    Addresses belong to a process and are no state: copies and pickles hold the loss alone.
    """

    def __init__(self, loss: Any) -> None:
        self.loss = loss
        self._error: BaseException | None = None
        self._gradient = np.empty(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnLoss, (self.loss,)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OwnLoss":
        return OwnLoss(copy.deepcopy(self.loss, memo))

    @property
    def name(self) -> str:
        """Its name in messages."""
        return extensions.called(self.loss)

    def bound(self, arguments: KernelArguments) -> KernelArguments:
        """The arguments of a kernel with the function's address, valid as long as this object lives."""
        self._error = None
        integers = arguments[0].copy()
        integers[-1] = ctypes.cast(self._entry, ctypes.c_void_p).value
        return integers, arguments[1]

    def raise_failure(self) -> None:
        """Raise what made the loss fail in the last call of a kernel, if it did."""
        error, self._error = self._error, None
        if error is None and not np.isfinite(self._gradient).all():
            # Kernels test it, and Python only afterwards: a test of every gradient would take 2 of 10 microseconds.
            error = ValueError(f"surrogate {self.name!r} returned a gradient that is not finite")
        if error is not None:
            error.add_note(f"raised by the surrogate {self.name!r}")
            raise error

    @functools.cached_property
    def _function(self) -> Callable[[np.ndarray, np.ndarray], Any]:
        return self.loss.value_and_gradient if isinstance(self.loss, Loss) else self.loss

    @functools.cached_property
    def _entry(self) -> Any:
        return _C_FUNCTION(self._call)

    def _call(self, s: int, y: int, m: int, gradient: int) -> int:
        # Copies, which the loss may keep: the kernel's memory is gone after the call. As bytes they cannot be written to.
        try:
            size = 8 * m
            scores, grades = np.frombuffer(_bytes_at(s, size)), np.frombuffer(_bytes_at(y, size), np.int64)
            self._gradient = slopes = self._checked(self._function(scores, grades), m)
            ctypes.memmove(gradient, slopes.tobytes(), size)
        except BaseException as error:  # also an interrupt: C code between here and the caller passes no exception on
            self._error = error
            return 0
        return 1

    def _checked(self, answer: Any, m: int) -> np.ndarray:
        """The gradient (m,), float64. Raises TypeError or ValueError."""
        if type(answer) is not tuple or len(answer) != 2:
            raise TypeError(f"surrogate {self.name!r} returned a {type(answer).__name__}; it must return (value, gradient)")
        value, slopes = answer
        if np.iscomplexobj(value) or np.iscomplexobj(slopes):
            raise TypeError(f"surrogate {self.name!r} returned complex numbers; value and gradient must be real")
        gradient = np.asarray(slopes, dtype=np.float64)
        if gradient.shape != (m,):
            raise ValueError(
                f"surrogate {self.name!r} returned a gradient {gradient.shape} for {m} documents; it must be ({m},)"
            )
        if not math.isfinite(value):
            raise ValueError(f"surrogate {self.name!r} returned the value {value}; it must be finite")
        return gradient


def learned_by(own: OwnLoss | None, arguments: KernelArguments, learn: Callable[[KernelArguments], int], n_queries: int) -> int:
    """How many of the queries a kernel learns with these arguments; raises what made an own loss fail where it stopped."""
    learned = learn(arguments if own is None else own.bound(arguments))
    if own is not None and learned < n_queries:
        own.raise_failure()
    return learned


def resolve(surrogate: Any, measure: str, **of_name: Any) -> tuple[KernelArguments, OwnLoss | None]:
    """What a ranker's argument `surrogate` stands for: the arguments of kernels, and the loss if it is the user's own.

    Parameters
    ----------
    surrogate
        A name of `SURROGATES`, a registered name, a `Surrogate`, a function, or an object with `value_and_gradient`.
    measure
        The ranker's argument: the measure of rounds, and the one that some surrogates approximate.
    **of_name
        Settings of a surrogate that is given by its name.

    Raises
    ------
    TypeError, ValueError
        `surrogate` is none of these, or has another measure.
    """
    if isinstance(surrogate, str) and "." not in surrogate:
        if surrogate not in SURROGATES:
            names = ", ".join(map(repr, SURROGATES))
            raise ValueError(f"surrogate is {surrogate!r}; it must be one of {names}, a registered name, or a loss of your own")
        return Surrogate(surrogate, measure, **of_name).kernel_arguments, None
    if isinstance(surrogate, Surrogate):
        if measure not in (_MEASURE, surrogate.measure):
            raise ValueError(f"measure is {measure!r}, but the surrogate has measure={surrogate.measure!r}")
        return surrogate.kernel_arguments, None
    loss = extensions.own("surrogate", surrogate)
    if not (isinstance(loss, Loss) or callable(loss)):
        raise TypeError(
            f"surrogate is of type {type(surrogate).__name__}; it must be a name, a function (s, y) -> (value, gradient), or "
            "an object with a method value_and_gradient(s, y)"
        )
    integers = [*parse_measure(measure), OWN_SURROGATE, 0, 0, 0, 0, 0]
    return (np.array(integers, dtype=np.int64), np.zeros(5)), OwnLoss(loss)
