"""How a setting is declared, and what is derived from the declaration: who may change it, what reads it, its range."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, BeforeValidator, Field
from pydantic.fields import FieldInfo

UsedBy = Literal["add", "digest"]
ADD: UsedBy = "add"  # settings that `add` depends on
DIGEST: UsedBy = "digest"  # settings that a digest depends on


def setting(description: str, *, ge: float | None = None, le: float | None = None) -> Any:
    """A setting of the process. Pydantic checks the range; every number has one."""
    return _field(Field(description=description, ge=ge, le=le))


def per_agent(
    description: str, *, used_by: UsedBy | None = None, ge: float | None = None, le: float | None = None
) -> Any:
    """A setting that an agent may have its own value of."""
    extra: dict[str, Any] = {"per_agent": True, "used_by": used_by}
    return _field(Field(description=description, json_schema_extra=extra, ge=ge, le=le))


def _field(field: FieldInfo) -> FieldInfo:
    """What has a range is a number; Pydantic would take true as 1."""
    if field.metadata:
        field.metadata.append(_NO_BOOLEAN)
    return field


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


_NO_BOOLEAN = BeforeValidator(_no_boolean)


def names_per_agent(settings: type[BaseModel]) -> tuple[str, ...]:
    return tuple(name for name in settings.model_fields if _mark(settings, name, "per_agent"))


def names_used_by(settings: type[BaseModel], user: UsedBy) -> tuple[str, ...]:
    return tuple(name for name in settings.model_fields if _mark(settings, name, "used_by") == user)


def _mark(settings: type[BaseModel], name: str, mark: str) -> object:
    extra = settings.model_fields[name].json_schema_extra
    return extra.get(mark) if isinstance(extra, dict) else None
