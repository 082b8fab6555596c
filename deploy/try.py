"""The path of an operator, from wheels to a monitored service, tried on this machine: `make try`.

Into an empty environment it installs the wheels of the previous release, starts them on a PostgreSQL and a Redis of
their own, upgrades to the wheels of this checkout while a lease is held, puts Caddy and nginx with TLS in front, takes
and releases locks through both, lets Prometheus read the metrics, evaluates every query of the dashboard and every
alert, backs up and restores. All of it listens on the loopback interface, in a temporary directory, and is stopped at
the end. What is not installed is skipped, and listed.

Needs Debian's postgresql, redis-server, caddy and nginx; prometheus (with promtool) may be anywhere on the PATH.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trial import (
    CHECKOUT,
    DEPLOY,
    Trial,
    create_database,
    get,
    run,
    start_postgres_and_redis,
    step,
    trial,
    wait_until,
    wait_until_healthy,
)  # fmt: skip

NAME = "localhost"


def git(*words: str) -> str:
    return run("git", *words, cwd=CHECKOUT)


def previous_release() -> str:
    """The last commit whose change log begins with an earlier release, without migrations that were renamed since."""

    def first_heading(ref: str) -> str:
        found = re.search(r"^## (.+)$", git("show", f"{ref}:CHANGELOG.md"), re.MULTILINE)
        return found[1] if found else ""

    def migrations(ref: str) -> set[str]:
        return set(git("ls-tree", "--name-only", ref, "locks/migrations/").split())

    here, known = first_heading("HEAD"), migrations("HEAD")
    for ref in git("log", "--first-parent", "--format=%H", "HEAD", "--", "CHANGELOG.md").split():
        if first_heading(ref) not in (here, "Unreleased") and migrations(ref) <= known:
            return ref
    raise SystemExit("There is no previous release in the history: name one with --from.")


@dataclass(frozen=True)
class Release:
    """Wheels with their locked dependencies, and the environment into which they are installed."""

    wheels: Path
    environment: Path

    @property
    def octoadmin(self) -> Path:
        return self.environment / "bin" / "octoadmin"


def build_previous(attempt: Trial, wheels: Path, *, ref: str, tools: Path) -> None:
    """As `make dist` does, with the tools of this checkout and without the documentation."""
    source = attempt.directory / "previous"
    source.mkdir()
    archive = subprocess.run(["git", "archive", ref], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "--extract", "--directory", source], input=archive, check=True)
    make = partial(attempt.run, cwd=source, HOME=os.environ["HOME"])
    make(tools / "hatchling", "build", "--target", "wheel", "--directory", wheels)
    make(tools / "uv", "build", "--quiet", "--wheel", "--out-dir", wheels, "client")
    make(
        tools / "uv", "export", "--quiet", "--frozen", "--no-emit-project", "--no-header", "--no-default-groups",
        "--all-extras", "--no-emit-local", "--output-file", wheels / "requirements.txt",
    )  # fmt: skip


def install(attempt: Trial, release: Release) -> str:
    """As docs/operation.md says."""
    attempt.run(sys.executable, "-m", "venv", release.environment)
    pip = (release.environment / "bin" / "pip", "--quiet", "--disable-pip-version-check", "install")
    attempt.run(*pip, "--require-hashes", "--requirement", release.wheels / "requirements.txt")
    attempt.run(*pip, "--no-deps", *release.wheels.glob("*.whl"))
    return attempt.run(release.octoadmin, "--version").strip()


def install_all(attempt: Trial, *, ref: str, venv: Path) -> tuple[Release, Release]:
    """Returns the previous release and that of this checkout."""
    before, after = (
        Release(attempt.directory / f"wheels-{name}", attempt.directory / f"venv-{name}")
        for name in ("before", "after")
    )
    with step("wheels of the previous release") as report:
        build_previous(attempt, before.wheels, ref=ref, tools=venv / "bin")
        report(ref[:12])
    with step("wheels of this checkout, with the documentation") as report:
        attempt.run("make", "--silent", "dist", f"DIST={after.wheels}", f"VENV={venv}", cwd=CHECKOUT)
        report(", ".join(sorted(path.name for path in after.wheels.glob("[!.]*"))))
    with step("each installed into an empty environment") as report:
        report(f"{install(attempt, before)}, {install(attempt, after)}")
    with step("the client installed into another") as report:
        # It is on other machines than the server.
        attempt.run(sys.executable, "-m", "venv", attempt.directory / "client")
        attempt.run(
            attempt.directory / "client/bin/pip", "--quiet", "install", *after.wheels.glob("octoadmin_client-*")
        )
        report(attempt.run(attempt.directory / "client/bin/octo", "--version").strip())
    return before, after


class Client:
    """`octo`, with the token that the first start leaves in the data directory."""

    def __init__(self, attempt: Trial) -> None:
        self.attempt = attempt
        first_run = attempt.directory / "data" / "first-run.txt"
        self.token = wait_until(lambda: re.search(r"octo_\w+", first_run.read_text()), "the first token")[0]

    def __call__(self, *words: str, url: str, **variables: str) -> str:
        octo = self.attempt.directory / "client/bin/octo"
        return self.attempt.run(octo, *words, OCTO_URL=url, OCTO_TOKEN=self.token, **variables)


def start_caddy(attempt: Trial) -> tuple[str, Path]:
    """With certificates of Caddy's own CA, which stays in the directory of the attempt."""
    text = (DEPLOY / "caddy" / "Caddyfile").read_text()
    own = f"{{\n\tskip_install_trust\n\tadmin off\n\thttp_port {attempt.ports['caddy_http']}\n"
    config = attempt.directory / "Caddyfile"
    config.write_text(text.replace("{\n", own, 1))
    address = f"{NAME}:{attempt.ports['caddy']}"
    variables = {"OCTO_DOMAIN": address, "OCTO_UPSTREAM": f"127.0.0.1:{attempt.ports['server']}"}
    command = ("--adapter", "caddyfile", "--config", config)
    attempt.run("caddy", "validate", *command, **variables)
    attempt.start("caddy", "caddy", "run", *command, **variables)
    authority = attempt.directory / ".local/share/caddy/pki/authorities/local/root.crt"
    wait_until(authority.exists, "Caddy's certificate")
    return f"https://{address}", authority


