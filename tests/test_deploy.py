"""deploy/ names only metrics, settings and versions that exist."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from locks import tasks
from octoadmin.environment import Environment
from octoadmin.settings import VERSION
from tests.polling import until
from tests.servers import PROJECT_DIR, RunningServer

DEPLOY = PROJECT_DIR / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "octoadmin.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus" / "octoadmin.rules.yaml").read_text())["groups"][0]["rules"]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
VALUES = yaml.safe_load((DEPLOY / "helm" / "octoadmin" / "values.yaml").read_text())
SETTINGS = {name.upper() for name in Environment.model_fields}
# Prometheus adds them to each series.
TARGET_LABELS = {"instance", "job"}


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable)
    yield from (rule["expr"] for rule in RULES)


@pytest.fixture
def series(server: RunningServer, worker_token: str) -> dict[str, set[str]]:
    """The labels of each series of /metrics, on a server that has worked a little."""
    tasks.heartbeat(beat="here")
    tasks.sweep()
    api = server.api(worker_token)
    assert api.call("POST", "/locks/deploy/acquire", {"ttl_seconds": 30}).status == 200
    assert api.call("GET", "/health").status == 200

    def metrics() -> str | None:
        """None while the server has counters of before the heartbeat."""
        text = api.call("GET", "/metrics").content.decode()
        return text if "octoadmin_heartbeat_age_seconds{" in text else None

    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(until(metrics)):
        labels[family.name] = set()
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_every_query_names_metrics_and_labels_that_exist(series: dict[str, set[str]]) -> None:
    found = list(queries())
    assert len(found) > 30
    for query in found:
        names = set(re.findall(r"\boctoadmin_\w+", query))
        assert names, query
        assert names <= set(series), query
        grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", query) for label in group.split(", ")}
        selected = set(re.findall(r'(\w+)=~?"', query))
        known = TARGET_LABELS.union(*(series[name] for name in names))
        # Recorded only for runs that were queued, which the test's are not.
        if names == {"octoadmin_task_queue_seconds"}:
            known.add("task")
        assert grouped | selected <= known, query


def test_every_metric_is_on_the_dashboard(series: dict[str, set[str]]) -> None:
    shown = " ".join(queries())
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in series}
    assert [name for name in sorted(families) if name not in shown] == []


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_has_a_delay_a_severity_and_a_runbook(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    page, _, section = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (.+)$", (PROJECT_DIR / page).read_text(), re.MULTILINE)
    assert section in {heading.lower() for heading in headings}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_accepts_the_alert_rules() -> None:
    subprocess.run(["promtool", "check", "rules", DEPLOY / "prometheus" / "octoadmin.rules.yaml"], check=True)


def variables() -> Iterator[tuple[str, str]]:
    for service in ("migrate", "server", "worker"):
        yield from (("compose.yaml", name) for name in COMPOSE["services"][service]["environment"])
    yield from (("values.yaml", name) for name in VALUES["env"])
    example = (DEPLOY / "systemd" / "octoadmin.env.example").read_text()
    yield from (("octoadmin.env.example", name) for name in re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE))
    dockerfile = (DEPLOY / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    yield from (("Dockerfile", name) for name in re.findall(r"\b([A-Z_]+)=\S", dockerfile))


def test_every_setting_exists() -> None:
    # Read by Python and the shell.
    others = {"PATH", "PYTHONDONTWRITEBYTECODE"}
    assert [(file, name) for file, name in variables() if name not in SETTINGS | others] == []


def test_every_command_exists() -> None:
    commands = {path.stem for path in PROJECT_DIR.glob("*/management/commands/*.py")} | {"migrate"}
    units = " ".join(path.read_text() for path in (DEPLOY / "systemd").glob("*.service"))
    chart = " ".join(path.read_text() for path in (DEPLOY / "helm").rglob("*.yaml"))
    named = {service["command"][0] for name, service in COMPOSE["services"].items() if "build" in service}
    named |= set(re.findall(r"bin/octoadmin (\w+)", units)) | set(re.findall(r"args: \[(\w+)", chart))
    assert named == {"migrate", "server", "up", "worker"}
    assert named <= commands


def test_versions_are_those_of_the_product() -> None:
    chart = yaml.safe_load((DEPLOY / "helm" / "octoadmin" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION
    assert COMPOSE["services"]["server"]["image"] == f"octoadmin:{VERSION}"
    pinned = re.search(r"^UV_VERSION := (\S+)$", (PROJECT_DIR / "Makefile").read_text(), re.MULTILINE)
    assert pinned
    assert f"uv=={pinned[1]}" in (DEPLOY / "Dockerfile").read_text()


def test_the_image_contains_what_the_wheel_is_built_from() -> None:
    build = tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "sphinx --quiet --fail-on-warning --builder html --doctree-dir /tmp/doctrees docs build/help" in dockerfile
    for source in (*build["packages"], "docs", *(build["force-include"].keys() - {"build/help"})):
        assert f"COPY {source} {source}" in dockerfile
        assert f"!{source}" in ignored
