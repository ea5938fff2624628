"""Table that gives names of a Slurm site a meaning: accounts, partitions, QOS, constraints and GPU types.

The administrator's table holds for all people of the machine, and a person's own goes before it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from weir.api.answers import Type
from weir.model.scenario import InvalidFile
from weir.scenario_io.document import read_document, text_of
from weir.scenario_io.error_messages import validated
from weir.scenario_io.scalars import ClassPriority, Label, Name, Span
from weir.scenario_io.source_map import Mistakes
from weir.scenario_io.specs import Entry
from weir.slurm.errors import SlurmError

ADMINISTRATORS = Path("/etc/weir/slurm.yaml")
VARIABLE = "WEIR_SLURM_TABLE"
"""Variable with the path of a person's table."""


class SiteRule(Entry):
    """Fields of a submission that replace a partition, a QOS or a constraint."""

    project: Name | None = None
    priority: ClassPriority | None = None
    type: Type | None = None
    preemptible: bool | None = None
    max_runtime: Span | None = None
    gpu_models: list[Name] | None = None
    nodes: list[Name] | None = None
    node_selector: dict[Name, Label] | None = None


class SiteTable(Entry):
    """The table of a site. `project` is for jobs without an account, and `image` for jobs on a cluster."""

    project: Name | None = None
    image: Annotated[str, Field(max_length=512)] | None = None
    accounts: dict[str, Name] = Field(default={})
    partitions: dict[str, SiteRule] = Field(default={})
    qos: dict[str, SiteRule] = Field(default={})
    constraints: dict[str, SiteRule] = Field(default={})
    gpus: dict[str, Name] = Field(default={})


class SiteNames:
    """The names of the tables in use, with the fields as they are written."""

    def __init__(self, tables: list[Mapping[str, Any]]) -> None:
        """Join tables; a later one goes before an earlier one."""
        self._names: dict[str, dict[str, Any]] = {}
        self.project: str | None = None
        self.image: str | None = None
        for table in tables:
            self.project = table.get("project", self.project)
            self.image = table.get("image", self.image)
            for kind in ("accounts", "partitions", "qos", "constraints", "gpus"):
                self._names.setdefault(kind, {}).update(table.get(kind) or {})

    def rule(self, kind: str, name: str) -> Mapping[str, Any] | None:
        """Return the fields of a name; None if no table has it."""
        fields = self._names.get(kind, {}).get(name)
        return dict(fields) if isinstance(fields, Mapping) else None

    def name(self, kind: str, name: str) -> str | None:
        """Return the project of an account or the model of a GPU type; None if no table has it."""
        mapped = self._names.get(kind, {}).get(name)
        return mapped if isinstance(mapped, str) else None


def site_names() -> SiteNames:
    """Return the names of the administrator's table and of the person's.

    Raises:
        SlurmError: a table has a mistake.
    """
    files = [ADMINISTRATORS, own_file()]
    return SiteNames([_read(file) for file in files if _is_there(file)])


def own_file() -> Path:
    """Return the path of the person's table."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    above = Path(configured) if configured.startswith("/") else Path.home() / ".config"
    return above / "weir" / "slurm.yaml"


def _is_there(file: Path) -> bool:
    try:
        return file.exists() or (bool(os.environ.get(VARIABLE)) and file != ADMINISTRATORS)
    except OSError:
        return True  # reading it later gives the cause


def _read(file: Path) -> Mapping[str, Any]:
    mistakes = Mistakes(str(file))
    try:
        body = read_document(text_of(file, mistakes), mistakes)
        if not isinstance(body, dict):
            mistakes.on(1, "is no mapping; write keys such as partitions: and accounts:")
            mistakes.refuse_if_any()
        validated(SiteTable, body, mistakes)
    except InvalidFile as refused:
        raise SlurmError("; ".join(map(str, refused.mistakes))) from None
    table: Mapping[str, Any] = body
    return table
