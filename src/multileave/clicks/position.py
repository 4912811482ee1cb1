"""Position-based users [richardson2007]: whether a rank is examined depends on the rank alone.

A document at rank x is examined with probability examine[x - 1], independently of all others, and an examined document
of grade g is clicked with probability click[g].
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multileave.clicks.model import ClickModel
from multileave.errors import DataError
from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats
from multileave.random import uniform


@kernel
def position_clicks(labels, visible, parameters, rng, clicks):  # type: ignore[no-untyped-def]
    """Click at each rank on its own; parameters: the number of grades, click by grade, examine by rank."""
    grades = np.int64(parameters[0])
    looked_at = len(parameters) - 1 - grades
    clicks[:] = 0
    count = 0
    for x in range(min(visible, len(labels), looked_at)):
        if uniform(rng) < parameters[1 + grades + x] * parameters[1 + labels[x]]:
            clicks[x] = 1
            count += 1
    return count


@dataclass(frozen=True)
class PositionBased(ClickModel):
    """A user who examines each rank with its own probability.

    click: the probability of a click on an examined document, by grade from 0.
    examine: the probability of examining a rank, from rank 1; ranks past the end are never seen.

    >>> PositionBased(click=(0.1, 0.9), examine=(1.0, 0.5)).grades
    2
    """

    click: tuple[float, ...]
    examine: tuple[float, ...]

    kernel: ClassVar[Kernel] = position_clicks

    def __post_init__(self) -> None:
        self._read("click", "examine")

    @classmethod
    def falling(cls, click: Sequence[float], k: int = 10, power: float = 1.0) -> "PositionBased":
        """Return a user who examines rank x with probability 1 / x^power."""
        if k < 1 or power < 0:
            raise DataError(f"k is {k} and power {power}; expected a rank from 1 and a power from 0.")
        return cls(tuple(click), tuple(float(x**-power) for x in range(1, k + 1)))

    @functools.cached_property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""
        return np.array([float(self.grades), *self.click, *self.examine])
