"""The DaemonSet of the nodes' agents, and the objects around its pods.

An agent opens no port. It has one right, to read the metrics of kubelets, and a token for Weir alone. On
its node it reads one directory of the kubelet's, as root without capabilities: the socket belongs to root. An
agent that limits memory also has the control groups, and has the capability that the driver asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weir import __version__
from weir.kubernetes.admission.node_tokens import ACCOUNT, AUDIENCE
from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.install.parts import (
    CHOSEN,
    CONTAINER_SECURITY,
    HOME_VARIABLE,
    TMP_MOUNT,
    Manifest,
    cluster_object,
    placement,
    secret_volume,
    tmp_volume,
    within,
)
from weir.kubernetes.install.pods.network import name_ports, tcp_ports
from weir.kubernetes.install.rights.roles import cluster_binding, cluster_role, may, service_account, subject

REPLICAS = f"{NAME}-replicas"
"""A headless Service: an agent reports to every replica, because each answers questions."""
POD_RESOURCES = "/var/lib/kubelet/pod-resources"
AUTHORITY, TOKEN = "/etc/weir/authority", "/var/run/secrets/weir.dev"
_CHOSEN = {"app.kubernetes.io/name": ACCOUNT}
_LABELS = {**_CHOSEN, "app.kubernetes.io/version": __version__}
_TOKEN_S = 3600
KUBELET_PORT = 10250
INSECURE, WATCH_MEMORY, LIMIT_MEMORY = "--kubelet-insecure-tls", "--watch-memory", "--limit-memory"
GROUPS = "/sys/fs/cgroup"
GROUPS_VOLUME = {"name": "control-groups", "hostPath": {"path": GROUPS, "type": "Directory"}}
GROUPS_MOUNT = {"name": "control-groups", "mountPath": GROUPS}
"""NVML writes limits into the files of groups where the kernel has the controller `dmem`."""
DRIVER_CAPABILITIES = ["SYS_ADMIN"]
"""Capabilities that NVIDIA's driver asks of a process that sets limits."""


@dataclass(frozen=True, slots=True)
class NodeAgents:
    """Options of the agents."""

    runtime_class: str = "nvidia"  # with NVIDIA's container toolkit; empty: the node's default
    node_selector: Mapping[str, str] = field(default_factory=lambda: {"nvidia.com/gpu.present": "true"})
    kubelet_insecure_tls: bool = False  # accept kubelet certificates that the cluster's CA didn't sign
    watch_memory: bool = False  # watch the memory of shares; agents see the processes of their nodes
    # Limit the memory of shares by the driver; agents have root's rights on their nodes
    limit_memory: bool = False


def node_agents(
    namespace: str,
    image: str,
    options: NodeAgents,
    *,
    port: int,
    secret: str,
    pull_secrets: Any = (),
) -> list[Manifest]:
    """Return the DaemonSet after everything that its pods need."""
    policy, ports = "networking.k8s.io/v1", tcp_ports([port])
    incoming = {"from": [{"podSelector": {"matchLabels": _CHOSEN}}], "ports": ports}
    reports = {"podSelector": {"matchLabels": CHOSEN}, "policyTypes": ["Ingress"], "ingress": [incoming]}
    outgoing = [
        {"to": [{"podSelector": {"matchLabels": CHOSEN}}], "ports": ports},
        {"ports": name_ports()},
        {"ports": tcp_ports([KUBELET_PORT])},
    ]
    calls = {
        "podSelector": {"matchLabels": _CHOSEN},
        "policyTypes": ["Ingress", "Egress"],
        "egress": outgoing,
    }
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # standbys take reports, too
        "selector": CHOSEN,
        "ports": [{"name": "https", "port": port, "targetPort": "https", "protocol": "TCP"}],
    }
    return [
        service_account(namespace, ACCOUNT, labels=_LABELS),
        cluster_role(ACCOUNT, may("get", "", "nodes/metrics"), labels=_LABELS),
        cluster_binding(ACCOUNT, subject(namespace, ACCOUNT), labels=_LABELS),
        within(namespace, "v1", "Service", REPLICAS, spec=service),
        within(namespace, policy, "NetworkPolicy", f"{ACCOUNT}-reports", spec=reports),
        within(namespace, policy, "NetworkPolicy", ACCOUNT, labels=_LABELS, spec=calls),
        _daemon_set(namespace, _container(namespace, image, port, options), options, secret, pull_secrets),
    ]


