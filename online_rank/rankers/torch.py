"""A ranker whose scorer is a PyTorch module."""

import contextlib
import copy
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import surrogates as kernels
from online_rank._kernels.codes import OPTIMIZER_ROWS, OPTIMIZERS
from online_rank._kernels.optimizers import descend
from online_rank.base import Ranker
from online_rank.base.lock import locked
from online_rank.measures.learned import discounts
from online_rank.query import Block
from online_rank.rankers.averaged import averaging, begin_to_average, served
from online_rank.support.lazy import needs
from online_rank.surrogates.own import resolve

#: A module is called with other parameters by swapping them in temporarily, so only one thread may do so at a time.
_CALLING = threading.RLock()

#: Largest norm of a gradient that is learned from, so that no sum of squares overflows.
_LARGEST_GRADIENT = {"float32": 1e15, "float64": 1e150}


class TorchRanker(Ranker):
    r"""Ranker whose scores come from a PyTorch module, learned one query at a time with this library's surrogates.

    A query is one forward pass of the module over its m documents, the gradient of the surrogate in the m scores, and one
    backward pass:

    .. math:: \theta \leftarrow \theta - \text{step}\Big(\sum_i \frac{\partial \phi(s, y)}{\partial s_i} \nabla_\theta s_i\Big).

    A module that scores each document on its own gives a consistent order, as `DirectRanker` does: comparisons
    :math:`s_i - s_j` are antisymmetric and transitive. A module may also look at all documents of a query at once
    (self-attention, normalisation over the query); blocks are scored query by query.

    The module itself is not changed. A flat copy of its parameters learns, so copies, clones and pickles work as for every
    ranker, and a query that fails changes nothing. `online_rank.save` refuses it, because a module is code; pickle keeps all,
    and `learned_module` is the module with what it has learned.

    Parameters
    ----------
    module
        A `torch.nn.Module` that maps documents `(m, *shape)` to scores (m,) or (m, 1), with parameters of one floating-point
        dtype on one device. Its parameters are the initial weights: call `torch.manual_seed` before creating it. It runs where
        it is, on a GPU after `module.cuda()`; each query goes from the CPU to its device.
    surrogate
        A name, see `online_rank.surrogates`; a `Surrogate` made there, with settings; or a loss of your own, as for
        `GradientRanker`.
    shape
        Shape of one document, (1, 28, 28) for an image: its features are read in this order. None: (d,). Named features that
        have not appeared yet are 0.
    optimizer
        `"adam"`, `"adagrad"` or `"sgd"`.
    learning_rate
        Step size.
    l2
        Adds l2 ||parameters||^2 / 2 to the cost of every step.
    measure
        The measure of `last_round.loss`, and of a surrogate given by name. A `Surrogate` has its own. It measures the
        ranking that `predict_one` would give by the last parameters; with dropout or batch normalization, which score otherwise
        while they learn, this takes a second forward pass.
    half_life
        Half-life of the average of parameters that serves rankings, in steps; None for the average of all, 0 for the last.
    seed
        Seed of dropout and other random parts of the module while learning.

    Raises
    ------
    ImportError
        torch is missing; the message says how to install it.
    TypeError, ValueError
        `module` is not a module, or an argument has a value that is not allowed.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))  # doctest: +SKIP
    >>> model = TorchRanker(module)  # doctest: +SKIP
    >>> model.learn_one([[0.0, 1.0], [0.5, 0.0], [1.0, 1.0]], [0, 1, 2])  # doctest: +SKIP
    """

    _served = served
    _averages: bool
    _weights: np.ndarray
    _average: np.ndarray
    _counters: np.ndarray

    _schema = None  # type: ignore[assignment]  # A module is code, which no file holds.

    def __init__(
        self,
        module: Any,
        *,
        surrogate: Any = "logistic",
        shape: tuple[int, ...] | None = None,
        optimizer: str = "adam",
        learning_rate: float = 1e-3,
        l2: float = 0.0,
        measure: str = "ndcg@10",
        half_life: float | None = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        begin_to_average(self, half_life, n_counters=2)
        self.module = module
        self.surrogate = surrogate
        self.shape = shape
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l2 = l2
        self.measure = measure
        self.half_life = half_life
        self.seed = seed
        self._check()
        self._surrogate, self._own = resolve(surrogate, measure)
        self._forgets = averaging(half_life)
        parameters = [p.detach().cpu().numpy().ravel() for p in self._parameters().values()]
        self._weights = np.concatenate(parameters)
        self._average = self._weights.copy() if self._averages else self._weights[:0].copy()
        self._state = np.zeros((OPTIMIZER_ROWS[OPTIMIZERS.index(optimizer)], len(self._weights)), self._weights.dtype)
        self._buffers = tuple(buffer.detach().cpu().numpy().copy() for _, buffer in module.named_buffers())

    def _unit_test_skips(self) -> set[str]:
        # Initial weights belong to columns, which features get in the order in which they appear.
        return {"check_shuffle_features_no_impact", "late_features"}

    @locked
    def learned_module(self) -> Any:
        """A copy of the module with the parameters and buffers that serve rankings, in evaluation mode."""
        torch, made = _torch(), copy.deepcopy(self.module).eval()
        learned = [p for p in made.parameters() if p.requires_grad]
        with torch.no_grad():
            for tensor, values in zip((*learned, *made.buffers()), (*self._pieces(self._served), *self._buffers), strict=True):
                tensor.copy_(torch.from_numpy(np.asarray(values)))
        return made

    @property
    def _device(self) -> Any:
        """Where the module runs."""
        return next(iter(self._parameters().values())).device

    def _parameters(self) -> dict[str, Any]:
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def _pieces(self, flat: Any) -> list[Any]:
        """A flat vector, array or tensor, as views in the shapes of the parameters."""
        pieces, start = [], 0
        for parameter in self._parameters().values():
            pieces.append(flat[start : start + parameter.numel()].reshape(tuple(parameter.shape)))
            start += parameter.numel()
        return pieces

    def _forward(self, X: np.ndarray, flat: Any, buffers: tuple[np.ndarray, ...], learning: bool) -> Any:
        """Scores (m,) as a tensor on the CPU, by the parameters `flat`, a tensor there."""
        torch, device = _torch(), self._device
        shape = self.shape or (X.shape[1],)
        documents = np.zeros((len(X), math.prod(shape)), self._weights.dtype)
        with np.errstate(over="ignore"):  # Infinite as float32: no gradient of it is finite.
            documents[:, : X.shape[1]] = X
        values = dict(zip(self._parameters(), self._pieces(flat.to(device)), strict=True))
        there = [torch.from_numpy(buffer).to(device) for buffer in buffers]
        values |= {name: buffer for (name, _), buffer in zip(self.module.named_buffers(), there, strict=True)}
        x = torch.from_numpy(documents).reshape(-1, *shape).to(device)
        with _CALLING, _mode(self.module, learning):
            try:
                scores = torch.func.functional_call(self.module, values, (x,))
            except RuntimeError as error:
                raise ValueError(f"module cannot score {len(X)} documents of shape {shape}: {error}") from error
        if not isinstance(scores, torch.Tensor) or scores.shape not in ((len(X),), (len(X), 1)):
            found = f"a tensor {tuple(scores.shape)}" if isinstance(scores, torch.Tensor) else type(scores).__name__
            raise ValueError(f"module answered {len(X)} documents with {found}; it must give scores (m,) or (m, 1)")
        if device.type != "cpu":
            for buffer, moved in zip(buffers, there, strict=True):
                buffer[...] = moved.detach().cpu().numpy()
        return scores.reshape(-1).cpu()

    def _grow(self, n_new: int) -> None:
        most = None if self.shape is None else math.prod(self.shape)
        if most is None and self._n_features and n_new:
            raise ValueError(f"x brings {n_new} new features to a module for {self._n_features}; give a larger shape")
        if most is not None and self._n_features + n_new > most:
            raise ValueError(f"x has {self._n_features + n_new} features, but shape={self.shape} has room for {most}")

    def _score_all(self, block: Block, score: Callable[[Any, np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        # Query by query: a module may look at all its documents, and its rounding depends on their number.
        if len(block.w) < 2:
            return super()._score_all(block, score)
        return np.concatenate([super(TorchRanker, self)._score_all(query, score) for query in block.each()])

    def _score(self, X: np.ndarray) -> np.ndarray:
        torch = _torch()
        finite = np.isfinite(X).all(axis=1)
        with torch.no_grad():
            scores = self._forward(X, torch.from_numpy(self._served), self._buffers, False).double().numpy()
        # An activation must not hide a feature that is not a number.
        return scores if finite.all() else np.where(finite, scores, np.nan)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        X, y, weight = query.X, query.y, float(query.w[0])
        torch = _torch()
        norm = math.sqrt(_largest_square(X))
        if not (norm < np.inf and 0.0 <= weight < np.inf):
            return False
        m = len(y)
        buffers = tuple(buffer.copy() for buffer in self._buffers)
        flat = torch.from_numpy(self._weights.copy()).requires_grad_()
        with self._randomness():
            scores = self._forward(X, flat, buffers, True) if m else torch.zeros(0)
        s = scores.detach().double().numpy()
        if not np.isfinite(s).all():
            return False
        gradient = np.empty(m)
        surrogate = self._surrogate if self._own is None else self._own.bound(self._surrogate)
        _, loss, v_max, levels = kernels.value_and_gradient(*surrogate, s, y, discounts(m), gradient)
        if levels < 0:
            if self._own is not None:
                self._own.raise_failure()
            return False
        if m and _scores_by_mode(self.module):
            loss = self._loss(X, y, surrogate)
            if not math.isfinite(loss):
                return False
        square = 0.0
        if levels > 1 and weight > 0.0:
            if not scores.requires_grad:
                raise ValueError("module: its scores do not depend on its parameters, so there is nothing to learn")
            scores.backward(torch.from_numpy(gradient * weight).to(scores.dtype))
            z = flat.grad.numpy()
            square = _largest_square(z[np.newaxis])
            if not math.sqrt(square) <= _LARGEST_GRADIENT[z.dtype.name] or not self._step(z):
                return False
            self._buffers = buffers
        row[:] = loss, np.nan, 0.0, square, 0.0, weight, m, norm, v_max, levels < 2
        return True

    def _loss(self, X: np.ndarray, y: np.ndarray, surrogate: Any) -> float:
        """The loss of the ranking by the last parameters, with the module as it is when it does not learn."""
        torch = _torch()
        with torch.no_grad():
            s = self._forward(X, torch.from_numpy(self._weights), self._buffers, False).double().numpy()
        if not np.isfinite(s).all():
            return math.nan
        _, loss, *_ = kernels.value_and_gradient(*surrogate, s, y, discounts(len(y)), np.empty(len(y)))
        return float(loss)

    def _step(self, z: np.ndarray) -> bool:
        """One step of the optimizer; the arrays are replaced, so that a thread ranking meanwhile sees either the old or the new
        ones.
        """
        weights, state = self._weights.copy(), self._state.copy()
        counters = self._counters.copy()
        if self.l2:
            z = z + weights.dtype.type(self.l2) * weights
        descend(OPTIMIZERS.index(self.optimizer), self.learning_rate, counters[1] + 1.0, z, weights, state)
        if not (np.isfinite(weights).all() and np.isfinite(state).all()):
            return False
        counters[1] += 1.0
        self._weights, self._state = weights, state
        if self._averages:
            counters[0] = self._forgets * counters[0] + 1.0
            self._average = self._average + (weights - self._average) / weights.dtype.type(counters[0])
        self._counters = counters
        return True

    @contextlib.contextmanager
    def _randomness(self) -> Iterator[None]:
        """Random draws of the module depend only on the seed and the number of the step."""
        torch, device = _torch(), self._device
        with torch.random.fork_rng(devices=() if device.type == "cpu" else (device,), device_type=device.type):
            torch.manual_seed(int(np.random.SeedSequence([self.seed, int(self._counters[1])]).generate_state(1)[0]))
            yield

    def _check(self) -> None:
        """Raise TypeError or ValueError for an argument whose value is not allowed."""
        torch = _torch()
        if not isinstance(self.module, torch.nn.Module):
            raise TypeError(f"module is of type {type(self.module).__name__}; it must be a torch.nn.Module")
        parameters = self._parameters().values()
        if not parameters:
            raise ValueError("module has no parameters that learn")
        kinds = {str(p.dtype).removeprefix("torch.") for p in parameters}
        if len(kinds) > 1 or not kinds <= set(_LARGEST_GRADIENT):
            raise TypeError(f"module has parameters of {sorted(kinds)}; all must be float32, or all float64")
        devices = {str(tensor.device) for tensor in (*self.module.parameters(), *self.module.buffers())}
        if len(devices) > 1 or "meta" in devices:
            raise ValueError(f"module has parameters on {sorted(devices)}; all must be on one device that has numbers")
        arguments.choice("optimizer", self.optimizer, ("adam", "adagrad", "sgd"))
        if self.shape is not None and not (
            isinstance(self.shape, tuple | list) and self.shape and all(isinstance(n, int) and n > 0 for n in self.shape)
        ):
            raise ValueError(f"shape is {self.shape!r}; it is a tuple of integers > 0")
        arguments.number("learning_rate", self.learning_rate, above=0.0)
        arguments.number("l2", self.l2, 0.0)
        arguments.seed(self.seed)


def _torch() -> Any:
    with needs("TorchRanker", "torch"):
        import torch
    return torch


def _largest_square(rows: np.ndarray) -> float:
    """The largest sum of squares of a row, inf if one is too large for a float64 or infinite, NaN if one has a NaN."""
    with np.errstate(over="ignore"):
        return float((rows.astype(np.float64) ** 2).sum(axis=1).max(initial=0.0))


def _scores_by_mode(module: Any) -> bool:
    """Whether a module has parts of torch that score otherwise while they learn: dropout, and norms over a batch."""
    kinds = _torch().nn.modules
    return any(
        isinstance(part, kinds.dropout._DropoutNd | kinds.batchnorm._NormBase) or getattr(part, "dropout", 0.0)
        for part in module.modules()
    )


@contextlib.contextmanager
def _mode(module: Any, learning: bool) -> Iterator[None]:
    """The module in training or evaluation mode; its previous mode is restored afterwards."""
    before = [(part, part.training) for part in module.modules()]
    module.train(learning)
    try:
        yield
    finally:
        for part, training in before:
            part.training = training
