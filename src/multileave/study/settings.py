"""Settings: what a study runs, from Python, the command line or a TOML file."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from multileave.clicks import Browsing, Cascade, ClickModel, PositionBased, Returning, find_user
from multileave.clicks.fitted import ATTRACTIVENESS, fitted_names
from multileave.data import available, fingerprint, system_names
from multileave.errors import DataError, nearest
from multileave.methods.base import get_method

PAPER_METHODS = ("tdm", "om", "pm", "sosm", "ppm")
PAPER_USERS = ("perfect", "navigational", "informational")
SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Settings:
    """A grid of data sets, methods, users and numbers of rankers, and how often each cell is run.

    datasets: names in the catalogue, names of folders in `data`, or "synthetic".
    data: the folder that holds the data sets; not needed for synthetic data.
    methods, users, rankers: the methods, the simulated users, and how many rankers are compared at a time.
    impressions: of each run. k: results per page. seed: of all randomness.
    runs: how often each cell is repeated in every fold, each time with other rankers.
    folds: which folds to use; all by default.
    anywhere: users may stop after any document, clicked or not, as in public simulators.
    own_users: user models by name, each with the fields of a class of `multileave.clicks`: click and stop (and go_on_*)
        for a cascade, with back for one that goes back up; click and examine by rank, or by rank and last click.
    users_from: files that `multileave fit-users` wrote. Their users are named by the file and the model, as in
        "users.browsing", or by the file alone for the best model.
    attractiveness: how grades get the attractiveness of fitted users: "quantiles", "measured" or "auto", see
        `multileave.clicks.fitted`.
    run_files: TREC runs of systems to compare instead of data sets, judged by the file `qrels`; documents without a
        judgement get the grade `unjudged`. The rankers are then the systems, and users issue all topics.
    returned: how many documents every ranker returns from the top of its ranking; all by default. The truth remains
        that of the whole rankings.
    """

    datasets: tuple[str, ...] = (SYNTHETIC,)
    methods: tuple[str, ...] = ("recommended", *PAPER_METHODS)
    users: tuple[str, ...] = PAPER_USERS
    rankers: tuple[int, ...] = (2, 3, 5, 15)
    impressions: int = 10_000
    runs: int = 25
    folds: tuple[int, ...] = ()
    k: int = 10
    seed: int = 42
    data: str | None = None
    anywhere: bool = False
    own_users: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    users_from: tuple[str, ...] = ()
    attractiveness: str = "auto"
    run_files: tuple[str, ...] = ()
    qrels: str | None = None
    unjudged: int = 0
    returned: int | None = None

    def __post_init__(self) -> None:
        if self.run_files or self.qrels is not None:
            self._compare_systems()
        for name in ("datasets", "methods", "users", "rankers"):
            values = getattr(self, name)
            if isinstance(values, str) or not values:
                raise DataError(
                    f"The setting {name} is {values!r}; expected a list of one or more. Name what to study."
                )
            object.__setattr__(self, name, tuple(dict.fromkeys(values)))
        object.__setattr__(self, "folds", tuple(self.folds))
        object.__setattr__(self, "users_from", tuple(self.users_from))
        if self.attractiveness not in ATTRACTIVENESS:
            raise DataError(
                f"The setting attractiveness is {self.attractiveness!r}; expected {', '.join(ATTRACTIVENESS)}."
            )
        for name, least in (("impressions", 1), ("runs", 1), ("k", 1), ("seed", 0), ("unjudged", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise DataError(f"The setting {name} is {value!r}; expected an integer of at least {least}.")
        if self.returned is not None and (isinstance(self.returned, bool) or self.returned < 1):
            raise DataError(f"The setting returned is {self.returned!r}; expected a number of documents, at least 1.")
        for value in (*self.rankers, *self.folds):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DataError(f"{value!r} is not a number of rankers or of a fold; expected positive integers.")
        if min(self.rankers) < 2:
            raise DataError(f"Numbers of rankers are {list(self.rankers)}; a comparison needs two or more rankers.")
        if self.data is None and not self.run_files and any(name != SYNTHETIC for name in self.datasets):
            named = next(name for name in self.datasets if name != SYNTHETIC)
            raise DataError(f"There is no folder to look for {named} in. Name one with --data, or study 'synthetic'.")
        object.__setattr__(self, "methods", tuple(str(get_method(spec)) for spec in self.methods))
        for spec in self.methods:
            for count in self.rankers:
                get_method(spec).check_rankers(count)
        for name in self.users:
            self.user(name, grades=None)

    def _compare_systems(self) -> None:
        """Make run files the one data set of the study, in one fold."""
        if len(self.run_files) < 2:
            raise DataError(f"Run files are {list(self.run_files)}; a comparison needs two or more. Use --runs A B.")
        if self.qrels is None:
            raise DataError("Run files need qrels to be judged by. Name the file with --qrels.")
        if self.data is not None:
            raise DataError("There are both run files and a folder of data sets. Study one or the other.")
        names = system_names(self.run_files)
        object.__setattr__(self, "run_files", tuple(self.run_files))
        object.__setattr__(self, "datasets", tuple(system_names([self.qrels])))
        object.__setattr__(self, "rankers", (len(names),))
        object.__setattr__(self, "folds", (1,))

    def user(self, name: str, grades: int | None, shares: Sequence[float] | None = None) -> ClickModel:
        """Return a user of `own_users`, a fitted user or a preset, for data with that many grades.

        grades: None checks the name only. shares: of the documents shown that has each grade, for fitted users.
        """
        if name not in self.own_users:
            return find_user(
                name, 3 if grades is None else grades, self.users_from, shares=shares, anywhere=self.anywhere,
                attractiveness="quantiles" if grades is None else self.attractiveness,
            )  # fmt: skip
        own = dict(self.own_users[name])
        reads_down = ("click", "stop", "anywhere", "go_on_after_click", "go_on_after_skip")
        known = (*reads_down, "back", "examine")
        for key in own:
            if key not in known:
                raise DataError(f"User {name!r} has {key!r}; expected {', '.join(known)}.{nearest(key, known)}")
        if "click" not in own or ("stop" in own) == ("examine" in own):
            raise DataError(f"User {name!r} needs click, and either stop (a cascade) or examine (by position).")
        if "examine" in own:
            if len(own) > 2:
                raise DataError(f"User {name!r} has {', '.join(own)}; expected only click beside examine.")
            nested = any(isinstance(row, list | tuple) for row in own["examine"])
            return (Browsing if nested else PositionBased)(**own)
        return (Returning if "back" in own else Cascade)(**{"anywhere": self.anywhere, **own})

    def changed(self, **values: Any) -> "Settings":
        """Return the settings with some changed; None leaves a setting as it is."""
        return replace(self, **{key: value for key, value in values.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @property
    def decisive(self) -> dict[str, Any]:
        """What the numbers of a run depend on, besides its own name."""
        found = {key: self.to_dict()[key] for key in ("impressions", "k", "seed", "anywhere", "own_users", "data")}
        found["returned"] = self.returned
        if self.users_from:
            found["users_from"] = {Path(path).name: fingerprint(path) for path in self.users_from}
            found["attractiveness"] = self.attractiveness
        if self.qrels is not None:
            names = system_names(self.run_files)
            found["run_files"] = dict(zip(names, map(fingerprint, self.run_files), strict=True))
            found |= {"qrels": fingerprint(self.qrels), "unjudged": self.unjudged}
        return found

    @classmethod
    def from_toml(cls, path: str | Path) -> "Settings":
        """Return the settings of a TOML file, whose keys are the fields; own users are [own_users.NAME]."""
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
        except OSError as error:
            raise DataError(f"The settings {path} cannot be read: {error.strerror}.") from error
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"The settings {path} are not valid TOML: {error}.") from error
        known = [f.name for f in fields(cls)]
        for key in values:
            if key not in known:
                raise DataError(f"{path}: {key!r} is not a setting; expected {', '.join(known)}.{nearest(key, known)}")
        named: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**named)


def load_settings(path: str | Path | None = None, **options: Any) -> Settings:
    """Return the settings of a TOML file, or the defaults, with some changed by options; None changes nothing."""
    settings = _with_fitted_users(Settings() if path is None else Settings.from_toml(path), options)
    if settings.data is not None and not options.get("datasets") and settings.datasets == Settings.datasets:
        held = " ".join(found.name for found in available(settings.data))
        raise DataError(
            f"No data sets of {settings.data} are named. Name them with "
            f"--datasets{f'; it holds {held}' if held else ''}."
        )
    return settings


def paper_settings(path: str | Path | None = None, **options: Any) -> list[Settings]:
    """Return the paper's grid on whichever of its data sets the folder `data` holds; path, options: of `load_settings`.

    There are two grids: 5 and 15 rankers on all data sets, and 40 rankers on those that have so many.
    """
    base = Settings() if path is None else Settings.from_toml(path)
    folder = options.get("data") or base.data
    if folder is None:
        raise DataError("The paper's grid needs data. Name the folder that holds the data sets with --data.")
    found = available(folder)
    if not found:
        raise DataError(f"{folder} holds none of the paper's data sets. Name another folder with --data.")
    methods = PAPER_METHODS if base.methods == Settings().methods else base.methods
    given = {key: value for key, value in options.items() if value is not None}
    many = [one for one in found if len(one.rankers or ()) >= 40]
    grids: list[Any] = [(found, (5, 15)), (many, (40,))]
    return [
        _with_fitted_users(
            base, {"datasets": [one.name for one in names], "rankers": counts, "methods": methods, **given}
        )
        for names, counts in grids
        if names
    ]


def _with_fitted_users(settings: Settings, options: Mapping[str, Any]) -> Settings:
    """Return the settings with some changed; files of fitted users replace the default users."""
    files = options.get("users_from") or settings.users_from
    if files and not options.get("users") and settings.users == Settings.users:
        options = {**options, "users": fitted_names(files)}
    return settings.changed(**options)


def describe(grids: Sequence[Settings]) -> dict[str, Any]:
    """Return the settings of one or more grids as plain values, for a report."""
    described = grids[0].to_dict()
    if grids[0].run_files:
        described["title"] = "Which system do users prefer?"
    for grid in grids[1:]:
        for key, value in grid.to_dict().items():
            if isinstance(value, list):
                described[key] = list(dict.fromkeys([*described[key], *value]))
    return described
