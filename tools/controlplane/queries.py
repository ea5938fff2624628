"""The aggregated API of a Weir that runs beside a control plane: the API server reaches it on loopback.

An APIService names a Service, and a pod's address can't be one of loopback. So the Service is a name of DNS.
"""

import time
from collections.abc import Iterable
from copy import deepcopy

from tools.controlplane.api import Api, ApiError, Object

API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.query.weir.dev"
POOL = "/apis/query.weir.dev/v1/pools/cluster"
_LIMIT_S = 120.0


def on_loopback(objects: Iterable[Object], port: int) -> list[Object]:
    """Return an installation's objects, with a Service and an APIService for a port of this machine."""
    found = []
    for each in objects:
        made = deepcopy(each)
        if each["kind"] == "Service":
            made["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        elif each["kind"] == "APIService":
            made["spec"]["service"]["port"] = port
        found.append(made)
    return found


def withdraw(api: Api) -> None:
    """Delete the APIService, and wait until discovery doesn't name it: only then do namespaces end at once.

    Raises:
        TimeoutError: discovery names it after two minutes.
    """
    api.delete(API_SERVICE)
    end = time.monotonic() + _LIMIT_S
    while any(each["name"] == "query.weir.dev" for each in api.get("/apis")["groups"]):
        if time.monotonic() > end:
            raise TimeoutError("discovery names query.weir.dev")
        time.sleep(0.05)


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
