"""Whether a library is there, without importing it, which takes a while."""

from importlib.util import find_spec


def is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # somebody has put something else in its place
        return False
