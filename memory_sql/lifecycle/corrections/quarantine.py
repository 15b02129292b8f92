"""Setting observations aside, and taking that back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from memory_sql.db import Session
from memory_sql.db.repositories.corrections import Change, CorrectionRepository, Standing
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.ids import observation_id
from memory_sql.domain.observations import SetAside
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.lifecycle.corrections.replacing import refuse_twins
from memory_sql.lifecycle.corrections.request import Asked, agent_key_for, find
from memory_sql.lifecycle.corrections.texts import locked, rebuild, rewind


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What is to be quarantined.

    `because` says of which chosen one it was made, for what wasn't chosen itself; `replaced` is what becomes active again.
    """

    because: dict[ObservationKey, ObservationKey]
    standings: tuple[Standing, ...]
    replaced: tuple[Standing, ...]

    @property
    def fresh(self) -> list[Standing]:
        return [one for one in self.standings if one.status != "quarantined"]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings}

    @property
    def changes(self) -> list[Change]:
        going = [Change(one, "quarantined", "quarantine", more=self._more(one)) for one in self.fresh]
        return going + [Change(one, "active", "quarantine") for one in self.replaced]

    def _more(self, one: Standing) -> dict[str, Any]:
        """What the release will have to know."""
        cause = self.because.get(one.key)
        return successor_of(one) if cause is None else {"because": observation_id(*cause), **successor_of(one)}


def successor_of(one: Standing) -> dict[str, int]:
    """What has superseded it, as the event keeps it."""
    return {} if one.superseded_by is None else {"superseded_by": one.superseded_by}


async def quarantine(session: Session, asked: Asked, selection: Selection) -> SetAside:
    """Quarantines what is chosen, what says the same in its scope, and all that was made of either (rule 8).

    The texts go back to before they took in any of it. What any of it had superseded is active again.
    """
    if selection.observation_id is not None:
        await find(session, asked, selection.observation_id)
    agent_key = await agent_key_for(session, asked)
    poisoned, tainted = await _rewound(session, asked, agent_key, selection)
    repository = CorrectionRepository(session, agent_key)
    await repository.change(poisoned.changes, asked.entry)
    await ScopeRepository(session).raise_epochs(agent_key, poisoned.scopes)
    withheld = await rebuild(session, asked, agent_key, tainted, poisoned.scopes)
    return _set_aside(poisoned.fresh, withheld)


async def _rewound(session: Session, asked: Asked, agent_key: int, selection: Selection) -> tuple[Poisoned, set[int]]:
    """What goes, once no text holds any of it, and the scopes whose texts did."""
    poisoned = await locked(session, agent_key, lambda: _poisoned(session, agent_key, selection))
    tainted: set[int] = set()
    while again := await rewind(session, asked, agent_key, [one.key for one in poisoned.fresh], "quarantine"):
        tainted |= set(again)
        poisoned = await _poisoned(
            session, agent_key, selection
        )  # rewinding makes active what a version had superseded
    return poisoned, tainted


async def _poisoned(session: Session, agent_key: int, selection: Selection) -> Poisoned:
    repository = CorrectionRepository(session, agent_key)
    chosen = {one.key for one in await _chosen(session, agent_key, selection)}
    because: dict[ObservationKey, ObservationKey] = {}
    for key in sorted(chosen):
        because |= {
            one: key for one in await _made_of(session, agent_key, key) if one not in because and one not in chosen
        }
    standings = await repository.standings(chosen | set(because))
    replaced = await superseded_alone(repository, {one.key for one in standings})
    return Poisoned(because, tuple(standings), tuple(replaced))


async def _chosen(session: Session, agent_key: int, selection: Selection) -> list[Standing]:
    selected = await ForgettingRepository(session, agent_key).selected(selection)
    return await CorrectionRepository(session, agent_key).standings(selected)


