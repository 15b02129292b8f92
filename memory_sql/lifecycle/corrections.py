"""Correcting what is remembered: replaced, confirmed, disputed, kept private, set aside. Its text never changes.

Each works in one transaction under the locks of the scopes concerned, is written down with who did it and why, and shows
in the next context. A text that holds what was corrected is told anew soon, whatever the threshold: until then the
context shows the correction beside it, or, where something has to leave at once, the text as it was before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.principals import Principal, service
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.corrections import Change, CorrectionRepository, Entry, Key, Standing
from memory_sql.db.repositories.erasure import Closure, ForgettingRepository, Seeds
from memory_sql.db.repositories.observations import SENSITIVITIES, Draft, Evidence, ObservationRepository
from memory_sql.db.repositories.propagations import PropagationRepository
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.observations import Marked, Observation, Sensitivity, SetAside, Verification
from memory_sql.domain.selection import Selection
from memory_sql.errors import HeldError, InputError, NotFoundError, VersionError


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, as `db` takes it; what they may not see isn't there."""

    principal: Mapping[str, Any]
    actor: str | None
    reason: str | None
    settings: Settings
    now: datetime

    @property
    def agent_id(self) -> str:
        return str(self.principal["agent_id"])

    @property
    def service(self) -> Principal:
        """The library works for the agent; what the user may see is asked for by each statement."""
        return service(self.principal["agent_id"])

    @property
    def entry(self) -> Entry:
        return Entry(self.actor or self.principal["user_id"], self.reason, self.now)


@dataclass(frozen=True, slots=True)
class Held:
    """An observation in its scope, which is locked."""

    agent_key: int
    scope: ScopeState
    observation: Observation

    @property
    def key(self) -> Key:
        return parse_observation_id(self.observation.id)

    @property
    def standing(self) -> Standing:
        by = self.observation.superseded_by
        return Standing(self.key, self.observation.status, None if by is None else parse_observation_id(by)[1])


async def _find(session: Session, asked: Asked, wanted: str, *, quarantined: bool = False) -> Observation:
    """Raises `NotFoundError`, after the same statements, for what isn't there and for what the principal may not see."""
    found = await ObservationRepository(session).find(asked.principal, *parse_observation_id(wanted))
    if found is None or (found.status == "quarantined" and not quarantined):
        raise NotFoundError("observation", wanted)
    return found


async def _hold(session: Session, asked: Asked, wanted: str, if_version: int | None = None) -> Held:
    """The observation, looked at again under its scope's lock. Raises `NotFoundError`, `VersionError`."""
    await _find(session, asked, wanted)
    agent_key = await _agent(session, asked)
    (scope,) = await ScopeRepository(session).lock(agent_key, scope_ids=[parse_observation_id(wanted)[0]])
    observation = await _find(session, asked, wanted)
    if if_version is not None and observation.version != if_version:
        raise VersionError(wanted, observation.version, f"has version {observation.version}, not {if_version}")
    return Held(agent_key, scope, observation)


async def _agent(session: Session, asked: Asked) -> int:
    agent_key = await agent_key_of(session, asked.principal["agent_id"])
    if agent_key is None:
        raise NotFoundError("agent", asked.principal["agent_id"])
    return agent_key


def _must_be_active(observation: Observation) -> None:
    if observation.status != "active":
        by = f" by {observation.superseded_by}" if observation.superseded_by else ""
        raise VersionError(
            observation.id, observation.version, f"is {observation.status}{by}", by=observation.superseded_by
        )


async def update(
    session: Session,
    asked: Asked,
    wanted: str,
    text: str,
    tags: tuple[str, ...] | None,
    metadata: Mapping[str, Any] | None,
    if_version: int | None,
) -> Observation:
    """A new observation in the place of the old one: on the word of who corrects, made of what the old one was made of."""
    held = await _hold(session, asked, wanted, if_version)
    old, scope = held.observation, held.scope
    _must_be_active(old)
    if text == old.content:
        raise InputError(f"{wanted} says so already")
    if not scope.is_active:
        raise InputError(f"scope {scope.scope_id} is inactive")
    observations = ObservationRepository(session)
    saved = await observations.save(
        held.agent_key,
        [_corrected(held, asked, text, tags, metadata)],
        [scope],
        run_id=None,
        now=asked.now,
        replaced=held.key,
    )
    (key,) = saved.stored or saved.known
    (new,) = await observations.by_keys(held.agent_key, [key])
    if new.status == "quarantined":
        raise InputError("this very text is quarantined in this scope")
    repository = CorrectionRepository(session, held.agent_key)
    await repository.inherit_lineage(scope.scope_id, held.key[1], key[1], asked.now)
    await repository.record("correction", held.key, {"by": new.id}, asked.entry)
    await _put_in_place(session, asked, held, key)
    return (await observations.by_keys(held.agent_key, [key]))[0]


