"""Rechecks what a scope's text absorbed long ago: pairs of observations that no consolidation has shown to a model together.

`load` pairs what no recheck has compared with what lies nearest to it, by meaning and by words, among all that the text has
absorbed and is in use. `decide` asks the model about these pairs, in one call. `apply` does with the contradictions and
repetitions what a consolidation does: it writes a version, with the text as it was, which `scopes.undo` takes back. The next
consolidation is told what was overtaken. Of a pair only that it was compared is remembered, not what it said; it is compared
again once either is said again.

Where part of the earlier observation still holds, a person decides: nobody has said anything that calls for haste.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from memory_sql.config import Settings
from memory_sql.consolidation import consolidation
from memory_sql.consolidation.answers import NamedContradiction, NamedRepetition
from memory_sql.consolidation.comparing import ComparedPair, NamedPair, RecheckTask
from memory_sql.consolidation.replacing import Replaced, Shown, replaced
from memory_sql.db import Session
from memory_sql.db.queries.related import related_to_each
from memory_sql.db.repositories.rechecks import Pair, RecheckRepository, pairs_of
from memory_sql.db.repositories.runs import RunKey, RunRepository
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.domain.ids import moved
from memory_sql.domain.rechecks import PairOutcome, Rechecked
from memory_sql.domain.scopes import AbsorbedObservation, PendingObservation
from memory_sql.domain.usage import NO_CALL, Usage
from memory_sql.errors import BusyError, NotFoundError, StaleError
from memory_sql.languages.text import count_words
from memory_sql.llm import LanguageModel, ask
from memory_sql.llm.retry import is_unusable
from memory_sql.retrieval.related import query_of

AGAIN = timedelta(days=1)  # after an answer that can't be used
WINDOWS = 10  # of `recheck_newest` observations, in one transaction: each is compared with all of the scope
FUSED = 60  # reciprocal rank fusion (Cormack et al., 2009): what both ways of looking find comes first


@dataclass(frozen=True, slots=True)
class Loaded:
    """`pairs`: best first. `to_seq`: how far the scope is rechecked after this; `more`: there is more than this has room for.
    `is_asked`: somebody waits for all of it. `run` None: no pairs yet, as far as this has looked.
    """

    agent_id: str
    scope: ScopeState
    run: RunKey | None
    pairs: tuple[ComparedPair, ...]
    to_seq: int
    more: bool
    is_asked: bool
    now: datetime

    @property
    def observations(self) -> dict[int, AbsorbedObservation]:
        return {item.seq: item for pair in self.pairs for item in (pair.earlier, pair.later)}


@dataclass(frozen=True, slots=True)
class Decided:
    """`outcomes` by the numbers of the two; `replaced` is what counts of them."""

    outcomes: Mapping[Pair, PairOutcome]
    replaced: Replaced
    usage: Usage
    prompt_version: str


@dataclass(frozen=True, slots=True)
class Applied:
    version: int | None = None
    superseded: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """`to_seq` None: nothing was looked at."""

    pairs: tuple[ComparedPair, ...] = ()
    to_seq: int | None = None
    more: bool = False


async def load(
    session: Session, agent_id: str, agent_key: int, scope_id: int, settings: Settings, now: datetime
) -> tuple[ScopeState, Loaded | None]:
    """Leases the scope and returns it with what is to be compared; None: nothing. Raises `BusyError`, `NotFoundError`.

    The pairs are looked for before the lease is taken, so that writers to the scope have less to wait for; what has changed
    by then is looked through again, no further than `WINDOWS`.
    """
    scopes = ScopeRepository(session)
    before = await scopes.look_at(agent_key, scope_id)
    if before is None:
        raise NotFoundError("scope", f"s{scope_id}")
    if not before.is_free:
        raise BusyError("scope", f"s{scope_id}")
    own = settings.of_agent(before.state.agent_settings)
    found = await _found(session, agent_id, before.state, own, now)
    scope = await scopes.claim(agent_key, scope_id, timedelta(seconds=settings.lease_seconds))
    if scope is None:
        raise BusyError("scope", f"s{scope_id}")
    if not scope.holds_the_same(before.state):
        found = await _found(session, agent_id, scope, own, now)
    return scope, await _begun(session, agent_id, scope, found, own, now, is_asked=True)


async def load_claimed(
    session: Session, agent_id: str, claimed: ScopeState, settings: Settings, now: datetime
) -> Loaded | None:
    """What is to be compared in a scope that was claimed before. Raises `StaleError` when that lease has been lost.

    Nothing, and it isn't due any more, where the agent's setting `recheck` has been switched off since.
    """
    if claimed.agent_settings.get("recheck") is False:
        await ScopeRepository(session).release(claimed, recheck_at=None)
        return None
    own = settings.of_agent(claimed.agent_settings)
    found = await _found(session, agent_id, claimed, own, now)
    return await _begun(session, agent_id, claimed, found, own, now, is_asked=False)


async def _begun(
    session: Session,
    agent_id: str,
    scope: ScopeState,
    found: _Found,
    settings: Settings,
    now: datetime,
    *,
    is_asked: bool,
) -> Loaded | None:
    rechecks, runs = RecheckRepository(session), RunRepository(session)
    await runs.abandon(scope.agent_key, now, scope_id=scope.scope_id, before=scope.fence)
    if found.to_seq is None or not (found.pairs or found.more):
        await ScopeRepository(session).release(scope, **_ended(found.to_seq, None, now))
        return None
    if not found.pairs:
        return Loaded(agent_id, scope, None, (), found.to_seq, found.more, is_asked, now)
    await runs.check_budget(agent_id, scope.agent_key, settings, now)
    run = await rechecks.begin(scope, now)
    if run is None:
        raise StaleError("scope", f"s{scope.scope_id}", "its text or its lease has changed")
    return Loaded(agent_id, scope, run, found.pairs, found.to_seq, found.more, is_asked, now)


async def _found(session: Session, agent_id: str, scope: ScopeState, settings: Settings, now: datetime) -> _Found:
    if not scope.is_active or scope.consolidation is None:
        return _Found()
    rechecks, most = RecheckRepository(session), settings.recheck_batch
    reached = await rechecks.reached(scope)
    if reached is None:
        return _Found()
    for _ in range(WINDOWS):
        to_seq, items = await rechecks.next_ones(scope, reached, settings.recheck_newest)
        pairs = await _new_pairs(session, agent_id, scope, items, settings, now)
        if pairs or to_seq >= scope.done_seq:
            break
        reached = to_seq
    has_room = len(pairs) <= most  # else the rest is asked next time: until then it has come as far as before
    more = not has_room or to_seq < scope.done_seq
    return _Found(tuple(pairs[:most]), to_seq if has_room else reached, more)


async def _new_pairs(
    session: Session,
    agent_id: str,
    scope: ScopeState,
    items: Sequence[AbsorbedObservation],
    settings: Settings,
    now: datetime,
) -> list[ComparedPair]:
    """Those that haven't been compared since either was said, best first."""
    rechecks = RecheckRepository(session)
    ranked = await _ranked(session, agent_id, scope, items, settings.recheck_nearest, now)
    known = await rechecks.compared(scope, [item.seq for item in items])
    there = await rechecks.observations(scope, {seq for key in ranked for seq in key})
    pairs = [_in_order(there[one], there[other]) for one, other in ranked if one in there and other in there]
    return [pair for pair in pairs if known.get(pair.key) != pair.later.observed_at]


