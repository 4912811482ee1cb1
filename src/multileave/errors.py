"""Everything multileave raises on purpose; every message says what is wrong, what was expected and what to do."""

from collections.abc import Iterable

__all__ = [
    "ClicksError",
    "ContractError",
    "DataError",
    "ImpressionError",
    "MethodError",
    "MissingExtra",
    "MultileaveError",
    "MultileaveWarning",
    "RankingsError",
    "SeedError",
    "TallyError",
]


class MultileaveError(Exception):
    """Base of all errors raised by multileave."""


class RankingsError(MultileaveError, ValueError):
    """Rankings, k or pinned slots that cannot be combined."""


class MethodError(MultileaveError, ValueError):
    """An unknown method or parameter, or a method that cannot do what is asked."""


class ImpressionError(MultileaveError, ValueError):
    """A dictionary that is not an impression, or one that a newer version wrote."""


class ClicksError(MultileaveError, ValueError):
    """Clicks on documents or positions that were not shown."""


class SeedError(MultileaveError, ValueError):
    """A seed that is neither an integer, a string nor a Generator."""


class TallyError(MultileaveError, ValueError):
    """Outcomes that do not belong together, or too few of them for a verdict."""


class DataError(MultileaveError, ValueError):
    """Invalid learning-to-rank data or study settings."""


class ContractError(MultileaveError, AssertionError):
    """A method that breaks the contract of all methods."""


class MissingExtra(MultileaveError, ImportError):
    """An optional dependency that is not installed; the message names the pip command."""


class MultileaveWarning(UserWarning):
    """Something works, but not as well as it should: slower, or with less certainty."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint such as ``" Did you mean 'ppm'?"``, or nothing if no known name is close.

    >>> nearest("pppm", ["ppm", "tdm"])
    " Did you mean 'ppm'?"
    >>> nearest("zzz", ["ppm", "tdm"])
    ''
    """
    import difflib  # only when something is misspelled

    found = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {found[0]!r}?" if found else ""
