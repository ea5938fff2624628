"""`weir kube`: manifests that install Weir in a cluster, and its removal."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

app = App(name="kube", help="Install Weir in a Kubernetes cluster.")
_NAMES = Parameter(consume_multiple=True, negative=())
_SWITCH = Parameter(negative=())


@app.command(name="manifests")
def manifests(
    *,
    namespace: Annotated[str, Parameter(name=("--namespace", "-n"))] = "weir-system",
    image: str | None = None,
    replicas: Annotated[int, Parameter(validator=Number(gte=1, lte=9))] = 2,
    scheduler: str = "weir",
    devices: str | None = None,
    reachable_from: Annotated[Sequence[str], _NAMES] = (),
    refuse_node_name: Annotated[bool, _SWITCH] = False,
    require_scheduler: Annotated[bool, _SWITCH] = False,
    daemonsets_in: Annotated[Sequence[str], _NAMES] = (),
    exempt: Annotated[Sequence[str], _NAMES] = (),
    without_project: str = "ignore",
    without_project_in: str | None = None,
    without_project_exempt: Annotated[Sequence[str], _NAMES] = (),
    priority_classes: Literal["prefixed", "plain", "none"] = "prefixed",
    pod_priority_class: str = "system-cluster-critical",
    requests: str = "cpu=500m,memory=512Mi",
    limits: str = "cpu=4,memory=2Gi",
    node_selector: str | None = None,
    tolerate: Annotated[Sequence[str], _NAMES] = (),
    pull_secret: Annotated[Sequence[str], _NAMES] = (),
    monitoring: Annotated[bool, _SWITCH] = False,
    shared_nodes: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    overcommit_grace: str = "5m",
) -> int:
    """Print all objects of an installation, for kubectl.

    Parameters
    ----------
    namespace
        Namespace of Weir.
    image
        Container image, preferably as NAME@sha256:DIGEST; weir:VERSION by default.
    replicas
        Number of replicas; one leads, the others stand by.
    scheduler
        The schedulerName of pods that Weir schedules.
    devices
        Resources that are GPUs, separated by commas. A name may end in *. NAME=1/7 counts each device as
        that part of a GPU in quotas. The default is the resources of NVIDIA, AMD and Intel.
    reachable_from
        Address ranges and namespaces that Weir's NetworkPolicy lets in; any by default.
    refuse_node_name
        Refuse GPU pods that name their node.
    require_scheduler
        Refuse GPU pods that name another scheduler.
    daemonsets_in
        Refuse GPU pods of DaemonSets in all namespaces but these.
    exempt
        Namespaces exempt from the three options above, besides kube-system.
    without_project
        GPU pods in namespaces that no project lists: ignore, refuse, or queue:PROJECT.
    without_project_in
        Labels of the namespaces for --without-project, as KEY=VALUE separated by commas; all by default.
    without_project_exempt
        Namespaces exempt from --without-project, besides those of the system.
    priority_classes
        PriorityClasses for the types of workloads: weir- (weir-train), plain (train), or none.
    pod_priority_class
        PriorityClass of Weir's own pods, or none.
    requests
        Resource requests of Weir's pods, as NAME=AMOUNT separated by commas.
    limits
        Resource limits of Weir's pods, in the same form.
    node_selector
        Node labels for Weir's pods, as KEY=VALUE separated by commas.
    tolerate
        Taints that Weir's pods tolerate, each as KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT.
    pull_secret
        Secrets with the credentials of the image's registry.
    monitoring
        Add a ServiceMonitor and a PrometheusRule, which need the Prometheus operator.
    shared_nodes
        Maximum number of nodes that Weir reserves for GPU fractions while they need them.
    overcommit_grace
        Time before preemptible pods are stopped on a node whose GPUs are overcommitted.
    """
    from weir import __version__
    from weir.cli import kube_options as check
    from weir.kubernetes.install.admission_policies import OptionalPolicies
    from weir.kubernetes.install.deployment import PodOptions
    from weir.kubernetes.install.manifests import Installation, as_yaml
    from weir.kubernetes.install.manifests import manifests as objects
    from weir.kubernetes.install.network import source
    from weir.kubernetes.translate.device_list import read_devices
    from weir.kubernetes.translate.requests import DeviceResources

    try:
        named = image or f"weir:{__version__}"
        check.one("--image", check.image, named)
        optional = OptionalPolicies(
            refuse_node_name=refuse_node_name,
            require_scheduler=require_scheduler,
            daemonset_namespaces=check.each("--daemonsets-in", check.namespace, daemonsets_in),
            exempt_namespaces=check.each("--exempt", check.namespace, exempt),
            without_project=check.without_project(
                without_project, without_project_in, without_project_exempt
            ),
        )
        pods = PodOptions(
            None
            if pod_priority_class == "none"
            else check.one("--pod-priority-class", check.name, pod_priority_class),
            check.one("--requests", check.amounts, requests),
            check.one("--limits", check.amounts, limits),
            {} if node_selector is None else check.one("--node-selector", check.labels, node_selector),
            [check.one("--tolerate", check.toleration, text) for text in tolerate],
            check.each("--pull-secret", check.name, pull_secret),
            shared_nodes,
            check.one("--overcommit-grace", check.span, overcommit_grace),
        )
        counted = DeviceResources() if devices is None else check.one("--devices", read_devices, devices)
        chosen = Installation(
            check.one("--namespace", check.namespace, namespace),
            named,
            replicas,
            check.one("--scheduler", check.scheduler, scheduler),
            counted.resources,
            counted.weights,
            check.each("--reachable-from", source, reachable_from),
            optional,
            priority_classes,
            pods,
            monitoring,
        )
    except ValueError as error:
        print(f"weir: {error}.", file=sys.stderr)
        return 2
    print(f"# Weir {__version__}, made by `weir kube manifests`.")
    if "@" not in chosen.image:
        print("# The image is named by a tag, which can be moved: --image NAME@sha256:DIGEST pins it.")
    sys.stdout.write(as_yaml(objects(chosen)))
    return 0


@app.command(name="alerts")
def alerts() -> int:
    """Print alerts as a rule file for a Prometheus without the operator."""
    from weir.kubernetes.install.manifests import as_yaml
    from weir.kubernetes.install.monitoring import rules

    sys.stdout.write(as_yaml([rules()]))
    return 0


@app.command(name="dashboard")
def dashboard() -> int:
    """Print a Grafana dashboard as JSON for import."""
    from weir.kubernetes.install.dashboard import dashboard as board

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

    try:
        names = asyncio.run(release_queues(Kubeconfig(kubeconfig, context)))
    except (NoCredentials, ApiError) as error:
        print(f"weir: {error}", file=sys.stderr)
        return 1
    for name in names:
        print(f"{name} released")
    if not names:
        print("Nothing is held.")
    return 0
