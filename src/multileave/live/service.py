"""The service: experiments, the lists it draws, the events it records, and their verdicts; no HTTP and no SQL here."""

import json
import logging
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multileave.live.access.keys import Access
from multileave.live.access.signing import open_signer
from multileave.live.compilation import CompiledMethods
from multileave.live.definition import DAY, Definition
from multileave.live.errors import Conflict, NotFound, Unavailable
from multileave.live.experiment import Experiment, grow, place, with_arms
from multileave.live.export import export_rows
from multileave.live.impression_details import detail_of, recent_of
from multileave.live.intake import Intake
from multileave.live.recent_experiments import RecentExperiments
from multileave.live.records import (
    AuditAction,
    AuditEntry,
    Event,
    History,
    ImpressionDetail,
    Receipt,
    RecentImpression,
    Shown,
    ShowRequest,
)
from multileave.live.settings import Settings
from multileave.live.store import audit
from multileave.live.store import experiments as stored
from multileave.live.store.aggregates import experiments_with_new, load_looks, without_summary
from multileave.live.store.database import Connection, Store
from multileave.live.store.group_commit import Writer
from multileave.live.store.impressions import delete_expired, events_of, load_one, load_recent, oldest_uncounted
from multileave.live.store.times import SECOND, from_micros, now
from multileave.live.verdicts.aggregation import Aggregator, judge_once
from multileave.live.verdicts.arms import load_sums
from multileave.live.verdicts.dropping import drop_losers
from multileave.live.verdicts.report import Report, history_of
from multileave.live.verdicts.segments import SegmentReport, Segments
from multileave.live.verdicts.summary import Listing, Search

BATCH = 500  # impressions deleted at once
START_WAITS = 30.0  # seconds that a start waits for its method; usually it has been compiled since it was created
READY_SECONDS = 1.0  # for the database to answer a readiness check
LATE_FOLDS, LATE_SECONDS = 5, 20.0  # summaries are late after so many times the interval, and these seconds
COMPILING = "The method {} is being compiled. Try again in a few seconds."
log = logging.getLogger("multileave.live")


