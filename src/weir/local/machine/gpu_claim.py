"""Claim on GPUs for the whole machine: two pools with different homes never share a device.

A claim is an abstract socket named after the device. The kernel releases it when its process ends, and knows
its owner. A claim is valid in one network namespace, so pools in containers don't see each other's.
"""

import socket
import struct
from collections.abc import Sequence

from weir.local.records.state_dir import StateDirInUse
from weir.user_names import user_name

_NAME = "\0weir-gpu-"
_CREDENTIALS = struct.Struct("3i")


class GpuClaim:
    """The devices this process has claimed, until `release`."""

    def __init__(self, uuids: Sequence[str]) -> None:
        """Claim devices by their UUIDs.

        Raises:
            StateDirInUse: another pool has one of them.
        """
        self._sockets: list[socket.socket] = []
        try:
            for index, uuid in enumerate(uuids):
                self._claim(index, uuid)
        except BaseException:
            self.release()
            raise

    def _claim(self, index: int, uuid: str) -> None:
        name = f"{_NAME}{uuid}"
        claimed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sockets.append(claimed)
        try:
            claimed.bind(name)
            claimed.listen(128)
        except OSError:
            raise StateDirInUse(
                f"GPU {index} of this machine is in another pool ({_holder(name)}): use that one, "
                "stop it first, or name other GPUs in CUDA_VISIBLE_DEVICES"
            ) from None

    def release(self) -> None:
        """Let another pool have the devices."""
        while self._sockets:
            self._sockets.pop().close()


def _holder(name: str) -> str:
    """Return the process and the user that hold a claim, as far as they are known."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(1.0)
            asking.connect(name)
            raw = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return "of an unknown user"
    process, uid, _ = _CREDENTIALS.unpack(raw)
    return f"process {process} of user {user_name(uid)}"
