"""What memory is about: its heaviest terms."""

from __future__ import annotations

from memory_sql.db import Joinable
from memory_sql.db.queries import entities
from memory_sql.domain.arguments import principal_of, within
from memory_sql.domain.entities import Topic
from memory_sql.domain.ids import Id
from memory_sql.resources.runtime import Face

LOOKED_AT = 2_000  # newest observations


class Topics(Face):
    """What memory is about: its heaviest terms."""

    async def list(self, *, agent_id: Id, user_id: Id, limit: int = 50, session: Joinable | None = None) -> list[Topic]:
        """The heaviest terms of the newest 2,000 active observations that the user may see, heaviest first.

        The weight of a term that n of N observations have is n · ln((N + 1) / n), the sum of its TF-IDF: what stands in all
        of them weighs little. It is worked out on demand, and stored nowhere. `limit`: 1 to 50.
        """
        principal, most = principal_of(agent_id, user_id, None), within("limit", limit, 50)
        async with self._database.reading(session, None if session is None else principal) as reader:
            return await entities.topics(reader, principal, LOOKED_AT, most)
