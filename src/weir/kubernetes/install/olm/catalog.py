"""The file-based catalogue that offers the bundle, for `opm serve` and OpenShift's catalogue sources."""

from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.install.manifests import as_yaml
from weir.kubernetes.install.olm.bundle import PACKAGE, BundleOptions, Files, cluster_service_version, icon
from weir.kubernetes.install.parts import Manifest
from weir.version import __version__

_SHOWN = (
    *("description", "displayName", "installModes", "keywords", "links", "maintainers", "maturity"),
    *("minKubeVersion", "provider"),
)
"""Fields of a ClusterServiceVersion that a catalogue repeats."""


def catalog(options: BundleOptions) -> Files:
    """Return the files of the catalogue."""
    entry: Manifest = {"name": options.name}
    if options.replaces is not None:
        entry["replaces"] = options.replaces
    package = {
        "schema": "olm.package",
        "name": PACKAGE,
        "defaultChannel": options.channel,
        "description": "Schedules GPUs for many teams, with guaranteed quotas.",
        "icon": {"base64data": icon(), "mediatype": "image/svg+xml"},
    }
    channel = {"schema": "olm.channel", "package": PACKAGE, "name": options.channel, "entries": [entry]}
    text = as_yaml([package, channel, _bundle(options)])
    return {
        "catalog/weir/catalog.yaml": text,
        "catalog.Containerfile": "# podman build --build-arg OPM=IMAGE-OF-OPM -f catalog.Containerfile .\n"
        "ARG OPM\nFROM ${OPM}\n"
        "COPY catalog /configs\n"
        'RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]\n'
        "LABEL operators.operatorframework.io.index.configs.v1=/configs\n"
        'ENTRYPOINT ["/bin/opm"]\n'
        'CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]\n',
    }


def _bundle(options: BundleOptions) -> Manifest:
    """Return the entry of the bundle: its image, its properties, and every image that it needs."""
    kinds = [
        {
            "type": "olm.gvk",
            "value": {
                "group": definition["spec"]["group"],
                "kind": definition["spec"]["names"]["kind"],
                "version": definition["spec"]["versions"][0]["name"],
            },
        }
        for definition in definitions()
    ]
    version = {"type": "olm.package", "value": {"packageName": PACKAGE, "version": __version__}}
    return {
        "schema": "olm.bundle",
        "name": options.name,
        "package": PACKAGE,
        "image": options.bundle_image,
        "properties": [version, *kinds, _csv_metadata(cluster_service_version(options))],
        "relatedImages": [
            {"name": "", "image": options.bundle_image},
            {"name": PACKAGE, "image": options.installation.image},
        ],
    }


def _csv_metadata(csv: Manifest) -> Manifest:
    """Return the property by which the console shows a bundle, and `oc get packagemanifests` names it."""
    spec = csv["spec"]
    value = {
        "annotations": csv["metadata"]["annotations"],
        "apiServiceDefinitions": {},
        "crdDescriptions": spec["customresourcedefinitions"],
        "labels": csv["metadata"]["labels"],
        **{key: spec[key] for key in _SHOWN if key in spec},
    }
    return {"type": "olm.csv.metadata", "value": value}
