"""How a setting is declared, and what is derived from the declaration: who may change it, what reads it, its range."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

UsedBy = Literal["add", "digest"]
ADD: UsedBy = "add"  # settings that `add` depends on
DIGEST: UsedBy = "digest"  # settings that a digest depends on


def setting(description: str, *, ge: float | None = None, le: float | None = None) -> Any:
    """A setting of the process. Pydantic checks the range; every number has one."""
    return Field(description=description, ge=ge, le=le)


def per_agent(
    description: str, *, used_by: UsedBy | None = None, ge: float | None = None, le: float | None = None
) -> Any:
    """A setting that an agent may have its own value of."""
    return Field(description=description, json_schema_extra={"per_agent": True, "used_by": used_by}, ge=ge, le=le)


def names_per_agent(settings: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name in settings.model_fields if _mark(settings, name, "per_agent"))


def names_used_by(settings: type[BaseModel], user: UsedBy) -> tuple[str, ...]:
    return tuple(name for name in settings.model_fields if _mark(settings, name, "used_by") == user)


def _mark(settings: type[BaseModel], name: str, mark: str) -> object:
    extra = settings.model_fields[name].json_schema_extra
    return extra.get(mark) if isinstance(extra, dict) else None
