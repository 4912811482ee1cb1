"""Users fitted to a log, read from the file that `multileave fit-users` writes.

A fit has two halves. How users examine a page is kept as fitted. How attractive a document is, its probability of a
click when examined, was fitted for every query and document of the log, but an experiment has other documents. It has
their grades, and there are two ways to give every grade its attractiveness.

"quantiles" matches distributions. If a share p_0 of the documents that the experiment shows has grade 0, a share p_1
grade 1 and so on, grade 0 gets the mean attractiveness of the least attractive p_0 of the log's documents, grade 1 that
of the next p_1:

    click[g] = (integral of Q(u) from P_{g-1} to P_g) / p_g,      P_g = p_0 + ... + p_g,

with Q the quantiles of attractiveness over the documents shown in the log. So an examined document is clicked as often
as in the log, on average. This assumes that a document of a higher grade is always the more attractive one, so clicks
say more about grades than real ones do.

"measured" takes the mean attractiveness of each grade, if the log had grades. "auto" is measured if there is one for
every grade of the data, else quantiles.
"""

import functools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multileave.clicks.browsing import Browsing
from multileave.clicks.cascade import USERS, Cascade, user
from multileave.clicks.model import ClickModel, probabilities
from multileave.clicks.position import PositionBased
from multileave.clicks.returning import Returning
from multileave.errors import DataError, nearest

VERSION = 1
ATTRACTIVENESS = ("auto", "quantiles", "measured")
Chances = tuple[float, ...]


def _position(click: Chances, found: "_Table", shares: Chances) -> ClickModel:
    return PositionBased(click, found.numbers("examine"))


def _dependent(click: Chances, found: "_Table", shares: Chances) -> ClickModel:
    return Cascade(click, (0.0,) * len(click), False, found.numbers("go_on_after_click"), found.numbers("go_on"))


def _bayesian(click: Chances, found: "_Table", shares: Chances) -> ClickModel:
    satisfied = (found.number("satisfied"),) * len(click)
    clicked = [share * chance for share, chance in zip(shares, click, strict=True)]
    if len(found.values.get("satisfied_by_grade", ())) == len(click):
        satisfied = found.numbers("satisfied_by_grade")
    elif "satisfied_quantiles" in found.values and sum(clicked) > 0.0:
        # The quantiles are over clicked documents.
        satisfied = match_quantiles(found.numbers("satisfied_quantiles"), [c / sum(clicked) for c in clicked])
    return Cascade(click, satisfied, False, found.numbers("go_on_after_click"), found.numbers("go_on_after_skip"))


def _browsing(click: Chances, found: "_Table", shares: Chances) -> ClickModel:
    return Browsing(click, found.field("examine"))


def _returning(click: Chances, found: "_Table", shares: Chances) -> ClickModel:
    after = found.numbers("go_on_after_click"), found.numbers("go_on_after_skip")
    return Returning(click, (0.0,) * len(click), False, *after, back=found.numbers("back"))


MODELS: Mapping[str, Callable[[Chances, "_Table", Chances], ClickModel]] = {
    "position": _position,
    "dependent": _dependent,
    "bayesian": _bayesian,
    "browsing": _browsing,
    "returning": _returning,
}
"""The models that a file may hold."""