def start_nginx(attempt: Trial) -> tuple[str, Path]:
    """With certificates as in docs/tls.md."""
    commands = re.findall(r"^```sh\n(.*?)^```$", (CHECKOUT / "docs/tls.md").read_text(), re.MULTILINE | re.DOTALL)
    attempt.run("bash", "-euo", "pipefail", "-c", "".join(commands))
    server = (DEPLOY / "nginx" / "octoadmin.conf").read_text()
    for before, after in (
        ("/etc/nginx/tls", str(attempt.directory)),
        ("locks.example", NAME),
        ("127.0.0.1:8000", f"127.0.0.1:{attempt.ports['server']}"),
        ("listen 443", f"listen 127.0.0.1:{attempt.ports['nginx']}"),
        ("listen 80", f"listen 127.0.0.1:{attempt.ports['nginx_http']}"),
    ):
        assert before in server, before
        server = server.replace(before, after)
    config = attempt.directory / "nginx.conf"
    (attempt.directory / "octoadmin.conf").write_text(server)
    log = attempt.directory / "nginx-error.log"
    config.write_text(
        f"pid {attempt.directory}/nginx.pid;\nerror_log {log};\ndaemon off;\nevents {{}}\n"
        f"http {{ access_log off; include {attempt.directory}/octoadmin.conf; }}\n"
    )
    attempt.run("nginx", "-t", "-e", log, "-c", config)
    attempt.start("nginx", "nginx", "-e", log, "-c", config)
    return f"https://{NAME}:{attempt.ports['nginx']}", attempt.directory / "ca.crt"


