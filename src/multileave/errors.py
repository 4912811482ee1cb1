"""Everything multileave raises on purpose.

    MultileaveError
    ├── RankingsError    (ValueError)   rankings, k or pinned slots that cannot be combined
    ├── MethodError      (ValueError)   an unknown method or parameter, or one that cannot do what is asked
    ├── ImpressionError  (ValueError)   a dictionary that is not an impression this version can read
    ├── ClicksError      (ValueError)   clicks on what was not shown
    ├── SeedError        (ValueError)   a seed that is neither an integer, a string nor a Generator
    ├── TallyError       (ValueError)   outcomes that do not belong together, or too few for a verdict
    ├── DataError        (ValueError)   learning-to-rank data or settings of a study that make no sense
    ├── ContractError    (AssertionError)  a method that breaks the contract of all methods
    └── MissingExtra     (ImportError)  an optional part that is not installed

Every message says what was found, what was expected and what to do.
"""

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
    "nearest",
]


class MultileaveError(Exception):
    """Base of all errors raised by multileave."""


class RankingsError(MultileaveError, ValueError):
    """Rankings, k or pinned slots that cannot be combined."""


class MethodError(MultileaveError, ValueError):
    """An unknown method or parameter, or a method that cannot do what is asked of it."""


class ImpressionError(MultileaveError, ValueError):
    """A dictionary that is not an impression, or one that a newer version wrote."""


class ClicksError(MultileaveError, ValueError):
    """Clicks on documents or positions that were not shown."""


class SeedError(MultileaveError, ValueError):
    """A seed that is neither an integer, a string nor a Generator."""


class TallyError(MultileaveError, ValueError):
    """Outcomes that do not belong together, or too few of them for a verdict."""


class DataError(MultileaveError, ValueError):
    """Learning-to-rank data, or settings of a study, that make no sense."""


class ContractError(MultileaveError, AssertionError):
    """A method that breaks the contract which every method must pass."""


class MissingExtra(MultileaveError, ImportError):
    """An optional part that is not installed; the message holds the install line."""


class MultileaveWarning(UserWarning):
    """Something works, but not as well as it should."""


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a hint such as ``" Did you mean 'ppm'?"``, or nothing if no known name is near.

    >>> nearest("pppm", ["ppm", "tdm"])
    " Did you mean 'ppm'?"
    >>> nearest("zzz", ["ppm", "tdm"])
    ''
    """
    import difflib  # here, as most programs make no mistake

    found = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" Did you mean {found[0]!r}?" if found else ""
