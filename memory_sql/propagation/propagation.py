"""What a scope has learnt → wider scopes: individual → group → collective, one level at a time, never from a text.

`load` takes the scope's lease and reads what `memory.shareable` lets through; rules (`screening`) withhold from the model
what may do harm. `decide` asks the model about the rest in one call; its word counts
only against a claim, and what it has rewritten is screened again. `apply` looks once more, under the locks of all scopes
concerned, whether everything may still be shared, and stores observations with their lineage. What was decided is
remembered by source and target (`judged`), and only what waits or was released by a person is decided again.

To a group goes what one member knows. To everybody goes what several people of several groups have said in like words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import share_agent
from memory_sql.db.repositories.lineage import LineageRepository
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.db.repositories.propagations import Judgement, PropagationRepository, Shareable, WiderScope
from memory_sql.db.repositories.runs import RunRepository
from memory_sql.db.repositories.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.errors import BusyError, NotFoundError, StaleError
from memory_sql.languages.text import clean, one_line
from memory_sql.llm import LanguageModel
from memory_sql.llm.notation import as_written
from memory_sql.privacy.contact import without_contact
from memory_sql.propagation import rules
from memory_sql.propagation.answers import Decision
from memory_sql.propagation.judge import ask_judge
from memory_sql.propagation.offers import Decided, Loaded, Names, Offer, Verdict, aliases_of, sources_of, task
from memory_sql.propagation.screening import Screening, sharing_of
from memory_sql.propagation.store import Store
from memory_sql.retry import is_unusable, judge

ASKED = "asked"  # somebody waits for it and gets the error
NAMES_AT_MOST = 5_000
DECOYS = "decoys"  # answers that got one wrong, among what a run counts as refused


async def load(
    session: Session,
    agent_id: str,
    agent_key: int,
    scope_id: int,
    settings: Settings,
    now: datetime,
    reason: str,
    *,
    new_only: bool = False,
) -> tuple[ScopeState, Loaded | None]:
    """The scope and what may be judged, leased; None when nothing may. Raises `BusyError`, `NotFoundError`.

    What is read is read before the lease is taken: who writes to the scope waits for the rest alone.
    """
    scopes = ScopeRepository(session)
    before = await scopes.look_at(agent_key, scope_id)
    if before is None:
        raise NotFoundError("scope", f"s{scope_id}")
    if not before.is_free:
        raise BusyError("scope", f"s{scope_id}")
    screened = await _screened(session, agent_id, before.state, settings, now, new_only=new_only)
    scope = await scopes.claim(agent_key, scope_id, timedelta(seconds=settings.lease_seconds))
    if scope is None:
        raise BusyError("scope", f"s{scope_id}")
    if not scope.holds_the_same(before.state):
        screened = await _screened(session, agent_id, scope, settings, now, new_only=new_only)
    return scope, await _begun(session, scope, screened, settings, now, reason)


async def load_claimed(
    session: Session, agent_id: str, claimed: ScopeState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """What may be judged in a scope that was claimed before. Raises `StaleError` when that lease has been lost."""
    screened = await _screened(session, agent_id, claimed, settings, now)
    if not screened.judged and await PropagationRepository(session, claimed.agent_key).finish_at_once(claimed, now):
        return None
    locked = await ScopeRepository(session).lock(claimed.agent_key, scope_ids=[claimed.scope_id])
    if not locked or locked[0].fence != claimed.fence:
        raise StaleError("scope", f"s{claimed.scope_id}", "the lease on it was lost")
    (scope,) = locked
    if not scope.holds_the_same(claimed):
        screened = await _screened(session, agent_id, scope, settings, now)
    return await _begun(session, scope, screened, settings, now, reason)


@dataclass(frozen=True, slots=True)
class _Screened:
    """What may be judged, in the order of its targets, and what the rules say of it. `epochs`: from before it was read."""

    judged: Sequence[Shareable]
    offers: tuple[Offer, ...]
    verdicts: tuple[Verdict, ...]
    names: Names
    epochs: dict[int, int]


async def _screened(
    session: Session, agent_id: str, scope: ScopeState, settings: Settings, now: datetime, *, new_only: bool = False
) -> _Screened:
    settings = settings.of_agent(scope.agent_settings)
    repository = PropagationRepository(session, scope.agent_key)
    found = await _found(repository, scope, settings, new_only=new_only)
    if not found:
        return _Screened((), (), (), Names(), {})
    verdicts, offers, epochs = list[Verdict](), list[Offer](), {scope.scope_id: scope.epoch}
    for target, candidates in found:
        screening = Screening(repository, scope, target, settings)
        for candidate in candidates:
            offer, verdict = await screening.look_at(candidate)
            if verdict is None:
                offers.append(offer)
            else:
                verdicts.append(verdict)
        epochs |= screening.epochs
    if offers:
        await RunRepository(session).check_budget(agent_id, scope.agent_key, settings.daily_tokens, now)
    shown = {item.scope_id for offer in offers for item in offer.sources} | {scope.scope_id}
    names = await _names(repository, scope, [target for target, _ in found], shown)
    judged = [candidate for _, candidates in found for candidate in candidates]
    return _Screened(judged, tuple(offers), tuple(verdicts), names, {scope_id: epochs[scope_id] for scope_id in shown})


async def _begun(
    session: Session, scope: ScopeState, screened: _Screened, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """Under the scope's lock. The run that judges it; None, and the lease is given back, where there is nothing."""
    runs, settings = RunRepository(session), settings.of_agent(scope.agent_settings)
    judged = screened.judged
    if not judged:
        await PropagationRepository(session, scope.agent_key).finish(scope, None, now)
        return None
    await runs.abandon(scope.agent_key, now, scope_id=scope.scope_id)
    seqs = [candidate.seq for candidate in judged]
    span = {"scope_id": scope.scope_id, "from_seq": min(seqs) - 1, "to_seq": max(seqs)}
    run = await runs.start(scope.agent_key, "propagation", scope.fence, now, **span)
    new = sum(candidate.outcome != "waiting" for candidate in judged)
    more = new >= _batch(scope, settings)
    return Loaded(scope, run, screened.offers, screened.verdicts, screened.names, screened.epochs, more, reason, now)


