"""Conversations: their messages, and whether these are formed into observations."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from memory_sql.arguments import id_of, message_before, principal_of, within
from memory_sql.db import Session
from memory_sql.db.hashes import keyed_hashes
from memory_sql.db.principals import service
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.messages import MessageRepository
from memory_sql.db.repositories.runs import RunRepository
from memory_sql.domain.ids import Id
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.results import FormResult
from memory_sql.errors import NotFoundError
from memory_sql.resources.runtime import Face


class Conversations(Face):
    """Conversations: their messages, and whether these are formed into observations."""

    async def messages(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        limit: int = 50,
        before: RetainedMessage | None = None,
        session: Session | None = None,
    ) -> Sequence[RetainedMessage]:
        """The messages whose text is still kept, of the conversations that the user took part in, newest first.

        With `conversation_id`, of that one. `before` is the last one of the previous page. Left out are messages that
        formation skips, of excluded conversations, those that support something set aside, and those kept beyond
        their retention only because they aren't formed yet, or are held.
        """
        principal, most = principal_of(agent_id, user_id, conversation_id), within("limit", limit, 1000)
        last = message_before(before)
        async with self._database.statement(session, None if session is None else principal) as unit:
            return await self._retained(unit).of_user(principal, most, last)

    async def message_ids(self, texts: Sequence[str]) -> Sequence[str]:
        """For messages that have no id: of each text the same 8 characters every time, in this database alone.

        They are hashed under a key of the database: who reads them can't confirm a guess at the text. Texts may share
        them by chance; put what else tells them apart before.
        """
        async with self._database.statement() as unit:
            hashes = await keyed_hashes(unit, "file", [text.encode() for text in texts])
        return [one.hex()[:8] for one in hashes]

    def form(self, *, agent_id: Id, conversation_id: Id, again: bool = False) -> Coroutine[Any, Any, FormResult]:
        """Forms observations from every unformed message of the conversation, whether or not it is due.

        With `again` those that have been formed are formed anew, as with another model: what the runs before had made of
        them is superseded (`observations.reinstate` brings one back) and leaves the texts; what a person has confirmed,
        corrected, marked or set aside stays, as does what a legal hold keeps, and nothing new is formed from such messages
        alone. It goes stretch by stretch, each in one transaction. Raises `InputError` where texts of messages are gone.

        Raises `LanguageModelError` if the model fails (the messages stay), `BusyError` if another process is working on
        it, `NotFoundError`. It is never given up (`work.dead`): the caller gets the error.
        """
        form = self._jobs.form_again if again else self._jobs.form
        return form(id_of("agent_id", agent_id), id_of("conversation_id", conversation_id))

    async def unformed(self, *, agent_id: Id) -> Sequence[str]:
        """The conversations with unformed messages, oldest first."""
        agent = id_of("agent_id", agent_id)
        async with self._database.statement(principal=service(agent)) as unit:
            return await ConversationRepository(unit).unformed(agent)

    async def exclude(self, *, agent_id: Id, conversation_id: Id, excluded: bool = True) -> None:
        """Stops forming what is said in the conversation from now on, even on request.

        Work under way is refused. `excluded=False` ends it; what was said meanwhile stays unformed.
        """
        agent, conversation = id_of("agent_id", agent_id), id_of("conversation_id", conversation_id)

        async def change(unit: Session) -> None:
            conversations = ConversationRepository(unit)
            if excluded:
                agent_key = await conversations.exclude(agent, conversation)
            else:
                agent_key = await conversations.include(agent, conversation, self._settings, self._now())
            if agent_key is None:
                raise NotFoundError("conversation", conversation)
            if excluded:  # also an answer that was stored and waits to be applied
                await RunRepository(unit).abandon(agent_key, self._now(), conversation_id=conversation)

        await self._database.write(change, principal=service(agent))

    async def share(self, *, agent_id: Id, conversation_id: Id, shared: bool = True) -> None:
        """Says that the members of the conversation's groups hear what is said in it, as in a channel that all of them read.

        Without that they do where at least two of them have spoken in it. What an extraction files under a group that
        didn't hear it stays with who said it, and is `proposed`: propagation decides. Counts for what is formed from now
        on. Raises `NotFoundError`.
        """
        agent, conversation = id_of("agent_id", agent_id), id_of("conversation_id", conversation_id)

        async def change(unit: Session) -> None:
            if not await ConversationRepository(unit).share(agent, conversation, shared=shared):
                raise NotFoundError("conversation", conversation)

        await self._database.write(change, principal=service(agent))

    def _retained(self, unit: Session) -> MessageRepository:
        return MessageRepository(unit, self._settings.message_retention_days, self._now())
