"""Streams of graded queries that simulated users judge by clicks."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from online_rank.stream.clicks import User, click_stream


class ClickStudy:
    """Queries whose grades only a simulated user sees: models of an `Experiment` learn from clicks on lists.

    Parameters
    ----------
    queries
        Pairs of a query and its grades.
    user
        The user who clicks (`stream.clicks.user`).
    logger
        A ranker with a policy, which does not learn: all models rank and learn the log of its lists, and
        `metrics.OffPolicyValue` estimates what each would have earned. None: each model shows its own lists (`show_one`), which
        metrics measure; a model that takes no clicks learns the grades, as a limit for the others.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, SwapRanker, evaluate
    >>> from online_rank.stream.clicks import user
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> study = evaluate.ClickStudy(NoisyTeacher(n_queries=50), user("perfect", max_grade=4))
    >>> models = {"clicks": SwapRanker(), "grades": PerceptronRanker()}
    >>> evaluate.Experiment(models, study, "ndcg@10", seeds=2).run().values("clicks").shape
    (2,)
    """

    def __init__(self, queries: Iterable[tuple[Any, Any]], user: User, *, logger: Any = None) -> None:
        if not isinstance(user, User):
            raise TypeError(
                f"user is {user!r:.60}; it is a simulated user of stream.clicks, such as user('position', max_grade=4)"
            )
        self.queries = queries
        self.user = user
        self.logger = logger

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if self.logger is None:
            return iter(self.queries)
        return click_stream(self.queries, copy.deepcopy(self.logger), self.user)

    def seeded(self, seed: int, seeded: Any) -> "ClickStudy":
        """The same study with queries, a user and a logger of another seed; `seeded` makes the queries."""
        user = copy.copy(self.user)
        user.seed = self.user.seed + seed
        return ClickStudy(seeded(self.queries, seed), user, logger=self.logger)