async def _found(
    repository: PropagationRepository, scope: ScopeState, settings: Settings, *, new_only: bool
) -> list[tuple[WiderScope, list[Shareable]]]:
    """For each target what may be judged for it, together no more than a batch."""
    found, left = [], _batch(scope, settings)
    for target in await repository.targets(scope.scope_id):
        if sharing_of(target, settings) == "off":
            continue
        candidates = await repository.candidates(
            scope.scope_id, target, settings.propagation_excluded_users, left, new_only=new_only
        )
        if candidates:
            found.append((target, candidates))
            left -= len(candidates)
        if left == 0:
            break
    return found


def _batch(scope: ScopeState, settings: Settings) -> int:
    """Half as many after each answer that could not be used, so that one bad claim is found and the others go on."""
    return max(settings.propagation_batch >> scope.propagation_errors, 1)


async def _names(
    repository: PropagationRepository, scope: ScopeState, targets: Sequence[WiderScope], shown: Collection[int]
) -> Names:
    """What a group is called names no person; what goes to everybody names no group either."""
    groups = {target.scope_id for target in targets if target.kind == "group" and target.scope_id}
    people = await repository.names({scope.scope_id, *groups, *shown}, NAMES_AT_MOST)
    if scope.kind == "group":
        return Names(frozenset(people | await repository.group_names(shown)))
    return Names(frozenset(people), frozenset(await repository.group_names(None, NAMES_AT_MOST)))


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Decided:
    """What the model says of each offer, and what the rules then say of that. Without offers it isn't asked.

    Raises `JudgeError` where the model gets decoys wrong, twice.
    """
    if not loaded.offers:
        return Decided(loaded.verdicts)
    judged = await ask_judge(llm, settings.slow_model, task(loaded), wary=loaded.scope.propagation_failures > 0)
    aliases, places = aliases_of(loaded.offers), sources_of(loaded.offers)
    numbers = {source.key: judged.numbers[n] for n, source in enumerate(places, 1)}
    decisions = {(item.n, item.to.strip().casefold()): item for item in reversed(judged.decisions)}
    verdicts = tuple(
        _verdict(offer, decisions.get((numbers[offer.source.key], aliases[offer.target.owner])), loaded, settings)
        for offer in loaded.offers
    )
    return Decided(loaded.verdicts + verdicts, judged.usage, judged.prompt_version, judged.missed)


def _verdict(offer: Offer, decision: Decision | None, loaded: Loaded, settings: Settings) -> Verdict:
    """The model may say no. Its yes is a proposal: the text that it proposes has to pass the rules."""
    if decision is None:
        return Verdict(offer, "refused", "unanswered")
    if decision.refusal is not None:
        return Verdict(offer, "refused", decision.refusal)
    text = without_contact(one_line(clean(as_written(decision.text))[0]))
    may_name = offer.target.group_id in settings.propagation_names_in
    names, sources = loaded.names, [item.content for item in offer.sources]
    leak = rules.leaks(text, names=names.people, things=names.things, sources=sources, may_name=may_name)
    if leak is not None:
        return Verdict(offer, "refused", leak)
    return Verdict(offer, "propagated", "shared", text)


