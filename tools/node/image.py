"""The image of all containers: one layer with a static busybox, as `docker save` would write it."""

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

IMAGE = "weir.test/busybox:1"
_FOREVER = ["/bin/busybox", "sleep", "2147483647"]


def write_image(busybox: Path, archive: Path) -> None:
    """Write the archive that `ctr images import` reads. Its containers sleep unless they get a command."""
    layer = _layer(busybox)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": _FOREVER},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as written:
        _add(written, "config.json", json.dumps(config).encode())
        _add(written, "layer.tar", layer)
        _add(written, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: Path) -> bytes:
    """Return a layer with busybox and a link for each of its commands."""
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as layer:
        for directory in ("bin", "etc", "tmp"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for command in listed.stdout.split():
            entry = tarfile.TarInfo(f"bin/{command}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            if command != "busybox":
                layer.addfile(entry)
    return held.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
