"""Setting observations aside, and taking that back.

What was made of one alone follows (`memory.unsettled`); what was merged of several is erased, as in a forgetting, and
judged again without it. What is quarantined without naming an asking user, an operator has, and ends alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_sql.db import Session
from memory_sql.db.closures import Closure
from memory_sql.db.locks import Locks, under_locks
from memory_sql.db.queries.quarantines import quarantines
from memory_sql.db.queries.requests import REQUEST
from memory_sql.db.queries.selections import Selections
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.corrections import Change, CorrectionRepository, Standing
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.lines import LineRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.observations import SET_ASIDE, SetAside
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.lifecycle.corrections.replacing import change, refuse_twins, stand_again
from memory_sql.lifecycle.corrections.request import Asked, agent_key_for, find
from memory_sql.lifecycle.corrections.retracting import erase_derived, unheld
from memory_sql.lifecycle.corrections.texts import follow, need, rebuild, rewind
from memory_sql.lifecycle.selecting import words_of


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What is to be quarantined, and what was merged of it and others."""

    standings: tuple[Standing, ...]
    closure: Closure

    @property
    def keys(self) -> list[ObservationKey]:
        return [*(one.key for one in self.standings), *self.closure.erased.observations]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings} | self.closure.scopes

    def changes(self, asked: Asked, request: str | None) -> list[Change]:
        by: dict[str, Any] = {"operator": True} if asked.is_operator else {}
        by |= {} if request is None else {REQUEST: request}
        return [
            Change(one, "quarantined", "quarantine", superseded_by=one.superseded_by, more={**by, **_before(one)})
            for one in self.standings
        ]


def _before(one: Standing) -> dict[str, Any]:
    """What its end will have to know, as the event keeps it."""
    return {"follows": True} if one.follows else successor_of(one)


def successor_of(one: Standing) -> dict[str, int]:
    """What has superseded it, as the event keeps it."""
    return {} if one.superseded_by is None else {"superseded_by": one.superseded_by}


async def quarantine(session: Session, asked: Asked, selection: Selection, *, is_request: bool = False) -> SetAside:
    """Quarantines what is chosen and what says the same in its scope; what was made of either goes too (rule 8).

    The texts go back to before they took in any of it. What any of it had superseded is active again.
    """
    if selection.observation_id is not None:
        await _status_of(session, asked, selection, selection.observation_id, aside=("given_up",))
    agent_key = await agent_key_for(session, asked)

    async def act(locks: Locks) -> SetAside:
        return await quarantine_under(session, asked, locks, selection, is_request=is_request)

    return await under_locks(session, agent_key, act, shared=True)  # what is merged may be held


async def quarantine_under(
    session: Session, asked: Asked, locks: Locks, selection: Selection, *, is_request: bool = False
) -> SetAside:
    """As `quarantine`, under the locks of the caller, of which the agent is shared; what more it needs, it says to them."""
    agent_key, request = locks.agent_key, selection.observation_id if is_request else None
    poisoned, tainted = await _rewound(session, asked, agent_key, locks, selection)
    await change(session, asked, agent_key, poisoned.changes(asked, request))
    back = await stand_again(session, asked, agent_key, {one.key[0] for one in poisoned.standings})
    gone = poisoned.closure.erased.observations
    await PropagationRepository(session, agent_key).reopen(gone, (), asked.now)
    await erase_derived(session, asked, agent_key, poisoned.closure)
    followed, more = await follow(session, asked, agent_key, poisoned.scopes)
    touched = poisoned.scopes | {scope_id for scope_id, _ in followed}
    await ScopeRepository(session).raise_epochs(agent_key, touched)
    withheld = await rebuild(session, asked, agent_key, {*tainted, *more}, touched)
    standing = await CorrectionRepository(session, agent_key).in_use({*back, *followed})
    aside = {*(one.key for one in poisoned.standings), *followed}.difference(standing)
    return _set_aside(aside, gone, withheld, standing)


