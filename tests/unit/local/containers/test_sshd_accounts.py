"""Accounts that the sshd of a container's image sees."""

from collections.abc import Callable

import pytest

from weir.local.containers import sshd

ROOT = "root:x:0:0:root:/root:/bin/bash"
OWN_OF_SSHD = "sshd:*:0:0::/run/sshd:/bin/false"


def having(*programs: str) -> Callable[[str], bool]:
    return lambda path: path in programs


def test_the_submitter_and_sshd_are_root_and_others_stay() -> None:
    passwd = f"{ROOT}\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\nmia:x:1000:1000::/home/mia:/bin/sh\nday:x:7:7::/:/bin/sh\n"
    made = sshd.accounts(passwd, "mia", having("/bin/bash", "/bin/sh"))
    assert made.splitlines() == [ROOT, "day:x:7:7::/:/bin/sh", "mia:*:0:0::/root:/bin/bash", OWN_OF_SSHD]


def test_root_of_the_machine_logs_in_as_root_whose_password_is_locked() -> None:
    made = sshd.accounts("root:!:0:0:root:/root:/bin/sh\n", "root", having("/bin/sh"))
    assert made.splitlines() == ["root:*:0:0::/root:/bin/sh", OWN_OF_SSHD]


@pytest.mark.parametrize(
    ("shell", "programs", "found"),
    [
        ("/sbin/nologin", ("/sbin/nologin", "/bin/bash", "/bin/sh"), "/bin/bash"),
        ("/bin/zsh", ("/bin/sh",), "/bin/sh"),
        ("/bin/ash", ("/bin/ash", "/bin/sh"), "/bin/ash"),
        ("", ("/bin/sh",), "/bin/sh"),
    ],
)
def test_a_login_gets_a_shell_that_the_image_has(shell: str, programs: tuple[str, ...], found: str) -> None:
    made = sshd.accounts(f"root:x:0:0::/root:{shell}\n", "mia", having(*programs))
    assert f"mia:*:0:0::/root:{found}\n" in made


def test_an_image_without_accounts_gets_those_that_sshd_needs() -> None:
    made = sshd.accounts("", "mia", having("/bin/sh"))
    assert made.splitlines() == ["mia:*:0:0::/root:/bin/sh", OWN_OF_SSHD]


def test_the_group_of_terminals_is_left_out() -> None:
    assert sshd.groups("root:x:0:\ntty:x:5:\nttys:x:6:\n") == "root:x:0:\nttys:x:6:\n"
