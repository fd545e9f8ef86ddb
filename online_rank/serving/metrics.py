"""Figures of a server for Prometheus."""

import asyncio
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from online_rank.serving.models import Models

__all__ = ["Figures"]

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
#: Seconds between two measurements of the delay of the event loop.
_BETWEEN_DELAYS = 0.1
_PATHS = ("/rank", "/learn")
_COUNTERS = {
    "ranked": "Rankings served",
    "learned": "Queries learned",
    "duplicates": "Repeated feedback",
    "accepted": "Pieces of feedback accepted for the end of a window",
    "late": "Feedback that came too late: after its window, after learning, after a promotion",
    "unknown_documents": "Early feedback on documents that its query, when it came, did not have",
    "unanswered": "Windows that ended without feedback",
    "refused": "Windows that ended with what the model cannot learn",
    "expired": "Early feedback whose query never came",
    "promotions": "Challengers that took the place of the serving model",
    "inputs": "Queries whose features were looked at",
    "unknown_inputs": "Of these, queries with features that nobody knows",
    "missing_inputs": "Of these, queries without features that are expected",
    "deleted_keys": "Keys deleted, on request or after their time",
    "evicted": "Queries dropped before their feedback arrived",
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

    def __init__(self, models: Models, paths: set[str]) -> None:
        self._paths = frozenset(paths)
        self._registry = CollectorRegistry()
        requests = Counter("online_rank_requests", "Requests answered", ["path", "status"], registry=self._registry)
        text = "Time from the first byte of a request to the last of its answer, waiting included"
        latency = Histogram("online_rank_latency_seconds", text, ["path"], buckets=_BUCKETS, registry=self._registry)
        text = "By how much a timer of the event loop is late"
        self._delay = Histogram("online_rank_event_loop_delay_seconds", text, buckets=_BUCKETS, registry=self._registry)
        self.in_flight = Gauge("online_rank_requests_in_flight", "Requests under way", registry=self._registry)
        ProcessCollector(registry=self._registry)
        self._requests: dict[tuple[str, int], Any] = {}
        self._latency = {path: latency.labels(path) for path in _PATHS}
        self._all_requests = requests
        self._registry.register(_OfModels(models))

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered after so many seconds."""
        path = path if path in self._paths else "other"
        counter = self._requests.get((path, status))
        if counter is None:
            counter = self._requests[path, status] = self._all_requests.labels(path, str(status))
        counter.inc()
        if path in self._latency:
            self._latency[path].observe(seconds)

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


class _OfModels:
    """Figures read from the models when Prometheus scrapes."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """Called by `prometheus_client`."""
        models, counts = list(self._models.open_models.values()), self._models.counts
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"online_rank_{name}", text, value=counts[name])
        waiting = sum(model.durable.service.n_waiting for model in models)
        yield GaugeMetricFamily("online_rank_pending", "Queries that wait for feedback", value=waiting)
        yield GaugeMetricFamily("online_rank_models", "Models in memory", value=len(models))
        yield GaugeMetricFamily("online_rank_keys", "Keys that have a model, in memory or not", value=self._models.n_keys)
        journal = sum(model.durable.journal_bytes or 0 for model in models)
        yield GaugeMetricFamily("online_rank_journal_bytes", "Size of the journals", value=journal)
        text = "By how many seconds stored times lie ahead of the clock, beyond what is accepted of requests"
        yield GaugeMetricFamily("online_rank_seconds_ahead", text, value=self._models.seconds_ahead)
        if len(models) == 1:
            interval = models[0].monitor.losses.interval()
            for name, value in (("", interval.mean), ("_lower", interval.lower), ("_upper", interval.upper)):
                text = "Mean loss of the rankings served, and its 95 % interval at any time"
                yield GaugeMetricFamily(f"online_rank_served_loss{name}", text, value=value)
            drift = max(models[0].inputs.drift().values(), default=0.0)
            text = "Largest population stability index of a feature"
            yield GaugeMetricFamily("online_rank_input_drift", text, value=drift)
            retention = models[0].durable.service.retention
            if retention is not None:
                text = "Lower bound on the expected DCG of drawn rankings as a share of the greedy ranking's"
                yield GaugeMetricFamily("online_rank_retention", text, value=retention)
            kept = models[0].durable.service.kept_mean
            if kept is not None:
                text = (
                    "Mean, over the lists drawn, of the least share of the greedy ranking's DCG that a draw is expected to keep"
                )
                yield GaugeMetricFamily("online_rank_kept_share", text, value=kept)
            challenge = models[0].durable.service.challenge
            if challenge is not None:
                difference = challenge.difference()
                for name, value in (("", difference.mean), ("_lower", difference.lower), ("_upper", difference.upper)):
                    text = "By how much the loss of the serving model exceeds that of the challenger, and its 95 % interval"
                    yield GaugeMetricFamily(f"online_rank_challenger_difference{name}", text, value=value)
