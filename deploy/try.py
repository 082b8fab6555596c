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
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
DEPLOY = CHECKOUT / "deploy"
START_SECONDS = 300
NAME = "localhost"


class Trial:
    """One directory, a range of ports, and the processes that are stopped at the end."""

    def __init__(self, directory: Path, *, first_port: int, venv: Path) -> None:
        self.directory = directory
        self.tools = venv / "bin"
        self.bin = directory / "venv" / "bin"
        self.ports = {
            name: first_port + number
            for number, name in enumerate(
                ("server", "restored", "postgres", "redis", "caddy", "caddy_http", "nginx", "nginx_http", "prometheus")
            )
        }
        # Those that an upgrade does not stop, and the others.
        self.services = ExitStack()
        self.processes = ExitStack()
        self.password = secrets.token_urlsafe(24)
        self.environment = {
            # How this machine reaches the package index, if that is configured.
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTPS_PROXY"))},
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "SECRET_KEY": secrets.token_urlsafe(48),
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{self.ports['redis']}/0",
            "DATABASE_URL": self.database_url("octoadmin"),
            "PORT": str(self.ports["server"]),
            "ALLOWED_HOSTS": NAME,
            "TRUSTED_PROXIES": "127.0.0.1",
            "OCTO_DATA_DIR": str(directory / "data"),
        }
        self.token = ""
        self.skipped: list[str] = []

    def database_url(self, name: str) -> str:
        return f"postgresql://octoadmin:{self.password}@127.0.0.1:{self.ports['postgres']}/{name}"

    def run(self, *command: str | Path, cwd: Path | None = None, **variables: str) -> str:
        environment = self.environment | variables
        done = subprocess.run(
            [*map(str, command)],
            cwd=cwd or self.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, log: str, *command: str | Path, lasting: bool = False, **variables: str) -> Path:
        path = self.directory / f"{log}.log"
        with path.open("ab") as file:
            process = subprocess.Popen(
                [*map(str, command)], cwd=self.directory, env=self.environment | variables, stdout=file, stderr=file,
                process_group=0,
            )  # fmt: skip
        (self.services if lasting else self.processes).callback(stop, process)
        return path

    def octo(self, *words: str, url: str, **variables: str) -> str:
        """The client, in an environment of its own: it is on other machines than the server."""
        octo = self.directory / "client" / "bin" / "octo"
        return self.run(octo, *words, OCTO_URL=url, OCTO_TOKEN=self.token, **variables)


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
        return
    process.kill()
    process.wait()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 -- an address of ours
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def wait_until(check: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            if found := check():
                return found
        time.sleep(0.2)
    raise SystemExit(f"{what}: not within {START_SECONDS} s")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


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


def build_previous(trial: Trial, ref: str) -> Path:
    source, wheels = trial.directory / "previous", trial.directory / "wheels-before"
    source.mkdir()
    archive = subprocess.run(["git", "archive", ref], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "--extract", "--directory", source], input=archive, check=True)
    build(trial, source, wheels)
    return wheels


def build(trial: Trial, source: Path, wheels: Path) -> None:
    """As `make dist` does, with the tools of this checkout."""
    locked = ("export", "--quiet", "--frozen", "--no-emit-project", "--no-header", "--no-default-groups",
              "--all-extras", "--no-emit-local")  # fmt: skip
    inherited = {"HOME": os.environ["HOME"]}
    trial.run(trial.tools / "hatchling", "build", "--target", "wheel", "--directory", wheels, cwd=source, **inherited)
    trial.run(trial.tools / "uv", "build", "--quiet", "--wheel", "--out-dir", wheels, "client", cwd=source, **inherited)
    trial.run(trial.tools / "uv", *locked, "--output-file", wheels / "requirements.txt", cwd=source, **inherited)


def install(trial: Trial, wheels: Path) -> str:
    pip = (trial.bin / "pip", "--quiet", "--disable-pip-version-check", "install")
    trial.run(*pip, "--require-hashes", "--requirement", wheels / "requirements.txt")
    trial.run(*pip, "--no-deps", "--force-reinstall", *wheels.glob("*.whl"))
    return f"{trial.run(trial.bin / 'octoadmin', '--version').strip()} from {len(list(wheels.glob('*.whl')))} wheels"


