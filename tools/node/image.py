"""The images of all containers: one layer with a static busybox, as `docker save` would write it.

The second one finds the programs of the machine where its directories are mounted.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

IMAGE = "weir.test/busybox:1"
MACHINE_IMAGE = "weir.test/machine:1"
MACHINE_PATH = "/usr/local/bin:/usr/bin:/usr/sbin:/bin"
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\n",
}
_LINKS = {"lib": "usr/lib", "lib64": "usr/lib64"}
_FOREVER = ["/bin/busybox", "sleep", "2147483647"]


def write_image(busybox: Path, archive: Path, path: str = MACHINE_PATH) -> None:
    """Write the archive that `ctr images import` reads. Containers sleep unless they get a command.

    `path`: the PATH in containers of the machine's image.
    """
    layers = {IMAGE: _layer(busybox, {}, {}), MACHINE_IMAGE: _layer(busybox, _FILES, _LINKS)}
    paths = {IMAGE: "/bin", MACHINE_IMAGE: path}
    manifest = []
    with tarfile.open(archive, "w") as written:
        for index, (name, layer) in enumerate(layers.items()):
            config = {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": [f"PATH={paths[name]}"], "Cmd": _FOREVER},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            }
            entry = {"Config": f"config-{index}.json", "RepoTags": [name], "Layers": [f"layer-{index}.tar"]}
            _add(written, f"config-{index}.json", json.dumps(config).encode())
            _add(written, f"layer-{index}.tar", layer)
            manifest.append(entry)
        _add(written, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: Path, files: Mapping[str, str], links: Mapping[str, str]) -> bytes:
    """Return a layer with busybox and a link for each of its commands, and with further files and links."""
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as layer:
        for directory in ("bin", "etc", "root", "tmp"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            layer.addfile(entry)
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        commands = {f"bin/{name}": "busybox" for name in listed.stdout.split() if name != "busybox"}
        for name, target in {**commands, **links}.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
        for name, text in files.items():
            _add(layer, name, text.encode())
    return held.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
