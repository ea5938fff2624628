"""Texts of others, without characters that control a terminal."""


def printable(text: str, most: int) -> str:
    """Return a text without control characters, shortened to `most`."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)[:most]
