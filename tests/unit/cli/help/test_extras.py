"""The plain package, and what it says where an extra is missing."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from weir.cli.commands import COMMANDS
from weir.cli.help.extras import DOMAINS, missing_extra

ROOT = Path(__file__).parents[4]
CLUSTER, TRACE = "docs/examples/cluster.yaml", "docs/examples/jobs.csv"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSIDE_A_JOB = """
import sys
sys.path = [{source!r}, *(path for path in sys.path if "site-packages" not in path)]
import weir
weir.checkpointed(step=3)
assert weir.stopping() is False
weir.report(step=3, loss=0.5)
print(sorted({{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names) - {{"__main__"}}))
"""


def distributions(requirements: list[str]) -> set[str]:
    return {each.partition(">")[0].partition("[")[0] for each in requirements}


@cache
def installed() -> Mapping[str, Sequence[str]]:
    """Return the distributions of each importable name; to look for them takes a third of a second."""
    return packages_distributions()


def test_the_plain_package_has_at_most_five_dependencies() -> None:
    plain = distributions(PROJECT["dependencies"])
    assert len(plain) <= 5
    assert not plain & {"numpy", "sqlalchemy", "alembic", "fastapi", "uvicorn", "nvidia-ml-py"}


def test_calls_inside_a_job_load_the_standard_library_alone(tmp_path: Path) -> None:
    code = INSIDE_A_JOB.format(source=str(ROOT / "src"))
    env = {"WEIR_POD_DIRECTORY": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['weir']\n"
    assert (tmp_path / "notes.jsonl").read_text().count('"step":3') == 2


@pytest.mark.parametrize("extra", sorted(DOMAINS))
def test_the_modules_of_an_extra_are_those_of_its_distributions(extra: str) -> None:
    brought = distributions(PROJECT["optional-dependencies"][extra]) - {"weir"}  # with another extra
    of_module = installed()
    named = {dist.lower().replace("_", "-") for top in DOMAINS[extra] for dist in of_module[top]}
    assert brought <= named
    assert named - brought <= {"starlette"}  # comes with FastAPI


def test_each_command_names_an_extra_of_the_package() -> None:
    assert {command.extra for command in COMMANDS} - {""} <= set(PROJECT["optional-dependencies"])


def test_a_database_of_a_cluster_needs_the_extra_of_its_history() -> None:
    assert missing_extra("sqlalchemy.orm", "server", ["up", "--on", "kubernetes"]) == "history"
    assert missing_extra("sqlalchemy.orm", "server", ["up"]) == "server"


@pytest.mark.parametrize(
    ("tokens", "url", "module", "extra"),
    [
        (["up"], "", "structlog", "server"),
        (["up", "--on", "kubernetes"], "", "structlog", "kubernetes"),
        (["backup", "x.db"], "", "sqlalchemy", "server"),
        (["scenario", "run", "docs/examples/lab.yaml"], "", "numpy", "simulation"),
        (["simulate", "--cluster", CLUSTER, "--trace", TRACE], "", "numpy", "simulation"),
        (["kube", "manifests"], "", "msgspec", "kubernetes"),
        (["kube", "node"], "", "grpc", "node"),
        (["list"], "kube:", "msgspec", "kubernetes"),
        (["submit", "-p", "a", "--image", "x", "--", "x"], "kube:", "msgspec", "kubernetes"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(
    tokens: list[str], url: str, module: str, extra: str
) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from weir.cli.main import main; sys.exit(main({tokens!r}))"
    env = {**os.environ, "WEIR_URL": url}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    answer = f"weir: `weir {tokens[0]}` needs packages that aren't installed: pip install 'weir[{extra}]'.\n"
    assert (done.returncode, done.stderr) == (1, answer)
