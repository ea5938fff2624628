"""The aggregated API of a Weir that runs beside a control plane: the API server reaches it on loopback.

An APIService names a Service, and a pod's address can't be one of loopback. So the Service is a name of DNS.
"""

import time
from collections.abc import Iterable
from copy import deepcopy

from tools.controlplane.api import Api, ApiError, Object

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
API_SERVICE = f"{API_SERVICES}/v1.query.weir.dev"
POOL = "/apis/query.weir.dev/v1/pools/cluster"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Form of discovery with all groups at once."""
_LIMIT_S = 120.0


def on_loopback(objects: Iterable[Object], port: int) -> list[Object]:
    """Return an installation's objects, with a Service and an APIService for a port of this machine."""
    copies = []
    for manifest in objects:
        made = deepcopy(manifest)
        if manifest["kind"] == "Service":
            made["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        elif manifest["kind"] == "APIService":
            made["spec"]["service"]["port"] = port
        copies.append(made)
    return copies


def withdraw(api: Api, version: str = "v1", group: str = "query.weir.dev") -> None:
    """Delete an APIService, and wait until discovery doesn't name it: only then do namespaces end at once.

    Controllers read the aggregated form of discovery, which the API server changes after the plain one.

    Raises:
        TimeoutError: discovery names it after two minutes; the text has what is there.
    """
    path = f"{API_SERVICES}/{version}.{group}"
    api.delete(path)
    end = time.monotonic() + _LIMIT_S
    while named := _forms_that_name_it(api, group):
        if time.monotonic() > end:
            raise TimeoutError(f"{named} names {group}; the APIService: {api.maybe(path)}")
        time.sleep(0.05)


def _forms_that_name_it(api: Api, group: str) -> list[str]:
    """Return the forms of discovery that name a group."""
    plain = {api_group["name"] for api_group in api.get("/apis")["groups"]}
    aggregated = {api_group["metadata"]["name"] for api_group in api.get("/apis", AGGREGATED)["items"]}
    return [form for form, names in (("plain", plain), ("aggregated", aggregated)) if group in names]


def named_apis(api: Api, group: str = "query.weir.dev") -> str:
    """Return the forms of discovery that name a group, and its APIService, for people."""
    names = [
        service["metadata"]["name"]
        for service in api.items(API_SERVICES)
        if group in service["metadata"]["name"]
    ]
    return f"discovery in the forms {_forms_that_name_it(api, group)} names {group}; APIServices: {names}"


def wait_for_queries(api: Api, path: str = POOL) -> Object:
    """Wait until the API is answered; return the answer.

    Raises:
        TimeoutError: it isn't after two minutes.
    """
    end = time.monotonic() + _LIMIT_S
    while True:
        try:
            return api.get(path)
        except ApiError as error:
            if time.monotonic() > end:
                service = api.maybe(API_SERVICE)
                raise TimeoutError(f"{error}; the APIService: {service}") from None
        time.sleep(0.05)
