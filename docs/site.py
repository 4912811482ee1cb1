"""Generated pages of the site: the README, the changelog, and the references.

mkdocs runs this file (`gen-files`); the pages are not kept in the repository.
"""

import importlib
import inspect
import re
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "multileave": "The flow, from rankings to a verdict.",
    "multileave.errors": "Everything multileave raises on purpose.",
    "multileave.testing": "The contract that every method must pass.",
    "multileave.theory": "Properties of methods, decided exactly.",
    "multileave.stats": "Tallies, confidence intervals and verdicts.",
    "multileave.clicks": "Simulated users.",
    "multileave.data": "Learning-to-rank data and TREC runs.",
    "multileave.study": "The paper's experiments.",
    "multileave.log": "The log's schema, reader and writer.",
    "multileave.replay": "Verdicts from logs.",
    "multileave.client": "The client for search applications.",
    "multileave.integrations.retrievers": "Search engines combined into one result list.",
    "multileave.integrations.pyterrier": "PyTerrier pipelines.",
    "multileave.integrations.ubi": "Logs of User Behavior Insights.",
}


def python_reference() -> str:
    """Return the page of all public names, for mkdocstrings to fill in."""
    parts = ["# Python reference\n"]
    for name, about in PACKAGES.items():
        module = importlib.import_module(name)
        parts.append(f"\n# {name}\n\n{about}\n")
        for public in getattr(module, "__all__", []):
            thing = getattr(module, public)
            if inspect.ismodule(thing):
                continue
            home = getattr(thing, "__module__", None) or name
            where = f"{home}.{public}" if str(home).startswith("multileave") and hasattr(
                importlib.import_module(home), public
            ) else f"{name}.{public}"  # fmt: skip
            parts.append(f"\n::: {where}\n")
    return "".join(parts)


def command_reference() -> str:
    """Return the page of all commands, from their help texts."""
    import typer

    from multileave.cli import app

    parts = ["# Command line\n"]

    def describe(command: object, path: str) -> None:
        parts.append(f"\n## `{path}`\n\n{inspect.cleandoc(getattr(command, 'help', '') or '')}\n")
        rows = []
        for parameter in getattr(command, "params", []):
            if parameter.name in ("help",) or getattr(parameter, "hidden", False):
                continue
            names = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts]) or f"`{parameter.name}`"
            if parameter.param_type_name == "argument":
                names = f"`{(getattr(parameter, 'metavar', None) or parameter.name).upper()}`"
            about = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
            rows.append(f"| {names} | {about} |")
        if rows:
            parts.append("\n| option | what it does |\n|---|---|\n" + "\n".join(rows) + "\n")
        for name, sub in getattr(command, "commands", {}).items():
            if not getattr(sub, "hidden", False):
                describe(sub, f"{path} {name}")

    describe(typer.main.get_command(app), "multileave")
    return "".join(parts)


def from_root(name: str, depth: int = 0) -> str:
    """Return a page of the repository's root, with its links adapted to the site."""
    up = "../" * depth

    def turned(link: re.Match[str]) -> str:
        words, path = link["words"], link["path"]
        if path.startswith("docs/"):
            page = path + "/README.md" if (ROOT / path).is_dir() else path
            return f"[{words}]({up}{page.removeprefix('docs/')})"
        if path == "CHANGELOG.md":
            return f"[{words}]({up}reference/changes.md)"
        return words  # the target is not on the site

    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"\[(?P<words>[^\]]+)\]\((?!https?:|#)(?P<path>[^)\s]+)\)", turned, text)


def write(page: str, text: str) -> None:
    """Write a page of the site."""
    with mkdocs_gen_files.open(page, "w") as file:
        file.write(text)


if __name__ == "<run_path>":  # by mkdocs
    write("index.md", from_root("README.md"))
    write("reference/changes.md", from_root("CHANGELOG.md", 1))
    write("reference/python.md", python_reference())
    write("reference/command-line.md", command_reference())
