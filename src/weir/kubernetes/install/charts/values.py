"""Values of the chart `weir`: their types are its schema, their docstrings its comments.

A value that passes the schema is taken by the API server and by Weir, so the patterns are as strict as both.
No pattern allows a quote, a backslash or a brace: the templates write values between quotes.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from weir import __version__
from weir.kubernetes.install.pods.dashboard_server import DASHBOARD
from weir.kubernetes.install.pods.deployment import CRITICAL
from weir.kubernetes.install.pods.history import DEFAULT_KEEP
from weir.kubernetes.install.priority_classes import ClassNames
from weir.kubernetes.translate.device_list import NAMES_MAX
from weir.kubernetes.translate.device_resources import DeviceResources

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_WEIGHT = r"1/[1-9][0-9]{0,2}|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9])|[1-8]"


def _ipv6() -> str:
    """Return a pattern of IPv6 addresses: eight groups, or fewer around one `::`."""
    group = "[0-9a-fA-F]{1,4}"
    forms = [f"({group}:){{7}}{group}", f"({group}:){{1,7}}:", f":(:{group}){{1,7}}", "::"]
    forms += [f"({group}:){{1,{7 - after}}}(:{group}){{1,{after}}}" for after in range(1, 7)]
    return f"({'|'.join(forms)})"


_CIDR = rf"{_BYTE}(\.{_BYTE}){{3}}/(3[0-2]|[12]?[0-9])|{_ipv6()}/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"
_PART = rf"{_BYTE}(\.{_BYTE}){{3}}/(3[0-2]|[12][0-9]|[1-9])|{_ipv6()}/(12[0-8]|1[01][0-9]|[1-9][0-9]?)"

_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

Namespace = Annotated[str, Field(pattern=f"^{_LABEL}$")]
Namespaces = Annotated[list[Namespace], Field(max_length=256, json_schema_extra={"uniqueItems": True})]
ObjectName = Annotated[str, Field(pattern=f"^{_SUBDOMAIN}$", max_length=253)]
LabelKey = Annotated[str, Field(pattern=f"^({_SUBDOMAIN}/)?{_WORD}$", max_length=253)]
LabelValue = Annotated[str, Field(pattern=f"^({_WORD})?$")]
Labels = Annotated[
    dict[LabelKey, LabelValue], Field(max_length=64, json_schema_extra={"additionalProperties": False})
]
Device = Annotated[
    str, Field(pattern=rf"^{_SUBDOMAIN}/({_WORD}|[A-Za-z0-9][-A-Za-z0-9_.]{{0,61}}\*)(=({_WEIGHT}))?$")
]
Cpu = Annotated[str, Field(pattern=r"^([0-9]{1,6}(\.[0-9]{1,3})?|[0-9]{1,9}m)$")]
Memory = Annotated[str, Field(pattern=r"^[0-9]{1,15}(k|M|G|T|Ki|Mi|Gi|Ti)?$")]
Span = Annotated[
    str, Field(pattern="^([0-9]{1,4}d)?([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$", min_length=2)
]
Sources = Annotated[
    list[Annotated[str, Field(pattern=f"^({_CIDR}|{_LABEL})$", max_length=63)]],
    Field(max_length=256, json_schema_extra={"uniqueItems": True}),
]
Destinations = Annotated[
    list[Annotated[str, Field(pattern=f"^({_CIDR}|{_LABEL}):{_PORT}$", max_length=69)]],
    Field(max_length=64, json_schema_extra={"uniqueItems": True}),
]
Proxies = Annotated[
    list[Annotated[str, Field(pattern=f"^({_PART})$", max_length=63)]],
    Field(max_length=64, json_schema_extra={"uniqueItems": True}),
]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class _Values(BaseModel):
    """Values under one key, in the case of Kubernetes."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class ExistsToleration(_Values):
    """Toleration of every taint with a key."""

    key: LabelKey
    operator: Literal["Exists"]
    effect: Effect | None = None  # None: every effect


class EqualToleration(_Values):
    """Toleration of a taint with a key and a value."""

    key: LabelKey
    operator: Literal["Equal"]
    value: LabelValue
    effect: Effect | None = None


class Amounts(_Values):
    """Amounts of resources."""

    cpu: Cpu
    memory: Memory


