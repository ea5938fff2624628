"""Builds wheel and sdist, installs each into an empty environment and tries what it promises: `make package`.

The plain package needs its five dependencies and runs the client's commands. The server's extra runs a pool.
Packages come at the versions and with the hashes of constraints.txt.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
STANDARD_LIBRARY_ALONE = """
import sys, weir
weir.checkpointed(step=1)
weir.report(step=1, loss=0.5)
assert not weir.stopping()
tops = {name.partition(".")[0] for name in sys.modules if not name.startswith("_")}
foreign = tops - set(sys.stdlib_module_names) - {"weir"}
assert not foreign, foreign
"""
START_S_MAX = 120.0


def run(*words: object, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Run a program and return its output; end with that output if its exit code is another one."""
    shown = [str(word) for word in words]
    done = subprocess.run(shown, cwd=ROOT, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    answer = done.stdout + done.stderr
    if done.returncode != code:
        raise SystemExit(f"package: {' '.join(shown)} ended with {done.returncode}, not {code}:\n{answer}")
    return answer


def requirements(extra: str, folder: Path) -> Path:
    """Return a file with the pinned requirements of the package and an extra."""
    file = folder / f"requirements-{extra or 'plain'}.txt"
    words = ["--extra", extra] if extra else []
    compiler = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml", *words)
    run(
        *compiler,
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
        "--constraints",
        "constraints.txt",
        "-o",
        file,
    )
    return file


def environment(package: Path, folder: Path) -> Path:
    """Install a wheel or an sdist into an empty environment without its dependencies; return its Python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin/python"
    if package.suffix == ".gz":
        wheels = folder / "wheels"
        build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, package)
        run(sys.executable, *PIP, *build)
        package = next(wheels.glob("weir-*.whl"))
    run(python, *PIP, "install", "--no-deps", package)
    return python


def try_plain(python: Path, home: Path, pinned: Path) -> None:
    """Try the calls inside a job without a dependency, then the client's commands."""
    weir = python.parent / "weir"
    env = {**os.environ, "WEIR_HOME": str(home), "WEIR_URL": ""}
    run(python, "-c", STANDARD_LIBRARY_ALONE, env=env)
    run(python, *PIP, "install", "--require-hashes", "-r", pinned)
    run(python, *PIP, "check")
    assert "Usage: weir" in run(weir, "--help", env=env)
    assert "--priority" in run(weir, "submit", "--help", env=env)
    assert "No pool runs in" in run(weir, "list", code=3, env=env)
    assert "pip install 'weir[server]'" in run(weir, "up", code=1, env=env)


def try_server(python: Path, home: Path, pinned: Path) -> None:
    """Start a pool of two virtual GPUs, and run one workload in it."""
    weir = python.parent / "weir"
    env = {**os.environ, "WEIR_HOME": str(home), "WEIR_URL": ""}
    run(python, *PIP, "install", "--require-hashes", "-r", pinned)
    words = [str(weir), "up", "--virtual-gpus", "2", "--port", "0"]
    with (home.parent / "up.log").open("w") as log, subprocess.Popen(words, env=env, stderr=log) as server:  # noqa: S603
        try:
            until = time.monotonic() + START_S_MAX
            while not (home / "server.json").exists():
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit(
                        f"package: the server doesn't start:\n{(home.parent / 'up.log').read_text()}"
                    )
                time.sleep(0.1)
            submit = (
                "submit",
                "-p",
                "default",
                "--gpus",
                "1",
                "--name",
                "hello",
                "--follow",
                "--",
                "echo",
                "hello there",
            )
            assert "hello there" in run(weir, *submit, env=env)
            assert "succeeded" in run(weir, "list", "--all", env=env)
            try_dashboard(run(weir, "dashboard", env=env).split()[0])
        finally:
            server.terminate()


def try_dashboard(link: str) -> None:
    """Load the page of a link, and all that it needs."""
    address = link.partition("#")[0]
    page = urlopen(address).read().decode()  # noqa: S310 - it is a server of this machine
    for name in re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page):
        assert urlopen(address + name).read(), name  # noqa: S310
    assert "assets/" in page, page


def main() -> None:
    """Build both, and try each; the server once, from the wheel."""
    with tempfile.TemporaryDirectory(prefix="weir-package-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "hatchling", "build", "-d", folder)
        plain = requirements("", folder)
        for package in (next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))):
            python = environment(package, folder / package.suffix[1:])
            try_plain(python, folder / "nowhere", plain)
            print(f"{package.name}: installs and runs")
        try_server(folder / "whl/bin/python", folder / "home", requirements("server", folder))
        print("weir[server]: a pool starts and runs a workload")


if __name__ == "__main__":
    main()
