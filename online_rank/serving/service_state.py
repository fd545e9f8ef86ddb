"""The state of a ranking service: its model, the queries that wait, what it has learned, and how all that is kept."""

import collections
import copy
import functools
import itertools
import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from online_rank.arguments import flag, integer
from online_rank.arguments import number as real
from online_rank.base import abilities_of, ranker_of, steps_of
from online_rank.base.anatomy import learned_measure
from online_rank.base.schema import Array, Count, Derived, DictOf, Nested, Plain, Real, Schema, Text, TupleOf
from online_rank.base.undo import all_or_nothing
from online_rank.metrics import metric
from online_rank.preprocessing._columns import ColumnTransformer
from online_rank.query import Block
from online_rank.rankers.odd import ModelKinds
from online_rank.serving.challenge import Challenge
from online_rank.serving.clock import CLOCK
from online_rank.serving.counted import Counted, Measured
from online_rank.serving.odd import fitted
from online_rank.serving.pending import PendingQueries
from online_rank.serving.plan import FeedbackPlan
from online_rank.serving.queries import Needs, query_of
from online_rank.serving.reading import Evidence, read, remembered_in, request_of

if TYPE_CHECKING:
    from online_rank.base.undo import Undo

_log = logging.getLogger("online_rank.serving")

#: What is counted.
_COUNTED = (
    "ranked",
    "learned",
    "duplicates",
    "accepted",
    "late",
    "unknown_documents",
    "unanswered",
    "refused",
    "displayed",
    "limited",
)

#: Learned ids that are remembered without a store.
_IN_MEMORY = 100_000
#: Number of queries kept in parsed form until their feedback arrives, and about how many bytes their requests may have.
_READ = 256
_READ_BYTES = 1 << 25
#: Clicked documents and events that count from one session or user in a day, and most of these that are counted.
MOST_EVIDENCE, _MOST_KEPT = 100, 100_000
#: The most that the engagement with a document counts, in (geometric) means of earlier clicks, and how many clicks these are.
_MOST_ENGAGEMENT, _CLICKS = 20.0, 1000.0
#: Most sessions and users that were limited and are counted one by one.
_MOST_LIMITED = 1000


