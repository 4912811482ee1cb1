"""Cascade users, and the presets of the paper's experiments [guo2009], [oosterhuis2017].

A user examines the shown documents from the top. An examined document of grade g is clicked with probability click[g];
after a click the user stops with probability stop[g], and otherwise goes on to the next document. Both public
simulators let users stop after any examined document, clicked or not: ``anywhere=True`` follows them, the default
follows the paper.

Models fitted to logs also let users leave by rank: after rank x the user goes on with probability go_on_after_click[x]
or go_on_after_skip[x], besides the above. This is the dependent click model [guo2009] if stop is 0, and the dynamic
Bayesian network [chapelle2009] if stop is the probability of being satisfied.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from multileave.clicks.model import ClickModel
from multileave.errors import DataError, nearest
from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats
from multileave.random import uniform


@kernel
def cascade_clicks(labels, visible, parameters, rng, clicks):  # type: ignore[no-untyped-def]
    """Click as a cascade user does.

    parameters: whether to stop without a click, the numbers of grades and of ranks, click by grade, then for each rank
        the probabilities of stopping by grade, after a click and after none.
    """
    grades, ranks = np.int64(parameters[1]), np.int64(parameters[2])
    row = 3 + grades
    clicks[:] = 0
    count = 0
    for x in range(min(visible, len(labels))):
        if 0 < x < ranks:
            row += 2 * grades
        grade = np.int64(labels[x])
        stop = row + grade
        if uniform(rng) < parameters[3 + grade]:
            clicks[x] = 1
            count += 1
        elif parameters[0] == 0.0:
            continue
        else:
            stop += grades
        if uniform(rng) < parameters[stop]:
            break
    return count


@dataclass(frozen=True)
class Cascade(ClickModel):
    """A user who examines documents from the top.

    click: the probability of a click on an examined document, by grade from 0.
    stop: the probability of stopping after a click, by grade from 0.
    anywhere: the user may stop after any examined document, clicked or not.
    go_on_after_click, go_on_after_skip: the probability of not leaving after a click and after a document that was not
        clicked, by rank from 1; the last holds for all further ranks.

    >>> Cascade(click=(0.05, 0.95), stop=(0.2, 0.9)).grades
    2
    """

    click: tuple[float, ...]
    stop: tuple[float, ...]
    anywhere: bool = False
    go_on_after_click: tuple[float, ...] = (1.0,)
    go_on_after_skip: tuple[float, ...] = (1.0,)

    kernel: ClassVar[Kernel] = cascade_clicks

    def __post_init__(self) -> None:
        self._read("click", "stop", "go_on_after_click", "go_on_after_skip")
        if len(self.click) != len(self.stop):
            raise DataError(
                f"click has {len(self.click)} probabilities and stop has {len(self.stop)}; expected one of each "
                "for every grade. Make them the same length."
            )
        if not isinstance(self.anywhere, bool):
            raise DataError(f"anywhere is {self.anywhere!r}; expected True or False.")

    @functools.cached_property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""
        return self._by_rank(max(len(self.go_on_after_click), len(self.go_on_after_skip)))

    def _by_rank(self, ranks: int) -> Floats:
        stop = np.array(self.stop)
        skips = self.anywhere or min(self.go_on_after_skip) < 1.0
        found: list[Any] = [[float(skips), self.grades, ranks], self.click]
        for x in range(ranks):
            clicked, skipped = (
                by_rank[min(x, len(by_rank) - 1)] for by_rank in (self.go_on_after_click, self.go_on_after_skip)
            )
            # Written so that with go_on = 1 the values are those of stop to the last bit.
            found.append(stop + (1.0 - stop) * (1.0 - clicked))
            found.append(stop * self.anywhere + (1.0 - stop * self.anywhere) * (1.0 - skipped))
        return np.concatenate(found)


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

    >>> user("navigational", 2) == Cascade(click=(0.05, 0.95), stop=(0.2, 0.9))
    True
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
