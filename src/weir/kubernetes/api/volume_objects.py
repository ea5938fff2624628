"""Structs of volumes, their claims, storage classes and CSI drivers, as the API server sends them."""

from msgspec import field

from weir.kubernetes.api.objects import ApiStruct, ContainerResources, LabelSelector, Metadata, NodeSelector


class ClaimSpec(ApiStruct):
    """Spec of a volume claim."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = field(default_factory=list)
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    resources: ContainerResources = field(default_factory=ContainerResources)


class ClaimStatus(ApiStruct):
    """Status of a volume claim."""

    phase: str = "Pending"


class PersistentVolumeClaim(ApiStruct):
    """A claim of a volume."""

    metadata: Metadata
    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: ClaimStatus = field(default_factory=ClaimStatus)


class VolumeNodeAffinity(ApiStruct):
    """Nodes a volume can be reached from."""

    required: NodeSelector | None = None


class ClaimReference(ApiStruct):
    """The claim a volume belongs to."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class CsiSource(ApiStruct):
    """The driver that brings a volume to a node."""

    driver: str = ""


class VolumeSpec(ApiStruct):
    """Spec of a volume."""

    capacity: dict[str, str | int | float] = field(default_factory=dict)
    storage_class_name: str = ""
    access_modes: list[str] = field(default_factory=list)
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiSource | None = None


class PersistentVolume(ApiStruct):
    """A volume."""

    metadata: Metadata
    spec: VolumeSpec = field(default_factory=VolumeSpec)


class TopologySelectorRequirement(ApiStruct):
    """Values of a node label."""

    key: str
    values: list[str] = field(default_factory=list)


class TopologySelectorTerm(ApiStruct):
    """Expressions that must all be true."""

    match_label_expressions: list[TopologySelectorRequirement] = field(default_factory=list)


class StorageClass(ApiStruct):
    """Provisioning of the volumes of a class."""

    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologySelectorTerm] = field(default_factory=list)


class CsiCount(ApiStruct):
    """Limit of a driver's volumes on a node."""

    count: int | None = None


class CsiDriver(ApiStruct):
    """A driver on a node."""

    name: str
    allocatable: CsiCount | None = None


class CsiNodeSpec(ApiStruct):
    """The drivers of a node; None on a node that has none."""

    drivers: list[CsiDriver] | None = None


class CsiNode(ApiStruct):
    """Volume drivers of a node."""

    metadata: Metadata
    spec: CsiNodeSpec = field(default_factory=CsiNodeSpec)
