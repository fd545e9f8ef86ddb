"""Certificates of any model that keeps an account of its losses."""

from typing import Any

from online_rank.base import abilities_of, ranker_of, steps_of
from online_rank.base.lock import lock_of
from online_rank.bounds.account_run import keeps_account, run_of_account
from online_rank.bounds.certificate import Certificate, certify
from online_rank.bounds.tracker import LossTracker
from online_rank.bounds.vectors import run_of_vectors
from online_rank.rankers.vectors import VectorRanker


def certificate_of(model: Any, *, comparator: str | None = None) -> Certificate:
    """The certificate of a model's run.

    Parameters
    ----------
    model
        A `LossTracker`, an `AdditiveRanker`, a `BlendRanker` or a `VectorRanker`, or a pipeline that ends in one.
    comparator
        The name of the comparator, for a tracker with several.

    Raises
    ------
    TypeError
        The model keeps no account: put a `LossTracker` around its ranker.

    Examples
    --------
    >>> from online_rank import BlendRanker, PerceptronRanker, RidgeRanker
    >>> from online_rank.bounds import certificate_of
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> model = BlendRanker([PerceptronRanker(), RidgeRanker()])
    >>> for X, y in NoisyTeacher(n_queries=200, n_features=10, n_documents=20):
    ...     model.learn_one(X, y)
    >>> certificate = certificate_of(model)
    >>> certificate.holds, certificate.totals["n_drawn"]
    (True, 0)
    """
    ranker = ranker_of(model)
    if issubclass(type(ranker), LossTracker):
        return ranker.certificate(comparator)
    if not _keeps_account(ranker):
        raise TypeError(f"{type(ranker).__name__} keeps no account of its losses: put a LossTracker around it")
    if comparator is not None:
        raise KeyError(f"a {type(ranker).__name__} has no comparators")
    moved = any(abilities_of(step).learns for step in steps_of(model)[:-1])
    with lock_of(ranker):
        run = run_of_vectors if issubclass(type(ranker), VectorRanker) else run_of_account
        return certify(ranker, run(ranker, moved=moved))


def _keeps_account(ranker: Any) -> bool:
    return keeps_account(ranker) or issubclass(type(ranker), VectorRanker)


def certificates_of(model: Any) -> list[Certificate]:
    """The certificates of a model's run: against each comparator, or by its own account; none without these."""
    ranker = ranker_of(model)
    if issubclass(type(ranker), LossTracker):
        return [ranker.certificate(name) for name in ranker.comparators or ()]
    return [certificate_of(model)] if _keeps_account(ranker) else []
