"""Questions that people ask Weir through the API server, while everything else goes on."""

from typing import Any

from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.queries import ROOT
from tools.controlplane.api import ApiError

AWAY = 503
_REPORTS = ("project", "department", "user", "type", "node")


def why(env: Environment) -> str:
    """Ask why a workload waits or runs, and for its details and the decision on it."""
    found = env.pick(env.objects("workloads"))
    if found is None:
        return ""
    metadata = found["metadata"]
    path = f"{ROOT}/namespaces/{metadata['namespace']}/workloads/{metadata['name']}"
    answers = [_ask(env, f"{path}{rest}") for rest in ("", "/why?wait=2", "/decision")]
    named = [each["name"] for each in answers if each is not None and "name" in each]
    assert set(named) <= {f"{metadata['namespace']}/{metadata['name']}"}, named
    return f"{metadata['name']}: {sum(each is not None for each in answers)} answers"


def pool(env: Environment) -> str:
    """Ask for the pool, its nodes and its events."""
    nodes = _ask(env, f"{ROOT}/nodes")
    if nodes is None:
        return ""
    names = {each["name"] for each in nodes["items"]}
    assert _ask(env, f"{ROOT}/pools/cluster") is not None or not env.replicas.running
    events = _ask(env, f"{ROOT}/events?limit=100")
    return f"{len(names)} nodes, {0 if events is None else events['total']} events"


def report(env: Environment) -> str:
    """Ask for both reports, of all or of one namespace."""
    by = env.chance.choice(_REPORTS)
    within = env.chance.choice(("", f"/namespaces/{env.space()}"))
    rows = 0
    for kind in ("usage", "history"):
        found = _ask(env, f"{ROOT}{within}/reports/{kind}?by={by}")
        if found is None:
            return ""
        rows += len(found["rows"])
        assert all(row["allocated_gpu_s"] >= 0 for row in found["rows"]), found
    return f"by {by}: {rows} rows"


def _ask(env: Environment, path: str) -> dict[str, Any] | None:
    """Return an answer; None while no instance serves, or if what is asked about has gone."""
    try:
        found: dict[str, Any] = env.api.get(path)
    except ApiError as error:
        if error.code in (AWAY, 404, 409):
            return None
        raise
    return found