class Pods(_Values):
    """Settings of Weir's own pods."""

    priority_class: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = CRITICAL
    """PriorityClass of the pods; empty for none."""
    requests: Amounts = Amounts(cpu="500m", memory="512Mi")
    """Resource requests, each at most its limit."""
    limits: Amounts = Amounts(cpu="4", memory="2Gi")
    """Resource limits."""
    node_selector: Labels = {}
    """Labels of the nodes for the pods."""
    tolerations: Annotated[list[ExistsToleration | EqualToleration], Field(max_length=64)] = []
    """Taints that the pods tolerate, each with key, operator (Exists, or Equal with a value) and effect."""
    pull_secrets: Annotated[
        list[ObjectName], Field(max_length=16, json_schema_extra={"uniqueItems": True})
    ] = []
    """Names of the Secrets with the credentials of the image's registry."""


class Admission(_Values):
    """GPU pods that the cluster refuses or puts into a queue."""

    refuse_node_name: bool = False
    """Refuse GPU pods that name their node."""
    require_scheduler: bool = False
    """Refuse GPU pods that name another scheduler."""
    require_scheduler_for_claims: bool = False
    """Refuse pods with resource claims, of any class, that name another scheduler."""
    daemon_set_namespaces: Namespaces = []
    """Refuse GPU pods of DaemonSets in all namespaces but these; empty: refuse none."""
    exempt_namespaces: Namespaces = []
    """Namespaces exempt from the four values above, besides kube-system."""
    without_project: Annotated[
        str, Field(pattern=f"^(ignore|refuse|queue:{_SUBDOMAIN})$", max_length=253)
    ] = "ignore"
    """GPU pods in namespaces that no project lists: ignore, refuse, or queue:PROJECT."""
    without_project_in: Labels = {}
    """Labels of the namespaces for withoutProject; empty: all."""
    without_project_exempt: Namespaces = []
    """Namespaces exempt from withoutProject, besides those of the system."""


class NodeAgentValues(_Values):
    """Agents on the GPU nodes, which report the use of GPUs to Weir."""

    enabled: bool = False
    """Run the DaemonSet weir-node. Its pods mount a directory of the node: the namespace must permit that."""
    runtime_class: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = "nvidia"
    """RuntimeClass of NVIDIA's container toolkit; empty where it is the node's default."""
    node_selector: Labels = {"nvidia.com/gpu.present": "true"}
    """Labels of the nodes with GPUs."""
    kubelet_insecure_tls: bool = False
    """Accept any certificate of the kubelets, where the cluster's authority didn't sign them."""
    watch_memory: bool = False
    """Watch the memory of GPU shares. The pods then see the processes of their node."""
    limit_memory: bool = False
    """Limit the memory of GPU shares by the driver. The pods then have CAP_SYS_ADMIN."""


class DashboardValues(_Values):
    """The dashboard in the cluster, behind a sign-in with OpenID Connect."""

    enabled: bool = False
    """Run the Deployment weir-dashboard. It has no rights: people have theirs, by their own tokens."""
    url: Annotated[str, Field(pattern=f"^(https://{_SUBDOMAIN}(:{_PORT})?)?$", max_length=280)] = ""
    """Address that people use, such as https://weir.example.org."""
    issuer: Annotated[str, Field(pattern=r"^(https://[A-Za-z0-9./:_~-]+)?$", max_length=512)] = ""
    """URL of the identity provider, exactly as its tokens and the API server's settings name it."""
    client_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9./:_~-]+$", max_length=253)] = "weir"
    """Client of the provider; the API server must take its tokens."""
    client_secret: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = ""
    """Secret whose key `client-secret` is the secret of the client; empty for a public client."""
    tls_secret: ObjectName = f"{DASHBOARD}-tls"
    """Secret of the type kubernetes.io/tls with the certificate for the address."""
    authorities: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = ""
    """ConfigMap whose key `ca.crt` is the authority of the provider's certificate; empty for a public one."""
    extra_scopes: Annotated[
        list[Annotated[str, Field(pattern=r"^[A-Za-z0-9./:_-]+$", max_length=128)]],
        Field(max_length=16, json_schema_extra={"uniqueItems": True}),
    ] = []
    """Scopes to ask for besides openid, profile and email, such as groups or offline_access."""
    reachable_from: Sources = []
    """Address ranges and namespaces, such as that of the ingress controller, that may connect; empty: any."""
    may_call: Destinations = []
    """Destinations besides port 443, such as keycloak:8443 for a provider at another port."""
    trusted_proxies: Proxies = []
    """Address ranges of ingress controllers whose X-Forwarded-For counts; empty: none."""
    memory: Memory = "512Mi"
    """Memory of the pod."""


