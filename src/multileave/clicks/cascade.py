"""Cascade users, and the presets of the paper's experiments [guo2009], [oosterhuis2017].

A user examines the shown documents from the top. An examined document of grade g is clicked with probability click[g];
after a click the user stops with probability stop[g], and otherwise goes on to the next document. Both public
simulators let users stop after any examined document, clicked or not: ``anywhere=True`` follows them, the default
follows the paper. `multileave.theory.Cascade` is the same user in exact arithmetic.

Every user model is a value with `grades`, `parameters` and `kernel`, which the study's loop calls as

    kernel(labels u1[m], visible, parameters f8[p], rng u8[4], clicks u1[m]) -> number of clicks

with the grades of the m drawn documents, of which the user sees the first `visible`.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from multileave.errors import DataError, nearest
from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats
from multileave.random import uniform


@kernel
def cascade_clicks(labels, visible, parameters, rng, clicks):  # type: ignore[no-untyped-def]
    """Click as a cascade user does; parameters: whether to stop anywhere, then click and stop by grade."""
    grades = (len(parameters) - 1) // 2
    clicks[:] = 0
    count = 0
    for x in range(min(visible, len(labels))):
        grade = labels[x]
        if uniform(rng) < parameters[1 + grade]:
            clicks[x] = 1
            count += 1
        elif parameters[0] == 0.0:
            continue
        if uniform(rng) < parameters[1 + grades + grade]:
            break
    return count


@dataclass(frozen=True)
class Cascade:
    """A user who examines documents from the top.

    click: the probability of a click on an examined document, by grade from 0.
    stop: the probability of stopping after a click, by grade from 0.
    anywhere: the user may stop after any examined document, clicked or not.

    >>> Cascade(click=(0.05, 0.95), stop=(0.2, 0.9)).grades
    2
    """

    click: tuple[float, ...]
    stop: tuple[float, ...]
    anywhere: bool = False

    kernel: ClassVar[Kernel] = cascade_clicks

    def __post_init__(self) -> None:
        for name in ("click", "stop"):
            object.__setattr__(self, name, _probabilities(name, getattr(self, name)))
        if len(self.click) != len(self.stop):
            raise DataError(
                f"click has {len(self.click)} probabilities and stop has {len(self.stop)}; expected one of each "
                "for every grade. Make them the same length."
            )
        if not isinstance(self.anywhere, bool):
            raise DataError(f"anywhere is {self.anywhere!r}; expected True or False.")

    @property
    def grades(self) -> int:
        """How many grades of relevance this user distinguishes."""
        return len(self.click)

    @functools.cached_property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""
        return np.array([float(self.anywhere), *self.click, *self.stop])


def _probabilities(name: str, values: object) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise DataError(f"{name} is {values!r}; expected a probability for every grade, such as (0.05, 0.5, 0.95).")
    for grade, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
            raise DataError(f"{name}[{grade}] is {value!r}; a probability lies between 0 and 1.")
    if not 1 <= len(values) <= 256:
        raise DataError(f"{name} has {len(values)} probabilities; expected one for every grade, from 1 to 256 grades.")
    return tuple(float(value) for value in values)


# (click, stop) by the number of grades: five as in the paper's table, three as in its experiments on
# MQ2007, MQ2008 and OHSUMED; two are the first and the last of three.
_PRESETS: dict[str, dict[int, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "perfect": {
        3: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        5: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    },
    "navigational": {
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
}
USERS = (*_PRESETS, "almost_random", "random")
"""The names that `user` knows."""


def user(name: str, grades: int = 5, *, anywhere: bool = False) -> Cascade:
    """Return a preset user for data with that many grades of relevance.

    "perfect", "navigational" and "informational" are the paper's, for 2, 3 or 5 grades, with increasing noise; for
    other numbers of grades the values for 5 are interpolated. "almost_random" clicks with .4 to .6, rising with the
    grade, and stops with .5 after a click [hofmann2013]; "random" clicks with .5 whatever the grade and never stops,
    so no ranker is better than another.

    >>> user("navigational", 2)
    Cascade(click=(0.05, 0.95), stop=(0.2, 0.9), anywhere=False)
    """
    if name not in USERS:
        raise DataError(f"There is no user {name!r}; expected one of {', '.join(USERS)}.{nearest(name, USERS)}")
    if isinstance(grades, bool) or not isinstance(grades, int) or not 2 <= grades <= 256:
        raise DataError(f"grades is {grades!r}; expected the number of grades of relevance, from 2 to 256.")
    if name == "random":
        return Cascade((0.5,) * grades, (0.0,) * grades, anywhere)
    if name == "almost_random":
        last = grades - 1
        rising = tuple((0.4 * (last - grade) + 0.6 * grade) / last for grade in range(grades))
        return Cascade(rising, (0.5,) * grades, anywhere)
    presets = _PRESETS[name]
    if grades == 2:
        click, stop = presets[3]
        return Cascade((click[0], click[-1]), (stop[0], stop[-1]), anywhere)
    if grades not in presets:
        at = [4 * grade / (grades - 1) for grade in range(grades)]
        click, stop = (tuple(np.interp(at, range(5), values).tolist()) for values in presets[5])
        return Cascade(click, stop, anywhere)
    return Cascade(*presets[grades], anywhere)
