"""Episodes: what was talked about, stretch by stretch."""

from __future__ import annotations

from functools import partial

from memory_sql.db import Joinable
from memory_sql.db.principals import service
from memory_sql.db.queries import episodes
from memory_sql.domain.arguments import id_of, optional_id, principal_of, within
from memory_sql.domain.episodes import Episode, parse_episode_id
from memory_sql.domain.ids import Id
from memory_sql.episodes import sealing
from memory_sql.errors import NotFoundError
from memory_sql.resources.runtime import Face


class Episodes(Face):
    """Episodes: stretches of conversations in which one thing was talked about (`episodes`)."""

    async def list(
        self,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        limit: int = 50,
        before: str | None = None,
        session: Joinable | None = None,
    ) -> list[Episode]:
        """The episodes that the user may see, newest first: those of conversations in which they have written, of which they
        may see what is remembered.

        `conversation_id` limits them to one conversation. `before` is the id of the last one of the previous page. Raises
        `InvalidIdError`.
        """
        only = optional_id("conversation_id", conversation_id)
        principal, most = principal_of(agent_id, user_id, conversation_id), within("limit", limit, 1000)
        behind = None if before is None else parse_episode_id(before)
        async with self._database.reading(session, None if session is None else principal) as reader:
            return await episodes.page(
                reader, principal, self._settings.message_retention_days, self._now(), most, only, behind
            )

    async def get(
        self,
        episode_id: str,
        *,
        agent_id: Id,
        user_id: Id,
        conversation_id: Id | None = None,
        session: Joinable | None = None,
    ) -> Episode:
        """One episode, with its observations (`members`) that the user may see.

        Raises `NotFoundError`, also if it exists but this user may not see it, `InvalidIdError`.
        """
        key, principal = parse_episode_id(episode_id), principal_of(agent_id, user_id, conversation_id)
        async with self._database.reading(session, None if session is None else principal) as reader:
            found = await episodes.one(reader, principal, self._settings.message_retention_days, self._now(), key)
            if found is None:
                raise NotFoundError("episode", episode_id)
            return found.model_copy(update={"members": await episodes.members(reader, principal, key)})

    async def seal(self, *, agent_id: Id, conversation_id: Id, session: Joinable | None = None) -> bool:
        """Ends the open episode of the conversation (`forced`), as where the host knows that something else begins.

        Returns whether there was one. Messages that wait to be formed belong to the next. Raises `NotFoundError`.
        """
        agent, conversation = id_of("agent_id", agent_id), id_of("conversation_id", conversation_id)
        step = partial(sealing.force, agent_id=agent, conversation_id=conversation, settings=self._settings)
        return await self._database.write(step, session, service(agent))
