"""Table of all situations by name. A run goes through them in random order, again and again."""

from collections.abc import Callable, Mapping
from types import ModuleType

from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.situations import (
    claims,
    gangs,
    groups,
    jobs,
    nodes,
    order,
    people,
    pods,
    quotas,
    scheduler,
    services,
)

Act = Callable[[Environment], str]
"""Does something and says what; says nothing if there is nothing to do it to."""
_MODULES: Mapping[str, tuple[ModuleType, str]] = {
    "job": (
        jobs,
        """
        single gang work_queue elastic resize suspended suspend no_pods delete delete_and_make_again
        failing bounded deadline too_large wrong_selector fixed session checkpointing slow
        own_failure_policy restarting of_cron stop_cron
        """,
    ),
    "service": (
        services,
        """
        inference preemptible borrowing change_minimum scale roll_out recreate stateful scale_stateful
        replica_set apart spread protect unprotect orphan foreground release_pod
        """,
    ),
    "gang": (
        gangs,
        """
        mpi pytorch elastic_pytorch jobset leader_workers ray spark upgrade_kind same_rack near
        too_large_for_racks delete
        """,
    ),
    "pod": (
        pods,
        """
        bare sidecars gated gated_gang host_port late_claim fraction memory two_fractions plain
        of_kube_scheduler third static names_its_node delete_pod delete_pod_at_once evict finalizer
        """,
    ),
    "claim": (
        claims,
        """
        single gang too_many own_claim missing_template fewer_devices driver_away delete_claim
        """,
    ),
    "group": (
        groups,
        """
        whole part basic late short of_job same_rack too_large deleted_with_pods
        """,
    ),
    "order": (
        order,
        """
        begin begin_sooner after after_missing drop_condition
        """,
    ),
    "node": (
        nodes,
        """
        cordon drain taint taint_at_once down replace add_and_remove spot fewer_devices relabel pool
        share_another
        """,
    ),
    "quota": (
        quotas,
        """
        quota limit weight priority department_quota new_department new_team rename delete_project
        delete_namespace priority_class urgent change_priority object_quota settings upgrade_own_kinds
        rebuild_topology
        """,
    ),
    "people ask": (
        people,
        """
        why pool report
        """,
    ),
    "weir": (
        scheduler,
        """
        kill restart away stand_by fail_over
        """,
    ),
}
SITUATIONS: Mapping[str, Act] = {
    f"{area}: {name}": getattr(module, name)
    for area, (module, names) in _MODULES.items()
    for name in names.split()
}
MAKE_WORK = frozenset(
    name
    for name in SITUATIONS
    if name.partition(": ")[0] in ("gang", "pod", "claim", "group")
    or name.split(": ")[1]
    in [
        "single",
        "gang",
        "work_queue",
        "elastic",
        "suspended",
        "no_pods",
        "failing",
        "bounded",
        "deadline",
        "too_large",
        "fixed",
        "session",
        "slow",
        "own_failure_policy",
        "restarting",
        "of_cron",
        "checkpointing",
        "inference",
        "preemptible",
        "borrowing",
        "recreate",
        "stateful",
        "replica_set",
        "apart",
        "spread",
        "urgent",
        "priority_class",
        "object_quota",
        "spot",
        "own_claim",
        "missing_template",
        "begin",
        "begin_sooner",
        "after",
        "after_missing",
    ]
) - {
    "gang: delete",
    "gang: upgrade_kind",
    "pod: delete_pod",
    "pod: delete_pod_at_once",
    "pod: evict",
    "pod: finalizer",
    "claim: fewer_devices",
    "claim: driver_away",
    "claim: delete_claim",
    "group: deleted_with_pods",
}
"""Situations that are put off while enough waits."""
COMMON = ("job: single", "job: gang", "job: fixed", "quota: urgent")
"""Common actions of people between the situations."""
