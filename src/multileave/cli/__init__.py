"""The command line: one file per command, which parses, calls and prints.

Heavy libraries are imported inside the commands, so that help and errors appear at once.
"""

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from multileave.cli.audit import audit
from multileave.cli.backup import backup, restore
from multileave.cli.check import check
from multileave.cli.compare import compare
from multileave.cli.demo import demo
from multileave.cli.fit_users import fit_users
from multileave.cli.keys import keys
from multileave.cli.methods import methods
from multileave.cli.plan import plan
from multileave.cli.replay import replay
from multileave.cli.serve import serve
from multileave.cli.simulate_log import simulate_log
from multileave.cli.study import study
from multileave.errors import MultileaveError
from multileave.version import __version__

__all__ = ["app", "main"]

# ClickException of click, or of the copy of it in newer versions of Typer.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]

# Options that take several values.
LISTS = (
    "--datasets", "--methods", "--rankers", "--users", "--runs", "--folds", "--load", "--actions", "--clicks",
    "--pilot", "--users-from", "--models",
)  # fmt: skip

# Help is plain text: boxes around it would take a third longer.
app = typer.Typer(
    name="multileave", add_completion=True, rich_markup_mode=None, context_settings={"max_content_width": 100}
)
app.command(short_help="Compare rankers of known quality with simulated users.")(demo)
app.command(short_help="List the comparison methods and their properties.")(methods)
app.command(short_help="Decide exactly which methods are considerate and unbiased.")(check)
app.command(short_help="Measure how methods perform, with simulated users.")(study)
app.command(short_help="Show where rankers differ, before any user sees them.")(compare)
app.command(short_help="Compute how many users it takes to detect a difference.")(plan)
app.command("fit-users", short_help="Fit models of users to the clicks of a log.")(fit_users)
app.command(short_help="Infer from a log which ranker users prefer.")(replay)
app.command("simulate-log", short_help="Write a log of simulated users, to try things out.")(simulate_log)
app.command(short_help="Run the service: pages, events, verdicts and a dashboard.")(serve)
app.command(short_help="Copy the service's database to a file, while it runs.")(backup)
app.command(short_help="Put a backup into an empty database.")(restore)
app.add_typer(keys, name="keys")
app.command(short_help="List who did what on a service.")(audit)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"multileave {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def multileave(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out which ranker users prefer, from their clicks, for two rankers or for forty."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 2, with one line on stderr, for invalid input."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # do not fail on a terminal without µ
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = app(
                spread(sys.argv[1:] if arguments is None else arguments), prog_name="multileave", standalone_mode=False
            )
    except MultileaveError as error:
        return _complain(str(error))
    except _UsageError as error:
        return _complain(error.format_message())  # type: ignore[attr-defined]
    except typer.Abort:
        return 130
    except OSError as error:
        if error.filename is None:
            raise
        return _complain(f"{error.filename} cannot be used: {error.strerror}. Choose another path.")
    return code if isinstance(code, int) else 0


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat an option before each of its values.

    >>> spread(["study", "--rankers", "5", "15", "--json"])
    ['study', '--rankers', '5', '--rankers', '15', '--json']
    """
    found: list[str] = []
    option = None
    for argument in arguments:
        if option is not None and found[-1] != option and not argument.startswith("-"):
            found.append(option)
        if argument in LISTS:
            option = argument
        elif argument.startswith("-"):
            option = None
        found.append(argument)
    return found


def _complain(message: str) -> int:
    print("multileave: " + " ".join(message.split()), file=sys.stderr)
    return 2


def _show_warning(message: Warning | str, *where: object, **named: object) -> None:
    print("multileave: warning: " + " ".join(str(message).split()), file=sys.stderr)
