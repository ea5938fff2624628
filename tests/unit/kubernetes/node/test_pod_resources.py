"""Answers of the pod-resources socket that a kubelet gives, and others."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from weir.kubernetes.node import pod_resources
from weir.kubernetes.node.pod_resources import GivenDevice, NoPodResources, given_devices


def message(number: int, content: bytes | str) -> bytes:
    """Return a field of bytes, as protocol buffers write it."""
    raw = content.encode() if isinstance(content, str) else content
    assert len(raw) < 128
    return bytes([number << 3 | 2, len(raw)]) + raw


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """A socket, and the answer that it gives."""
    path, answers = tmp_path / "kubelet.sock", [b""]
    method = grpc.unary_unary_rpc_method_handler(lambda _request, _context: answers[0])
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method})]
    )
    server.add_insecure_port(f"unix://{path}")
    server.start()
    yield path, answers
    server.stop(0).wait()


def test_devices_and_claims_are_read_and_fields_of_later_versions_left_out(
    kubelet: tuple[Path, list[bytes]],
) -> None:
    path, answers = kubelet
    later = message(14, "later")
    devices = message(1, "nvidia.com/gpu") + message(2, "GPU-a") + message(2, "GPU-b") + later
    claim = message(2, "gpu.nvidia.com") + message(4, "gpu-0")
    share = message(2, "gpu.nvidia.com") + message(4, "gpu-1") + message(5, "share")
    first = message(2, devices) + later
    second = message(5, message(4, claim) + message(4, share))
    pod = message(1, "runs") + message(2, "team") + message(3, first) + message(3, second)
    answers[0] = message(1, message(1, "empty") + message(2, "team")) + message(1, pod)
    assert given_devices(path) == [
        GivenDevice("team", "runs", "nvidia.com/gpu", "GPU-a"),
        GivenDevice("team", "runs", "nvidia.com/gpu", "GPU-b"),
        GivenDevice("team", "runs", "gpu.nvidia.com", "gpu-0", is_claimed=True),
        GivenDevice("team", "runs", "gpu.nvidia.com", "gpu-1", is_claimed=True, is_share=True),
    ]
    answers[0] = b""
    assert given_devices(path) == []


def test_a_kubelet_that_answers_nonsense_or_nothing_is_named(
    kubelet: tuple[Path, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, answers = kubelet
    answers[0] = b"\xff" * 40
    with pytest.raises(NoPodResources, match="gives no answer"):
        given_devices(path)
    with pytest.raises(NoPodResources, match=r"absent\.sock gives no answer"):
        given_devices(tmp_path / "absent.sock")
    monkeypatch.setattr(pod_resources, "TIMEOUT_S", 0.2)
    silent = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(silent))
        listening.listen()
        with pytest.raises(NoPodResources):
            given_devices(silent)
