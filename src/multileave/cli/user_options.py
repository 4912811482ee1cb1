"""--user, --users-from and --attractiveness: who clicks, on every command that simulates users."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

UserName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="perfect, navigational, informational, almost_random or random; with --users-from also a model in the "
        "file. By default the model that fits best, or navigational.",
        show_default=False,
    ),
]
UsersFrom: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(help="Files of users fitted to a log by fit-users; NAME.MODEL is a model of NAME.toml."),
]
Attractiveness: TypeAlias = Annotated[
    str,
    typer.Option(
        help="How grades get the attractiveness of fitted users: 'quantiles' matches the log's distribution to the "
        "grades shown, 'measured' takes the log's mean for each grade, 'auto' is measured if there is one."
    ),
]
