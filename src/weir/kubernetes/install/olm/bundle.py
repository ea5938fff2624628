"""The bundle for the Operator Lifecycle Manager: the objects of `weir kube manifests`, as OLM takes them.

OLM makes the Deployment, the service account and the rights from the ClusterServiceVersion, and creates
objects of some further kinds in its namespace. All others are in a file of their own, which an administrator
applies once: admission policies, webhooks, a flow schema, a right in kube-system and the rights of the agents
of nodes. The APIService is in another one: while nothing answers it, no namespace of the cluster can end. So
it comes after Weir and goes before it.
"""

import base64
import json
from dataclasses import dataclass, field
from importlib import resources

from weir.kubernetes.admission.webhook_configuration import NAME
from weir.kubernetes.crd.schemas import GROUP
from weir.kubernetes.install.manifests import Installation, as_yaml, manifests
from weir.kubernetes.install.parts import LABELS, Manifest
from weir.kubernetes.install.pods.node_agent import security_constraints
from weir.version import __version__

Files = dict[str, str]
"""Texts by path."""
PACKAGE = NAME
MIN_KUBERNETES = "1.31.0"
OPENSHIFT = "v4.18"
"""The first release of OpenShift with that Kubernetes."""
BUNDLED = (
    *("ClusterRole", "ClusterRoleBinding", "ConfigMap", "PodDisruptionBudget", "PriorityClass"),
    *("Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "ServiceMonitor", "PrometheusRule"),
)
"""Kinds that OLM creates from a bundle, besides a ClusterServiceVersion and definitions of kinds."""
_FROM_CSV = {
    *(("ServiceAccount", NAME), ("ClusterRole", NAME), ("ClusterRoleBinding", NAME)),
    *(("Role", NAME), ("RoleBinding", NAME), ("Deployment", NAME)),
}
"""Objects that OLM makes of the ClusterServiceVersion."""
_ABOUT = {
    "Department": "Guaranteed quota of a group of projects.",
    "Project": "Guaranteed quota and limits of a team, and the namespaces that use it.",
    "Topology": "Node labels from coarse to fine, by which gangs are kept together.",
    "SchedulerConfig": "Settings of the scheduler.",
    "SharedNodes": "Nodes that Weir sets aside for shares of GPUs; written by Weir.",
    "NotificationRule": "Events of a namespace's workloads to tell of, and a receiver.",
    "Sweep": "A search of hyper-parameters, whose trials Weir runs as Jobs.",
    "Workload": "Pods that start together, and why they wait; written by Weir.",
}
_WRITTEN_BY_WEIR = ("SharedNodes", "Workload")
_DESCRIPTION = """Weir makes one pool of a cluster's GPUs: guaranteed quotas for teams, borrowing of idle
GPUs, gangs that start together, shares of GPUs, and a reason for everything that waits.

Before the first installation apply `cluster.yaml`, which comes with this bundle. It has the admission
policies and webhooks, which OLM doesn't create. When Weir runs, apply `query-api.yaml`, for the command line;
delete it before you remove Weir."""
_PLATFORMS = ("os.linux", "arch.amd64", "arch.arm64")
CLUSTER_FILE, QUERY_FILE = "cluster.yaml", "query-api.yaml"
"""Files for an administrator: before the first installation, and when Weir runs."""
_FEATURES = {
    "disconnected": True,
    "fips-compliant": False,
    "proxy-aware": False,
    "tls-profiles": False,
    "token-auth-aws": False,
    "token-auth-azure": False,
    "token-auth-gcp": False,
    "cnf": False,
    "cni": False,
    "csi": False,
}


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """Options of a bundle and its catalogue."""

    installation: Installation = field(default_factory=Installation)
    bundle_image: str = f"weir-bundle:{__version__}"
    channel: str = "stable"
    replaces: str | None = None  # name of the previous version, such as weir.v0.1.0
    created: str = "1970-01-01T00:00:00Z"
    provider: str = "Weir"
    url: str = ""  # URL of the provider
    maintainers: tuple[tuple[str, str], ...] = ()  # names and mail addresses

    @property
    def name(self) -> str:
        """Return the name of this version."""
        return f"{PACKAGE}.v{__version__}"


def icon() -> str:
    """Return the icon, encoded."""
    svg = resources.files("weir.kubernetes.install.olm") / "icon.svg"
    return base64.b64encode(svg.read_bytes()).decode()


def bundle(options: BundleOptions) -> Files:
    """Return the files of the bundle, and those with everything that OLM doesn't create."""
    objects = manifests(options.installation)
    made = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in objects}
    home = options.installation.namespace
    files = {"bundle/manifests/weir.clusterserviceversion.yaml": as_yaml([_csv(options, made)])}
    agents = options.installation.node
    rest: list[Manifest] = [] if agents is None else [security_constraints(home, agents)]
    for manifest in objects:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "CustomResourceDefinition":
            files[f"bundle/manifests/{name}.crd.yaml"] = as_yaml([manifest])
        elif (kind, name) in _FROM_CSV or (kind, name) == ("Secret", f"{NAME}-webhook"):
            continue  # OLM creates these, and Weir its Secret
        elif kind == "APIService":
            files[QUERY_FILE] = as_yaml([manifest])
        elif kind in BUNDLED and manifest["metadata"].get("namespace", home) == home:
            files[f"bundle/manifests/{name}.{kind.lower()}.yaml"] = as_yaml([_without_namespace(manifest)])
        else:
            rest.append(manifest)
    files["bundle/metadata/annotations.yaml"] = as_yaml([{"annotations": _annotations(options)}])
    files["bundle.Containerfile"] = _containerfile(options)
    files[CLUSTER_FILE] = as_yaml(rest)
    return files


