"""Conversations: their messages, and whether these are formed into observations."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from memory_sql.db import Joinable, Session
from memory_sql.db.hashes import keyed_hashes
from memory_sql.db.principals import service
from memory_sql.db.queries.participation import takes_part
from memory_sql.db.repositories.conversations import ConversationRepository
from memory_sql.db.repositories.messages import MessageRepository
from memory_sql.db.repositories.runs import RunRepository
from memory_sql.domain.arguments import flags, id_of, listed, message_before, needed_text, principal_of, within
from memory_sql.domain.ids import Id
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import storable_metadata
from memory_sql.domain.results import FormResult
from memory_sql.errors import InputError, NotFoundError
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
        before: RetainedMessage | str | None = None,
        session: Joinable | None = None,
    ) -> Sequence[RetainedMessage]:
        """The messages of the user's conversations whose text is still kept, newest first.

        `conversation_id` limits them to one conversation. `before` is the last message of the previous page, or its
        `position`, which works after that message is gone. Left out are messages that formation skips, those of excluded
        conversations, those that support something set aside, and those kept beyond their retention only because they are
        unformed or held.
        """
        principal, most = principal_of(agent_id, user_id, conversation_id), within("limit", limit, 1000)
        last = message_before(before)
        async with self._database.statement(session, None if session is None else principal) as unit:
            return await self._retained(unit).of_user(principal, most, last)

    async def takes_part(self, *, agent_id: Id, user_id: Id, conversation_id: Id) -> bool:
        """Whether the user sees what is said in the conversation; False also if there is none, or it is excluded."""
        principal = principal_of(agent_id, user_id, id_of("conversation_id", conversation_id))
        async with self._database.statement(principal=service(principal["agent_id"])) as unit:
            return await takes_part(unit, principal)

    async def message_ids(self, texts: Sequence[str]) -> Sequence[str]:
        """Ids for messages without one: 8 characters for each text, always the same in this database.

        They are hashes under a key of the database, so that nobody can use them to confirm a guess at a text. Two texts may
        share an id by chance; prefix it with something that tells the messages apart.
        """
        contents = [needed_text("texts", text).encode() for text in listed("texts", texts)]
        async with self._database.statement() as unit:
            hashes = await keyed_hashes(unit, "file", contents)
        return [one.hex()[:8] for one in hashes]

    def form(
        self,
        *,
        agent_id: Id,
        conversation_id: Id,
        again: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Coroutine[Any, Any, FormResult]:
        """Forms observations from every unformed message of the conversation, whether or not it is due.

        `metadata` is kept with each new observation; not with those that another process forms, as a worker does after a
        failure here.

        With `again`, messages that were formed before are formed again, for example with another model. The observations
        that earlier runs made of them are superseded (`observations.reinstate` brings one back) and removed from the texts.
        Observations that a person has confirmed, corrected, marked or set aside, or that a legal hold covers, stay, and
        nothing new is formed from their messages alone; so is what came of messages that have lost their texts for what
        they asked. The work is done in stretches, each in one transaction. Raises `InputError` if texts of other messages
        have been deleted.

        Raises `LanguageModelError` if the model fails (the messages stay), `BusyError` if another process is working on
        the conversation, `NotFoundError`. The work is never given up (`work.dead`): the caller gets the error.
        """
        flags(again=again)
        agent, conversation = id_of("agent_id", agent_id), id_of("conversation_id", conversation_id)
        given = storable_metadata({} if metadata is None else metadata, self._settings.metadata_max_characters)
        if not again:
            return self._jobs.form(agent, conversation, given)
        if given:
            raise InputError("metadata= goes with what is formed for the first time; leave out again=True")
        return self._jobs.form_again(agent, conversation)

    async def unformed(self, *, agent_id: Id) -> Sequence[str]:
        """The ids of conversations with unformed messages, oldest first."""
        agent = id_of("agent_id", agent_id)
        async with self._database.statement(principal=service(agent)) as unit:
            return await ConversationRepository(unit).unformed(agent)

    async def exclude(self, *, agent_id: Id, conversation_id: Id, excluded: bool = True) -> None:
        """Excludes the conversation: what is said in it from now on is never formed, not even on request.

        Model work in progress is discarded. `excluded=False` ends the exclusion; what was said during it stays unformed.
        """
        flags(excluded=excluded)
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
        """Declares that all members of the conversation's groups hear what is said in it, as in a channel that they read.

        Without this, they count as hearing it if at least two of them have spoken in it. If extraction assigns an
        observation to a group that didn't hear it, the observation stays with its speaker and is `proposed`: propagation
        decides. Applies to what is formed from now on. Raises `NotFoundError`.
        """
        flags(shared=shared)
        agent, conversation = id_of("agent_id", agent_id), id_of("conversation_id", conversation_id)

        async def change(unit: Session) -> None:
            if not await ConversationRepository(unit).share(agent, conversation, shared=shared):
                raise NotFoundError("conversation", conversation)

        await self._database.write(change, principal=service(agent))

    def _retained(self, unit: Session) -> MessageRepository:
        return MessageRepository(unit, self._settings.message_retention_days, self._now())
