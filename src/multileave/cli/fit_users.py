"""multileave fit-users: user models fitted to the clicks of a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multileave.cli.printing import print_json, progress, rounded_table, table_console
from multileave.errors import DataError

if TYPE_CHECKING:
    from multileave.clicks.fitting import UserFit
    from multileave.replay.clicked_pages import ClickedPages


def fit_users(
    logs: Annotated[
        list[str],
        typer.Argument(help='Files, folders or URIs: our logs, or JSON lines of {"query", "shown", "clicks": [0, 2]}.'),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the users to this TOML file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with tables and curves.")] = None,
    clicks: Annotated[list[str] | None, typer.Option(help="Files of clicks, if they are separate.")] = None,
    ubi: Annotated[bool, typer.Option("--ubi", help="The logs are UBI queries; --clicks are their events.")] = False,
    unit: Annotated[str | None, typer.Option(help="Column that identifies the session.")] = None,
    models: Annotated[list[str] | None, typer.Option(help="Models to fit; all by default.")] = None,
    k: Annotated[int, typer.Option("--k", help="Ranks to keep, from the top.")] = 10,
    samples: Annotated[int, typer.Option(help="Samples of the bootstrap over sessions.")] = 200,
    quarantine: Annotated[Path | None, typer.Option(help="Write invalid rows to this file.")] = None,
    memory: Annotated[str | None, typer.Option(help='Most memory of the join with clicks, such as "4GB".')] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; by default one per core.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the held-out folds and of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Fit models of users to the clicks of a log, and say which predicts held-out sessions best."""
    from multileave.clicks.fitting import MODELS, fit
    from multileave.integrations.ubi_pages import read_ubi_pages
    from multileave.replay.clicked_pages import read_pages

    _require_writable({"--out": out, "--html": html, "--quarantine": quarantine}, [*logs, *(clicks or ())])
    with _bar() as tell:
        options: Any = {"k": k, "unit": unit, "quarantine": quarantine, "memory": memory, "progress": tell}
        if ubi:
            found = read_ubi_pages(logs, clicks or logs, **options)
        else:
            found = read_pages(logs, clicks=clicks, **options)
        try:
            users = fit(
                found.pages,
                models=models or tuple(MODELS),
                samples=samples,
                seed=seed,
                threads=workers,
                quarantined=found.counts.quarantined,
                progress=lambda done, total, what: tell(what, done, total),
            )
        except DataError as error:
            wrong = _wrong(found, quarantine)
            raise DataError(f"{error} Rows that were left out: {wrong}" if wrong else str(error)) from None
    if out is not None:
        users.write(out)
    if html is not None:
        from multileave.study.users_page import users_page

        try:
            html.write_text(users_page(users), encoding="utf-8")
        except OSError as error:
            raise DataError(f"{html} cannot be written: {error.strerror}. Choose another file.") from None
    if as_json:
        print_json({**users.to_dict(), "rows": vars(found.counts), "examples": found.examples})
        return
    _print(users, found, quarantine)
    if out is not None:
        typer.echo(f"Users written to {out}.")


def _require_writable(paths: dict[str, Path | None], logs: list[str]) -> None:
    """Raise `DataError` if a file cannot be written, or would replace another, before anything is read."""
    from multileave.replay.reading.files import find_files

    taken = {Path(file.path).resolve(): "a file of the log" for file in find_files(logs)}
    for option, path in paths.items():
        if path is None:
            continue
        if not path.parent.is_dir():
            raise DataError(f"{path} cannot be written: there is no folder {path.parent}. Choose another file.")
        if path.is_dir():
            raise DataError(f"{path} cannot be written: it is a folder. Choose a file.")
        if path.resolve() in taken:
            raise DataError(f"{path} is {taken[path.resolve()]}, which {option} would replace. Choose another file.")
        taken[path.resolve()] = f"the file of {option}"


def _wrong(found: "ClickedPages", quarantine: Path | None) -> str:
    """Return how many rows and clicks were left out, by reason, with the first of them; empty if there are none."""
    wrong = {name: value for name, value in vars(found.counts).items() if value and name not in ("rows", "pages")}
    where = ""
    if found.examples:
        first = f"the first: {found.examples[0]['reason'].rstrip('.')}. Use --quarantine FILE to see all."
        where = f"; see {quarantine}." if quarantine is not None else f"; {first}"
    return ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in wrong.items()) + where


def _print(users: "UserFit", found: "ClickedPages", quarantine: Path | None) -> None:
    console = table_console()
    log = users.log
    console.print(", ".join(f"{name}: {log[name]:,}" for name in ("pages", "queries", "sessions", "clicks")))
    if wrong := _wrong(found, quarantine):
        console.print(wrong)
    for note in users.notes:
        console.print(note)
    table = rounded_table(("model",), ("parameters", "log-likelihood", "perplexity", "difference from best"))
    ppl = users.baseline["perplexity"]
    table.add_row("click rate by rank", str(log["k"]), f"{users.baseline['log_likelihood']:.4f}", f"{ppl:.4f}", "")
    for model in users.models.values():
        behind = "best" if model.name == users.best else f"{model.difference:+.4f} ± {1.96 * model.error:.4f}"
        table.add_row(
            model.name, str(model.size), f"{model.log_likelihood:.4f}", f"{model.perplexity:.4f}", behind
        )  # fmt: skip
    console.print(table)
    for name, reason in users.unidentified.items():
        console.print(f"{name} cannot be fitted. {reason}")
    console.print(f"Held-out sessions; log-likelihood in nats per page. {users.summary}")
    for name, value in users.models[users.best].parameters.items():
        span = users.models[users.best].intervals[name]
        console.print(f"{name}: {shown(value, span)}")


def shown(value: Any, span: Any) -> str:
    """Return a parameter with its interval as text; by rank, the first click situation of each."""
    if not isinstance(value, list):
        return f"{value:.3f} [{span[0]:.3f}, {span[1]:.3f}]"
    if value and isinstance(value[0], list):
        value, span = [row[0] for row in value], [row[0] for row in span]
        return "no click above, by rank: " + shown(value, span)
    return ", ".join(shown(one, around) for one, around in zip(value, span, strict=True))


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    from rich.progress import BarColumn, TaskProgressColumn, TimeRemainingColumn

    with progress(BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), "{task.description}") as bar:
        task = bar.add_task("reading", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, description=what)

        yield tell
