"""Checks of the requirements of containers: the runtime, user namespaces, and specifications of the GPUs."""

from weir.cli.doctor.facts import ContainerFacts, GpuFacts, GroupFacts
from weir.cli.doctor.findings import Verdict
from weir.local.machine.cdi import HOW

OVERLAY_KERNEL = (5, 13)


def container_runtime(facts: ContainerFacts, groups: GroupFacts) -> Verdict:
    """Check that users can run containers, if Podman is installed."""
    if not facts.podman:
        return "ok", "Podman isn't installed, and nothing else needs it."
    if facts.missing:
        return "failure", f"{facts.missing[0]} is missing: install it beside Podman."
    if groups.kernel < OVERLAY_KERNEL:
        version = ".".join(map(str, groups.kernel))
        return "failure", f"kernel {version} has no overlays for users: 5.13 or newer has."
    if facts.namespace_problem:
        return "failure", (
            f"users can't make user namespaces ({facts.namespace_problem}): allow them, with `sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, "
            "`sysctl kernel.unprivileged_userns_clone=1` on old Debian, "
            "or `sysctl user.max_user_namespaces=15000`."
        )
    if not facts.passes_signals_on:
        return (
            "warning",
            "catatonit is missing: in a container, a program that doesn't handle SIGTERM ignores it.",
        )
    return "ok", "Podman runs as users, without subordinate ids."


def container_gpus(facts: ContainerFacts, gpus: GpuFacts) -> Verdict:
    """Check that a CDI specification lists the GPUs, on a machine with containers and GPUs."""
    if not facts.podman or not gpus.gpus:
        return "ok", "none are needed."
    if not facts.specified_gpus:
        return "warning", f"no CDI specification names a GPU: run `{HOW}`."
    return "ok", f"CDI specifications have {facts.specified_gpus} names of GPUs."
