"""Scope: the experiments that a key is limited to.

A limited key may use what concerns one of its experiments, and nothing that concerns others or the whole service:
it creates no experiments or keys, deletes no units, and sees no audit log and no metrics.
"""

from multileave.live.errors import Forbidden, Invalid
from multileave.live.records import Key


def scope_of(key: Key | None) -> tuple[int, ...] | None:
    """Return the experiments that a key may be used for, None for all; no key is an open service."""
    return None if key is None else key.experiments


def check_scope(key: Key | None, number: str | None) -> None:
    """Refuse a limited key. number: the experiment's, as in the address; None is the whole service.

    The answer is the same whether the experiment exists or not.
    """
    if key is None or key.experiments is None or (number is not None and number in map(str, key.experiments)):
        return
    wanted = "this concerns the whole service" if number is None else "this is another one"
    raise Forbidden(
        f"The key is limited to {_listed(key.experiments)}; {wanted}. Use a key without a limit, or one for it."
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return f"experiment{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


def read_numbers(text: str) -> tuple[int, ...] | None:
    """Return the experiments that somebody typed, None for an empty text.

    >>> read_numbers("3, 5"), read_numbers(" ")
    ((3, 5), None)
    """
    parts = text.replace(",", " ").split()
    only_commas = bool(text.strip()) and not parts  # to take this for no limit would open every experiment
    if only_commas or not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        raise Invalid(f"experiments is {text[:40]!r}; expected the numbers of experiments, such as 3,5.")
    return tuple(map(int, parts)) or None
