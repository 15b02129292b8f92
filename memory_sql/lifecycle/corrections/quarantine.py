"""Setting observations aside, and taking that back.

What was made of one alone follows (`memory.unsettled`); what was merged of several is erased, as in a forgetting, and
judged again without it. What is quarantined without naming an asking user, an operator has, and ends alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.db import Session
from memory_sql.db.closures import Closure
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.repositories.corrections import Change, CorrectionRepository, Standing
from memory_sql.db.repositories.erasure import ForgettingRepository
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.observations import SetAside
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.lifecycle.corrections.replacing import change, refuse_twins
from memory_sql.lifecycle.corrections.request import Asked, agent_key_for, find
from memory_sql.lifecycle.corrections.retracting import erase_derived, unheld
from memory_sql.lifecycle.corrections.texts import follow, need, rebuild, rewind
from memory_sql.lifecycle.selecting import words_of


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What is to be quarantined, what becomes active again, and what was merged of it and others."""

    standings: tuple[Standing, ...]
    replaced: tuple[Standing, ...]
    closure: Closure

    @property
    def keys(self) -> list[ObservationKey]:
        return [*(one.key for one in self.standings), *self.closure.erased.observations]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings} | self.closure.scopes

    def changes(self, asked: Asked) -> list[Change]:
        by = {"operator": True} if asked.is_operator else {}
        lines, replaced = {one.key: one for one in self.standings}, defaultdict[ObservationKey, list[int]](list)
        for one in self.replaced:
            for later in _line(one, lines):
                replaced[later.key].append(one.key[1])
        going = [
            Change(one, "quarantined", "quarantine", more={**by, **_before(one, replaced.get(one.key, []))})
            for one in self.standings
        ]
        return going + [Change(one, "active", "quarantine") for one in self.replaced]


def _before(one: Standing, replaced: list[int]) -> dict[str, Any]:
    """What its end will have to know, as the event keeps it."""
    before: dict[str, Any] = {"follows": True} if one.follows else successor_of(one)
    return {**before, "replaced": replaced} if replaced else before


def successor_of(one: Standing) -> dict[str, int]:
    """What has superseded it, as the event keeps it."""
    return {} if one.superseded_by is None else {"superseded_by": one.superseded_by}


async def quarantine(session: Session, asked: Asked, selection: Selection) -> SetAside:
    """Quarantines what is chosen and what says the same in its scope; what was made of either goes too (rule 8).

    The texts go back to before they took in any of it. What any of it had superseded is active again.
    """
    if selection.observation_id is not None:
        await find(session, asked, selection.observation_id, aside=("given_up",))
    agent_key = await agent_key_for(session, asked)

    async def act(locks: Locks) -> SetAside:
        poisoned, tainted = await _rewound(session, asked, agent_key, locks, selection)
        await change(session, asked, agent_key, poisoned.changes(asked))
        gone = poisoned.closure.erased.observations
        await PropagationRepository(session, agent_key).reopen(gone, (), asked.now)
        await erase_derived(session, asked, agent_key, poisoned.closure)
        followed, more = await follow(session, asked, agent_key, poisoned.scopes)
        touched = poisoned.scopes | {scope_id for scope_id, _ in followed}
        await ScopeRepository(session).raise_epochs(agent_key, touched)
        withheld = await rebuild(session, asked, agent_key, {*tainted, *more}, touched)
        return _set_aside([*(one.key for one in poisoned.standings), *followed], gone, withheld)

    return await under_locks(session, agent_key, act, shared=True)  # what is merged may be held


async def _rewound(
    session: Session, asked: Asked, agent_key: int, locks: Locks, selection: Selection
) -> tuple[Poisoned, set[int]]:
    """What goes, once no text holds any of it, and the scopes whose texts did."""

    async def look() -> Poisoned:
        poisoned = await _poisoned(session, asked, agent_key, selection)
        await need(session, agent_key, locks, poisoned.scopes, poisoned.closure.conversations)
        return poisoned

    poisoned, tainted = await look(), set[int]()
    while again := await rewind(session, asked, agent_key, poisoned.keys, "quarantine"):
        tainted |= {*again}
        poisoned = await look()  # rewinding makes active what a version had superseded
    return poisoned, tainted


