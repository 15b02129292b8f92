"""All defaults and limits. Nothing else reads the environment.

A value comes from the first of these that has it: an argument, `MEMORY_SQL_…` in the environment, a TOML file
(`MEMORY_SQL_CONFIG`, else `memory-sql.toml` in the working directory), the default in `sections`. Settings marked there
with `per_agent` can be changed for one agent, and columns of `scopes` for one scope; these come before all of the above.
"""

from typing import TYPE_CHECKING

from memory_sql.config.agents import checked_for_agent
from memory_sql.config.kinds import (
    BUDGET_KINDS,
    CONTEXT_KINDS,
    CONTEXT_LEAST_TOKENS,
    FOREVER,
    LOCAL_DIMENSIONS,
    OPENAI_DIMENSIONS,
    RETRIEVAL_DAYS,
    VECTORS_MILLISECONDS,
    VECTORS_OBSERVATIONS,
    VECTORS_WITHOUT_HIT,
    Assembly,
    ContextFormat,
    ContextKind,
    Engine,
    Secrets,
)
from memory_sql.config.settings import AGENT_SETTINGS, DIGEST_SETTINGS, FORMATION_LIMITS, Settings
from memory_sql.later import imported

if TYPE_CHECKING:
    from memory_sql.config.scopes import SCOPE_SETTINGS, ScopeSettings

__all__ = [
    "AGENT_SETTINGS",
    "BUDGET_KINDS",
    "CONTEXT_KINDS",
    "CONTEXT_LEAST_TOKENS",
    "DIGEST_SETTINGS",
    "FOREVER",
    "FORMATION_LIMITS",
    "LOCAL_DIMENSIONS",
    "OPENAI_DIMENSIONS",
    "RETRIEVAL_DAYS",
    "SCOPE_SETTINGS",
    "VECTORS_MILLISECONDS",
    "VECTORS_OBSERVATIONS",
    "VECTORS_WITHOUT_HIT",
    "Assembly",
    "ContextFormat",
    "ContextKind",
    "Engine",
    "ScopeSettings",
    "Secrets",
    "Settings",
    "checked_for_agent",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Scopes have settings of their own in few systems."""
        if name not in ("SCOPE_SETTINGS", "ScopeSettings"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(imported(f"{__name__}.scopes"), name)
