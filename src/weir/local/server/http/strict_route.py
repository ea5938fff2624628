"""Routes that refuse unknown query parameters: a misspelled filter must not choose everything."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from weir.local.server.http.problem_details import RequestRefused
from weir.scenario_io.error_messages import unknown_parameter

_NAME_MAX = 80


class StrictRoute(APIRoute):
    """A route of the API."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests, behind the check of their query."""
        handle = super().get_route_handler()
        allowed = tuple(_query_names(self.dependant))

        async def checked(request: Request) -> Response:
            for name in request.query_params:
                if name not in allowed:
                    raise _refusal(name, allowed)
            return await handle(request)

        return checked


def _refusal(name: str, allowed: Sequence[str]) -> RequestRefused:
    message = unknown_parameter(name, allowed)
    return RequestRefused(422, message, [{"field": name[:_NAME_MAX], "message": message}])


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (parameter.alias for parameter in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _query_names(dependency)
