"""What callers pass, checked: each function gives the value as the rest of the library takes it, or raises `InputError`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast, get_args

from memory_sql.config import CONTEXT_LEAST_TOKENS, ContextFormat, Secrets
from memory_sql.domain import (
    ForgetTarget,
    ScopeKind,
    Sensitivity,
    aware,
    host_id,
    observation_id,
    parse_observation_id,
)
from memory_sql.errors import InputError, TooLargeError
from memory_sql.languages.text import clean
from memory_sql.people import HoldKind
from memory_sql.privacy.classify import masked_value

REASON_MAX_CHARACTERS = 1000
Value = TypeVar("Value", str, list[str], dict[str, Any])


def id_of(name: str, value: object) -> str:
    return host_id(value, name)


def optional_id(name: str, value: object | None) -> str | None:
    return None if value is None else id_of(name, value)


def ids_of(name: str, values: Iterable[object]) -> list[str]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list of ids")
    return [id_of(name, value) for value in values]


def text_of(name: str, value: str | None) -> str:
    if value is not None and not isinstance(value, str):
        raise InputError(f"{name} must be text, not {type(value).__name__}")
    return clean(value or "")[0]


def budget_of(tokens: int | None) -> int | None:
    return None if tokens is None else within("budget_tokens", tokens, 2**31, least=CONTEXT_LEAST_TOKENS)


def format_of(value: str | None) -> ContextFormat | None:
    if value is not None and value not in get_args(ContextFormat):
        raise InputError(f"format must be one of {', '.join(get_args(ContextFormat))}")
    return cast("ContextFormat | None", value)


def reason_of(value: str | None) -> str | None:
    reason = text_of("reason", value).strip()
    if len(reason) > REASON_MAX_CHARACTERS:
        raise TooLargeError("the reason", len(reason), REASON_MAX_CHARACTERS)
    return reason or None


def held_of(
    user_id: object | None, session_id: object | None, group_id: object | None, held_observation: str | None
) -> tuple[HoldKind, str]:
    """What a hold covers: exactly one of these."""
    given: list[tuple[HoldKind, object]] = [
        ("user", user_id), ("session", session_id), ("group", group_id), ("observation", held_observation)
    ]  # fmt: skip
    named = [(kind, value) for kind, value in given if value is not None]
    if len(named) != 1:
        raise InputError("what is to be held? say one of user_id=, session_id=, group_id= and observation_id=")
    ((kind, value),) = named
    if kind == "observation":
        return kind, observation_id(*parse_observation_id(str(value)))
    return kind, id_of(f"{kind}_id", value)


def moment_of(name: str, value: datetime | None) -> datetime | None:
    return None if value is None else aware(value, name)


def version_of(value: int | datetime | None) -> int | datetime | None:
    return aware(value, "version") if isinstance(value, datetime) else value


def tags_of(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(text_of("tags", tag) for tag in ([] if isinstance(values, str) else values))


def sensitivity_of(value: Sensitivity | None) -> Sensitivity | None:
    if value is not None and value not in get_args(Sensitivity):
        raise InputError(f"sensitivity must be one of {', '.join(get_args(Sensitivity))}")
    return value


def source_of(given: Mapping[str, Any]) -> ForgetTarget:
    """Observations by where they come from; `from_user_id`, `from_session_id` and `from_group_id` beside the words of
    `ForgetTarget` that select observations."""
    ids = {name: f"from_{name}" for name in ("user_id", "session_id", "group_id")}
    words = ("fact_key", "tag", "query", "source", "run_id")
    if unknown := sorted(set(given) - set(ids.values()) - set(words)):
        raise InputError(f"no such source: {', '.join(unknown)}")
    wholes = {name: optional_id(said, given.get(said)) for name, said in ids.items()}
    return ForgetTarget.of(**wholes, **{name: given.get(name) for name in words})


def principal_of(agent_id: object, user_id: object, session_id: object | None) -> dict[str, str | None]:
    return {
        "agent_id": id_of("agent_id", agent_id),
        "user_id": id_of("user_id", user_id),
        "session_id": optional_id("session_id", session_id),
    }


def owner_of(user: str | None, group_id: object | None, collective: bool) -> tuple[ScopeKind, str | None]:
    if group_id is not None and collective:
        raise InputError("say either group_id= or collective=True")
    if collective:
        return "collective", None
    if group_id is not None:
        return "group", id_of("group_id", group_id)
    if user is None:
        raise InputError("whose is it? say user_id=, group_id= or collective=True")
    return "individual", user


def content_of(text: str, limit: int) -> str:
    if not isinstance(text, str):
        raise InputError(f"an observation must be text, not {type(text).__name__}")
    content = clean(text)[0].strip()
    if not content:
        raise InputError("an observation needs some text")
    if len(content) > limit:
        raise TooLargeError("the observation", len(content), limit)
    return content


def without_secrets(name: str, value: Value, secrets: Secrets) -> Value:
    """A text, or what JSON can hold, as the setting lets it be stored. The error names the kinds of secrets alone."""
    if secrets == "keep":
        return value
    masked, found = masked_value(value)
    if found and secrets == "refuse":
        raise InputError(f"{name} holds a secret: {', '.join(dict.fromkeys(found))}")
    return cast("Value", masked)


def scope_key(value: int) -> int:
    return within("scope_id", value, 2**63 - 1)


def within(name: str, value: int, most: int, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}")
    return value
