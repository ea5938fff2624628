"""Rules of OLM's published schemas for a bundle and a file-based catalogue, as sentences about mistakes.

From the definitions of operators.coreos.com/v1alpha1, the registry+v1 format and the schemas `olm.package`,
`olm.channel` and `olm.bundle`.
"""

import base64
import json
import re
from typing import Any

Object = dict[str, Any]
SEMVER = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-.]+)?")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
CAPABILITIES = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")
CATEGORIES = {
    *("AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Developer Tools"),
    *("Database", "Integration & Delivery", "Logging & Tracing", "Monitoring", "Modernization & Migration"),
    *("Networking", "OpenShift Optional", "Security", "Storage", "Streaming & Messaging", "Observability"),
}
CREATED_BY_OLM = {
    *("ClusterServiceVersion", "CustomResourceDefinition", "Secret", "ClusterRole", "ClusterRoleBinding"),
    *("ServiceAccount", "Service", "Role", "RoleBinding", "ConfigMap", "PrometheusRule", "ServiceMonitor"),
    *("PodDisruptionBudget", "PriorityClass", "VerticalPodAutoscaler", "ConsoleYAMLSample"),
    *("ConsoleQuickStart", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin"),
}
INSTALL_MODES = {"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"}
ANNOTATIONS = {
    f"operators.operatorframework.io.bundle.{name}"
    for name in (
        *("mediatype.v1", "manifests.v1", "metadata.v1", "package.v1", "channels.v1"),
        "channel.default.v1",
    )
}
CSV_METADATA = (
    {"annotations", "crdDescriptions", "description", "displayName", "installModes", "provider"},
    {
        *("annotations", "apiServiceDefinitions", "crdDescriptions", "description", "displayName"),
        *("installModes", "keywords", "labels", "links", "maintainers", "maturity", "minKubeVersion"),
        *("nativeAPIs", "provider"),
    },
)
"""Keys of the property olm.csv.metadata that the console needs, and all that there are."""
RESTRICTED_V2_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"),
    "secret",
}


def wrong_in_csv(csv: Object, definitions: dict[str, Object]) -> list[str]:
    """Return what is wrong with a ClusterServiceVersion beside these definitions of kinds."""
    spec, annotations = csv["spec"], csv["metadata"]["annotations"]
    version = str(spec.get("version", ""))
    wrong = [
        ("apiVersion", csv.get("apiVersion") == "operators.coreos.com/v1alpha1"),
        ("version", bool(SEMVER.fullmatch(version))),
        ("name", csv["metadata"]["name"].endswith(f".v{version}")),
        ("minKubeVersion", bool(SEMVER.fullmatch(spec.get("minKubeVersion", "")))),
        ("displayName", bool(spec.get("displayName"))),
        ("description", bool(spec.get("description"))),
        ("provider", bool(spec.get("provider", {}).get("name"))),
        ("capabilities", annotations.get("capabilities") in CAPABILITIES),
        ("categories", set(annotations.get("categories", "").split(",")) <= CATEGORIES),
        ("strategy", spec["install"].get("strategy") == "deployment"),
        ("installModes", {each["type"] for each in spec["installModes"]} == INSTALL_MODES),
        ("a supported mode", any(each["supported"] is True for each in spec["installModes"])),
        ("icon", all(base64.b64decode(each["base64data"]).startswith(b"<svg") for each in spec["icon"])),
        ("platforms", {"os.linux", "arch.amd64"} <= _platforms(csv)),
        ("containerImage", annotations.get("containerImage") in _images(csv)),
        ("relatedImages", _images(csv) == {each["image"] for each in spec["relatedImages"]}),
        (
            "features",
            all(value in ("true", "false") for key, value in annotations.items() if "features." in key),
        ),
    ]
    owned = {each["name"]: each for each in spec["customresourcedefinitions"]["owned"]}
    wrong.append(("owned kinds", owned.keys() == definitions.keys()))
    for name, each in owned.items():
        there = definitions.get(name, {}).get("spec", {"names": {"kind": ""}, "versions": []})
        wrong.append((f"kind of {name}", there["names"]["kind"] == each["kind"]))
        wrong.append((f"version of {name}", each["version"] in [one["name"] for one in there["versions"]]))
    examples = {each["kind"] for each in json.loads(annotations["alm-examples"])}
    internal = set(json.loads(annotations["operators.operatorframework.io/internal-objects"]))
    wrong += [
        (f"example of {name}", each["kind"] in examples or name in internal) for name, each in owned.items()
    ]
    wrong += _wrong_in_install(spec["install"]["spec"])
    return [what for what, is_right in wrong if not is_right]


