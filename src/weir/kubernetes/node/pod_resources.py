"""Devices that the kubelet has given to pods, from its pod-resources socket (`podresources/v1`, method List).

The messages are described here with the fields that are read. So no generated code is needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TIMEOUT_S = 10.0
BYTES_MAX = 16 << 20
_METHOD = "/v1.PodResourcesLister/List"
_PACKAGE = "v1"
_TEXT, _TEXTS = "text", "texts"
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources")},
    "PodResources": {
        "name": (1, _TEXT),
        "namespace": (2, _TEXT),
        "containers": (3, "ContainerResources"),
    },
    "ContainerResources": {
        "devices": (2, "ContainerDevices"),
        "dynamic_resources": (5, "DynamicResource"),
    },
    "ContainerDevices": {"resource_name": (1, _TEXT), "device_ids": (2, _TEXTS)},
    "DynamicResource": {"claim_resources": (4, "ClaimResource")},
    "ClaimResource": {
        "driver_name": (2, _TEXT),
        "pool_name": (3, _TEXT),
        "device_name": (4, _TEXT),
        "share_id": (5, _TEXT),
    },
}
"""Number and type of each field that is read; messages of others are repeated."""


class NoPodResources(Exception):
    """The socket doesn't answer; the sentence says why."""


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device of a container. `resource` is an extended resource, or the driver of a claim's device."""

    namespace: str
    pod: str
    resource: str
    device: str
    is_claimed: bool = False
    is_share: bool = False


def _response_class() -> Any:
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="podresources/v1/api.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = field_type.LABEL_OPTIONAL if kind == _TEXT else field_type.LABEL_REPEATED
            if kind in (_TEXT, _TEXTS):
                message.field.add(name=field, number=number, label=label, type=field_type.TYPE_STRING)
            else:
                message.field.add(
                    name=field,
                    number=number,
                    label=label,
                    type=field_type.TYPE_MESSAGE,
                    type_name=f".{_PACKAGE}.{kind}",
                )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ListPodResourcesResponse"))


_RESPONSE = _response_class()
_OPTIONS = [("grpc.max_receive_message_length", BYTES_MAX), ("grpc.enable_http_proxy", 0)]


def given_devices(socket: Path) -> list[GivenDevice]:
    """Return all devices that the kubelet has given to pods, once for each container.

    Raises:
        NoPodResources: the kubelet doesn't answer.
    """
    try:
        with grpc.insecure_channel(f"unix://{socket}", options=_OPTIONS) as channel:
            ask = channel.unary_unary(
                _METHOD, request_serializer=lambda _: b"", response_deserializer=_RESPONSE.FromString
            )
            answer = ask(None, timeout=TIMEOUT_S)
    except grpc.RpcError as error:
        details = getattr(error, "details", lambda: "")() or type(error).__name__
        raise NoPodResources(f"{socket} gives no answer: {str(details)[:200]}") from None
    return [device for pod in answer.pod_resources for device in _of_pod(pod)]


def _of_pod(pod: Any) -> Iterator[GivenDevice]:
    for container in pod.containers:
        for devices in container.devices:
            for device in devices.device_ids:
                yield GivenDevice(pod.namespace, pod.name, devices.resource_name, device)
        for claim in container.dynamic_resources:
            for one in claim.claim_resources:
                yield GivenDevice(
                    *(pod.namespace, pod.name, one.driver_name, one.device_name),
                    is_claimed=True,
                    is_share=bool(one.share_id),
                )
