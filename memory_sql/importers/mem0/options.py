"""The options of an import from mem0."""

from __future__ import annotations

from dataclasses import dataclass

from memory_sql.config.kinds import Secrets


@dataclass(frozen=True, slots=True)
class Mem0Options:
    """`collection`: the table. `agent_id`: the agent of memories that name none. `trusted`: they count as confirmed."""

    collection: str
    agent_id: str
    trusted: bool = False
    secrets: Secrets = "mask"
    system: str = "mem0"
