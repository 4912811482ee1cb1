"""What the commands share when they print."""

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_json", "table_console"]

WIDTH = 100  # of tables that go to a file or a pipe


def table_console() -> "Console":
    """Return the console for results on stdout; where it is no terminal, wide enough for our tables."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def print_json(document: Any) -> None:
    """Print one JSON document, and nothing else, on stdout."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")
