"""Buffered messages → observations, in one model call unless its answer leaves something out.

`load` takes a lease and reads a window of messages; `decide` asks the model; `apply` re-checks the lease, the cursor
and the epochs of everything that the prompt showed, and stores. A window is read once: the cursor moves in the
transaction that stores what came of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil, log
from typing import Any
from zoneinfo import ZoneInfo

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.messages import MessageRepository
from memory_sql.db.observations import Draft, Evidence, ObservationRepository, Saved
from memory_sql.db.runs import AnsweredRun, RunKey, RunRepository
from memory_sql.db.scopes import NewScope, ScopeRepository, ScopeState
from memory_sql.db.sessions import BufferedMessage, SessionRepository, SessionState
from memory_sql.domain import ScopeKind, owner_key
from memory_sql.errors import BusyError, StaleError
from memory_sql.languages.dates import with_dates, zone_of
from memory_sql.languages.text import CHARACTERS_PER_TOKEN, clean, count_words, words_of
from memory_sql.llm import LanguageModel
from memory_sql.llm.answers import read
from memory_sql.llm.dialogue import NO_CALL, Extracted, extract
from memory_sql.llm.tasks import (
    ExtractedObservation,
    Extraction,
    ExtractionTask,
    OfferedScope,
    Turn,
    answer_for,
    as_written,
)
from memory_sql.privacy.classify import Classification, classify, mask, masked_value
from memory_sql.retry import judge

AGENT_ROLES = frozenset({"assistant", "agent"})
ECHO_SHARE = 0.6  # of a text's words in what the agent said, and none in what people said: it is the agent's


@dataclass(frozen=True, slots=True)
class Target:
    """A scope that an observation of this session may go to. A closed one is known, so that nobody else gets its.

    `members` are those of the window's users who belong to it, of a group: only what they say goes there.
    """

    alias: str
    kind: ScopeKind
    owner: str
    display_name: str | None
    state: ScopeState | None = None
    knows: tuple[str, ...] = ()
    members: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        if self.kind == "group" and not self.members:
            return False
        return self.state is None or self.state.is_active

    def takes(self, users: Collection[str]) -> bool:
        """Whether what these users say may go there, as far as it is a matter of who they are."""
        return self.kind != "group" or (bool(self.members) and self.members.issuperset(users))

    @property
    def offered(self) -> OfferedScope:
        state = self.state
        return OfferedScope(
            self.alias,
            self.kind,
            self.knows,
            guidance=state.extraction_prompt if state else None,
            max_items=state.max_items if state else None,
            max_words=state.item_words if state else None,
            display_name=(state.display_name if state else None) or self.display_name,
            isolated=state is not None and state.extraction_mode == "isolated",
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """`persons` names the users of the window for this call alone; `shown` are the epochs of what its prompt shows."""

    session: SessionState
    run: RunKey
    window: tuple[BufferedMessage, ...]
    targets: tuple[Target, ...]
    persons: dict[str, str]
    shown: dict[int, int]
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
class Applied:
    saved: Saved
    refused: dict[str, int]
    agent_key: int


async def load(
    session: Session, agent_id: str, session_id: str, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """The next window of the session, leased; None when every message has been read. Raises `BusyError`."""
    state = await SessionRepository(session).claim(agent_id, session_id, timedelta(seconds=settings.lease_seconds))
    if state is None:
        raise BusyError("session", session_id)
    return await load_claimed(session, state, settings, now, reason)


async def load_claimed(
    session: Session, state: SessionState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """As `load`, of a session that is leased already."""
    settings = settings.of_agent(state.agent_settings)
    sessions, runs = SessionRepository(session), RunRepository(session)
    if state.excluded:
        await runs.abandon(state.agent_key, now, session_id=state.session_id)
        await sessions.release(state, due_at=None, due_reason=None)
        return None
    answered = await runs.answered_formation(state.agent_key, state.session_id, state.formed_number)
    if answered is not None and not await _is_still_good(session, state, answered):
        answered = None
    await runs.abandon(state.agent_key, now, but=answered.key.run_id if answered else None, session_id=state.session_id)
    window = await sessions.window(state, settings.formation_window_messages, settings.formation_window_characters)
    if answered is not None:
        window = await sessions.range(state, answered.to_number)
    if not window:
        await sessions.release(state, due_at=None, due_reason=None)
        return None
    persons = _persons(state, window)
    named = _remembered(answered.seen) if answered is not None else _named(state, window, persons)
    targets = await _filled(session, state, named, persons, settings)
    shown = {target.state.scope_id: target.state.epoch for target in targets if target.state}
    if answered is not None:
        run = await runs.take_over(answered.key, state.fence)
    else:
        await runs.check_budget(state.agent_id, state.agent_key, settings.daily_tokens, now)
        seen = {
            "epoch": state.epoch,
            "scopes": shown,
            "targets": [[t.alias, t.kind, t.owner, t.display_name] for t in targets],
        }
        target = {"session_id": state.session_id, "from_number": state.formed_number, "to_number": window[-1].number}
        run = await runs.start(state.agent_key, "formation", state.fence, now, seen=seen, **target)
    return Loaded(state, run, tuple(window), targets, persons, shown, now, answered, reason)


async def _is_still_good(session: Session, state: SessionState, answered: AnsweredRun) -> bool:
    """Whether nothing that the stored answer's prompt showed has been taken out since (rule 6)."""
    seen = {int(key): epoch for key, epoch in answered.seen["scopes"].items()}
    epochs = await ScopeRepository(session).epochs(state.agent_key, list(seen))
    return answered.seen["epoch"] == state.epoch and epochs == seen