class Service:
    """Everything that the HTTP routes and pages do, on one store.

    Methods may be called from any thread; the audit log names who is `acting`. `show` and `record` are awaited, so that
    many requests share one commit.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ready = False
        self._store = Store(settings.database, durable=settings.durable, seconds=settings.database_seconds)
        try:
            self._signer, self.warnings = open_signer(self._store, settings)
        except BaseException:
            self._store.close()
            raise
        self._recent = RecentExperiments(self.experiment)
        self._intake = Intake(self._store, self._signer, settings, self._recent.get)
        self._store_impressions, self._store_events = self._intake.store_impressions, self._intake.store_events
        self._methods = CompiledMethods()
        self._aggregator = Aggregator(self._store, self._is_loaded)
        self._aggregating = threading.Lock()
        self._segments = Segments(self._store, settings.database_seconds)
        self._counted_until = now()
        self._writer = Writer(self._store, most_waiting=settings.most_waiting, seconds=settings.database_seconds)
        self.access = Access(self._store, settings)

    def close(self) -> None:
        """Store what is waiting and close the database."""
        self._writer.close()
        self._methods.close()
        self._recent.close()
        self._store.close()

    def warm(self) -> None:
        """Load the methods of running experiments, compiled if need be, and start to load those of others."""
        judge_once()
        experiments = self.experiments()
        running = {found.definition.method for found in experiments if found.status == "running"}
        for method in running:
            self._methods.wait(method, START_WAITS)
        self.ready = all(map(self.is_compiled, running))
        for method in {found.definition.method for found in experiments} | {"recommended"}:
            self._methods.want(method)

    def is_compiled(self, method: str) -> bool:
        """Whether this process can draw with a method; if not, it is being compiled."""
        return self._methods.want(method) is None and method in self._methods.loaded

    async def check_database(self) -> None:
        """Raise `Unavailable` if the database does not answer within a second."""
        await self._recent.call("database", self._store.check, READY_SECONDS)

    # Experiments

    def create(self, definition: Definition) -> Experiment:
        """Create an experiment as a draft, and start compiling its method."""
        with self._store.write() as connection:
            made = stored.insert(connection, definition, 1, None)
            audit.record(connection, "created", made.number, {"name": definition.name})
        self._methods.want(definition.method)
        return made

    def experiments(self) -> list[Experiment]:
        """Return all experiments, newest first."""
        with self._store.read() as connection:
            return stored.load_all(connection)

    def search(
        self, wanted: Search, *, within: Container[int] | None = None, offset: int = 0, limit: int | None = None
    ) -> Listing:
        """Return experiments with their results in short, newest first. within: numbers to choose from."""
        with self._store.read() as connection:
            found, total = stored.search(connection, wanted, within=within, offset=offset, limit=limit)
        late = now() - self._counted_until > (LATE_FOLDS * self.settings.fold_seconds + LATE_SECONDS) * SECOND
        return Listing(found, total, from_micros(self._counted_until), late)

    def experiment(self, number: int) -> Experiment:
        """Return an experiment."""
        with self._store.read() as connection:
            return stored.load(connection, number)

    def edit(self, number: int, changes: Mapping[str, Any]) -> Experiment:
        """Change the settings of a draft, or the share or the arms of a running experiment."""

        def edited(found: Experiment, connection: Connection) -> Experiment:
            if found.status == "draft":
                return replace(found, definition=found.definition.changed(**changes))
            fixed = sorted(name for name in changes if name not in ("share", "arms"))
            if fixed:
                raise Conflict(
                    f"{', '.join(fixed)} of experiment {number} cannot be changed: it is {found.status}. Clone it with "
                    "the changes and start the clone."
                )
            if found.status == "stopped" and changes:
                raise Conflict(f"Experiment {number} is stopped; its shares of the traffic cannot be changed.")
            if "share" in changes:
                found = grow(found, changes["share"], self._group(connection, found))
            return with_arms(found, changes["arms"]) if "arms" in changes else found

        return self._change(number, "edited", edited)

    def start(self, number: int) -> Experiment:
        """Start a draft; this waits for its method to be compiled, for up to half a minute."""
        self._methods.wait(self.experiment(number).definition.method, START_WAITS)

        def started(found: Experiment, connection: Connection) -> Experiment:
            if found.status != "draft":
                raise Conflict(
                    f"Experiment {number} is {found.status}; only a draft can be started. Clone it to run it again."
                )
            placed = place(found, self._group(connection, found))
            return replace(placed, status="running", started=from_micros(now()))

        return self._change(number, "started", started)

    def stop(self, number: int) -> Experiment:
        """Stop an experiment: all units get the control's list, and nothing more is recorded."""

        def stopped(found: Experiment, _: Connection) -> Experiment:
            if found.status != "running":
                raise Conflict(f"Experiment {number} is {found.status}; only a running experiment can be stopped.")
            return replace(found, status="stopped", stopped=from_micros(now()))

        return self._change(number, "stopped", stopped)

    def clone(self, number: int, changes: Mapping[str, Any]) -> Experiment:
        """Create a copy of an experiment as a draft, its next version, with some settings changed."""
        with self._store.write() as connection:
            found = stored.load(connection, number)
            made = stored.insert(connection, found.definition.changed(**changes), found.version + 1, number)
            changed = _changed(found.definition, made.definition)
            audit.record(connection, "cloned", made.number, {"parent": number, "changed": changed})
        self._methods.want(made.definition.method)
        return made

    def delete_draft(self, number: int) -> None:
        """Delete a draft."""
        with self._store.write() as connection:
            found = stored.load(connection, number, lock=True)
            if found.status != "draft":
                raise Conflict(f"Experiment {number} is {found.status}; only a draft can be deleted.")
            stored.delete(connection, number)
            audit.record(connection, "deleted", number, {"name": found.definition.name})
        self._recent.forget(number)

    # Traffic

    async def show(self, number: int, request: ShowRequest) -> Shown:
        """Draw a page of results for a user; it is recorded before this returns.

        While the experiment's method is being compiled, it is the control's list, and not recorded.
        """
        experiment = self._recent.known(number)
        if experiment is None:
            experiment = await self._recent.wait_for(number, self.settings.database_seconds)
        method = experiment.definition.method
        compiled = method in self._methods.loaded or experiment.status != "running"
        if not compiled and not await self._methods.is_loaded(method):
            experiment = replace(experiment, status="stopped")  # everyone gets the control's list
        drawn = self._intake.draw(experiment, request)
        if drawn.row is None:
            return self._intake.shown(drawn, experiment, None)
        return self._intake.shown(drawn, experiment, await self._writer.submit(self._store_impressions, drawn))

    async def record(self, batch: Sequence[Event]) -> list[Receipt]:
        """Store events; those that are accepted are stored when this returns."""
        return await self._writer.submit(self._store_events, batch)

    # Verdicts

    def fold(self) -> int:
        """Add new impressions and events of all experiments to their tallies; return how many impressions.

        An experiment to which nothing can be added now does not keep the others waiting.
        """
        total, began, late = 0, now(), False
        with self._store.read() as connection:
            experiments = stored.load_all(connection)
            changed, unsummarised = experiments_with_new(connection), without_summary(connection)
        for found in experiments:
            self._methods.want(found.definition.method)  # another worker may have created it
            try:
                with self._aggregating:
                    if found.number in changed:
                        total += self._aggregator.update(found)
                    elif found.number in unsummarised:
                        self._aggregator.summarise(found)
                if drop_losers(self._store, self._aggregator, found):
                    self._recent.forget(found.number)
            except Unavailable as problem:
                late = True
                fields = {"experiment": found.number, "says": problem.reason}
                log.warning("aggregation postponed", extra={"fields": fields})
        self._counted_until = self._counted_until if late else began
        return total

    def report(self, number: int, action: str | None = None) -> Report:
        """Return what an experiment says about an action, the primary one by default.

        It is up to date; if the database cannot be written now, it is what was counted before, and marked as stale.
        """
        experiment = self.experiment(number)
        action = experiment.action(action)
        began = now()
        stale = not self._update(experiment)
        with self._store.read() as connection:
            tallies = self._aggregator.tallies(connection, experiment)
            look = self._aggregator.scheduled(connection, experiment) if experiment.definition.looks else (0, {})
            arms = load_sums(connection, experiment) if experiment.arm_slices else {}
            oldest = oldest_uncounted(connection, number) if stale else None
        as_of = began if oldest is None else min(oldest, began)
        return Report(experiment, action, tallies, from_micros(as_of), stale and oldest is not None, look, arms)

    def _update(self, experiment: Experiment) -> bool:
        """Add what is new of an experiment; return whether that was possible now."""
        if not self._aggregating.acquire(timeout=self.settings.database_seconds):
            return False
        try:
            self._aggregator.update(experiment)
        except Unavailable:
            return False
        finally:
            self._aggregating.release()
        return True

    def segments(self, number: int, action: str | None = None) -> SegmentReport:
        """Return what an experiment says about an action in each segment of its traffic."""
        return self._segments.of(self.report(number, action))

    def history(self, number: int, action: str | None = None) -> History:
        """Return the preferences over time."""
        with self._store.read() as connection:
            experiment = stored.load(connection, number)
            action = experiment.action(action)
            rows = load_looks(connection, number)
        return history_of(experiment, action, rows)

    def recent(self, number: int, limit: int = 50) -> list[RecentImpression]:
        """Return the latest impressions, newest first."""
        with self._store.read() as connection:
            rows = load_recent(connection, number, limit)
            if not rows:
                stored.load(connection, number)
        return [recent_of(row) for row in rows]

    def impression(self, number: int, key: str) -> ImpressionDetail:
        """Return an impression in full."""
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            raw = b""
        with self._store.read() as connection:
            experiment = stored.load(connection, number)
            row = load_one(connection, number, raw)
            events = events_of(connection, [raw]).get(raw, [])
        if row is None:
            raise NotFound(
                f"Experiment {number} has no impression {key[:40]!r}. It may have been deleted after its retention."
            )
        if not self._is_loaded(experiment.definition.method):
            raise Unavailable(COMPILING.format(experiment.definition.method))
        return detail_of(experiment, row, events)

    def export(self, number: int, target: Path) -> int:
        """Write all impressions with their events as Parquet for `multileave replay`; return how many."""
        experiment = self.experiment(number)
        with self._store.write() as connection:
            audit.record(connection, "exported", number)
        return export_rows(self._store, experiment, target)

    def audit(
        self, *, before: int | None = None, experiment: int | None = None, limit: int = 50
    ) -> tuple[list[AuditEntry], int | None]:
        """Return entries of the audit log, newest first, and the `before` of the next page, None on the last."""
        with self._store.read() as connection:
            found = audit.load(connection, before=before, experiment=experiment, limit=limit + 1)
        return found[:limit], found[limit - 1].number if len(found) > limit else None

    # Privacy

    def delete_unit(self, unit: str) -> int:
        """Delete everything about a unit, from the verdicts as well; return how many impressions."""
        total = 0
        for experiment in self.experiments():
            name = self._signer.unit(unit) if experiment.definition.hash_units else json.dumps(unit)
            total += self._aggregator.remove_unit(experiment, name, self._signer.unit(unit))
        return total

    def sweep(self) -> int:
        """Delete impressions and events past their experiment's retention; return how many impressions.

        They are counted first, so that verdicts keep them; nothing is deleted within the window.
        """
        self.access.sweep()
        total = 0
        for experiment in self.experiments():
            days = experiment.definition.retention_days
            if days is None:
                continue
            self._aggregator.update(experiment)
            before = now() - round(max(days * DAY, experiment.definition.window) * SECOND)
            done = False
            while not done:
                began = time.monotonic()
                with self._store.write() as connection:
                    count, done = delete_expired(connection, experiment.number, before, BATCH)
                total += count
                if not done:
                    time.sleep(time.monotonic() - began)  # searches get the database for as long
        return total

    # Inside

    def _is_loaded(self, method: str) -> bool:
        return self._methods.wait(method, self.settings.database_seconds)

    def _change(
        self, number: int, action: AuditAction, change: Callable[[Experiment, Connection], Experiment]
    ) -> Experiment:
        with self._store.write() as connection:
            found = stored.load(connection, number, lock=True)
            changed = change(found, connection)
            stored.update(connection, changed)
            settings = _changed(found.definition, changed.definition)
            if settings or changed.status != found.status:
                audit.record(connection, action, number, {"changed": settings} if settings else {})
        self._recent.forget(number)
        return changed

    def _group(self, connection: Connection, experiment: Experiment) -> list[Experiment]:
        """Return the other running experiments of a group; no other can start until the transaction ends."""
        group = experiment.definition.group
        if group is None:
            return []
        self._store.lock(connection, "groups")
        running = [e for e in stored.load_all(connection) if e.status == "running" and e.number != experiment.number]
        return [other for other in running if other.definition.group == group]


def _changed(before: Definition, after: Definition) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ, with their old and new values."""
    old, new = before.to_dict(), after.to_dict()
    return {name: (old[name], new[name]) for name in new if old[name] != new[name]}