class History(_Values):
    """History of workloads, events and usage; without secret and claim, the last six hours in memory."""

    secret: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = ""
    """Secret whose key `url` is the URL of a PostgreSQL database; empty for none."""
    claim: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = ""
    """PersistentVolumeClaim for a file of SQLite, which serves one replica; empty for none."""
    fixed_group: bool = True
    """Name the group 65532 for the files of the claim; false where the cluster chooses it (OpenShift)."""
    keep: Annotated[str, Field(pattern="^[1-9][0-9]{0,3}d$")] = DEFAULT_KEEP
    """Time to keep the history, in days."""


class NotificationValues(_Values):
    """Messages about workloads by mail and webhooks; without a secret, none are sent."""

    secret: Annotated[str, Field(pattern=f"^({_SUBDOMAIN})?$", max_length=253)] = ""
    """Secret whose key `notifications.yaml` has the mail server, allowed webhooks and limits; empty for none.
    Its other keys are files in /etc/weir/notifications, such as the mail server's password."""
    all_namespaces: bool = False
    """Read the Secret `weir-notifications` of every namespace; else where the ClusterRole of that name is
    bound."""


class ChartValues(_Values):
    """Values of Weir."""

    image: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*(@sha256:[0-9a-f]{64})?$",
            max_length=512,
        ),
    ] = f"weir:{__version__}"
    """Container image, preferably as NAME@sha256:DIGEST."""
    replicas: Annotated[int, Field(ge=1, le=9)] = 2
    """Number of replicas; one leads, the others stand by."""
    scheduler: ObjectName = "weir"
    """The schedulerName of pods that Weir schedules."""
    managed_namespaces: Namespaces = []
    """Namespaces in which Weir manages workloads. It gets no right to change others; empty: all."""
    devices: Annotated[
        list[Device], Field(min_length=1, max_length=NAMES_MAX, json_schema_extra={"uniqueItems": True})
    ] = list(DeviceResources().resources)
    """Resources that are GPUs. A name may end in *. NAME=1/7 counts each device as that part of
    a GPU in quotas."""
    reachable_from: Sources = []
    """Address ranges, such as 10.0.0.0/28, and namespaces that the NetworkPolicy lets in; empty: any."""
    admission: Admission = Admission()
    """GPU pods that the cluster refuses or puts into a queue."""
    priority_classes: ClassNames = "prefixed"
    """PriorityClasses for the types of workloads: prefixed (weir-train), plain (train), or none."""
    pods: Pods = Pods()
    """Weir's own pods."""
    may_call: Destinations = []
    """Destinations that the NetworkPolicy lets Weir call besides the API server, such as monitoring:9090
    for a Prometheus server. Each is a namespace or an address range, and a port."""
    shared_nodes: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Maximum number of nodes that Weir reserves for GPU fractions while they need them."""
    overcommit_grace: Span = "5m"
    """Time before preemptible pods are stopped on a node whose GPUs are overcommitted."""
    node: NodeAgentValues = NodeAgentValues()
    """Agents on the GPU nodes, which report the use of GPUs to Weir."""
    history: History = History()
    """History of workloads, events and usage."""
    notifications: NotificationValues = NotificationValues()
    """Messages about workloads by mail and webhooks."""
    dashboard: DashboardValues = DashboardValues()
    """The dashboard in the cluster, behind a sign-in with OpenID Connect."""
    monitoring: bool = False
    """Add a ServiceMonitor and a PrometheusRule, which need the Prometheus operator."""
    query_api: bool = True
    """Serve query.weir.dev, which weir and the API server read. The API server must reach port 9443."""
    job_messages: bool = True
    """Let pods report checkpoints and progress of themselves to query.weir.dev, with their own tokens."""