async def _made_of(session: Session, agent_key: int, key: ObservationKey) -> tuple[ObservationKey, ...]:
    """What says the same, and what was made of any of these."""
    same = [twin.key for twin in await CorrectionRepository(session, agent_key).twins([key], "active")]
    return (*same, *await LineageRepository(session, agent_key).derived([key, *same]))


async def superseded_alone(repository: CorrectionRepository, going: Collection[ObservationKey]) -> list[Standing]:
    """What `going` had superseded and is to be active again: unless it goes itself, or something active says the same."""
    replaced = [one for one in await repository.superseded_by(going) if one.key not in going]
    twins = {one.key: await repository.twins([one.key], "active") for one in replaced}
    return [one for one in replaced if {twin.key for twin in twins[one.key]} <= set(going)]


@dataclass(frozen=True, slots=True)
class Releasable:
    """What was quarantined together, with what the events of the quarantine say of each."""

    standings: tuple[Standing, ...]
    ledger: dict[ObservationKey, dict[str, Any]]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings}


async def release(session: Session, asked: Asked, selection: Selection) -> SetAside:
    """Ends a quarantine: what is chosen, what says the same, and what was quarantined with it has its old status again.

    Raises `InputError` where an active observation says the same by now.
    """
    await _check_quarantined(session, asked, selection)
    agent_key = await agent_key_for(session, asked)
    releasable = await locked(session, agent_key, lambda: _releasable(session, agent_key, selection))
    repository = CorrectionRepository(session, agent_key)
    changes = [await _released(repository, one, releasable.ledger.get(one.key, {})) for one in releasable.standings]
    if active := [change.before.key for change in changes if change.status == "active"]:
        await refuse_twins(repository, active)
    await repository.change(changes, asked.entry)
    withheld = await rebuild(session, asked, agent_key, (), releasable.scopes)
    return _set_aside(releasable.standings, withheld)


async def _check_quarantined(session: Session, asked: Asked, selection: Selection) -> None:
    if selection.observation_id is not None:
        observation = await find(session, asked, selection.observation_id, quarantined=True)
        if observation.status != "quarantined":
            raise InputError(f"{selection.observation_id} isn't quarantined")


async def _releasable(session: Session, agent_key: int, selection: Selection) -> Releasable:
    repository = CorrectionRepository(session, agent_key)
    seeds = {one.key for one in await _chosen(session, agent_key, selection) if one.status == "quarantined"}
    seeds |= {one.key for one in await repository.twins(seeds, "quarantined")} if seeds else set()
    lineage = LineageRepository(session, agent_key)
    derived = await lineage.derived(seeds)
    ledger = await repository.quarantines([*seeds, *derived])
    causes = {observation_id(*key) for key in seeds}
    came_along = {key for key in derived if ledger.get(key, {}).get("because") in causes} - seeds
    going = _free(seeds, came_along, await lineage.quarantined_sources(derived))
    standings = await repository.standings(going)
    return Releasable(tuple(one for one in standings if one.status == "quarantined"), ledger)


def _free(
    seeds: set[ObservationKey], came_along: set[ObservationKey], edges: list[tuple[ObservationKey, ObservationKey]]
) -> set[ObservationKey]:
    """The seeds and what came along; what was made of several stays while any of these is quarantined."""
    going = seeds | came_along
    while bound := {made for made, source in edges if made in going - seeds and source not in going}:
        going -= bound
    return going


async def _released(repository: CorrectionRepository, one: Standing, ledger: Mapping[str, Any]) -> Change:
    """It has the status that it had before; what had superseded it does so still, if that is active."""
    by = ledger.get("superseded_by")
    stands = by is not None and any(s.status == "active" for s in await repository.standings([(one.key[0], by)]))
    before = ledger.get("from", "active")
    if before == "superseded" and by is not None:
        before = "superseded" if stands else "active"
    return Change(one, before, "release", superseded_by=by if stands else None)


def _set_aside(standings: Collection[Standing], withheld: list[int]) -> SetAside:
    return SetAside(observations=tuple(observation_id(*one.key) for one in standings), withheld=tuple(withheld))
