"""Long-term memory for AI agents, transactional, in your own Postgres.

    async with Memory("postgresql://…") as memory:
        await memory.add(messages, agent_id="ada", user_id="mia", session_id="42", wait=True)
        prompt = str(await memory.context(agent_id="ada", user_id="mia", message=question))

The names are imported when they are first used: what only needs the version doesn't pay for a database driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_sql.config import Settings
    from memory_sql.domain import (
        AddResult,
        ConsolidateResult,
        Consolidation,
        Context,
        Contradiction,
        DeadRun,
        Departure,
        Diff,
        Digest,
        Explanation,
        FormResult,
        Group,
        Hit,
        MaintainResult,
        Marked,
        Member,
        Message,
        MessageHit,
        Observation,
        RetainedMessage,
        RunDueResult,
        Scope,
        ScopeRef,
        SearchResult,
        SetAside,
        Source,
        Stats,
        Trimmed,
        Usage,
        Violation,
    )
    from memory_sql.errors import MemorySQLError
    from memory_sql.llm import Answer, LanguageModel, Request
    from memory_sql.memory import Memory
    from memory_sql.people import Alias, ExportHeader, ExportLine, Hold, Renamed

__version__ = "0.1.0"

__all__ = [
    "AddResult",
    "Alias",
    "Answer",
    "ConsolidateResult",
    "Consolidation",
    "Context",
    "Contradiction",
    "DeadRun",
    "Departure",
    "Diff",
    "Digest",
    "Explanation",
    "ExportHeader",
    "ExportLine",
    "FormResult",
    "Group",
    "Hit",
    "Hold",
    "LanguageModel",
    "MaintainResult",
    "Marked",
    "Member",
    "Memory",
    "MemorySQLError",
    "Message",
    "MessageHit",
    "Observation",
    "Renamed",
    "Request",
    "RetainedMessage",
    "RunDueResult",
    "Scope",
    "ScopeRef",
    "SearchResult",
    "SetAside",
    "Settings",
    "Source",
    "Stats",
    "Trimmed",
    "Usage",
    "Violation",
    "__version__",
]

_HOME = {
    "Memory": "memory",
    "Settings": "config",
    "MemorySQLError": "errors",
    "Answer": "llm",
    "LanguageModel": "llm",
    "Request": "llm",
    "Alias": "people",
    "ExportHeader": "people",
    "ExportLine": "people",
    "Hold": "people",
    "Renamed": "people",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'domain')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
