"""What a scope has learnt → wider scopes: individual → group → collective, one level at a time, never from a text.

`load` takes the scope's lease and reads what `memory.shareable` lets through; `rules` withhold from the model
what isn't plainly a statement about shared matters. `decide` asks the model about the rest in one call; its word counts
only against a claim, and what it has rewritten is screened again. `apply` looks once more, under the locks of all scopes
concerned, whether everything may still be shared, and stores observations with their lineage. What was decided is
remembered by source and target (`judged`), and only what waits or was released by a person is decided anew.

To a group goes what one member knows. To everybody goes what several people of several groups have said in like words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.corrections import Key
from memory_sql.db.observations import Draft, ObservationRepository
from memory_sql.db.people import share_agent
from memory_sql.db.propagations import Candidate, Judgement, Person, PropagationRepository, Target
from memory_sql.db.runs import RunKey, RunRepository
from memory_sql.db.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.states import StateRepository
from memory_sql.domain import Judged, PropagationOutcome, Usage, observation_id
from memory_sql.errors import AnswerError, BusyError, NotFoundError, StaleError, TruncatedError
from memory_sql.languages.dates import Dated, with_dates, zone_of
from memory_sql.languages.text import clean, content_hash, one_line
from memory_sql.llm import LanguageModel, ask
from memory_sql.llm.dialogue import NO_CALL
from memory_sql.llm.propagating import Claim, Decision, OfferedTarget, PropagationTask
from memory_sql.llm.tasks import as_written
from memory_sql.privacy.classify import classify
from memory_sql.propagation import likeness, rules
from memory_sql.retry import is_unusable, judge

ASKED = "asked"  # somebody waits for it and is told of a failure
ALIKE_AT_MOST = 20  # observations of others that are compared with one claim
SHOWN_AT_MOST = 3  # of their wordings, in a prompt
NAMES_AT_MOST = 5_000


@dataclass(frozen=True, slots=True)
class Offer:
    """A claim and a wider scope. `supports`: what other groups say that claims the same."""

    source: Candidate
    target: Target
    supports: tuple[Candidate, ...] = ()

    @property
    def sources(self) -> tuple[Candidate, ...]:
        return self.source, *self.supports


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided on an offer. `text`: how it is said in the wider scope, where it goes there."""

    offer: Offer
    outcome: PropagationOutcome
    reason: str
    text: str | None = None
    seq: int | None = None
    target_scope_id: int | None = None

    @property
    def told(self) -> Judged:
        target, scope_id = self.offer.target, self.target_scope_id or self.offer.target.scope_id
        made = None if scope_id is None or self.seq is None else observation_id(scope_id, self.seq)
        return Judged(
            source=observation_id(*self.offer.source.key),
            target=target.group_id or target.kind,
            target_scope_id=scope_id,
            outcome=self.outcome,
            reason=self.reason,
            text=self.text,
            observation=made,
            sources=tuple(observation_id(*item.key) for item in self.offer.sources),
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """`offers` go to the model, `verdicts` are those that needed none. `names`: what the rewritten texts must not hold.

    `more`: there may be others that nobody has judged yet.
    """

    scope: ScopeState
    run: RunKey
    offers: tuple[Offer, ...]
    verdicts: tuple[Verdict, ...]
    names: frozenset[str]
    epochs: dict[int, int]
    more: bool
    reason: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Decided:
    verdicts: tuple[Verdict, ...]
    usage: Usage = NO_CALL
    prompt_version: str = ""


Finish = Callable[[Session, Loaded, Decided, Settings, datetime], Awaitable[Sequence[Verdict]]]
"""What is done with a decision: `apply`, or `show`."""


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
    """The scope and what may be judged, leased; None when nothing may. Raises `BusyError`, `NotFoundError`."""
    scopes = ScopeRepository(session)
    scope = await scopes.claim(agent_key, scope_id, timedelta(seconds=settings.lease_seconds))
    if scope is None:
        if await scopes.exists(agent_key, scope_id):
            raise BusyError("scope", str(scope_id))
        raise NotFoundError("scope", str(scope_id))
    return scope, await _load(session, agent_id, scope, settings, now, reason, new_only=new_only)


async def load_claimed(
    session: Session, agent_id: str, claimed: ScopeState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """What may be judged in a scope that was claimed before. Raises `StaleError` when that lease has been lost."""
    locked = await ScopeRepository(session).lock(claimed.agent_key, scope_ids=[claimed.scope_id])
    if not locked or locked[0].fence != claimed.fence:
        raise StaleError("scope", str(claimed.scope_id), "the lease on it was lost")
    return await _load(session, agent_id, locked[0], settings, now, reason)


async def _load(
    session: Session,
    agent_id: str,
    scope: ScopeState,
    settings: Settings,
    now: datetime,
    reason: str,
    *,
    new_only: bool = False,
) -> Loaded | None:
    settings, runs = settings.of_agent(scope.agent_settings), RunRepository(session)
    repository = PropagationRepository(session, scope.agent_key)
    await runs.abandon(scope.agent_key, now, scope_id=scope.scope_id)
    found = await _found(repository, scope, settings, new_only=new_only) if settings.propagation else []
    if not found:
        await repository.finish(scope, None, now)
        return None
    names = await _names(repository, scope, [target for target, _ in found])
    verdicts, offers, epochs = list[Verdict](), list[Offer](), {scope.scope_id: scope.epoch}
    for target, candidates in found:
        court = _Court(repository, scope, target, settings, names)
        for candidate in candidates:
            offer, verdict = await court.look_at(candidate)
            if verdict is None:
                offers.append(offer)
            else:
                verdicts.append(verdict)
        epochs |= court.epochs
    if offers:
        await runs.check_budget(agent_id, scope.agent_key, settings.daily_tokens, now)
    judged = [candidate for _, candidates in found for candidate in candidates]
    seqs = [candidate.seq for candidate in judged]
    span = {"scope_id": scope.scope_id, "from_seq": min(seqs) - 1, "to_seq": max(seqs)}
    run = await runs.start(scope.agent_key, "propagation", scope.fence, now, **span)
    shown = {item.scope_id for offer in offers for item in offer.sources} | {scope.scope_id}
    others = shown - {scope.scope_id}
    if others:
        names |= await repository.names(others, NAMES_AT_MOST) | await repository.group_names(shown)
    epochs = {scope_id: epochs[scope_id] for scope_id in shown}
    new = sum(candidate.outcome != "waiting" for candidate in judged)
    more = new >= _batch(scope, settings)
    return Loaded(scope, run, tuple(offers), tuple(verdicts), names, epochs, more, reason, now)


async def _found(
    repository: PropagationRepository, scope: ScopeState, settings: Settings, *, new_only: bool
) -> list[tuple[Target, list[Candidate]]]:
    """For each target what may be judged for it, together no more than a batch."""
    found, left = [], _batch(scope, settings)
    for target in await repository.targets(scope.scope_id):
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


async def _names(repository: PropagationRepository, scope: ScopeState, targets: Sequence[Target]) -> frozenset[str]:
    around = {scope.scope_id, *(target.scope_id for target in targets if target.kind == "group" and target.scope_id)}
    return frozenset(await repository.names(around, NAMES_AT_MOST))


@dataclass(slots=True)
class _Court:
    """Looks at claims for one target before any model does."""

    repository: PropagationRepository
    scope: ScopeState
    target: Target
    settings: Settings
    names: frozenset[str]
    epochs: dict[int, int] = field(default_factory=dict)  # of what is read, from before it is read
    _peers: list[int] | None = field(default=None, init=False)

    async def look_at(self, source: Candidate) -> tuple[Offer, Verdict | None]:
        """The claim with what supports it, and what is decided on it already."""
        offer = Offer(source, self.target)
        reason = rules.withheld(source.content, names=self.names)
        if reason is not None:
            return offer, Verdict(offer, "refused", reason)
        if self.target.kind == "group":
            return offer, await self._burst(offer)
        offer = Offer(source, self.target, await self._alike(source))
        decided = await self.repository.outcomes([item.key for item in offer.supports], self.target)
        if "propagated" in decided.values():
            return offer, Verdict(offer, "waiting", "known")
        supports = tuple(item for item in offer.supports if decided.get(item.key) != "refused")
        offer = replace(offer, supports=supports)
        return offer, await self.too_few(offer)

    async def too_few(self, offer: Offer) -> Verdict | None:
        """Why not enough people of enough groups say so; None: enough do. New ones don't count; many of them are a burst."""
        people = await self._people(offer.sources)
        everybody = {person.name for group in people.values() for person in group}
        established = {person.name for group in people.values() for person in group if person.established}
        if offer.source.outcome == "released":
            established = everybody
        groups = {key[0] for key, group in people.items() if established & {person.name for person in group}}
        if len(established) >= self.settings.propagation_min_people:
            enough = len(groups) >= self.settings.propagation_min_groups
            return None if enough else Verdict(offer, "waiting", "too_few_groups")
        if len(everybody - established) >= self.settings.propagation_burst:
            return Verdict(offer, "held", "burst")
        return Verdict(offer, "waiting", "too_few_people")

    async def still_enough(self, offer: Offer) -> bool:
        """Under the locks: nobody has left, been taken for somebody else, or been forgotten meanwhile."""
        peers = await self.repository.peers(self.scope.scope_id, self.target, self.settings.propagation_peers)
        return {item.scope_id for item in offer.supports} <= set(peers) and await self.too_few(offer) is None

    async def _burst(self, offer: Offer) -> Verdict | None:
        """A claim that only new people make, and many of them, waits for a person."""
        if offer.source.outcome == "released" or _established(await self._people(offer.sources)):
            return None
        people = await self._people((offer.source, *await self._alike(offer.source)))
        new = {person.name for group in people.values() for person in group}
        held = not _established(people) and len(new) >= self.settings.propagation_burst
        return Verdict(offer, "held", "burst") if held else None

    async def _people(self, candidates: Iterable[Candidate]) -> dict[Key, list[Person]]:
        keys = {candidate.key for candidate in candidates}
        return await self.repository.people(keys, self.settings.propagation_new_user_days)

    async def _alike(self, source: Candidate) -> tuple[Candidate, ...]:
        """What others know that claims the same, by rule; nobody's word for it counts, least of all a model's."""
        if self._peers is None:
            self._peers = await self.repository.peers(self.scope.scope_id, self.target, self.settings.propagation_peers)
            self.epochs |= await self.repository.epochs(self._peers)
        if not self._peers:
            return ()
        found = await self.repository.alike(
            source, self._peers, self.settings.propagation_excluded_users, ALIKE_AT_MOST
        )
        return tuple(
            other
            for other in found
            if likeness.same_claim(source.content, other.content) >= likeness.ALIKE
            and rules.withheld(other.content, names=self.names) is None
        )


def _established(people: Mapping[Key, Sequence[Person]]) -> bool:
    """Whether anybody known for a while says so, or the host, which is nobody."""
    return any(not group or any(person.established for person in group) for group in people.values())


def task(loaded: Loaded) -> PropagationTask:
    """Each observation once, whatever the number of scopes that it is offered to."""
    aliases = _aliases(loaded.offers)
    claims = []
    for n, source in enumerate(_sources(loaded.offers), 1):
        mine = [offer for offer in loaded.offers if offer.source.key == source.key]
        also = [other.content for offer in mine for other in offer.supports]
        to = tuple(aliases[offer.target.owner] for offer in mine)
        claims.append(Claim(n, source.content, source.observed_at, to, tuple(also[:SHOWN_AT_MOST])))
    targets = {offer.target.owner: offer.target for offer in loaded.offers}
    offered = tuple(
        OfferedTarget(aliases[owner], target.kind, target.display_name or target.group_id)
        for owner, target in targets.items()
    )
    return PropagationTask(tuple(claims), offered, loaded.now)


def _sources(offers: Sequence[Offer]) -> list[Candidate]:
    return list({offer.source.key: offer.source for offer in offers}.values())


def _aliases(offers: Sequence[Offer]) -> dict[str, str]:
    """How the model calls the wider scopes, by owner."""
    owners = dict.fromkeys(offer.target.owner for offer in offers)
    return {owner: "collective" if owner == "c" else f"group_{n}" for n, owner in enumerate(owners, 1)}


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Decided:
    """What the model says of each offer, and what the rules then say of that. Without offers it isn't asked."""
    if not loaded.offers:
        return Decided(loaded.verdicts)
    asked = task(loaded)
    answer, usage, prompt_version = await _ask_twice(llm, asked, settings.slow_model)
    aliases, places = _aliases(loaded.offers), _sources(loaded.offers)
    numbers = {source.key: n for n, source in enumerate(places, 1)}
    decisions = {(item.n, item.to.strip().casefold()): item for item in reversed(answer)}
    verdicts = tuple(
        _verdict(offer, decisions.get((numbers[offer.source.key], aliases[offer.target.owner])), loaded, settings)
        for offer in loaded.offers
    )
    return Decided(loaded.verdicts + verdicts, usage, prompt_version)


async def _ask_twice(llm: LanguageModel, asked: PropagationTask, model: str) -> tuple[Sequence[Decision], Usage, str]:
    request = asked.request(model)
    try:
        answer = await ask(llm, request)
        return answer.value.decisions, answer.usage, request.prompt_version
    except (AnswerError, TruncatedError) as error:
        wrong, spent = str(error), error.usage if isinstance(error.usage, Usage) else Usage("")
    request = asked.request(model, wrong)
    answer = await ask(llm, request)
    return answer.value.decisions, spent + answer.usage, request.prompt_version


def _verdict(offer: Offer, decision: Decision | None, loaded: Loaded, settings: Settings) -> Verdict:
    """The model may say no. Its yes is a proposal: the text that it proposes has to pass the rules."""
    if decision is None:
        return Verdict(offer, "refused", "unanswered")
    if decision.refusal is not None:
        return Verdict(offer, "refused", decision.refusal)
    text = one_line(clean(as_written(decision.text))[0])
    may_name = offer.target.group_id in settings.propagation_names_in
    leak = rules.leaks(text, names=loaded.names, sources=[item.content for item in offer.sources], may_name=may_name)
    if leak is None and classify(text).categories:
        leak = "classified"
    if leak is not None:
        return Verdict(offer, "refused", leak)
    return Verdict(offer, "propagated", "shared", _dated(text, offer, settings).text)


def _dated(text: str, offer: Offer, settings: Settings) -> Dated:
    """A relative date is reckoned from when it was said, and what has its calendar date stays as it is."""
    return with_dates(text, offer.source.observed_at, zone_of(settings.time_zone))


async def apply(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
) -> tuple[Verdict, ...]:
    """Stores what goes, and remembers what was decided; what may not be judged any more is left as it was.

    Raises `StaleError` when something was taken out of a scope that the model was shown, or the lease has been lost.
    """
    scope, repository = loaded.scope, PropagationRepository(session, loaded.scope.agent_key)
    locked = await _lock(session, loaded, decided, settings, now)
    standing = await _standing(repository, decided.verdicts, loaded, settings)
    standing = await _once(repository, standing, locked)
    store = _Store(session, repository, loaded, locked, settings, now)
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
    scope, targets = loaded.scope, {item.offer.target.owner: item.offer.target for item in decided.verdicts}
    if "c" in targets:  # two of the people who are counted must not become one meanwhile
        await share_agent(session, scope.agent_key)
    wanted = [NewScope(target.kind, owner) for owner, target in targets.items()]
    read = {item.scope_id for verdict in decided.verdicts for item in verdict.offer.sources} | {scope.scope_id}
    keys = {item.key for verdict in decided.verdicts for item in verdict.offer.sources}
    repository = PropagationRepository(session, scope.agent_key)
    # Nobody whose word is counted takes it back meanwhile: what a group's claim was made of lies in scopes of its own.
    read |= await repository.origins(keys)
    locked = await ScopeRepository(session).lock_or_make(scope.agent_key, wanted, read, settings.language, now)
    if not await repository.origins(keys) <= read:
        raise StaleError("scope", str(scope.scope_id), "somebody else has said so meanwhile")
    for state in locked:
        if state.scope_id in loaded.epochs and state.epoch != loaded.epochs[state.scope_id]:
            raise StaleError("scope", str(scope.scope_id), "something that was shown has been taken out meanwhile")
        if state.scope_id == scope.scope_id and state.fence != scope.fence:
            raise StaleError("scope", str(scope.scope_id), "the lease on it was lost")
    return {state.owner: state for state in locked if state.owner in targets and not state.name}


async def _standing(
    repository: PropagationRepository, verdicts: Sequence[Verdict], loaded: Loaded, settings: Settings
) -> list[Verdict]:
    """Those of which all may still be shared, with this target, and behind which enough people stand."""
    scope_id = loaded.scope.scope_id
    keys = {source.key for item in verdicts for source in item.offer.sources}
    shareable = await repository.still_shareable(keys, settings.propagation_excluded_users)
    owners = {target.owner for target in await repository.targets(scope_id)}
    standing = [
        item
        for item in verdicts
        if item.offer.target.owner in owners and shareable.issuperset(source.key for source in item.offer.sources)
    ]
    for item in [item for item in standing if item.text is not None and item.offer.target.kind == "collective"]:
        court = _Court(repository, loaded.scope, item.offer.target, settings, loaded.names)
        if not await court.still_enough(item.offer):
            standing.remove(item)
    return standing


async def _once(
    repository: PropagationRepository, standing: Sequence[Verdict], targets: Mapping[str, ScopeState]
) -> list[Verdict]:
    """What goes to everybody goes once: not what another run has told them meanwhile, nor twice in one run."""
    once, told = list[Verdict](), set[Key]()
    for item in standing:
        offer = item.offer
        if item.text is not None and offer.target.kind == "collective":
            target = replace(offer.target, scope_id=targets[offer.target.owner].scope_id)
            keys = {source.key for source in offer.sources}
            decided = await repository.outcomes(keys, target)
            if keys & told or "propagated" in decided.values():
                item = Verdict(offer, "waiting", "known")
            else:
                told |= keys
        once.append(item)
    return once


@dataclass(slots=True)
class _Store:
    session: Session
    repository: PropagationRepository
    loaded: Loaded
    targets: dict[str, ScopeState]
    settings: Settings
    now: datetime
    stored: int = 0

    async def keep(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Each with the scope that it is about, and where it went there with the number that it has."""
        numbers = {}
        for owner, target in self.targets.items():
            going = [item for item in verdicts if item.offer.target.owner == owner and item.text is not None]
            numbers[owner] = await self._numbers(target, going)
        owners = [item.offer.target.owner for item in verdicts]
        return [
            await self._keep(item, self.targets[owner], numbers[owner])
            for item, owner in zip(verdicts, owners, strict=True)
        ]

    async def _numbers(self, target: ScopeState, going: Sequence[Verdict]) -> dict[bytes | None, int]:
        """The numbers of these texts in the target, by hash: of what it holds already, and of what is stored now."""
        texts: dict[bytes | None, Verdict] = {}
        for item in going:
            texts.setdefault(content_hash(item.text or ""), item)
        known = await self.repository.known(target, [digest for digest in texts if digest])
        drafts = [self._draft(target, item) for digest, item in texts.items() if digest not in known]
        run_id = self.loaded.run.run_id
        saved = await ObservationRepository(self.session).save(
            target.agent_key, drafts, [target], run_id=run_id, now=self.now
        )
        self.stored += len(saved.stored)
        return dict(known) | await self.repository.hashes(saved.stored)

    def _draft(self, target: ScopeState, item: Verdict) -> Draft:
        """It names nobody, is as old as what it was made of, and no less private."""
        source = item.offer.source
        return Draft(
            scope=NewScope(target.kind, target.owner, target.name),
            content=item.text or "",
            observed_at=source.observed_at,
            source_kind="propagation",
            evidence=(),
            dates=_dated(item.text or "", item.offer, self.settings).days,
        )

    async def _keep(self, item: Verdict, target: ScopeState, seqs: Mapping[bytes | None, int]) -> Verdict:
        placed = replace(item, target_scope_id=target.scope_id)
        if item.text is None:
            return placed
        seq = seqs.get(content_hash(item.text))
        if seq is None:  # it is quarantined there, and stays so
            return replace(placed, outcome="refused", reason="quarantined", text=None)
        if not await self.repository.made_by_propagation(target, [seq]):
            return replace(placed, reason="known", seq=seq)  # somebody there said so: it is theirs
        sources = [source.key for source in item.offer.sources]
        whole = target.kind == "group"
        await self.repository.vouch((target.scope_id, seq), self.loaded.run.run_id, self.now)
        await self.repository.derive((target.scope_id, seq), sources, self.loaded.run.run_id, self.now, whole=whole)
        if whole:
            await self._replace_older(item.offer.source, target, seq)
        return replace(placed, seq=seq)

    async def _replace_older(self, source: Candidate, target: ScopeState, seq: int) -> None:
        """What was made of that alone whose place the source has taken gives way to what is made of the source."""
        older = await self.repository.made_of_predecessors(source.key, target)
        if by := {one: seq for one in older if one != seq}:
            run_id = self.loaded.run.run_id
            await StateRepository(self.session).supersede(target, by, self.now, run_id=run_id)


async def _account(
    session: Session, loaded: Loaded, decided: Decided, made: Sequence[Verdict], stored: int, now: datetime
) -> None:
    runs = RunRepository(session)
    went = {(item.target_scope_id, item.seq) for item in made if item.outcome == "propagated"}
    refused = Counter(item.reason for item in decided.verdicts if item.outcome == "refused")
    await runs.cost(loaded.run, decided.usage, decided.prompt_version)
    await runs.succeed(loaded.run, now, observations=stored, duplicates=len(went) - stored, refused=dict(refused))


async def show(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime
) -> tuple[Verdict, ...]:
    """A dry run ends: what it cost is written down, what it decided isn't; the scope is as due as before."""
    runs = RunRepository(session)
    await ScopeRepository(session).release(loaded.scope)
    await runs.cost(loaded.run, decided.usage, decided.prompt_version)
    await runs.succeed(loaded.run, now, observations=0, duplicates=0, refused={"dry_run": len(decided.verdicts)})
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
    scopes = ScopeRepository(session)
    if await scopes.release(scope, **changes) and gives_up:
        offer = loaded.offers[0]
        wanted = [NewScope(offer.target.kind, offer.target.owner)]  # the collective scope may not be there yet
        (target,) = await scopes.lock_or_make(scope.agent_key, wanted, (), settings.language, now)
        judgement = Judgement(offer.source.key, target.scope_id, "refused", "unusable_answer")
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
