"""Job scripts of Slurm in a pool for several users: each runs as its submitter, from an own directory."""

import os
import pwd
import stat
from pathlib import Path

from .shared_pool import SharedPool, until

People = list[pwd.struct_passwd]
SCRIPT = """#!/bin/bash
#SBATCH --job-name=mine --ntasks=1 --gpus=1 --output=%u-%j.out
id -un; echo "$SLURM_JOB_USER $SLURM_GPUS_ON_NODE"
srun sh -c 'echo task $SLURM_PROCID of $(id -un)'
"""


def test_a_script_runs_as_its_submitter(pool: SharedPool, unix_users: People) -> None:
    for user in unix_users[:2]:
        home = Path(user.pw_dir)
        script = home / "job.sh"
        script.write_text(SCRIPT)
        os.chown(script, user.pw_uid, user.pw_gid)
        done = pool.weir(user, "sbatch", "--project=default", "--wait", "job.sh")
        assert done.returncode == 0, done.stderr
        number = done.stdout.split()[-1]
        output = home / f"{user.pw_name}-{number}.out"
        lines = output.read_text().splitlines()
        assert lines[:3] == [user.pw_name, f"{user.pw_name} 1", f"task 0 of {user.pw_name}"]
        assert (output.stat().st_uid, stat.S_IMODE(output.stat().st_mode)) == (user.pw_uid, 0o644)


def test_a_member_cant_submit_to_anothers_project(pool: SharedPool, unix_users: People) -> None:
    user = unix_users[0]
    done = pool.weir(user, "sbatch", "--project=default", "--uid=0", "--wrap", "id -u")
    assert done.returncode == 2
    assert "runs as its submitter" in done.stderr
    done = pool.weir(
        user, "sbatch", "--best-effort", "--uid=0", "--project=default", "-o", "who.out", "--wrap", "id -u"
    )
    assert done.returncode == 0, done.stderr
    until((Path(user.pw_dir) / "who.out").exists)
    until(lambda: (Path(user.pw_dir) / "who.out").read_text() == f"{user.pw_uid}\n")
