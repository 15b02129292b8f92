"""Changes the settings of several scopes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory_sql.config import ScopeSettings
from memory_sql.memory import Memory
from tests.database import rows


async def scopes_of(memory: Memory, owner: str | None = None, agent: str = "ada") -> Sequence[str]:
    """The ids of an agent's scopes: of all, or of one owner (`c`, `u:mia` …). `%` matches anything."""
    sql = (
        "SELECT 's' || scope_id FROM memory.scopes JOIN memory.agents USING (agent_key) WHERE agent_id = :agent"
        " AND owner LIKE :owner ORDER BY scope_id"
    )
    return [scope for (scope,) in await rows(memory, sql, agent=agent, owner=owner or "%")]


async def set_scopes(memory: Memory, owner: str | None = None, agent: str = "ada", **settings: Any) -> None:
    for scope in await scopes_of(memory, owner, agent):
        await memory.scopes.set(scope, ScopeSettings(**settings), agent_id=agent)
