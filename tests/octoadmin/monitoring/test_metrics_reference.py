"""docs/metrics.md lists the metrics of /metrics, and is current."""

import re
import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from tests.servers import PROJECT_DIR, RunningServer

PAGE = (PROJECT_DIR / "docs" / "metrics.md").read_text()


def test_the_page_is_current() -> None:
    generated = subprocess.run(
        [sys.executable, "manage.py", "metrics_reference"], cwd=PROJECT_DIR, check=True, capture_output=True, text=True
    ).stdout
    assert generated == PAGE, "run `make format`"


def test_it_lists_exactly_what_a_server_reports(server: RunningServer) -> None:
    listed = set(re.findall(r"^\| `(octoadmin_\w+)` \|", PAGE, re.MULTILINE))
    text = server.api().call("GET", "/metrics").content.decode()
    assert listed == {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }
