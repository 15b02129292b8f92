"""Rewrites a scope's text with its pending observations, as a new immutable version that absorbs exactly what was read.

`load` reads under a lease. `decide` asks the model and checks its text. `apply` compares version, epoch and fence, and
writes two rows, however many observations there are, and one more for each observation that a newer one superseded.
Observations that arrive meanwhile have higher numbers and stay pending.

If a text fails the checks, the model is told why and asked once more. If the second text fails too, the old text stays,
and the pending observations stay pending: the scope is due again when it gains a new observation, or after a day. A sentence
that can't stand costs neither: it is left out, and what it told waits in the same way.

A single observation that no model can process doesn't block the others. After an answer that can't be read, the next attempt
reads half as many observations, until the failing batch is a single observation (the bad one is among the first
`scopes.suspects`). That observation is set aside after `max_errors` attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

from memory_sql.config import Settings
from memory_sql.consolidation import reviewing
from memory_sql.consolidation.accounting import Account, Spent, size_of, too_much_lost
from memory_sql.consolidation.answers import NumberedText
from memory_sql.consolidation.bounding import bounded, standing_behind
from memory_sql.consolidation.checks import accounted_for, checked_text, kept_of, nothing_new, refused_as
from memory_sql.consolidation.draining import A_WEEK, drained
from memory_sql.consolidation.keeping import Kept, allowed
from memory_sql.consolidation.parts import keep_parts
from memory_sql.consolidation.replacing import Replaced, Shown, in_most, replaced, without
from memory_sql.consolidation.task import ConsolidationTask, numbered
from memory_sql.consolidation.unnamed import with_rows
from memory_sql.db import Session
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.consolidations import ConsolidationRepository
from memory_sql.db.repositories.following import FollowingRepository
from memory_sql.db.repositories.rechecks import RecheckRepository
from memory_sql.db.repositories.runs import RunKey, RunRepository
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.ids import moved
from memory_sql.domain.results import Usage
from memory_sql.domain.scopes import AbsorbedObservation, Contradiction, PendingObservation, Repetition
from memory_sql.errors import AnswerError, BusyError, GuardError, NotFoundError, StaleError
from memory_sql.languages.text import count_words
from memory_sql.llm import LanguageModel, ask
from memory_sql.llm.retry import Verdict, is_unusable, judge, pause
from memory_sql.retrieval.related import related

RECHECK = "recheck"  # the reason of a version that only supersedes
ASKED = ("asked", "forget")  # the caller waits for the result and gets the error
AGAIN, MOST_AGAIN = timedelta(days=1), timedelta(days=30)
ATTEMPTS = 2  # answers: before the second one the model is told why the first was refused


@dataclass(frozen=True, slots=True)
class Loaded:
    """`gone`: words that versions of the last week dropped as over or slight; `before`: the text of a week ago."""

    agent_id: str
    scope: ScopeState
    run: RunKey
    inputs: tuple[PendingObservation, ...]
    reason: str
    now: datetime
    known: tuple[AbsorbedObservation, ...] = ()
    ended: tuple[AbsorbedObservation, ...] = ()
    gone: int = 0
    before: str | None = None

    @property
    def to_seq(self) -> int:
        return max([self.scope.done_seq, *(item.seq for item in self.inputs)])

    @property
    def extra_seqs(self) -> list[int]:
        """Inputs that an earlier version left pending."""
        return [item.seq for item in self.inputs if item.seq <= self.scope.done_seq]

    @property
    def in_order(self) -> list[PendingObservation]:
        """In the order in which the model sees them. It refers to them by position, from 1."""
        return sorted(self.inputs, key=lambda item: (item.observed_at, item.seq))

    @property
    def is_summary(self) -> bool:
        """Of one conversation, which shrinks as that goes on."""
        return self.scope.kind == "conversation"

    def spent(self, max_words: int) -> Spent:
        texts = [self.scope.consolidation or "", *(item.content for item in self.inputs)]
        gone = 0 if self.is_summary else self.gone
        return Spent(gone, max(sum(map(size_of, texts)) - allowed(max_words)[0], 0), self.scope.kind == "individual")

    @property
    def shown(self) -> Shown:
        return Shown(self.in_order, self.known, self.scope.consolidation, self.ended)


@dataclass(frozen=True, slots=True)
class Decided:
    content: str
    words: int
    usage: Usage
    prompt_version: str
    replaced: Replaced = field(default_factory=Replaced)
    waits: frozenset[int] = frozenset()  # the numbers of observations that stay pending
    sentences: Counter[str] = field(default_factory=Counter)  # left out of the answer, or put back, by reason
    held: dict[str, Any] | None = None  # for a person: the text with what nothing shown says
    explained: tuple[str, ...] = ()  # sentences of the old text of which the answer says why it drops them


@dataclass(frozen=True, slots=True)
class Applied:
    """`more`: observations are waiting that this version didn't read. `held`: contradictions that wait for a person."""

    version: int
    superseded: int
    more: bool
    held: int = 0


