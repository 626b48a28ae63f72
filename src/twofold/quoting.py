"""How an error quotes what came: short, however long it was."""


def shortened(value: object, most: int = 60) -> str:
    """A value as Python writes it; of a longer one the beginning, then three dots."""
    if isinstance(value, str):
        return repr(value if len(value) <= most else f"{value[: most - 3]}...")
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