def use_over_tls(attempt: Trial, octo: Client, url: str, authority: Path) -> str:
    trusted = {"OCTO_CA_FILE": str(authority)}
    curl = ("curl", "--silent", "--cacert", authority)
    health = (*curl, "-o", "/dev/null", "-w", "%{http_code}", f"{url}/health")
    wait_until(lambda: subprocess.run(health, capture_output=True, check=False).stdout == b"200", url)
    octo("lock", "acquire", "try/deploy", "--ttl", "60", url=url, **trusted)
    assert "try/deploy" in octo("lock", "status", url=url, **trusted)
    octo("lock", "release", "try/deploy", url=url, **trusted)
    token = octo("run", "try/deploy", "--", "sh", "-c", "echo $OCTO_FENCING_TOKEN", url=url, **trusted)
    assert token.strip().isdigit()
    assert attempt.run(*curl, "-o", "/dev/null", "-w", "%{http_code}", f"{url}/metrics") == "404"
    # A stream is passed on at once: the first event comes before the time is over.
    watch = (*curl, "--no-buffer", "--max-time", "5", "-H", f"Authorization: Bearer {octo.token}", f"{url}/watch")
    assert b"event:" in subprocess.run(watch, capture_output=True, check=False).stdout
    return "acquired, released, run, watched; /metrics is not served"


