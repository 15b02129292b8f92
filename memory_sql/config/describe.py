"""Describes in words what a setting accepts and its default, for the command line and the reference."""

from __future__ import annotations

import json
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "URL",
}


def accepted(field: FieldInfo) -> str:
    """Type and range: `whole number, 1 to 1000`."""
    return ", ".join(filter(None, (_type(field.annotation), _range(field.metadata))))


def default_of(field: FieldInfo) -> str:
    """`unset` if there is none."""
    value = field.default
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value)


def described(field: FieldInfo) -> str:
    """The description with type, range and default."""
    return f"{field.description} ({accepted(field)}; default: {default_of(field)})"


def _type(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_type(part) for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is Literal:
        return _one_of(get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {_type(get_args(annotation)[0])}"
    return NAMES[annotation]


def _one_of(words: tuple[str, ...]) -> str:
    *before, last = words
    return f"{', '.join(before)} or {last}" if before else last


def _range(metadata: list[Any]) -> str:
    least, most = (_limit(metadata, name) for name in ("ge", "le"))
    if least is not None and most is not None:
        return f"{least} to {most}"
    return "" if least is None else f"{least} or more"


def _limit(metadata: list[Any], name: str) -> str | None:
    values = [getattr(limit, name) for limit in metadata if hasattr(limit, name)]
    return f"{values[0]:,.15g}" if values else None
