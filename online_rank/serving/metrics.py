"""Figures of a server for Prometheus."""

import asyncio
import bisect
import itertools
import math
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from online_rank.serving.clock import CLOCK
from online_rank.serving.durable import is_for_room
from online_rank.serving.readers import AnyModels
from online_rank.serving.served import ServedModel, seconds_ahead

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
#: Seconds between two measurements of the delay of the event loop.
_BETWEEN_DELAYS = 0.1
_PATHS = ("/rank", "/learn")
#: Requests that were answered are counted when somebody asks, or as soon as there are this many.
MOST_UNCOUNTED = 1000
_COUNTERS = {
    "ranked": "Rankings served",
    "learned": "Queries learned",
    "duplicates": "Repeated feedback",
    "accepted": "Pieces of feedback accepted for the end of a window",
    "late": "Feedback that came too late: after its window, after learning, after a promotion",
    "unknown_documents": "Early feedback on documents that its query, when it came, did not have",
    "unanswered": "Windows that ended without feedback",
    "refused": "Windows that ended with what the model cannot learn",
    "displayed": "Lists that clients displayed otherwise than they were drawn",
    "limited": "Feedback beyond what a session or a user may give in a day",
    "expired": "Early feedback whose query never came",
    "promotions": "Challengers that took the place of the serving model",
    "inputs": "Queries whose features were looked at",
    "unknown_inputs": "Of these, queries with features that nobody knows",
    "missing_inputs": "Of these, queries without features that are expected",
    "missing_declared": "Declared inputs that queries lacked: the ranking of today, the context, keys of a history",
    "odd_values": "Texts where the model knows numbers, and numbers where it knows categories",
    "deleted_keys": "Keys deleted, on request or after their time",
    "evicted": "Queries dropped before their feedback arrived",
    "elsewhere": "Rankings that were made elsewhere, such as by readers",
    "older": "Of these, rankings with another model than the one that served when they came",
    "sent": "Rankings of this reader that the learner has taken",
    "dropped": "Rankings of this reader that were dropped before the learner had them",
    "not_taken": "Rankings of this reader that the learner refused",
    "drifts": "Number of rises of the served loss",
}


