"""Checks of the requirements of containers: the runtime, user namespaces, and specifications of the GPUs."""

from weir.cli.doctor.facts import ContainerFacts, GpuFacts, GroupFacts
from weir.cli.doctor.findings import Finding
from weir.local.containers.cdi import HOW

OVERLAY_KERNEL = (5, 13)


def container_runtime(facts: ContainerFacts, groups: GroupFacts) -> Finding:
    """Check that users can run containers, if Podman is installed."""
    name = "containers"
    if not facts.podman:
        return Finding(name, "ok", "Podman isn't installed, and nothing else needs it.")
    if facts.missing:
        return Finding(name, "failure", f"{facts.missing[0]} is missing: install it beside Podman.")
    if groups.kernel < OVERLAY_KERNEL:
        version = ".".join(map(str, groups.kernel))
        return Finding(name, "failure", f"kernel {version} has no overlays for users: 5.13 or newer has.")
    if facts.namespace_problem:
        return Finding(
            name,
            "failure",
            f"users can't make user namespaces ({facts.namespace_problem}): allow them, with `sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu, "
            "`sysctl kernel.unprivileged_userns_clone=1` on old Debian, "
            "or `sysctl user.max_user_namespaces=15000`.",
        )
    if not facts.passes_signals_on:
        return Finding(
            name,
            "warning",
            "catatonit is missing: in a container, a program that doesn't handle SIGTERM ignores it.",
        )
    return Finding(name, "ok", "Podman runs as users, without subordinate ids.")


def container_gpus(facts: ContainerFacts, gpus: GpuFacts) -> Finding:
    """Check that a CDI specification lists the GPUs, on a machine with containers and GPUs."""
    name = "container GPUs"
    if not facts.podman or not gpus.gpus:
        return Finding(name, "ok", "none are needed.")
    if not facts.specified_gpus:
        return Finding(name, "warning", f"no CDI specification names a GPU: run `{HOW}`.")
    return Finding(name, "ok", f"CDI specifications have {facts.specified_gpus} names of GPUs.")
