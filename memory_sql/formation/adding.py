"""Messages → the buffer of a conversation: screened, weighed, stored once each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory_sql.arguments import id_of, ids_of, optional_id, text_of
from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.domain.ids import Id
from memory_sql.domain.messages import Message
from memory_sql.domain.results import AddResult
from memory_sql.errors import InvalidMessageError
from memory_sql.formation import intake
from memory_sql.languages.dates import zone_of
from memory_sql.languages.words import search_extra


@dataclass(frozen=True, slots=True)
class Incoming:
    """One call of `add`, checked. `call` is its idempotency key."""

    agent_id: str
    conversation_id: str
    user_id: str
    group_ids: Sequence[str]
    call: str | None
    messages: Sequence[Message]
    excluded: bool | None
    time_zone: str | None


def incoming(
    messages: Iterable[Message | Mapping[str, Any]],
    settings: Settings,
    *,
    agent_id: Id,
    user_id: Id,
    conversation_id: Id,
    group_ids: Iterable[Id],
    idempotency_key: Id | None,
    excluded: bool | None,
    time_zone: str | None,
) -> Incoming:
    """Raises `InputError`."""
    return Incoming(
        agent_id=id_of("agent_id", agent_id),
        user_id=id_of("user_id", user_id),
        conversation_id=id_of("conversation_id", conversation_id),
        group_ids=ids_of("group_ids", group_ids),
        call=optional_id("idempotency_key", idempotency_key),
        excluded=excluded,
        time_zone=None if time_zone is None else zone_of(text_of("time_zone", time_zone)).key,
        messages=[
            Message.parse(message, position, settings.message_max_characters)
            for position, message in enumerate(messages)
        ],
    )


async def store(
    session: Session, said: Incoming, screened: intake.Screened | None, settings: Settings, now: datetime
) -> AddResult:
    """What was accepted. `screened`: what is stored in place of the messages as they came, if anything is.

    Raises `InvalidMessageError` where the idempotency key came before with another message.
    """
    messages = said.messages if screened is None else screened.messages
    added = await ConversationRepository(session).add(
        settings,
        agent_id=said.agent_id,
        conversation_id=said.conversation_id,
        user_id=said.user_id,
        group_ids=said.group_ids,
        messages=[_buffered(intake.weigh(message), said, n) for n, message in enumerate(messages)],
        now=now,
        excluded=said.excluded,
        time_zone=said.time_zone,
        next_id=None if said.call is None else f"{said.call}#{len(messages)}",
    )
    if added.differs is not None:
        raise InvalidMessageError(added.differs, "another one came with this idempotency key before")
    return AddResult(
        conversation_id=said.conversation_id,
        accepted=added.accepted,
        duplicates=len(messages) - added.accepted,
        cleaned=sum(bool(message.cleaned) for message in said.messages),
        masked=0 if screened is None else len(screened.found),
        trigger=added.due_reason if added.due_at and added.due_at <= now else None,
    )


def _buffered(weighed: intake.Weighed, said: Incoming, position: int) -> dict[str, Any]:
    """Without an id of its own a message is known by its place in the call that an idempotency key names, else new."""
    message, call = weighed.message, said.call
    return {
        "id": message.id or (uuid.uuid4().hex if call is None else f"{call}#{position}"),
        "keyed": message.id is None and call is not None,
        "role": message.role,
        "user_id": message.user_id or (said.user_id if message.role == "user" else None),
        "speaker": message.name,
        "search_extra": search_extra(message.content),
        "content": message.content,
        "cleaned": list(message.cleaned),
        "weight": weighed.weight,
        "eligible": weighed.eligible,
        "signal": weighed.signal,
        "said_at": message.created_at.isoformat() if message.created_at else None,
    }
