"""Parameters with several words between commas."""


def comma_words(text: str | None) -> tuple[str, ...]:
    """Return the words between commas, each once; none for an empty text."""
    return tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))
