"""What a service counts and measures: shown when somebody asks, decided upon by nobody."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.base import abilities_of, ranker_of
from online_rank.base.forgetting import parts_of
from online_rank.base.schema import Nested
from online_rank.intervals import Interval, LossInterval
from online_rank.intervals.losses import running_sums
from online_rank.metrics.base import running_means
from online_rank.preprocessing._keyed import keyed_steps
from online_rank.preprocessing.vector_columns import VectorColumns
from online_rank.serving.challenge import Challenge
from online_rank.serving.pending import PendingQueries


class Measured(Nested):
    """A metric that is saved with all rankings that wait for it."""

    def trim(self, value: Any, owner: Any) -> Any:
        """The metric, after they are taken into it."""
        owner.measure_served()
        return value


class Counted:
    """The counts and figures of a service (`ServiceState`)."""

    model: Any
    measure: str
    challenge: Challenge | None
    _pending: PendingQueries
    _metric: Any
    _counts: dict[str, int]
    _served: np.ndarray
    _longest_delay: int
    #: Number of the lists drawn, and the sum of the shares of the greedy DCG that they keep. Older files lack it: zeros.
    _kept: Any = None
    #: Scores, grades and losses of rankings that the metric and the account of losses do not have yet (`measure_served`).
    _unmeasured: Sequence[tuple[list[float], list[int], float | None]] = ()

    @property
    def draws(self) -> bool:
        """Whether the model draws the rankings to show, to learn from clicks on them."""
        return abilities_of(self.model).draws

    @property
    def learning_model(self) -> Any:
        """The model that learns: with a ranking of today that serves, the one that waits."""
        challenge = self.challenge
        return self.model if challenge is None or challenge.keep is None or challenge.n_turns % 2 else challenge.model

    @property
    def names(self) -> tuple[str, str | None]:
        """What people call the model that serves, and the one that waits; None if none does."""
        if (challenge := self.challenge) is None:
            return type(ranker_of(self.model)).__name__, None
        if challenge.keep is None:
            return f"{type(ranker_of(self.model)).__name__}", f"{type(ranker_of(challenge.model)).__name__}, the challenger"
        learner = ranker_of(self.learning_model)
        inner = getattr(learner, "learner", None)
        line = f"the model that learns ({type(learner).__name__})" if inner is None else f"the model of the file ({inner})"
        return ("the ranking of today", line) if challenge.n_turns % 2 == 0 else (line, "the ranking of today")

    @property
    def n_waiting(self) -> int:
        """Number of queries waiting for feedback."""
        return len(self._pending)

    def counts(self) -> dict[str, int]:
        """What only grows: how many queries were ranked, learned, and forgotten, and what became of feedback."""
        return {**self._counts, "evicted": self._pending.n_evicted, "expired": self._pending.n_expired}

    def stats(self) -> dict[str, Any]:
        """Counts and figures since the first start of the service, across restarts with a checkpoint.

        Losses are of rankings whose grades arrived (`served_interval`): their sum, their mean, and its interval.
        """
        interval = self.served_interval()
        histories = {str(step): {"keys": step.n_keys, "left": step.n_left} for step in keyed_steps(self.model)}
        return {
            **self.counts(),
            "pending": self.n_waiting,
            "early": self._pending.n_early,
            self.measure: self._metric.get(),
            "loss_sum": float(self._served[1]),
            "loss_mean": interval.mean if interval.n else None,
            "loss_mean_interval": [interval.lower, interval.upper],
            "longest_delay": self._longest_delay,
            **({"keep": self.keep, "kept_sum": float(self._kept[1]), "kept_mean": self.kept_mean} if self.draws else {}),
            **({} if self.challenge is None else {"challenger": self.challenge.figures()}),
            **({"histories": histories} if histories else {}),
            **({"vectors": vectors} if (vectors := self.vectors) else {}),
        }

    @property
    def vectors(self) -> dict[str, Any]:
        """The dimensions of each vector, the bytes that what is learned of them takes, and how many had another length."""
        found = [part for part in parts_of(self.model, VectorColumns) if part.names]
        return {
            name: {"dimensions": part.lengths[name], "bytes": part.nbytes, "other_lengths": part.n_odd}
            for part in found
            for name in part.names
        }

    def measure_served(self) -> None:
        """Take into the metric, and into the account of losses, what they do not have yet.

        Nobody waits for that, and many queries at once take less time.
        """
        unmeasured, self._unmeasured = self._unmeasured, []
        if unmeasured:
            scores = np.array([score for each, _, _ in unmeasured for score in each], np.float64)
            grades = np.array([grade for _, each, _ in unmeasured for grade in each], np.int64)
            offsets = np.cumsum([0, *(len(each) for each, _, _ in unmeasured)])
            running_means(self._metric, scores, grades, offsets, [len(unmeasured)])
            losses = np.array([loss for *_, loss in unmeasured if loss is not None])
            self._served[:] = running_sums(self._served, losses)[-1]

    @property
    def served(self) -> np.ndarray:
        """The account of the losses of served rankings: their number, sum and variation (3,)."""
        self.measure_served()
        return self._served

    @property
    def keep(self) -> float | None:
        """The budget of exploring: the least share of the greedy list's DCG@k that users see in expectation; None for none."""
        found: float | None = ranker_of(self.model).keep
        # Lists that are drafted without a budget may keep nothing.
        return found if self.challenge is None or not self.draws else self.challenge.keep

    @property
    def kept_mean(self) -> float | None:
        """Mean, over the lists drawn so far, of the least share of the greedy list's DCG@k that such a draw keeps."""
        n, total = self._kept.tolist()
        return total / n if n else None

    def served_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean expected loss of the rankings served so far, valid at all times with probability `level`.

        It covers queries whose grades arrived, and is valid on any stream (`online_rank.intervals`).
        """
        return LossInterval(self.served).interval(level)
