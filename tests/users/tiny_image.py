"""An image made of this machine's own files: a shell and a few programs, without any registry."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

PROGRAMS = (
    "sh",
    "cat",
    "echo",
    "env",
    "id",
    "ls",
    "mkdir",
    "rm",
    "sleep",
    "touch",
    "stat",
    "head",
    "dd",
    "tr",
)
REQUIRED = "WEIR_CONTAINERS"


def require_podman() -> None:
    """Skip the test where Podman is missing, unless the environment says that it must be there."""
    missing = [each for each in ("podman", "crun") if shutil.which(each) is None]
    if missing:
        reason = f"{' and '.join(missing)} isn't installed: apt-get install podman crun"
        assert os.environ.get(REQUIRED) != "required", reason
        pytest.skip(reason)


def docker_archive(
    path: Path, name: str = "localhost/tiny:1", further: Mapping[str, Path] = MappingProxyType({})
) -> str:
    """Write an image as an archive of Docker's form; return how to name it.

    `further` are files beside the usual programs, by their path in the image.
    """
    layer = _layer(further)
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "OF_IMAGE=yes"], "Entrypoint": ["/bin/false"], "User": "nobody"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created_by": "a test"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        for member, content in (
            ("layer.tar", layer),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            _add(archive, member, content)
    path.chmod(0o644)
    return f"docker-archive:{path}"


def _layer(further: Mapping[str, Path]) -> bytes:
    files = {f"bin/{program}": Path(shutil.which(program) or program) for program in PROGRAMS} | further
    for found in list(files.values()):
        linked = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", linked):
            files[library.lstrip("/")] = Path(library)
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for name, path in files.items():
            _add(archive, name, path.resolve().read_bytes(), mode=0o755)
        accounts = (
            "root:x:0:0::/:/bin/sh",
            "nobody:x:99:99::/:/bin/sh",
            "sshd:x:98:98::/run/sshd:/bin/false",
        )
        _add(archive, "etc/passwd", "".join(f"{each}\n" for each in accounts).encode())
        _add(archive, "etc/group", b"root:x:0:\ntty:x:5:\n")
        _add(archive, "etc/owned-by-another", b"kept\n", owner=99)
        for directory in ("tmp", "proc", "sys", "dev", "run", "root"):
            member = tarfile.TarInfo(directory)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            archive.addfile(member)
    return layer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644, owner: int = 0) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uid, member.gid = len(content), mode, owner, owner
    archive.addfile(member, io.BytesIO(content))
