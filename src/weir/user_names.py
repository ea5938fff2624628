"""Names of the users of this machine. Needs the standard library only, and is imported by small programs."""

import os
import pwd


def user_name(uid: int) -> str:
    """Return the name of a user, or the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def own_user() -> str:
    """Return the name of the user of this process."""
    return user_name(os.getuid())
