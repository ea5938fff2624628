"""What a command imports before it answers."""

import json
import os
import subprocess
import sys

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