async def _poisoned(session: Session, asked: Asked, agent_key: int, selection: Selection) -> Poisoned:
    repository, lineage = CorrectionRepository(session, agent_key), LineageRepository(session, agent_key)
    chosen = {one.key for one in await _chosen(session, asked, agent_key, selection)}
    chosen |= {one.key for one in await repository.twins(chosen, "active")} if chosen else set()
    standings = await _fresh(repository, asked, chosen)
    merged = await lineage.merged(await lineage.derived([one.key for one in standings])) if standings else ()
    return Poisoned(
        tuple(standings),
        tuple(await superseded_alone(repository, standings)) if standings else (),
        await unheld(session, agent_key, merged),
    )


async def _fresh(repository: CorrectionRepository, asked: Asked, keys: Collection[ObservationKey]) -> list[Standing]:
    """Without what is quarantined already for its own sake: by an operator, or by a user who would do it again."""
    standings = await repository.standings(keys)
    ledger = await repository.quarantines([one.key for one in standings if _is_itself(one)])
    return [
        one
        for one in standings
        if not _is_itself(one) or (asked.is_operator and not ledger.get(one.key, {}).get("operator", False))
    ]


def _is_itself(one: Standing) -> bool:
    """Whether it is quarantined, and not because of what it was made of."""
    return one.status == "quarantined" and not one.follows


async def _chosen(session: Session, asked: Asked, agent_key: int, selection: Selection) -> list[Standing]:
    words = words_of(selection, asked.settings, asked.now)
    selected = await ForgettingRepository(session, agent_key).selected(selection, words)
    standings = await CorrectionRepository(session, agent_key).standings(selected)
    return [one for one in standings if one.status != "withdrawn"]


async def superseded_alone(repository: CorrectionRepository, standings: Collection[Standing]) -> list[Standing]:
    """What these had superseded and is to be active again: unless it goes itself, or something active says the same.

    In a line of corrections what lies before one that is superseded itself has something else in its place, unless that
    goes as well.
    """
    going = {one.key: one for one in standings}
    last = [one.key for one in standings if not _has_successor(one, going)]
    replaced = [one for one in await repository.superseded_by(last) if one.key not in going]
    free = await repository.free([one.key for one in replaced], going) if replaced else ()
    return [one for one in replaced if one.key in free]


def _has_successor(one: Standing, going: Mapping[ObservationKey, Standing]) -> bool:
    """Whether something stays in its place."""
    return [one, *_line(one, going)][-1].status == "superseded"


def _line(one: Standing, going: Mapping[ObservationKey, Standing]) -> Iterator[Standing]:
    """What superseded it, and what superseded that, as far as they go."""
    for _ in going:
        later = going.get((one.key[0], one.superseded_by or 0))
        if later is None:
            return
        yield later
        one = later


@dataclass(frozen=True, slots=True)
class Releasable:
    """What is quarantined for its own sake, with what the events of the quarantine say of each."""

    standings: tuple[Standing, ...]
    ledger: dict[ObservationKey, dict[str, Any]]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings}

    @property
    def keys(self) -> set[ObservationKey]:
        return {one.key for one in self.standings}


async def release(session: Session, asked: Asked, selection: Selection) -> SetAside:
    """Ends a quarantine: what is chosen and what says the same has its old status again, and what was made of it follows.

    What it had superseded it supersedes again, unless that has changed since. Raises `InputError` where an active observation
    says the same by now, or an operator has quarantined it and a user asks.
    """
    agent_key = await agent_key_for(session, asked)
    await _check_quarantined(session, asked, agent_key, selection)

    async def act(locks: Locks) -> SetAside:
        releasable = await _releasable(session, asked, agent_key, selection)
        await need(session, agent_key, locks, releasable.scopes)
        _check_right(asked, releasable)
        repository = CorrectionRepository(session, agent_key)
        changes = [await _released(repository, one, releasable) for one in releasable.standings]
        if active := [one.before.key for one in changes if one.status == "active"]:
            await refuse_twins(repository, active)
        await change(session, asked, agent_key, changes, await _replaced(repository, releasable))
        followed, more = await follow(session, asked, agent_key, releasable.scopes)
        withheld = await rebuild(session, asked, agent_key, more, releasable.scopes)
        return _set_aside({*releasable.keys, *followed}, (), withheld)

    return await under_locks(session, agent_key, act)