@dataclass(frozen=True)
class FittedUsers:
    """The models that were fitted to one log.

    name: that of the file. best: the model that fits best. tables: the file's table of every model.
    attractiveness: its table of the same name.

    >>> file = {"version": 1, "best": "position", "attractiveness": {"quantiles": [0.0, 0.5, 1.0]}}
    >>> fitted = FittedUsers.from_dict({**file, "models": {"position": {"examine": [1.0, 0.5]}}}, "ours")
    >>> fitted.user(grades=2, shares=(0.5, 0.5))
    PositionBased(click=(0.25, 0.75), examine=(1.0, 0.5))
    """

    name: str
    best: str
    tables: Mapping[str, "_Table"]
    attractiveness: "_Table"

    @classmethod
    def read(cls, path: str | Path) -> "FittedUsers":
        """Return the users of a file."""
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
        except OSError as error:
            raise DataError(
                f"The users {path} cannot be read: {error.strerror}. Write them with multileave fit-users."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"The users {path} are not valid TOML: {error}.") from error
        return cls.from_dict(values, Path(path).stem)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str) -> "FittedUsers":
        """Return the users of what a file holds; every model in it is checked."""
        file = _Table(f"The users {name}", data)
        version = file.field("version")
        if version != VERSION or isinstance(version, bool):
            raise DataError(
                f"The users {name} have format version {version!r}; this multileave reads version {VERSION}. Fit them "
                "again with multileave fit-users."
            )
        tables = {model: file.part("models").part(model) for model in file.part("models").values}
        for model in tables:
            if model not in MODELS:
                raise DataError(
                    f"The users {name} have a model {model!r}; expected {', '.join(MODELS)}.{nearest(model, MODELS)}"
                )
        found = cls(name, file.field("best"), tables, file.part("attractiveness"))
        found.user(grades=2)
        for model in found.models:
            found.user(model, grades=2)
        return found

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the log could identify."""
        return tuple(model for model, table in self.tables.items() if "unidentified" not in table.values)

    def user(
        self,
        model: str | None = None,
        *,
        grades: int,
        shares: Sequence[float] | None = None,
        attractiveness: str = "auto",
    ) -> ClickModel:
        """Return a user for data with that many grades; model: the best by default.

        shares: the share of the documents shown that has each grade; equal by default.
        attractiveness: "quantiles", "measured" or "auto", see above.
        """
        model = self.best if model is None else model
        if model not in self.tables:
            raise DataError(
                f"The users {self.name} have no model {model!r}; expected one of {', '.join(self.tables)}."
                f"{nearest(str(model), self.tables)}"
            )
        table = self.tables[model]
        if "unidentified" in table.values:
            raise DataError(
                f"The users {self.name} have no parameters of the model {model!r}: {table.values['unidentified']} "
                f"Use {' or '.join(self.models) or 'another log'}."
            )
        if grades < 1 or (shares is not None and len(shares) != grades):
            raise DataError(f"Shares are {shares!r}; expected one for each of the {grades} grades of the data.")
        matched = (1.0 / grades,) * grades if shares is None else probabilities("shares", shares)
        return MODELS[model](self._click(table, matched, attractiveness), table, matched)

    def _click(self, table: "_Table", shares: Chances, attractiveness: str) -> Chances:
        """Return the attractiveness of every grade."""
        if attractiveness not in ATTRACTIVENESS:
            raise DataError(
                f"Attractiveness is {attractiveness!r}; expected {', '.join(ATTRACTIVENESS)}."
                f"{nearest(attractiveness, ATTRACTIVENESS)}"
            )
        measured = self.attractiveness.values.get("by_grade", ())
        if attractiveness == "measured" and len(measured) != len(shares):
            held = f"for {len(measured)} grades" if measured else "of no grade"
            raise DataError(
                f"The users {self.name} hold the attractiveness {held}, and the data have {len(shares)} grades. Use "
                "--attractiveness quantiles, or fit a log with grades."
            )
        if attractiveness != "quantiles" and len(measured) == len(shares):
            return self.attractiveness.numbers("by_grade")
        own = table.numbers("attractiveness") if "attractiveness" in table.values else None
        return match_quantiles(own or self.attractiveness.numbers("quantiles"), shares)


@dataclass(frozen=True)
class _Table:
    """A table of a TOML file, read key by key; where: what an error calls it."""

    where: str
    values: Mapping[str, Any]

    def field(self, name: str) -> Any:
        if name not in self.values:
            raise DataError(f"{self.where} have no {name!r}. Write them with multileave fit-users.")
        return self.values[name]

    def part(self, name: str) -> "_Table":
        value = self.field(name)
        if not isinstance(value, Mapping):
            raise DataError(f"{self.where} have {name} = {value!r}; expected a table.")
        return _Table(f"{self.where} [{name}]", value)

    def numbers(self, name: str) -> Chances:
        """Return one or more probabilities; a number stands for a list of one."""
        value = self.field(name)
        return probabilities(f"{self.where}: {name}", value if isinstance(value, list | tuple) else [value])

    def number(self, name: str) -> float:
        return self.numbers(name)[0]


def match_quantiles(quantiles: Sequence[float], shares: Sequence[float]) -> Chances:
    """Return the mean of each part of a distribution, cut into parts of these shares from below.

    quantiles: at equal steps from 0 to 1, with straight lines between them. A part without a share gets the quantile
    at which it would start.

    >>> match_quantiles([0.0, 0.5, 1.0], [0.5, 0.25, 0.25])
    (0.25, 0.625, 0.875)
    """
    values = np.sort(np.asarray(quantiles, dtype=np.float64))
    at = np.linspace(0.0, 1.0, len(values)) if len(values) > 1 else np.array([0.0, 1.0])
    values = values if len(values) > 1 else np.repeat(values, 2)
    total = float(np.sum(shares))
    if not total > 0.0:
        raise DataError(f"Shares are {list(shares)}; expected one for every grade, with a sum above 0.")
    edges = np.concatenate([[0.0], np.cumsum(shares) / total]).clip(0.0, 1.0)
    means = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if high - low < 1e-9:
            means.append(float(np.interp(low, at, values)))
            continue
        points = np.concatenate([[low], at[(at > low) & (at < high)], [high]])
        heights = np.interp(points, at, values)
        means.append(float(np.sum(np.diff(points) * (heights[1:] + heights[:-1]) / 2.0) / (high - low)))
    return tuple(min(max(mean, 0.0), 1.0) for mean in means)


@functools.lru_cache(maxsize=8)
def _read(path: str, changed: int) -> FittedUsers:
    return FittedUsers.read(path)


def read_users(paths: Sequence[str | Path]) -> dict[str, FittedUsers]:
    """Return the users of some files by name."""
    found: dict[str, FittedUsers] = {}
    for path in paths:
        try:
            changed = Path(path).stat().st_mtime_ns
        except OSError:
            changed = 0
        users = _read(str(path), changed)
        if users.name in found:
            raise DataError(f"Two files of users are called {users.name}. Rename one.")
        found[users.name] = users
    return found


def fitted_names(paths: Sequence[str | Path]) -> tuple[str, ...]:
    """Return what `find_user` calls the best model of each file, such as "users.browsing"."""
    return tuple(f"{name}.{users.best}" for name, users in read_users(paths).items())


def default_user(users_from: Sequence[str | Path] = ()) -> str:
    """Return the name of the best model of the first file; without files that of the navigational user."""
    return next(iter(fitted_names(users_from)), "navigational")


def find_user(
    name: str,
    grades: int,
    users_from: Sequence[str | Path] = (),
    *,
    shares: Sequence[float] | None = None,
    attractiveness: str = "auto",
    anywhere: bool = False,
) -> ClickModel:
    """Return a preset, or a user of files that `multileave fit-users` wrote, for data with that many grades.

    name: a preset; the name of a file without ".toml", for its best model; or both, as in "users.browsing".
    shares, attractiveness: how grades get their attractiveness, see `FittedUsers.user`. anywhere: of presets.
    """
    files = read_users(users_from)
    stem, dot, model = name.rpartition(".")
    stem, chosen = (name, None) if name in files or not dot else (stem, model)
    if stem in files:
        return files[stem].user(chosen, grades=grades, shares=shares, attractiveness=attractiveness)
    if files and name not in USERS:
        known = [*USERS, *(f"{file}.{model}" for file, users in files.items() for model in users.models)]
        raise DataError(f"There is no user {name!r}; expected one of {', '.join(known)}.{nearest(name, known)}")
    return user(name, grades, anywhere=anywhere)
