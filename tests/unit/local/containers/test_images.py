"""Fetches of images with a program in Podman's place: the image's id, and the reason of a failure."""

import sys
from pathlib import Path

import pytest

from weir.local.containers import images
from weir.local.containers.images import ImageNotAvailable

IMAGE = "registry.example/train:1"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WEIR_POD_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("WEIR_NOTES", raising=False)
    return str(tmp_path)


def _podman(tmp_path: Path, script: str) -> list[str]:
    """Return a command that runs this script for a pull, and has no image."""
    program = tmp_path / "podman.py"
    program.write_text(f"import os, sys\nif 'exists' in sys.argv: sys.exit(1)\n{script}\n")
    return [sys.executable, "-I", str(program)]


def _refusal(store: str, script: str) -> str:
    with pytest.raises(ImageNotAvailable) as refusal:
        images.ensure(_podman(Path(store), script), IMAGE, "missing", store)
    return str(refusal.value)


def test_the_last_line_of_podman_is_the_reason_and_its_output_goes_on(
    store: str, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = "Trying to pull...\nError: creating a directory: permission denied\n"
    refusal = _refusal(store, f"sys.stderr.write({lines!r}); sys.exit(125)")
    assert refusal == f"the image {IMAGE} can't be fetched: creating a directory: permission denied"
    assert capfd.readouterr().err.endswith(lines)


def test_a_long_reason_keeps_its_end_and_no_query_of_a_url(store: str) -> None:
    words = "Error: " + "reading a blob: " * 900 + 'Get "https://cdn.example/b?Signature=abc&Key=d": refused'
    refusal = _refusal(store, f"print({words!r}, file=sys.stderr); sys.exit(1)")
    assert refusal.endswith('Get "https://cdn.example/b?...": refused')
    assert len(refusal) < 400


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            'invalid proxy address "http://ann:pass@word@proxy:3128": refused',
            'invalid proxy address "http://...@proxy:3128": refused',
        ),
        (
            'invalid proxy address "http://ann:pa/ss/@word@proxy:3128": refused',
            'invalid proxy address "http://...@proxy:3128": refused',
        ),
        (
            'parse "http://ann:pa/ss@proxy:3128": invalid port ":pa" after host',
            'parse "http://...@proxy:3128": invalid port "..." after host',
        ),
        (
            "docker://registry.example/team/train@sha256:0a1b: manifest unknown",
            "docker://registry.example/team/train@sha256:0a1b: manifest unknown",
        ),
        (
            "docker://ann:pa/ss@registry.example/train@sha256:0a1b: manifest unknown",
            "docker://...@registry.example/train@sha256:0a1b: manifest unknown",
        ),
    ],
)
def test_a_reason_has_no_password_of_a_url(words: str, shown: str, store: str) -> None:
    refusal = _refusal(store, f"print({'Error: ' + words!r}, file=sys.stderr); sys.exit(1)")
    assert refusal.endswith(f": {shown}")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("print('Error: storage is damaged', file=sys.stderr); sys.exit(125)", "storage is damaged"),
        ("sys.exit(126)", "podman exited with 126"),
    ],
)
def test_a_search_that_fails_is_no_missing_image(script: str, why: str, store: str) -> None:
    program = Path(store, "podman.py")
    program.write_text(f"import sys\n{script}\n")
    with pytest.raises(ImageNotAvailable) as refusal:
        images.ensure([sys.executable, "-I", str(program)], IMAGE, "never", store)
    assert str(refusal.value) == f"the images of this machine can't be searched for {IMAGE}: {why}"


def test_an_image_that_may_not_be_fetched_is_named_as_missing(store: str) -> None:
    with pytest.raises(ImageNotAvailable, match="isn't on this machine, and --pull never forbids fetching"):
        images.ensure(_podman(Path(store), ""), IMAGE, "never", store)


def test_a_very_long_line_has_no_rest_of_a_query(store: str) -> None:
    words = f'Get "https://cdn.example/b?Signature={"secret" * 2000}": connection refused'
    refusal = _refusal(store, f"print({words!r}, file=sys.stderr); sys.exit(1)")
    assert refusal.endswith("can't be fetched: connection refused")


def test_a_fetch_that_ends_without_a_word_has_its_exit_code(store: str) -> None:
    assert _refusal(store, "sys.exit(3)").endswith("can't be fetched: podman exited with 3")
    assert "exited with 0" in _refusal(store, "")


def test_the_last_id_names_an_archive_however_much_podman_writes(
    store: str, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = Path(store, "image.tar")
    archive.touch()
    script = "print('0a' * 32000, 'b1' * 32, sep='\\n', flush=True); sys.stderr.write('progress\\n' * 30000)"
    made = images.ensure(_podman(Path(store), script), f"docker-archive:{archive}", "missing", store)
    assert made == "b1" * 32
    assert capfd.readouterr().err.count("progress\n") == 30000
