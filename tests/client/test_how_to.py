"""The tutorial and the how-to guides: every command and snippet is run, with stand-ins for tools that are not ours."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.client.guides import DOCS, blocks

pytestmark = pytest.mark.timeout(180)

EXAMPLE_URL = "https://locks.example.com"
# What the snippets start, and what it prints. `pip` must not install anything here.
STAND_INS = {
    "pip": "pip was called",
    "terraform": "terraform was called",
    "deploy.sh": "deployed with token $OCTO_FENCING_TOKEN",
    "build.sh": "built",
    "nightly-report": "reported with token $OCTO_FENCING_TOKEN",
}


@pytest.fixture
def shell(backend, tmp_path, no_namespaced_leases):
    """Runs commands in a directory with the stand-ins, as a person would."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "octo").symlink_to(Path(sys.executable).parent / "octo")
    for name, output in STAND_INS.items():
        for place in (binaries, tmp_path):
            (place / name).write_text(f'#!/bin/sh\necho "{output}"\n')
            (place / name).chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment = {
        **inherited, **backend.environment, "PATH": f"{binaries}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }  # fmt: skip

    def run(command, *, program=("bash", "-euo", "pipefail"), **variables):
        done = subprocess.run(
            [*program], input=command, env=environment | variables, cwd=tmp_path,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def commands(document, backend):
    text = "\n".join(blocks(document, "sh"))
    return text.replace("http://127.0.0.1:8000", backend.url).replace("octo_…", backend.worker_token)


def variables(declared, backend):
    """Those of a CI job or a container, with the values that the CI or the cluster would put in."""
    values = {"secrets.OCTO_TOKEN": backend.worker_token, "github.repository": "acme/app"}

    def value(text):
        text = re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values.get(found[1], "17"), text)
        return text.replace(EXAMPLE_URL, backend.url)

    return {name: value(str(text)) for name, text in declared.items()}


def test_the_tutorial(shell, backend):
    output = shell(commands("tutorial.md", backend))
    for line in ("writing the report", "exit code 4: another worker has it", "my turn", "trying the tutorial"):
        assert line in output, line
    assert "this does not run" not in output
    assert re.search(r"taken over with fencing token \d+", output)
    printed = shell("", program=(sys.executable, "-W", "error", "-c", "\n".join(blocks("tutorial.md", "python"))))
    assert re.fullmatch(r"writing with token \d+\n", printed)


@pytest.mark.parametrize("number", [0, 1])
def test_the_workflows_for_github_actions(shell, backend, number):
    workflow = yaml.safe_load(blocks("how-to/github-actions.md", "yaml")[number])
    (job,) = workflow["jobs"].values()
    assert job["runs-on"]
    # YAML reads the key `on` as true.
    assert workflow[True]
    output = "".join(
        shell(variables({"": step["run"]}, backend)[""], **variables(job["env"], backend))
        for step in job["steps"]
        if "run" in step
    )
    assert "pip was called" in output
    # A step of the second workflow is a process of its own, without the lease in its environment.
    assert "deployed with token" in output


def test_the_job_for_gitlab_ci(shell, backend):
    (document,) = blocks("how-to/gitlab-ci.md", "yaml")
    (job,) = yaml.safe_load(document).values()
    # GitLab puts these in, and expands variables within variables.
    gitlab = {"CI_PROJECT_PATH": "acme/app", "CI_PIPELINE_IID": "17", "CI_JOB_URL": "https://gitlab.example/jobs/1"}
    own = variables(job["variables"], backend)
    output = shell("\n".join([*job["before_script"], *job["script"]]), **gitlab, **own)
    assert re.search(r"deployed with token \d+", output)


def test_the_crontab_and_the_commands_of_the_cron_guide(shell, backend, tmp_path):
    assert "does not run" not in shell(commands("how-to/cron.md", backend))
    (crontab,) = blocks("how-to/cron.md", "text")
    *assignments, line = crontab.splitlines()
    *schedule, command = line.split(maxsplit=5)
    assert schedule == ["0", "3", "*", "*", "*"]
    declared = dict(assignment.split("=", 1) for assignment in assignments)
    token = tmp_path / "token"
    token.write_text(backend.worker_token)
    token.chmod(0o600)
    own = {"OCTO_URL": backend.url, "OCTO_TOKEN_FILE": str(token), "OCTO_TOKEN": ""}
    assert declared.keys() == own.keys() - {"OCTO_TOKEN"}
    # cron has another shell and no directory of ours.
    output = shell(command.replace("/usr/local/bin/", f"{tmp_path}/bin/"), program=("sh", "-e"), **own)
    assert re.search(r"reported with token \d+", output)


def test_the_cronjob_of_kubernetes(shell, backend):
    (document,) = blocks("how-to/kubernetes-cronjob.md", "yaml")
    pod = yaml.safe_load(document)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    declared = {each["name"]: each.get("value", "from the cluster") for each in container["env"]}
    own = variables(declared, backend) | {"OCTO_TOKEN": backend.worker_token}
    output = shell(shlex.join(container["command"]), **own)
    assert re.search(r"reported with token \d+", output)


CELERY = """
from celery.contrib.testing.worker import start_worker

with start_worker(app, perform_ping_check=False, pool="solo", loglevel="ERROR"):
    print(rebuild_report.delay("acme").get(timeout=60))
    with locks.lock("report/held"):
        print(type(rebuild_report.apply(("held",), throw=False, retries=5).result).__name__)
"""


def test_the_task_of_celery(shell):
    (document,) = blocks("how-to/celery.md", "python")
    output = shell(
        "", program=(sys.executable, "-c", document + CELERY),
        CELERY_BROKER_URL="memory://", CELERY_RESULT_BACKEND="cache+memory://",
    )  # fmt: skip
    assert re.search(r"acme written with token \d+", output)
    assert "LockHeld" in output


def test_the_function_for_airflow_and_the_syntax_of_its_dag(shell):
    """Airflow itself is not installed."""
    function, dag = blocks("how-to/airflow.md", "python")
    printed = shell("", program=(sys.executable, "-W", "error", "-c", f"{function}\nprint(load_warehouse('today'))"))
    assert re.fullmatch(r"today loaded with token \d+\n", printed)
    compile(dag, "warehouse.py", "exec")
    assert "from warehouse import load_warehouse" in dag


def test_the_run_of_terraform(shell, backend):
    assert shell(commands("how-to/terraform.md", backend)).count("terraform was called") == 2


def test_the_checks_of_the_hardening_guide(shell, backend):
    assert "401" in shell(commands("hardening.md", backend)).splitlines()


def test_the_certificates_of_the_tls_guide(shell, backend):
    assert "octoadmin.crt: OK" in shell(commands("tls.md", backend))


def test_the_store_of_the_fencing_guide():
    (document,) = blocks("fencing.md", "python")
    subprocess.run([sys.executable, "-W", "error", "-c", document], check=True)


# Which tests run the commands of a document.
RUN = {
    "test_how_to.py": {
        "tutorial.md", "how-to/github-actions.md", "how-to/gitlab-ci.md", "how-to/cron.md",
        "how-to/kubernetes-cronjob.md", "how-to/celery.md", "how-to/airflow.md", "how-to/terraform.md", "hardening.md",
        "tls.md", "fencing.md",
    },
    "test_documents.py": {"cli.md", "client.md"},
    "../test_documents.py": {
        "dashboard.md", "leases.md", "namespaces.md", "operation.md", "people.md", "runs.md", "tokens.md",
        "watching.md", "webhooks.md", "elections.md",
    },
    "test_git.py": {"git.md"},
    "../octoadmin/test_restore.py": {"backup.md"},
}  # fmt: skip


def test_no_document_has_commands_that_no_test_runs():
    found = {
        path.relative_to(DOCS).as_posix()
        for path in [*DOCS.glob("*.md"), *DOCS.glob("how-to/*.md")]
        if re.search(r"^```(sh|bash|python|yaml)$", path.read_text(), re.MULTILINE)
    }
    assert found == set().union(*RUN.values())
    for test, documents in RUN.items():
        text = (Path(__file__).parent / test).read_text()
        # Two modules name documents without their ending.
        assert [each for each in sorted(documents) if each.removesuffix(".md") not in text] == []
