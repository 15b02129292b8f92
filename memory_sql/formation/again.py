"""A conversation formed anew, stretch by stretch, as the runs before had read it.

The prompt shows nothing of what memory holds: much of it came of these very messages. What takes the place of what is
decided by whoever calls: `lock`, then `store`, in one transaction with the retiring of the run before, so that
each message is always covered by one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.locks import share_agent
from memory_sql.db.repositories.conversations import ConversationRepository, ConversationState
from memory_sql.db.repositories.formations import FormationRepository
from memory_sql.db.repositories.observations import Draft, ObservationRepository
from memory_sql.db.repositories.runs import RunRepository
from memory_sql.errors import InputError, StaleError
from memory_sql.formation import formation
from memory_sql.formation.dialogue import Extracted
from memory_sql.formation.window import Loaded, window_of


async def load(
    session: Session, agent_id: str, conversation_id: str, settings: Settings, now: datetime, after: int
) -> tuple[ConversationState, Loaded | None]:
    """The conversation, leased, and its first stretch after that number; None when nothing formed is left.

    Raises `BusyError`, `InputError` where texts are gone.
    """
    conversations, runs = ConversationRepository(session), RunRepository(session)
    key = formation.ConversationKey(agent_id, conversation_id)
    state = await FormationRepository(session).claim(*key, timedelta(seconds=settings.lease_seconds))
    if state is None:
        await formation.refuse_untaken(session, key)
    settings = settings.of_agent(state.agent_settings)
    await _refuse_gone(conversations, state)
    await runs.abandon(state.agent_key, now, conversation_id=conversation_id)
    stretch = None if state.excluded else await runs.next_range(state.agent_key, conversation_id, after)
    if stretch is None:
        await conversations.release(state)
        return state, None
    await runs.check_budget(state.agent_id, state.agent_key, settings, now)
    messages = await conversations.range(state, stretch[1], after=stretch[0])
    members = await formation.silent_members(session, state, messages)
    groups = await formation.groups_for(session, state, settings)
    window = window_of(state, messages, settings, None, members, groups)
    offers = await formation.offered(session, state, window, settings, now)
    targets = tuple(target for offer in offers for target in offer.targets)
    shown = {target.state.scope_id: target.state.epoch for target in targets if target.state}
    run, _ = await formation.start(session, state, messages, targets, shown, list(members), (), now)
    return state, Loaded(state, run, window, targets, shown, now, None, "again")


async def _refuse_gone(conversations: ConversationRepository, state: ConversationState) -> None:
    gone = await conversations.texts_gone(state)
    if gone:
        raise InputError(
            f"conversation {state.conversation_id} can't be formed again: the texts of {gone} of its messages have been"
            " deleted, forgotten or past their retention, and what came of them would be lost; leave out again to form"
            " what is new"
        )


async def lock(session: Session, loaded: Loaded) -> None:
    """The agent, shared, and the conversation; raises `StaleError`, `InputError` where texts have gone meanwhile."""
    await share_agent(session, loaded.conversation.agent_key)
    state = await formation.lock(session, loaded)
    await _refuse_gone(ConversationRepository(session), state)


async def store(
    session: Session,
    loaded: Loaded,
    answered: Extracted,
    drafts: Sequence[Draft],
    known: int,
    refused: Counter[str],
    settings: Settings,
    now: datetime,
) -> formation.Applied:
    """Stores the drafts, retires the runs that had read these messages, gives the lease back.

    `known`: how many observations stayed as they were.
    """
    conversation, runs = loaded.conversation, RunRepository(session)
    saved = await formation.save(session, loaded, drafts, refused, settings, now)
    first, last = loaded.window.messages[0].number, loaded.window.messages[-1].number
    if not await runs.retire(conversation.agent_key, conversation.conversation_id, first - 1, last):
        raise StaleError("conversation", conversation.conversation_id, "another process has formed it again")
    outcome = formation.outcome(saved, refused)
    outcome["duplicates"] += known
    await runs.succeed(loaded.run, now, answered.usage, answered.prompt_version, **outcome)
    await ConversationRepository(session).release(conversation)
    stored = await ObservationRepository(session).by_keys(conversation.agent_key, saved.stored)
    return formation.Applied(stored, outcome["duplicates"], dict(+refused), more=conversation.formed_number > last)


async def fail(session: Session, loaded: Loaded, error: BaseException, settings: Settings, now: datetime) -> None:
    """Records why and gives the lease back; what was formed before stands."""
    await ConversationRepository(session).release(loaded.conversation)
    await RunRepository(session).fail(loaded.run, error, now)