async def _status_of(
    session: Session, asked: Asked, selection: Selection, wanted: str, *, aside: Collection[str]
) -> str:
    """Of what the user may see; with a user in the selection, of what is theirs or what they alone have said.

    Raises `NotFoundError`, also for what is set aside otherwise than in one of these states.
    """
    if selection.user_id is None:
        return (await find(session, asked, wanted, aside=aside)).observation.status
    agent_key = await agent_key_of(session, asked.agent_id)
    alone = selection.model_copy(update={"replaced": False})
    standings = [] if agent_key is None else await _chosen(session, asked, agent_key, alone)
    if not standings or (standings[0].status in SET_ASIDE and standings[0].status not in aside):
        raise NotFoundError("observation", wanted)
    return standings[0].status


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
    chosen |= {*await repository.with_parts(chosen)}
    chosen |= {one.key for one in await repository.twins(chosen, "active")} if chosen else set()
    standings = await _fresh(session, asked, agent_key, chosen)
    merged = await lineage.merged(await lineage.derived([one.key for one in standings])) if standings else ()
    return Poisoned(tuple(standings), await unheld(session, agent_key, merged))


async def _fresh(session: Session, asked: Asked, agent_key: int, keys: Collection[ObservationKey]) -> list[Standing]:
    """Without what is quarantined already for its own sake: by an operator, or by a user who would do it again."""
    standings = await CorrectionRepository(session, agent_key).standings(keys)
    ledger = await quarantines(session, agent_key, [one.key for one in standings if _is_itself(one)])
    return [
        one
        for one in standings
        if not _is_itself(one) or (asked.is_operator and not ledger.get(one.key, {}).get("operator", False))
    ]


def _is_itself(one: Standing) -> bool:
    """Whether it is quarantined, and not because of what it was made of."""
    return one.status == "quarantined" and not one.follows


async def _chosen(session: Session, asked: Asked, agent_key: int, selection: Selection) -> list[Standing]:
    """Raises `InvalidIdError` if nothing is found and an id isn't written as ids are stored."""
    words = words_of(selection, asked.settings, asked.now)
    selected = await Selections(session, agent_key).chosen(selection, words)
    if not selected and (refused := selection.refused) is not None:
        raise refused
    standings = await CorrectionRepository(session, agent_key).standings(selected)
    return [one for one in standings if one.status != "withdrawn"]


