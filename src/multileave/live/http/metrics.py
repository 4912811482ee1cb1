"""Metrics for Prometheus; no label holds anything that a client chose.

With several workers, prometheus_client keeps the values in the folder PROMETHEUS_MULTIPROC_DIR, which `multileave
serve` sets, so that any worker answers for all.
"""

import os
from collections import Counter as Count
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from multileave.live.experiment import Experiment

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
METHODS = frozenset({"GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"})
STATUSES = ("draft", "running", "stopped")


class Metrics:
    """Counters of one service, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "multileave_requests", "Requests by route and status.", ("method", "route", "status"),
            registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "multileave_request_seconds", "Seconds to answer a request.", ("method", "route"),
            buckets=BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.impressions = Counter("multileave_impressions", "Lists returned.", ("recorded",), registry=self.registry)
        self.events = Counter("multileave_events", "Events by result.", ("result", "code"), registry=self.registry)
        self._of_routes: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.recorded = self.impressions.labels("yes")
        self.unrecorded = self.impressions.labels("no")

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is its path as declared."""
        method = method if method in METHODS else "other"
        known = self._of_routes.get((method, route, status))
        if known is None:
            known = self.requests.labels(method, route, status), self.seconds.labels(method, route)
            self._of_routes[method, route, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def count_shown(self, *, recorded: bool) -> None:
        """Count a list."""
        (self.recorded if recorded else self.unrecorded).inc()

    def count_events(self, receipts: Iterable[tuple[bool, bool, str | None]]) -> None:
        """Count events, each as (accepted, duplicate, code of the rejection)."""
        for (accepted, duplicate, code), number in Count(receipts).items():
            result = "duplicate" if duplicate else "accepted" if accepted else "rejected"
            self.events.labels(result, code or "").inc(number)

    def page(self, experiments: Iterable[Experiment], *, ready: bool) -> bytes:
        """Return all metrics in the Prometheus text format."""
        state = CollectorRegistry()
        state.register(_State(Count(experiment.status for experiment in experiments), ready))
        counted = self.registry
        if MULTIPROCESS_FOLDER in os.environ:
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return generate_latest(counted) + generate_latest(state)


class _State(Collector):
    """Metrics that are read from the service, not counted."""

    def __init__(self, statuses: Count[str], ready: bool) -> None:
        self.statuses = statuses
        self.ready = ready

    def collect(self) -> Iterator[Metric]:
        experiments = GaugeMetricFamily("multileave_experiments", "Experiments by status.", labels=["status"])
        for status in STATUSES:
            experiments.add_metric([status], self.statuses[status])
        yield experiments
        yield GaugeMetricFamily("multileave_ready", "1 once kernels are compiled.", value=float(self.ready))
