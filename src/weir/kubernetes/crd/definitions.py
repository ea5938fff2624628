"""The definitions of Weir's kinds, as the API server wants them, made of the shapes they are read by.

A schema there is stricter about its own form than JSON Schema is (no references, no unions but "integer or
string"). The cost of its rules is bounded before they are accepted. So each property is translated, and what
a type can't say is a rule (CEL) whose sentence says what to write.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import BaseModel

from weir.kubernetes.api.objects import ApiStruct
from weir.kubernetes.crd.field_descriptions import field_descriptions
from weir.kubernetes.crd.notification_objects import (
    DELIVERIES_MAX,
    QUEUED_MAX,
    TOLD_MAX,
    TOPICS,
    NotificationRuleSpec,
    NotificationRuleStatus,
)
from weir.kubernetes.crd.notification_objects import KIND as NOTIFICATION_RULE
from weir.kubernetes.crd.objects import PAST_EVENTS_MAX, REQUIRED, WorkloadSpec, WorkloadStatus
from weir.kubernetes.crd.printer_columns import (
    Schema,
    column,
    notification_columns,
    queue_columns,
    sweep_columns,
    workload_columns,
)
from weir.kubernetes.crd.scheduler_settings import SchedulerConfigSpec
from weir.kubernetes.crd.schemas import (
    GROUP,
    OF_METADATA,
    VERSION,
    ClusterProject,
    QueueStatus,
    SchedulerConfigStatus,
    TopologyStatus,
    camel,
)
from weir.kubernetes.crd.shared_nodes_spec import KIND as SHARED_NODES_KIND
from weir.kubernetes.crd.shared_nodes_spec import PLURAL as SHARED_NODES
from weir.kubernetes.crd.shared_nodes_spec import SharedNodesSpec
from weir.kubernetes.crd.sweep_objects import KIND as SWEEP
from weir.kubernetes.crd.sweep_objects import TRIALS_MAX, SweepSpec, SweepStatus
from weir.scenario_io.specs import (
    DepartmentEntry,
    PodsEntry,
    ProjectEntry,
    TimesEntry,
    TopologyEntry,
    TopologyRequestEntry,
)

_OF_POOLS = ("maxPriorityOf", "personLimits", "personLimitsOf", "defaults")
"""Fields of scenario files that clusters can't have: pods don't name their submitter."""
_ENTRIES_MAX = {
    "trials": TRIALS_MAX,
    "quota": 64,
    "limit": 64,
    "weight": 64,
    "levels": 16,
    "namespaces": 1024,
    "rungs": 32,
    "params": 64,
    "topics": len(TOPICS),
    "told": TOLD_MAX,
    "past_events": PAST_EVENTS_MAX,
    "queued": QUEUED_MAX,
    "deliveries": DELIVERIES_MAX,
}
"""Assumed number of entries by which the API server estimates the cost of a rule over all of them."""
_NAME_MAX, _AMOUNT_MAX, _PROSE_MAX = 253, 64, 4096
_PROSE = ("message", "sentence")
_TAKEN = ("type", "minimum", "maximum", "minItems", "maxItems", "maxLength", "pattern", "enum", "format")
"""Keywords with the same meaning in JSON schema and in a CRD's schema."""


def _rule(rule: str, message: str) -> Schema:
    return {"rule": rule, "message": message}


_TIME = _rule(
    "type(self) == int ? int(self) >= 0 : "
    "string(self).matches('^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+([.][0-9]+)?s?)?$') && string(self) != ''",
    "write a duration such as 90s, 10m or 2h30m, or 0 for none",
)
_ONCE = _rule("self.all(a, self.exists_one(b, a == b))", "a level is named twice: leave one out")
_TIMES = frozenset((*TimesEntry.model_fields, "overcommit_grace", "wait", "idle", "grace", "interval"))
"""Words of durations."""
_OF_GROUPS = (
    "name", "count", "min", "order", "gpus", "devices", "gpuMemory", "gpuModels", "cpu", "memory",
    "resources",
)  # fmt: skip
"""Fields of a pod's request that a Workload object shows."""


def definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of all kinds."""
    return [*_cluster_kinds(), *_namespaced_kinds()]


def _cluster_kinds() -> list[dict[str, Any]]:
    """Return the definitions of the kinds of the whole cluster."""
    return [
        _definition(
            "Department",
            "Departments hold projects, and other departments, and may be guaranteed a quota of their own.",
            _queue_spec(DepartmentEntry),
            QueueStatus,
            queue_columns(("PARENT", ".spec.parent")),
            rules=[
                _rule(
                    "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
                    "a department can't be its own parent: name another, or leave parent out",
                )
            ],
        ),
        _definition(
            "Project",
            "A project is guaranteed a quota; the pods of its namespaces may use it.",
            _queue_spec(ProjectEntry, ClusterProject),
            QueueStatus,
            queue_columns(("DEPARTMENT", ".spec.department"), ("NAMESPACES", ".spec.namespaces", 1)),
        ),
        _definition(
            "Topology",
            "Node labels, coarse to fine, that say which nodes are near to one another.",
            _topology_spec(),
            TopologyStatus,
            [
                column("LEVELS", ".spec.levels"),
                column("PHASE", ".status.phase"),
                column("MESSAGE", ".status.message", 1),
            ],
        ),
        _definition(
            "SchedulerConfig",
            "Settings of the scheduler with this name. Without the object, its flags apply.",
            _object(SchedulerConfigSpec),
            SchedulerConfigStatus,
            [column("PHASE", ".status.phase"), column("MESSAGE", ".status.message")],
        ),
        _definition(
            SHARED_NODES_KIND,
            "Nodes set aside for shares of GPUs. Weir writes this object, and an admission policy reads it.",
            _object(SharedNodesSpec),
            None,
            [column("NODES", ".spec.nodes")],
        ),
    ]


def _namespaced_kinds() -> list[dict[str, Any]]:
    """Return the definitions of the kinds of namespaces."""
    return [
        _definition(
            "Workload",
            "Pods that start, recover and end together. Weir makes these; to end one, delete its owner.",
            _workload_spec(),
            WorkloadStatus,
            workload_columns(),
            scope="Namespaced",
            short=["wl"],
            status_apart=False,  # one write makes the whole object; a policy lets Weir alone write it
        ),
        _definition(
            SWEEP,
            "A hyper-parameter sweep. Weir makes a Job for each trial and rung, and writes the results here.",
            _object(SweepSpec),
            SweepStatus,
            sweep_columns(),
            scope="Namespaced",
        ),
        _definition(
            NOTIFICATION_RULE,
            "Topics to tell of the workloads of this namespace, and a receiver. Weir sends the messages.",
            _notification_spec(),
            NotificationRuleStatus,
            notification_columns(),
            scope="Namespaced",
        ),
    ]


def _definition(
    kind: str,
    says: str,
    spec: Schema,
    status: type[BaseModel | ApiStruct] | None,
    columns: list[Schema],
    *,
    scope: str = "Cluster",
    short: list[str] | None = None,
    rules: list[Schema] | None = None,
    status_apart: bool = True,
) -> dict[str, Any]:
    plural = {"Topology": "topologies", SHARED_NODES_KIND: SHARED_NODES}.get(kind, f"{kind.lower()}s")
    properties: Schema = {"spec": spec}
    if status is not None:
        properties["status"] = _object(status)
    for part, fields in properties.items():
        _describe(fields, part, field_descriptions()[kind])
    whole: Schema = {"description": says, "type": "object", "required": ["spec"], "properties": properties}
    if rules:
        whole["x-kubernetes-validations"] = rules
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": whole},
        "additionalPrinterColumns": [*columns, column("AGE", ".metadata.creationTimestamp", kind="date")],
        **({"subresources": {"status": {}}} if status is not None and status_apart else {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                **({"shortNames": short} if short else {}),
                "categories": ["weir"],
            },
            "versions": [version],
        },
    }


# Schemas


def project_fields() -> list[str]:
    """Return the names of the fields in the spec of a project."""
    return sorted(_spec(ProjectEntry, ClusterProject)["properties"])


def _queue_spec(*forms: type[BaseModel]) -> Schema:
    spec = _spec(*forms)
    if "namespaces" in spec["properties"]:
        spec["properties"]["namespaces"]["x-kubernetes-list-type"] = "set"
    return spec


def _topology_spec() -> Schema:
    spec = _spec(TopologyEntry)
    spec["properties"]["levels"]["x-kubernetes-validations"] = [_ONCE]
    return spec


def _workload_spec() -> Schema:
    spec, group = _object(WorkloadSpec), _object(PodsEntry)
    group["properties"] = {name: group["properties"][name] for name in _OF_GROUPS}
    spec["properties"]["topology"] = _object(TopologyRequestEntry)
    spec["properties"]["groups"] = {"type": "array", "items": group}
    return spec


def _notification_spec() -> Schema:
    spec = _object(NotificationRuleSpec)
    spec["properties"]["topics"] |= {"minItems": 1, "x-kubernetes-list-type": "set"}
    spec["x-kubernetes-validations"] = [
        _rule(
            "self.channel == 'mail' ? has(self.address) && !has(self.urlKey) : "
            "has(self.urlKey) && !has(self.address)",
            "write the address for mail, and the urlKey for slack and webhook",
        ),
        _rule(
            "(self.channel == 'webhook') == has(self.signingSecretKey)",
            "write the signingSecretKey for a webhook, and leave it out for other channels",
        ),
    ]
    return spec


def _spec(*forms: type[BaseModel]) -> Schema:
    """Return the schema of a spec, without the fields that the object's metadata has."""
    spec = _object(forms[0])
    for form in forms[1:]:
        spec["properties"] |= _object(form)["properties"]
    for word in (*OF_METADATA, *_OF_POOLS):
        spec["properties"].pop(word, None)
    spec["required"] = [word for word in spec.get("required", ()) if word not in OF_METADATA]
    if not spec["required"]:
        del spec["required"]
    return spec


