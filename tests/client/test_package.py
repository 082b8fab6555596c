"""The package installs by itself, and starts quickly because it imports little."""

import resource
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from octo import __version__
from tests.servers import PROJECT_DIR

HERE = Path(sys.executable).parent


def test_it_installs_from_its_folder_and_runs_alone(tmp_path):
    """Into an environment that has nothing else: no Django, no dependency that was forgotten."""
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True, with_pip=False)
    subprocess.run(
        [HERE / "uv", "pip", "install", "--quiet", "--python", environment / "bin" / "python",
         PROJECT_DIR / "client"],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    octo = environment / "bin" / "octo"
    printed = subprocess.run([octo, "--version"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert printed.stdout == f"octo {__version__}\n"
    code = "import octo, octo.cli.locks, octo.cli.account, octo.cli.run; octo.AsyncClient; print(octo.__file__)"
    imported = subprocess.run(
        [environment / "bin" / "python", "-W", "error", "-c", code],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    place = Path(imported.stdout.strip())
    assert place.is_relative_to(environment)
    assert (place.parent / "py.typed").exists()


def test_the_blocking_client_is_generated_from_the_asynchronous_one():
    assert (
        subprocess.run([sys.executable, "client/unasync.py", "--check"], cwd=PROJECT_DIR, check=False).returncode == 0
    )


@pytest.mark.parametrize(("words", "limit"), [(("--version",), 0.1), (("lock", "status"), 0.25)])
def test_commands_start_quickly(octo, words, limit):
    """In seconds of CPU; the best of several, as other processes on the machine cost caches."""

    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert octo.run(*words).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(5)) < limit


def test_looking_at_locks_imports_no_more_than_it_needs(octo):
    heavy = ["aiohttp", "ctypes", "configparser", "h2.config", "octo.async_client", "octo.cli.run", "octo.cli.account",
             "octo.testing", "rich"]  # fmt: skip
    code = (
        "import sys; from octo.cli.main import main; code = main(['lock', 'status']);"
        f"print([name for name in {heavy!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], env=octo._environment({}), check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