def start_postgres(trial: Trial) -> str:
    binaries = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    trial.environment["PATH"] = f"{binaries}:{trial.environment['PATH']}"
    account = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    data, password = trial.directory / "postgres", trial.directory / "password"
    for path in (data, password):
        path.mkdir() if path == data else path.write_text(trial.password)
        shutil.chown(path, account)
    as_owner = ("runuser", "-u", account, "--") if os.getuid() == 0 else ()
    trial.run(
        *as_owner, binaries / "initdb", "--pgdata", data, "--username", "octoadmin", "--pwfile", password,
        "--auth", "scram-sha-256",
    )  # fmt: skip
    options = {"port": trial.ports["postgres"], "listen_addresses": "127.0.0.1", "unix_socket_directories": data}
    trial.start(
        "postgres", *as_owner, binaries / "postgres", "-D", data,
        *(word for name, value in options.items() for word in ("-c", f"{name}={value}")), lasting=True,
    )  # fmt: skip
    server = trial.database_url("postgres")
    ready = (binaries / "pg_isready", "--quiet", "--dbname", server)
    wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL")
    trial.run("psql", "--quiet", server, "--command", "CREATE DATABASE octoadmin ENCODING 'UTF8' TEMPLATE template0")
    return trial.run("psql", "--tuples-only", "--no-align", server, "--command", "SHOW server_version").strip()


def start_octoadmin(trial: Trial) -> str:
    log = trial.start("octoadmin", trial.bin / "octoadmin", "up")
    health = f"http://127.0.0.1:{trial.ports['server']}/health"
    wait_until(lambda: "Octoadmin is running" in log.read_text() and get(health)[0] == 200, "octoadmin up")
    first_run = trial.directory / "data" / "first-run.txt"
    if not trial.token:
        found = re.search(r"octo_\w+", first_run.read_text())
        assert found
        trial.token = found[0]
    wait_until(lambda: json.loads(get(health)[1]).get("worker", "ok") == "ok", "the worker's heartbeat through Redis")
    return "server and worker respond"


def start_caddy(trial: Trial) -> tuple[str, Path]:
    """With certificates of Caddy's own CA, which stays in the directory of the trial."""
    text = (DEPLOY / "caddy" / "Caddyfile").read_text()
    own = f"{{\n\tskip_install_trust\n\tadmin off\n\thttp_port {trial.ports['caddy_http']}\n"
    config = trial.directory / "Caddyfile"
    config.write_text(text.replace("{\n", own, 1))
    address = f"{NAME}:{trial.ports['caddy']}"
    variables = {"OCTO_DOMAIN": address, "OCTO_UPSTREAM": f"127.0.0.1:{trial.ports['server']}"}
    command = ("--adapter", "caddyfile", "--config", config)
    trial.run("caddy", "validate", *command, **variables)
    trial.start("caddy", "caddy", "run", *command, **variables)
    authority = trial.directory / ".local/share/caddy/pki/authorities/local/root.crt"
    wait_until(authority.exists, "Caddy's certificate")
    return f"https://{address}", authority


def start_nginx(trial: Trial) -> tuple[str, Path]:
    """With certificates as in docs/tls.md."""
    commands = re.findall(r"^```sh\n(.*?)^```$", (CHECKOUT / "docs/tls.md").read_text(), re.MULTILINE | re.DOTALL)
    trial.run("bash", "-euo", "pipefail", "-c", "".join(commands))
    server = (DEPLOY / "nginx" / "octoadmin.conf").read_text()
    for before, after in (
        ("/etc/nginx/tls", str(trial.directory)),
        ("locks.example", NAME),
        ("127.0.0.1:8000", f"127.0.0.1:{trial.ports['server']}"),
        ("listen 443", f"listen 127.0.0.1:{trial.ports['nginx']}"),
        ("listen 80", f"listen 127.0.0.1:{trial.ports['nginx_http']}"),
    ):
        assert before in server, before
        server = server.replace(before, after)
    config = trial.directory / "nginx.conf"
    (trial.directory / "octoadmin.conf").write_text(server)
    log = trial.directory / "nginx-error.log"
    config.write_text(
        f"pid {trial.directory}/nginx.pid;\nerror_log {log};\ndaemon off;\nevents {{}}\n"
        f"http {{ access_log off; include {trial.directory}/octoadmin.conf; }}\n"
    )
    trial.run("nginx", "-t", "-e", log, "-c", config)
    trial.start("nginx", "nginx", "-e", log, "-c", config)
    return f"https://{NAME}:{trial.ports['nginx']}", trial.directory / "ca.crt"


