"""`weir kube uninstall`: remove Weir from a cluster, whatever version or option installed it."""

from pathlib import Path

from weir.cli.options.mistakes import failures
from weir.cli.options.option_types import Switch


def uninstall(
    *,
    namespace: str = "weir-system",
    delete_kinds: Switch = False,
    dry_run: Switch = False,
    kubeconfig: Path | None = None,
    context: str | None = None,
) -> int:
    """Remove Weir from the cluster.

    Parameters
    ----------
    namespace
        Weir's namespace.
    delete_kinds
        Delete Weir's kinds, too, with all projects, departments and other objects of them.
    dry_run
        Say what would be removed, and change nothing.
    kubeconfig
        The kubeconfig; $KUBECONFIG or ~/.kube/config by default.
    context
        Context of the kubeconfig; the current one by default.
    """
    import asyncio

    from weir.cli.kube.removal.uninstall import Removal
    from weir.cli.kube.removal.uninstall import uninstall as remove
    from weir.kubernetes.api.credentials import Kubeconfig, NoCredentials
    from weir.kubernetes.api.errors import ApiError

    removal = Removal(namespace, dry_run, delete_kinds, print)
    with failures(NoCredentials, ApiError):
        asyncio.run(remove(Kubeconfig(kubeconfig, context), removal))
    removal.kept.append(f"The namespace {namespace} with everything else in it.")
    print("\nKept:" if removal.kept else "")
    for sentence in removal.kept:
        print(f"- {sentence}")
    return 0
