"""`weir kube`: manifests and charts that install Weir in a cluster, and its removal."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from weir import __version__
from weir.cli.kube.bundle_options import BundleDetails
from weir.cli.kube.dashboard_options import DashboardServerOptions
from weir.cli.kube.manifest_options import AdmissionOptions, NodeAgentOptions, WeirOptions, WeirPodOptions
from weir.cli.options.mistakes import CommandError, WrongOption, failures, option_mistakes
from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Switch

# The modules of these commands are imported when they run
NODE_HELP = """Report the use of a cluster node's GPUs to Weir. The DaemonSet weir-node runs it.

It reads NVIDIA's driver and the kubelet's pod-resources socket, and opens no port.
"""
DASHBOARD_SERVER_HELP = """Serve the dashboard in a cluster to people who sign in.

The Deployment weir-dashboard runs it. It has no rights of its own: the API server is asked with each person's
token of the identity provider.
"""
UNINSTALL_HELP = """Remove Weir from a cluster, with all that any of its versions and options has installed.

Kept are its kinds with their objects, and its namespace. The last lines name everything that stays.
"""
app = App(name="kube", help="Install Weir in a Kubernetes cluster.")
app.command("weir.cli.kube.node:node", name="node", help=NODE_HELP)
app.command("weir.cli.kube.dashboard:dashboard_server", name="dashboard-server", help=DASHBOARD_SERVER_HELP)
app.command("weir.cli.kube.uninstall:uninstall", name="uninstall", help=UNINSTALL_HELP)
MonitoringOption = Annotated[
    Switch, Parameter(help="Add a ServiceMonitor and a PrometheusRule, which need the Prometheus operator.")
]


@app.command(name="manifests")
def manifests(
    *,
    weir: WeirOptions = WeirOptions(),
    admission: AdmissionOptions = AdmissionOptions(),
    priority_classes: Literal["prefixed", "plain", "none"] = "prefixed",
    pods: WeirPodOptions = WeirPodOptions(),
    agents: NodeAgentOptions = NodeAgentOptions(),
    page: DashboardServerOptions = DashboardServerOptions(),
    monitoring: MonitoringOption = False,
    query_api: bool = True,
    job_messages: bool = True,
    shared_nodes: Annotated[int, whole_number(0)] = 0,
    overcommit_grace: str = "5m",
) -> int:
    """Print all objects of an installation, for kubectl.

    Parameters
    ----------
    priority_classes
        PriorityClasses for the types of workloads: weir- (weir-train), plain (train), or none.
    query_api
        Serve query.weir.dev, which `weir list` and the like read. The API server must reach port 9443.
    job_messages
        Let pods report checkpoints and progress of themselves to query.weir.dev, with their own tokens.
    shared_nodes
        Maximum number of nodes that Weir reserves for GPU fractions while they need them.
    overcommit_grace
        Time before preemptible pods are stopped on a node whose GPUs are overcommitted.
    """
    from weir.kubernetes.install import manifests as install

    with option_mistakes():
        chosen = replace(
            weir.installation(agents, page, monitoring=monitoring),
            optional=admission.policies,
            priority_classes=priority_classes,
            pods=pods.checked(shared_nodes, overcommit_grace, weir.replicas),
            query_api=query_api,
            job_messages=job_messages,
            read_all_receivers=pods.notifications_everywhere,
        )
    print(f"# Weir {__version__}, made by `weir kube manifests`.")
    if "@" not in chosen.image:
        print("# The image is named by a tag, which can be moved: --image NAME@sha256:DIGEST pins it.")
    sys.stdout.write(install.as_yaml(install.manifests(chosen)))
    return 0


@app.command(name="charts")
def charts(directory: Path, /) -> int:
    """Write the Helm charts weir-crds and weir into a directory.

    Parameters
    ----------
    directory
        Directory for the charts; it is made if need be.
    """
    from weir.kubernetes.install.charts.files import charts as made

    existing = [directory / name for name in made() if (directory / name).exists()]
    if existing:
        raise WrongOption(f"{existing[0]} exists: remove it, or name another directory")
    for name, files in made().items():
        _write(directory / name, files)
        print(directory / name)
    return 0


@app.command(name="bundle")
def bundle(
    directory: Path,
    /,
    *,
    weir: WeirOptions = WeirOptions(),
    certified: BundleDetails = BundleDetails(),
    agents: NodeAgentOptions = NodeAgentOptions(),
    page: DashboardServerOptions = DashboardServerOptions(),
    monitoring: MonitoringOption = False,
) -> int:
    """Write a bundle and a file-based catalogue for the Operator Lifecycle Manager.

    Parameters
    ----------
    directory
        Directory for the files; it must not exist.
    """
    from weir.kubernetes.install.olm.bundle import bundle as bundle_files
    from weir.kubernetes.install.olm.catalog import catalog

    if directory.exists():
        raise WrongOption(f"{directory} exists: remove it, or name another directory")
    with option_mistakes():
        options = certified.options(weir, agents, page, monitoring=monitoring)
    files = {**bundle_files(options), **catalog(options)}
    _write(directory, files)
    print(directory / "bundle")
    print(directory / "catalog")
    for name in sorted(path for path in files if path.endswith(".yaml") and "/" not in path):
        print(directory / name)
    if "@" not in options.installation.image:
        why = "Certification and air-gapped clusters need --image NAME@sha256:DIGEST."
        print(f"The image is named by a tag. {why}", file=sys.stderr)
    return 0


def _write(directory: Path, files: Mapping[str, str]) -> None:
    """Write texts to files below a directory.

    Raises:
        CommandError: one can't be written.
    """
    for path, text in files.items():
        file = directory / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise CommandError(f"{file} can't be written: {why}; name another directory") from None


@app.command(name="alerts")
def alerts() -> int:
    """Print alerts as a rule file for a Prometheus without the operator."""
    from weir.kubernetes.install.manifests import as_yaml
    from weir.kubernetes.install.monitoring.prometheus import rules

    sys.stdout.write(as_yaml([rules()]))
    return 0


@app.command(name="dashboard")
def dashboard() -> int:
    """Print a Grafana dashboard as JSON for import."""
    from weir.kubernetes.install.monitoring.grafana_board import dashboard as board

    print(json.dumps(board(), indent=2))
    return 0


@app.command(name="release")
def release(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
) -> int:
    """Remove Weir's finalizer from all projects and departments, before Weir is removed.

    The finalizer keeps projects that have workloads. Stop Weir first: the command uses your own rights.

    Parameters
    ----------
    kubeconfig
        The kubeconfig; $KUBECONFIG or ~/.kube/config by default.
    context
        Context of the kubeconfig; the current one by default.
    """
    import asyncio

    from weir.cli.cluster.releasing import release_queues
    from weir.kubernetes.api.credentials import Kubeconfig, NoCredentials
    from weir.kubernetes.api.errors import ApiError

    with failures(NoCredentials, ApiError):
        names = asyncio.run(release_queues(Kubeconfig(kubeconfig, context)))
    for name in names:
        print(f"{name} released")
    if not names:
        print("Nothing is held.")
    return 0
