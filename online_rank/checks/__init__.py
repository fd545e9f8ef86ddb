"""Checks of the contract of rankers and of transformers of queries, to run on your own classes.

In a test suite, one test for each check::

    @pytest.mark.parametrize("check", yield_checks(MyRanker()), ids=str)
    def test_contract(check):
        check()
"""

import inspect
import random
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from river import compose

from online_rank.base.anatomy import parts_of
from online_rank.base.transformer import QueryTransformer
from online_rank.checks import _input, _learning, _output
from online_rank.checks._subject import is_ranker

__all__ = ["Check", "CheckFailed", "check_ranker", "check_transformer", "yield_checks"]


class CheckFailed(AssertionError):
    """A model breaks the contract; the message names the check and what went wrong."""


class Check(NamedTuple):
    """One check of one model; call it to run it.

    Attributes
    ----------
    name
        The name of the check; river's checks begin with `river.`.
    function
        The function, called with a clone of the model. Its docstring states the requirement.
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
    """Check that a ranker, or a pipeline that ends in one, fulfils the contract of `online_rank.Ranker`.

    It runs river's general checks, and the checks of this package on queries:

    - Input: rejected input changes nothing. Features may appear and vanish; late features are learned as if they had always
      been there.
    - Output: prediction changes nothing. Scores do not depend on the order of documents (Theorem 10 of [CT]).
    - Learning: a block gives the same as a loop, bit for bit. Weights of queries count.
    - State: copies, clones and files equal the model. State stays finite, and memory bounded.

    What every ranker inherits, such as the forms of queries and answers and the lock, is not checked.

    Parameters
    ----------
    model
        A ranker or pipeline that takes numeric features in every form of a query. It is not changed: clones are checked.

    Raises
    ------
    CheckFailed
        An AssertionError that names the first check that failed, and what went wrong.
    TypeError
        `model` is not a ranker.

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
    """Check that a transformer of queries, or a pipeline of them, fulfils the contract of `QueryTransformer`.

    `online_rank.base.transformer` states the contract; the checks are the ones of `check_ranker` that apply.

    Parameters
    ----------
    model
        A transformer or pipeline that takes numeric features in every form of a query. It is not changed: clones are checked.

    Raises
    ------
    CheckFailed
        An AssertionError that names the first check that failed, and what went wrong.
    TypeError
        `model` is not a transformer of queries.

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

    Checks named in `_unit_test_skips` of the model, or of one of its parts, are left out, as in river.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.checks import yield_checks
    >>> [check.name for check in yield_checks(PerceptronRanker())][-3:]
    ['late_features', 'sample_weights', 'finite_state']
    """
    from river.checks import common

    skipped = {name for part in parts_of(model) for name in part._unit_test_skips()}
    if isinstance(model, compose.Pipeline):
        # River asks a class for test parameters; a pipeline has none, and is tested as given.
        skipped.add("check_init_has_default_params_for_tests")
    checks = {name: function for name, function in vars(common).items() if name not in skipped}
    for name, function in checks.items():
        if name.startswith("check_") and list(inspect.signature(function).parameters) == ["model"]:
            yield Check(f"river.{name}", function, model)
    # The public functions of these modules are checks; the last module is for rankers alone.
    for module in (_input, _output, *([_learning] if is_ranker(model) else [])):
        for name, own in vars(module).items():
            is_check = inspect.isfunction(own) and own.__module__ == module.__name__ and not name.startswith("_")
            if is_check and name not in skipped:
                yield Check(name, own, model)