class ServiceState(Counted):
    """The data of a `RankingService`, and how it is kept; see there for its parameters."""

    _schema = Schema(
        n_changes=Count(),
        _pending=Nested("PendingQueries"),
        _metric=Measured("RankingMetric"),
        _learned=DictOf(Plain(), TupleOf(Count(), Count())),
        _counts=DictOf(Text(*_COUNTED), Count()),
        _served=Array(3, low=0.0),
        _kept=Array(2, low=0.0),
        _longest_delay=Count(),
        _evidence=DictOf(Text(), Count()),
        _evidence_day=Count(),
        _shares=DictOf(Plain(), Count()),
        _contested=DictOf(Plain(), TupleOf(Text("category", "number"), Real(low=0.0), Real(low=0.0)), optional=True),
        _engagement=TupleOf(Real(low=0.0), Real()),
        _promoted=Text(optional=True),
        serving_since=TupleOf(Real(), Text(), optional=True),
        replaced=Derived(),
        _target=Derived(),
        _read=Derived(),
        _find_learned=Derived(),
        takes_any_context=Derived(),
        _needs=Derived(),
        _unmeasured=Derived(),
        limited_by=Derived(),
        odd=Derived(),
    )

    #: A file has the model as it was trained: a clone of it may have weights behind a map that has met no query.
    _takes_trained = True
    #: How much evidence sessions and users have given on a day, the last one of which feedback came. Older files lack it.
    _evidence: Any = None
    _evidence_day: int = 0
    #: For queries in windows with feedback of a session or user that is named: 1 if it has the share of that cluster in a day.
    _shares: Any = None
    #: Features of which queries had values of another kind than the models know, and the evidence for it (`ModelKinds`).
    _contested: Any = None
    #: The weight of clicked documents, and the sum of the logarithms of the engagement with them.
    _engagement: tuple[float, float] = (1.0, 0.0)
    #: When the model that serves took the place of another one, in seconds since 1970, and why; None for the first one. Older
    #: files lack it.
    serving_since: tuple[float, str] | None = None
    #: Sessions and users, by their digests, whose feedback was refused beyond their share, and how often since the start.
    limited_by: Any = None
    #: Odd values since the start, by feature (`odd.fitted`).
    odd: Any = None
    #: What the models take; None until somebody asks.
    _needs: Needs | None = None
    #: Whether its model may get a context that it does not look at: a reader does not know the learner's challenger.
    takes_any_context: bool = False
    #: Whether a query that was ranked waits here for its feedback: what a reader ranks waits at the learner.
    keeps_queries: bool = True

    def __init__(
        self,
        model: Any,
        *,
        measure: str = "ndcg@10",
        wait: float = 604_800.0,
        wait_bytes: int = 1 << 28,
        learn_served: bool = False,
        origin: str | None = None,
        plan: FeedbackPlan | None = None,
        challenge: Challenge | None = None,
        clock_skew: float = 300.0,
    ) -> None:
        real("wait", wait, above=0.0)
        integer("wait_bytes", wait_bytes, 1)
        flag("learn_served", learn_served)
        real("clock_skew", clock_skew, 0.0)
        self.model = model
        self.measure = measure
        self.wait = wait
        self.wait_bytes = wait_bytes
        self.learn_served = learn_served
        self.origin = origin
        self.plan = plan
        self.challenge = challenge
        self.clock_skew = clock_skew
        # A challenger within a budget learns from lists before it may serve.
        for each in self.models if challenge is None or challenge.keep is None else [model]:
            _require_met(each)
        if challenge is not None:
            challenge.require_rival(model)
        self.n_changes = 0
        #: None while the model is the one that the service began with; then the origin of the challenger that was promoted,
        #: or "". A restart with the same command continues with the new model, regardless of its settings.
        self._promoted: str | None = None
        #: The model that was replaced last, by a file or by the challenger, in this process or in the journal that it replayed.
        self.replaced: Any = None
        self._pending = PendingQueries(max_seconds=wait, max_bytes=wait_bytes, plan=copy.copy(plan))
        self._require_plan(plan)
        self._metric: Any = metric(measure)
        #: Learned ids that are in no store, with the numbers of the changes, and digests of the feedback.
        #: A digest of 0 stands for feedback of a window, or none.
        self._learned: dict[str | int, tuple[int, int]] = {}
        #: Finds the digest of an id in a store; None without a store.
        self._find_learned: Callable[[str | int], int | None] | None = None
        #: Waiting queries in parsed form.
        self._read: dict[int, Block] = {}
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._target = learned_measure(model)
        self._served = np.zeros(3)
        self._unmeasured = []
        self._kept = np.zeros(2)
        self._longest_delay = 0
        self._evidence = {}
        self._evidence_day = 0
        self._shares = {}
        self._contested = {}
        self._engagement = (1.0, 0.0)

    @property
    def models(self) -> list[Any]:
        """The model that serves, and the challenger's."""
        return [self.model] if self.challenge is None else [self.model, self.challenge.model]

    @property
    def needs(self) -> Needs:
        """What the models take."""
        found, challenge = self._needs, self.challenge
        rivals = 1 if challenge is None else 2
        if (
            found is None
            or found.models[0] is not self.model
            or len(found.models) != rivals
            or (challenge is not None and found.models[1] is not challenge.model)
        ):
            found = self._needs = Needs(self.models, self.takes_any_context)
        return found

    @property
    def now(self) -> float | None:
        """The latest time of requests, where there is a window and there was one."""
        now = self._pending.now
        return None if self._pending.window is None or math.isinf(now) else now

    def _time(self, at: float | None) -> float | None:
        """The time at which a query is learned: its own, or the latest time of requests; None if no model asks for it."""
        if not self.needs.takes_time:
            return None
        if at is None:
            at = CLOCK.now() if self.now is None else self.now
        return at

    def limit(self, wait: float, wait_bytes: int, clock_skew: float) -> None:
        """Change the limits; anything beyond them is dropped at the next query. A checkpoint has to follow."""
        self.clock_skew = clock_skew
        self.wait, self.wait_bytes = self._pending.max_seconds, self._pending.max_bytes = wait, wait_bytes

    def replace_model(self, model: Any, origin: str | None) -> None:
        """Replace the model by another one, from the file `origin`. Waiting queries and counts are kept.

        A checkpoint must follow before anything else: the journal does not know of it (`RankingService.exchange_model`). A
        challenger is compared with the new model from here on: what was counted was of the other one.

        Raises
        ------
        TypeError, ValueError
            It is not a ranker, it learns from another kind of feedback than the present model, or it cannot be compared with
            the challenger.
        """
        if abilities_of(model).draws != self.draws:
            raise ValueError("one model learns from clicks, the other from grades")
        _require_met(model)
        target = learned_measure(model)
        ranker_of(model)
        self.begin_challenge(self.challenge, model)
        if target != self._target:
            # Earlier losses are in another measure.
            self.measure_served()
            self._served = np.zeros(3)
        self.model, self.origin, self._target = model, origin, target
        self._read.clear()

    def begin_challenge(self, challenge: Challenge | None, model: Any) -> None:
        """Let this challenger challenge a model from now on; lists that were drafted before do not count.

        Raises ValueError if the two cannot be compared.
        """
        if challenge is not None:
            challenge.require_rival(model)
            challenge = challenge.begun(self._pending.next_number)
        self.challenge = challenge

    def change_plan(self, plan: FeedbackPlan | None) -> None:
        """Let other feedback count from now on, or at another time. A checkpoint has to follow.

        Raises ValueError for a plan that is not for this model. Without a window, what was given to queries that wait is lost.
        """
        self._require_plan(plan)
        self.plan = plan
        self._pending.change_plan(copy.copy(plan), CLOCK.now())

    def without_rows(self) -> Self:
        """A copy of the service without the waiting queries and the learned ids.

        It is only for saving: rows kept in tables are not written again with the model.
        """
        self.measure_served()  # The copy has the same metric.
        bare = copy.copy(self)
        bare._learned, bare._read = {}, {}
        bare._pending = self._pending.without_queries()
        return bare

    def learned_as(self, query_id: str | int) -> int | None:
        """The digest of the feedback from which a query was learned; None if it was not, or if that is forgotten."""
        # In this order: what leaves the memory is in the store by then.
        if (kept := self._learned.get(query_id)) is not None:
            return kept[1]
        return None if self._find_learned is None else self._find_learned(query_id)

    def take_learned(self) -> dict[str | int, tuple[int, int]]:
        """Remove the learned ids, and return them with the numbers of their changes, and the digests of their feedback."""
        learned, self._learned = self._learned, {}
        return learned

    def stored(self, number: int, learned: Iterable[tuple[str | int, int]]) -> None:
        """Queries up to this number are on the disk, and these ids, which were learned by these changes."""
        self._pending.n_stored = max(self._pending.n_stored, number)
        for query_id, change in learned:
            # One that was forgotten meanwhile may have been learned again.
            if self._learned.get(query_id, (0,))[0] == change:
                self._learned.pop(query_id, None)

    def keep_in_store(self, fetch: Callable[[int], Any], find_learned: Callable[[str | int], int | None]) -> None:
        """Declare that queries and learned ids are also on the disk, where `fetch` reads queries by number, and `find_learned`
        finds the digest of an id: only the last ones stay in memory.
        """
        self._pending.read_from(fetch)
        self._find_learned = find_learned

    def restore(self, waiting: dict[int, tuple[Any, ...]]) -> None:
        """Restore the queries, by number, of a service saved `without_rows`.

        Raises ValueError for numbers that no query of it can have.
        """
        pending = self._pending
        first, last = min(waiting, default=pending.next_number), max(waiting, default=0)
        if not 0 < first <= pending.next_number or last >= pending.next_number:
            raise ValueError(f"queries wait under numbers from {first} to {last}, which are not within those given last")
        for number, (query_id, size, at, *query) in waiting.items():
            # Nobody has seen this service yet: nothing is undone. The time is known: a query may have been ahead of it.
            self._pending.put(all_or_nothing(), query_id, tuple(query), size, number, [], at, self._pending.now)
            self._pending.spill()

    def require_free(self, numbers: Iterable[int]) -> None:
        """Raise ValueError if one of these numbers of stored queries is still to be given to a query."""
        if max(numbers, default=0) >= self._pending.next_number:
            raise ValueError("a query is stored under a number that was not given yet")

    def _require_plan(self, plan: FeedbackPlan | None) -> None:
        if plan is not None and not self.draws:
            plan.require_whole()

    def _record(self, log: "list[Undo]", _: Any = None) -> None:
        """Add to a log what undoes the changes of a request, except changes of the models."""
        pending, own, counts = vars(self._pending), vars(self), self._counts
        log += [
            self._read.clear,
            functools.partial(own.update, own.copy()),
            functools.partial(counts.update, counts.copy()),
            self._pending._derive,
            functools.partial(pending.update, pending.copy()),
        ]
        if self.challenge is not None:
            log.append(functools.partial(vars(self.challenge).update, vars(self.challenge).copy()))

    def _count(self, name: str | None) -> None:
        """Count a request."""
        if name is not None:
            self._counts[name] += 1
        self.n_changes += 1

    def block_of(self, number: int, text: str) -> Block:
        """The query that waits under a number, and was asked by this request: as it was read, or read again."""
        block = self._read.get(number)
        if block is None:
            block = query_of(self.needs, read(request_of(text)))._replace(remembered=remembered_in(text))
            self._hold(number, len(text), block)
        return block

    def documents_of(self, number: int, waiting: Sequence[Any]) -> Collection[Any]:
        """The documents that feedback may be about on the query with a number: text, scores, draw."""
        text, _, drawn = waiting
        if not drawn:
            return self.block_of(number, text).ids or ()
        found = json.loads(drawn)
        return [*found["order"], *[document for _, document in found.get("pinned", ())]]

    def known_documents(self, query_id: Any) -> Collection[Any]:
        """The documents that feedback may be about on the query that waits under an id."""
        return self.documents_of(self._pending.number(query_id) or 0, self._pending.get(query_id))

    def meant(self, query_id: str | int, documents: Collection[Any]) -> Any:
        """The id under which the ranking waits that feedback on these documents is meant for."""
        return self._pending.meant(query_id, documents, self.known_documents)

    def is_limited(self, evidence: Evidence) -> bool:
        """Whether the session or the user has given as much evidence on this day as counts.

        Feedback of a day that is over counts for the present one: otherwise each change of the day would begin a new account.
        """
        kept = self._evidence if evidence.day <= self._evidence_day else {}
        beyond = [key for key in evidence.keys if kept.get(key, 0) >= MOST_EVIDENCE]
        if beyond:
            known = self.limited_by = collections.Counter() if self.limited_by is None else self.limited_by
            known.update(key if key in known or len(known) < _MOST_LIMITED else "others" for key in beyond)
        return bool(beyond)

    def count_evidence(self, changes: all_or_nothing, evidence: Evidence, n: int) -> None:
        """Count n clicked documents or events of a session and a user, if they are known; `changes` undo it."""
        if not (keys := evidence.keys):
            return
        if evidence.day > self._evidence_day:
            self._evidence, self._evidence_day = {}, evidence.day
        known = self._evidence
        n_gone = max(len(known) + sum([key not in known for key in keys]) - _MOST_KEPT, 0)
        gone = [*itertools.islice((key for key in known if key not in keys), n_gone)]
        changes.include_entries(known, [*keys, *gone], sort=True)
        for key in gone:
            del known[key]
        for key in keys:
            known[key] = known.get(key, 0) + max(n, 1)

    def bounded(self, clicked: Any) -> Any:
        """Clicks whose engagement is bounded by what is usual, which begins with 1, and by what all events are worth together.

        What undoes it is recorded before.
        """
        weight, logarithms = self._engagement
        mean, far = logarithms / weight, math.log(_MOST_ENGAGEMENT)
        given = [0.0] * len(clicked)
        if isinstance(clicked, dict):
            declared = {} if self.plan is None else self.plan.events or {}
            most = max(math.exp(min(mean + far, 600.0)), sum(declared.values()))
            clicked = {name: min(value, most) for name, value in clicked.items()}
            given = [max(math.log(value), mean - far) for value in clicked.values() if value > 0.0]
        keep = (1.0 - 1.0 / _CLICKS) ** len(given)
        self._engagement = keep * weight + len(given), keep * logarithms + sum(given)
        return clicked

    def takes_share(self, changes: all_or_nothing, evidence: Evidence) -> bool | None:
        """Whether feedback counts in comparisons: the first of a session and of a user in a day; None for one without a name.

        What one of them says again depends on what it said before. `changes` undo it.
        """
        if not evidence.keys:
            return None
        keys = [f"share {key}" for key in evidence.keys]
        kept = self._evidence if evidence.day <= self._evidence_day else {}
        is_first = not any(key in kept for key in keys)
        if is_first:
            self.count_evidence(changes, evidence._replace(keys=tuple(keys)), 1)
        return is_first

    def share_of(self, changes: all_or_nothing, query_id: Any) -> bool | None:
        """Whether a query whose window has ended counts in comparisons, as `takes_share`."""
        if query_id not in self._shares:
            return None
        changes.include_entries(self._shares, [query_id])
        return bool(self._shares.pop(query_id))

    def fitted(self, query: Block, models: list[Any] | None = None) -> Block | None:
        """A query that some models refused, by default all, with values of the kinds that they know; None if these are not
        the reason.
        """
        self.odd = collections.Counter() if self.odd is None else self.odd
        return fitted(self.models if models is None else models, query, self.odd)

    @property
    def n_odd(self) -> int:
        """How many odd values there were since the start."""
        return 0 if self.odd is None else self.odd.total()

    def weigh_kinds(self, query: Block, is_odd: bool) -> bool:
        """Weigh the kinds of contested features by a query that is learned, as it came; whether a model gives one up.

        A query that is odd contests more of them. What undoes it is recorded before (`_record`).
        """
        kept, ended = ModelKinds(self.models).weighed(query, self._contested or {})
        for name in ended:
            if name is None:
                _log.warning("the first query was sparse, and most queries are not: the model begins again")
            else:
                _log.warning("feature %r has values of another kind in most queries: what was learned of it begins again", name)
            self.model = ModelKinds.without(self.model, name)
            if self.challenge is not None:
                self.challenge.model = ModelKinds.without(self.challenge.model, name)
        if ended:
            self._read.clear()
        self._contested = ModelKinds(self.models).contested(query, kept) if is_odd else kept
        return bool(ended)

    def _hold(self, number: int, n_bytes: int, block: Block) -> None:
        """Keep a waiting query of `n_bytes` as it was read; the oldest go if there are too many, or many that are large."""
        while self._read and len(self._read) >= min(_READ, _READ_BYTES // n_bytes):
            self._read.pop(next(iter(self._read)), None)
        self._read[number] = block

    def end(self, changes: all_or_nothing, query_id: Any, digest: int, counted: str) -> None:
        """A query was learned, or goes; feedback on it comes too late. `changes` undo it; only the model changes later."""
        learned, pending = self._learned, self._pending
        if self._find_learned is None and len(learned) >= _IN_MEMORY:
            forgotten = next(iter(learned))
            changes.include_entries(learned, [query_id, forgotten], sort=True)
            del learned[forgotten]
        elif query_id in learned:
            changes.include_entries(learned, [query_id], sort=True)
        else:
            changes.log.append(functools.partial(learned.pop, query_id, None))
        learned[query_id] = (self.n_changes + 1, digest)
        self._counts[counted] += 1
        self.n_changes += 1
        if query_id in self._shares:
            self.share_of(changes, query_id)
        if query_id in pending._queries:
            self._read.pop(pending._queries[query_id][0], None)
            pending.leave(changes, query_id)


def _require_met(model: Any) -> None:
    """Raise ValueError if a model has weights, but a transformer before them has met no query: all its scores are 0."""
    for step in steps_of(model)[:-1] if getattr(ranker_of(model), "n_features", 0) else ():
        if isinstance(step, ColumnTransformer) and not step.n_features:
            raise ValueError(
                f"the model has weights behind {type(step).__name__}, which has met no query, so that all scores are 0: give "
                "queries to learn it from (--reference FILE), or weights for features as they are"
            )
