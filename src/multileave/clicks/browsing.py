"""Users of the user browsing model [dupret2008], whose attention depends on the last click.

The user reads from the top. The document at rank x is examined with a probability that depends on x and on the rank of
the last click above, and an examined document of grade g is clicked with probability click[g].
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multileave.clicks.model import ClickModel, probabilities
from multileave.errors import DataError
from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats
from multileave.random import uniform


@kernel
def browsing_clicks(labels, visible, parameters, rng, clicks):  # type: ignore[no-untyped-def]
    """Click by the last click; parameters: the numbers of grades and of ranks, click by grade, the rows of examine."""
    grades, ranks = np.int64(parameters[0]), np.int64(parameters[1])
    clicks[:] = 0
    count = 0
    row = 2 + grades
    last = 0
    for x in range(min(visible, len(labels), ranks)):
        if uniform(rng) < parameters[row + last] * parameters[2 + np.int64(labels[x])]:
            clicks[x] = 1
            count += 1
            last = x + 1
        row += x + 1
    return count


@dataclass(frozen=True)
class Browsing(ClickModel):
    """A user whose attention depends on the rank of the last click.

    click: the probability of a click on an examined document, by grade from 0.
    examine: by rank from 1, the probabilities of examining it by the rank of the last click above, 0 for none: one
        number for rank 1, two for rank 2, and so on. Ranks past the end are never seen.

    >>> Browsing(click=(0.1, 0.9), examine=((1.0,), (0.5, 0.9))).grades
    2
    """

    click: tuple[float, ...]
    examine: tuple[tuple[float, ...], ...]

    kernel: ClassVar[Kernel] = browsing_clicks

    def __post_init__(self) -> None:
        self._read("click")
        given: object = self.examine
        if not isinstance(given, list | tuple) or not given:
            raise DataError(f"examine is {given!r}; expected a list of probabilities for every rank.")
        rows = tuple(probabilities(f"examine[{x}]", row) for x, row in enumerate(given))
        for x, row in enumerate(rows):
            if len(row) != x + 1:
                raise DataError(
                    f"examine[{x}] has {len(row)} probabilities; expected {x + 1}, one for each rank from 0 (no click) "
                    f"to {x} that the last click can have."
                )
        object.__setattr__(self, "examine", rows)

    @functools.cached_property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""
        return np.concatenate([[self.grades, len(self.examine)], self.click, *self.examine])
