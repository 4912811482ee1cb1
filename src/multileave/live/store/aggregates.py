"""Aggregates in the store: the sums of each unit, the tallies that verdicts are read from, summaries, and history."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from multileave.live.store.database import Store
from multileave.live.store.tables import DIRTY, arm_units, impressions, ledgers, looks, summaries, units
from multileave.live.verdicts.summary import Summary


def load_tallies(connection: Connection, experiment: int) -> str | None:
    """Return the tallies of an experiment as JSON, None if there are none yet."""
    query = sa.select(ledgers.c.state).where(ledgers.c.experiment == experiment)
    return connection.execute(query).scalar_one_or_none()


def lock_tallies(store: Store, connection: Connection, experiment: int) -> str:
    """Return the tallies as JSON, locked until the transaction ends; empty if there are none yet."""
    connection.execute(store.insert(ledgers).values(experiment=experiment, state="").on_conflict_do_nothing())
    query = sa.select(ledgers.c.state).where(ledgers.c.experiment == experiment).with_for_update()
    return str(connection.execute(query).scalar_one())


def save_tallies(connection: Connection, experiment: int, state: str) -> None:
    """Store the tallies."""
    connection.execute(sa.update(ledgers).where(ledgers.c.experiment == experiment).values(state=state))


def save_summary(store: Store, connection: Connection, experiment: int, summary: Summary) -> None:
    """Store the result in short."""
    insert = store.insert(summaries)
    row = {"experiment": experiment, "standing": summary.standing, "state": json.dumps(summary.to_dict())}
    new = {"standing": insert.excluded.standing, "state": insert.excluded.state}
    connection.execute(insert.on_conflict_do_update(index_elements=["experiment"], set_=new), [row])


def experiments_with_new(connection: Connection) -> set[int]:
    """Return the experiments with impressions that changed since they were last counted."""
    return set(connection.execute(sa.select(impressions.c.experiment).where(DIRTY).distinct()).scalars())


def without_summary(connection: Connection) -> set[int]:
    """Return the experiments with tallies of an earlier version, which stored no summaries."""
    both = ledgers.outerjoin(summaries, ledgers.c.experiment == summaries.c.experiment)
    query = sa.select(ledgers.c.experiment).select_from(both)
    return set(connection.execute(query.where(summaries.c.experiment.is_(None))).scalars())


def load_units(connection: Connection, experiment: int, wanted: Iterable[str]) -> dict[str, tuple[int, bytes]]:
    """Return the impressions and the sums of some units."""
    query = sa.select(units.c.unit, units.c.impressions, units.c.sums).where(
        units.c.experiment == experiment, units.c.unit.in_(sorted(set(wanted)))
    )
    return {row.unit: (row.impressions, row.sums) for row in connection.execute(query)}


def load_all_units(connection: Connection, experiment: int) -> Iterator[tuple[str, int, bytes]]:
    """Yield every unit with its impressions and its sums."""
    query = sa.select(units.c.unit, units.c.impressions, units.c.sums).where(units.c.experiment == experiment)
    for row in connection.execution_options(yield_per=1000).execute(query):
        yield row.unit, row.impressions, row.sums


def save_units(store: Store, connection: Connection, experiment: int, changed: Mapping[str, tuple[int, bytes]]) -> None:
    """Store the impressions and the sums of some units."""
    if not changed:
        return
    rows = [
        {"experiment": experiment, "unit": unit, "impressions": count, "sums": sums}
        for unit, (count, sums) in sorted(changed.items())
    ]
    insert = store.insert(units)
    new = {"impressions": insert.excluded.impressions, "sums": insert.excluded.sums}
    connection.execute(insert.on_conflict_do_update(index_elements=["experiment", "unit"], set_=new), rows)


def delete_unit(connection: Connection, experiment: int, unit: str) -> None:
    """Delete the sums of a unit."""
    for table in (units, arm_units):
        connection.execute(sa.delete(table).where(table.c.experiment == experiment, table.c.unit == unit))


def load_arms(connection: Connection, experiment: int) -> str | None:
    """Return the sums of all arms as JSON, None if there are none yet."""
    query = sa.select(ledgers.c.arms).where(ledgers.c.experiment == experiment)
    return connection.execute(query).scalar_one_or_none()


def save_arms(connection: Connection, experiment: int, state: str) -> None:
    """Store the sums of all arms."""
    connection.execute(sa.update(ledgers).where(ledgers.c.experiment == experiment).values(arms=state))


def load_arm_units(connection: Connection, experiment: int, wanted: Iterable[str]) -> dict[tuple[str, str], bytes]:
    """Return the sums of some units, by arm and unit."""
    query = sa.select(arm_units.c.arm, arm_units.c.unit, arm_units.c.sums).where(
        arm_units.c.experiment == experiment, arm_units.c.unit.in_(sorted(set(wanted)))
    )
    return {(row.arm, row.unit): row.sums for row in connection.execute(query)}


def save_arm_units(
    store: Store, connection: Connection, experiment: int, changed: Mapping[tuple[str, str], bytes]
) -> None:
    """Store the sums of some units, by arm and unit."""
    rows = [{"experiment": experiment, "arm": arm, "unit": unit, "sums": sums} for (arm, unit), sums in changed.items()]
    if rows:
        insert = store.insert(arm_units)
        keys = ["experiment", "unit", "arm"]
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_={"sums": insert.excluded.sums}), rows)


def mark_counted(connection: Connection, counted: Sequence[dict[str, Any]]) -> None:
    """Store what impressions contributed: rows of key, now_delivered and now_counted."""
    if not counted:
        return
    statement = sa.update(impressions).where(impressions.c.id == sa.bindparam("key"))
    values: dict[str, Any] = {
        "counted_delivered": sa.bindparam("now_delivered"),
        "counted": sa.bindparam("now_counted"),
    }
    connection.execute(statement.values(dirty=False, **values), counted)


def last_look(connection: Connection, experiment: int) -> Any:
    """Return the last look, None if there is none yet."""
    query = sa.select(looks).where(looks.c.experiment == experiment).order_by(looks.c.impressions.desc()).limit(1)
    return connection.execute(query).one_or_none()


def insert_look(store: Store, connection: Connection, experiment: int, impressions: int, at: int, state: str) -> None:
    """Store a look."""
    row = {"experiment": experiment, "impressions": impressions, "at": at, "state": state}
    connection.execute(store.insert(looks).values(row).on_conflict_do_nothing())


def load_looks(connection: Connection, experiment: int) -> Sequence[Any]:
    """Return all looks, oldest first."""
    query = sa.select(looks).where(looks.c.experiment == experiment).order_by(looks.c.impressions)
    return connection.execute(query).all()
