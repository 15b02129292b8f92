"""Every setting with its default and limits. Nothing else reads the environment.

A value comes from the first of these that has it: an argument, `MEMORY_SQL_…` in the environment, a TOML file
(`MEMORY_SQL_CONFIG`, else `memory-sql.toml` in the working directory), the default in `sections`. Settings marked there with
`per_agent` can be changed for one agent, and those in `scopes` for one scope; these override all of the above.
"""

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
from memory_sql.config.scopes import SCOPE_SETTINGS, ScopeSettings
from memory_sql.config.settings import AGENT_SETTINGS, DIGEST_SETTINGS, FORMATION_LIMITS, Settings

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
