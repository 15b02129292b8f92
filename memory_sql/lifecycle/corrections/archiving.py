"""Archiving what somebody leaves behind in a group, and erasing what was made of it elsewhere."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memory_sql.db import Session
from memory_sql.db.closures import Closure
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.repositories.corrections import Change, CorrectionRepository, Standing
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.lines import LineRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.supports import SupportRepository
from memory_sql.domain.ids import observation_id
from memory_sql.lifecycle.corrections.quarantine import successor_of
from memory_sql.lifecycle.corrections.replacing import change, stand_again
from memory_sql.lifecycle.corrections.request import Asked
from memory_sql.lifecycle.corrections.retracting import Choose, closure_of, erase_derived
from memory_sql.lifecycle.corrections.texts import need, rebuild, rewind

_TO_ARCHIVE = ("active", "given_up")  # the others stay as they are


@dataclass(frozen=True, slots=True)
class Departing:
    """What is to be archived in some scopes, and what was made of it in other scopes.

    `gave_way`: to what each of some of them had given way before, as the word of somebody who had left since.
    """

    scope_ids: tuple[int, ...]
    standings: tuple[Standing, ...]
    closure: Closure
    gave_way: Mapping[ObservationKey, int]

    @property
    def keys(self) -> list[ObservationKey]:
        return [*(one.key for one in self.standings), *self.closure.going.observations]

    @property
    def scopes(self) -> set[int]:
        return {*self.scope_ids} | self.closure.scopes

    @property
    def archived(self) -> list[ObservationKey]:
        return [one.key for one in self.standings if one.status in _TO_ARCHIVE and one.key not in self.gave_way]

    @property
    def changes(self) -> list[Change]:
        return [self._change(one) for one in self.standings if not _may_return(one)]

    def _change(self, one: Standing) -> Change:
        if one.key in self.gave_way:
            return Change(one, "superseded", "leave", superseded_by=self.gave_way[one.key])
        status = "archived" if one.status in _TO_ARCHIVE else one.status
        return Change(one, status, "leave", more=successor_of(one))

    @property
    def noted(self) -> list[Change]:
        """What gave way stays so, else a search would find it again. Once it would be in use again, it is archived."""
        return [Change(one, one.status, "leave", more=successor_of(one)) for one in self.standings if _may_return(one)]


@dataclass(frozen=True, slots=True)
class Archived:
    """The ids of what was archived, and of what was made of it and erased, or withdrawn since a legal hold keeps it."""

    observations: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    withheld: tuple[int, ...] = ()

    def told(self, waits: str) -> dict[str, Any]:
        """As the event keeps it."""
        waiting = {"id": waits, "withdrawn": list(self.withdrawn)} if self.withdrawn else {}
        return {"archived": list(self.observations), "retracted": list(self.retracted), **waiting}

    def told_if_any(self, waits: str) -> dict[str, Any]:
        return self.told(waits) if self.observations or self.retracted or self.withdrawn else {}

    def __or__(self, other: Archived) -> Archived:
        both = ((*getattr(self, name), *getattr(other, name)) for name in self.__dataclass_fields__)
        return Archived(*(tuple(sorted({*each})) for each in both))


async def archive(
    session: Session, asked: Asked, agent_key: int, scope_ids: Collection[int], choose: Choose, waits: str
) -> Archived:
    """Archives what `choose` returns in these scopes; what was made of it elsewhere is erased, or withdrawn.

    `choose` is called again under the locks. The texts go back to before they took in any of it, and are to be rebuilt.
    Whatever a model is making just now of what these scopes hold is refused, also where nothing is chosen. What a legal
    hold keeps waits for its end by the id `waits`.
    """

    async def act(locks: Locks) -> Archived:
        return await archive_under(session, asked, locks, scope_ids, choose, waits)

    return await under_locks(session, agent_key, act)


async def archive_under(
    session: Session, asked: Asked, locks: Locks, scope_ids: Collection[int], choose: Choose, waits: str
) -> Archived:
    """As `archive`, under the locks of the caller; what more it needs, it says to them."""
    agent_key = locks.agent_key
    found, tainted = await _rewound(session, asked, agent_key, locks, scope_ids, choose)
    await _pass_on(session, agent_key, found)
    await change(session, asked, agent_key, found.changes)
    await CorrectionRepository(session, agent_key).note(found.noted, asked.entry)
    await _pass_over(session, agent_key, found.archived)
    await stand_again(session, asked, agent_key, {one.key[0] for one in found.standings})
    await PropagationRepository(session, agent_key).reopen(found.closure.going.observations, found.keys, asked.now)
    await erase_derived(session, asked, agent_key, found.closure, waits)
    await ScopeRepository(session).raise_epochs(agent_key, found.scopes)
    return _archived(found, await rebuild(session, asked, agent_key, tainted, found.scopes))


async def archive_unsupported(
    session: Session, asked: Asked, locks: Locks, keys: Collection[ObservationKey], action: str
) -> Archived:
    """Archives those of these that only former members of a group support, now that they have lost what else did.

    As when those had left later; the event says by what `action` it was lost. What more it needs, it says to the locks.
    """
    supports, waits = SupportRepository(session, locks.agent_key), str(uuid.uuid4())
    found = await supports.without_support(keys) if keys else ()
    if not found:
        return Archived()
    scope_ids = {scope_id for scope_id, _ in found}
    archived = await archive_under(session, asked, locks, scope_ids, partial(supports.without_support, keys), waits)
    detail = {"action": action, **archived.told(waits)}
    await record(session, locks.agent_key, "membership", asked.now, actor=asked.actor, detail=detail)
    return archived


async def leave_what_is_strange(
    session: Session, asked: Asked, agent_key: int, people: Sequence[Sequence[str]], waits: str
) -> Archived:
    """Archives what each of these people, given by all their ids, has in groups to which they don't belong.

    They belonged through another id. What was kept when they left such a group themselves stays as it is.
    """
    supports = SupportRepository(session, agent_key)
    strange = [(scope_id, users) for users in people if users for scope_id in await supports.strange_to(users)]

    async def choose() -> list[ObservationKey]:
        found = [await supports.only_of([scope_id], users) for scope_id, users in strange]
        return sorted({key for keys in found for key in keys})

    if not await choose():
        return Archived()
    return await archive(session, asked, agent_key, {scope_id for scope_id, _ in strange}, choose, waits)


def _may_return(one: Standing) -> bool:
    """Whether it is superseded, or only follows its sources."""
    return one.status == "superseded" or (one.follows and one.status not in _TO_ARCHIVE)


def _archived(found: Departing, withheld: list[int]) -> Archived:
    return Archived(
        observations=tuple(observation_id(*key) for key in found.archived),
        retracted=tuple(observation_id(*key) for key in found.closure.erased.observations),
        withdrawn=tuple(observation_id(*key) for key in found.closure.withdrawn.observations),
        withheld=tuple(withheld),
    )


async def _pass_on(session: Session, agent_key: int, found: Departing) -> None:
    """What was superseded before by what goes stays superseded by the next in its line, as when that is forgotten."""
    going = _by_scope((*found.archived, *found.gave_way))
    for state in await ScopeRepository(session).lock(agent_key, scope_ids=sorted(going)) if going else ():
        links = {seq: by for (scope_id, seq), by in found.gave_way.items() if scope_id == state.scope_id}
        await LineRepository(session).pass_on(state, going[state.scope_id], links)


async def _pass_over(session: Session, agent_key: int, archived: Collection[ObservationKey]) -> None:
    by_scope = _by_scope(archived)
    for state in await ScopeRepository(session).lock(agent_key, scope_ids=sorted(by_scope)) if by_scope else ():
        await LineRepository(session).pass_over(state, by_scope[state.scope_id])


def _by_scope(keys: Iterable[ObservationKey]) -> Mapping[int, list[int]]:
    by_scope = defaultdict[int, list[int]](list)
    for scope_id, seq in keys:
        by_scope[scope_id].append(seq)
    return by_scope


async def _rewound(
    session: Session, asked: Asked, agent_key: int, locks: Locks, scope_ids: Collection[int], choose: Choose
) -> tuple[Departing, set[int]]:
    """What goes, once no text holds any of it, and the scopes whose texts did."""

    async def look() -> Departing:
        departing = await _departing(session, agent_key, scope_ids, set(await choose()))
        await need(session, agent_key, locks, departing.scopes, departing.closure.conversations)
        return departing

    found, tainted = await look(), set[int]()
    while again := await rewind(session, asked, agent_key, found.keys, "leave"):
        tainted |= set(again)
        found = await look()  # rewinding makes active what a version had superseded
    return found, tainted


async def _departing(
    session: Session, agent_key: int, scope_ids: Collection[int], going: set[ObservationKey]
) -> Departing:
    repository = CorrectionRepository(session, agent_key)
    derived = await LineageRepository(session, agent_key).derived(going) if going else ()
    standings = await repository.standings(going) if going else []
    in_use = [one.key for one in standings if one.status == "active"]
    return Departing(
        tuple(sorted(scope_ids)),
        tuple(standings),
        await closure_of(session, agent_key, [key for key in derived if key not in going]),
        await SupportRepository(session, agent_key).gave_way_before(in_use) if in_use else {},
    )