async def _check_quarantined(session: Session, asked: Asked, agent_key: int, selection: Selection) -> None:
    wanted = selection.observation_id
    if wanted is None:
        return
    found = await find(session, asked, wanted, aside=("quarantined", "given_up"))
    if found.observation.status != "quarantined":
        raise InputError(f"{wanted} isn't quarantined")
    key = parse_observation_id(wanted)
    (standing,) = await CorrectionRepository(session, agent_key).standings([key])
    if standing.follows:
        sources = await LineageRepository(session, agent_key).quarantined_sources(key)
        names = ", ".join(observation_id(*source) for source in sources)
        raise InputError(f"{wanted} is quarantined because its source is; end the quarantine of {names}")


def _check_right(asked: Asked, releasable: Releasable) -> None:
    theirs = [one for one in releasable.standings if releasable.ledger.get(one.key, {}).get("operator", False)]
    if theirs and not asked.is_operator:
        name = observation_id(*theirs[0].key)
        raise InputError(f"an operator has quarantined {name}; an operator ends that, by a selection without user_id=")


async def _releasable(session: Session, asked: Asked, agent_key: int, selection: Selection) -> Releasable:
    repository = CorrectionRepository(session, agent_key)
    seeds = {one.key for one in await _chosen(session, asked, agent_key, selection) if _is_itself(one)}
    seeds |= {one.key for one in await repository.twins(seeds, "quarantined") if _is_itself(one)} if seeds else set()
    standings = await repository.standings(seeds) if seeds else []
    return Releasable(tuple(standings), await repository.quarantines(seeds) if seeds else {})


async def _released(repository: CorrectionRepository, one: Standing, releasable: Releasable) -> Change:
    """It has the status that it had before; what was superseded is active if what had superseded it doesn't stand.

    What wasn't active because of what it was made of is recomputed from that.
    """
    ledger = releasable.ledger.get(one.key, {})
    by = ledger.get("superseded_by")
    before = "active" if ledger.get("follows", False) else ledger.get("from", "active")
    if before == "superseded" and by is not None and not await _stands(repository, (one.key[0], by), releasable):
        before, by = "active", None
    return Change(one, before, "release", superseded_by=by)


async def _replaced(repository: CorrectionRepository, releasable: Releasable) -> dict[ObservationKey, int]:
    """What these had superseded when they were quarantined, and has been active ever since."""
    by = dict[tuple[int, int, datetime], int]()
    for scope_id, new in sorted(releasable.keys, reverse=True):  # of a line the first one has replaced it
        ledger = releasable.ledger.get((scope_id, new), {})
        by |= {(scope_id, seq, ledger["at"]): new for seq in ledger.get("replaced", ())}
    unchanged = {*await repository.active_since(by)} if by else set()
    return {(scope_id, seq): new for (scope_id, seq, _), new in by.items() if (scope_id, seq) in unchanged}


async def _stands(repository: CorrectionRepository, key: ObservationKey, releasable: Releasable) -> bool:
    """Whether it still supersedes: it isn't gone, nor set aside for its own sake and for longer than this release."""
    if key in releasable.keys:
        return True
    return any(one.status != "withdrawn" and not _is_itself(one) for one in await repository.standings([key]))


def _set_aside(keys: Iterable[ObservationKey], gone: Iterable[ObservationKey], withheld: list[int]) -> SetAside:
    return SetAside(
        observations=tuple(observation_id(*key) for key in sorted({*keys})),
        retracted=tuple(observation_id(*key) for key in gone),
        withheld=tuple(withheld),
    )
