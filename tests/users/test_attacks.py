"""A member attacks other people, the server and the node process, from a shell and from inside a job."""

import json
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .attacks.program import ATTACKS, write_program
from .shared_pool import ROOT, SharedPool, until

People = list[pwd.struct_passwd]
ATTACKER, VICTIM = 0, 1


@pytest.fixture(scope="module")
def facts(pool: SharedPool, unix_users: People, gpu_files: list[Path], places: Path) -> dict[str, Any]:
    """Return all that an attacker could find out, while the victim's job runs."""
    victim = unix_users[VICTIM]
    status, answer = pool.ask(
        ROOT, "PUT", "/api/v1/projects/default/secrets/key", {"value": "of the project"}
    )
    assert status in (200, 201, 204), answer
    pool.submit(victim, "victim", "sh", "-c", "touch $WEIR_CHECKPOINT_DIR/state; sleep 3600")
    pool.wait("victim", "running")
    running, row = pool.running("victim"), pool.row("victim")
    until((pool.home / "checkpoints" / str(row["uid"]) / "state").exists)
    program = places / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    return {
        "home": str(pool.home),
        "socket": str(pool.socket),
        "own_directory": f"{pool.home}/jobs/{row['uid']}/1-0-0",
        "checkpoints": f"{pool.home}/checkpoints/{row['uid']}",
        "records": f"{pool.home}/pods/{row['uid']}/1-0-0",
        "leader": running["leader"],
        "supervisor": running["supervisor"],
        "server": pool.server_pid,
        "server_gid": pool.server_user.pw_gid,
        "node": pool.process.pid,
        "gpu": str(gpu_files[row["pod_rows"][0]["devices"][0]]),
        "set_uid_id": str(program),
    }