class Figures:
    """Requests by path and status, their latency, what the process takes, and figures read from the models on request.

    Counters start with the process and never fall, whichever models are in memory.

    Parameters
    ----------
    models
        The models of the server. If there are several, counters are sums over all of them and gauges over those in memory;
        there are no figures for single keys, since there may be many.
    paths
        The paths by which requests are counted; all others count as "other".
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, models: AnyModels, paths: set[str]) -> None:
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        #: Path, status and seconds of requests that were answered, and are not counted yet (`count`).
        self.requests: list[tuple[str, int, float]] = []
        # What alarms watch begins at 0: Prometheus sees no increase of a counter that appears at 1.
        watched = [*((path, 500) for path in sorted(paths)), ("/learn", 503), ("/forget", 409), ("/forget", 503)]
        self._answered = {each: 0 for each in watched if each[0] in paths}
        #: By path: how many requests are in each bucket of seconds, and their seconds.
        self._latency = {path: [0] * (len(_BUCKETS) + 1) for path in _PATHS}
        self._seconds = dict.fromkeys(_PATHS, 0.0)
        text = "By how much a timer of the event loop is late"
        self._delay = Histogram("online_rank_event_loop_delay_seconds", text, buckets=_BUCKETS, registry=self._registry)
        self.n_in_flight = 0
        in_flight = Gauge("online_rank_requests_in_flight", "Requests under way", registry=self._registry)
        in_flight.set_function(lambda: self.n_in_flight)
        ProcessCollector(registry=self._registry)
        self._models = models
        self._registry.register(self)

    def count(self) -> None:
        """Count the requests that were answered."""
        requests, self.requests = self.requests, []
        for path, status, seconds in requests:
            known = path if path in self._paths else "other"
            self._answered[known, status] = self._answered.get((known, status), 0) + 1
            if path in self._latency:
                self._latency[path][bisect.bisect_left(_BUCKETS, seconds)] += 1
                self._seconds[path] += seconds

    async def watch_the_loop(self) -> None:
        """Measure the delay of the event loop, as long as this runs."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BETWEEN_DELAYS
            await asyncio.sleep(_BETWEEN_DELAYS)
            self._delay.observe(max(0.0, loop.time() - due))

    def text(self) -> str:
        """All figures in Prometheus' text form."""
        return generate_latest(self._registry).decode()

    def collect(self) -> Iterator[Metric]:
        """Requests, and figures read from the models, when Prometheus scrapes; called by `prometheus_client`."""
        self.count()
        answered = CounterMetricFamily("online_rank_requests", "Requests answered", labels=["path", "status"])
        for (path, status), n in self._answered.items():
            answered.add_metric([path, str(status)], n)
        text = "Time from the first byte of a request to the last of its answer, waiting included"
        latency = HistogramMetricFamily("online_rank_latency_seconds", text, labels=["path"])
        for path, n_in in self._latency.items():
            ends = map(floatToGoString, (*_BUCKETS, math.inf))
            latency.add_metric([path], [*zip(ends, itertools.accumulate(n_in), strict=True)], self._seconds[path])
        yield from (answered, latency)
        models, counts = list(self._models.open_models.values()), self._models.counts
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"online_rank_{name}", text, value=counts[name])
        for name, text, value in self._gauges(models):
            yield GaugeMetricFamily(f"online_rank_{name}", text, value=value)

    def _gauges(self, models: list[ServedModel]) -> Iterator[tuple[str, str, float]]:
        """Name, description and value of each gauge."""
        yield from self._models.gauges()
        yield "pending", "Queries that wait for feedback", sum(model.durable.service.n_waiting for model in models)
        yield "models", "Models in memory", len(models)
        yield "journal_bytes", "Size of the journals", sum(model.durable.journal_bytes or 0 for model in models)
        text = "By how many seconds stored times lie ahead of the clock, beyond what is accepted of requests"
        yield "seconds_ahead", text, seconds_ahead(models)
        text = "By how many seconds the system clock was set forward since the process began; negative: back"
        yield "clock_step_seconds", text, CLOCK.step
        stopped = sum(not model.commits.is_working for model in models)
        yield "learning_stopped", "Models that learn nothing, since their journal cannot be written", stopped
        full = sum(model.commits.full is not None and is_for_room(model.commits.full) for model in models)
        yield "disk_full", "Models that learn nothing until there is room on the disk", full
        failing = sum(model.durable.checkpoint_failure is not None for model in models)
        yield "checkpoints_failing", "Models whose last checkpoint could not be written", failing
        yield "snapshots_lacking", "Models of which today's is not kept", sum(model.kept.lacks_today for model in models)
        if len(models) != 1:
            return
        (model,), service = models, models[0].durable.service
        yield from _with_interval("served_loss", "Mean loss of the rankings served", model.monitor.losses.interval())
        drift = max(model.inputs.drift().values(), default=0.0)
        yield "input_drift", "Largest population stability index of a feature", drift
        if service.keep is not None:
            yield "keep", "Budget: the least share of the greedy list's DCG that users see in expectation", service.keep
        if service.kept_mean is not None:
            text = "Mean, over the lists drawn, of the least share of the greedy list's DCG that such a draw keeps"
            yield "kept_share", text, service.kept_mean
        if service.challenge is not None:
            text = "By how much the loss of the serving model exceeds the challenger's"
            yield from _with_interval("challenger_difference", text, service.challenge.difference())


def _with_interval(name: str, text: str, found: Any) -> Iterator[tuple[str, str, float]]:
    for suffix, value in (("", found.mean), ("_lower", found.lower), ("_upper", found.upper)):
        yield f"{name}{suffix}", f"{text}, and its 95 % interval at any time", value
