"""The program that an attacker runs: it tries the attacks that its facts name, and prints the outcome of each."""

import json
import os
import sys
import zipapp
from pathlib import Path

from . import from_own_job, on_others
from .registry import ATTACKS

__all__ = ["ATTACKS", "from_own_job", "main", "on_others", "write_program"]


def write_program(target: Path) -> None:
    """Write all of it into one file, which any Python runs in isolated mode too."""
    package = Path(__file__).parent
    zipapp.create_archive(
        package.parent,
        target,
        main=f"{package.name}.program:main",
        filter=lambda path: path.parts[0] == package.name and path.suffix != ".pyc",
    )


def main() -> None:
    """Try the attacks of `only`, each in a process of its own, and print the outcomes; facts and outcomes are JSON."""
    facts = json.loads(sys.argv[1])
    outcomes = {}
    for name in facts["only"]:
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                text = f"SUCCEEDED: {ATTACKS[name](facts)!r}"
            except OSError as failure:
                text = f"refused: {failure}"
            except Exception as failure:  # noqa: BLE001 - an attack that breaks is no refusal
                text = f"BROKEN: {failure!r}"
            os.write(writing, text[:500].encode())
            os._exit(0)
        os.close(writing)
        os.wait()
        outcomes[name] = os.read(reading, 1000).decode()
        os.close(reading)
    print("OUTCOMES " + json.dumps(outcomes), flush=True)
