"""The user models that can be fitted: their parameters, by rank or not, and how they are updated."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multileave.clicks.fitting.behaviour import (
    bayesian_page,
    browsing_page,
    dependent_page,
    position_page,
    returning_page,
)
from multileave.clicks.fitting.prediction import (
    bayesian_rates,
    browsing_rates,
    dependent_rates,
    position_rates,
    returning_rates,
    returning_set,
)
from multileave.kernels import Kernel
from multileave.outcome import Floats

SHRINKAGE = 2.0  # pseudo-observations of each parameter, so that one never observed has a value


@dataclass(frozen=True)
class UserModel:
    """A user model.

    size: the number of parameters for pages of k ranks, flat. named: flat values as they are written, by name.
    fixed: the indices that are not fitted. halves: 2 if documents also differ in how likely they satisfy; its last
    parameter is then the mean. conditional: fitted as described in `conditional`. ordered: needs the order of clicks.
    page, rates: see `behaviour` and `prediction`. of_set: log P of the clicked set, if `page` returns that of its
        order.
    """

    name: str
    title: str
    page: Kernel
    rates: Kernel
    size: Callable[[int], int]
    named: Callable[[Any, int], dict[str, Any]]
    fixed: tuple[int, ...] = ()
    halves: int = 1
    conditional: bool = False
    ordered: bool = False
    of_set: Kernel | None = None

    def free(self, k: int) -> Any:
        """Return the indices of the parameters that are fitted."""
        return np.setdiff1d(np.arange(self.size(k)), self.fixed)

    def start(self, k: int) -> Floats:
        """Return the parameters to start from."""
        theta = np.full(self.size(k), 0.6)
        theta[list(self.fixed)] = 1.0
        return theta

    def updated(self, num: Floats, den: Floats, k: int) -> Floats:
        """Return parameters from expected counts; one that was rarely observed shrinks to the others' mean."""
        rest = self.free(k)
        centre = num[rest].sum() / den[rest].sum() if den[rest].sum() > 0 else 0.5
        return np.asarray((num + SHRINKAGE * centre) / (den + SHRINKAGE))


def _triangle(values: Any, k: int) -> list[Any]:
    return [list(values[x * (x + 1) // 2 : (x + 1) * (x + 2) // 2]) for x in range(k)]


POSITION = UserModel(
    "position", "position-based", position_page, position_rates,
    lambda k: k, lambda v, k: {"examine": list(v)}, fixed=(0,), conditional=True,
)  # fmt: skip
BAYESIAN = UserModel(
    "bayesian", "dynamic Bayesian network", bayesian_page, bayesian_rates,
    lambda k: 2, lambda v, k: {"satisfied": v[1], "go_on_after_click": v[0], "go_on_after_skip": v[0]}, halves=2,
)  # fmt: skip
RETURNING = UserModel(
    "returning", "cascade that goes back up", returning_page, returning_rates,
    lambda k: 3, lambda v, k: {"go_on_after_skip": v[0], "go_on_after_click": v[1], "back": v[2]},
    ordered=True, of_set=returning_set,
)  # fmt: skip
DEPENDENT = UserModel(
    "dependent", "dependent click", dependent_page, dependent_rates,
    lambda k: k, lambda v, k: {"go_on_after_click": list(v[: k - 1]), "go_on": v[k - 1]},
)  # fmt: skip
BROWSING = UserModel(
    "browsing", "user browsing", browsing_page, browsing_rates,
    lambda k: k * (k + 1) // 2, lambda v, k: {"examine": _triangle(v, k)}, fixed=(0,), conditional=True,
)  # fmt: skip

MODELS = {model.name: model for model in (POSITION, BAYESIAN, RETURNING, DEPENDENT, BROWSING)}
"""The models by name, from the fewest parameters to the most for pages of ten."""
