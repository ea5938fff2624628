"""Templates on a cluster: each is a ConfigMap in its project's namespace, as `weir template save` reads it.

The rights on ConfigMaps of that namespace decide about reading and writing them.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import yaml
from msgspec import field
from pydantic import BaseModel

from weir.api.field_errors import read_model
from weir.api.placeholders import fill, with_samples
from weir.api.submissions import Submission
from weir.api.template_rules import check_template, defaults_of, values_of
from weir.api.templates import (
    FilledTemplate,
    ParameterRow,
    TemplateAsked,
    TemplatePage,
    TemplateRow,
    TemplateValues,
)
from weir.cli.cluster.body_errors import BodyErrors
from weir.cli.cluster.errors import not_here, refused, wrong
from weir.cli.cluster.lookup import Lookup
from weir.cli.cluster.other_tools import instead_of
from weir.cli.cluster.submission_job import SubmissionJobs
from weir.client.errors import Refused
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import ApiObject, ApiStruct, Metadata
from weir.kubernetes.api.paths import path_of
from weir.model.scenario import InvalidFile
from weir.scenario_io.document import read_document
from weir.scenario_io.error_messages import validated
from weir.scenario_io.source_map import Mistakes

PROJECT, TEMPLATE = "weir.dev/project", "weir.dev/template"
"""Labels of the ConfigMaps that are templates."""
KEY = "template.yaml"
"""Key of the template in its ConfigMap."""
SIZE_MAX = 1 << 20
"""Characters of a filled template."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SAMPLE_IMAGE = "image"


class _WriteEntry(ApiStruct):
    """A write to an object."""

    time: str | None = None


class _WrittenMetadata(Metadata):
    """Metadata of an object with its writes."""

    managed_fields: list[_WriteEntry] = field(default_factory=list)


class TemplateMap(ApiStruct):
    """A ConfigMap that holds a template."""

    metadata: _WrittenMetadata
    data: dict[str, str] = field(default_factory=dict)


class TemplateMaps:
    """Templates of one cluster."""

    def __init__(self, api: ApiClient, lookup: Lookup, jobs: SubmissionJobs) -> None:
        self._api = api
        self._lookup = lookup
        self._jobs = jobs

    async def answer(self, method: str, project: str, parts: Sequence[str], body: bytes) -> BaseModel | None:
        """Return the answer to a request below the templates of a project; None for a deletion.

        Raises:
            PoolError: the request is invalid, or a cluster can't carry it out.
        """
        namespace = await self._lookup.namespace_of(project)
        match method, list(parts):
            case "GET", []:
                selector = f"{TEMPLATE},{PROJECT}={project}"
                path = path_of("v1", "configmaps", namespace)
                template_maps = await self._api.list_all(path, TemplateMap, label_selector=selector)
                rows = sorted(
                    (_row(project, template_map) for template_map in template_maps), key=lambda row: row.name
                )
                return TemplatePage(total=len(rows), items=rows)
            case "GET", [name]:
                return _usable(await self._get(namespace, project, name))
            case "PUT", [name]:
                return await self._save(namespace, project, name, body)
            case "POST", [name, "fill"]:
                values = read_model(TemplateValues, body, BodyErrors("The values")).values
                row = _usable(await self._get(namespace, project, name))
                errors = BodyErrors(f"Template {name}")
                chosen = values_of(row.parameters, values, errors)
                errors.refuse_if_any()
                return FilledTemplate(workload=_filled(row.workload, chosen))
            case "DELETE", [name]:
                await self._get(namespace, project, name)
                await self._api.delete(_path(namespace, project, name))
                return None
        raise not_here(instead_of(["projects", project, "templates"]))

    async def _get(self, namespace: str, project: str, name: str) -> TemplateRow:
        try:
            template_map = await self._api.get(_path(namespace, project, name), TemplateMap)
        except NotFound:
            text = f"Project {project} has no template {name[:80]}; `weir template list` shows which it has."
            raise refused(404, text) from None
        return _row(project, template_map)

    async def _save(self, namespace: str, project: str, name: str, body: bytes) -> TemplateRow:
        """Create or replace the ConfigMap of a template."""
        errors = BodyErrors("The template")
        if not _NAME.fullmatch(name):
            text = (
                f"name: {name[:80]!r} can't be one here; write small letters, digits and dashes, at most 63"
            )
            errors.add(("name",), text)
        asked = read_model(TemplateAsked, body, errors)
        workload = {**asked.workload, "project": asked.workload.get("project", project)}
        check_template(project, workload, asked.parameters, errors)
        errors.refuse_if_any()
        await self._check_sample(asked, workload)
        parameters = [parameter.model_dump(exclude_none=True) for parameter in asked.parameters]
        text = yaml.safe_dump({"parameters": parameters, **workload}, sort_keys=False, allow_unicode=True)
        metadata = {"name": _map_name(project, name), "labels": {PROJECT: project, TEMPLATE: name}}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}}
        path = _path(namespace, project, name)
        try:
            await self._api.get(path, ApiObject)
        except NotFound:
            return _row(
                project, await self._api.post(path_of("v1", "configmaps", namespace), made, TemplateMap)
            )
        return _row(project, await self._api.put(path, made, TemplateMap))

    async def _check_sample(self, asked: TemplateAsked, workload: dict[str, Any]) -> None:
        """Check a template with its defaults as a submission to this cluster.

        Raises:
            Refused: with everything that is wrong.
        """
        defaults, required = defaults_of(asked.parameters)
        sample = {"image": _SAMPLE_IMAGE, **_filled(with_samples(workload, required), defaults)}
        text = msgspec.json.encode(sample)
        submission = read_model(Submission, text, BodyErrors("The template"))
        await self._jobs.job(submission, sample)