def _corrected(
    held: Held, asked: Asked, text: str, tags: tuple[str, ...] | None, metadata: Mapping[str, Any] | None
) -> Draft:
    old, scope = held.observation, held.scope
    return Draft(
        scope=NewScope(scope.kind, scope.owner, scope.name),
        content=text,
        observed_at=asked.now,
        source_kind="observe",
        evidence=(Evidence(user_id=asked.principal["user_id"]),),
        session_id=old.source.session_id,  # forgetting the conversation takes its corrections along
        sensitivity=old.sensitivity,
        no_propagate=old.no_propagate,
        confidential=old.confidential,
        tags=old.tags if tags is None else tags,
        metadata=old.metadata if metadata is None else metadata,
        fact_key=old.fact_key,
    )


async def supersede(session: Session, asked: Asked, old_id: str, new_id: str, if_version: int | None) -> Observation:
    """The old one, in whose place the new one stands. Newer is what was said later: so there are no cycles."""
    new = await _find(session, asked, new_id)
    held = await _hold(session, asked, old_id, if_version)
    old, new = held.observation, await _find(session, asked, new.id)
    if new.scope.id != old.scope.id:
        raise InputError(f"{new_id} is of another scope than {old_id}")
    _must_be_active(old)
    _must_be_active(new)
    key = parse_observation_id(new.id)
    if (new.observed_at, key) <= (old.observed_at, held.key):
        raise InputError(f"{new_id} isn't newer than {old_id}")
    await _put_in_place(session, asked, held, key)
    return (await ObservationRepository(session).by_keys(held.agent_key, [held.key]))[0]


async def _put_in_place(session: Session, asked: Asked, held: Held, new: Key) -> None:
    """The held one is superseded. A text that holds it is to be told anew with the new one, which has to wait for that."""
    entry = asked.entry
    await StateRepository(session).supersede(
        held.scope, {held.key[1]: new[1]}, asked.now, actor=entry.actor, reason=entry.reason
    )
    await _tell_with(session, asked.settings, asked.now, held.scope, [held.key], [new])


async def _tell_with(
    session: Session,
    settings: Settings,
    now: datetime,
    scope: ScopeState,
    told: Collection[Key],
    new: Collection[Key],
) -> None:
    """If the scope's text holds any of `told`, it is told anew with `new`, which its text doesn't hold till then."""
    repository, scopes = ForgettingRepository(session, scope.agent_key), ScopeRepository(session)
    await CorrectionRepository(session, scope.agent_key).take_lease(scope)
    if await _first_holding(repository, told):
        for version in (await _first_holding(repository, new)).values():
            await ConsolidationRepository(session).rewind(scope, version, "retract", now)
        await repository.await_rebuild([scope.scope_id])
    await scopes.refresh_due(scope.agent_key, [scope.scope_id], settings.consolidation_threshold, now)


async def _first_holding(repository: ForgettingRepository, keys: Collection[Key]) -> dict[int, int]:
    """For each scope whose text holds any of these, the first live version that does."""
    return await repository.first_tainted((), Closure(tuple(sorted(keys)), (), (), 0, 0))


async def reinstate(session: Session, asked: Asked, wanted: str, if_version: int | None) -> Observation:
    """Superseding is taken back: both stand. The text is as it was before it took in what had taken its place."""
    held = await _hold(session, asked, wanted, if_version)
    if held.observation.status != "superseded":
        raise InputError(f"{wanted} isn't superseded")
    repository = CorrectionRepository(session, held.agent_key)
    await _refuse_twins(repository, [held.key])
    line = await repository.successors(held.standing)
    await repository.change([Change(held.standing, "active", "reinstate")], asked.entry)
    await _tell_with(session, asked.settings, asked.now, held.scope, line, line)
    return (await ObservationRepository(session).by_keys(held.agent_key, [held.key]))[0]


