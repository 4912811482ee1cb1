"""A method's parameters: how they are spelled in a string, and how `__post_init__` checks them."""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import MethodError, nearest

if TYPE_CHECKING:
    from multileave.methods.base import Method


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


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters that a string such as ``"pm(tau=3.0)"`` spells."""
    try:
        tree = ast.parse(spec.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
            return tree.func.id, {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords if word.arg}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise MethodError(
        f"{spec!r} does not name a method; expected a name, with parameters if any, such as \"ppm(pairs='all')\"."
    )


def spell(name: str, values: dict[str, Any]) -> str:
    """Return the string that `parse_spec` reads."""
    inside = ", ".join(f"{key}={value!r}" for key, value in values.items())
    return f"{name}({inside})" if inside else name
