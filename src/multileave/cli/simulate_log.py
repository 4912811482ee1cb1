"""multileave simulate-log: logs of simulated users, to try out replay."""

from pathlib import Path
from typing import Annotated

import typer

from multileave.cli.loading import Load, load
from multileave.cli.printing import print_json
from multileave.cli.user_options import Attractiveness, UserName, UsersFrom
from multileave.errors import DataError

DOCUMENTS, GRADES = 50, 5


def simulate_log(
    out: Annotated[Path, typer.Option(help="Folder to write to; created if needed.")],
    impressions: Annotated[int, typer.Option(help="Number of result pages that users see.")] = 10_000,
    users: Annotated[int | None, typer.Option(help="Number of users; by default one per five impressions.")] = None,
    method: Annotated[str, typer.Option(help="The method that combines the rankings.")] = "recommended",
    rankers: Annotated[int, typer.Option(help="Number of rankers to compare.")] = 5,
    queries: Annotated[int, typer.Option(help="Number of different queries.")] = 1000,
    k: Annotated[int, typer.Option("--k", help="Results on a page.")] = 10,
    user: UserName = None,
    users_from: UsersFrom = None,
    attractiveness: Attractiveness = "auto",
    files: Annotated[int, typer.Option(help="Number of files of each kind.")] = 1,
    separate: Annotated[bool, typer.Option("--separate", help="Write clicks to separate files.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="Write JSON lines instead of Parquet.")] = False,
    duplicates: Annotated[float, typer.Option(help="With --separate: the share of clicks logged twice.")] = 0.0,
    late: Annotated[float, typer.Option(help="With --separate: the share of clicks that are an hour late.")] = 0.0,
    seed: Annotated[str, typer.Option(help="A number or any text; the same seed gives the same log.")] = "42",
    sources: Load = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a log of simulated users, of any size, to try things out."""
    from multileave.data import synthetic
    from multileave.methods.base import get_method
    from multileave.replay.simulating import LogSimulation, write_log
    from multileave.study.users import user_for

    load(sources)
    if impressions < 1 or files < 1 or rankers < 2 or queries < 1 or k < 1:
        raise DataError("Expected --impressions, --files, --queries and --k from 1, and --rankers from 2.")
    if not 0 <= duplicates <= 1 or not 0 <= late <= 1:
        raise DataError(f"--duplicates is {duplicates} and --late is {late}; expected shares from 0 to 1.")
    if not separate and (duplicates or late):
        raise DataError("--duplicates and --late are about separate clicks. Add --separate, or leave them out.")
    number = int(seed) if seed.isdecimal() else seed
    data = synthetic(queries=queries, documents=DOCUMENTS, rankers=rankers, grades=GRADES, seed=number)
    simulation = LogSimulation(
        data,
        get_method(method),
        user_for(data, k, user, users_from or (), attractiveness),
        users=max(impressions // 5, 1) if users is None else users,
        k=k,
    )
    written = write_log(
        simulation, out, impressions,
        files=files, separate=separate, lines=lines, duplicates=duplicates, late=late, seed=number,
    )  # fmt: skip
    if as_json:
        print_json({"files": [str(path) for path in written], "impressions": impressions})
    else:
        count = f"{len(written)} file" + "s" * (len(written) != 1)
        typer.echo(f"{impressions:,} impressions in {count} in {out}")
        clicks = f" --clicks {out / 'clicks'}" if separate else ""
        typer.echo(f"multileave replay {out / 'impressions'}{clicks}")
