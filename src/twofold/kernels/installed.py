"""Whether a library is installed, without the time that importing it takes."""

from importlib.util import find_spec


def is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a stand-in module without a spec is in sys.modules
        return False
