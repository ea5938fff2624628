"""The engine as a wheel has it: compiled, and with the plans of its sources. `make test-compiled` runs it, `make test` doesn't.

python -m tests.compiled      what the engine is, and the digest of its plans in a replay and in simulations under faults
"""

import importlib
import os
import pkgutil
import subprocess
import sys
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from tests.simulation.simulate import endure

import weir.engine
from weir.cli.simulation.replay import _fates
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.simulation.replay import replay
from weir.simulation.traces.tenants import tenants
from weir.state.cluster import Cluster

ROOT = Path(__file__).parents[1]
JOBS = 3000
QUOTA_FACTOR = 0.5
"""Quotas so small that some are stopped for others, and moved."""
SEEDS = range(1, 13)
PACKAGES = (
    *("weir.state", "weir.state.reducers", "weir.control", "weir.engine"),
    *(f"weir.engine.{each.name}" for each in pkgutil.iter_modules(weir.engine.__path__) if each.ispkg),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_engine_is_compiled(package: str) -> None:
    within = importlib.import_module(package).__path__
    modules = [
        importlib.import_module(f"{package}.{each.name}")
        for each in pkgutil.iter_modules(within)
        if not each.ispkg
    ]
    assert modules
    plain = {module.__name__ for module in modules if not is_compiled(str(module.__file__))}
    assert plain <= {"weir.state.events", "weir.control.journal", "weir.control.port"}


def test_plans_are_those_of_the_sources() -> None:
    compiled, plain = _said({}), _said({"PYTHONPATH": str(ROOT / "src")})
    assert (compiled.pop("engine"), plain.pop("engine")) == ("compiled", "plain")
    assert compiled == plain


def is_compiled(file: str) -> bool:
    return file.endswith(tuple(EXTENSION_SUFFIXES))


def _said(environment: dict[str, str]) -> dict[str, str]:
    words = [sys.executable, "-m", "tests.compiled"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, cwd=ROOT, env=kept | environment, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def replayed(preset: str) -> str:
    """The digest of all plans of a replay."""
    digest = sha256()

    def reported(cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        plan = decide(cluster, policy, now_s, cache)
        if plan.acts:
            digest.update(
                repr((now_s, plan.binds, plan.evictions, plan.nominations, plan.drops, plan.blocked)).encode()
            )
        return plan

    job_traces = _fates()[:JOBS]
    replay(
        tenants(job_traces, QUOTA_FACTOR),
        job_traces,
        Policy.model_validate({"preset": preset}),
        seed=1,
        decide=reported,
    )
    return digest.hexdigest()


def endured(seed: int) -> str:
    """The digest of all that happens in a simulation under faults."""
    digest = sha256()
    endure(seed, tell=lambda line: digest.update(line.encode()))
    return digest.hexdigest()


def main() -> None:
    """Say what there is to compare."""
    print("engine", "compiled" if is_compiled(sys.modules["weir.engine.cycle"].__file__ or "") else "plain")
    for preset in ("throughput", "balanced", "fair"):
        print(f"{preset}-replay", replayed(preset), flush=True)
    for seed in SEEDS:
        print(f"simulation-{seed}", endured(seed), flush=True)


if __name__ == "__main__":
    main()