def security_constraints(namespace: str, options: NodeAgents) -> Manifest:
    """Return the security context constraints by which OpenShift admits the pods of the agents.

    None of OpenShift's own fits: hostmount-anyuid forbids a seccomp profile, and privileged allows all.
    SELinux can keep processes of the usual type from the kubelet's socket.
    """
    return cluster_object(
        "security.openshift.io/v1",
        "SecurityContextConstraints",
        ACCOUNT,
        labels=_LABELS,
        **dict.fromkeys(
            ("allowHostIPC", "allowHostNetwork", "allowHostPorts", "allowPrivilegedContainer"), False
        ),
        allowHostDirVolumePlugin=True,
        allowedCapabilities=DRIVER_CAPABILITIES if options.limit_memory else [],
        allowHostPID=options.watch_memory,
        allowPrivilegeEscalation=False,
        readOnlyRootFilesystem=True,
        requiredDropCapabilities=["ALL"],
        defaultAddCapabilities=[],  # this and the priority are required fields: the defaults of OpenShift
        priority=0,
        runAsUser={"type": "MustRunAs", "uid": 0},
        seLinuxContext={"type": "MustRunAs", "seLinuxOptions": {"type": "spc_t"}},
        fsGroup={"type": "RunAsAny"},
        supplementalGroups={"type": "RunAsAny"},
        seccompProfiles=["runtime/default"],
        volumes=["emptyDir", "hostPath", "projected", "secret"],
        users=[f"system:serviceaccount:{namespace}:{ACCOUNT}"],
    )


def _daemon_set(
    namespace: str, container: Manifest, options: NodeAgents, secret: str, pull_secrets: Any
) -> Manifest:
    tokens = [
        {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": _TOKEN_S}},
        {"serviceAccountToken": {"path": "kubelet-token", "expirationSeconds": _TOKEN_S}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "kubelet-ca.crt"}]}},
    ]
    items = [{"key": "ca.crt", "path": "ca.crt"}]
    pod: Manifest = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "pod-resources", "hostPath": {"path": POD_RESOURCES, "type": "Directory"}},
            secret_volume("authority", secret, items=items),
            {"name": "token", "projected": {"sources": tokens}},
            tmp_volume("16Mi"),
            *([GROUPS_VOLUME] if options.limit_memory else []),
        ],
        **placement(
            pull_secrets,
            options.node_selector,
            hostPID=options.watch_memory,
            runtimeClassName=options.runtime_class,
        ),
    }
    spec = {
        "selector": {"matchLabels": _CHOSEN},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return within(namespace, "apps/v1", "DaemonSet", ACCOUNT, labels=_LABELS, spec=spec)


def _container(namespace: str, image: str, port: int, options: NodeAgents) -> Manifest:
    added = {"add": DRIVER_CAPABILITIES} if options.limit_memory else {}
    return {
        "name": ACCOUNT,
        "image": image,
        "args": [
            *("kube", "node", "--server", f"{REPLICAS}.{namespace}.svc", "--port", str(port)),
            *("--server-name", f"{NAME}.{namespace}.svc", "--authority", f"{AUTHORITY}/ca.crt"),
            *("--token", f"{TOKEN}/token", "--pod-resources", f"{POD_RESOURCES}/kubelet.sock"),
            *("--kubelet", "$(NODE_IP)", *([INSECURE] if options.kubelet_insecure_tls else [])),
            *([WATCH_MEMORY] if options.watch_memory else []),
            *([LIMIT_MEMORY] if options.limit_memory else []),
        ],
        "env": [
            HOME_VARIABLE,
            {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ],
        "resources": {
            "requests": {"cpu": "20m", "memory": "96Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
        "securityContext": {**CONTAINER_SECURITY, "capabilities": {"drop": ["ALL"], **added}},
        "volumeMounts": [
            {"name": "pod-resources", "mountPath": POD_RESOURCES, "readOnly": True},
            {"name": "authority", "mountPath": AUTHORITY, "readOnly": True},
            {"name": "token", "mountPath": TOKEN, "readOnly": True},
            TMP_MOUNT,
            *([GROUPS_MOUNT] if options.limit_memory else []),
        ],
    }