def _remembered(seen: dict[str, Any]) -> list[Target]:
    """The targets as the model knew them: by the same names, whatever the session has become since."""
    return [Target(*target) for target in seen["targets"]]


def _persons(state: SessionState, window: Sequence[BufferedMessage]) -> dict[str, str]:
    """`user_id` → what the model calls them: names can be alike, wrong or hostile."""
    users = list(dict.fromkeys(m.user_id for m in window if m.user_id)) or [state.user_id]
    return {user: f"P{n}" for n, user in enumerate(users, 1)}


def _named(state: SessionState, window: Sequence[BufferedMessage], persons: dict[str, str]) -> list[Target]:
    """The scopes of this window by the names that the model will use: its users, the session's groups, everybody.

    A group isn't named by its id: that is the host's text, of any length, and has to be copied letter by letter.
    """
    speakers = {m.user_id: m.speaker for m in window if m.user_id and m.speaker}
    named: list[Target] = []
    for user, person in persons.items():
        alias = "individual" if len(persons) == 1 else f"individual_{person}"
        named.append(Target(alias, "individual", owner_key("individual", user), speakers.get(user)))
    for n, group in enumerate(state.group_ids, 1):
        named.append(Target(f"group_{n}", "group", owner_key("group", group), group))
    return [*named, Target("collective", "collective", owner_key("collective"), None)]


async def _filled(
    session: Session, state: SessionState, named: Sequence[Target], persons: dict[str, str], settings: Settings
) -> tuple[Target, ...]:
    """The targets with what is in their scopes, as far as everybody who may profit from it may see it.

    What the prompt shows, an obedient model may copy into any scope that it is offered. So a private text is shown only
    where nobody else reads along, and a group's only where all who speak are members.
    """
    scopes = ScopeRepository(session)
    found = await scopes.with_pending(state.agent_key, [target.owner for target in named], settings.pending_max)
    known = {scope.owner: (scope, pending) for scope, pending in found}
    members = await scopes.members_among(state.agent_key, [scope.scope_id for scope, _ in found], list(persons))
    alone = len(persons) == 1 and not state.group_ids
    targets = []
    for target in named:
        scope, pending = known.get(target.owner, (None, ()))
        if scope is None:
            targets.append(target)
            continue
        present = members.get(scope.scope_id, frozenset())
        may_show = {"individual": alone, "group": present.issuperset(persons)}.get(target.kind, True)
        texts = [scope.consolidation or "", *(item.content for item in pending)] if may_show and scope.is_active else []
        knows = _cut(texts, settings.scope_text_max_characters)
        targets.append(replace(target, state=scope, knows=knows, members=present))
    return tuple(targets)


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
    several, zone = len(loaded.persons) > 1, _zone(loaded, settings)
    turns = tuple(
        Turn(
            n,
            message.role,
            message.speaker or message.role,
            message.said_at.astimezone(zone),
            message.content or "",
            person=loaded.persons.get(message.user_id or "") if several else None,
        )
        for n, message in enumerate(loaded.spoken, 1)
    )
    return ExtractionTask(
        turns,
        tuple(target.offered for target in loaded.targets if target.is_open),
        item_limit(loaded, settings.observation_max_items),
        settings.observation_max_words,
        loaded.now.astimezone(zone),
    )


