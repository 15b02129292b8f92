"""What the jobs on scopes share: the lease of a scope, which serves consolidation, propagation and recheck alike."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from memory_sql.db import Session
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.db.repositories.scopes import DueColumn, ScopeRepository, ScopeState
from memory_sql.errors import NotFoundError
from memory_sql.llm import LanguageModel


class ScopeKey(NamedTuple):
    agent_id: str
    scope_id: int


@dataclass(frozen=True, slots=True)
class HeldScope:
    """A scope under a lease; what it is like may have changed since."""

    agent_id: str
    state: ScopeState
    more: bool = True  # whether other scopes may be due

    @property
    def agent_settings(self) -> Mapping[str, Any]:
        return self.state.agent_settings


class ScopeJob:
    """The part of a job that doesn't depend on what is done in the scope."""

    applies_alone = False
    due_column: ClassVar[DueColumn]
    called: ClassVar[str]

    def __init__(self, llm: LanguageModel) -> None:
        self._llm = llm

    async def claim(self, session: Session, agent_id: str | None, by: datetime, lease: timedelta) -> HeldScope | None:
        claimed = await ScopeRepository(session).claim_due(agent_id, by, lease, self.due_column)
        return None if claimed is None else HeldScope(*claimed)

    def may_be_more(self, held: HeldScope) -> bool:
        return held.more

    def extend(self, session: Session, held: HeldScope, lease: timedelta) -> Awaitable[bool]:
        return ScopeRepository(session).extend(held.state, lease)

    def postpone(self, session: Session, held: HeldScope, until: datetime) -> Awaitable[None]:
        return ScopeRepository(session).postpone(held.agent_id, held.state.scope_id, until, self.due_column)

    def key(self, held: HeldScope) -> ScopeKey:
        return ScopeKey(held.agent_id, held.state.scope_id)

    def name(self, held: HeldScope) -> str:
        return f"{self.called} s{held.state.scope_id} of agent {held.agent_id}"


async def known_agent(session: Session, agent_id: str) -> int:
    """The agent's key; raises `NotFoundError`."""
    agent_key = await agent_key_of(session, agent_id)
    if agent_key is None:
        raise NotFoundError("agent", agent_id)
    return agent_key
