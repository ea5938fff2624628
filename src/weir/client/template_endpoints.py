"""Calls about templates, of both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.client.calls import Call, RowPage, endpoint, form, nothing, row_list
from weir.client.path_parts import path_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weir.api.templates import FilledTemplate, TemplateRow


class TemplateEndpoints:
    """Calls about the templates of a pool's projects."""

    @row_list
    def templates(self, project: str) -> Call[RowPage[TemplateRow]]:
        """Return the templates of a project."""
        from weir.api.templates import TemplatePage

        return Call("GET", _path(project), form(TemplatePage))

    @endpoint
    def template(self, project: str, name: str) -> Call[TemplateRow]:
        """Return a template."""
        from weir.api.templates import TemplateRow

        return Call("GET", _path(project, name), form(TemplateRow))

    @endpoint
    def save_template(
        self,
        project: str,
        name: str,
        workload: Mapping[str, Any],
        parameters: Sequence[Mapping[str, Any]] = (),
    ) -> Call[TemplateRow]:
        """Create or change a template: `${{ lr }}` in a text stands for the parameter `lr`."""
        from weir.api.templates import TemplateRow

        body = {"parameters": [dict(each) for each in parameters], "workload": dict(workload)}
        return Call("PUT", _path(project, name), form(TemplateRow), body=body)

    @endpoint
    def fill_template(
        self, project: str, name: str, values: Mapping[str, str | float] | None = None
    ) -> Call[FilledTemplate]:
        """Return the submission of a template: `pool.submit(pool.fill_template(...).workload)` queues it."""
        from weir.api.templates import FilledTemplate

        body = {"values": dict(values or {})}
        return Call("POST", f"{_path(project, name)}/fill", form(FilledTemplate), body=body)

    @endpoint
    def delete_template(self, project: str, name: str) -> Call[None]:
        """Delete a template; workloads made of it stay."""
        return Call("DELETE", _path(project, name), nothing)


def _path(project: str, *name: str) -> str:
    return "/".join([f"/projects/{path_part(project)}/templates", *(path_part(each) for each in name)])
