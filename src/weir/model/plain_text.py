"""Texts of others, without characters that control a terminal."""


def printable(text: str, most: int) -> str:
    """Return a text without control characters, shortened to `most`."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)[
        :most
    ]
