"""`python -I PATH CONFIG`: the node process, with the standard library and this package alone."""

import gc
import json
import os
import sys

_SOURCE_AT = -4
"""Index of this file's name below the directory that contains the package."""


def _run() -> None:
    sys.path.append(os.sep.join(os.path.abspath(__file__).split(os.sep)[:_SOURCE_AT]))
    config = json.loads(sys.argv[1])
    gc.disable()
    if "sockets" in config:
        from weir.local.node.personal import serve_own as serve
    else:
        from weir.local.node.shared import serve_shared as serve
    gc.freeze()  # keeps loaded objects shared with forks
    sys.exit(serve(config))


if __name__ == "__main__":
    _run()
