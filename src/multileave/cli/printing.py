"""What the commands share when they print."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table

WIDTH = 100  # of tables in a file or a pipe


def table_console() -> "Console":
    """Return the console for results on stdout; if it is not a terminal, wide enough for our tables."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def rounded_table(left: Sequence[str] = (), right: Sequence[str] = (), **options: Any) -> "Table":
    """Return an empty table with left-aligned and right-aligned columns, whose headings are plain text.

    options: Rich's, such as a title.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.ROUNDED, **options)
    for name in left:
        table.add_column(escape(name), no_wrap=True)
    for name in right:
        table.add_column(escape(name), justify="right")
    return table


@contextmanager
def progress(
    *columns: "str | ProgressColumn", above: "Sequence[RenderableType]" = (), **options: Any
) -> "Iterator[Progress]":
    """Show progress in these columns on stderr, if that is a terminal.

    above: what to show above the bars; the caller may change it meanwhile.
    """
    from rich.console import Console
    from rich.progress import Progress

    class WithResults(Progress):
        def get_renderables(self) -> "Iterator[RenderableType]":
            yield from above
            yield from super().get_renderables()

    console = Console(stderr=True)
    bar = WithResults(*columns, console=console, transient=True, **options)
    with bar if console.is_terminal else nullcontext():
        yield bar


@contextmanager
def impressions_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar; yield what moves it: (done, total, what is going on)."""
    from rich.progress import BarColumn, TaskProgressColumn, TimeRemainingColumn

    left = TimeRemainingColumn(elapsed_when_finished=True)
    with progress(BarColumn(), TaskProgressColumn(), "{task.fields[rate]}", left, "{task.description}") as bar:
        task = bar.add_task("loading data", total=None, rate="")

        def tell(done: int, total: int, what: str) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed / 1e6:.2f} million impressions/s" if speed else ""
            bar.update(task, completed=done, total=total, description=what, rate=rate)

        yield tell


def print_json(document: Any) -> None:
    """Print one JSON document, and nothing else, on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