async def _refuse_twins(repository: CorrectionRepository, keys: Collection[Key]) -> None:
    if twins := await repository.twins(keys, "active"):
        raise InputError(f"{observation_id(*twins[0].key)} says the same and is active")


async def replace_fact(
    session: Session, agent_key: int, scope: ScopeState, fact_key: str, settings: Settings, now: datetime
) -> None:
    """Of what is active of the fact only what was so last stays. A rule of ours: no actor."""
    repository = CorrectionRepository(session, agent_key)
    *older, newest = await repository.of_fact(scope.scope_id, fact_key)
    if older:
        await StateRepository(session).supersede(scope, {one.key[1]: newest.key[1] for one in older}, now)
        await _tell_with(session, settings, now, scope, [one.key for one in older], [newest.key])


async def verify(
    session: Session, asked: Asked, wanted: str, verification: Verification, if_version: int | None
) -> Observation:
    """Confirmed or disputed, on the person's word. What is confirmed gains evidence."""
    held = await _hold(session, asked, wanted, if_version)
    _must_be_active(held.observation)
    repository = CorrectionRepository(session, held.agent_key)
    await repository.verify(held.key, held.observation.verification, verification, asked.entry)
    if verification == "confirmed":
        await repository.add_word(held.key, asked.principal["user_id"], asked.now)
    return (await ObservationRepository(session).by_keys(held.agent_key, [held.key]))[0]


async def mark(
    session: Session,
    asked: Asked,
    wanted: str,
    private: bool | None,
    sensitivity: Sensitivity | None,
    if_version: int | None,
) -> Marked:
    """Sets how private it is, and what it has taken the place of. What becomes more private is taken out of where it
    has spread: all that was made of it, and the texts that hold that. Raises `HeldError` where a legal hold keeps it."""
    if private is None and sensitivity is None:
        raise InputError("say private= or sensitivity=")
    await _find(session, asked, wanted)
    agent_key = await _agent(session, asked)
    spread = await _locked(session, agent_key, lambda: _spread(session, agent_key, parse_observation_id(wanted)))
    held = await _hold(session, asked, wanted, if_version)
    repository = CorrectionRepository(session, agent_key)
    values = _values(private, sensitivity)
    raised = any(_is_raised(now, values) for now in await repository.privacy(spread.line))
    withheld = await _retract(session, asked, agent_key, spread) if raised else []
    await repository.set_privacy(spread.line, values)
    retracted = [observation_id(*key) for key in spread.closure.observations] if raised else []
    detail = {"from": _privacy_of(held.observation), "to": values, "retracted": retracted}
    await repository.record("privacy", held.key, detail, asked.entry)
    (observation,) = await ObservationRepository(session).by_keys(agent_key, [held.key])
    return Marked(observation=observation, retracted=tuple(retracted), withheld=tuple(withheld))


def _values(private: bool | None, sensitivity: Sensitivity | None) -> dict[str, Any]:
    values = {"no_propagate": private, "confidential": private, "sensitivity": sensitivity}
    return {name: value for name, value in values.items() if value is not None}


def _privacy_of(observation: Observation) -> dict[str, Any]:
    return {name: getattr(observation, name) for name in ("no_propagate", "confidential", "sensitivity")}


def _is_raised(now: tuple[bool, bool, str], values: Mapping[str, Any]) -> bool:
    no_propagate, confidential, sensitivity = now
    wanted = values.get("sensitivity", sensitivity)
    return (
        values.get("no_propagate", False) > no_propagate
        or values.get("confidential", False) > confidential
        or SENSITIVITIES.index(wanted) > SENSITIVITIES.index(sensitivity)
    )


@dataclass(frozen=True, slots=True)
class Spread:
    """An observation with what it has taken the place of, and all that was made of these."""

    line: tuple[Key, ...]
    closure: Closure

    @property
    def scopes(self) -> set[int]:
        return {scope_id for scope_id, _ in self.line} | self.closure.scopes


