"""Hand out the tests to the processes of a run, files in front of control planes first."""

from collections import deque
from pathlib import PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LANES = 4
"""Number of processes that have a control plane. They mostly wait for it, so the others have the cores."""
IN_FRONT = "tests/kubernetes/"
"""Folder of the tests that need a control plane. Each file is handed out as a whole."""
IN_A_BROWSER = "tests/browser/"
"""Folder of the tests that share a browser. All of them go to one process."""
LONGEST_FIRST = [
    *("sweeps", "dashboard_sign_in", "cluster_sessions", "kept_submissions", "history"),
    *("real_claims", "ends", "node_agent", "churn", "cli", "installed"),
    *("scheduling_groups", "why_pods_wait", "gpu_sharing", "real_node", "hostile", "constraints"),
    *("usage", "bindings", "leading", "order", "scheduler_config", "namespace_end", "bench"),
    *("policies", "claims", "volume_constraints", "reflector", "week", "amounts", "project_numbers"),
    *("story", "members", "backend", "overcommit", "plane", "gangs_by_kind", "budgets", "webhooks"),
    *("charts", "writes", "abandoned_node", "dashboard"),
]
"""Files in front of a control plane that take more than about 8 s: the last one begun keeps a run waiting."""
BEGUN_EARLY = [
    *("tests/e2e/test_demo.py::test_all_of_it_comes_true_and_nothing_is_left", "tests/browser/"),
    "tests/e2e/test_idle_rules.py",
    *("tests/users/test_shared_pool.py", "tests/users/test_containers.py", "tests/users/test_attacks.py"),
    *("tests/test_architecture.py", "tests/oidc/test_remote_pool.py"),
]
"""Other tests that take long, or go to one process: the others have them first."""
TOGETHER = {
    *("tests/e2e/test_up.py", "tests/e2e/test_documented_commands.py"),
    *("tests/unit/local/server/http/test_overload.py", "tests/unit/local/server/routes/test_rest_schema.py"),
    *("tests/users/test_attacks.py", "tests/users/test_shared_pool.py", "tests/users/test_peers.py"),
    *("tests/users/test_sessions.py", "tests/e2e/test_ssh_sessions.py", "tests/e2e/test_web_sessions.py"),
    *("tests/e2e/test_remote_sessions.py", "tests/users/test_container_ssh.py"),
    *("tests/users/test_containers.py", "tests/users/test_device_isolation.py", "tests/users/test_oidc.py"),
    *("tests/oidc/test_remote_pool.py", "tests/oidc/test_sessions.py", "tests/oidc/test_tokens.py"),
    "tests/oidc/test_remote_sessions.py",
    *("tests/test_architecture.py", "tests/slurm/test_both.py", "tests/slurm/test_pool.py"),
    "tests/users/test_slurm_scripts.py",
}
"""Files whose tests share a server, or something else that takes long to make."""


class Lanes(LoadScopeScheduling):
    """Gives some processes all files in front of control planes, one after another, and then other tests."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._in_front: deque[str] = deque()
        self._early: deque[str] = deque()

    def schedule(self) -> None:
        if self.collection is None:
            tests = next(iter(self.registered_collections.values()))
            files = {self._split_scope(test) for test in tests if test.startswith(IN_FRONT)}
            self._in_front = deque(sorted(files, key=_order))
            scopes = {self._split_scope(test) for test in tests}
            self._early = deque(scope for scope in BEGUN_EARLY if scope in scopes)
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(IN_A_BROWSER):
            return IN_A_BROWSER
        return file if file.startswith(IN_FRONT) or file in TOGETHER else nodeid

    def _next(self, node: Any) -> str | None:
        """Return the scope that a process takes next; None if all that is left is for others."""
        if self._in_front and self.nodes.index(node) < LANES:
            return self._in_front[0]
        if self._early:
            return self._early[0]
        return next((scope for scope in self.workqueue if scope not in self._in_front), None)

    def _assign_work_unit(self, node: Any) -> None:
        scope = self._next(node)
        if scope is None:
            return
        for waiting in (self._in_front, self._early):
            if scope in waiting:
                waiting.remove(scope)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self._next(node) is not None:
            super()._reschedule(node)
        elif not node.shutting_down:
            node.shutdown()


def _order(file: str) -> tuple[int, str]:
    name = PurePath(file).stem.removeprefix("test_")
    return (LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST), name)
