"""Imports of a command before it answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.cli.samples import fill
from tests.unit.client.fake import Fake

LIST = """
import json, sys
from weir.cli.main import main
code = main(["list"])
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""
NOT_NEEDED = (
    *(
        "weir.scenario_io",
        "weir.model.scenario",
        "weir.model.policy",
        "weir.api.submissions",
        "weir.api.answers",
    ),
    *("yaml", "ruamel", "click", "rich", "pygments", "numpy", "fastapi", "sqlalchemy"),
)


def test_a_list_imports_only_what_it_needs(fake: Fake) -> None:
    fill(fake)
    env = {**os.environ, "WEIR_URL": fake.url, "WEIR_TOKEN": "secret"}
    done = subprocess.run([sys.executable, "-c", LIST], env=env, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert "train-4k2p" in done.stdout
    assert not set(NOT_NEEDED).intersection(modules)


SUBMIT = LIST.replace('"list"', '"submit", "-p", "vision", "--gpus", "1", "--", "true"')


def test_a_submission_of_a_command_imports_no_reader_of_files(fake: Fake) -> None:
    fill(fake)
    env = {**os.environ, "WEIR_URL": fake.url, "WEIR_TOKEN": "secret"}
    done = subprocess.run([sys.executable, "-c", SUBMIT], env=env, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    read = {"yaml", "weir.cli.submissions.file_reader", "weir.scenario_io.document", "weir.api.batches"}
    assert not read.intersection(modules)


CLUSTER_SESSION = """
import json, sys
sys.modules["httpx._main"] = None
import weir.cli.sessions.commands
import weir.cli.sessions.kubernetes.cluster_shell
print(json.dumps(sorted(sys.modules)))
"""


def test_a_shell_on_a_cluster_imports_only_what_it_needs_before_it_asks_the_cluster() -> None:
    command = [sys.executable, "-c", CLUSTER_SESSION]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert "weir.cli.cluster.transport" in modules
    not_needed = {*NOT_NEEDED, "aiohttp", "structlog", "kubernetes"} - {"weir.api.answers"}
    assert not not_needed.intersection(modules)


CLUSTER_SUBMISSION = CLUSTER_SESSION.replace(
    "import json, sys", "import json, sys, weir.cli.cluster.submissions"
)


def test_a_submission_to_a_cluster_imports_nothing_of_batches_files_and_job_scripts() -> None:
    command = [sys.executable, "-c", CLUSTER_SUBMISSION]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert "weir.cli.cluster.job" in modules
    others = {
        "weir.api.batches",
        "weir.scenario_io.source_map",
        "weir.model.scenario",
        "weir.slurm.pod_script",
    }
    assert not others.intersection(modules)


SCHEDULER = """
import json, sys
from pathlib import Path
from weir.cli.server.up import import_log
import_log()
from weir.cli.server.up_options import ClusterOptions, NoProjectOptions, process_options
from weir.kubernetes.process.main import access_of
options = process_options(ClusterOptions(), NoProjectOptions(), None, None, elects=True)
options.kubeconfig = Path(sys.argv[1])
print(access_of(options).server)
print(json.dumps(sorted(sys.modules)))
"""


def test_a_scheduler_without_a_port_imports_no_web_server(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "a",
            }
        )
    )
    command = [sys.executable, "-c", SCHEDULER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    server, modules = done.stdout.splitlines()
    assert server == "http://127.0.0.1:9"
    assert not {"kubernetes", "rich", "pygments", "aiohttp", "cryptography"}.intersection(json.loads(modules))