def monitor(attempt: Trial) -> str:
    rules = DEPLOY / "prometheus" / "octoadmin.rules.yaml"
    attempt.run("promtool", "check", "rules", rules)
    config = attempt.directory / "prometheus.yaml"
    config.write_text(
        f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: octoadmin
    static_configs: [{{targets: ["127.0.0.1:{attempt.ports["server"]}"]}}]
"""
    )
    attempt.run("promtool", "check", "config", config)
    address = f"127.0.0.1:{attempt.ports['prometheus']}"
    attempt.start(
        "prometheus", "prometheus", f"--config.file={config}", f"--web.listen-address={address}",
        f"--storage.tsdb.path={attempt.directory}/prometheus",
    )  # fmt: skip

    def query(expression: str) -> list[Any]:
        status, body = get(f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        if status != 200:
            raise SystemExit(f"Prometheus refuses {expression}")
        return json.loads(body)["data"]["result"]

    wait_until(lambda: get(f"http://{address}/-/ready")[0] == 200, "Prometheus")
    wait_until(lambda: query("count(up == 1 and on() octoadmin_server_processes > 0)"), "the first scrape")
    dashboard = json.loads((DEPLOY / "grafana" / "octoadmin.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    for variable in dashboard["templating"]["list"]:
        # Grafana puts in all values.
        expressions = [each.replace(f"${variable['name']}", ".*") for each in expressions]
    expressions = [each.replace("$__rate_interval", "1m").replace("$__interval", "1m") for each in expressions]
    for each in expressions:
        wait_until(partial(query, each), f"data for {each}")
    status, body = get(f"http://{address}/api/v1/rules")
    loaded = [rule for group in json.loads(body)["data"]["groups"] for rule in group["rules"]]
    unhealthy = [rule["name"] for rule in loaded if rule["health"] == "err"]
    assert status == 200
    assert not unhealthy, unhealthy
    firing = [rule["name"] for rule in loaded if rule.get("state") == "firing"]
    return (
        f"all {len(expressions)} queries of the dashboard have data; {len(loaded)} alert rules, "
        f"firing: {', '.join(firing) or 'none'}"
    )


def upgrade(attempt: Trial, before: Release, after: Release) -> tuple[Client, str]:
    """Returns the client, and the lease that it held all the time."""
    port = attempt.ports["server"]
    running = attempt.start("before", before.octoadmin, "up")
    wait_until_healthy(port)
    octo, url = Client(attempt), f"http://127.0.0.1:{port}"
    held = octo("--json", "lock", "acquire", "try/upgrade", "--ttl", "30m", url=url)
    lease = json.loads(held)["data"]["lock"]["lease_id"]
    running.close()
    attempt.start("after", after.octoadmin, "up")
    wait_until_healthy(port)
    octo("lock", "renew", "try/upgrade", "--lease-id", lease, url=url)
    assert get(f"{url}/help/index.html")[0] == 200
    return octo, lease


def roll_back(attempt: Trial, before: Release, after: Release, octo: Client, lease: str) -> None:
    """A server of the previous release, on the upgraded database and beside the new one."""
    port = attempt.ports["other_server"]
    # As the units of systemd do before the server.
    attempt.run(before.octoadmin, "migrate", "--no-input")
    with attempt.start("rolled-back", before.octoadmin, "server", PORT=str(port)):
        wait_until_healthy(port)
        octo("lock", "renew", "try/upgrade", "--lease-id", lease, url=f"http://127.0.0.1:{port}")
    attempt.run(after.octoadmin, "migrate", "--no-input")


def restore(attempt: Trial, after: Release, octo: Client, lease: str) -> str:
    """With the last commands of docs/backup.md, into another database."""
    text = (CHECKOUT / "docs/backup.md").read_text()
    commands = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[-1]
    create_database(attempt, "restored")
    database, port = attempt.database_url("restored"), attempt.ports["other_server"]
    attempt.run("bash", "-euo", "pipefail", "-c", commands, NEW_DATABASE_URL=database)
    own = {"DATABASE_URL": database, "PORT": str(port), "OCTO_DATA_DIR": str(attempt.directory / "restored")}
    attempt.start("restored", after.octoadmin, "server", **own)
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: get(f"{url}/health")[0] == 200, "the server on the restored database")
    octo("lock", "renew", "try/upgrade", "--lease-id", lease, url=url)
    audit = attempt.run(after.octoadmin, "verify-audit", **own).strip().splitlines()[-1]
    size = (attempt.directory / "octoadmin.dump").stat().st_size // 1024
    return f"a dump of {size} KiB; the lease from before the upgrade was renewed; {audit}"


def operate(attempt: Trial, before: Release, after: Release) -> list[str]:
    """Returns what could not be run."""
    skipped = []
    with step("PostgreSQL and Redis") as report:
        report(start_postgres_and_redis(attempt))
    with step("upgrade while a lease is held") as report:
        octo, lease = upgrade(attempt, before, after)
        report("server and worker respond before and after; the lease goes on; /help/ is served")
    with step("the previous release on the upgraded database") as report:
        roll_back(attempt, before, after, octo, lease)
        report("its server runs on the new schema, and the lease goes on")
    for tool, start in (("caddy", start_caddy), ("nginx", start_nginx)):
        if shutil.which(tool) is None:
            skipped.append(f"{tool} is not installed")
            continue
        with step(f"{tool} with TLS") as report:
            report(use_over_tls(attempt, octo, *start(attempt)))
    if shutil.which("prometheus") and shutil.which("promtool"):
        with step("Prometheus") as report:
            report(monitor(attempt))
    else:
        skipped.append("prometheus and promtool are not installed")
    with step("backup and restore") as report:
        report(restore(attempt, after, octo, lease))
    return skipped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="ref", help="the git ref of the release to upgrade from")
    parser.add_argument("--first-port", type=int, default=18600, help="nine ports from here on are used")
    parser.add_argument("--venv", type=Path, default=CHECKOUT / ".venv", help="the environment of `make dist`")
    parser.add_argument("--keep", action="store_true", help="keep the directory, with the logs")
    arguments = parser.parse_args()
    ref = arguments.ref or previous_release()
    with trial(first_port=arguments.first_port, keep=arguments.keep) as attempt:
        attempt.environment |= {
            "ALLOWED_HOSTS": NAME, "TRUSTED_PROXIES": "127.0.0.1", "OCTO_DATA_DIR": str(attempt.directory / "data"),
        }  # fmt: skip
        skipped = operate(attempt, *install_all(attempt, ref=ref, venv=arguments.venv.absolute()))
    print("\n".join(["", *(f"not run: {each}" for each in skipped), "All of it worked."]))


if __name__ == "__main__":
    main()
