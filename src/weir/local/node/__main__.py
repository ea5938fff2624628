"""`python -I PATH CONFIG`: the node process, with the standard library and this package alone."""

import json
import os
import sys

_SOURCE_AT = -4
"""Index of this file's name below the directory that contains the package."""


def _run() -> None:
    sys.path.append(os.sep.join(os.path.abspath(__file__).split(os.sep)[:_SOURCE_AT]))
    from weir.local.node.process import main

    sys.exit(main(json.loads(sys.argv[1])))


if __name__ == "__main__":
    _run()