def _zone(loaded: Loaded, settings: Settings) -> ZoneInfo:
    """Where the session's calendar days begin."""
    return zone_of(loaded.session.time_zone or settings.time_zone)


def item_limit(loaded: Loaded, most: int) -> int:
    """How many observations the window may give for a scope, where `most` is the setting.

    Grows with the logarithm of the length (R276): the setting up to 3,000 weighted characters, twice that from 12,000 on.
    Unlike in the source it doesn't shrink below: one short message may hold much.
    """
    characters = sum(message.weight for message in loaded.spoken) * CHARACTERS_PER_TOKEN
    return round(most * min(1 + log(max(characters / 3000, 1), 4), 2.0))


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Extracted:
    """Asks the model, unless an answer lies stored from a worker that died, or nothing was said."""
    if not loaded.spoken:
        return Extracted(Extraction(), "", NO_CALL, "")
    if loaded.answered is not None:
        stored = loaded.answered
        answer = read(stored.answer, answer_for(tuple(target.alias for target in loaded.targets)))
        return Extracted(answer.extraction, stored.answer, stored.usage, stored.prompt_version)
    return await extract(llm, settings.fast_model, task(loaded, settings))


async def keep(session: Session, loaded: Loaded, answered: Extracted, settings: Settings) -> None:
    """Stores the raw answer before it is applied, so that whoever goes on applies the same one."""
    raw = clean(answered.raw)[0]
    if settings.secrets != "keep":
        raw = _masked_answer(raw)
    if not await RunRepository(session).keep_answer(loaded.run, raw, answered.usage, answered.prompt_version):
        raise StaleError("session", loaded.session.session_id, "another worker has taken over")


def _masked_answer(raw: str) -> str:
    """As it came where it holds no secret. Masked value by value if it is JSON, so that it stays so."""
    try:
        value, found = masked_value(json.loads(raw))
    except ValueError:
        return mask(raw).text
    return json.dumps(value, ensure_ascii=False) if found else raw


async def apply(session: Session, loaded: Loaded, answered: Extracted, settings: Settings, now: datetime) -> Applied:
    """Stores the observations and moves the cursor; raises `StaleError` when what the model saw has changed."""
    sessions, scopes = SessionRepository(session), ScopeRepository(session)
    state = await sessions.lock(loaded.session)
    if state is None:
        raise StaleError("session", loaded.session.session_id, "it was formed, or something was forgotten, meanwhile")
    drafts, refused = drafts_of(answered.extraction, loaded, settings)
    locked = await scopes.lock_or_make(state.agent_key, [d.scope for d in drafts], loaded.shown, settings.language, now)
    epochs = {scope.scope_id: scope.epoch for scope in locked}
    if any(epochs.get(scope_id) != epoch for scope_id, epoch in loaded.shown.items()):
        raise StaleError("session", state.session_id, "something that the model was shown was forgotten meanwhile")
    closed = {(scope.owner, scope.name) for scope in locked if not scope.is_active}
    refused["inactive_scope"] += sum((draft.scope.owner, draft.scope.name) in closed for draft in drafts)
    drafts = [draft for draft in drafts if (draft.scope.owner, draft.scope.name) not in closed]
    kept = await _of_members(scopes, state.agent_key, drafts, locked)
    refused["not_a_member"] += len(drafts) - len(kept)
    drafts, refused = kept, +refused
    saved = await ObservationRepository(session).save(
        state.agent_key, drafts, locked, run_id=loaded.run.run_id, now=now
    )
    await scopes.refresh_due(
        state.agent_key, [scope.scope_id for scope in locked], settings.consolidation_threshold, now
    )
    await sessions.advance(state, loaded.to_number, settings, now)
    if settings.message_retention_days == 0:  # no longer than it was needed, without waiting for the sweep
        await MessageRepository(session, 0.0, now).end_of_session(state)
    outcome = {"observations": len(saved.stored), "duplicates": len(saved.known), "refused": dict(refused)}
    runs = RunRepository(session)
    await runs.succeed(loaded.run, now, **outcome)
    await runs.outlive(state.agent_key, state.dead_run_id)
    return Applied(saved, dict(refused), state.agent_key)