def use_over_tls(trial: Trial, url: str, authority: Path) -> str:
    trusted = {"OCTO_CA_FILE": str(authority)}
    curl = ("curl", "--silent", "--cacert", authority)
    health = (*curl, "-o", "/dev/null", "-w", "%{http_code}", f"{url}/health")
    wait_until(lambda: subprocess.run(health, capture_output=True, check=False).stdout == b"200", url)
    trial.octo("lock", "acquire", "try/deploy", "--ttl", "60", url=url, **trusted)
    assert "try/deploy" in trial.octo("lock", "status", url=url, **trusted)
    trial.octo("lock", "release", "try/deploy", url=url, **trusted)
    token = trial.octo("run", "try/deploy", "--", "sh", "-c", "echo $OCTO_FENCING_TOKEN", url=url, **trusted)
    assert token.strip().isdigit()
    assert trial.run(*curl, "-o", "/dev/null", "-w", "%{http_code}", f"{url}/metrics") == "404"
    # A stream is passed on at once: the first event comes before the time is over.
    watch = (*curl, "--no-buffer", "--max-time", "5", "-H", f"Authorization: Bearer {trial.token}", f"{url}/watch")
    assert b"event:" in subprocess.run(watch, capture_output=True, check=False).stdout
    return "acquired, released, run, watched; /metrics is not served"


