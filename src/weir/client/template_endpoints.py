"""Calls about templates, of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.client.calls import Call, LazyModule, RowPage, endpoint, form, nothing, row_list
from weir.client.path_parts import path_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir.api import templates as model
else:
    model = LazyModule("weir.api.templates")


class TemplateEndpoints:
    """Calls about the templates of a pool's projects."""

    @row_list
    def templates(self, project: str) -> Call[RowPage[model.TemplateRow]]:
        """Return the templates of a project."""
        return Call("GET", _path(project), form(model.TemplatePage))

    @endpoint
    def template(self, project: str, name: str) -> Call[model.TemplateRow]:
        """Return a template."""
        return Call("GET", _path(project, name), form(model.TemplateRow))

    @endpoint
    def save_template(
        self,
        project: str,
        name: str,
        workload: Mapping[str, Any],
        parameters: Sequence[Mapping[str, Any]] = (),
    ) -> Call[model.TemplateRow]:
        """Create or change a template: the parameter `lr` replaces `${{ lr }}` in its texts."""
        body = {"parameters": [dict(parameter) for parameter in parameters], "workload": dict(workload)}
        return Call("PUT", _path(project, name), form(model.TemplateRow), body=body)

    @endpoint
    def fill_template(
        self, project: str, name: str, values: Mapping[str, str | float] | None = None
    ) -> Call[model.FilledTemplate]:
        """Return the submission of a template: `pool.submit(pool.fill_template(...).workload)` queues it."""
        body = {"values": dict(values or {})}
        return Call("POST", f"{_path(project, name)}/fill", form(model.FilledTemplate), body=body)

    @endpoint
    def delete_template(self, project: str, name: str) -> Call[None]:
        """Delete a template; workloads made of it stay."""
        return Call("DELETE", _path(project, name), nothing)


def _path(project: str, *name: str) -> str:
    return "/".join([f"/projects/{path_part(project)}/templates", *(path_part(part) for part in name)])