def cluster_service_version(options: BundleOptions) -> Manifest:
    """Return the ClusterServiceVersion of the bundle."""
    return _csv(
        options,
        {
            (manifest["kind"], manifest["metadata"]["name"]): manifest
            for manifest in manifests(options.installation)
        },
    )


def _annotations(options: BundleOptions) -> dict[str, str]:
    """Return the annotations by which the bundle's image is read."""
    prefix = "operators.operatorframework.io.bundle"
    return {
        f"{prefix}.mediatype.v1": "registry+v1",
        f"{prefix}.manifests.v1": "manifests/",
        f"{prefix}.metadata.v1": "metadata/",
        f"{prefix}.package.v1": PACKAGE,
        f"{prefix}.channels.v1": options.channel,
        f"{prefix}.channel.default.v1": options.channel,
        "com.redhat.openshift.versions": OPENSHIFT,
    }


def _containerfile(options: BundleOptions) -> str:
    labels = "".join(f'LABEL {key}="{value}"\n' for key, value in _annotations(options).items())
    return f"FROM scratch\n{labels}COPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n"


def _without_namespace(manifest: Manifest) -> Manifest:
    """Return an object for the namespace in which OLM installs the bundle."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return {**manifest, "metadata": metadata}


def _csv(options: BundleOptions, made: dict[tuple[str, str], Manifest]) -> Manifest:
    """Return the ClusterServiceVersion."""
    image = options.installation.image
    deployment = made["Deployment", NAME]
    csv: Manifest = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": options.name,
            "namespace": "placeholder",
            "annotations": _csv_annotations(options),
            "labels": {f"operatorframework.io/{platform}": "supported" for platform in _PLATFORMS},
        },
        "spec": {
            **_description(options),
            "customresourcedefinitions": {
                "owned": [_owned(manifest) for manifest in made.values() if _is_crd(manifest)]
            },
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": [_permissions(made["ClusterRole", NAME])],
                    "permissions": [_permissions(made["Role", NAME])],
                    "deployments": [{"name": NAME, "label": dict(LABELS), "spec": deployment["spec"]}],
                },
            },
            "relatedImages": [{"name": NAME, "image": image}],
        },
    }
    if options.replaces is not None:
        csv["spec"]["replaces"] = options.replaces
    return csv


def _csv_annotations(options: BundleOptions) -> dict[str, str]:
    return {
        "alm-examples": json.dumps(_examples(), indent=2),
        "capabilities": "Seamless Upgrades",
        "categories": "AI/Machine Learning",
        "containerImage": options.installation.image,
        "createdAt": options.created,
        "description": "Schedules GPUs for many teams, with guaranteed quotas.",
        "operatorframework.io/suggested-namespace": options.installation.namespace,
        "operators.operatorframework.io/internal-objects": json.dumps(
            [_plural(kind) for kind in _WRITTEN_BY_WEIR]
        ),
        "support": options.provider,
        **({"repository": options.url} if options.url else {}),
        **{f"features.operators.openshift.io/{name}": str(on).lower() for name, on in _FEATURES.items()},
    }


def _plural(kind: str) -> str:
    return f"{'sharednodes' if kind == 'SharedNodes' else f'{kind.lower()}s'}.{GROUP}"


def _description(options: BundleOptions) -> Manifest:
    modes = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
    return {
        "displayName": "Weir",
        "description": _DESCRIPTION,
        "version": __version__,
        "minKubeVersion": MIN_KUBERNETES,
        "maturity": "alpha",
        "keywords": ["gpu", "scheduler", "quota", "gang scheduling", "fair share"],
        **({"links": [{"name": "Documentation", "url": options.url}]} if options.url else {}),
        "maintainers": [{"name": name, "email": email} for name, email in options.maintainers],
        "provider": {"name": options.provider, **({"url": options.url} if options.url else {})},
        "icon": [{"base64data": icon(), "mediatype": "image/svg+xml"}],
        "installModes": [{"type": mode, "supported": mode == "AllNamespaces"} for mode in modes],
    }


def _is_crd(manifest: Manifest) -> bool:
    return bool(manifest["kind"] == "CustomResourceDefinition")


def _owned(definition: Manifest) -> Manifest:
    spec = definition["spec"]
    kind = spec["names"]["kind"]
    return {
        "name": definition["metadata"]["name"],
        "version": spec["versions"][0]["name"],
        "kind": kind,
        "displayName": kind,
        "description": _ABOUT[kind],
    }


def _permissions(role: Manifest) -> Manifest:
    return {"serviceAccountName": NAME, "rules": role["rules"]}


_SWEEP: Manifest = {
    "project": "vision",
    "params": {"lr": "log:1e-5..1e-1"},
    "trials": 60,
    "rungs": [1, 3, 9, 27],
    "jobTemplate": {
        "spec": {
            "template": {
                "metadata": {"labels": {"weir.dev/project": "vision"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.com/train:1",
                            "command": ["python", "train.py"],
                            "resources": {"limits": {"nvidia.com/gpu": "1"}},
                        }
                    ],
                },
            }
        }
    },
}


def _examples() -> list[Manifest]:
    """Return an example of each kind that people write."""

    def example(kind: str, name: str, spec: Manifest, **metadata: str) -> Manifest:
        named = {"name": name, **metadata}
        return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": named, "spec": spec}

    return [
        example("Department", "research", {"quota": {"gpu": 16}}),
        example(
            "Project", "vision", {"department": "research", "quota": {"gpu": 8}, "namespaces": ["vision"]}
        ),
        example("Topology", "network", {"levels": ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]}),
        example("SchedulerConfig", "weir", {"sharedNodes": {"max": 2}}),
        example(
            "NotificationRule",
            "failures",
            {"channel": "mail", "address": "mia@lab.example", "topics": ["failure", "eviction"]},
            namespace="default",
        ),
        example("Sweep", "digits", _SWEEP, namespace="default"),
    ]
