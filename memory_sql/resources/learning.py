"""Guidelines that are learnt by rule from what became of the actions of agents."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from memory_sql.config.scopes import ScopeSettings
from memory_sql.db import Session
from memory_sql.db.locks import share_agent
from memory_sql.db.principals import service
from memory_sql.db.repositories.actions import ActionRepository, Learned
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.scopes import ScopeRepository
from memory_sql.db.repositories.states import StateRepository
from memory_sql.domain.guidelines import OUTCOMES, LearnedGuidelines, lines
from memory_sql.domain.ids import observation_id
from memory_sql.errors import MemorySQLError
from memory_sql.lifecycle import observing
from memory_sql.resources.runtime import Runtime
from memory_sql.resources.scopes import Scopes

log = logging.getLogger("memory_sql")

NAME = FACT_KEY = (
    "learned"  # the scope beside the agent's guidelines, and the fact of which there is one version at a time
)
AGENTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Learning:
    _runtime: Runtime

    async def learn(self, agent_id: str) -> LearnedGuidelines:
        """Stores what is to be said if it differs from what was said last."""
        async with self._runtime.database.statement(principal=service(agent_id)) as unit:
            agent_key = await agent_key_of(unit, agent_id)
            if agent_key is None:
                return LearnedGuidelines(agent_id=agent_id)
            actions = ActionRepository(unit)
            tallies = await actions.tallies(agent_key)
            said, before = lines(tallies), await actions.learned(agent_key, NAME, FACT_KEY)
        outcomes = {name: sum(getattr(one, name) for one in tallies.values()) for name in OUTCOMES}
        found = LearnedGuidelines(
            agent_id=agent_id,
            lines=said,
            events=sum(one.events for one in tallies.values()),
            actions={action: one.events for action, one in sorted(tallies.items())},
            outcomes=outcomes,
        )
        text = "\n".join(said)
        if text == ("" if before is None else before.text):
            return found
        if before is not None and not said:
            return found.model_copy(update={"ended": await self._end(agent_id, agent_key, before)})
        stored = await self._store(agent_id, agent_key, text, found)
        return await self.learn(agent_id) if stored is None else found.model_copy(update={"observation_id": stored})

    async def _end(self, agent_id: str, agent_key: int, last: Learned) -> str | None:
        """Takes what was said last out of use. None: it has been taken out meanwhile."""
        now = self._runtime.now()

        async def end(unit: Session) -> bool:
            await share_agent(unit, agent_key)
            locked = await ScopeRepository(unit).lock(agent_key, scope_ids=[last.scope_id])
            return bool(locked and await StateRepository(unit).evict(locked[0], [last.seq], now, "guideline"))

        is_ended = await self._runtime.database.write(end, principal=service(agent_id), locks=True)
        return observation_id(last.scope_id, last.seq) if is_ended else None

    async def _store(self, agent_id: str, agent_key: int, text: str, found: LearnedGuidelines) -> str | None:
        """None: what it was learnt from has changed meanwhile, for example been forgotten."""
        own = ScopeSettings(consolidate=False)  # what is said by rule isn't for a model to reword
        scope = await Scopes(self._runtime).create("guideline", agent_id=agent_id, name=NAME, settings=own)
        now, settings = self._runtime.now(), self._runtime.settings
        told = found.model_dump(include={"events", "actions", "outcomes"})
        draft = observing.draft_of(
            text,
            settings,
            now,
            user_id=None,
            group_id=None,
            collective=False,
            scope_kind="guideline",
            observed_at=None,
            conversation_id=None,
            speaker=None,
            scope=scope.ref.name,
            tags=(),
            metadata=told,
            fact_key=FACT_KEY,
            known=observing.known_of("procedure", None, None, None, "public", None),
        )

        async def store(unit: Session) -> str | None:
            await share_agent(unit, agent_key)
            if lines(await ActionRepository(unit).tallies(agent_key)) != found.lines:
                return None
            stored = await observing.store(unit, agent_id=agent_id, draft=draft, lane=None, own=settings, now=now)
            return observation_id(*stored.key)

        return await self._runtime.database.write(store, principal=service(agent_id))

    async def learn_all(self, agent_id: str | None) -> tuple[int, int]:
        """How many agents have new guidelines, and for how many it failed: that stops nothing else, and is logged."""
        changed, failed, after = 0, 0, 0
        while True:
            async with self._runtime.database.statement(principal=service(agent_id)) as unit:
                agents = await ActionRepository(unit).agents(after, AGENTS_AT_ONCE)
            for _, one in agents:
                if agent_id not in (None, one):
                    continue
                try:
                    learned = await self.learn(one)
                    changed += (learned.observation_id or learned.ended) is not None
                except MemorySQLError as error:
                    failed += 1
                    log.warning("guidelines of agent %s weren't learnt: %s", one, type(error).__name__)
            if len(agents) < AGENTS_AT_ONCE:
                return changed, failed
            after = agents[-1][0]