async def _spread(session: Session, agent_key: int, key: Key) -> Spread:
    """What was made of several goes with any of them, as in forgetting; the words that it was made of stay."""
    repository = CorrectionRepository(session, agent_key)
    line = await repository.with_predecessors(key)
    derived = await repository.derived(line)
    return Spread(line, await ForgettingRepository(session, agent_key).closure(Seeds(observations=derived)))


async def _retract(session: Session, asked: Asked, agent_key: int, spread: Spread) -> list[int]:
    """Takes out what was made of it; says which scopes are to be told anew."""
    if spread.closure.held_observations:
        raise HeldError(spread.closure.held_observations)
    tainted = await _rewind(session, asked, agent_key, spread.closure.observations, "retract")
    propagations = PropagationRepository(session, agent_key)
    await propagations.reopen(spread.closure.observations, spread.line, asked.now)
    await propagations.detach(spread.line)
    await _erase_derived(session, asked, agent_key, spread.closure)
    await CorrectionRepository(session, agent_key).raise_epochs({scope_id for scope_id, _ in spread.line})
    return await _rebuild(session, asked, agent_key, tainted, spread.scopes)


async def withdraw(
    session: Session, asked: Asked, agent_key: int, choose: Callable[[], Awaitable[Collection[Key]]]
) -> tuple[str, ...]:
    """Takes out what `choose` finds, as often as it is asked, with all that was made of it; it is judged anew.

    What a legal hold keeps stays. Says what has gone.
    """

    async def look() -> Spread:
        closure = await ForgettingRepository(session, agent_key).closure(Seeds(observations=tuple(await choose())))
        return Spread((), closure)

    if not await choose():
        return ()
    found = await _locked(session, agent_key, look)
    going = found.closure.observations
    tainted = await _rewind(session, asked, agent_key, going, "retract")
    await PropagationRepository(session, agent_key).reopen(going, (), asked.now)
    await _erase_derived(session, asked, agent_key, found.closure)
    await _rebuild(session, asked, agent_key, tainted, found.scopes)
    return tuple(observation_id(*key) for key in going)


async def _rewind(session: Session, asked: Asked, agent_key: int, keys: Collection[Key], reason: str) -> list[int]:
    """Takes the versions that hold any of these out of the texts, and says of which scopes."""
    scopes = ScopeRepository(session)
    tainted = await _first_holding(ForgettingRepository(session, agent_key), keys)
    for state in await scopes.lock(agent_key, scope_ids=tainted) if tainted else ():
        await ConsolidationRepository(session).rewind(state, tainted[state.scope_id], reason, asked.now)
    return list(tainted)


async def _rebuild(
    session: Session, asked: Asked, agent_key: int, tainted: Collection[int], touched: Iterable[int]
) -> list[int]:
    withheld = await ForgettingRepository(session, agent_key).await_rebuild(list(tainted))
    threshold = asked.settings.consolidation_threshold
    await ScopeRepository(session).refresh_due(agent_key, sorted(touched), threshold, asked.now)
    return withheld


async def _locked(session: Session, agent_key: int, look: Callable[[], Awaitable[Any]]) -> Any:
    """What `look` finds, looked at again under the locks on its `scopes` until nothing is added."""
    found = await look()
    while True:
        await ScopeRepository(session).lock(agent_key, scope_ids=sorted(found.scopes))
        again = await look()
        if again == found:
            return found
        found = again


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What is to be set aside, because of which of the chosen where it isn't one, and what stands again then."""

    because: dict[Key, Key]
    standings: tuple[Standing, ...]
    replaced: tuple[Standing, ...]

    @property
    def fresh(self) -> list[Standing]:
        return [one for one in self.standings if one.status != "quarantined"]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings}


