"""Buffered messages → observations, in one model call.

`load` takes a lease and reads a window of messages; `decide` asks the model; `apply` re-checks the lease, the cursor
and the epochs of everything that the prompt showed, and stores. A window is read once: the cursor moves in the
transaction that stores what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from math import ceil
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.observations import Draft, Evidence, ObservationRepository, Saved
from memory_sql.db.runs import AnsweredRun, RunKey, RunRepository
from memory_sql.db.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.sessions import BufferedMessage, SessionRepository, SessionState
from memory_sql.domain import ScopeKind, Usage, owner_key
from memory_sql.errors import BusyError, StaleError
from memory_sql.llm import LanguageModel
from memory_sql.llm.answers import read
from memory_sql.llm.tasks import ExtractedObservation, Extraction, ExtractionTask, OfferedScope, Turn
from memory_sql.retry import judge
from memory_sql.text import clean, count_words, normal_form

AGENT_ROLES = frozenset({"assistant", "agent"})
ECHO_SHARE = 0.6  # of a text's words in what the agent said, and none in what people said: it is the agent's
NO_MODEL = Usage(model="none", input_tokens=0, output_tokens=0)


@dataclass(frozen=True, slots=True)
class Target:
    """A scope that an observation of this session may go to."""

    alias: str
    kind: ScopeKind
    owner: str
    who: str
    display_name: str | None
    state: ScopeState | None = None
    knows: tuple[str, ...] = ()

    @property
    def offered(self) -> OfferedScope:
        state = self.state
        return OfferedScope(
            self.alias,
            self.kind,
            self.who,
            self.knows,
            guidance=state.extraction_prompt if state else None,
            max_items=state.max_items if state else None,
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    session: SessionState
    run: RunKey
    window: tuple[BufferedMessage, ...]
    targets: tuple[Target, ...]
    now: datetime
    answered: AnsweredRun | None
    reason: str

    @property
    def spoken(self) -> tuple[BufferedMessage, ...]:
        """What the model gets to read; empty: there is nothing to ask it."""
        return tuple(m for m in self.window if m.eligible and m.content and m.content.strip())

    @property
    def to_number(self) -> int:
        return self.window[-1].number


@dataclass(frozen=True, slots=True)
class Answered:
    """The raw answer, to be kept before it is applied, and what it says."""

    extraction: Extraction
    raw: str
    usage: Usage
    prompt_version: str


@dataclass(frozen=True, slots=True)
class Applied:
    saved: Saved
    refused: dict[str, int]
    agent_key: int
    remaining: int


async def load(
    session: Session, agent_id: str, session_id: str, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """The next window of the session, leased; None when every message has been read. Raises `BusyError`."""
    lease = timedelta(seconds=settings.lease_seconds)
    state = await SessionRepository(session).claim(agent_id, session_id, lease)
    if state is None:
        raise BusyError("session", session_id)
    return await _load(session, state, settings, now, reason)


async def load_claimed(
    session: Session, claimed: SessionState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """The same of a session that was claimed before. Raises `StaleError` when that lease has been lost."""
    state = await SessionRepository(session).lock(claimed)
    if state is None:
        raise StaleError("session", claimed.session_id, "the lease on it was lost")
    return await _load(session, state, settings, now, reason)


async def _load(
    session: Session, state: SessionState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    sessions, runs = SessionRepository(session), RunRepository(session)
    agent_id, session_id = state.agent_id, state.session_id
    if state.excluded:
        await sessions.release(state, due_at=None, due_reason=None)
        return None
    answered = await runs.answered_formation(state.agent_key, session_id, state.formed_number)
    await runs.abandon(state.agent_key, now, session_id=session_id)
    window = await sessions.window(state, settings.formation_window_messages, settings.formation_window_characters)
    if answered is not None:
        window = [message for message in window if message.number <= answered.to_number]
    if not window:
        await sessions.release(state, due_at=None, due_reason=None)
        return None
    if answered is not None and window[-1].number == answered.to_number:
        run = await runs.take_over(answered.key, state.fence)
    else:
        answered = None
        await runs.check_budget(agent_id, state.agent_key, settings.daily_tokens, now)
        target = {"session_id": session_id, "from_number": state.formed_number, "to_number": window[-1].number}
        run = await runs.start(state.agent_key, "formation", state.fence, now, **target)
    targets = await _targets(session, state, window, settings)
    return Loaded(state, run, tuple(window), targets, now, answered, reason)


async def _targets(
    session: Session, state: SessionState, window: Sequence[BufferedMessage], settings: Settings
) -> tuple[Target, ...]:
    named = _named(state, window)
    found = await ScopeRepository(session).with_pending(state.agent_key, [t.owner for t in named], settings.pending_max)
    known = {scope.owner: (scope, pending) for scope, pending in found}
    targets = []
    for target in named:
        scope, pending = known.get(target.owner, (None, ()))
        if scope is None:
            targets.append(target)
        elif scope.is_active:
            texts = [scope.consolidation or "", *(item.content for item in pending)]
            targets.append(replace(target, state=scope, knows=_cut(texts, settings.scope_text_max_characters)))
    return tuple(targets)


def _named(state: SessionState, window: Sequence[BufferedMessage]) -> list[Target]:
    """The scopes of this window by the names that the model will use: its users, the session's groups, everybody."""
    speakers = {m.user_id: m.speaker for m in window if m.user_id and m.speaker}
    users = list(dict.fromkeys(m.user_id for m in window if m.user_id)) or [state.user_id]
    named: list[Target] = []
    for user in users:
        speaker = speakers.get(user)
        alias = "individual" if len(users) == 1 else f"individual:{speaker or user}"
        who = f"what concerns {speaker or 'the user'} alone"
        named.append(Target(_unused(alias, named), "individual", owner_key("individual", user), who, speaker))
    for group in state.group_ids:
        who = f"the shared work of the group {group}"
        named.append(Target(_unused(f"group:{group}", named), "group", owner_key("group", group), who, group))
    return [*named, Target("collective", "collective", owner_key("collective"), "lessons that help anybody", None)]


