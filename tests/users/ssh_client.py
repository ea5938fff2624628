"""OpenSSH of a user of a shared pool, with the configuration that Weir writes but for the program."""

import pwd
import subprocess

from .shared_pool import SharedPool

PROGRAM = (
    "import sys; from pathlib import Path; from weir.client import address; "
    "address.MACHINE = Path(sys.argv.pop(1)); from weir.cli.main import main; sys.exit(main())"
)


def begin_ssh(pool: SharedPool, user: pwd.struct_passwd, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Begin ssh to a workload."""
    return begin(pool, user, "ssh", f"weir-{name}", *words)


def begin(pool: SharedPool, user: pwd.struct_passwd, program: str, *words: str) -> subprocess.Popen[bytes]:
    """Begin a program of OpenSSH."""
    proxy = f"{pool.python} -I -c '{PROGRAM}' {pool.socket.parent} session pipe %n"
    config = user.pw_dir + "/.config/weir/ssh_config"
    return subprocess.Popen(
        [program, "-F", config, "-o", f"ProxyCommand={proxy}", *words],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd=user.pw_dir,
        env={"HOME": user.pw_dir, "PATH": "/usr/bin:/bin", "USER": user.pw_name},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def make_config(pool: SharedPool, user: pwd.struct_passwd) -> None:
    """Write the configuration of a user."""
    done = pool.weir(user, "ssh", "--print-config")
    assert done.returncode == 0, done.stderr
    subprocess.run(
        ["sh", "-c", "mkdir -p ~/.config/weir && cat > ~/.config/weir/ssh_config"],
        input=done.stdout,
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        env={"HOME": user.pw_dir, "PATH": "/usr/bin:/bin"},
        text=True,
        check=True,
    )
