"""Where each setting of a scope comes from: the scope, its agent, or the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_sql.config import Settings
from memory_sql.config.scopes import DEFAULTS, OF_AGENT
from memory_sql.db.repositories.scope_settings import OwnSettings
from memory_sql.domain.prompts import ScopePrompt
from memory_sql.domain.scopes import ScopeDetails, ScopeSetting


def details_of(
    found: OwnSettings, prompts: Sequence[ScopePrompt], settings: Settings, agent: Mapping[str, Any]
) -> ScopeDetails:
    """`agent`: the own settings of the scope's agent; `prompts`: newest first within each name."""
    sources, resolved = settings.sources(), settings.of_agent(agent)

    def setting(name: str, own: Any) -> ScopeSetting:
        if name in DEFAULTS:
            return ScopeSetting(value=own, source="default" if own == DEFAULTS[name] else "scope")
        if own is not None:
            return ScopeSetting(value=own, source="scope")
        if name == "sharing" and found.ref.kind != "group":
            return ScopeSetting(value=None, source="default")
        is_group = name == "observation_max_items" and found.ref.kind == "group"
        wanted = "group_max_items" if is_group else OF_AGENT[name]
        return ScopeSetting(value=getattr(resolved, wanted), source="agent" if wanted in agent else sources[wanted])

    counting: dict[str, int] = {}
    for prompt in prompts:
        counting.setdefault(prompt.name, prompt.version)
    return ScopeDetails(
        ref=found.ref,
        display_name=found.display_name,
        created_at=found.created_at,
        settings={name: setting(name, own) for name, own in found.own.items()},
        prompts=counting,
    )
