"""Names of the users of this machine."""

import os
import pwd

from weir.user_names import own_user, user_name


def test_a_user_has_a_name_or_else_a_number() -> None:
    assert user_name(0) == "root"
    assert user_name(2**31 - 7) == str(2**31 - 7)
    assert own_user() == pwd.getpwuid(os.getuid()).pw_name
