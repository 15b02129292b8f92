"""Buffered messages → observations, in one model call unless its answer leaves something out.

`load` takes a lease and reads a window of messages; `decide` asks the model; `apply` re-checks the lease, the cursor
and the epochs of everything that the prompt showed, and stores. A window is read once: the cursor moves in the
transaction that stores what came of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.conversations import BufferedMessage, ConversationRepository, ConversationState
from memory_sql.db.repositories.groups import GroupRepository
from memory_sql.db.repositories.messages import MessageRepository
from memory_sql.db.repositories.observations import Draft, ObservationRepository, Saved
from memory_sql.db.repositories.runs import AnsweredRun, RunKey, RunRepository
from memory_sql.db.repositories.scopes import ScopeRepository, ScopeState
from memory_sql.domain.ids import OWNER_PREFIX, owner_key
from memory_sql.domain.observations import Observation
from memory_sql.domain.results import NO_CALL
from memory_sql.errors import BusyError, StaleError
from memory_sql.formation.answers import Extraction, answer_for
from memory_sql.formation.dialogue import Extracted, extract
from memory_sql.formation.sieve import drafts_of
from memory_sql.formation.window import Loaded, Target, Window, as_asked, beside, task, window_of
from memory_sql.languages.text import clean
from memory_sql.llm import LanguageModel
from memory_sql.llm.answers import read
from memory_sql.privacy.classify import mask, masked_value
from memory_sql.retrieval.related import related
from memory_sql.retry import judge, pause

MOST_SILENT = 30  # members of groups whom a prompt names though they say nothing
MOST_GROUPS = 10  # of a user, whom what is said to the agent alone may be proposed to


@dataclass(frozen=True, slots=True)
class Applied:
    """`known` counts what was there already; `more`: messages came that this window didn't hold."""

    observations: tuple[Observation, ...]
    known: int
    refused: dict[str, int]
    more: bool


async def load(
    session: Session, agent_id: str, conversation_id: str, settings: Settings, now: datetime, reason: str
) -> tuple[ConversationState, Loaded | None]:
    """The conversation, leased, and its next window; None when every message has been read. Raises `BusyError`."""
    conversations = ConversationRepository(session)
    state = await conversations.claim(agent_id, conversation_id, timedelta(seconds=settings.lease_seconds))
    if state is None:
        raise BusyError("conversation", conversation_id)
    return state, await _load(session, conversations, state, settings, now, reason)


async def load_claimed(
    session: Session, claimed: ConversationState, settings: Settings, now: datetime, reason: str
) -> Loaded | None:
    """The next window of a conversation that was claimed before. Raises `StaleError` when that lease has been lost."""
    conversations = ConversationRepository(session)
    state = await conversations.lock(claimed)
    if state is None:
        raise StaleError("conversation", claimed.conversation_id, "the lease on it was lost")
    return await _load(session, conversations, state, settings, now, reason)


async def _load(
    session: Session,
    conversations: ConversationRepository,
    state: ConversationState,
    settings: Settings,
    now: datetime,
    reason: str,
) -> Loaded | None:
    settings = settings.of_agent(state.agent_settings)
    runs = RunRepository(session)
    if state.excluded:
        await runs.abandon(state.agent_key, now, conversation_id=state.conversation_id)
        await conversations.release(state, due_at=None, due_reason=None)
        return None
    answered = await _unfinished(session, runs, state, now)
    if answered is not None:
        messages = await conversations.range(state, answered.to_number)
    else:
        most = settings.formation_window_messages, settings.formation_window_characters
        messages = await conversations.window(state, *most)
    if not messages:
        await conversations.release(state, due_at=None, due_reason=None)
        return None
    members = await silent_members(session, state, messages)
    groups = await groups_for(session, state, settings) if answered is None else ()
    window = window_of(state, messages, settings, answered.seen if answered else None, members, groups)
    targets = await filled(session, state, window, settings, now)
    shown = {target.state.scope_id: target.state.epoch for target in targets if target.state}
    if answered is not None:
        run = await runs.take_over(answered.key, state.fence)
    else:
        await runs.check_budget(state.agent_id, state.agent_key, settings.daily_tokens, now)
        run = await start(runs, state, messages, targets, shown, now)
    return Loaded(state, run, window, targets, shown, now, answered, reason)


