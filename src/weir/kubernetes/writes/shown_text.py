"""Texts that people read, with parts that others wrote."""


def shown(text: str) -> str:
    """Return a text with unprintable characters escaped.

    They could control a terminal, or turn the rest of the text around.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
