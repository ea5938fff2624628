"""Parameters with several words between commas."""


def comma_words(text: str | None) -> tuple[str, ...]:
    """Return the words between commas, each once; none for an empty text."""
    return tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))


def user_words(text: str | None) -> tuple[str, ...]:
    """Return the users between commas, and the whole text: the name of a user may have commas.

    Unix names have none. Those of certificates and identity providers may, and such a name selects also the
    users that its parts name.
    """
    words = comma_words(text)
    return words if text is None or len(words) < 2 else (text, *words)