def _path(namespace: str, project: str, name: str) -> str:
    return path_of("v1", "configmaps", namespace, _map_name(project, name))


def _map_name(project: str, name: str) -> str:
    return f"weir-template.{project}.{name}"


def _filled(workload: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    try:
        return fill(workload, values, SIZE_MAX)
    except ValueError as error:
        raise wrong(f"The template: {error}.") from None


def _usable(row: TemplateRow) -> TemplateRow:
    """Return a template that can be used.

    Raises:
        Refused: the template has a mistake.
    """
    if row.problem:
        raise refused(422, f"Template {row.name} of project {row.project} can't be used: {row.problem}")
    return row


def _row(project: str, template_map: TemplateMap) -> TemplateRow:
    """Return a template; an unreadable one is named with its mistake."""
    metadata = template_map.metadata
    times = [metadata.creation_timestamp, *(managed.time for managed in metadata.managed_fields)]
    row = TemplateRow(
        name=metadata.labels.get(TEMPLATE) or metadata.name,
        project=project,
        user="",
        saved_s=max(at_s(moment) or 0.0 for moment in times),
        parameters=[],
        workload={},
    )
    where = f"the ConfigMap {metadata.name} of {metadata.namespace}"
    if KEY not in template_map.data:
        return row.model_copy(update={"problem": f"{where} has no {KEY}; save the template again"})
    try:
        asked = _read(project, template_map.data[KEY])
    except InvalidFile as error:
        text = "; ".join(f"line {mistake.line}: {mistake.text}" for mistake in error.mistakes[:3])
        return row.model_copy(update={"problem": f"{where}: {text}"})
    except Refused as error:
        return row.model_copy(update={"problem": f"{where}: {error}"})
    parameters = [ParameterRow(**parameter.model_dump()) for parameter in asked.parameters]
    return row.model_copy(update={"parameters": parameters, "workload": asked.workload})


def _read(project: str, text: str) -> TemplateAsked:
    """Return the template of a text.

    Raises:
        InvalidFile, Refused: with the mistakes.
    """
    mistakes = Mistakes(KEY)
    body = read_document(text, mistakes)
    if not isinstance(body, dict):
        mistakes.on(1, "is no mapping; write keys and values such as command: python train.py")
    mistakes.refuse_if_any()
    workload = {key: value for key, value in body.items() if key != "parameters"}
    workload.setdefault("project", project)
    asked = validated(
        TemplateAsked, {"parameters": body.get("parameters", []), "workload": workload}, mistakes
    )
    errors = BodyErrors("The template")
    check_template(project, workload, asked.parameters, errors)
    errors.refuse_if_any()
    return asked