async def refuse_unclaimed(session: Session, agent_id: str, scope_id: int) -> NoReturn:
    """Raises `BusyError`, `NotFoundError`."""
    agent_key = await agent_key_of(session, agent_id)
    if agent_key is None:
        raise NotFoundError("agent", agent_id)
    if await ScopeRepository(session).exists(agent_key, scope_id):
        raise BusyError("scope", f"s{scope_id}")
    raise NotFoundError("scope", f"s{scope_id}")


async def load(
    session: Session, agent_id: str, scope: ScopeState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """Reads what is pending in a claimed scope; None: nothing. Raises `StaleError` when the scope has changed."""
    settings = settings.of_agent(scope.agent_settings)
    if not scope.consolidate or not scope.is_active:
        await _nothing(session, scope, settings, now)
        return None
    await RunRepository(session).check_budget(agent_id, scope.agent_key, settings, now)
    batch = _batch(scope, settings), settings.consolidation_batch_characters
    begun = await ConsolidationRepository(session).begin(scope, *batch, now, moved(now, -A_WEEK))
    if begun is None:
        raise StaleError("scope", f"s{scope.scope_id}", "its text or its lease has changed")
    if begun.run_id is None:
        await _nothing(session, scope, settings, now)
        return None
    scope = replace(scope, consolidation=begun.text)
    found = await _known(session, agent_id, scope, begun.inputs, now)
    known, ended = (tuple(item for item in found if (item.ended is None) == stands) for stands in (True, False))
    run = RunKey(scope.agent_key, begun.run_id, scope.fence)
    return Loaded(agent_id, scope, run, begun.inputs, reason, now, known, ended, begun.gone, begun.before)


async def _nothing(session: Session, scope: ScopeState, settings: Settings, now: datetime) -> None:
    """Gives the lease back."""
    await RunRepository(session).abandon(scope.agent_key, now, scope_id=scope.scope_id)
    scopes = ScopeRepository(session)
    if await scopes.release(scope):
        await scopes.refresh_due(scope.agent_key, [scope.scope_id], settings.consolidation_threshold, now)


async def _known(
    session: Session, agent_id: str, scope: ScopeState, inputs: Sequence[PendingObservation], now: datetime
) -> tuple[AbsorbedObservation, ...]:
    """Absorbed observations that these may contradict or repeat, and plans that have ended since the text was written.

    Forgetting one of them meanwhile raises the epoch.
    """
    return tuple(await related(session, agent_id, scope, inputs, now)) if scope.done_seq else ()


def _batch(scope: ScopeState, settings: Settings) -> int:
    """How many observations to read: half of the suspects, so that n of them take log2(n) attempts."""
    return max(scope.suspects // 2, 1) if scope.suspects else settings.consolidation_batch


def task(loaded: Loaded, settings: Settings) -> ConsolidationTask:
    scope, words = loaded.scope, loaded.scope.own_words("consolidation")
    return ConsolidationTask(
        kind=scope.kind,
        whose=scope.display_name or ": ".join(filter(None, (scope.ref.owner_id, scope.name))),
        current=scope.consolidation,
        observations=tuple(
            NumberedText(n, item.observed_at, item.content) for n, item in enumerate(loaded.in_order, 1)
        ),
        known=tuple(NumberedText(n, item.observed_at, item.content) for n, item in enumerate(loaded.known, 1)),
        ended=tuple((item.ended or "", NumberedText(0, item.observed_at, item.content)) for item in loaded.ended),
        max_words=scope.max_words or settings.consolidation_max_words,
        now=loaded.now,
        words=words,
        told=words.told(scope.scope_id) if words else "",
    )


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Decided:
    """Returns the new text, without the sentences that can't stand. Raises `GuardError` if a second answer is refused too."""
    asked, refusal, usage, raw, held = task(loaded, settings), None, None, "", None
    spent = loaded.spent(asked.max_words)
    for attempt in range(1, ATTEMPTS + 1):
        request = asked.request(
            loaded.scope.consolidation_model or settings.slow_model, refusal.told if refusal else None
        )
        answer = await ask(llm, request)
        usage, raw = answer.usage if usage is None else usage + answer.usage, answer.raw
        text = checked_text(answer.value.text, request.boundary, settings)
        if not text:
            raise _costing(usage, AnswerError("the new text is empty", raw=raw, reason="empty"))
        named = replaced(answer.value.contradictions, answer.value.same_as, loaded.shown)
        accounted = accounted_for(answer.value, named, asked, loaded.shown, spent)
        refusal = refused_as(text, asked, accounted, settings)
        if refusal is None or (refusal.too_long and attempt == ATTEMPTS):
            kept = kept_of(text, answer.value, asked, loaded.shown, accounted, settings)
            held = reviewing.unsaid_in(kept, named)
            refusal = nothing_new(kept, len(loaded.inputs), asked.max_words)
            refusal = refusal or too_much_lost(kept.lost, asked.current, asked.max_words, spent)
            if refusal is None:
                given = without(named, kept.waits)
                of_text = kept.text, count_words(kept.text), usage, request.prompt_version, given, kept.waits
                current = numbered(asked.current)
                explained = tuple(current[n - 1] for n in sorted(accounted.explained))
                return Decided(*of_text, _counted(kept, accounted), held, explained)
    assert refusal is not None
    error = GuardError(refusal.reason, raw=raw)
    error.held = reviewing.whole([item.seq for item in loaded.inputs], text, named) if refusal.review else held
    raise _costing(usage, error)


def _counted(kept: Kept, accounted: Account) -> Counter[str]:
    counts = Counter({f"sentences_{reason}": count for reason, count in kept.left_out.items()})
    return counts + Counter(sentences_put_back=kept.put_back, words_gone=accounted.words)


def again(loaded: Loaded, now: datetime) -> timedelta:
    """When what could not be told is tried again: after as long as it has waited, a day at least and a month at most."""
    waited = now - min(item.observed_at for item in loaded.inputs)
    return min(max(waited, AGAIN), MOST_AGAIN)


def _costing(usage: Usage | None, error: AnswerError) -> AnswerError:
    error.usage = usage
    return error


async def apply(session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime) -> Applied:
    """Writes the version. Raises `StaleError` when the scope has changed, `GuardError` if a week's versions lose too much."""
    return await _write(session, loaded, decided, settings, now, is_decided=False)


async def _write(
    session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime, *, is_decided: bool
) -> Applied:
    """`is_decided`: a person has read the text and accepted it."""
    scope = loaded.scope
    following = FollowingRepository(session, scope.agent_key)
    states, contradictions = StateRepository(session), decided.replaced.contradictions
    if any(item.older is None for item in contradictions):
        newer = {item.seq: item.observed_at for item in loaded.inputs}
        contradictions = await with_rows(session, loaded.agent_id, scope, contradictions, newer, now)
    if any(item.older is not None for item in contradictions):  # what was derived from them goes with them
        await following.lock([scope.scope_id])
        asked = in_most(loaded.shown), loaded.now, loaded.run.run_id
        contradictions = tuple(await bounded(session, scope, contradictions, *asked, now))
    if not is_decided:
        await _refuse_drained(session, loaded, decided, contradictions, settings, now)
    older = {item.older: item.newer for item in contradictions if item.older is not None and not item.held}
    named = {item.newer: item.older for item in decided.replaced.repetitions}
    same_as = await states.repeating(scope, named) if named else {}
    same_as = await standing_behind(session, scope, same_as, loaded.shown.contents)
    refused = decided.replaced.refused + Counter(not_the_same=len(named) - len(same_as))
    threshold = settings.consolidation_threshold
    parts = await keep_parts(session, scope, contradictions, settings, now)
    to_seq = max(loaded.to_seq, *parts) if parts else loaded.to_seq
    more = await ConsolidationRepository(session).commit_version(
        scope,
        loaded.run,
        content=decided.content,
        words=decided.words,
        inputs=[*(item.seq for item in loaded.inputs if item.seq not in decided.waits), *parts],
        to_seq=to_seq,
        extra_seqs=[seq for seq in loaded.extra_seqs if seq not in decided.waits],
        passed_seqs=sorted(decided.waits),
        contradictions=[item.model_dump() for item in contradictions],
        repetitions=[Repetition(newer=newer, older=older).model_dump() for newer, older in same_as.items()],
        suspects=max(scope.suspects - len(loaded.inputs), 0),
        usage=decided.usage,
        prompt_version=decided.prompt_version,
        reason=loaded.reason,
        refused=refused + decided.sentences,
        now=now,
        propagation_interval=timedelta(minutes=settings.propagation_interval_minutes),
        threshold=threshold,
    )
    version = scope.version + 1
    if decided.waits:
        until = now + again(loaded, now)
        more = await ConsolidationRepository(session).hold(scope, len(decided.waits), threshold, now, until)
    superseded: Collection[int] = ()
    if older or same_as:
        cause = {"run_id": loaded.run.run_id, "version": version}
        superseded = await states.supersede(scope, older, now, **cause)
        await states.repeat(scope, same_as, now, **cause)
        if superseded:
            await following.settle([scope.scope_id], threshold, now, run_id=loaded.run.run_id)
        waits = await ScopeRepository(session).refresh_due_after(scope, to_seq, threshold, now)
        more = more if decided.waits else waits
    if settings.recheck and loaded.reason != RECHECK:
        await RecheckRepository(session).make_due(scope, settings, now)
    if decided.held is not None:
        await RunRepository(session).hold(loaded.run, scope.scope_id, decided.held)
    return Applied(version, len(superseded), more, sum(item.held for item in contradictions))


async def _refuse_drained(
    session: Session,
    loaded: Loaded,
    decided: Decided,
    contradictions: Sequence[Contradiction],
    settings: Settings,
    now: datetime,
) -> None:
    if loaded.before is None or loaded.is_summary:
        return
    refusal = await drained(
        session,
        loaded.agent_id,
        loaded.scope,
        (loaded.before, decided.content, decided.explained),
        contradictions,
        task(loaded, settings).max_words,
        now,
    )
    if refusal is not None:
        error = GuardError(refusal.reason)
        inputs = [item.seq for item in loaded.inputs if item.seq not in decided.waits]
        error.held = reviewing.whole(inputs, decided.content, decided.replaced)
        raise _costing(decided.usage, error)


async def accept(
    session: Session, agent_id: str, agent_key: int, run_id: int, settings: Settings, now: datetime
) -> Applied:
    """Writes a text that was held for a person. Raises `NotFoundError` when the scope has changed, `BusyError`.

    The caller has locked the scope, and all in which something follows it.
    """
    scopes, runs = ScopeRepository(session), RunRepository(session)
    found = await runs.find_held(agent_key, run_id)
    if found is None:
        raise NotFoundError("review", f"r{run_id}")
    scope_id, held = found
    scope = await scopes.claim(agent_key, scope_id, timedelta(seconds=settings.lease_seconds))
    if scope is None:
        raise BusyError("scope", f"s{scope_id}")
    inputs = await scopes.pending_among(scope, held["inputs"])
    if (scope.version, scope.epoch, len(inputs)) != (held["version"], held["epoch"], len(held["inputs"])):
        raise NotFoundError("review", f"r{run_id}")
    run, usage, prompt_version = await runs.reopen_held(scope, run_id)
    decided = Decided(held["text"], count_words(held["text"]), usage, prompt_version, reviewing.named_in(held))
    settings = settings.of_agent(scope.agent_settings)
    loaded = Loaded(agent_id, scope, run, tuple(inputs), "asked", now)
    return await _write(session, loaded, decided, settings, now, is_decided=True)


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records the error, gives the lease back and sets the next attempt. The old text stays.

    After an unusable answer the next attempt reads less. A single observation is given up in the end.
    """
    scopes, scope, verdict = ScopeRepository(session), loaded.scope, _verdict(loaded, error, settings, now)
    changes: dict[str, Any] = {"failures": verdict.failures, "errors": verdict.errors}
    refused = error if isinstance(error, GuardError) and await _is_as_read(scopes, scope) else None
    if refused is not None:
        changes |= {"held_seq": scope.last_seq, "rebuild": False, "due_at": now + again(loaded, now)}
    elif is_unusable(error) and not isinstance(error, GuardError):
        changes["suspects"] = len(loaded.inputs)
    if verdict.gives_up:
        changes |= {"errors": 0, "suspects": 0, "due_at": now + pause(0, settings)}
    elif verdict.retry_at is not None:
        changes["due_at"] = verdict.retry_at
    if verdict.gives_up:
        await FollowingRepository(session, scope.agent_key).lock([scope.scope_id])
    ours = await scopes.release(scope, **changes)  # before other locks, as everywhere: one lock order
    runs, set_aside = RunRepository(session), None
    if ours and verdict.gives_up and await runs.is_open(loaded.run):
        set_aside = await _set_aside(session, loaded, settings, now)
    if ours:
        await scopes.refresh_due(scope.agent_key, [scope.scope_id], settings.consolidation_threshold, now)
    await runs.fail(loaded.run, error, now, gives_up=set_aside is not None, set_aside=set_aside)
    if ours and refused is not None and refused.held is not None:
        await runs.hold(loaded.run, scope.scope_id, refused.held)


async def _is_as_read(scopes: ScopeRepository, scope: ScopeState) -> bool:
    """Locks the scope. If it isn't, a refused text says nothing about what is pending now, and may tell what was deleted."""
    locked = await scopes.lock(scope.agent_key, scope_ids=[scope.scope_id])
    return any(now.holds_the_same(scope) for now in locked)


def _verdict(loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> Verdict:
    """Counts errors per single observation: a failing batch is halved, not given up."""
    scope, size = loaded.scope, len(loaded.inputs)
    if isinstance(error, GuardError):  # the answer was readable, so the inputs aren't at fault
        return Verdict(scope.failures, scope.errors)
    before = scope.errors if scope.suspects == size else 0
    verdict = judge(error, scope.failures, before, settings, now, counts=loaded.reason not in ASKED)
    if verdict.gives_up and size > 1:
        return replace(verdict, gives_up=False, retry_at=now + pause(0, settings))
    return verdict


async def _set_aside(session: Session, loaded: Loaded, settings: Settings, now: datetime) -> int | None:
    """Gives up the batch's only observation and what was derived from it. Returns None if it isn't active any more."""
    scope, run_id = loaded.scope, loaded.run.run_id
    await ScopeRepository(session).raise_epochs(scope.agent_key, [scope.scope_id])
    given_up = await StateRepository(session).give_up(scope, [item.seq for item in loaded.inputs], now, run_id=run_id)
    following = FollowingRepository(session, scope.agent_key)
    await following.settle([scope.scope_id], settings.consolidation_threshold, now, run_id=run_id)
    return next(iter(given_up), None)


async def give_back(
    session: Session, claimed: ScopeState, error: BaseException, settings: Settings, now: datetime, *, counts: bool
) -> None:
    """Gives back the lease of a scope that couldn't even be loaded, and sets the next attempt."""
    verdict = judge(error, claimed.failures, claimed.errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"failures": verdict.failures}
    if verdict.retry_at is not None:
        changes["due_at"] = verdict.retry_at
    scopes = ScopeRepository(session)
    if await scopes.release(claimed, **changes):
        await RunRepository(session).abandon(claimed.agent_key, now, scope_id=claimed.scope_id)
        await scopes.refresh_due(claimed.agent_key, [claimed.scope_id], settings.consolidation_threshold, now)