def _unused(alias: str, named: Sequence[Target]) -> str:
    taken = {target.alias.casefold() for target in named}
    return next(name for n in count(1) if (name := alias if n == 1 else f"{alias} {n}").casefold() not in taken)


def _cut(texts: Sequence[str], max_characters: int) -> tuple[str, ...]:
    """Whole texts from the front while there is room; the first is cut, since it is the scope's own."""
    kept: list[str] = []
    room = max_characters
    for text in texts:
        if len(text) > room and kept:
            break
        kept.append(text[:room])
        room -= len(text)
    return tuple(filter(None, kept))


def task(loaded: Loaded, settings: Settings) -> ExtractionTask:
    turns = tuple(
        Turn(n, message.role, message.speaker or message.role, message.said_at, message.content or "")
        for n, message in enumerate(loaded.spoken, 1)
    )
    return ExtractionTask(
        turns,
        tuple(target.offered for target in loaded.targets),
        settings.observation_max_items,
        settings.observation_max_words,
        loaded.now,
    )


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Answered:
    """Asks the model, unless an answer lies stored from a worker that died, or nothing was said."""
    if loaded.answered is not None:
        stored = loaded.answered
        return Answered(read(stored.answer, Extraction), stored.answer, stored.usage, stored.prompt_version)
    if not loaded.spoken:
        return Answered(Extraction(observations=[]), "", NO_MODEL, "")
    request = task(loaded, settings).request(settings.fast_model)
    answer = await llm.generate(request)
    return Answered(answer.value, answer.raw, answer.usage, request.prompt_version)


async def keep(session: Session, loaded: Loaded, answered: Answered) -> None:
    """Stores the raw answer before it is applied, so that whoever goes on applies the same one."""
    raw = clean(answered.raw)[0]
    if not await RunRepository(session).keep_answer(loaded.run, raw, answered.usage, answered.prompt_version):
        raise StaleError("session", loaded.session.session_id, "another worker has taken over")


async def apply(session: Session, loaded: Loaded, answered: Answered, settings: Settings, now: datetime) -> Applied:
    """Stores the observations and moves the cursor; raises `StaleError` when what the model saw has changed."""
    sessions, scopes = SessionRepository(session), ScopeRepository(session)
    state = await sessions.lock(loaded.session)
    if state is None:
        raise StaleError("session", loaded.session.session_id, "it was formed, or something was forgotten, meanwhile")
    drafts, refused = drafts_of(answered.extraction.observations, loaded, settings)
    await scopes.ensure(state.agent_key, (draft.scope for draft in drafts), settings.language, now)
    shown = {target.state.scope_id: target.state for target in loaded.targets if target.state}
    locked = await scopes.lock(state.agent_key, [(draft.scope.owner, draft.scope.name) for draft in drafts], shown)
    if any(scope.scope_id in shown and scope.epoch != shown[scope.scope_id].epoch for scope in locked):
        raise StaleError("session", state.session_id, "something that the model was shown was forgotten meanwhile")
    saved = await ObservationRepository(session).save(
        state.agent_key, drafts, locked, run_id=loaded.run.run_id, now=now
    )
    await scopes.refresh_due(
        state.agent_key, [scope.scope_id for scope in locked], settings.consolidation_threshold, now
    )
    cold = timedelta(minutes=settings.formation_cold_minutes)
    await sessions.advance(state, loaded.to_number, settings.formation_min_messages, cold, now)
    outcome = {"observations": len(saved.stored), "duplicates": len(saved.known), "refused": dict(refused)}
    await RunRepository(session).succeed(loaded.run, now, **outcome)
    return Applied(saved, dict(refused), state.agent_key, state.last_number - loaded.to_number)


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why, gives the lease back and says when to try again; the messages stay as they are."""
    counts = loaded.reason != "asked"
    verdict = judge(error, loaded.session.failures, loaded.session.errors, settings, now, counts=counts)
    await RunRepository(session).fail(loaded.run, error, now, gives_up=verdict.gives_up)
    changes: dict[str, Any] = {"failures": verdict.failures, "errors": verdict.errors}
    if verdict.gives_up:
        changes |= {"dead_run_id": loaded.run.run_id, "due_at": None, "due_reason": None}
    elif verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "due_reason": "retry", "dead_run_id": None}
    await SessionRepository(session).release(loaded.session, **changes)


async def give_back(
    session: Session, claimed: SessionState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """The lease of a session that couldn't even be loaded, and when to try again."""
    verdict = judge(error, claimed.failures, claimed.errors, settings, now, counts=True)
    changes: dict[str, Any] = {"failures": verdict.failures}
    if verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "due_reason": "retry", "dead_run_id": None}
    await SessionRepository(session).release(claimed, **changes)