async def _unfinished(
    session: Session, runs: RunRepository, state: ConversationState, now: datetime
) -> AnsweredRun | None:
    """The answer that waits to be applied, if it still counts; the other runs that didn't end are ended."""
    answered, unfinished = await runs.unfinished(state.agent_key, state.conversation_id, state.formed_number)
    if answered is not None and not await _is_still_good(session, state, answered):
        answered = None
    if unfinished > (answered is not None):
        kept = answered.key.run_id if answered else None
        await runs.abandon(state.agent_key, now, but=kept, conversation_id=state.conversation_id)
    return answered


async def start(
    runs: RunRepository,
    state: ConversationState,
    messages: Sequence[BufferedMessage],
    targets: Sequence[Target],
    shown: Mapping[int, int],
    now: datetime,
) -> RunKey:
    """What the prompt shows is noted, so that whoever goes on with its answer knows whether it still counts."""
    seen = {
        "epoch": state.epoch,
        "scopes": shown,
        "targets": as_asked(targets),
    }
    read = {"from_number": messages[0].number - 1, "to_number": messages[-1].number}
    target = {"conversation_id": state.conversation_id, **read}
    return await runs.start(state.agent_key, "formation", state.fence, now, seen=seen, **target)


async def silent_members(
    session: Session, state: ConversationState, messages: Sequence[BufferedMessage]
) -> dict[str, str]:
    """The names of the members of the conversation's groups who wrote none of these messages, by their ids."""
    if not state.group_ids:
        return {}
    owners = [owner_key("group", group) for group in state.group_ids]
    speak = {message.user_id or state.user_id for message in messages}
    return await GroupRepository(session, state.agent_key).members_named(owners, MOST_SILENT, speak)


async def groups_for(session: Session, state: ConversationState, settings: Settings) -> Sequence[str]:
    """The conversation's groups; of one between a user and the agent alone the user's, whom it may be proposed to."""
    if state.group_ids or len(state.participants) != 1:
        return state.group_ids
    (user,) = state.participants
    return await GroupRepository(session, state.agent_key).taking_from(user, settings.sharing, MOST_GROUPS)


