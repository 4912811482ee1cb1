"""`multileave methods`: the comparison methods and their properties."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import print_json, rounded_table, table_console

if TYPE_CHECKING:
    from multileave.methods.base import Method


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the comparison methods and their properties."""
    from multileave.methods.base import methods as registered

    described = [describe(method) for method in registered().values()]
    if as_json:
        print_json({"methods": described})
    else:
        _print_table(described)


def describe(method: "type[Method]") -> dict[str, Any]:
    """Return the facts about a method as plain values."""
    return {
        "name": method.name,
        "title": method.title,
        "recommended": method.recommended,
        "considerate": method.considerate,
        "fidelity": method.fidelity,
        "unbiased_lists": method.unbiased_lists or None,
        "reads": reads(method),
        "clone_proof": method.clone_proof,
        "most_rankers": method.most_rankers,
        "parameters": {field.name: field.default for field in fields(method)},
        "reference": method.reference,
    }


def reads(method: "type[Method]") -> str:
    """Return how deep a method reads each ranker's list, for a page of k results: "k", "k + 1" or "all"."""
    depth = method().reads_to(100)
    return "all" if depth is None else "k" if depth == 100 else f"k + {depth - 100}"


def _yes(holds: bool) -> str:
    return "[green]yes[/green]" if holds else "[red]no[/red]"


def _print_table(described: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    table = rounded_table(show_lines=True)
    table.add_column("method", ratio=5)
    table.add_column("properties", no_wrap=True)
    table.add_column("fidelity", ratio=4)
    table.add_column("rankers")
    table.add_column("parameters", overflow="fold")
    for method in described:
        table.add_row(
            f"[bold]{escape(method['name'])}[/bold]  [dim]{escape(method['reference'])}[/dim]\n"
            f"{escape(method['title'])}{', recommended' if method['recommended'] else ''}",
            f"considerate: {_yes(method['considerate'])}\nclone-proof: {_yes(method['clone_proof'])}\n"
            f"reads:       {method['reads']}",
            escape(method["fidelity"]),
            "any" if method["most_rankers"] is None else f"exactly {method['most_rankers']}",
            escape("\n".join(f"{name}={value!r}" for name, value in method["parameters"].items())) or "-",
        )
    console = table_console()
    console.print(table)
    console.print(
        "[dim]considerate: no document is shown above the best rank that any ranker gives it.\n"
        "fidelity: unbiased if random clicks prefer no ranker; Pareto if a ranker better than all others wins.\n"
        "reads: how many results of each ranker matter. clone-proof: copies of a ranker change nothing.\n"
        "Set parameters as in \"ppm(pairs='all')\".[/dim]"
    )