async def _ranked(
    session: Session,
    agent_id: str,
    scope: ScopeState,
    items: Sequence[AbsorbedObservation],
    each: int,
    now: datetime,
) -> list[Pair]:
    """Pairs of one of these and what lies near it, best first: by their places in both lists."""
    if not items:
        return []
    points = defaultdict[Pair, float](float)
    for pair, place in await RecheckRepository(session).near(scope, [item.seq for item in items], each):
        points[pair] += 1 / (FUSED + place)
    whose = scope.display_name or scope.ref.owner_id or ""
    asked = [(item.seq, query_of([item.content], scope.scope_id, whose, scope.language, now)) for item in items]
    asked = [(seq, query) for seq, query in asked if query]
    for n, other, place in await related_to_each(session, agent_id, [query for _, query in asked], now, each + 1):
        for pair in pairs_of(asked[n][0], [other]):  # it finds itself, too
            points[pair] += 1 / (FUSED + place)
    return sorted(points, key=lambda pair: (-points[pair], pair))


def _in_order(one: AbsorbedObservation, other: AbsorbedObservation) -> ComparedPair:
    earlier, later = sorted((one, other), key=lambda item: (item.observed_at, item.seq))
    return ComparedPair(earlier, later)


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Decided:
    """What the model says of each pair, and what of that counts. Raises `LanguageModelError`."""
    if not loaded.pairs:
        return Decided({}, Replaced(), NO_CALL, "")
    scope = loaded.scope
    whose = scope.display_name or ": ".join(filter(None, (scope.ref.owner_id, scope.name)))
    request = RecheckTask(scope.kind, whose, loaded.pairs, loaded.now).request(
        scope.consolidation_model or settings.slow_model
    )
    answer = await ask(llm, request)
    outcomes: dict[Pair, PairOutcome] = {pair.key: "unrelated" for pair in loaded.pairs}
    named = [item for item in answer.value.pairs if 1 <= item.pair <= len(loaded.pairs)]
    outcomes |= {loaded.pairs[item.pair - 1].key: item.outcome for item in reversed(named)}
    counts = _counting(loaded, named)
    counts.refused.update({"unknown_observation": unknown} if (unknown := len(answer.value.pairs) - len(named)) else {})
    return Decided(outcomes, counts, answer.usage, request.prompt_version)