async def apply(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
) -> tuple[Verdict, ...]:
    """Stores what goes, and remembers what was decided; what may not be judged any more is left as it was.

    Raises `StaleError` when something was deleted from a scope that the model was shown, or the lease has been lost.
    """
    scope, repository = loaded.scope, PropagationRepository(session, loaded.scope.agent_key)
    locked = await _lock(session, loaded, decided, settings, now)
    standing = await _standing(repository, decided.verdicts, loaded, settings)
    standing = await _once(repository, standing, locked)
    store = Store(session, repository, loaded, locked, settings, now)
    made = await store.keep(standing)
    judgements = {
        (source.key, item.target_scope_id): Judgement(
            source.key, item.target_scope_id, item.outcome, item.reason, item.seq
        )
        for item in made
        for source in (item.offer.sources if item.outcome == "propagated" else (item.offer.source,))
        if item.target_scope_id is not None
    }
    await repository.judge(list(judgements.values()), loaded.run.run_id, now)
    touched = sorted({item.target_scope_id for item in made if item.target_scope_id is not None})
    await ScopeRepository(session).refresh_due(scope.agent_key, touched, settings.consolidation_threshold, now)
    await repository.finish(scope, now if loaded.more else None, now)
    await _account(session, loaded, decided, made, store.stored, now)
    return tuple(made)


async def _lock(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
) -> dict[str, ScopeState]:
    """The scopes that are written to, by owner; all that was read is locked too, and is as it was when it was read."""
    scope, targets = loaded.scope, {item.offer.target for item in decided.verdicts}
    if any(
        target.kind == "collective" for target in targets
    ):  # two of the people who are counted must not become one meanwhile
        await share_agent(session, scope.agent_key)
    read = {item.scope_id for verdict in decided.verdicts for item in verdict.offer.sources} | {scope.scope_id}
    keys = {item.key for verdict in decided.verdicts for item in verdict.offer.sources}
    lineage = LineageRepository(session, scope.agent_key)
    # Nobody whose word is counted takes it back meanwhile: what a group's claim was made of lies in scopes of its own.
    read |= await lineage.origins(keys)
    locked, by_owner = await _locked(session, scope, targets, read, settings, now)
    if not await lineage.origins(keys) <= read:
        raise StaleError("scope", f"s{scope.scope_id}", "somebody else has said the same")
    for state in locked:
        if state.scope_id in loaded.epochs and state.epoch != loaded.epochs[state.scope_id]:
            raise StaleError("scope", f"s{scope.scope_id}", "something that the model was shown has been deleted")
        if state.scope_id == scope.scope_id and state.fence != scope.fence:
            raise StaleError("scope", f"s{scope.scope_id}", "the lease on it was lost")
    return by_owner


async def _locked(
    session: Session,
    scope: ScopeState,
    targets: Iterable[WiderScope],
    read: Iterable[int],
    settings: Settings,
    now: datetime,
) -> tuple[list[ScopeState], dict[str, ScopeState]]:
    """All of these, and the targets by the owners that they had: a group may have another id by now, but its scope hasn't."""
    there = {target.scope_id: target.owner for target in targets if target.scope_id is not None}
    missing = [NewScope(target.kind, target.owner) for target in targets if target.scope_id is None]
    locked = await ScopeRepository(session).lock_or_make(scope.agent_key, missing, {*read, *there}, settings, now)
    made = {(one.owner, one.name) for one in missing}
    wanted = [state for state in locked if state.scope_id in there or (state.owner, state.name) in made]
    return locked, {there.get(state.scope_id, state.owner): state for state in wanted}


async def _standing(
    repository: PropagationRepository, verdicts: Sequence[Verdict], loaded: Loaded, settings: Settings
) -> list[Verdict]:
    """Those of which all may still be shared, with this target, and behind which enough people stand."""
    scope_id = loaded.scope.scope_id
    keys = {source.key for item in verdicts for source in item.offer.sources}
    shareable = await repository.still_shareable(keys, settings.propagation_excluded_users)
    rules = {target.place: sharing_of(target, settings) for target in await repository.targets(scope_id)}
    standing = [
        item
        for item in verdicts
        if _may_go(item, rules.get(item.offer.target.place))
        and shareable.issuperset(source.key for source in item.offer.sources)
    ]
    for item in [item for item in standing if item.text is not None and item.offer.target.kind == "collective"]:
        screening = Screening(repository, loaded.scope, item.offer.target, settings)
        if not await screening.still_enough(item.offer):
            standing.remove(item)
    return standing


