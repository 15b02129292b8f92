"""Shares observations of a scope with wider scopes: individual → group → collective, one level at a time.

Only observations are shared, never a scope's text. `load` takes the scope's lease and reads what `memory.shareable`
allows. Rules (`screening`) withhold what may do harm from the model. `decide` asks the model about the rest in one call.
The model can only refuse a claim, and what it has rewritten is screened again. `apply` locks all scopes concerned, checks
again that everything may still be shared, and stores the observations with their lineage. Each decision is stored by
source and target in `judged`. Only claims that wait, or that a person has released, are decided again.

A group is told what one of its members knows. Everybody is told what several people of several groups have said in
similar words.
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
from memory_sql.llm.retry import is_unusable, judge
from memory_sql.privacy.contact import without_contact
from memory_sql.propagation import rules
from memory_sql.propagation.answers import Decision
from memory_sql.propagation.judge import ask_judge
from memory_sql.propagation.likeness import borrows
from memory_sql.propagation.offers import Decided, Loaded, Names, Offer, Verdict, aliases_of, sources_of, task
from memory_sql.propagation.screening import Screening, sharing_of
from memory_sql.propagation.store import Store

ASKED = "asked"  # the caller waits for the result and gets the error
NAMES_AT_MOST = 5_000
DECOYS = "decoys"  # the key under which a run counts answers with wrongly judged decoys as refused


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
    """Leases the scope and returns it with what may be judged (None: nothing). Raises `BusyError`, `NotFoundError`.

    Screening runs before the lease is taken, so that writers to the scope have less to wait for.
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
    """Returns what may be judged in a scope that was claimed before. Raises `StaleError` when that lease has been lost."""
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
    """What may be judged, ordered by target, and the verdicts of the rules. `epochs` were read before the claims were."""

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
        await RunRepository(session).check_budget(agent_id, scope.agent_key, settings, now)
    shown = {item.scope_id for offer in offers for item in offer.sources} | {scope.scope_id}
    names = await _names(repository, scope, [target for target, _ in found], shown)
    judged = [candidate for _, candidates in found for candidate in candidates]
    return _Screened(judged, tuple(offers), tuple(verdicts), names, {scope_id: epochs[scope_id] for scope_id in shown})