def monitor(trial: Trial) -> str:
    rules = DEPLOY / "prometheus" / "octoadmin.rules.yaml"
    trial.run("promtool", "check", "rules", rules)
    config = trial.directory / "prometheus.yaml"
    config.write_text(
        f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: octoadmin
    static_configs: [{{targets: ["127.0.0.1:{trial.ports["server"]}"]}}]
"""
    )
    trial.run("promtool", "check", "config", config)
    address = f"127.0.0.1:{trial.ports['prometheus']}"
    trial.start(
        "prometheus", "prometheus", f"--config.file={config}", f"--web.listen-address={address}",
        f"--storage.tsdb.path={trial.directory}/prometheus",
    )  # fmt: skip

    def query(expression: str) -> list[Any]:
        status, body = get(f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        if status != 200:
            raise SystemExit(f"Prometheus refuses {expression}")
        return json.loads(body)["data"]["result"]

    wait_until(lambda: get(f"http://{address}/-/ready")[0] == 200, "Prometheus")
    wait_until(lambda: query("count(up == 1 and on() octoadmin_server_processes > 0)"), "the first scrape")
    # Rates need two scrapes.
    time.sleep(5)
    dashboard = json.loads((DEPLOY / "grafana" / "octoadmin.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    for variable in dashboard["templating"]["list"]:
        # Grafana puts in all values.
        expressions = [each.replace(f"${variable['name']}", ".*") for each in expressions]
    expressions = [each.replace("$__rate_interval", "1m").replace("$__interval", "1m") for each in expressions]
    answered = sum(bool(query(each)) for each in expressions)
    assert answered, "no query has data"
    status, body = get(f"http://{address}/api/v1/rules")
    loaded = [rule for group in json.loads(body)["data"]["groups"] for rule in group["rules"]]
    unhealthy = [rule["name"] for rule in loaded if rule["health"] == "err"]
    assert status == 200
    assert not unhealthy, unhealthy
    firing = [rule["name"] for rule in loaded if rule.get("state") == "firing"]
    return (
        f"{len(expressions)} queries of the dashboard, {answered} with data; {len(loaded)} alert rules, "
        f"firing: {', '.join(firing) or 'none'}"
    )


def upgrade(trial: Trial, wheels: Path) -> tuple[str, str]:
    """Returns the lease that was held meanwhile."""
    url = f"http://127.0.0.1:{trial.ports['server']}"
    held = trial.octo("--json", "lock", "acquire", "try/upgrade", "--ttl", "30m", url=url)
    lease = json.loads(held)["data"]["lock"]["lease_id"]
    trial.processes.close()
    version = install(trial, wheels)
    start_octoadmin(trial)
    trial.octo("lock", "renew", "try/upgrade", "--lease-id", lease, url=url)
    assert get(f"{url}/help/index.html")[0] == 200
    return lease, f"{version}; the lease goes on; /help/ is served"


def roll_back(trial: Trial, before: Path, after: Path, lease: str) -> str:
    """The server of the previous release, on the upgraded database."""
    port = trial.ports["restored"]
    reinstall = (trial.bin / "pip", "--quiet", "install", "--no-deps", "--force-reinstall")
    trial.run(*reinstall, *before.glob("*.whl"))
    # As the units of systemd do before the server.
    trial.run(trial.bin / "octoadmin", "migrate", "--no-input")
    with ExitStack() as old:
        current, trial.processes = trial.processes, old
        trial.start("before", trial.bin / "octoadmin", "server", PORT=str(port))
        wait_until(lambda: get(f"http://127.0.0.1:{port}/health")[0] == 200, "the server of the previous release")
        trial.octo("lock", "renew", "try/upgrade", "--lease-id", lease, url=f"http://127.0.0.1:{port}")
        trial.processes = current
    trial.run(*reinstall, *after.glob("*.whl"))
    trial.run(trial.bin / "octoadmin", "migrate", "--no-input")
    return "its server runs on the new schema, and the lease goes on"


def restore(trial: Trial, lease: str) -> str:
    dump, url = trial.directory / "octoadmin.dump", f"http://127.0.0.1:{trial.ports['restored']}"
    text = (CHECKOUT / "docs/backup.md").read_text()
    commands = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[-1]
    trial.run(
        "psql",
        "--quiet",
        trial.database_url("postgres"),
        "--command",
        "CREATE DATABASE restored TEMPLATE template0 ENCODING 'UTF8'",
    )
    database = trial.database_url("restored")
    trial.run("bash", "-euo", "pipefail", "-c", commands, NEW_DATABASE_URL=database)
    own = {"DATABASE_URL": database, "PORT": str(trial.ports["restored"])}
    own["OCTO_DATA_DIR"] = str(trial.directory / "restored-data")
    trial.start("restored", trial.bin / "octoadmin", "server", **own)
    wait_until(lambda: get(f"{url}/health")[0] == 200, "the server on the restored database")
    trial.octo("lock", "renew", "try/upgrade", "--lease-id", lease, url=url)
    audit = trial.run(trial.bin / "octoadmin", "verify-audit", **own).strip().splitlines()[-1]
    return f"a dump of {dump.stat().st_size // 1024} KiB; the lease from before the upgrade was renewed; {audit}"


@contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    started = time.monotonic()
    results: list[str] = []
    yield results.append
    print(f"ok  {title} ({time.monotonic() - started:.0f} s): {'; '.join(results)}", flush=True)


def install_all(trial: Trial, ref: str) -> tuple[Path, Path]:
    """Returns the directories of the wheels: of the previous release, and of this checkout."""
    with step("wheels of the previous release") as report:
        before = build_previous(trial, ref)
        report(ref[:12])
    with step("wheels of this checkout, with the documentation") as report:
        wheels = trial.directory / "wheels"
        trial.run("make", "--silent", "dist", f"DIST={wheels}", f"VENV={trial.tools.parent}", cwd=CHECKOUT)
        report(", ".join(sorted(path.name for path in wheels.iterdir())))
    with step("install the previous release into an empty environment") as report:
        trial.run(sys.executable, "-m", "venv", trial.directory / "venv")
        report(install(trial, before))
    with step("install the client into another") as report:
        trial.run(sys.executable, "-m", "venv", trial.directory / "client")
        client = trial.directory / "client" / "bin"
        (wheel,) = (each for each in wheels.glob("*.whl") if not each.name.startswith("octoadmin-"))
        trial.run(client / "pip", "--quiet", "install", wheel)
        report(trial.run(client / "octo", "--version").strip())
    return before, wheels


def operate(trial: Trial, before: Path, wheels: Path) -> None:
    with step("PostgreSQL and Redis") as report:
        report(start_postgres(trial))
        port = str(trial.ports["redis"])
        trial.start("redis", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", lasting=True)
    with step("octoadmin up") as report:
        report(start_octoadmin(trial))
    with step("upgrade while a lease is held") as report:
        lease, result = upgrade(trial, wheels)
        report(result)
    with step("the previous release on the upgraded database") as report:
        report(roll_back(trial, before, wheels, lease))
    for tool, start in (("caddy", start_caddy), ("nginx", start_nginx)):
        if shutil.which(tool) is None:
            trial.skipped.append(f"{tool} is not installed")
            continue
        with step(f"{tool} with TLS") as report:
            report(use_over_tls(trial, *start(trial)))
    if shutil.which("prometheus") and shutil.which("promtool"):
        with step("Prometheus") as report:
            report(monitor(trial))
    else:
        trial.skipped.append("prometheus and promtool are not installed")
    with step("backup and restore") as report:
        report(restore(trial, lease))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="ref", help="the git ref of the release to upgrade from")
    parser.add_argument("--first-port", type=int, default=18600, help="nine ports from here on are used")
    parser.add_argument("--venv", type=Path, default=CHECKOUT / ".venv", help="the environment of `make dist`")
    parser.add_argument("--keep", action="store_true", help="keep the directory, with the logs")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="octo-try-"))
    # PostgreSQL runs as another account if this is root.
    directory.chmod(0o755)
    trial = Trial(directory, first_port=arguments.first_port, venv=arguments.venv.absolute())
    try:
        operate(trial, *install_all(trial, arguments.ref or previous_release()))
        print("\n".join(["", *(f"not run: {each}" for each in trial.skipped), "All of it worked."]))
    finally:
        trial.processes.close()
        trial.services.close()
        if arguments.keep:
            print(f"Kept {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
