"""Templates of a pool's projects: saved by leads, filled for everyone who may submit."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from weir.api.placeholders import fill, with_samples
from weir.api.submissions import Submission
from weir.api.template_rules import check_template, defaults_of, values_of
from weir.api.templates import TemplateAsked, TemplateParameter, TemplateRow
from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.http.problem_details import FieldErrors, RequestRefused, read_as
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.queue_lookup import no_such_queue
from weir.local.server.submissions.submitter import Submitter
from weir.store.projects.templates import TemplateRecord

TEMPLATES_MAX = 200
"""Templates of one project."""


class Templates:
    """Saves templates, and fills them with values."""

    def __init__(self, pool: PoolState, submitter: Submitter, size_max: int) -> None:
        """Create them; `size_max` limits the texts of a filled one."""
        self._pool = pool
        self._submitter = submitter
        self._size_max = size_max
        self._lock = asyncio.Lock()

    async def all(self, project: str, person: Person) -> list[TemplateRow]:
        """Return the templates of a project by name.

        Raises:
            RequestRefused: there is no such project, or the person may not submit to it.
        """
        self._check_right(project, person, Action.SUBMIT)
        records = await asyncio.to_thread(self._pool.store.templates.all, project)
        return [_row(record) for record in records]

    async def get(self, project: str, name: str, person: Person) -> TemplateRow:
        """Return a template.

        Raises:
            RequestRefused: there is none, or the person may not submit to the project.
        """
        self._check_right(project, person, Action.SUBMIT)
        return _row(await self._record(project, name))

    async def save(self, project: str, name: str, asked: TemplateAsked, person: Person) -> TemplateRow:
        """Create or change a template.

        Raises:
            RequestRefused: it is invalid, or not allowed for this person.
        """
        self._check_right(project, person, Action.CHANGE_TEMPLATES)
        workload = {**asked.workload, "project": asked.workload.get("project", project)}
        fields = FieldErrors("The template")
        await asyncio.to_thread(check_template, project, workload, asked.parameters, fields)
        fields.refuse_if_any()
        submission, size = await asyncio.to_thread(self._sample, workload, asked.parameters)
        await self._submitter.check(submission, size, person)
        parameters = [parameter.model_dump(exclude_none=True) for parameter in asked.parameters]
        saved_s = self._pool.clock.on_wall(self._pool.clock())
        record = TemplateRecord(project, name, person.user, saved_s, parameters, workload)
        store = self._pool.store.templates
        async with self._lock:
            others = [record for record in await asyncio.to_thread(store.all, project) if record.name != name]
            if len(others) >= TEMPLATES_MAX:
                text = f"Project {project} has {TEMPLATES_MAX} templates, the maximum: remove one."
                raise RequestRefused(409, text)
            await asyncio.wrap_future(store.save_soon(record))
        return _row(record)

    async def remove(self, project: str, name: str, person: Person) -> None:
        """Delete a template; workloads made of it stay.

        Raises:
            RequestRefused: there is none, or the person may not.
        """
        self._check_right(project, person, Action.CHANGE_TEMPLATES)
        async with self._lock:
            await self._record(project, name)
            await asyncio.wrap_future(self._pool.store.templates.delete_soon(project, name))

    async def fill(
        self, project: str, name: str, values: Mapping[str, str], person: Person
    ) -> dict[str, Any]:
        """Return the submission that a template gives with some values.

        Raises:
            RequestRefused: there is none, a value is unknown or missing, or the person may not submit.
        """
        self._check_right(project, person, Action.SUBMIT)
        record = await self._record(project, name)
        parameters = [TemplateParameter.model_validate(parameter) for parameter in record.parameters]
        fields = FieldErrors(f"Template {name}")
        chosen = values_of(parameters, values, fields)
        fields.refuse_if_any()
        return await asyncio.to_thread(self._filled, record.workload, chosen)

    def _filled(self, workload: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
        try:
            return fill(workload, values, self._size_max)
        except ValueError as error:
            raise RequestRefused(413, f"The template: {error}.") from None

    def _sample(
        self, workload: Mapping[str, Any], parameters: list[TemplateParameter]
    ) -> tuple[Submission, int]:
        """Return a template as a submission with its defaults, and its size."""
        defaults, required = defaults_of(parameters)
        text = json.dumps(self._filled(with_samples(workload, required), defaults))
        submission = read_as(Submission, text, "The template", self._pool.priority_classes)
        # Without the name, which a live workload may have
        return submission.model_copy(update={"name": None}), len(text)

    async def _record(self, project: str, name: str) -> TemplateRecord:
        record = await asyncio.to_thread(self._pool.store.templates.get, project, name)
        if record is None:
            text = f"Project {project} has no template {name[:80]}; `weir template list` shows which it has."
            raise RequestRefused(404, text)
        return record

    def _check_right(self, project: str, person: Person, action: Action) -> None:
        if project not in self._pool.inventory.projects:
            raise no_such_queue("project", project)
        require(person, action, project)


def _row(record: TemplateRecord) -> TemplateRow:
    return TemplateRow.model_validate(
        {
            "name": record.name,
            "project": record.project,
            "user": record.user,
            "saved_s": record.saved_wall_s,
            "parameters": record.parameters,
            "workload": record.workload,
        }
    )
