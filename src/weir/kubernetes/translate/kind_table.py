"""The table of kinds as people write it: its form, and all mistakes in a table at once."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from weir.kubernetes.translate.expressions import (
    CONDITIONS,
    TRANSITION,
    KindAmount,
    KindCondition,
    Steps,
    parse_amount,
    parse_condition,
    parse_path,
)
from weir.model.workloads import WorkloadType
from weir.scenario_io.document import read_document
from weir.scenario_io.error_messages import add_errors, shown
from weir.scenario_io.scalars import Name
from weir.scenario_io.source_map import Mistakes
from weir.scenario_io.specs import Entry

BUILT_IN = "kinds.yaml"
_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)


def _text(written: Any) -> str:
    if isinstance(written, bool) or not isinstance(written, str | int):
        raise ValueError(f"{shown(written)} is no expression: write a number or a path such as spec.replicas")  # noqa: TRY004
    return str(written)


def _some(written: Any) -> Any:
    return [written] if isinstance(written, str) else written


def _every(text: str) -> Steps:
    steps = parse_path(text)
    if steps[-1] != "*":
        raise ValueError(f"{text!r} is a single value: write a path to a list, such as {text}.*")
    return steps


def _plain(text: str) -> Steps:
    steps = parse_path(text)
    if "*" in steps:
        raise ValueError(f"{text!r} has a *: write a path to one thing, such as metadata.name")
    return steps


Number = Annotated[KindAmount, PlainValidator(lambda written: parse_amount(_text(written)))]
Holds = Annotated[KindCondition, PlainValidator(lambda written: parse_condition(_text(written)))]
Every = Annotated[Steps, PlainValidator(lambda written: _every(_text(written)))]
Plain = Annotated[Steps, PlainValidator(lambda written: _plain(_text(written)))]
Several = Annotated[list[Name], BeforeValidator(_some), Field(min_length=1)]


def _api(text: str) -> str:
    if text.count("/") > 1 or not all(text.split("/")):
        raise ValueError(f"{text!r} is no version of an API: write GROUP/VERSION such as batch/v1")
    return text


Versions = Annotated[list[Annotated[Name, AfterValidator(_api)]], BeforeValidator(_some), Field(min_length=1)]


class KindPart(Entry):
    """Pods of one role, or of several that the object lists."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    role: str = ""
    each: Every | None = None
    name: Plain | None = None
    count: Number
    min: Number | None = None


class KindSuspension(Entry):
    """Suspension of an object instead of evictions of its pods, which would make the object fail for good."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    roles: Several
    when: Holds | None = None
    remedy: str = ""


class KindRule(Entry):
    """Entry of the table: the kind of objects, and how to read their pods."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: Name
    api: Versions
    resource: Name
    type: Literal["train", "inference", "build"] = "train"
    when: Holds | None = None
    gang: Name = "owner"
    role: Several | None = None
    pods: list[KindPart] = Field(default=[])
    below: bool = False
    workload: bool = True
    min: Number | None = None
    total: Number | None = None
    done: Number | None = None
    succeeded: Holds | None = None
    failed: Holds | None = None
    suspended: Holds | None = None
    suspends: KindSuspension | None = None

    @property
    def workload_type(self) -> WorkloadType:
        """Type of the workloads, unless their annotations state another."""
        return WorkloadType(self.type)

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return group_of(self.api[0])

    def paths(self) -> Iterator[Steps]:
        """Yield all fields of an object that the entry reads."""
        for field in _METADATA:
            yield ("metadata", field)
        for number in (self.min, self.total, self.done):
            yield from number.paths() if number else ()
        suspends = None if self.suspends is None else self.suspends.when
        for condition in (self.when, self.succeeded, self.failed, self.suspended, suspends):
            if condition is not None and condition.type:
                yield from ((*CONDITIONS, "*", field) for field in ("type", "status", TRANSITION))
            elif condition is not None:
                yield condition.steps
        for part in self.pods:
            above = part.each or ()
            yield from ((*above, *steps) for steps in part.count.paths())
            yield from ((*above, *steps) for steps in part.min.paths()) if part.min else ()
            yield from ((*above, *part.name),) if part.name else ()


class KindTable(Entry):
    """A table of kinds."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kinds: list[KindRule]


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion."""
    return api_version.rpartition("/")[0]


def read_table(text: str, file: str) -> list[KindRule]:
    """Return the rules of a text; mistakes name `file`.

    Raises:
        InvalidFile: with all mistakes in it.
    """
    mistakes = Mistakes(file)
    raw = read_document(text, mistakes)
    table = KindTable(kinds=[])
    try:
        table = KindTable.model_validate({"kinds": []} if raw is None else raw)
    except ValidationError as error:
        add_errors(error, KindTable, mistakes)
    for index, rule in enumerate(table.kinds):
        _check(rule, ("kinds", index), mistakes)
    mistakes.refuse_if_any()
    return table.kinds


def built_in() -> list[KindRule]:
    """Return the table that is part of Weir."""
    return read_table(files(__package__).joinpath(BUILT_IN).read_text("utf-8"), BUILT_IN)


def _check(rule: KindRule, path: tuple[str | int, ...], mistakes: Mistakes) -> None:
    """Record the mistakes between the keys of one entry."""
    if bool(rule.pods) + rule.below + (not rule.workload) != 1:
        mistakes.add(
            path,
            "pods, below or workload: false: write one of them, pods: [{count: 1}] if each pod is by itself",
        )
    for index, part in enumerate(rule.pods):
        part_path = (*path, "pods", index)
        if part.name is not None and part.each is None:
            mistakes.add((*part_path, "name"), "name is only valid with each; write role, or each and name")
        if part.role and part.each is not None:
            mistakes.add(
                (*part_path, "role"), "role and each are both written; write name instead of role, or no each"
            )
        if part.role and rule.role is None:
            mistakes.add(
                (*part_path, "role"), f"role: write the label that tells the role of a pod of {rule.kind} too"
            )
    suspended = rule.suspended
    if rule.suspends is not None and (suspended is None or suspended.words or suspended.type):
        mistakes.add(
            (*path, "suspends"), "suspends: write the field that it sets as suspended: spec.suspend, say"
        )
    if rule.gang not in ("owner", "pod") and "/" not in rule.gang:
        mistakes.add(
            (*path, "gang"), f"gang: {rule.gang!r} isn't known; write owner, pod or a label such as a.io/b"
        )
