"""river's metrics, without what two of them import of scipy: half a second that none of ours needs."""

from online_rank._lazy import postpone

postpone("scipy.stats", "scipy.integrate")

from river.metrics.base import Metric, Metrics  # noqa: E402

__all__ = ["Metric", "Metrics"]