async def _begun(
    session: Session, scope: ScopeState, screened: _Screened, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """Called under the scope's lock. Starts the run; with nothing to judge it gives back the lease and returns None."""
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
    """Returns the claims to be judged for each target, at most one batch in total."""
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
    """Halves the batch after each unusable answer, so that one bad claim is isolated and the others proceed."""
    return max(settings.propagation_batch >> scope.propagation_errors, 1)


async def _names(
    repository: PropagationRepository, scope: ScopeState, targets: Sequence[WiderScope], shown: Collection[int]
) -> Names:
    """A target group's own name isn't a person's name. A claim for everybody must name no group either."""
    groups = {target.scope_id for target in targets if target.kind == "group" and target.scope_id}
    people = await repository.names({scope.scope_id, *groups, *shown}, NAMES_AT_MOST)
    if scope.kind == "group":
        return Names(frozenset(people | await repository.group_names(shown)))
    return Names(frozenset(people), frozenset(await repository.group_names(None, NAMES_AT_MOST)))


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Decided:
    """Asks the model about each offer and screens its answers. Without offers the model isn't called.

    Raises `JudgeError` when the model gets decoys wrong twice.
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
    """The model may refuse. If it agrees, the text that it proposes must still pass the rules; one that has words of another
    claim that it was shown isn't taken, but the claim's own words.
    """
    if decision is None:
        return Verdict(offer, "refused", "unanswered")
    if decision.refusal is not None:
        return Verdict(offer, "refused", decision.refusal)
    text = without_contact(one_line(clean(as_written(decision.text))[0]))
    also = [item.content for item in offer.supports]
    others = [source.content for other in loaded.offers for source in other.sources if source not in offer.sources]
    if borrows(text, offer.source.content, also, others):
        text = one_line(offer.source.content)
    may_name = offer.target.group_id in settings.propagation_names_in
    names, sources = loaded.names, [item.content for item in offer.sources]
    leak = rules.leaks(text, names=names.people, things=names.things, sources=sources, may_name=may_name)
    if leak is not None:
        return Verdict(offer, "refused", leak)
    return Verdict(offer, "propagated", "shared", text)


async def apply(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
) -> tuple[Verdict, ...]:
    """Stores what is shared, and each decision. Claims that may no longer be judged are left as they were.

    Raises `StaleError` when something that the model was shown has been deleted, or when the lease has been lost.
    """
    scope, repository = loaded.scope, PropagationRepository(session, loaded.scope.agent_key)
    locked, settings = await _lock(session, loaded, decided, settings, now)
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
) -> tuple[dict[str, ScopeState], Settings]:
    """Locks all scopes that are written to or were read, and checks that nothing changed.

    Returns the targets by owner, and the settings with what the agent has set while the model worked.
    """
    scope, targets = loaded.scope, {item.offer.target for item in decided.verdicts}
    await share_agent(
        session, scope.agent_key
    )  # nobody who is counted, or a member by another id, is merged or unmerged
    read = {item.scope_id for verdict in decided.verdicts for item in verdict.offer.sources} | {scope.scope_id}
    keys = {item.key for verdict in decided.verdicts for item in verdict.offer.sources}
    lineage = LineageRepository(session, scope.agent_key)
    # A group's claim was made from observations in other scopes. Lock these too, so that nobody who is counted can take
    # back their word.
    read |= await lineage.origins(keys)
    locked, by_owner = await _locked(session, scope, targets, read, settings, now)
    if not await lineage.origins(keys) <= read:
        raise StaleError("scope", f"s{scope.scope_id}", "somebody else has said the same")
    for state in locked:
        if state.scope_id in loaded.epochs and state.epoch != loaded.epochs[state.scope_id]:
            raise StaleError("scope", f"s{scope.scope_id}", "something that the model was shown has been deleted")
        if state.scope_id == scope.scope_id:
            if state.fence != scope.fence:
                raise StaleError("scope", f"s{scope.scope_id}", "the lease on it was lost")
            settings = settings.of_agent(state.agent_settings)
    return by_owner, settings


async def _locked(
    session: Session,
    scope: ScopeState,
    targets: Iterable[WiderScope],
    read: Iterable[int],
    settings: Settings,
    now: datetime,
) -> tuple[list[ScopeState], dict[str, ScopeState]]:
    """Locks all of these. Returns them, and the targets by the owner they had when read: a group's id may have changed."""
    there = {target.scope_id: target.owner for target in targets if target.scope_id is not None}
    missing = [NewScope(target.kind, target.owner) for target in targets if target.scope_id is None]
    locked = await ScopeRepository(session).lock_or_make(scope.agent_key, missing, {*read, *there}, settings, now)
    made = {(one.owner, one.name) for one in missing}
    wanted = [state for state in locked if state.scope_id in there or (state.owner, state.name) in made]
    return locked, {there.get(state.scope_id, state.owner): state for state in wanted}


async def _standing(
    repository: PropagationRepository, verdicts: Sequence[Verdict], loaded: Loaded, settings: Settings
) -> list[Verdict]:
    """The verdicts whose sources may all still be shared with this target, and which enough people still support."""
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
    """`sharing` is None when the target is no longer reachable. The group may also have changed its rule meanwhile."""
    if item.text is not None and sharing == "review":
        return item.offer.source.outcome == "released"
    return sharing is not None and sharing != "off"


async def _once(
    repository: PropagationRepository, standing: Sequence[Verdict], targets: Mapping[str, ScopeState]
) -> list[Verdict]:
    """Stores each claim once for everybody: neither twice in one run nor again after another run has stored it."""
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
    """Ends a dry run: records what it cost but none of its decisions. The scope stays as due as before.

    Raises `StaleError` when the lease was lost: whoever holds it now has recorded that this run didn't end.
    """
    runs = RunRepository(session)
    if not await ScopeRepository(session).release(loaded.scope):
        raise StaleError("scope", f"s{loaded.scope.scope_id}", "the lease on it was lost")
    outcome: dict[str, Any] = {"observations": 0, "duplicates": 0, "refused": {"dry_run": len(decided.verdicts)}}
    await runs.succeed(loaded.run, now, decided.usage, decided.prompt_version, **outcome)
    return decided.verdicts


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records the error, gives back the lease and sets the next attempt. Nothing has been shared.

    A single claim that never gets a usable answer is refused in the end: what can't be judged isn't shared.
    """
    scope, changes = loaded.scope, _after(loaded.scope, error, settings, now, counts=loaded.reason != ASKED)
    single = len(loaded.offers) == 1 and is_unusable(error) and loaded.reason != ASKED
    # A batch is down to one claim after so many halvings. That claim is then tried as often as other work, so that it
    # isn't refused because a model fails occasionally.
    gives_up = single and scope.propagation_errors + 1 >= settings.propagation_batch.bit_length() + settings.max_errors
    if gives_up:
        changes["propagation_errors"] = 0
    if gives_up:
        offer = loaded.offers[0]
        locked, targets = await _locked(session, scope, [offer.target], [scope.scope_id], settings, now)
        gives_up = any(
            (one.scope_id, one.epoch) == (scope.scope_id, scope.epoch) for one in locked
        )  # else it may be gone
    if await ScopeRepository(session).release(scope, **changes) and gives_up:
        scope_id = targets[offer.target.owner].scope_id
        judgement = Judgement(offer.source.key, scope_id, "refused", "unusable_answer")
        await PropagationRepository(session, scope.agent_key).judge([judgement], loaded.run.run_id, now)
    await RunRepository(session).fail(loaded.run, error, now)


async def give_back(
    session: Session, claimed: ScopeState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """Gives back the lease of a scope that couldn't even be loaded, and sets the next attempt."""
    await ScopeRepository(session).release(claimed, **_after(claimed, error, settings, now, counts=True))


def _after(
    scope: ScopeState, error: BaseException, settings: Settings, now: datetime, *, counts: bool
) -> dict[str, Any]:
    """How a failure changes the scope: the number of failures in a row, and the next attempt."""
    verdict = judge(error, scope.propagation_failures, scope.propagation_errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"propagation_failures": verdict.failures, "propagation_errors": verdict.errors}
    if verdict.retry_at is not None or verdict.gives_up:
        changes["propagate_at"] = verdict.retry_at or now + timedelta(seconds=settings.retry_first_seconds)
    return changes
