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
    from memory_sql.domain.exports import ExportHeader, ExportLine
    from memory_sql.domain.groups import Departure, Group, Member
    from memory_sql.domain.messages import Message, RetainedMessage
    from memory_sql.domain.observations import Marked, Observation, SetAside, Source
    from memory_sql.domain.people import Alias, Hold, Renamed
    from memory_sql.domain.reading import Context, Digest, Explanation, Hit, MessageHit, SearchResult
    from memory_sql.domain.results import (
        AddResult,
        ConsolidateResult,
        DeadRun,
        FormResult,
        MaintainResult,
        RunDueResult,
        Stats,
        Trimmed,
        Usage,
        Violation,
    )
    from memory_sql.domain.scopes import Consolidation, Contradiction, Diff, Scope, ScopeRef
    from memory_sql.errors import MemorySQLError
    from memory_sql.llm import Answer, LanguageModel, Request
    from memory_sql.memory import Memory

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
    "config": "Settings",
    "domain.exports": "ExportHeader ExportLine",
    "domain.groups": "Departure Group Member",
    "domain.messages": "Message RetainedMessage",
    "domain.observations": "Marked Observation SetAside Source",
    "domain.people": "Alias Hold Renamed",
    "domain.reading": "Context Digest Explanation Hit MessageHit SearchResult",
    "domain.results": (
        "AddResult ConsolidateResult DeadRun FormResult MaintainResult RunDueResult Stats Trimmed Usage Violation"
    ),
    "domain.scopes": "Consolidation Contradiction Diff Scope ScopeRef",
    "errors": "MemorySQLError",
    "llm": "Answer LanguageModel Request",
    "memory": "Memory",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}


if not TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
