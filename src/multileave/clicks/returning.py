"""Cascade users who may go back up.

The user reads down from the top as a cascade user does. One who goes on after a click at rank x turns around with
probability back[x - 1]: then the documents above are read again, from rank x - 1 to the top, otherwise those below.
Each click is followed by such a choice. Documents that were clicked before are passed over; others may be clicked
whenever they are read, each time anew. The visit ends when the user stops, or leaves the page at either end.
"""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from multileave.clicks.cascade import Cascade
from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats
from multileave.random import uniform


@kernel
def returning_order(labels, visible, parameters, rng, order):  # type: ignore[no-untyped-def]
    """Click as a user does who may go back; write 1, 2, ... in the order of clicks, and return how many there are.

    parameters: those of `cascade_clicks`, then back by rank.
    """
    grades, ranks = np.int64(parameters[1]), np.int64(parameters[2])
    back = 3 + grades + 2 * grades * ranks
    end = min(visible, len(labels))
    order[:] = 0
    count = 0
    x = 0
    step = 1
    while 0 <= x < end:
        if order[x] == 0:
            grade = np.int64(labels[x])
            rank = x if x < ranks else ranks - 1
            stop = 3 + grades + 2 * grades * rank + grade
            if uniform(rng) < parameters[3 + grade]:
                count += 1
                order[x] = count
                if uniform(rng) < parameters[stop]:
                    break
                step = 1
                if x > 0 and parameters[back + rank] > 0.0 and uniform(rng) < parameters[back + rank]:
                    step = -1
            elif parameters[0] != 0.0 and uniform(rng) < parameters[stop + grades]:
                break
        x += step
    return count


@kernel
def returning_clicks(labels, visible, parameters, rng, clicks):  # type: ignore[no-untyped-def]
    """Click as a user does who may go back; parameters: see `returning_order`."""
    count = returning_order(labels, visible, parameters, rng, clicks)
    for x in range(len(clicks)):
        clicks[x] = min(clicks[x], 1)
    return count


@dataclass(frozen=True)
class Returning(Cascade):
    """A cascade user who may go back up after a click.

    back: the probability of reading upwards after a click, by the rank of the click from 1, of users who go on; the
        last holds for all further ranks. There is nothing above rank 1.

    >>> Returning(click=(0.05, 0.95), stop=(0.2, 0.5), back=(0.3,)).grades
    2
    """

    back: tuple[float, ...] = (0.0,)

    kernel: ClassVar[Kernel] = returning_clicks
    order_kernel: ClassVar[Kernel] = returning_order

    def __post_init__(self) -> None:
        super().__post_init__()
        self._read("back")

    @functools.cached_property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""
        by_rank = (self.go_on_after_click, self.go_on_after_skip, self.back)
        ranks = max(map(len, by_rank))
        return np.concatenate([self._by_rank(ranks), [self.back[min(x, len(self.back) - 1)] for x in range(ranks)]])