def _may_go(item: Verdict, sharing: str | None) -> bool:
    """None: it may not go there any more. The group may have changed its rule meanwhile."""
    if item.text is not None and sharing == "review":
        return item.offer.source.outcome == "released"
    return sharing is not None and sharing != "off"


async def _once(
    repository: PropagationRepository, standing: Sequence[Verdict], targets: Mapping[str, ScopeState]
) -> list[Verdict]:
    """What goes to everybody goes once: not what another run has stored meanwhile, nor twice in one run."""
    once, known = list[Verdict](), set[ObservationKey]()
    for item in standing:
        offer = item.offer
        if item.text is not None and offer.target.kind == "collective":
            target = replace(offer.target, scope_id=targets[offer.target.owner].scope_id)
            keys = {source.key for source in offer.sources}
            decided = await repository.outcomes(keys, target)
            if keys & known or "propagated" in decided.values():
                item = Verdict(offer, "waiting", "known")
            else:
                known |= keys
        once.append(item)
    return once


async def _account(
    session: Session, loaded: Loaded, decided: Decided, made: Sequence[Verdict], stored: int, now: datetime
) -> None:
    runs = RunRepository(session)
    went = {(item.target_scope_id, item.seq) for item in made if item.outcome == "propagated"}
    refused = Counter(item.reason for item in decided.verdicts if item.outcome == "refused")
    refused[DECOYS] += decided.missed
    outcome: dict[str, Any] = {"observations": stored, "duplicates": len(went) - stored, "refused": dict(+refused)}
    await runs.succeed(loaded.run, now, decided.usage, decided.prompt_version, **outcome)


async def show(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
) -> tuple[Verdict, ...]:
    """A dry run ends: what it cost is written down, what it decided isn't; the scope is as due as before.

    Raises `StaleError` where the lease was lost: whoever has it now has written down that this run didn't end.
    """
    runs = RunRepository(session)
    if not await ScopeRepository(session).release(loaded.scope):
        raise StaleError("scope", f"s{loaded.scope.scope_id}", "the lease on it was lost")
    outcome: dict[str, Any] = {"observations": 0, "duplicates": 0, "refused": {"dry_run": len(decided.verdicts)}}
    await runs.succeed(loaded.run, now, decided.usage, decided.prompt_version, **outcome)
    return decided.verdicts


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why, gives the lease back and says when to try again; nothing has gone anywhere.

    A single claim of which no answer can be used is refused in the end: what can't be judged isn't shared.
    """
    scope, changes = loaded.scope, _after(loaded.scope, error, settings, now, counts=loaded.reason != ASKED)
    single = len(loaded.offers) == 1 and is_unusable(error) and loaded.reason != ASKED
    # Alone after so many halvings, and then as often as other work is tried: a model that fails now and then loses nothing.
    gives_up = single and scope.propagation_errors + 1 >= settings.propagation_batch.bit_length() + settings.max_errors
    if gives_up:
        changes["propagation_errors"] = 0
    if gives_up:
        offer = loaded.offers[0]
        _, targets = await _locked(session, scope, [offer.target], [scope.scope_id], settings, now)
    if await ScopeRepository(session).release(scope, **changes) and gives_up:
        scope_id = targets[offer.target.owner].scope_id
        judgement = Judgement(offer.source.key, scope_id, "refused", "unusable_answer")
        await PropagationRepository(session, scope.agent_key).judge([judgement], loaded.run.run_id, now)
    await RunRepository(session).fail(loaded.run, error, now)


async def give_back(
    session: Session, claimed: ScopeState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """The lease of a scope that couldn't even be loaded, and when to try again."""
    await ScopeRepository(session).release(claimed, **_after(claimed, error, settings, now, counts=True))


def _after(
    scope: ScopeState, error: BaseException, settings: Settings, now: datetime, *, counts: bool
) -> dict[str, Any]:
    """What changes in the scope by a failure: how often in a row, and when it is tried again."""
    verdict = judge(error, scope.propagation_failures, scope.propagation_errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"propagation_failures": verdict.failures, "propagation_errors": verdict.errors}
    if verdict.retry_at is not None or verdict.gives_up:
        changes["propagate_at"] = verdict.retry_at or now + timedelta(seconds=settings.retry_first_seconds)
    return changes
