"""Withdrawal of the aggregated API when the namespace of Weir is deleted.

While an APIService has no server, no namespace of a cluster can end, that of Weir included. So the APIService
goes first: at the first sign of the namespace's end, which is when Weir still runs.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from structlog import get_logger

from weir.kubernetes.admission.certificate_rotation import ApiService
from weir.kubernetes.api.changes import Change, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, NotFound
from weir.kubernetes.api.objects import Namespace
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.query.aggregation.discovery import API_SERVICE

PATH = path_of("apiregistration.k8s.io/v1", "apiservices", name=API_SERVICE)
PAUSES_S = (0.5, 2.0, 8.0)
"""Time after each try that failed. Weir has as long as its pods need to stop."""
_LOG = get_logger(__name__)


class Withdrawal:
    """Deletes the APIService of an installation whose namespace ends. `start` runs a task."""

    def __init__(self, api: ApiClient, namespace: str, start: Callable[[Any], object]) -> None:
        self._api = api
        self._namespace = namespace
        self._start = start
        self._begun = False

    def see_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Process new, changed and deleted namespaces."""
        for change in changes:
            if not isinstance(change, ObjectSet) or change.key != self._namespace:
                continue
            ends = change.object.metadata.deletion_timestamp is not None
            if ends and not self._begun:
                self._start(self.withdraw())
            self._begun = ends

    async def withdraw(self) -> None:
        """Delete the APIService, unless it is of another installation."""
        for pause_s in PAUSES_S:
            try:
                api_service = await self._api.get(PATH, ApiService)
                if api_service.spec.service is None or api_service.spec.service.namespace != self._namespace:
                    return
                await self._api.delete(PATH, uid=api_service.metadata.uid)
            except NotFound:
                return
            except ApiError as error:
                _LOG.warning("api_service_not_deleted", name=API_SERVICE, why=str(error))
                await asyncio.sleep(pause_s)
            else:
                _LOG.info("api_service_deleted", name=API_SERVICE, namespace=self._namespace)
                return
