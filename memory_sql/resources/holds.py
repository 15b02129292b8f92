"""Legal holds: what they cover can't be erased while they are open."""

from __future__ import annotations

from memory_sql.db import Joinable, Session
from memory_sql.db.locks import lock_agent
from memory_sql.db.principals import service
from memory_sql.db.repositories.agents import agent_key_of, ensure_agent
from memory_sql.db.repositories.events import record
from memory_sql.db.repositories.holds import HoldRepository
from memory_sql.domain.arguments import flags, held_of, id_of, optional_id, reason_of, within
from memory_sql.domain.ids import Id, parse_observation_id
from memory_sql.domain.people import Hold, PlacedHold
from memory_sql.errors import NotFoundError
from memory_sql.lifecycle import forgetting, journal
from memory_sql.resources.runtime import Face, asked_of, locked_agent


class Holds(Face):
    """Legal holds: what they cover can't be erased while they are open."""

    async def place(
        self,
        *,
        agent_id: Id,
        user_id: Id | None = None,
        conversation_id: Id | None = None,
        group_id: Id | None = None,
        observation_id: str | None = None,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> PlacedHold:
        """Places a hold on an observation, or on everything of a user, conversation or group, and returns it.

        Placing the same hold again returns the first one. What doesn't exist yet can be held too, except an observation
        (`NotFoundError`). A forgetting in progress finishes first: `observations` and `messages` count what is left.
        """
        agent, now = id_of("agent_id", agent_id), self._now()
        kind, target = held_of(user_id, conversation_id, group_id, observation_id)
        by, why = optional_id("actor", actor), reason_of(reason)

        async def place(unit: Session) -> PlacedHold:
            if kind == "observation":
                agent_key = await locked_agent(unit, agent, kind, target)
            else:
                agent_key = (await ensure_agent(unit, agent, now)).key
                await lock_agent(unit, agent_key)
            holds = HoldRepository(unit, agent_key)
            if kind == "observation" and not await holds.has_observation(*parse_observation_id(target)):
                raise NotFoundError(kind, target)
            hold_id, is_new = await holds.open(kind, target, by, why, now)
            if is_new:
                detail = {"action": "hold", "hold_id": hold_id, f"{kind}_id": target}
                await record(unit, agent_key, "hold", now, actor=by, reason=why, detail=detail)
            return await holds.placed(hold_id)

        return await self._database.write(place, session, service(agent))

    async def list(self, *, agent_id: Id, released: bool = False) -> list[Hold]:
        """The open holds, oldest first; `released`: also released ones."""
        flags(released=released)
        agent = id_of("agent_id", agent_id)
        async with self._database.transaction(principal=service(agent)) as unit:
            agent_key = await agent_key_of(unit, agent)
            return [] if agent_key is None else await HoldRepository(unit, agent_key).list(released=released)

    async def release(
        self,
        hold_id: int,
        *,
        agent_id: Id,
        actor: Id | None = None,
        reason: str | None = None,
        session: Joinable | None = None,
    ) -> Hold:
        """Ends the hold and returns it: what it covers can be erased again, and what was forgotten during it is erased now.

        Each forgetting of which only this hold kept something has a receipt in the events and in the journal. Repeating
        the call changes nothing. Raises `NotFoundError`.
        """
        agent, number, now = id_of("agent_id", agent_id), within("hold_id", hold_id, 2**63 - 1), self._now()
        asked = asked_of(agent, actor, reason, self._settings, now)

        async def release(unit: Session) -> Hold:
            journal.check(self._settings.forget_journal, unit)
            agent_key = await locked_agent(unit, agent, "hold", str(number))
            holds = HoldRepository(unit, agent_key)
            released = await holds.release(number, now)
            hold = await holds.get(number)
            if hold is None:
                raise NotFoundError("hold", str(number))
            if released:
                detail = {"action": "release", "hold_id": number, f"{hold.kind}_id": hold.target}
                await record(unit, agent_key, "hold", now, actor=asked.actor, reason=asked.reason, detail=detail)
                for forgotten in await forgetting.release(unit, asked, agent_key):
                    await journal.keep(self._settings.forget_journal, unit, forgotten.entry, joined=session is not None)
            return hold

        released = await self._database.write(release, session, service(agent))
        return await self._runtime.replicated(released, session is None)
