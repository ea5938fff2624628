"""sshd in a container over the standard streams of an exec, without a listening port.

The script runs in the container with the image's own programs. It makes a host key, once, and the
configuration of sshd in a directory of the container's user. So ssh has the container's variables.
"""

from weir.cli.sessions.ssh_files import BASE_SETTINGS

NO_SSHD, NO_KEYGEN, NO_NAME, OTHER_USER, LOCKED, NO_DIRECTORY = range(81, 87)
_SETTINGS = "\n".join(f"{key} {value}" for key, value in BASE_SETTINGS)
_SCRIPT = r"""
mask=$(umask); umask 077
PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/bin
sshd=$(command -v sshd) || exit 81
command -v ssh-keygen >/dev/null || exit 82
id=$(id -u); user=$(id -un 2>/dev/null) || exit 83
[ "$user" != "$id" ] || exit 83
[ -z "$3" ] || [ "$3" = "$user" ] || exit 84
[ "$id" != 0 ] || ! grep -qs "^$user:!" /etc/shadow || exit 85
own=
for above in "${TMPDIR:-/tmp}" /dev/shm "$HOME"; do
  own=$above/.weir-ssh-$id; mkdir "$own" 2>/dev/null
  [ -d "$own" ] && [ ! -L "$own" ] && [ -O "$own" ] && [ -w "$own" ] && break; own=
done
[ -n "$own" ] || exit 86
if [ ! -f "$own/host_key" ]; then
  ssh-keygen -q -t ed25519 -N '' -f "$own/$$" </dev/null >/dev/null || exit 86
  ln "$own/$$" "$own/host_key" 2>/dev/null; rm -f "$own/$$" "$own/$$.pub"
fi
grep -qsxF "$2" "$own/keys" || printf '%s\n' "$2" >>"$own/keys"
mark=$(printf '\001')
{ printf '%s\n' "HostKey \"$own/host_key\"" "AuthorizedKeysFile \"$own/keys\"" "$4"; printf SetEnv
  tr '\n\0' '\001\n' </proc/$$/environ | sed -e "/$mark/d" -e '/^[A-Za-z_][A-Za-z0-9_]*=/!d' \
    -e '/^TERM=/d' -e '/^SHLVL=/d' -e '/^_=/d' -e '/^PWD=/d' -e '/^OLDPWD=/d' \
    -e 's/[\\"]/\\&/g' -e 's/.*/ "&"/' | tr -d '\n'; echo; } >"$own/$$.config"
mv "$own/$$.config" "$own/config"
[ "$1" = serve ] || { echo "$user"; exit 0; }
[ "$id" != 0 ] || [ -d /run/sshd ] || mkdir -p -m 755 /run/sshd 2>/dev/null
umask "$mask"; cd /; exec "$sshd" -i -e -f "$own/config"
"""


def check_command(key: str) -> list[str]:
    """Return the command that makes the files of a session, lets a key in, and prints the user's name."""
    return _command("check", key, "")


def serve_command(key: str, user: str) -> list[str]:
    """Return the command that executes sshd. `user`: the account for ssh, empty if unknown."""
    return _command("serve", key, user)


def _command(act: str, key: str, user: str) -> list[str]:
    return ["sh", "-c", _SCRIPT, "weir", act, key, user, _SETTINGS]


def refusal_of(code: int, user: str, name: str) -> str | None:
    """Return why the script ended with an exit code; None if it didn't refuse."""
    install = "RUN apt-get update && apt-get install -y openssh-server"
    elsewhere = "`apk add openssh-server` or `dnf install -y openssh-server` elsewhere"
    sentences = {
        NO_SSHD: f"the image of {name} has no sshd: add `{install}` to its Dockerfile, {elsewhere}; "
        f"`weir shell {name}` needs none",
        NO_KEYGEN: f"the image of {name} has no ssh-keygen: add `{install.replace('server', 'client')}` "
        "to its Dockerfile",
        NO_NAME: f"the user of {name}'s container has no name in /etc/passwd, which sshd needs: add `RUN "
        f"useradd --uid UID NAME` to its Dockerfile, or use `weir shell {name}`",
        OTHER_USER: f"the container of {name} doesn't run as {user}: `weir ssh {name}` finds the user, once",
        LOCKED: f"root is locked in the image of {name}, and sshd lets no locked account in: add `RUN "
        "usermod -p '*' root` to its Dockerfile",
        NO_DIRECTORY: f"the container of {name} has no directory for keys: it needs a writable /tmp, such as "
        "an emptyDir",
        127: f"the image of {name} lacks a program of the script that starts sshd, such as sed or tr",
    }
    return sentences.get(code)


def not_started(code: int) -> str:
    """Return why sshd doesn't start if the script doesn't say it."""
    return f"sshd can't be started in the container: the script that prepares it ended with exit code {code}"
