"""Every package that the product imports is declared, and not only installed because another package needs it."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

PROJECT = Path(__file__).parent.parent
OURS = {"locks", "octoadmin"}
# It is installed from its folder, and then no list says which modules it has.
CLIENT = {"octo": ["octoadmin-client"]}


def imported(directory: Path) -> set[str]:
    modules: set[str] = set()
    for file in directory.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
                modules.add(node.module)
    return {module.partition(".")[0] for module in modules} - OURS - sys.stdlib_module_names


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_imported_packages_are_declared() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lines = sum(project["optional-dependencies"].values(), project["dependencies"])
    declared = {normalised(re.split(r"[\[<>=~! ]", line)[0]) for line in lines}
    distributions = {**packages_distributions(), **CLIENT}
    undeclared = {
        module
        for package in OURS
        for module in imported(PROJECT / package)
        if not declared & {normalised(name) for name in distributions.get(module, [module])}
    }
    assert undeclared == set()
