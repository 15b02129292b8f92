"""Pending observations → the scope's text, a new immutable version that absorbs exactly what was read.

`load` takes a lease and reads; `decide` asks the model and guards the old text; `apply` compares version, epoch and
fence and writes two rows, however many observations there are. What arrives meanwhile has a higher number and stays
pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.consolidations import ConsolidationRepository
from memory_sql.db.runs import RunKey, RunRepository
from memory_sql.db.scopes import ScopeRepository, ScopeState
from memory_sql.domain import PendingObservation, Usage
from memory_sql.errors import BusyError, GuardError, NotFoundError, StaleError
from memory_sql.llm import LanguageModel, ask
from memory_sql.llm.tasks import ConsolidationTask, NumberedText, as_written
from memory_sql.retry import judge
from memory_sql.text import clean, count_words

ASKED = ("asked", "forget")  # somebody waits for it and is told of a failure
SHORT_WORDS, SHORT_CHARACTERS = 40, 240  # below that a text may shrink as it likes
LONGEST_WORD = 12  # characters that a word may take on average


@dataclass(frozen=True, slots=True)
class Loaded:
    scope: ScopeState
    run: RunKey
    inputs: tuple[PendingObservation, ...]
    reason: str
    now: datetime

    @property
    def to_seq(self) -> int:
        return max(self.scope.done_seq, self.inputs[-1].seq)

    @property
    def extra_seqs(self) -> list[int]:
        """Inputs that an earlier version passed over."""
        return [item.seq for item in self.inputs if item.seq <= self.scope.done_seq]


@dataclass(frozen=True, slots=True)
class Decided:
    content: str
    words: int
    usage: Usage
    prompt_version: str


async def load(
    session: Session, agent_id: str, agent_key: int, scope_id: int, settings: Settings, now: datetime, reason: str
) -> tuple[ScopeState, Loaded | None]:
    """The scope and what waits in it, leased; None when nothing does. Raises `BusyError`, `NotFoundError`."""
    scopes = ScopeRepository(session)
    scope = await scopes.claim(agent_key, scope_id, timedelta(seconds=settings.lease_seconds))
    if scope is None:
        if await scopes.exists(agent_key, scope_id):
            raise BusyError("scope", str(scope_id))
        raise NotFoundError("scope", str(scope_id))
    return scope, await _load(session, agent_id, scope, settings, now, reason)


async def load_claimed(
    session: Session, agent_id: str, claimed: ScopeState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """What waits in a scope that was claimed before. Raises `StaleError` when that lease has been lost."""
    locked = await ScopeRepository(session).lock(claimed.agent_key, scope_ids=[claimed.scope_id])
    if not locked or locked[0].fence != claimed.fence:
        raise StaleError("scope", str(claimed.scope_id), "the lease on it was lost")
    return await _load(session, agent_id, locked[0], settings, now, reason)


async def _load(
    session: Session, agent_id: str, scope: ScopeState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    scopes, runs = ScopeRepository(session), RunRepository(session)
    agent_key, scope_id = scope.agent_key, scope.scope_id
    await runs.abandon(agent_key, now, scope_id=scope_id)
    inputs = _fitting(
        await scopes.pending(scope, settings.consolidation_batch), settings.consolidation_batch_characters
    )
    if not inputs or not scope.consolidate or not scope.is_active:
        await scopes.release(scope)
        await scopes.refresh_due(agent_key, [scope_id], settings.consolidation_threshold, now)
        return None
    await runs.check_budget(agent_id, agent_key, settings.daily_tokens, now)
    target = {"scope_id": scope_id, "from_seq": scope.done_seq, "to_seq": max(scope.done_seq, inputs[-1].seq)}
    run = await runs.start(agent_key, "consolidation", scope.fence, now, **target)
    return Loaded(scope, run, tuple(inputs), reason, now)


def _fitting(pending: Sequence[PendingObservation], max_characters: int) -> list[PendingObservation]:
    """From the front, as many as fit; at least one. The cut is by number, so that it is a range."""
    total = accumulate(len(item.content) for item in pending)
    return [item for item, characters in zip(pending, total, strict=True) if characters <= max_characters] or list(
        pending[:1]
    )


def task(loaded: Loaded, settings: Settings) -> ConsolidationTask:
    scope = loaded.scope
    ordered = sorted(loaded.inputs, key=lambda item: (item.observed_at, item.seq))
    return ConsolidationTask(
        kind=scope.kind,
        whose=scope.display_name or scope.ref.owner_id,
        current=scope.consolidation,
        observations=tuple(NumberedText(n, item.observed_at, item.content) for n, item in enumerate(ordered, 1)),
        max_words=scope.max_words or settings.consolidation_max_words,
        now=loaded.now,
        guidance=scope.consolidation_prompt,
    )


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Decided:
    """The new text; raises `GuardError` for one that would do harm. One that is too long is asked for once more."""
    asked = task(loaded, settings)
    request = asked.request(settings.slow_model)
    answer = await ask(llm, request)
    text, usage = _without_marks(answer.value, request.boundary), answer.usage
    if count_words(text) > asked.max_words:
        request = asked.request(settings.slow_model, too_long=count_words(text))
        answer = await ask(llm, request)
        text, usage = _without_marks(answer.value, request.boundary), _both(usage, answer.usage)
    problem = harm_in(text, asked, settings.consolidation_min_ratio)
    if problem is not None:
        error = GuardError(problem, raw=answer.raw)
        error.usage = usage
        raise error
    return Decided(text, count_words(text), usage, request.prompt_version)


def _without_marks(text: str, boundary: str) -> str:
    """Small models copy the lines around the material that they are shown; those lines are ours, and no text."""
    return as_written("\n".join(line for line in clean(text)[0].splitlines() if boundary not in line).strip())


def harm_in(text: str, asked: ConsolidationTask, min_ratio: float) -> str | None:
    """Why the text must not replace the old one; None when it may."""
    words, before = count_words(text), count_words(asked.current or "")
    if not words:
        return "the new text is empty"
    if words > asked.max_words:
        return f"the new text has {words} words, {asked.max_words} are allowed"
    if len(text) > asked.max_words * LONGEST_WORD:  # scripts without spaces between words
        return f"the new text has {len(text):,} characters, {asked.max_words * LONGEST_WORD:,} are allowed"
    if before > SHORT_WORDS and words < before * min_ratio:
        return f"the new text has {words} words where the old one has {before}"
    if len(asked.current or "") > SHORT_CHARACTERS and len(text) < len(asked.current or "") * min_ratio:
        return f"the new text has {len(text):,} characters where the old one has {len(asked.current or ''):,}"
    return None


def _both(first: Usage, second: Usage) -> Usage:
    def total(a: int | None, b: int | None) -> int | None:
        return None if a is None and b is None else (a or 0) + (b or 0)

    return Usage(
        second.model,
        total(first.input_tokens, second.input_tokens),
        total(first.output_tokens, second.output_tokens),
        first.latency_seconds + second.latency_seconds,
    )


async def apply(session: Session, loaded: Loaded, decided: Decided, settings: Settings, now: datetime) -> int:
    """The version that was written; raises `StaleError` when the scope has moved on."""
    versions, scope = ConsolidationRepository(session), loaded.scope
    version = await versions.commit_version(
        scope,
        content=decided.content,
        words=decided.words,
        to_seq=loaded.to_seq,
        extra_seqs=loaded.extra_seqs,
        model=decided.usage.model,
        prompt_version=decided.prompt_version,
        reason=loaded.reason,
        run_id=loaded.run.run_id,
        now=now,
    )
    if version is None:
        raise StaleError("scope", str(scope.scope_id), "its text, or the lease on it, has changed meanwhile")
    await versions.mark_passed(scope, loaded.to_seq, [item.seq for item in loaded.inputs], now)
    threshold = settings.consolidation_threshold
    await ScopeRepository(session).refresh_due(scope.agent_key, [scope.scope_id], threshold, now)
    runs = RunRepository(session)
    await runs.cost(loaded.run, decided.usage, decided.prompt_version)
    await runs.succeed(loaded.run, now, observations=len(loaded.inputs))
    await runs.outlive(scope.agent_key, scope.dead_run_id)
    return version


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why, gives the lease back and says when to try again; the old text stays."""
    counts = loaded.reason not in ASKED
    verdict = judge(error, loaded.scope.failures, loaded.scope.errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"failures": verdict.failures, "errors": verdict.errors}
    if verdict.gives_up:
        changes |= {"dead_run_id": loaded.run.run_id, "due_at": None}
    elif verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "dead_run_id": None}
    scopes, scope = ScopeRepository(session), loaded.scope
    ours = await scopes.release(scope, **changes)  # first, as everywhere: locks in one order
    if ours:
        await scopes.refresh_due(scope.agent_key, [scope.scope_id], settings.consolidation_threshold, now)
    await RunRepository(session).fail(loaded.run, error, now, gives_up=verdict.gives_up and ours)


async def give_back(
    session: Session, claimed: ScopeState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """The lease of a scope that couldn't even be loaded, and when to try again."""
    verdict = judge(error, claimed.failures, claimed.errors, settings, now, counts=True)
    changes: dict[str, Any] = {"failures": verdict.failures}
    if verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "dead_run_id": None}
    scopes = ScopeRepository(session)
    if await scopes.release(claimed, **changes):
        await scopes.refresh_due(claimed.agent_key, [claimed.scope_id], settings.consolidation_threshold, now)