async def quarantine(session: Session, asked: Asked, selection: Selection) -> SetAside:
    """Sets aside what is chosen, what says the same in its scope, and all that was made of either (rule 8).

    The texts are as they were before they took any of it in. That whose place it had taken stands again.
    """
    if selection.observation_id is not None:
        await _find(session, asked, selection.observation_id)
    agent_key = await _agent(session, asked)
    poisoned = await _locked(session, agent_key, lambda: _poisoned(session, agent_key, selection))
    tainted: set[int] = set()
    while again := await _rewind(session, asked, agent_key, [one.key for one in poisoned.fresh], "quarantine"):
        tainted |= set(again)
        poisoned = await _poisoned(session, agent_key, selection)  # what a version had superseded is active again
    repository, fresh = CorrectionRepository(session, agent_key), poisoned.fresh
    changes = [Change(one, "quarantined", "quarantine", more=_because(one, poisoned.because)) for one in fresh]
    changes += [Change(one, "active", "quarantine") for one in poisoned.replaced]
    await repository.change(changes, asked.entry)
    await repository.raise_epochs(poisoned.scopes)
    withheld = await _rebuild(session, asked, agent_key, tainted, poisoned.scopes)
    return SetAside(observations=tuple(observation_id(*one.key) for one in fresh), withheld=tuple(withheld))


def _because(one: Standing, because: Mapping[Key, Key]) -> dict[str, Any]:
    """For the release: which of the chosen brought it along, and what had taken its place."""
    more: dict[str, Any] = {}
    if one.key in because:
        more["because"] = observation_id(*because[one.key])
    if one.superseded_by is not None:
        more["superseded_by"] = one.superseded_by
    return more


async def _poisoned(session: Session, agent_key: int, selection: Selection) -> Poisoned:
    repository = CorrectionRepository(session, agent_key)
    chosen = await repository.standings(await ForgettingRepository(session, agent_key).selected(selection))
    because: dict[Key, Key] = {}
    for one in chosen:
        same = [twin.key for twin in await repository.twins([one.key], "active")]
        for key in (*same, *await repository.derived([one.key, *same])):
            because.setdefault(key, one.key)
    keys = {one.key for one in chosen}
    because = {key: cause for key, cause in because.items() if key not in keys}
    standings = await repository.standings(keys | set(because))
    going = {one.key for one in standings}
    replaced = [one for one in await repository.superseded_by(going) if one.key not in going]
    alone = [one for one in replaced if {twin.key for twin in await repository.twins([one.key], "active")} <= going]
    return Poisoned(because, tuple(standings), tuple(alone))


@dataclass(frozen=True, slots=True)
class Departing:
    """What is to be archived in some scopes, what stands again then, and what was made of it in others."""

    scope_ids: tuple[int, ...]
    standings: tuple[Standing, ...]
    replaced: tuple[Standing, ...]
    closure: Closure

    @property
    def keys(self) -> list[Key]:
        return [*(one.key for one in self.standings), *self.closure.observations]

    @property
    def scopes(self) -> set[int]:
        return {*self.scope_ids} | self.closure.scopes


@dataclass(frozen=True, slots=True)
class Archived:
    """The ids of what was archived, and of what was made of it and erased; `held` counts what of that is kept."""

    observations: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    held: int = 0
    withheld: tuple[int, ...] = ()


async def archive(
    session: Session,
    asked: Asked,
    agent_key: int,
    scope_ids: Collection[int],
    choose: Callable[[], Awaitable[Collection[Key]]],
) -> Archived:
    """Archives what `choose` finds in these scopes, as often as it is asked; what was made of it elsewhere is erased.

    The texts are as they were before they took any of it in, and are told anew. Whatever a model is making just now of what
    these scopes hold is refused, also where nothing is chosen. What a legal hold keeps stays as it is.
    """

    async def look() -> Departing:
        return await _departing(session, agent_key, scope_ids, await choose())

    found = await _locked(session, agent_key, look)
    tainted: set[int] = set()
    while again := await _rewind(session, asked, agent_key, found.keys, "retract"):
        tainted |= set(again)
        found = await look()  # what gave way in a version stands again, as it had before
    repository = CorrectionRepository(session, agent_key)
    changes = [Change(one, "archived", "leave", more=_because(one, {})) for one in found.standings]
    changes += [Change(one, "active", "leave") for one in found.replaced]
    await repository.change(changes, asked.entry)
    await PropagationRepository(session, agent_key).reopen(found.closure.observations, found.keys, asked.now)
    await _erase_derived(session, asked, agent_key, found.closure)
    await repository.raise_epochs(found.scopes)
    withheld = await _rebuild(session, asked, agent_key, tainted, found.scopes)
    return Archived(
        observations=tuple(observation_id(*one.key) for one in found.standings),
        retracted=tuple(observation_id(*key) for key in found.closure.observations),
        held=found.closure.held_observations,
        withheld=tuple(withheld),
    )