def _line(one: Standing, ahead: Mapping[ObservationKey, Standing]) -> Iterator[Standing]:
    """What superseded it, and what superseded that, and so on."""
    for _ in ahead:
        later = ahead.get((one.key[0], one.superseded_by or 0))
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
    says the same by now, or an operator has quarantined it and a user asks. An operator may name one observation.
    """
    agent_key = await agent_key_for(session, asked)

    async def act(locks: Locks) -> SetAside:
        return await release_under(session, asked, locks, selection)

    await _check_quarantined(session, asked, agent_key, selection)
    return await under_locks(session, agent_key, act)


async def release_under(session: Session, asked: Asked, locks: Locks, selection: Selection) -> SetAside:
    """As `release`, of what is quarantined, under the locks of the caller; what more it needs, it says to them."""
    agent_key = locks.agent_key
    releasable = await _releasable(session, asked, agent_key, selection)
    await need(session, agent_key, locks, releasable.scopes)
    _check_right(asked, releasable)
    changes = await _released(session, agent_key, releasable)
    standing = [one.before.key for one in changes if one.status != "archived" or one.before.is_resolved]
    replaced = await _replaced(session, agent_key, standing)
    if active := [one.before.key for one in changes if one.status == "active"]:
        await refuse_twins(CorrectionRepository(session, agent_key), active, but=replaced)
    await change(session, asked, agent_key, changes, replaced)
    await stand_again(session, asked, agent_key, releasable.scopes)  # what said the same as something released
    followed, more = await follow(session, asked, agent_key, releasable.scopes)
    withheld = await rebuild(session, asked, agent_key, more, releasable.scopes)
    return _set_aside({*releasable.keys, *followed}, (), withheld)


async def _check_quarantined(session: Session, asked: Asked, agent_key: int, selection: Selection) -> None:
    wanted = selection.observation_id
    if wanted is None or asked.is_operator:
        return
    status = await _status_of(session, asked, selection, wanted, aside=("quarantined", "given_up"))
    if status != "quarantined":
        raise InputError(f"{wanted} isn't quarantined")
    key = parse_observation_id(wanted)
    standings = await CorrectionRepository(session, agent_key).standings([key])
    if not standings:  # nothing is locked yet: it was forgotten meanwhile
        raise NotFoundError("observation", wanted)
    if standings[0].follows:
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
    seeds |= {*await repository.with_parts(seeds)}
    seeds |= {one.key for one in await repository.twins(seeds, "quarantined")} if seeds else set()
    seeds = {one.key for one in await repository.standings(seeds) if _is_itself(one)} if seeds else set()
    standings = await repository.standings(seeds) if seeds else []
    return Releasable(tuple(standings), await quarantines(session, agent_key, seeds) if seeds else {})


async def _released(session: Session, agent_key: int, releasable: Releasable) -> list[Change]:
    """Each has the status that it had before; but it is superseded if anything after it in its line stands, else active.

    What wasn't active because of what it was made of is recomputed from that.
    """
    repository = CorrectionRepository(session, agent_key)
    ahead = await repository.ahead(releasable.keys) if releasable.keys else {}
    changes = [_as_before(one, releasable, ahead) for one in releasable.standings]
    return await _one_of_each(repository, releasable, changes)


def _as_before(one: Standing, releasable: Releasable, ahead: Mapping[ObservationKey, Standing]) -> Change:
    ledger = releasable.ledger.get(one.key, {})
    before = "active" if ledger.get("follows", False) else ledger.get("from", "active")
    if before in ("active", "superseded") and one.superseded_by is not None:
        before = "superseded" if any(_stands(later, releasable) for later in _line(one, ahead)) else "active"
    elif before == "superseded" and "superseded_by" in ledger:  # by what is gone
        before = "active"
    return Change(one, before, "release", superseded_by=one.superseded_by)


async def _one_of_each(
    repository: CorrectionRepository, releasable: Releasable, changes: Sequence[Change]
) -> list[Change]:
    """Of those that stand without what had superseded them, and say the same as another, only the newest does (rule 9)."""
    had = {key for key, told in releasable.ledger.items() if "superseded_by" in told}
    active = [one for one in changes if one.status == "active"]
    if len(active) < 2 or had.isdisjoint(one.before.key for one in active):
        return [*changes]
    texts = await repository.texts([one.before.key for one in active])
    ordered = sorted(active, key=lambda one: (one.before.key not in had, one.before.key))
    last = {(one.before.key[0], text): one.before.key[1] for one in ordered if (text := texts[one.before.key])}

    def settled(one: Change) -> Change:
        (scope_id, seq), text = one.before.key, texts.get(one.before.key)
        newest = last[scope_id, text] if text else seq
        if newest == seq or one.before.key not in had:
            return one
        return replace(one, status="superseded", superseded_by=one.superseded_by or newest)

    return [settled(one) for one in changes]


async def _replaced(session: Session, agent_key: int, keys: Collection[ObservationKey]) -> dict[ObservationKey, int]:
    """What is active only since these, and what lies between in the line, are quarantined."""
    lines, replaced = LineRepository(session), dict[ObservationKey, int]()
    touched = await CorrectionRepository(session, agent_key).with_lines({scope_id for scope_id, _ in keys})
    for scope in await ScopeRepository(session).lock(agent_key, scope_ids=touched) if touched else ():
        seqs = [seq for scope_id, seq in keys if scope_id == scope.scope_id]
        replaced |= {(scope.scope_id, seq): by for seq, by in (await lines.behind(scope, seqs)).items()}
    return replaced


def _stands(one: Standing, releasable: Releasable) -> bool:
    """Whether it supersedes: nobody's who has left, nor set aside for its own sake and for longer than this release."""
    is_left = one.status == "archived" and not one.is_resolved
    return one.key in releasable.keys or not (is_left or one.status == "withdrawn" or _is_itself(one))


def _set_aside(
    keys: Iterable[ObservationKey],
    gone: Iterable[ObservationKey],
    withheld: list[int],
    standing: Iterable[ObservationKey] = (),
) -> SetAside:
    return SetAside(
        observations=tuple(observation_id(*key) for key in sorted({*keys})),
        retracted=tuple(observation_id(*key) for key in gone),
        withheld=tuple(withheld),
        standing=tuple(observation_id(*key) for key in standing),
    )
