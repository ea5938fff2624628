"""Departments and projects of a conversion: valid unique names, and amounts that Weir accepts."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from weir.kubernetes.crd.schemas import API_VERSION, InvalidObject, department_of, project_of
from weir.kubernetes.migrate.ledger import Fields, Ledger
from weir.model.resources import GPU, MEMORY, in_units

Kind = Literal["Department", "Project"]
Spec = dict[str, Any]
Bound = Fraction | float | None
"""Amount in GPUs, cores or bytes; UNLIMITED, or None without an amount."""
UNLIMITED = math.inf
_NAME_LENGTH_MAX = 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
"""Names that the API server accepts of objects."""
_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    suffix: 1 << shift for suffix, shift in (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40))
}


@dataclass
class Conversion:
    """Converted objects, and the record of each field: kept, changed or left out."""

    ledger: Ledger = field(default_factory=Ledger)
    objects: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: Kind, source: str, name: str, spec: Spec) -> None:
        """Add an object without its empty fields, or record why Weir can't take it."""
        spec = {key: value for key, value in spec.items() if value not in ("", [], {}, None)}
        if any(manifest["metadata"]["name"] == name for manifest in self.objects):
            reason = f"the whole object: another one is named {name}, and names are unique in Weir."
            self.ledger.leave_out(source, reason)
            return
        if len(name) > _NAME_LENGTH_MAX or not _OBJECT_NAME.fullmatch(name):
            reason = "the whole object: its name is no name of an object of Kubernetes; rename it first."
            self.ledger.leave_out(source, reason)
            return
        try:
            if kind == "Project":
                project_of(name, spec, 0.0)
            else:
                department_of(name, spec, 0.0)
        except InvalidObject as error:
            self.ledger.leave_out(source, f"the whole object: {error}.")
            return
        metadata = {"name": name}
        self.objects.append({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
        self.ledger.keep(source, f"as {kind} {name}{_summary(spec)}.")


def _summary(spec: Spec) -> str:
    """Return the converted fields as a part of a sentence."""
    fields = [key for key in spec if key != "namespaces"]
    return f" with its {', '.join(fields)}" if fields else ""


def set_bounds(fields: Fields, spec: Spec, resource: str, quota: Bound, limit: Bound) -> None:
    """Set the quota and the limit of a resource. Weir refuses a limit below the quota, so it is left out."""
    if quota is not None:
        spec.setdefault("quota", {})[resource] = written_amount(resource, quota)
    if limit is None or limit == UNLIMITED:
        return
    if quota is not None and limit < quota:
        fields.leave_out("limit", f"{written_amount(resource, limit)} of {resource} is below the quota")
        return
    spec.setdefault("limit", {})[resource] = written_amount(resource, limit)


def set_weight(spec: Spec, resource: str, weight: float | Fraction | None) -> None:
    """Set the weight of a resource, if there is one."""
    if weight is not None:
        spec.setdefault("weight", {})[resource] = plain_number(weight)


def written_amount(resource: str, value: Fraction | float) -> int | str:
    """Return an amount in GPUs, cores or bytes as Weir reads it, in the shortest form."""
    if value == UNLIMITED:
        return "unlimited"
    if resource != MEMORY:
        return plain_number(value)
    count = math.ceil(value)
    forms = [f"{count // unit}{suffix}" for suffix, unit in _UNITS.items() if count % unit == 0]
    return min((str(count), *forms), key=len)


def plain_number(value: Fraction | float) -> int | str:
    """Return a number rounded up to thousandths; one with a fraction as text, as the API server wants it."""
    milli = math.ceil(in_units(GPU, as_written(value)))
    return milli // 1000 if milli % 1000 == 0 else str(milli / 1000)


def as_written(value: Fraction | float) -> Fraction:
    """Return a number in decimal: a tenth for 0.1, which is a bit more as a float."""
    return Fraction(str(value))


def sorted_objects(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return departments before their children, and projects last."""
    waiting = [manifest for manifest in objects if manifest["kind"] == "Department"]
    ordered: list[dict[str, Any]] = []
    names = {manifest["metadata"]["name"] for manifest in waiting}
    placed: set[str] = set()
    while waiting:
        ready = [manifest for manifest in waiting if _parent(manifest) not in names - placed] or waiting
        ordered += ready
        placed |= {manifest["metadata"]["name"] for manifest in ready}
        waiting = [manifest for manifest in waiting if manifest not in ready]
    return [*ordered, *(manifest for manifest in objects if manifest["kind"] == "Project")]


def _parent(manifest: Mapping[str, Any]) -> str:
    return str(manifest["spec"].get("parent", ""))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is a mapping; an empty mapping for any other value."""
    return value if isinstance(value, Mapping) else {}
