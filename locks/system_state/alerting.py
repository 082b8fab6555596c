"""Evaluates alerts with the state of the system."""

from locks.services.alerts.evaluation import Evaluated, UnhealthyPart, evaluate
from locks.system_state.counters import counters
from locks.system_state.health import unhealthy_parts


def evaluate_alerts() -> Evaluated:
    parts = unhealthy_parts(counters())
    return evaluate(unhealthy=[UnhealthyPart(key=key, description=text) for key, text in parts.items()])