def _wrong_in_install(install: Object) -> list[tuple[str, bool]]:
    accounts = {each["spec"]["template"]["spec"]["serviceAccountName"] for each in install["deployments"]}
    found = []
    for permissions in (*install["permissions"], *install["clusterPermissions"]):
        found.append(("serviceAccountName", permissions["serviceAccountName"] in accounts))
        found += [("rules", bool(each.get("verbs"))) for each in permissions["rules"]]
    for each in install["deployments"]:
        chosen, labels = (
            each["spec"]["selector"]["matchLabels"],
            each["spec"]["template"]["metadata"]["labels"],
        )
        found.append(("selector", chosen.items() <= labels.items()))
    return found


def _platforms(csv: Object) -> set[str]:
    """Return the systems and architectures that a ClusterServiceVersion states."""
    labels = csv["metadata"].get("labels", {}).items()
    return {key.removeprefix("operatorframework.io/") for key, value in labels if value == "supported"}


def _images(csv: Object) -> set[str]:
    return {
        container["image"]
        for deployment in csv["spec"]["install"]["spec"]["deployments"]
        for container in deployment["spec"]["template"]["spec"]["containers"]
    }


def wrong_for_restricted_v2(pod: Object) -> list[str]:
    """Return what OpenShift's restricted-v2 refuses of a pod, or would change to something that can't run."""
    security = pod.get("securityContext", {})
    wrong = [
        *(name for name in ("hostNetwork", "hostPID", "hostIPC", "hostUsers") if pod.get(name)),
        *(name for name in ("runAsUser", "fsGroup", "supplementalGroups", "sysctls") if name in security),
        *(
            f"volume {each['name']}"
            for each in pod.get("volumes", ())
            if not RESTRICTED_V2_VOLUMES & each.keys()
        ),
    ]
    if security.get("runAsNonRoot") is not True:
        wrong.append("runAsNonRoot")
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        wrong.append("seccompProfile")
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        its = container.get("securityContext", {})
        wrong += [name for name in ("privileged", "runAsUser", "procMount") if its.get(name)]
        if its.get("allowPrivilegeEscalation") is not False:
            wrong.append("allowPrivilegeEscalation")
        if its.get("capabilities", {}).get("drop") != ["ALL"] or its["capabilities"].get("add"):
            wrong.append("capabilities")
        wrong += [
            f"hostPort {port['hostPort']}" for port in container.get("ports", ()) if port.get("hostPort")
        ]
    return wrong


def wrong_in_catalog(blobs: list[Object], csv: Object) -> list[str]:
    """Return what is wrong with a file-based catalogue of one bundle."""
    by_schema = {blob["schema"]: blob for blob in blobs}
    if set(by_schema) != {"olm.package", "olm.channel", "olm.bundle"}:
        return ["schemas"]
    package, channel, bundle = (by_schema[f"olm.{each}"] for each in ("package", "channel", "bundle"))
    properties = [(each["type"], each["value"]) for each in bundle["properties"]]
    kinds = [value for type_, value in properties if type_ == "olm.gvk"]
    owned = csv["spec"]["customresourcedefinitions"]["owned"]
    stated = {"packageName": package["name"], "version": csv["spec"]["version"]}
    images = {each["image"] for each in bundle["relatedImages"]}
    checks = [
        (
            "keys of the package",
            package.keys() <= {"schema", "name", "defaultChannel", "description", "icon"},
        ),
        ("keys of the channel", channel.keys() == {"schema", "package", "name", "entries"}),
        (
            "keys of the bundle",
            bundle.keys() == {"schema", "name", "package", "image", "properties", "relatedImages"},
        ),
        ("names", all(LABEL.fullmatch(each["name"]) for each in (package, channel, bundle))),
        ("default channel", package["defaultChannel"] == channel["name"]),
        ("packages", channel["package"] == bundle["package"] == package["name"]),
        ("entries", [each["name"] for each in channel["entries"]] == [bundle["name"]]),
        ("bundle", bundle["name"] == csv["metadata"]["name"]),
        ("one olm.package", [value for type_, value in properties if type_ == "olm.package"] == [stated]),
        ("one olm.csv.metadata", [type_ for type_, _ in properties].count("olm.csv.metadata") == 1),
        (
            "keys of olm.csv.metadata",
            all(
                CSV_METADATA[0] <= value.keys() <= CSV_METADATA[1]
                for type_, value in properties
                if type_ == "olm.csv.metadata"
            ),
        ),
        (
            "kinds",
            {(each["kind"], each["version"]) for each in kinds} == {(o["kind"], o["version"]) for o in owned},
        ),
        (
            "related images",
            {bundle["image"], *(each["image"] for each in csv["spec"]["relatedImages"])} == images,
        ),
        ("mediatype", package["icon"]["mediatype"] == "image/svg+xml"),
    ]
    return [what for what, is_right in checks if not is_right]
