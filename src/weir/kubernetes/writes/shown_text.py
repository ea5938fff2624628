"""Texts for people, with parts that untrusted users wrote."""


def shown(text: str) -> str:
    """Return a text with unprintable characters escaped.

    They could control a terminal, or reverse the direction of the rest of the text.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