async def _of_members(
    scopes: ScopeRepository, agent_key: int, drafts: Sequence[Draft], locked: Sequence[ScopeState]
) -> list[Draft]:
    """Those that go to no group, or come from people who are members of it now, under its lock."""
    groups = {scope.owner: scope.scope_id for scope in locked if scope.kind == "group"}
    users = {user for draft in drafts if draft.scope.owner in groups for user in draft.related_users}
    if not users:
        return list(drafts)
    members = await scopes.members_among(agent_key, sorted(groups.values()), sorted(users))
    allowed = {owner: members.get(scope_id, frozenset()) for owner, scope_id in groups.items()}
    return [d for d in drafts if d.scope.owner not in groups or allowed[d.scope.owner].issuperset(d.related_users)]


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why, gives the lease back and says when to try again; the messages stay as they are."""
    counts = loaded.reason != "asked"
    verdict = judge(error, loaded.session.failures, loaded.session.errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"failures": verdict.failures, "errors": verdict.errors}
    if verdict.gives_up:
        changes |= {"dead_run_id": loaded.run.run_id, "due_at": None, "due_reason": None}
    elif verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "due_reason": "retry", "dead_run_id": None}
    # First the session, then the run, as everywhere: locks are taken in one order.
    ours = await SessionRepository(session).release(loaded.session, **changes)
    await RunRepository(session).fail(loaded.run, error, now, gives_up=verdict.gives_up and ours)


async def give_back(
    session: Session, claimed: SessionState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """The lease of a session that couldn't even be loaded, and when to try again."""
    verdict = judge(error, claimed.failures, claimed.errors, settings, now, counts=True)
    changes: dict[str, Any] = {"failures": verdict.failures}
    if verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "due_reason": "retry", "dead_run_id": None}
    await SessionRepository(session).release(claimed, **changes)


def drafts_of(extraction: Extraction, loaded: Loaded, settings: Settings) -> tuple[list[Draft], Counter[str]]:
    """What may be stored of an answer, and how much was refused or mended, by reason."""
    sieve = _Sieve(loaded, settings)
    sieve.refused["unknown_scope"] += extraction.unknown
    drafts = [draft for item in extraction.observations if (draft := sieve.draft(item)) is not None]
    return drafts, sieve.refused


