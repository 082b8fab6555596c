"""The package installs by itself, and starts quickly because it imports little."""

import subprocess
import sys
import venv
from pathlib import Path

from tests.servers import PROJECT_DIR

HERE = Path(sys.executable).parent


def test_it_installs_from_its_folder_and_runs_alone(tmp_path):
    """Into an environment that has nothing else: no Django, no dependency that was forgotten."""
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True, with_pip=False)
    subprocess.run(
        [HERE / "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", environment / "bin" / "python",
         PROJECT_DIR / "client"],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    octo = environment / "bin" / "octo"
    printed = subprocess.run([octo, "--version"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert printed.stdout == "octo 0.1.0\n"
    asked = [environment / "bin" / "python", "-c", "import octo, octo.client; print(octo.__file__)"]
    place = Path(subprocess.run(asked, check=True, capture_output=True, text=True, cwd=tmp_path).stdout.strip())
    assert place.is_relative_to(environment)
    assert (place.parent / "py.typed").exists()
    missing = subprocess.run(
        [environment / "bin" / "python", "-c", "import octo; octo.AsyncClient"],
        check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert "pip install 'octo[async]'" in missing.stderr


def test_looking_at_locks_imports_no_more_than_it_needs(octo):
    """What is slow to import is imported where it is used; how long that takes is measured, not tested."""
    heavy = ["asyncio", "aiohttp", "subprocess", "uuid", "hashlib", "pathlib", "logging", "dataclasses",
             "ctypes", "inspect", "urllib.request", "octo.http_async", "octo.cli.supervision"]  # fmt: skip
    code = (
        "import sys; from octo.cli.main import main; code = main(['lock', 'status']);"
        f"print([name for name in {heavy!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], env=octo._environment({}), check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
