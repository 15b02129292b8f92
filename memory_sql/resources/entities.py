"""What memory names: people, places, things."""

from __future__ import annotations

from memory_sql.db import Joinable
from memory_sql.db.queries import entities, listed
from memory_sql.domain.arguments import needed_text, principal_of, within
from memory_sql.domain.entities import Entity, EntitySummary
from memory_sql.domain.ids import Id
from memory_sql.errors import InputError, NotFoundError
from memory_sql.languages.text import one_line
from memory_sql.resources.runtime import Face
from memory_sql.retrieval.entities import summaries, summary

LOOKED_AT = 2_000  # newest observations of a listing


class Entities(Face):
    """What memory names: people, places, things."""

    async def list(
        self, *, agent_id: Id, user_id: Id, limit: int = 100, session: Joinable | None = None
    ) -> list[EntitySummary]:
        """What the newest 2,000 active observations that the user may see name, that first which most of them name.

        By rules, no model: words with capitals or figures, each name once however it is written. `limit` is at most 1,000.
        What is written without capitals, as in Chinese, has no names; `get` finds it all the same.
        """
        principal, most = principal_of(agent_id, user_id, None), within("limit", limit, 1000)
        async with self._database.reading(session, None if session is None else principal) as reader:
            newest = await listed.page(reader, principal, None, LOOKED_AT, None)
        return summaries(newest, self._settings.language)[:most]

    async def get(
        self, name: str, *, agent_id: Id, user_id: Id, limit: int = 50, session: Joinable | None = None
    ) -> Entity:
        """All active observations that the user may see and that name it, or are about the user of that id.

        A text names it if it has the same words, one after the other, whatever their case. Counted are all of them, by scope;
        `newest` has at most `limit` (1 to 1,000), and of each scope at least one. Raises `NotFoundError` if there is none.
        """
        asked, most = one_line(needed_text("name", name)), within("limit", limit, 1000)
        if not asked:
            raise InputError("name must not be empty")
        principal = principal_of(agent_id, user_id, None)
        async with self._database.reading(session, None if session is None else principal) as reader:
            newest, scopes = await entities.entity(reader, principal, asked, most)
        if not newest:
            raise NotFoundError("entity", asked)
        return Entity(**dict(summary(asked, scopes)), newest=tuple(newest))
