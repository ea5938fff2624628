"""Images, variables and devices of containers, as a submission is checked for them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from weir.api.submissions import Submission
from weir.control.journal import ContainerLaunch
from weir.local.containers.launch import is_reserved
from weir.local.machine.cdi import DevicesNotOffered, DeviceSpecifications
from weir.local.machine.devices import Device, virtual_gpus
from weir.local.server.http.problem_details import FieldErrors, RequestRefused
from weir.local.server.http.server_limits import ContainerRules
from weir.local.server.submissions.container_checks import ContainerChecks, has_prefix, is_image

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "docker.io/library/python:3.13",
        "localhost:5000/team/train:v1.2-rc_1",
        f"nvcr.io/nvidia/pytorch@{DIGEST}",
        f"quay.io/a/b__c/d-e.f:1@{DIGEST}",
        "docker-archive:/home/me/image.tar",
        "oci-archive:/srv/images/train.tar",
    ],
)
def test_image_of_a_registry_or_an_archive_is_accepted(image: str) -> None:
    assert is_image(image)


@pytest.mark.parametrize(
    "image",
    [
        *("", " ", "-v/:/host", "--privileged", "a b", "a\nb", "ubuntu\n", "UPPER", "a/../b", "/etc", "../x"),
        *(
            "docker-archive:relative.tar",
            "docker-archive:/a/../etc",
            "docker-archive:",
            "oci:/a b",
            "a" * 9 + "@x",
        ),
        *(
            "docker-daemon:ubuntu:1",
            "containers-storage:x",
            "http://host/a",
            "a:b:c",
            "ubuntu:",
            "a//b",
            "\u00fcb",
        ),
        *("$(id)", "a;id", "a,ro=false", "docker-archive:/a,b", "dir:/-x"),
    ],
)
def test_text_that_is_no_image_is_refused(image: str) -> None:
    assert not is_image(image)


@pytest.mark.parametrize(
    ("image", "prefix", "expected"),
    [
        ("host/team/a:1", "host/team", True),
        ("host/team/a:1", "host/team/", True),
        ("host/teams/a:1", "host/team", False),
        ("host.evil/team/a", "host", False),
        ("host/team", "host/team", True),
        ("docker-archive:/a", "docker-archive:", True),
    ],
)
def test_prefix_of_an_image_ends_at_a_border(image: str, prefix: str, expected: bool) -> None:
    assert has_prefix(image, prefix) is expected


def test_variables_that_the_runtime_obeys_are_reserved() -> None:
    obeyed = (
        "PATH",
        "HOME",
        "LD_PRELOAD",
        "XDG_RUNTIME_DIR",
        "CONTAINERS_CONF",
        "_CONTAINERS_USERNS_CONFIGURED",
    )
    assert all(map(is_reserved, (*obeyed, "GODEBUG", "WEIR_CONTAINER", "REGISTRY_AUTH_FILE")))
    assert not any(map(is_reserved, ("HF_TOKEN", "PATHS", "MY_HOME", "http_proxy", "WEIR_POD_ID", "LANG")))


def _check(
    monkeypatch: pytest.MonkeyPatch,
    rules: ContainerRules | None = None,
    *,
    has: bool = True,
    real_gpus: bool = False,
    places: tuple[str, ...] = (),
    **words: Any,
) -> tuple[ContainerLaunch | None, list[str]]:
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}" if has else None)
    fields = FieldErrors("The submission")
    submission = Submission.model_validate({"project": "vision", "command": ["true"], **words})
    checks = ContainerChecks(rules, DeviceSpecifications(places), needs_devices=real_gpus)
    container = checks.container_of(submission, fields)
    try:
        fields.refuse_if_any()
    except RequestRefused as refused:
        return container, [error["message"] for error in refused.errors]
    return container, []


def test_container_of_a_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, errors = _check(monkeypatch, image="ubuntu", pull="always", gpus=1)
    assert (spec, errors) == (ContainerLaunch("ubuntu", "always", "podman"), [])
    assert _check(monkeypatch) == (None, [])


def test_submission_is_refused_where_no_runtime_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, errors = _check(monkeypatch, has=False, image="ubuntu")
    assert errors == ["image: podman and crun isn't installed on this machine; ask its administrator for it"]


def test_rules_of_a_project_take_the_place_of_the_common_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ContainerRules(images=["host/base"], projects={"vision": ["host/vision"]})
    assert _check(monkeypatch, rules, image="host/vision/a")[1] == []
    (error,) = _check(monkeypatch, rules, image="host/base/a")[1]
    assert error == "image: host/base/a isn't allowed in vision; write one that begins with host/vision"
    (error,) = _check(monkeypatch, ContainerRules(runtimes=[]), image="ubuntu")[1]
    assert "aren't allowed" in error


def test_words_without_a_meaning_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "for containers alone" in _check(monkeypatch, pull="never")[1][0]
    assert "docker can't be used" in _check(monkeypatch, image="a", container_runtime="docker")[1][0]
    assert "LD_PRELOAD" in _check(monkeypatch, image="a", secrets={"LD_PRELOAD": "token"})[1][0]
    assert "larger" in _check(monkeypatch, image="a", env={"PATH": "x" * 100_000})[1][0]


def test_gpus_without_a_specification_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    where = (str(tmp_path),)
    (error,) = _check(monkeypatch, image="a", gpus=1, real_gpus=True, places=where)[1]
    assert "nvidia-ctk cdi generate" in error
    assert _check(monkeypatch, image="a", gpus=0, real_gpus=True, places=where)[1] == []
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\ndevices:\n- name: '0'\n")
    assert _check(monkeypatch, image="a", gpus=1, real_gpus=True, places=where)[1] == []


def test_specifications_name_a_gpu_by_number_or_uuid(tmp_path: Path) -> None:
    specifications = DeviceSpecifications([str(tmp_path), str(tmp_path / "gone")])
    first = Device(0, "0", "GPU-a", "H200", 1, 0)
    part = Device(1, "MIG-b", "MIG-b", "H200", 1, 1, 1)
    with pytest.raises(DevicesNotOffered, match="GPU 0 is in no CDI specification"):
        specifications.device_names([first], virtual=False)
    (tmp_path / "a.yaml").write_text(
        "kind: nvidia.com/gpu\ndevices: [{name: 0}, {name: '1'}, {name: MIG-b}]\n"
    )
    assert specifications.device_names([first, part], virtual=False) == [
        "nvidia.com/gpu=0",
        "nvidia.com/gpu=MIG-b",
    ]
    (tmp_path / "b.json").write_text('{"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-a"}]}')
    assert specifications.device_names([first], virtual=False) == ["nvidia.com/gpu=GPU-a"]
    assert specifications.device_names(virtual_gpus(2), virtual=True) == []


def test_damaged_specifications_name_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"kind": "nvidia.com/gpu", "devices": 7}')
    (tmp_path / "b.yaml").write_text("{{{")
    (tmp_path / "c.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "d.yaml").symlink_to("/dev/zero")
    (tmp_path / "e.yaml").mkdir()
    (tmp_path / "f.json").write_text(
        '{"kind": "nvidia.com/gpu", "devices": [7, {"name": ""}, {"name": [1]}]}'
    )
    (tmp_path / "g.json").write_text('{"kind": "other.com/gpu", "devices": [{"name": "0"}]}')
    (tmp_path / "h.yaml").write_text(f"kind: nvidia.com/gpu\ndevices: [{{name: {'x' * 500}}}]\n")
    (tmp_path / "i.yaml").write_text(f"kind: nvidia.com/gpu\ndevices: [{{name: 0x{'f' * 5000}}}]\n")
    assert DeviceSpecifications([str(tmp_path)]).names() == frozenset()