async def _departing(
    session: Session, agent_key: int, scope_ids: Collection[int], chosen: Collection[Key]
) -> Departing:
    repository, going = CorrectionRepository(session, agent_key), set(chosen)
    derived = await repository.derived(going) if going else ()
    elsewhere = tuple(key for key in derived if key not in going)
    replaced = [one for one in await repository.superseded_by(going) if one.key not in going] if going else []
    stands = [one for one in replaced if {twin.key for twin in await repository.twins([one.key], "active")} <= going]
    return Departing(
        tuple(sorted(scope_ids)),
        tuple(await repository.standings(going)) if going else (),
        tuple(stands),
        await ForgettingRepository(session, agent_key).closure(Seeds(observations=elsewhere)),
    )


async def _erase_derived(session: Session, asked: Asked, agent_key: int, closure: Closure) -> None:
    """What it had taken the place of stands again."""
    if not closure.observations:
        return
    await ForgettingRepository(session, agent_key).erase(closure, (), (), asked.now)
    for state in await ScopeRepository(session).lock(agent_key, scope_ids=closure.scopes):
        await StateRepository(session).stand_again(state, asked.now)


@dataclass(frozen=True, slots=True)
class Releasable:
    standings: tuple[Standing, ...]
    ledger: dict[Key, dict[str, Any]]

    @property
    def scopes(self) -> set[int]:
        return {one.key[0] for one in self.standings}


async def release(session: Session, asked: Asked, selection: Selection) -> SetAside:
    """Takes a quarantine back: what is chosen, what says the same, and what had gone with it is what it was before.

    Raises `InputError` where an active observation says the same by now.
    """
    if selection.observation_id is not None:
        observation = await _find(session, asked, selection.observation_id, quarantined=True)
        if observation.status != "quarantined":
            raise InputError(f"{selection.observation_id} isn't quarantined")
    agent_key = await _agent(session, asked)
    released = await _locked(session, agent_key, lambda: _releasable(session, agent_key, selection))
    repository = CorrectionRepository(session, agent_key)
    changes = [await _released(repository, one, released.ledger.get(one.key, {})) for one in released.standings]
    if active := [change.before.key for change in changes if change.status == "active"]:
        await _refuse_twins(repository, active)
    await repository.change(changes, asked.entry)
    withheld = await _rebuild(session, asked, agent_key, (), released.scopes)
    return SetAside(
        observations=tuple(observation_id(*one.key) for one in released.standings), withheld=tuple(withheld)
    )


async def _released(repository: CorrectionRepository, one: Standing, ledger: Mapping[str, Any]) -> Change:
    by = ledger.get("superseded_by")
    stands = by is not None and any(s.status == "active" for s in await repository.standings([(one.key[0], by)]))
    before = ledger.get("from", "active")
    if before == "superseded" and by is not None:
        before = "superseded" if stands else "active"
    return Change(one, before, "release", superseded_by=by if stands else None)


async def _releasable(session: Session, agent_key: int, selection: Selection) -> Releasable:
    """What was made of several stays set aside while any of these is."""
    repository = CorrectionRepository(session, agent_key)
    chosen = await repository.standings(await ForgettingRepository(session, agent_key).selected(selection))
    seeds = {one.key for one in chosen if one.status == "quarantined"}
    seeds |= {one.key for one in await repository.twins(seeds, "quarantined")} if seeds else set()
    derived = await repository.derived(seeds)
    ledger = await repository.quarantines([*seeds, *derived])
    causes = {observation_id(*key) for key in seeds}
    going = seeds | {key for key in derived if ledger.get(key, {}).get("because") in causes}
    edges = await repository.quarantined_sources(derived)
    while bound := {made for made, source in edges if made in going - seeds and source not in going}:
        going -= bound
    return Releasable(tuple(one for one in await repository.standings(going) if one.status == "quarantined"), ledger)