async def filled(
    session: Session, state: ConversationState, window: Window, settings: Settings, now: datetime
) -> tuple[Target, ...]:
    """The targets with what is in their scopes, as far as everybody who may profit from it may see it.

    What the prompt shows, an obedient model may copy into any scope that it is offered. So a private text is shown only
    where nobody else reads along, and a group's only in its own conversations, where all who speak are members. What a
    conversation remembers of itself only where nobody else has ever spoken in it: it holds others' words.
    """
    belonging, persons = GroupRepository(session, state.agent_key), window.persons
    owners = [target.owner for target in window.named]
    found = await ScopeRepository(session).with_pending(state.agent_key, owners, settings.pending_max)
    known = {(scope.owner, scope.name): (scope, pending) for scope, pending in found}
    mains = {scope.owner: scope.scope_id for scope, _ in found if not scope.name}
    groups = [scope_id for owner, scope_id in mains.items() if owner.startswith(OWNER_PREFIX["group"])]
    members = await belonging.members_among(groups, list(persons)) if groups else {}
    here = {owner_key("group", group) for group in state.group_ids}
    groups = [scope_id for owner, scope_id in mains.items() if owner in here]
    all_hear = state.shared or settings.shared_conversations
    heard = set(groups) if all_hear else await belonging.heard_by(groups, state.participants)
    alone = len(persons) == 1 and not state.group_ids
    always_alone = alone and set(persons).issuperset(state.participants)
    targets = []
    added = beside(window, [scope for scope, _ in found], here, settings.collective)
    for target in (*window.named, *added):
        scope, pending = known.get((target.owner, target.name), (None, ()))
        if scope is None:
            targets.append(target)
            continue
        main = mains.get(target.owner, scope.scope_id)  # to which its members belong
        present, hears = members.get(main, frozenset()), target.heard or main in heard
        together = target.owner in here and present.issuperset(persons)
        shown_to = {"individual": alone, "group": together, "conversation": always_alone}
        may_show = shown_to.get(target.kind, True)
        texts = await _told(session, state, scope, window, now) if may_show and scope.is_active else []
        texts += [item.content for item in pending] if may_show and scope.is_active else []
        shares = len(added) if target.name else 1  # what stands beside main scopes shares what one of these may take
        knows = _cut(texts, settings.scope_text_max_characters // max(shares, 1))
        opened = bool(present) and (hears or not target.name) if target.kind == "group" else target.is_open
        is_open = scope.is_active and opened
        found_target = replace(target, state=scope, knows=knows, members=present, heard=hears, is_open=is_open)
        targets += found_target.by_lanes
    return tuple(targets)


async def _told(
    session: Session, state: ConversationState, scope: ScopeState, window: Window, now: datetime
) -> list[str]:
    """Of a person's text what the window may concern; of any other all."""
    if scope.kind != "individual":
        return [scope.consolidation or ""]
    said = [message.content or "" for message in window.spoken if message.role == "user"]
    whose = scope.display_name or scope.ref.owner_id or ""
    found = await related(session, state.agent_id, scope.scope_id, said, whose, scope.language, now)
    return [item.content for item in found]


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


async def _is_still_good(session: Session, state: ConversationState, answered: AnsweredRun) -> bool:
    """Whether nothing that the stored answer's prompt showed has been deleted since (rule 6)."""
    seen = {int(key): epoch for key, epoch in answered.seen["scopes"].items()}
    epochs = await ScopeRepository(session).epochs(state.agent_key, list(seen))
    return answered.seen["epoch"] == state.epoch and epochs == seen


async def decide(llm: LanguageModel, loaded: Loaded, settings: Settings) -> Extracted:
    """Asks the model, unless an answer lies stored from a worker that died, or nothing was said."""
    if not loaded.window.spoken:
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
        raise StaleError("conversation", loaded.conversation.conversation_id, "another worker has taken over")


def _masked_answer(raw: str) -> str:
    """As it came where it holds no secret. Masked value by value if it is JSON, so that it stays so."""
    try:
        value, found = masked_value(json.loads(raw))
    except ValueError:
        return mask(raw).text
    return json.dumps(value, ensure_ascii=False) if found else raw


async def apply(session: Session, loaded: Loaded, answered: Extracted, settings: Settings, now: datetime) -> Applied:
    """Stores the observations and moves the cursor; raises `StaleError` when what the model saw has changed."""
    conversations, state = ConversationRepository(session), await lock(session, loaded)
    drafts, refused = drafts_of(answered.extraction, loaded, settings)
    saved = await save(session, loaded, drafts, refused, settings, now)
    to_number = loaded.window.messages[-1].number
    await conversations.advance(state, to_number, settings, now)
    if settings.message_retention_days == 0:  # no longer than it was needed, without waiting for the sweep
        await MessageRepository(session, 0.0, now).end_of_conversation(state)
    runs = RunRepository(session)
    await runs.succeed(loaded.run, now, **outcome(saved, refused))
    if state.dead_run_id is not None:
        await runs.outlive(state.agent_key, state.dead_run_id)
    stored = await ObservationRepository(session).by_keys(state.agent_key, saved.stored)
    return Applied(stored, len(saved.known), dict(+refused), more=state.last_number > to_number)


async def lock(session: Session, loaded: Loaded) -> ConversationState:
    """The conversation, locked. Raises `StaleError`."""
    state = await ConversationRepository(session).lock(loaded.conversation)
    if state is None:
        raise StaleError(
            "conversation", loaded.conversation.conversation_id, "it was formed, or something was forgotten, meanwhile"
        )
    return state


def outcome(saved: Saved, refused: Counter[str]) -> dict[str, Any]:
    """As the ledger has it."""
    return {"observations": len(saved.stored), "duplicates": len(saved.known), "refused": dict(+refused)}


async def save(
    session: Session, loaded: Loaded, drafts: Sequence[Draft], refused: Counter[str], settings: Settings, now: datetime
) -> Saved:
    """Stores what may still go where it is meant to go, counting in `refused` what may not.

    Locks the scopes. Raises `StaleError` where something that the model was shown has been forgotten.
    """
    scopes, agent_key = ScopeRepository(session), loaded.conversation.agent_key
    locked = await scopes.lock_or_make(agent_key, [d.scope for d in drafts], loaded.shown, settings, now)
    epochs = {scope.scope_id: scope.epoch for scope in locked}
    if any(epochs.get(scope_id) != epoch for scope_id, epoch in loaded.shown.items()):
        raise StaleError(
            "conversation",
            loaded.conversation.conversation_id,
            "something that the model was shown was forgotten meanwhile",
        )
    closed = {(scope.owner, scope.name) for scope in locked if not scope.is_active}
    opened = [draft for draft in drafts if (draft.scope.owner, draft.scope.name) not in closed]
    kept = await _of_members(GroupRepository(session, agent_key), opened, locked)
    refused["inactive_scope"] += len(drafts) - len(opened)
    refused["not_a_member"] += len(opened) - len(kept)
    saved = await ObservationRepository(session).save(agent_key, kept, locked, run_id=loaded.run.run_id, now=now)
    await scopes.refresh_due(agent_key, [scope.scope_id for scope in locked], settings.consolidation_threshold, now)
    return saved


async def _of_members(belonging: GroupRepository, drafts: Sequence[Draft], locked: Sequence[ScopeState]) -> list[Draft]:
    """Those that go to no group, or come from people who are members of it now, under its lock."""
    groups = {scope.owner: scope.scope_id for scope in locked if scope.kind == "group" and not scope.name}
    users = {user for draft in drafts if draft.scope.kind == "group" for user in draft.related_users}
    if not users:
        return list(drafts)
    members = await belonging.members_among(sorted(groups.values()), sorted(users))
    allowed = {owner: members.get(scope_id, frozenset()) for owner, scope_id in groups.items()}
    nobody: frozenset[str] = frozenset()
    return [
        d for d in drafts if d.scope.kind != "group" or allowed.get(d.scope.owner, nobody).issuperset(d.related_users)
    ]


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why, gives the lease back and says when to try again; the messages stay as they are."""
    counts = loaded.reason != "asked"
    verdict = judge(error, loaded.conversation.failures, loaded.conversation.errors, settings, now, counts=counts)
    changes: dict[str, Any] = {"failures": verdict.failures, "errors": verdict.errors}
    retry_at = (
        now + pause(0, settings) if verdict.gives_up else verdict.retry_at
    )  # where a forgetting has ended the run
    if retry_at is not None:
        changes |= {"due_at": retry_at, "due_reason": "retry", "dead_run_id": None}
    # First the conversation, then the run, as everywhere: locks are taken in one order.
    conversations, runs = ConversationRepository(session), RunRepository(session)
    ours = await conversations.release(loaded.conversation, **changes)
    gives_up = verdict.gives_up and ours and await runs.is_open(loaded.run)
    if gives_up:
        await conversations.release(loaded.conversation, dead_run_id=loaded.run.run_id, due_at=None, due_reason=None)
    await runs.fail(loaded.run, error, now, gives_up=gives_up)


async def give_back(
    session: Session, claimed: ConversationState, error: BaseException, settings: Settings, now: datetime
) -> None:
    """The lease of a conversation that couldn't even be loaded, and when to try again."""
    verdict = judge(error, claimed.failures, claimed.errors, settings, now, counts=True)
    changes: dict[str, Any] = {"failures": verdict.failures}
    if verdict.retry_at is not None:
        changes |= {"due_at": verdict.retry_at, "due_reason": "retry", "dead_run_id": None}
    await ConversationRepository(session).release(claimed, **changes)
