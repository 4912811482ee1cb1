"""Checks of a method's parameters, for `__post_init__`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from multileave.errors import MethodError, nearest

if TYPE_CHECKING:
    from multileave.methods.base import Method

__all__ = ["check_choice", "check_integer", "check_number"]


def check_choice(method: "Method", parameter: str, choices: Sequence[object]) -> None:
    """Raise an error if a parameter is not one of the choices."""
    value = getattr(method, parameter)
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        listed = ", ".join(map(repr, choices))
        raise MethodError(
            f"{method.name}: {parameter} is {value!r}; expected one of {listed}."
            f"{nearest(value, [c for c in choices if isinstance(c, str)])}"
        )


def check_number(method: "Method", parameter: str, least: float, most: float) -> None:
    """Raise an error if a parameter is not a number in a range; store it as a float."""
    value = getattr(method, parameter)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not least <= value <= most:
        raise MethodError(f"{method.name}: {parameter} is {value!r}; expected a number from {least:g} to {most:g}.")
    object.__setattr__(method, parameter, float(value))


def check_integer(method: "Method", parameter: str, least: int, most: int, what: str = "") -> None:
    """Raise an error if a parameter is not an integer in a range; store it as an int."""
    value = getattr(method, parameter)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise MethodError(f"{method.name}: {parameter} is {value!r}; expected an integer from {least} to {most}{what}.")
    object.__setattr__(method, parameter, int(value))
