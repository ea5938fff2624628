"""Requests to the aggregated API of Weir, with the rights of the kubeconfig."""

from collections.abc import Awaitable, Mapping
from urllib.parse import urlencode

import msgspec

from weir import __version__
from weir.cli.cluster.errors import refused
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, NotFound
from weir.kubernetes.query.aggregation.discovery import API_SERVICE, API_VERSION, ROOT

NO_SUCH_KIND = ("could not find the requested resource", "404 page not found")
INSTALL = "weir kube manifests | kubectl apply --server-side -f -"


class QueryApi:
    """The API of one cluster. `namespace` is the given option, `within` the namespace of the kubeconfig."""

    def __init__(self, api: ApiClient, within: str, namespace: str | None) -> None:
        self._api = api
        self._namespace = namespace
        self.within = namespace or within

    async def everywhere(self, resource: str, params: Mapping[str, str]) -> bytes:
        """Return a list of all namespaces, or of the default one if only that may be read."""
        if self._namespace is None:
            try:
                return await self.get(resource, params)
            except ApiRefused as error:
                if error.status != 403 or not self.within:
                    raise
        return await self.get(f"namespaces/{self.within}/{resource}", params)

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Return an answer undecoded; its readers ignore fields of a newer server.

        Raises:
            PoolError: Weir doesn't serve the API in this cluster, or doesn't answer.
            ApiRefused: the API server refuses it, or Weir does.
        """
        query = f"?{urlencode(params)}" if params else ""
        return await self._answered(self._api.get(f"{ROOT}/{path}{query}", msgspec.Raw))

    async def post(self, path: str, body: object) -> bytes:
        """Return the answer to a request with a body. Raises the errors of `get`."""
        return await self._answered(self._api.post(f"{ROOT}/{path}", body, msgspec.Raw))

    async def _answered(self, asked: Awaitable[msgspec.Raw]) -> bytes:
        try:
            return bytes(await asked)
        except NotFound as error:
            if any(phrase in str(error) for phrase in NO_SUCH_KIND):
                raise refused(404, _not_served()) from None
            raise
        except ApiRefused as error:
            if error.status == 503 and error.reason != "ServiceUnavailable":
                raise refused(503, _not_answered()) from None
            raise


def _not_served() -> str:
    return (
        f"This cluster doesn't serve {API_VERSION}: Weir isn't installed in it, or is older than this "
        f"command line, weir {__version__}: {INSTALL}"
    )


def _not_answered() -> str:
    return (
        f"Weir doesn't answer in this cluster now: kubectl get apiservice {API_SERVICE} says why. It may be "
        "being started."
    )
