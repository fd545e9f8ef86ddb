"""Several learners of one stream, whose models are mixed while they learn.

Each of K learners learns its partitions of a topic, from a copy of one model. Every s seconds it puts its copy into an
exchange, with the offsets up to which it has learned. Once all have, the copies are mixed into one
(`online_rank.distributed.mix`), and all continue from the mix: a new round begins. The last mix is what is served.

A killed process loses what it has learned in a round without having put it. A model and its offsets are one content, so the
next process reads on from where the last mix ends, and learns nothing twice. A name in the exchange is given once
(`online_rank.storage.exchange`): two processes that believe to be the same learner do no harm. While a learner is away the
others wait at the end of their round, and rankings continue.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from online_rank import arguments
from online_rank.distributed.mixing import fork, mix, shed
from online_rank.storage.earlier import continues
from online_rank.storage.exchange import Exchange, exchange_at
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import settings_of

__all__ = ["Exchange", "Learner", "Mix", "OffsetsMoved", "exchange_at", "last_mix"]

_log = logging.getLogger("online_rank.distributed")

_MIX = re.compile(r"([0-9]+)-mix")
#: Seconds between two looks at the exchange, at least and at most: a twentieth of the time waited; until another learner than
#: the last one mixes; between two warnings.
_LOOK, _LONGEST_LOOK, _GRACE, _WARN = 0.05, 1.0, 5.0, 60.0


class OffsetsMoved(RuntimeError):
    """Another process is the same learner and came first: read on from the `offsets` of the learner, which are others now."""


class Mix(NamedTuple):
    """What all learners had learned at the end of a round.

    Attributes
    ----------
    round : int
        How many rounds have ended.
    model : object
        The model.
    offsets : dict of int to int
        For each partition the offset after the last query that the model has learned.
    n_queries : int
        Number of queries that the model has learned in all rounds.
    """

    round: int
    model: Any
    offsets: dict[int, int]
    n_queries: int

    def _encoded(self) -> bytes:
        return to_bytes({"model": self.model, "offsets": [*self.offsets.items()], "n_queries": self.n_queries})


def last_mix(exchange: Exchange) -> Mix | None:
    """The mix of the last round that has ended; None before the first learner began.

    Raises
    ------
    ModelFileError
        It is damaged.
    OSError
        The exchange cannot be read.
    """
    return _after(-1, exchange, {})


class Learner:
    """One of K learners of a stream.

    Parameters
    ----------
    exchange
        Where the learners leave their models for each other.
    model
        A model that can be mixed (`mix`), for the beginning of the first round; later ones begin with what is in the exchange,
        which must have the same settings. It is not changed.
    number, of
        The number of this learner, from 0, and how many there are. It learns the partitions p with p % of == number. To change
        how many there are, end all and start the new learners: they continue from the last mix.
    seconds
        Seconds between two exchanges.

    Attributes
    ----------
    model : object
        The model that learns.
    served : Mix
        The last mix, whose model ranks: it stays as it is.
    offsets : dict of int to int
        Where to read on, for each partition.

    Raises
    ------
    TypeError, ValueError
        The model cannot be mixed, has other settings than the model in the exchange, or an argument is out of its range.
    ModelFileError
        What is in the exchange is damaged.
    OSError
        The exchange cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from online_rank import AdditiveRanker
    >>> from online_rank.distributed.learners import Learner, exchange_at
    >>> place = tempfile.mkdtemp()
    >>> learner = Learner(exchange_at(place), AdditiveRanker(), number=0, of=1)
    >>> learner.learn([[3.0], [1.0]], [1, 0], partition=0, offset=17)
    True
    >>> learner.exchange()
    >>> again = Learner(exchange_at(place), AdditiveRanker(), number=0, of=1)  # after the process was killed
    >>> again.offsets, again.served.n_queries
    ({0: 18}, 1)
    >>> again.learn([[3.0], [1.0]], [1, 0], partition=0, offset=17)  # the topic delivers it again
    False
    """

    def __init__(self, exchange: Exchange, model: Any, *, number: int, of: int, seconds: float = 10.0) -> None:
        arguments.integer("of", of, 1)
        arguments.integer("number", number, 0)
        arguments.number("seconds", seconds, above=0.0)
        if number >= of:
            raise ValueError(f"number is {number}; of {of} learners the last has the number {of - 1}")
        fork(model)  # Raises for one that cannot be mixed, before anything is written.
        self.number, self.of, self.seconds, self._exchange = number, of, seconds, exchange
        # What this learner has put in this round, by name, to decode only what others have put.
        self._put: dict[str, tuple[bytes, Mix]] = {}
        while (found := last_mix(exchange)) is None:
            exchange.put("0-mix", Mix(0, model, {}, 0)._encoded())
        if not continues(settings_of(found.model), settings_of(model), str(exchange)):
            raise ValueError(f"{exchange} has the models of learners with other settings")
        self._begin(found)
        if self._name(number) in exchange.names():
            # A process before this one was killed while it waited.
            self._begin(self._ended_round())

    def learn(self, x: Any, y: Any, w: float = 1.0, *, partition: int, offset: int, **options: Any) -> bool:
        """Learn a query, unless it was learned before; then exchange models, if it is time.

        Parameters
        ----------
        x, y, w
            As `learn_one` of the model takes them.
        partition, offset
            The place of the query in the topic. Offsets rise within a partition; there may be gaps.
        options
            Further arguments of `learn_one`, such as `at`.

        Returns
        -------
        Whether it was learned now.

        Raises
        ------
        TypeError, ValueError
            The query is bad, or another learner has this partition: nothing has changed.
        """
        arguments.integer("partition", partition, 0)
        arguments.integer("offset", offset, 0)
        if partition % self.of != self.number:
            raise ValueError(
                f"partition is {partition}, which learner {partition % self.of} of {self.of} has; this is learner {self.number}"
            )
        if is_new := offset >= self.offsets.get(partition, 0):
            self.model.learn_one(x, y, w, **options)
            self.offsets[partition] = offset + 1
            self._n_learned += 1
        self.tick()
        return is_new

    def tick(self) -> None:
        """Exchange models if it is time. Call it while no query comes, too."""
        if time.monotonic() >= self._began + self.seconds:
            self.exchange()

    def exchange(self) -> None:
        """Put what was learned into the exchange, wait until all learners have, and continue from the mix.

        Raises
        ------
        OffsetsMoved
            The mix has what another process has put as this learner: read on from `offsets`.
        ModelFileError, OSError
            The exchange is damaged, or cannot be read or written: the same call may be tried again.
        """
        mine = {partition: offset for partition, offset in self.offsets.items() if partition % self.of == self.number}
        # If the exchange fails, the model learns on from a shorter window.
        shed(self.model, self.served.model, self.of)
        self._leave(self._name(self.number), Mix(0, self.model, self.offsets, self._n_learned))
        self._begin(self._ended_round())
        if any(self.offsets.get(partition) != offset for partition, offset in mine.items()):
            raise OffsetsMoved(f"{self._exchange}: another process is learner {self.number} of {self.of}, too: end one of them")

    def run(self, read: Callable[[dict[int, int]], Iterable[tuple[int, int, Any, Any] | None]]) -> None:
        """Learn what a function reads, to its end.

        Parameters
        ----------
        read
            From the offsets where to read on, the partition, the offset, x and y of each query; None for a while without one,
            after which models may be exchanged. It is called again when the offsets have moved.
        """
        while True:
            try:
                for query in read(dict(self.offsets)):
                    if query is None:
                        self.tick()
                    else:
                        partition, offset, x, y = query
                        self.learn(x, y, partition=partition, offset=offset)
                return
            except OffsetsMoved as moved:
                _log.warning("%s", moved)

    def _begin(self, found: Mix) -> None:
        """Begin the round after a mix."""
        self.served, self.model = found, fork(found.model, number=self.number)
        self._put.clear()
        self.offsets, self._n_learned = dict(found.offsets), 0
        self._began = time.monotonic()
        for name in self._exchange.names():
            if int(name.partition("-")[0]) < found.round:
                self._exchange.delete(name)

    def _ended_round(self) -> Mix:
        """The mix of this round or of a later one, once there is one: who comes last makes it."""
        names = [self._name(number) for number in range(self.of)]
        began = came = warned = time.monotonic()
        while (found := _after(self.served.round, self._exchange, self._put)) is None:
            there, now = self._exchange.names(), time.monotonic()
            missing = [number for number, name in enumerate(names) if name not in there]
            # Who has waited leaves it to the last one, unless that one seems to be dead.
            if not missing and (came == began or now >= came + _GRACE):
                self._mix(names)
                continue
            if missing:
                came = now
                if now >= warned + _WARN:
                    warned = now
                    _log.warning("%s: learners %s are waited for since %.0f s", self._exchange, missing, now - began)
            time.sleep(min(max(_LOOK, 0.05 * (now - began)), _LONGEST_LOOK))
        return found

    def _mix(self, names: list[str]) -> None:
        """Mix what all learners have learned in this round, if it is still there: others may be in the next round already."""
        base = self.served
        learned = [found for name in names if (found := _got(name, 0, self._exchange, self._put)) is not None]
        if len(learned) < self.of:
            return
        offsets: dict[int, int] = {}
        for each in learned:
            offsets |= {partition: max(offset, offsets.get(partition, 0)) for partition, offset in each.offsets.items()}
        model = mix([each.model for each in learned], base.model)
        n_queries = base.n_queries + sum(each.n_queries for each in learned)
        self._leave(f"{base.round + 1}-mix", Mix(base.round + 1, model, offsets, n_queries))

    def _leave(self, name: str, what: Mix) -> None:
        """Put a content into the exchange, which keeps it unless it has another one of this name."""
        content = what._encoded()
        self._exchange.put(name, content)
        self._put[name] = content, what

    def _name(self, number: int) -> str:
        return f"{self.served.round}-{number}-of-{self.of}"


def _after(number: int, exchange: Exchange, put: dict[str, tuple[bytes, Mix]]) -> Mix | None:
    """The mix of the last round, if its number is above another one."""
    while True:
        last = max((int(found[1]) for found in map(_MIX.fullmatch, exchange.names()) if found), default=-1)
        if last <= number:
            return None
        if (found := _got(f"{last}-mix", last, exchange, put)) is not None:
            return found


def _got(name: str, number: int, exchange: Exchange, put: dict[str, tuple[bytes, Mix]]) -> Mix | None:
    """The content of a name, which is not decoded if this process has put it; None if the exchange lacks it."""
    content = exchange.get(name)
    if content is None:
        return None
    own, mine = put.get(name, (None, None))
    if own == content:
        return mine
    fields = from_bytes(content)
    return Mix(number, fields["model"], dict(map(tuple, fields["offsets"])), fields["n_queries"])
