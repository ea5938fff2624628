"""`weir node`: the node process of a pool for several users, which starts the pool's server."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

from weir.cli.options.mistakes import WrongOption
from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Repeated

_UID_MAX = 4_294_967_294


def node(
    *options: str,
    user: str = "weir",
    home: Path = Path("/var/lib/weir"),
    socket: Path = Path("/run/weir/weir.sock"),
    allow_group: str = "",
    uid_min: Annotated[int, whole_number(1, _UID_MAX)] = 1000,
    new_privileges: bool = False,
    gpu_file: Repeated = (),
) -> int:
    """Serve this machine's GPUs as a pool for several users, whose jobs run as themselves. It needs root.

    It starts `weir up` as a user of its own and carries out its orders. Jobs run on when it ends.

    Parameters
    ----------
    options
        Options of `weir up`, after --.
    user
        User that runs the server.
    home
        Directory of the pool's state. Root owns it.
    socket
        Socket of the machine, to which everyone may connect.
    allow_group
        Unix group whose users may run jobs; by default every user.
    uid_min
        Least user id of people; accounts of the system are below it.
    new_privileges
        Let jobs gain privileges, as sudo and ping do.
    gpu_file
        Device file of a GPU that isn't NVIDIA's. Repeat it for more GPUs, in their order.
    """
    if options and not options[0].startswith("-"):
        raise WrongOption(f"{options[0]!r} is no option of `weir up`; `weir nodes` lists the nodes of a pool")
    from weir.local.node import __main__ as process

    config = {
        "user": user,
        "home": str(home.absolute()),
        "socket": str(socket.absolute()),
        "group": allow_group,
        "uid_min": uid_min,
        "no_new_privileges": not new_privileges,
        "gpu_files": list(gpu_file),
        "command": [sys.executable, "-I", "-m", "weir", "up", *options],
    }
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-I", process.__file__, json.dumps(config)])  # noqa: S606