class _Sieve:
    """Lets through what may be stored, one observation after the other; `refused` counts what isn't, and what was mended."""

    def __init__(self, loaded: Loaded, settings: Settings) -> None:
        self._loaded = loaded
        self._settings = settings
        self._by_alias = {target.alias.casefold(): target for target in loaded.targets}
        # Once for all: an answer may hold ten thousand observations.
        self._words = {message.number: frozenset(words_of(message.content or "")) for message in loaded.spoken}
        self._most = item_limit(loaded, settings.observation_max_items)
        self._taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def draft(self, item: ExtractedObservation) -> Draft | None:
        content = self._screened(as_written(clean(item.content)[0].strip()))
        if not content or len(content) > self._settings.observation_max_characters:
            self.refused["no_content" if not content else "too_long"] += 1
            return None
        sources = self._sources(item)
        if all(message.role in AGENT_ROLES for message in sources):
            self.refused["agents_own_words"] += 1  # it repeats what it was told, memory included
            return None
        found = classify(content)
        target = self._route(item, sources)
        if found.categories and target is not None and target.kind != "individual":
            target = self._own_scope(sources)
        if target is None or not self._has_room(target, content):
            return None
        return _draft(content, found, target, sources, self._loaded, self._settings)

    def _screened(self, content: str) -> str:
        """Without secrets, also where messages are refused for them: a model may have put one together."""
        masked = mask(content)
        if self._settings.secrets == "keep" or not masked.found:
            return content
        self.refused["masked"] += 1
        return masked.text

    def _own_scope(self, sources: Sequence[BufferedMessage]) -> Target | None:
        """Of who said something personal: that doesn't go to others, wherever the model puts it."""
        self.refused["personal"] += 1
        return self._open(_author(self._loaded, _authors(sources)))

    def _has_room(self, target: Target, content: str) -> bool:
        limits = target.offered
        if self._taken[target.owner] >= (self._most if limits.max_items is None else limits.max_items):
            self.refused["over_limit"] += 1
            return False
        if count_words(content) > (limits.max_words or self._settings.observation_max_words):
            self.refused["long_but_kept"] += 1
        self._taken[target.owner] += 1
        return True

    def _sources(self, item: ExtractedObservation) -> tuple[BufferedMessage, ...]:
        """The messages that the model points at; where it points at none, those that share most words with the text."""
        spoken = self._loaded.spoken
        named = [n for n in dict.fromkeys(item.sources) if 1 <= n <= len(spoken)]
        if len(named) < len(set(item.sources)):
            self.refused["unknown_source"] += 1
        if named:
            return tuple(spoken[n - 1] for n in sorted(named))
        said = tuple(message for message in spoken if message.role == "user")
        return self._closest(item.content, said, 1) or self._echoed(item.content) or said or spoken

    def _echoed(self, text: str) -> tuple[BufferedMessage, ...]:
        """The agent's messages that hold most of the text's words."""
        most = ceil(len(set(words_of(text))) * ECHO_SHARE)
        return self._closest(text, [m for m in self._loaded.spoken if m.role in AGENT_ROLES], most)

    def _closest(self, text: str, messages: Sequence[BufferedMessage], least: int) -> tuple[BufferedMessage, ...]:
        """The messages that share most words with the text; none where that is fewer than `least`."""
        words = set(words_of(text))
        shared = [len(words & self._words[message.number]) for message in messages]
        best = max(shared, default=0)
        return tuple(m for m, count in zip(messages, shared, strict=True) if count == best >= max(least, 1))

    def _route(self, item: ExtractedObservation, sources: Sequence[BufferedMessage]) -> Target | None:
        """The scope that the model chose among those it was offered, else that of the one person who said it; or none.

        What is somebody's own can only come from what they said: nobody's scope is written by another's words. What is a
        group's can only come from its members.
        """
        wanted = (item.scope or "").strip().casefold()
        users = {m.user_id for m in sources if m.user_id}
        authors = _authors(sources)
        target = self._by_alias.get(wanted)
        if target is None:
            if wanted != "individual":
                self.refused["unknown_scope" if wanted else "no_scope"] += 1
            target = _author(self._loaded, authors)
        elif target.kind == "individual" and authors and target.owner not in authors:
            self.refused["not_the_author"] += 1
            target = _author(self._loaded, authors)
        elif not target.takes(users):
            self.refused["not_a_member"] += 1
            target = _author(self._loaded, authors)
        return self._open(target)

    def _open(self, target: Target | None) -> Target | None:
        if target is None or not target.is_open:
            self.refused["no_single_author" if target is None else "inactive_scope"] += 1
            return None
        return target


def _authors(sources: Sequence[BufferedMessage]) -> set[str]:
    """Whose scopes are those of the users who said this."""
    return {owner_key("individual", m.user_id) for m in sources if m.user_id}


def _author(loaded: Loaded, authors: set[str]) -> Target | None:
    individuals = [target for target in loaded.targets if target.kind == "individual"]
    if not authors and len(individuals) == 1:
        return individuals[0]
    return next((target for target in individuals if authors == {target.owner}), None)


def _draft(
    content: str,
    found: Classification,
    target: Target,
    sources: Sequence[BufferedMessage],
    loaded: Loaded,
    settings: Settings,
) -> Draft:
    said_at = max(m.said_at for m in sources)
    dated = with_dates(content, said_at, _zone(loaded, settings))
    session_id = loaded.session.session_id
    speakers = {m.speaker for m in sources if m.role == "user" and m.speaker}
    return Draft(
        scope=NewScope(target.kind, target.owner, display_name=target.display_name),
        content=dated.text,
        dates=dated.days,
        observed_at=said_at,
        source_kind="formation",
        evidence=tuple(Evidence(session_id, m.number, m.user_id) for m in sources),
        session_id=session_id,
        speaker=speakers.pop() if len(speakers) == 1 else None,
        message_ids=tuple(m.message_id for m in sources),
        categories=found.categories,
        sensitivity=found.sensitivity,
    )
