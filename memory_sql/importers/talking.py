"""Imports an agent's conversations with their messages. What was already formed from them there isn't formed again."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.additions import add_messages
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.imported_messages import ImportedMessageRepository, Reached
from memory_sql.domain.messages import Message
from memory_sql.formation.adding import buffered
from memory_sql.formation.intake import weigh
from memory_sql.importers.batches import some_of
from memory_sql.importers.drafts import ConversationDraft, MessageDraft, Outcome
from memory_sql.importers.seen import Seen, counted

MESSAGES_AT_ONCE = 500


class TalkPlan(Protocol):
    """What was said, in order. It may be read more than once."""

    def conversations(self, agent_id: str) -> Iterator[ConversationDraft]: ...

    def messages(self, agent_id: str, conversation_id: str) -> Iterator[MessageDraft]: ...

    def leave_out(self, refs: Mapping[str, str], outcome: Outcome = "skipped") -> None: ...

    def bring(self, refs: Sequence[str]) -> None:
        """Records documents that are imported, even if they are left out elsewhere."""


@dataclass(frozen=True, slots=True)
class Talking:
    """The conversations of one agent. `pause`: seconds between the times at which formation becomes due."""

    unit: Session
    talk: TalkPlan
    seen: Seen
    settings: Settings
    now: datetime
    pause: float = 0.0

    async def look(self, agent_id: str) -> None:
        """Tells the plan what `store` would leave out."""
        for draft in self.talk.conversations(agent_id):
            place = await self._messages.place(draft.conversation_id)
            async for _ in self._coming(draft, place):
                pass

    async def store(self, agent_id: str, due_from: datetime) -> int:
        """Returns how many conversations wait for formation."""
        due = 0
        for draft in self.talk.conversations(agent_id):
            if await self._conversation(draft, due_from + timedelta(seconds=self.pause * (due + 1))):
                due += 1
        return due

    @property
    def _messages(self) -> ImportedMessageRepository:
        return ImportedMessageRepository(self.unit, self.seen.agent_key)

    async def _conversation(self, draft: ConversationDraft, due_at: datetime) -> bool:
        """Returns whether the conversation waits for formation."""
        place, formed = await self._messages.place(draft.conversation_id), 0
        user = place.user_id
        async for messages in self._coming(draft, place):
            user = user or next(message.user_id for message in messages if message.user_id is not None)
            await self._add(draft, user, messages)
            formed += sum(message.is_formed for message in messages)
        if formed and place.formed_number == place.last_number:
            await self._form(draft, place, place.last_number + formed)
        return bool(self.pause) and await self._messages.postpone(draft.conversation_id, due_at)

    async def _coming(self, draft: ConversationDraft, place: Reached) -> AsyncIterator[list[MessageDraft]]:
        """Yields the messages to import in chunks, from the first that a user wrote. Tells the plan about the others.

        What came before that is left out in every run: afterwards, it would come behind what it was before.
        """
        begun, began_at, is_answer = False, place.began_at, False
        for some in some_of(self.talk.messages(draft.agent_id, draft.conversation_id), MESSAGES_AT_ONCE):
            left = await self.seen.messages_left_out(ref_of(message) for message in some)
            going, is_answer = self.seen.gone.messages(draft.conversation_id, some, is_answer)
            left |= {ref_of(message): "forgotten" for message in some if message.message_id in going}
            self.talk.leave_out(counted(left))
            new = [message for message in some if ref_of(message) not in left]
            if place.is_foreign:
                self.talk.leave_out({ref_of(message): "goes_on_here" for message in new})
                continue
            long = [message for message in new if len(message.content) > self.settings.message_max_characters]
            self.talk.leave_out({ref_of(message): "too_long" for message in long}, "rejected")
            new = [message for message in new if message not in long]
            if not begun:
                later = (message.user_id is not None or (began_at and message.said_at > began_at) for message in new)
                first = next((n for n, is_later in enumerate(later) if is_later), len(new))
                self.talk.leave_out({ref_of(message): "nobody_yet" for message in new[:first]})
                new, begun = new[first:], first < len(new)
            if new:
                self.talk.bring([ref_of(message) for message in new])
                yield new

    async def _add(self, draft: ConversationDraft, user: str, messages: Sequence[MessageDraft]) -> None:
        await add_messages(
            self.unit,
            self.settings,
            agent_id=draft.agent_id,
            conversation_id=draft.conversation_id,
            user_id=user,
            group_ids=[],
            messages=[_stored(message) for message in messages],
            now=self.now,
            excluded=None,
            time_zone=None,
            next_id=None,
        )
        await self._messages.note(
            self.seen.import_id or 0,
            draft.conversation_id,
            [
                {
                    "message_id": message.message_id,
                    "source_hash": message.source_hash,
                    "stored_hash": hashlib.sha256(message.content.encode()).digest(),
                    "ref_hash": self.seen.ref(ref_of(message)),
                }
                for message in messages
            ],
        )

    async def _form(self, draft: ConversationDraft, place: Reached, to_number: int) -> None:
        conversations = ConversationRepository(self.unit)
        state = await conversations.locked(self.seen.agent_key, draft.conversation_id)
        await conversations.advance(state, to_number, self.settings, self.now)
        await self._messages.form(
            self.seen.import_id or 0, draft.conversation_id, place.last_number, to_number, self.now
        )


def ref_of(message: MessageDraft) -> str:
    return f"messages:{message.message_id}"


def _stored(draft: MessageDraft) -> dict[str, Any]:
    message = Message(
        role=draft.role,
        content=draft.content,
        id=draft.message_id,
        name=draft.speaker,
        user_id=draft.user_id,
        created_at=draft.said_at,
        trigger=draft.trigger,
    )
    return buffered(weigh(message), {"id": draft.message_id, "keyed": False}, draft.user_id)
