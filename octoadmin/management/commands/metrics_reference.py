"""`octoadmin metrics_reference`: the table of docs/metrics.md, from the metrics that the code declares."""

from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from locks.metrics import REGISTRY
from octoadmin.monitoring.prometheus import DatabaseCollector

_HEADER = """\
# Metrics

`GET /metrics` answers in Prometheus' text format and needs no token. What server processes count covers those of one
machine: add up what several machines report. What the database knows is the same on every machine: take the maximum.
A histogram has the series `_bucket`, `_sum` and `_count`.

[Alert rules](../deploy/prometheus/octoadmin.rules.yaml) and a [Grafana dashboard](../deploy/grafana/octoadmin.json)
use them; [alerts](alerts.md) says what to do about each.

This page is generated: `make format` writes it.
"""


def _table(rows: Iterable[tuple[Metric, tuple[str, ...]]]) -> str:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric, labels in sorted(rows, key=lambda row: row[0].name):
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        named = ", ".join(f"`{label}`" for label in labels)
        lines.append(f"| `{name}` | {metric.type} | {named} | {metric.documentation} |")
    return "\n".join(lines)


def reference() -> str:
    # prometheus_client has no public way to ask a metric for its labels.
    counted = [
        (metric, tuple(collector._labelnames))
        for collector in REGISTRY._collector_to_names
        if isinstance(collector, MetricWrapperBase)
        for metric in collector.collect()
    ]
    queried = [(metric, tuple(getattr(metric, "_labelnames", ()))) for metric in DatabaseCollector().describe()]
    return (
        f"{_HEADER}\n## Counted by the server processes\n\n{_table(counted)}\n"
        f"\n## Read from the database\n\n{_table(queried)}\n"
    )


class Command(BaseCommand):
    help = "Prints the reference of all metrics, in Markdown."
    requires_system_checks = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        self.stdout.write(reference(), ending="")
