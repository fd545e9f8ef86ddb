"""The contract of rankers and of transformers of queries, as checks that anyone can run on a class of his own.

In a test suite, one test a check:

    @pytest.mark.parametrize("check", yield_checks(MyRanker()), ids=str)
    def test_contract(check):
        check()
"""

import functools
import inspect
import random
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from river import compose

from online_rank.base.anatomy import parts_of
from online_rank.base.transformer import QueryTransformer
from online_rank.checks import _input, _learning, _output, _threads
from online_rank.checks._river import RIVER_ON_FEATURES, RIVER_ON_QUERIES, on_features, on_queries
from online_rank.checks._subject import is_ranker

__all__ = ["Check", "CheckFailed", "check_ranker", "check_transformer", "yield_checks"]


#: Checks of rankers alone.
RANKER_CHECKS = (*_output.RANKER_CHECKS, *_learning.RANKER_CHECKS)


class CheckFailed(AssertionError):
    """A model does not keep the contract; the message names the check and what went wrong."""


class Check(NamedTuple):
    """One check of one model; call it to run it.

    Attributes
    ----------
    name
        The name of the check; those of river begin with `river.`.
    function
        What is called with a clone of the model. Its docstring says what is demanded.
    model
        The model. It stays as it is.
    """

    name: str
    function: Callable[[Any], None]
    model: Any

    def __str__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Run the check. Raises CheckFailed."""
        state = random.getstate()
        random.seed(0)  # River's checks draw features.
        try:
            self.function(self.model.clone())
        except Exception as error:
            reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
            raise CheckFailed(f"{type(self.model).__name__} fails {self.name}: {type(error).__name__}: {reason}") from error
        finally:
            random.setstate(state)


def check_ranker(model: Any) -> None:
    """Check that a ranker, or a pipeline that ends in one, keeps the contract of `online_rank.Ranker`.

    Run are river's general checks, river's checks on streams (with queries), and those of this module: answers in the form that
    was asked for; prediction changes nothing; no state shared with the input; a block gives bit for bit what the loop gives;
    rejected input changes nothing; copies, clones and files; float32, read-only and strided arrays; documents scored alike in
    every order (Theorem 10 of [CT]); features that appear, vanish and change places; bounded memory; one lock, which
    every public method takes; features that come late learned as those that were there; weights of queries; a loss that can be
    computed again; a state that stays finite.

    Parameters
    ----------
    model
        A ranker or pipeline that takes numeric features, in every form of a query. It stays as it is: clones are checked.

    Raises
    ------
    CheckFailed
        An AssertionError that names the first check that failed, and what went wrong.
    TypeError
        `model` is no ranker.

    References
    ----------
    [CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> from online_rank.checks import check_ranker
    >>> check_ranker(StreamScaler() | PerceptronRanker())
    >>> class Forgetful(PerceptronRanker):
    ...     def predict_one(self, x):
    ...         self._weights[:] = 0.0
    ...         return super().predict_one(x)
    >>> check_ranker(Forgetful())
    Traceback (most recent call last):
    ...
    online_rank.checks.CheckFailed: Forgetful fails ...
    """
    if not is_ranker(model):
        raise TypeError(f"model is {model!r}; check_ranker checks rankers, and pipelines that end in one")
    for check in yield_checks(model):
        check()


def check_transformer(model: Any) -> None:
    """Check that a transformer of queries, or a pipeline of them, keeps the contract of `QueryTransformer`.

    The contract is that of `online_rank.base.transformer`; the checks are those of `check_ranker`, as far as they apply.

    Parameters
    ----------
    model
        A transformer or pipeline that takes numeric features, in every form of a query. It stays as it is: clones are checked.

    Raises
    ------
    CheckFailed
        An AssertionError that names the first check that failed, and what went wrong.
    TypeError
        `model` is no transformer of queries.

    Examples
    --------
    >>> from online_rank import QueryNormalizer
    >>> from online_rank.checks import check_transformer
    >>> check_transformer(QueryNormalizer())
    """
    if is_ranker(model) or not isinstance(model, QueryTransformer | compose.Pipeline):
        raise TypeError(f"model is {model!r}; check_transformer checks transformers of queries, and pipelines of them")
    for check in yield_checks(model):
        check()


def yield_checks(model: Any) -> Iterator[Check]:
    """The checks of `check_ranker`, or of `check_transformer`, one by one.

    Those that the `_unit_test_skips` of the model, or of a part of it, names are left out, as in river.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.checks import yield_checks
    >>> [check.name for check in yield_checks(PerceptronRanker())][-3:]
    ['sample_weights', 'honest_loss', 'finite_state']
    """
    from river.checks import common

    skipped = {name for part in parts_of(model) for name in part._unit_test_skips()}
    if isinstance(model, compose.Pipeline):
        # River asks a class for parameters to test it with; a pipeline has none, and is tested as it is.
        skipped.add("check_init_has_default_params_for_tests")
    checks = {name: function for name, function in vars(common).items() if name not in skipped}
    for name, function in checks.items():
        if name.startswith("check_") and list(inspect.signature(function).parameters) == ["model"]:
            yield Check(f"river.{name}", function, model)
    for names, run in ((RIVER_ON_QUERIES, on_queries), (RIVER_ON_FEATURES, on_features)):
        for name in names:
            if name in checks:
                yield Check(f"river.{name}", functools.partial(run, checks[name]), model)
    for own in (*_input.CHECKS, *_output.CHECKS, *_threads.CHECKS, *(RANKER_CHECKS if is_ranker(model) else ())):
        if own.__name__ not in skipped:
            yield Check(own.__name__, own, model)