def _counting(loaded: Loaded, named: Sequence[NamedPair]) -> Replaced:
    """By the rules of consolidations: all are shown as new ones, since each may be the later of a pair."""
    items = sorted(loaded.observations.values(), key=lambda item: (item.observed_at, item.seq))
    places = {item.seq: f"n{n}" for n, item in enumerate(items, 1)}
    first = {item.pair: item for item in reversed(named)}.values()
    contradictions, repetitions = list[NamedContradiction](), list[NamedRepetition]()
    for item in sorted(first, key=lambda one: one.pair):
        pair = loaded.pairs[item.pair - 1]
        newer, older = places[pair.later.seq], places[pair.earlier.seq]
        if item.outcome == "contradicts":
            told = {"was": item.was, "now": item.now or "", "still": item.still}
            contradictions.append(NamedContradiction(newer=newer, older=older, **told))
        elif item.outcome == "same":
            repetitions.append(NamedRepetition(n=newer, same_as=older))
    shown = Shown([PendingObservation(item.seq, item.content, item.observed_at) for item in items])
    found = replaced(contradictions, repetitions, shown)
    held = (item if item.still is None else item.model_copy(update={"held": True}) for item in found.contradictions)
    return replace(found, contradictions=tuple(held))


async def apply(session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime) -> Applied:
    """Stores what was compared and what follows. Raises `StaleError` when the scope has changed."""
    scope, rechecks, counts = loaded.scope, RecheckRepository(session), decided.replaced
    done = Applied()
    is_due = loaded.more and settings.recheck and not loaded.is_asked
    wait = settings.recheck_minutes if loaded.pairs else 0  # between calls of the model
    ended = _ended(loaded.to_seq, wait if is_due else None, now)
    if loaded.run is not None and (counts.contradictions or counts.repetitions):
        done = await _write(session, loaded, loaded.run, decided, settings, now)
        await rechecks.end(scope, ended)
    else:
        locked = await ScopeRepository(session).lock(scope.agent_key, scope_ids=[scope.scope_id])
        if not any(one.fence == scope.fence and one.holds_the_same(scope) for one in locked):
            raise StaleError("scope", f"s{scope.scope_id}", "its text or its lease has changed")
        await ScopeRepository(session).release(scope, **ended)
        told = {"observations": 0, "refused": dict(counts.refused)}
        if loaded.run is not None:
            await RunRepository(session).succeed(loaded.run, now, decided.usage, decided.prompt_version, **told)
    said = {pair.key: pair.later.observed_at for pair in loaded.pairs}
    await rechecks.store(scope, {key: (outcome, said[key]) for key, outcome in decided.outcomes.items()}, now)
    return done


async def _write(
    session: Session, loaded: Loaded, run: RunKey, decided: Decided, settings: Settings, now: datetime
) -> Applied:
    """As a consolidation that reads nothing new and leaves the text as it is."""
    scope, text = loaded.scope, loaded.scope.consolidation or ""
    known = tuple(loaded.observations.values())
    as_read = consolidation.Loaded(loaded.agent_id, scope, run, (), consolidation.RECHECK, loaded.now, known=known)
    written = consolidation.Decided(
        text, count_words(text), decided.usage, decided.prompt_version, replaced=decided.replaced
    )
    applied = await consolidation.apply(session, as_read, written, settings, now)
    return Applied(applied.version, applied.superseded, applied.held)


def _ended(to_seq: int | None, again_in: float | None, now: datetime) -> dict[str, Any]:
    """`again_in`: minutes; None: the scope isn't due before it has gained something."""
    again_at = None if again_in is None else moved(now, timedelta(minutes=again_in))
    reached = {} if to_seq is None else {"rechecked_seq": to_seq}
    return {**reached, "rechecked_at": now, "recheck_at": again_at}


def result(loaded: Loaded, decided: Decided, applied: Applied) -> Rechecked:
    outcomes = list(decided.outcomes.values())
    return Rechecked(
        scope=loaded.scope.ref,
        pairs=len(loaded.pairs),
        contradictions=outcomes.count("contradicts"),
        same=outcomes.count("same"),
        superseded=applied.superseded,
        held=applied.held,
        version=applied.version,
        run_id=loaded.run.run_id if loaded.run else None,
        model=decided.usage.model if loaded.run else None,
        more=loaded.more and not loaded.is_asked,  # who asks is given all
    )


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records the error and gives the lease back. Nothing was compared: what was due is due again later."""
    await give_back(session, loaded.agent_id, loaded.scope, error, settings, now)
    if loaded.run is not None:
        await RunRepository(session).fail(loaded.run, error, now)


async def give_back(
    session: Session, agent_id: str, claimed: ScopeState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """Of a scope that couldn't even be loaded."""
    wait = AGAIN if is_unusable(error) else timedelta(minutes=settings.recheck_minutes)
    scopes = ScopeRepository(session)
    if await scopes.release(claimed):
        await scopes.postpone(agent_id, claimed.scope_id, moved(now, wait), "recheck_at")
