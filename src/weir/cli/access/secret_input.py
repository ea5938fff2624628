"""Secrets that people write: from a file, the terminal without echo, or the input."""

import sys
from pathlib import Path


def read_secret(noun: str, file: Path | None) -> str:
    """Return a secret that is typed or piped, because others could see one on the command line.

    Raises:
        ValueError: the secret is empty, or can't be read.
    """
    try:
        if file is not None:
            value = file.read_text("utf-8")
        elif sys.stdin.isatty():
            from getpass import getpass

            value = getpass(f"{noun[0].upper()}{noun[1:]}: ")
        else:
            value = sys.stdin.read()
    except OSError as error:
        raise ValueError(f"--file: {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the {noun} isn't text; write it as base64, and decode it in the job") from None
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ValueError(f"the {noun} is empty; write it to the input, or name a file with --file")
    return value
