"""What all user models share: the contract of their kernels, and how their probabilities are read.

Every user model is a value with `grades`, `parameters` and `kernel`, which the study's loop calls as

    kernel(labels u1[m], visible, parameters f8[p], rng u8[4], clicks u1[m]) -> number of clicks

with the grades of the m drawn documents, of which the user sees the first `visible`. A model whose users click in
another order than down the page also has an `order_kernel`, which writes 1, 2, ... into `clicks` instead of 1.
`multileave.theory` has the same users in exact arithmetic.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import ClassVar

import numpy as np

from multileave.errors import DataError
from multileave.kernels import Kernel
from multileave.outcome import Floats

MOST = 256  # probabilities in a list: a grade is a byte, and no page is longer


class ClickModel(ABC):
    """A user whose clicks depend on the grades of what is examined.

    click: the probability of a click on an examined document, by grade from 0.
    """

    click: tuple[float, ...]
    kernel: ClassVar[Kernel]

    @property
    @abstractmethod
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""

    @property
    def grades(self) -> int:
        """How many grades of relevance this user distinguishes."""
        return len(self.click)

    def _read(self, *names: str) -> None:
        """Check fields that hold a probability by grade or by rank, and make them tuples of floats."""
        for name in names:
            object.__setattr__(self, name, probabilities(name, getattr(self, name)))


def probabilities(name: str, values: object) -> tuple[float, ...]:
    """Return probabilities as floats; name: what an error calls them."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise DataError(f"{name} is {values!r}; expected a list of probabilities, such as (0.05, 0.5, 0.95).")
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
            raise DataError(f"{name}[{place}] is {value!r}; a probability lies between 0 and 1.")
    if not 1 <= len(values) <= MOST:
        raise DataError(f"{name} has {len(values)} probabilities; expected 1 to {MOST}.")
    return tuple(float(value) for value in values)