def _object(form: type[BaseModel | ApiStruct]) -> Schema:
    whole = form.model_json_schema() if issubclass(form, BaseModel) else msgspec.json.schema(form)
    return _translated(whole, whole.get("$defs", {}), "")


def _translated(schema: Mapping[str, Any], shapes: Mapping[str, Any], word: str) -> Schema:
    """Return a schema in the API server's form, for the value of a key."""
    if "$ref" in schema:
        return _translated(shapes[schema["$ref"].rsplit("/", 1)[1]], shapes, word)
    if "anyOf" in schema:  # an optional value: its schema without null
        (some,) = (option for option in schema["anyOf"] if option.get("type") != "null")
        return _translated({**some, **_stated(schema)}, shapes, word)
    if isinstance(schema.get("type"), list):
        return _amount(schema, word)
    translated: Schema = {key: schema[key] for key in _TAKEN if key in schema} | _stated(schema)
    if translated["type"] == "string" and "enum" not in translated and "format" not in translated:
        translated.setdefault("maxLength", _PROSE_MAX if word in _PROSE else _NAME_MAX)
    elif translated["type"] == "array":
        translated["items"] = _translated(schema["items"], shapes, word)
        if word in _ENTRIES_MAX:
            translated["maxItems"] = _ENTRIES_MAX[word]
    elif translated["type"] == "object":
        translated |= _inside(schema, shapes, word)
    return translated


def _describe(schema: Schema, path: str, texts: Mapping[str, str]) -> None:
    """Add the descriptions of all fields inside a schema, by their paths."""
    for name, field_schema in schema.get("properties", {}).items():
        field_path = f"{path}.{name}"
        field_schema["description"] = texts[field_path]
        _describe(
            field_schema.get("items", field_schema),
            f"{field_path}[]" if "items" in field_schema else field_path,
            texts,
        )


def _stated(schema: Mapping[str, Any]) -> Schema:
    return {"description": schema["description"]} if "description" in schema else {}


def _amount(schema: Mapping[str, Any], word: str) -> Schema:
    rules = {"x-kubernetes-validations": [_TIME]} if word in _TIMES else {}
    return {"x-kubernetes-int-or-string": True, "maxLength": _AMOUNT_MAX, **_stated(schema), **rules}


def _inside(schema: Mapping[str, Any], shapes: Mapping[str, Any], word: str) -> Schema:
    """Return the properties of an object, or the values of a mapping."""
    if "properties" in schema:
        properties = schema["properties"]
        translated: Schema = {
            "properties": {
                camel(name): _translated(field_schema, shapes, name)
                for name, field_schema in properties.items()
            }
        }
        needed = [name for name, field_schema in properties.items() if REQUIRED in field_schema]
        required = [camel(name) for name in needed or schema.get("required", ())]
        return translated | ({"required": required} if required else {})
    values = schema.get("additionalProperties", True)
    if values is True:
        return {"x-kubernetes-preserve-unknown-fields": True}
    most = {"maxProperties": _ENTRIES_MAX[word]} if word in _ENTRIES_MAX else {}
    return {"additionalProperties": _translated(values, shapes, word), **most}
