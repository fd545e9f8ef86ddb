"""river's metrics, without the scipy imports of two of them, which take half a second and are not needed here."""

from online_rank.support.lazy import postpone

postpone("scipy.stats", "scipy.integrate")

from river.metrics.base import Metric, Metrics  # noqa: E402

__all__ = ["Metric", "Metrics"]
