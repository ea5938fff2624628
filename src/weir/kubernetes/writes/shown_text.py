"""Texts that people read, with parts that others wrote."""


def shown(text: str) -> str:
    """Return a text with unprintable characters escaped.

    They could control a terminal, or turn the rest of the text around.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
