"""HTML and SVG as text in which nothing is markup that was not meant to be.

Every element is made by `tag`, which escapes whatever is not `Markup` already, so that no utterance, label or file name
can become an element of its own.
"""

from html import escape

# Elements that have no end.
VOID = frozenset({"meta"})


class Markup(str):
    """Text that is markup and was meant to be."""

    __slots__ = ()


def tag(name: str, /, *inside: str, **attributes: object) -> Markup:
    """An element. `class_` is class and stroke_width is stroke-width; an attribute that is None is left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{joined(*inside)}</{name}>")


def joined(*pieces: str) -> Markup:
    """Pieces one after the other, escaped unless they are markup."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in pieces))


def shortened(text: str, most: int) -> str:
    """With an ellipsis where it is longer."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _text(value: object) -> str:
    # A tenth of a pixel is enough, and half the file.
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)
