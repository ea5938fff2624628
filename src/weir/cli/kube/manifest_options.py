"""Options of `weir kube manifests`, checked: a person applies the output without reading it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir import __version__
from weir.cli.kube import option_checks as check
from weir.cli.kube.dashboard_options import DashboardServerOptions
from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Names, Switch

if TYPE_CHECKING:
    from weir.kubernetes.install.manifests import Installation
    from weir.kubernetes.install.pods.deployment import PodOptions
    from weir.kubernetes.install.pods.history import HistoryStorage
    from weir.kubernetes.install.pods.node_agent import NodeAgents
    from weir.kubernetes.install.policies.admission_policies import OptionalPolicies
    from weir.kubernetes.translate.device_resources import DeviceResources


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WeirOptions:
    """Namespace, image and reach of Weir in a cluster."""

    namespace: Annotated[str, Parameter(name=("--namespace", "-n"))] = "weir-system"
    """Namespace of Weir."""
    image: str | None = None
    """Container image, preferably as NAME@sha256:DIGEST; weir:VERSION by default."""
    replicas: Annotated[int, whole_number(1, 9)] = 2
    """Number of replicas; one leads, the others stand by."""
    scheduler: str = "weir"
    """The schedulerName of pods that Weir schedules."""
    managed_namespaces: Names | None = None
    """Namespaces in which Weir manages workloads. It gets no right to change others; all by default."""
    devices: str | None = None
    """Resources that are GPUs, separated by commas. A name may end in *. NAME=1/7 counts each device as that
    part of a GPU in quotas. The default is the resources of NVIDIA, AMD and Intel."""
    reachable_from: Names = ()
    """Address ranges and namespaces that Weir's NetworkPolicy lets in; any by default."""

    @property
    def device_resources(self) -> "DeviceResources":
        """Return the resources that are GPUs."""
        from weir.kubernetes.translate.device_list import read_devices
        from weir.kubernetes.translate.device_resources import DeviceResources

        return (
            DeviceResources() if self.devices is None else check.one("--devices", read_devices, self.devices)
        )

    def installation(
        self, agents: "NodeAgentOptions", page: DashboardServerOptions, *, monitoring: bool
    ) -> "Installation":
        """Return the installation that these options choose.

        Raises:
            ValueError: an option has a mistake; the sentence names the flag.
        """
        from weir.kubernetes.install.manifests import Installation
        from weir.kubernetes.install.pods.network import source

        devices = self.device_resources
        return Installation(
            check.one("--namespace", check.namespace, self.namespace),
            check.one("--image", check.image, self.image or f"weir:{__version__}"),
            self.replicas,
            check.one("--scheduler", check.scheduler, self.scheduler),
            check.managed_namespaces(self.managed_namespaces),
            devices.resources,
            devices.weights,
            check.distinct("--reachable-from", source, self.reachable_from),
            monitoring=monitoring,
            node=agents.agents,
            dashboard=page.dashboard,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AdmissionOptions:
    """GPU pods that the cluster refuses or puts into a queue."""

    refuse_node_name: Switch = False
    """Refuse GPU pods that name their node."""
    require_scheduler: Switch = False
    """Refuse GPU pods that name another scheduler."""
    require_scheduler_for_claims: Switch = False
    """Refuse pods with resource claims, of any class, that name another scheduler."""
    daemonsets_in: Names = ()
    """Refuse GPU pods of DaemonSets in all namespaces but these."""
    exempt: Names = ()
    """Namespaces exempt from the four options above, besides kube-system."""
    without_project: str = "ignore"
    """GPU pods in namespaces that no project lists: ignore, refuse, or queue:PROJECT."""
    without_project_in: str | None = None
    """Labels of the namespaces for --without-project, as KEY=VALUE separated by commas; all by default."""
    without_project_exempt: Names = ()
    """Namespaces exempt from --without-project, besides those of the system."""

    @property
    def policies(self) -> "OptionalPolicies":
        """Return the admission policies."""
        from weir.kubernetes.install.policies.admission_policies import OptionalPolicies

        rule, labels, exempt = self.without_project, self.without_project_in, self.without_project_exempt
        return OptionalPolicies(
            refuse_node_name=self.refuse_node_name,
            require_scheduler=self.require_scheduler,
            daemonset_namespaces=check.distinct("--daemonsets-in", check.namespace, self.daemonsets_in),
            exempt_namespaces=check.distinct("--exempt", check.namespace, self.exempt),
            without_project=check.without_project(rule, labels, exempt),
            require_scheduler_for_claims=self.require_scheduler_for_claims,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NodeAgentOptions:
    """Agents on the GPU nodes."""

    node: Switch = False
    """Run the DaemonSet weir-node, which reports the use of GPUs to Weir."""
    node_runtime_class: str = "nvidia"
    """RuntimeClass of NVIDIA's container toolkit, or none."""
    gpu_nodes: str = "nvidia.com/gpu.present=true"
    """Labels of the nodes with GPUs, as KEY=VALUE separated by commas."""
    kubelet_insecure_tls: Switch = False
    """Let weir-node accept any certificate of the kubelets, if the cluster's authority didn't sign them."""
    watch_memory: Switch = False
    """Let weir-node watch the memory of GPU shares. Its pods then see the processes of their node."""
    limit_memory: Switch = False
    """Let weir-node limit the memory of GPU shares by the driver. Its pods then have CAP_SYS_ADMIN."""

    @property
    def agents(self) -> "NodeAgents | None":
        """Return the options of the DaemonSet; None without one."""
        from weir.kubernetes.install.pods.node_agent import NodeAgents

        if not self.node:
            return None
        runtime = self.node_runtime_class
        return NodeAgents(
            "" if runtime == "none" else check.one("--node-runtime-class", check.name, runtime),
            check.one("--gpu-nodes", check.labels, self.gpu_nodes),
            self.kubelet_insecure_tls,
            self.watch_memory,
            self.limit_memory,
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WeirPodOptions:
    """Weir's own pods."""

    pod_priority_class: str = "system-cluster-critical"
    """PriorityClass of Weir's own pods, or none."""
    requests: str = "cpu=500m,memory=512Mi"
    """Resource requests of Weir's pods, as NAME=AMOUNT separated by commas."""
    limits: str = "cpu=4,memory=2Gi"
    """Resource limits of Weir's pods, in the same form."""
    node_selector: str | None = None
    """Node labels for Weir's pods, as KEY=VALUE separated by commas."""
    tolerate: Names = ()
    """Taints that Weir's pods tolerate, each as KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT."""
    pull_secret: Names = ()
    """Secrets with the credentials of the image's registry."""
    may_call: Names = ()
    """Destinations that Weir may call besides the API server, such as monitoring:9090 for Prometheus."""
    history_secret: str | None = None
    """Secret whose key url is the URL of a PostgreSQL database for the history."""
    history_claim: str | None = None
    """PersistentVolumeClaim for the history in a file of SQLite, which serves one replica."""
    history_any_group: Switch = False
    """Let the cluster choose the group of the volume's files, as OpenShift does, instead of 65532."""
    keep_history: str = "366d"
    """Time to keep the history, such as 366d."""
    notifications_secret: str | None = None
    """Secret whose key notifications.yaml has the mail server, the allowed webhooks and limits."""
    notifications_everywhere: Switch = False
    """Let Weir read the Secret weir-notifications of every namespace; else where its ClusterRole is bound."""

    def checked(self, shared_nodes: int, overcommit_grace: str, replicas: int) -> "PodOptions":
        """Return the options of the Deployment."""
        from weir.kubernetes.install.pods.deployment import PodOptions
        from weir.kubernetes.install.pods.history import checked_storage
        from weir.kubernetes.install.pods.network import destination
        from weir.kubernetes.install.pods.notification_secret import NotificationSecret

        priority, labels = self.pod_priority_class, self.node_selector
        return PodOptions(
            None if priority == "none" else check.one("--pod-priority-class", check.name, priority),
            check.one("--requests", check.amounts, self.requests),
            check.one("--limits", check.amounts, self.limits),
            {} if labels is None else check.one("--node-selector", check.labels, labels),
            [check.one("--tolerate", check.toleration, text) for text in self.tolerate],
            check.distinct("--pull-secret", check.name, self.pull_secret),
            shared_nodes,
            check.one("--overcommit-grace", check.span, overcommit_grace),
            check.distinct("--may-call", destination, self.may_call),
            checked_storage(self._history(), replicas),
            NotificationSecret(
                check.if_given("--notifications-secret", check.name, self.notifications_secret)
            ),
        )

    def _history(self) -> "HistoryStorage":
        from weir.kubernetes.install.pods.history import HistoryStorage

        return HistoryStorage(
            check.if_given("--history-secret", check.name, self.history_secret),
            check.if_given("--history-claim", check.name, self.history_claim),
            check.one("--keep-history", check.span, self.keep_history),
            not self.history_any_group,
        )