def drafts_of(
    items: Sequence[ExtractedObservation], loaded: Loaded, settings: Settings
) -> tuple[list[Draft], Counter[str]]:
    """What may be stored of an answer, and how much was refused or mended, by reason."""
    refused: Counter[str] = Counter()
    drafts: list[Draft] = []
    per_scope: Counter[str] = Counter()
    for item in items:
        content = clean(item.content)[0].strip()
        if not content or len(content) > settings.observation_max_characters:
            refused["no_content" if not content else "too_long"] += 1
            continue
        sources = _sources(item, loaded, refused)
        if all(message.role in AGENT_ROLES for message in sources):
            refused["agents_own_words"] += 1  # it repeats what it was told, memory included
            continue
        target = _route(item, sources, loaded, refused)
        limit = (
            target.state.max_items
            if target.state and target.state.max_items is not None
            else settings.observation_max_items
        )
        if per_scope[target.owner] >= limit:
            refused["over_limit"] += 1
            continue
        if count_words(content) > settings.observation_max_words:
            refused["long_but_kept"] += 1
        per_scope[target.owner] += 1
        drafts.append(_draft(content, target, sources, loaded))
    return drafts, refused


def _sources(item: ExtractedObservation, loaded: Loaded, refused: Counter[str]) -> tuple[BufferedMessage, ...]:
    """The messages that the model points at; where it points at none, those that share most words with the text."""
    spoken = loaded.spoken
    named = [n for n in dict.fromkeys(item.sources) if 1 <= n <= len(spoken)]
    if len(named) < len(set(item.sources)):
        refused["unknown_source"] += 1
    if named:
        return tuple(spoken[n - 1] for n in sorted(named))
    said = tuple(message for message in spoken if message.role == "user")
    return _closest(item.content, said, 1) or _echoed(item.content, spoken) or said or spoken


def _echoed(text: str, spoken: Sequence[BufferedMessage]) -> tuple[BufferedMessage, ...]:
    """The agent's messages that hold most of the text's words."""
    most = ceil(len(set(normal_form(text).split())) * ECHO_SHARE)
    return _closest(text, [message for message in spoken if message.role in AGENT_ROLES], most)


def _closest(text: str, messages: Sequence[BufferedMessage], least: int) -> tuple[BufferedMessage, ...]:
    """The messages that share most words with the text; none where that is fewer than `least`."""
    words = set(normal_form(text).split())
    shared = [len(words & set(normal_form(message.content or "").split())) for message in messages]
    best = max(shared, default=0)
    return tuple(m for m, count in zip(messages, shared, strict=True) if count == best >= max(least, 1))


def _route(
    item: ExtractedObservation, sources: Sequence[BufferedMessage], loaded: Loaded, refused: Counter[str]
) -> Target:
    """The scope that the model chose among those it was offered; anything else goes to the person who said it."""
    wanted = (item.scope or "").strip()
    by_alias = {target.alias.casefold(): target for target in loaded.targets}
    if wanted.casefold() in by_alias:
        return by_alias[wanted.casefold()]
    if wanted.casefold() != "individual":
        refused["unknown_scope" if wanted else "no_scope"] += 1
    individuals = [target for target in loaded.targets if target.kind == "individual"]
    authors = {owner_key("individual", m.user_id) for m in sources if m.user_id}
    author = next((t for t in individuals if len(authors) == 1 and t.owner in authors), None)
    own = next((t for t in individuals if t.owner == owner_key("individual", loaded.session.user_id)), None)
    return author or own or individuals[0]


def _draft(content: str, target: Target, sources: Sequence[BufferedMessage], loaded: Loaded) -> Draft:
    session_id = loaded.session.session_id
    speakers = {m.speaker for m in sources if m.role == "user" and m.speaker}
    return Draft(
        scope=NewScope(target.kind, target.owner, display_name=target.display_name),
        content=content,
        observed_at=max(m.said_at for m in sources),
        source_kind="formation",
        evidence=tuple(Evidence(session_id, m.number, m.user_id) for m in sources),
        session_id=session_id,
        speaker=speakers.pop() if len(speakers) == 1 else None,
        message_ids=tuple(m.message_id for m in sources),
    )