@pytest.fixture(scope="module")
def outcomes(pool: SharedPool, unix_users: People, facts: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the outcome of each attack, tried in a job that waits for its facts."""
    attacker = unix_users[ATTACKER]
    script = Path(attacker.pw_dir, "attacks.pyz")
    write_program(script)
    given = Path(attacker.pw_dir, "facts.json")
    waits = f'while [ ! -e {given} ]; do sleep 0.05; done; exec {pool.python} -I {script} "$(cat {given})"'
    pool.submit(attacker, "attacker", "sh", "-c", waits)
    pool.wait("attacker", "running")
    own = pool.running("attacker")
    records = f"{pool.home}/pods/{pool.row('attacker')['uid']}/1-0-0"
    more = {"own_supervisor": own["supervisor"], "own_records": records, "groups": own["cgroups"]}
    written = given.with_suffix(".new")
    written.write_text(json.dumps({**facts, **more, "only": list(ATTACKS)}))
    written.rename(given)
    pool.wait("attacker", "succeeded")
    text = next(line for line in pool.log("attacker").splitlines() if line.startswith("OUTCOMES "))
    yield json.loads(text.removeprefix("OUTCOMES "))
    assert pool.row("victim")["status"] == "running"
    assert pool.row("victim")["pod_rows"][0]["start"] == 1, "it was never stopped"


@pytest.mark.parametrize("name", ATTACKS)
def test_the_kernel_refuses(outcomes: dict[str, str], name: str) -> None:
    refusals = ("refused: [Errno 1]", "refused: [Errno 13]")  # EPERM and EACCES, and not for another reason
    assert outcomes[name].startswith(refusals), outcomes[name]


def test_only_its_own_checkpoints_are_deleted_through_links(
    pool: SharedPool,
    unix_users: People,
    facts: dict[str, Any],
) -> None:
    """The node process deletes as the owner, so a link of the owner leads nowhere."""
    from weir.local.node.accounts import AccountRules
    from weir.local.node.directories import UserDirectories, remove

    attacker = unix_users[ATTACKER]
    victims, roots = Path(facts["checkpoints"]), Path(pool.home).parent / "precious"
    roots.mkdir()
    (roots / "file").touch()
    pool.submit(
        attacker,
        "linker",
        "sh",
        "-c",
        f"cd $WEIR_CHECKPOINT_DIR; ln -s {victims} v; ln -s {roots} r; mkdir d; touch d/f",
    )
    pool.wait("linker", "succeeded")
    uid = pool.row("linker")["uid"]
    parents = [os.open(pool.home / name, os.O_RDONLY) for name in ("jobs", "checkpoints")]
    done = os.fork()
    if done == 0:
        rules = AccountRules(1000, pool.server_user.pw_uid)
        for checkpoints in (True, False):
            remove(UserDirectories(*parents, pool.server_user.pw_gid), uid, rules, checkpoints=checkpoints)
        os._exit(0)
    assert os.waitpid(done, 0)[1] == 0
    for each in parents:
        os.close(each)
    assert not (pool.home / "checkpoints" / str(uid)).exists()
    assert not (pool.home / "jobs" / str(uid)).exists()
    assert (victims / "state").exists()
    assert (roots / "file").exists()


def test_what_a_submission_brings_runs_with_the_rights_of_its_user_alone(
    pool: SharedPool,
    unix_users: People,
) -> None:
    """Neither the node process nor a supervisor loads anything that a submission names."""
    attacker = unix_users[ATTACKER]
    trap = Path(attacker.pw_dir, "trap")
    trap.mkdir(mode=0o755)
    note = "import os; open(os.path.expanduser('~/loaded'), 'a').write(f'{os.getuid()}\\n')\n"
    for name in ("json.py", "os.py", "weir.py", "sitecustomize.py", "encodings.py"):
        (trap / name).write_text(note)
    environment = {
        "PYTHONPATH": str(trap),
        "PYTHONSTARTUP": str(trap / "os.py"),
        "LD_PRELOAD": f"{trap}/none.so",
    }
    pool.submit(attacker, "trap", "sh", "-c", "id -u", directory=str(trap), env=environment)
    pool.wait("trap", "succeeded")
    assert str(attacker.pw_uid) in pool.log("trap")
    loaded = Path(attacker.pw_dir, "loaded")
    assert not loaded.exists() or set(loaded.read_text().split()) == {str(attacker.pw_uid)}


def test_processes_that_hide_from_their_job_end_with_it(pool: SharedPool, unix_users: People) -> None:
    seconds = 9_000_000 + os.getpid()  # another run of the tests has processes of its own
    hides = f"import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.environ.clear()\ntime.sleep({seconds})"
    command = f'for i in 1 2 3; do env -i {pool.python} -S -c "{hides}" & done; wait; sleep 0.5; echo hidden'
    pool.submit(unix_users[ATTACKER], "hider", "sh", "-c", command)
    pool.wait("hider", "succeeded")
    left = subprocess.run(
        ["pgrep", "-f", f"time.sleep\\({seconds}\\)"], capture_output=True, text=True, check=False
    )
    assert left.stdout == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "root"},
        {"account": "root"},
        {"uid": 0},
        {"pods": [{"gpus": 1, "devices": [0]}]},
        {"command": []},
        {"project": "another"},
    ],
    ids=str,
)
def test_the_server_refuses_to_act_for_another(
    pool: SharedPool,
    unix_users: People,
    fields: dict[str, Any],
) -> None:
    body = {"project": "default", "command": ["id"], "pods": [{"gpus": 0}], **fields}
    status, answer = pool.ask(unix_users[ATTACKER], "POST", "/api/v1/workloads", body)
    assert status in (400, 403, 404, 422), answer


@pytest.mark.parametrize("header", ["X-Remote-User", "X-Forwarded-User", "X-Weir-Uid", "Peer-Uid"])
def test_a_forged_header_names_no_one(pool: SharedPool, unix_users: People, header: str) -> None:
    stranger = unix_users[3]
    headers = {header: "root" if "User" in header else "0"}
    status, answer = pool.ask(stranger, "GET", "/api/v1/tokens", headers=headers)
    assert status == 403, answer


def test_root_runs_no_jobs(pool: SharedPool) -> None:
    body = {"project": "default", "command": ["id"], "pods": [{"gpus": 0}]}
    status, answer = pool.ask(ROOT, "POST", "/api/v1/workloads", body)
    assert (status, "No job runs as root" in str(answer)) == (403, True)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "hard link"])
def test_a_job_that_replaces_its_files_harms_itself_alone(
    pool: SharedPool,
    unix_users: People,
    kind: str,
) -> None:
    """The server reads logs and messages as a group that users are not in, and follows no link."""
    secret = Path(pool.home).parent / f"secret-{kind.replace(' ', '-')}"
    secret.write_text('{"kind":"report","at_s":1,"values":{"stolen":1}}\n')
    secret.chmod(0o640)
    os.chown(secret, 0, pool.server_user.pw_gid)  # the server could read it
    make = {"link": f"ln -s {secret}", "fifo": "mkfifo", "directory": "mkdir", "hard link": f"ln {secret}"}[
        kind
    ]
    name = f"replaces-{kind.replace(' ', '-')}"
    script = f"cd $WEIR_POD_DIRECTORY; for f in log notes.jsonl; do rm -f $f; {make} $f; done; echo later; sleep 0.2"
    pool.submit(unix_users[ATTACKER], name, "sh", "-c", script)
    pool.wait(name, "succeeded", "failed")
    text = pool.ask(unix_users[ATTACKER], "GET", f"/api/v1/workloads/{name}/logs")[1]
    assert "stolen" not in str(text)
    assert "stolen" not in str(pool.row(name)["reported"])
    assert pool.ask(ROOT, "GET", "/readyz")[0] == 200


def test_forged_announcements_of_messages_change_nothing(
    pool: SharedPool,
    unix_users: People,
    facts: dict[str, Any],
) -> None:
    flood = (
        "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.setblocking(False)\n"
        f"for i in range(20000):\n  try: s.sendto(b'1/1-0-0' if i % 2 else b'../../x', '{pool.home}/notes.sock')\n"
        "  except OSError: pass\n"
    )
    user = unix_users[ATTACKER]
    subprocess.run(
        [pool.python, "-S", "-c", flood], user=user.pw_uid, group=user.pw_gid, extra_groups=[], check=True
    )
    until(lambda: pool.ask(ROOT, "GET", "/readyz")[0] == 200)
    assert pool.row("victim")["reported"] == {}


def test_refusals_are_in_the_audit_log(pool: SharedPool, unix_users: People) -> None:
    pool.ask(unix_users[ATTACKER], "DELETE", "/api/v1/projects/default")
    lines = [json.loads(line) for line in (pool.home / "audit.jsonl").read_text().splitlines()]
    assert any(unix_users[ATTACKER].pw_name in str(line) and "403" in str(line) for line in lines[-5:]), (
        lines[-3:]
    )
    assert stat.S_IMODE((pool.home / "audit.jsonl").stat().st_mode) == 0o600
