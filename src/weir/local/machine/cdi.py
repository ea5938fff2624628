"""Devices that the machine offers to containers: specifications of the Container Device Interface.

`nvidia-ctk cdi generate` writes them. Weir reads which names there are, and the runtime does the rest.
"""

import os
import stat
from collections.abc import Sequence
from typing import Any

from weir.local.machine.devices import Device

DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
KIND = "nvidia.com/gpu"
HOW = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
_INDEX_END = 1 << 32
_FILES_MAX, _BYTES_MAX, _NAMES_MAX, _NAME_MAX = 64, 4 << 20, 4096, 128


class DevicesNotOffered(Exception):
    """A GPU can't be given to a container; the text names the remedy."""


class DeviceSpecifications:
    """The names of the GPUs in the specifications of a machine, read again when a file changes."""

    def __init__(self, directories: Sequence[str] = DIRECTORIES) -> None:
        self._directories = tuple(directories)
        self._state: object = None
        self._names: frozenset[str] = frozenset()

    def names(self) -> frozenset[str]:
        """Return the names of GPUs; a file that can't be read has none."""
        files = self._files()
        if files != self._state:
            names: list[str] = []
            for path, _, _ in files:
                names += _names(path)
            self._names, self._state = frozenset(names[:_NAMES_MAX]), files
        return self._names

    def device_names(self, devices: Sequence[Device], *, virtual: bool) -> list[str]:
        """Return how a runtime calls these devices. A virtual one that isn't named needs no file.

        Raises:
            DevicesNotOffered: no specification names one.
        """
        names = self.names()
        cdi_names = []
        for device in devices:
            candidates = [device.uuid] if virtual or device.parent is not None else _candidates(device)
            name = next((candidate for candidate in candidates if candidate in names), None)
            if name is None and virtual:
                continue
            if name is None:
                where = " and ".join(self._directories)
                raise DevicesNotOffered(
                    f"GPU {device.index} is in no CDI specification of {where}: an administrator makes one "
                    f"with `{HOW}`"
                )
            cdi_names.append(f"{KIND}={name}")
        return cdi_names

    def _files(self) -> list[tuple[str, int, int]]:
        files = []
        for directory in self._directories:
            try:
                names = sorted(os.listdir(directory))
            except OSError:
                continue
            for name in names:
                if name.endswith((".json", ".yaml", ".yml")):
                    try:
                        status = os.stat(f"{directory}/{name}")
                    except OSError:
                        continue
                    files.append((f"{directory}/{name}", status.st_mtime_ns, status.st_size))
        return files[:_FILES_MAX]


def _candidates(device: Device) -> list[str]:
    """Return the names that a specification may give to a whole GPU."""
    return [device.uuid, str(device.handle)]


def _names(path: str) -> list[str]:
    """Return the names of GPUs in a specification."""
    from weir.model.scenario import InvalidFile
    from weir.scenario_io.document import decoded, read_document
    from weir.scenario_io.source_map import Mistakes

    text = _content(path)
    if text is None:
        return []
    mistakes = Mistakes(path)
    try:
        spec: Any = read_document(decoded(text, mistakes), mistakes)
    except InvalidFile:
        return []
    if not isinstance(spec, dict) or spec.get("kind") != KIND or not isinstance(spec.get("devices"), list):
        return []
    names = [device.get("name") for device in spec["devices"] if isinstance(device, dict)]
    texts = [str(name) for name in names if isinstance(name, str) or _is_index(name)]
    return [text for text in texts if 0 < len(text) <= _NAME_MAX]


def _is_index(name: object) -> bool:
    """Return True for the number of a GPU; Python writes no integer of thousands of digits."""
    return isinstance(name, int) and 0 <= name < _INDEX_END


def _content(path: str) -> bytes | None:
    """Return the content of a file; None if it isn't a regular file, is too large or can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(fd, "rb") as file:
            text = file.read(_BYTES_MAX + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    return text if 0 < len(text) <= _BYTES_MAX else None
