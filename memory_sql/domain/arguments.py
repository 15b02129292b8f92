"""Validates arguments. Each function returns the value as the library uses it, or raises `InputError`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from memory_sql.config import BUDGET_KINDS, CONTEXT_LEAST_TOKENS, Assembly, ContextFormat, Secrets, checked_for_agent
from memory_sql.config.kinds import Lane, ObservationKind
from memory_sql.domain.asking import Question, Turn
from memory_sql.domain.ids import (
    ID_MAX_CHARACTERS,
    MOST_SEQ,
    OWNER_PREFIX,
    Id,
    OwnedKind,
    ScopeKind,
    aware,
    host_id,
    host_ids,
    observation_id,
    owner_key,
    parse_observation_id,
    parse_scope_id,
    stored_id,
)
from memory_sql.domain.limits import MOST_GROUPS, MOST_TAGS, limited
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation, Policy, Resolution, Sensitivity
from memory_sql.domain.positions import read_position
from memory_sql.errors import InputError, TooLargeError
from memory_sql.languages.text import clean, one_line
from memory_sql.privacy.classify import masked_value

if TYPE_CHECKING:
    from memory_sql.domain.people import HoldKind

REASON_MAX_CHARACTERS = 1000
_WORD = re.compile("[a-z][a-z0-9_-]{0,39}")
MOST_STORED, MOST_VERSIONS = 2**63 - 1, 2**31 - 1  # the largest numbers that the database can store
Item = TypeVar("Item")
Value = TypeVar("Value", str, list[str], dict[str, Any])


def id_of(name: str, value: Id) -> str:
    return host_id(value, name)


def optional_id(name: str, value: Id | None) -> str | None:
    return None if value is None else id_of(name, value)


def optional_scope(scope_id: str | None) -> int | None:
    return None if scope_id is None else parse_scope_id(scope_id)


def ids_of(name: str, values: Iterable[Id]) -> list[str]:
    return [id_of(name, value) for value in limited(name, listed(name, values), MOST_GROUPS)]


def listed(name: str, values: Iterable[Item]) -> Iterable[Item]:
    """Not a text or a mapping, although these can be iterated as well."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, not {type(values).__name__}")
    return values


def flags(**given: bool) -> None:
    """Raises `InputError` for what isn't True or False: "no" would count as true, and None as false."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} must be True or False, not {type(value).__name__}")


def optional_flags(**given: bool | None) -> None:
    flags(**{name: value for name, value in given.items() if value is not None})


def optional_callable(name: str, value: object) -> None:
    """Raises `InputError` for what can't be called."""
    if value is not None and not callable(value):
        raise InputError(f"{name} must be a function, not {type(value).__name__}")


def path_of(name: str, value: Path | str) -> Path:
    if not isinstance(value, Path | str):
        raise InputError(f"{name} must be a path, not {type(value).__name__}")
    return Path(value)


def text_of(name: str, value: str | None) -> str:
    return "" if value is None else needed_text(name, value)


def needed_text(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, not {type(value).__name__}")
    return clean(value)[0]


def budget_of(tokens: int | None) -> int | None:
    return None if tokens is None else within("budget_tokens", tokens, 2**31, least=CONTEXT_LEAST_TOKENS)


def format_of(value: str | None) -> ContextFormat | None:
    if value is not None and value not in get_args(ContextFormat):
        raise InputError(f"format must be one of {', '.join(get_args(ContextFormat))}")
    return cast("ContextFormat | None", value)


def turn_of(
    message: str | None,
    principal: dict[str, Any],
    now: datetime,
    retrieve: bool | None,
    budget_tokens: int | None,
    format: str | None,
    as_of: datetime | None,
    assembly: Assembly | None,
    after: str | None = None,
) -> Turn:
    """The arguments of `Memory.context`."""
    optional_flags(retrieve=retrieve)
    return Turn(
        principal,
        text_of("message", message),
        now,
        moment_of("as_of", as_of),
        retrieve,
        format_of(format),
        budget_of(budget_tokens),
        {} if assembly is None else checked_for_agent({"assembly": assembly}),
        position_of(after),
    )


def question_of(
    query: str,
    *,
    agent_id: Id,
    user_id: Id,
    conversation_id: Id | None,
    now: datetime,
    top_k: int,
    messages: int | None,
    as_of: datetime | None,
    semantic: bool | None,
    superseded: bool,
    explain: bool,
    plan: bool,
    after: str | None = None,
) -> Question:
    """The arguments of `Memory.search`."""
    optional_flags(semantic=semantic)
    flags(include_superseded=superseded, explain=explain, plan=plan)
    most = within("top_k", top_k, 100)
    return Question(
        principal_of(agent_id, user_id, conversation_id),
        needed_text("query", query),
        now,
        moment_of("as_of", as_of),
        observations=most,
        messages=within("messages", most if messages is None else messages, 100, least=0),
        semantic=semantic,
        superseded=superseded,
        explain=explain or plan,
        plan=plan,
        after=position_of(after),
    )


def reason_of(value: str | None) -> str | None:
    reason = text_of("reason", value).strip()
    if len(reason) > REASON_MAX_CHARACTERS:
        raise TooLargeError("the reason", len(reason), REASON_MAX_CHARACTERS)
    return reason or None


def held_of(
    user_id: Id | None, conversation_id: Id | None, group_id: Id | None, held_observation: str | None
) -> tuple[HoldKind, str]:
    """What a hold covers. Exactly one must be given."""
    given: list[tuple[HoldKind, Id | None]] = [
        ("user", user_id), ("conversation", conversation_id), ("group", group_id), ("observation", held_observation)
    ]  # fmt: skip
    named = [(kind, value) for kind, value in given if value is not None]
    if len(named) != 1:
        raise InputError("what should be held? pass one of user_id=, conversation_id=, group_id= and observation_id=")
    ((kind, value),) = named
    if kind == "observation":
        return kind, observation_id(*parse_observation_id(str(value)))
    return kind, id_of(f"{kind}_id", value)


def moment_of(name: str, value: datetime | None) -> datetime | None:
    return None if value is None else aware(value, name)


def position_of(value: str | None) -> int | None:
    """Of the database, as `admin.position` told it."""
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{1,16}", value):
        raise InputError(_NO_POSITION)
    return int(value, 16)


def position_in(value: str, shard: str) -> str | None:
    """That of the shard, in what `admin.position` told of all shards; None: it says nothing of this one."""
    told = [part.partition("=") for part in value.split()] if isinstance(value, str) else []
    if not told or not all(name and position_of(position) is not None for name, _, position in told):
        raise InputError(_NO_POSITION)
    return {name: position for name, _, position in told}.get(shard)


_NO_POSITION = "after must be what admin.position returned"


def message_before(value: RetainedMessage | str | None) -> tuple[datetime, str, int] | None:
    """When the last message of a page was said, its conversation and its number."""
    if value is None:
        return None
    if isinstance(value, str):
        said_at, conversation_id, number = read_position(value, str, int)
    elif isinstance(value, RetainedMessage):
        said_at, conversation_id, number = value.said_at, value.conversation_id, value.number
    else:
        raise InputError(f"before must be a message that was listed or its position, not {type(value).__name__}")
    return (
        aware(said_at, "before.said_at"),
        stored_id(conversation_id, "before.conversation_id"),
        within("before.number", number, MOST_STORED),
    )


def observation_before(value: Observation | str | None) -> tuple[datetime, int, int] | None:
    """When the last observation of a page was stored or said again, its scope and its number."""
    if value is None:
        return None
    if isinstance(value, str):
        created_at, scope, seq = read_position(value, int, int)
        return aware(created_at, "before"), within("before", scope, MOST_STORED), within("before", seq, MOST_SEQ)
    if not isinstance(value, Observation):
        raise InputError(f"before must be an observation that was listed or its position, not {type(value).__name__}")
    at = aware(value.created_at, "before.created_at")
    if value.said_again_at is not None:
        at = max(at, aware(value.said_again_at, "before.said_again_at"))
    return (at, *parse_observation_id(value.id))


def version_of(value: int | datetime | None) -> int | datetime | None:
    if value is None or isinstance(value, datetime):
        return moment_of("version", value)
    return within("version", value, MOST_VERSIONS, least=0)


def expected_version(value: int | None) -> int | None:
    return None if value is None else within("if_version", value, MOST_VERSIONS)


def tags_of(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(tag_of("tags", tag) for tag in limited("tags", listed("tags", values), MOST_TAGS))


def tag_of(name: str, value: str) -> str:
    """As it is stored, and looked for."""
    return name_of(name, needed_text(name, value))


def name_of(name: str, value: str | None) -> str:
    """A short text of one line."""
    text = one_line(text_of(name, value))
    if len(text) > ID_MAX_CHARACTERS:
        raise TooLargeError(name, len(text), ID_MAX_CHARACTERS)
    return text


def observation_kind_of(value: ObservationKind | None) -> ObservationKind | None:
    if value is not None and value not in BUDGET_KINDS:
        raise InputError(f"kind must be one of {', '.join(BUDGET_KINDS)}; for the kind of scope use scope_kind=")
    return value


def word_of(name: str, value: str | None) -> str | None:
    """A word by which the host sorts; not meant for text."""
    if value is not None and not (isinstance(value, str) and _WORD.fullmatch(value)):
        raise InputError(
            f"{name} must be a word of up to 40 lower-case letters, digits, _ and -, starting with a letter"
        )
    return value


def day_of(name: str, value: date | None) -> date | None:
    """Raises `InputError` for a moment: which day that is depends on the zone."""
    if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
        raise InputError(f"{name} must be a date, without a time")
    return value


def share_of(name: str, value: float | None) -> float | None:
    """Raises `InputError` unless it is a number from 0 to 1."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{name} must be a number from 0 to 1")
    return float(value)


def feedback_of(value: float) -> float:
    """To six decimals: Postgres refuses the mean of smaller ones. Raises `InputError` unless it is a number from -1 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
        raise InputError("value must be a number from -1 to 1")
    return round(float(value), 6)


def sensitivity_of(value: Sensitivity | None) -> Sensitivity | None:
    if value is not None and value not in get_args(Sensitivity):
        raise InputError(f"sensitivity must be one of {', '.join(get_args(Sensitivity))}")
    return value


def policy_of(value: Policy | None) -> Policy | None:
    if value is not None and value not in get_args(Policy):
        raise InputError(f"policy must be one of {', '.join(get_args(Policy))}")
    return value


def resolution_of(value: Resolution | None) -> Resolution | None:
    if value is not None and value not in get_args(Resolution):
        raise InputError(f"resolved must be one of {', '.join(get_args(Resolution))}, or None")
    return value


def principal_of(agent_id: Id, user_id: Id, conversation_id: Id | None) -> dict[str, str | None]:
    if conversation_id is None:
        return {**host_ids(agent_id=agent_id, user_id=user_id), "conversation_id": None}
    return {**host_ids(agent_id=agent_id, user_id=user_id, conversation_id=conversation_id)}


def owner_of(
    user: str | None, group_id: Id | None, collective: bool, kind: OwnedKind | None, conversation: str | None
) -> tuple[ScopeKind, str | None]:
    """The scope that these arguments name. `kind`: kinds that the other arguments can't name."""
    flags(collective=collective)
    if kind not in (None, "conversation", "agent", "guideline"):
        raise InputError("scope_kind must be conversation, agent or guideline")
    if sum((group_id is not None, collective, kind is not None)) > 1:
        raise InputError("pass only one of group_id=, collective=True and scope_kind=")
    if kind == "conversation" and conversation is None:
        raise InputError("scope_kind='conversation' needs conversation_id=")
    if kind is not None:
        return kind, conversation if kind == "conversation" else None
    if collective:
        return "collective", None
    if group_id is not None:
        return "group", id_of("group_id", group_id)
    if user is None:
        raise InputError("whose is it? pass user_id=, group_id= or collective=True")
    return "individual", user


def scope_of(
    kind: OwnedKind, owner_id: Id | None, name: str | None, display_name: str | None
) -> tuple[str, str, str | None]:
    """The scope's owner (`scopes.owner`), its name (empty for the main scope) and its display name."""
    if kind not in get_args(OwnedKind):
        raise InputError(
            f"kind must be one of {', '.join(get_args(OwnedKind))}; "
            "for what a user knows about a thing, create a named scope of the user"
        )
    owned = OWNER_PREFIX[kind].endswith(":")
    if owned != (owner_id is not None):
        raise InputError(f"a scope of kind {kind} {'needs an' if owned else 'has no'} owner_id")
    called = "" if name is None else host_id(name, "name")
    shown = name_of("display_name", display_name) or None
    return owner_key(kind, id_of("owner_id", owner_id) if owner_id is not None else None), called, shown


def lane_of(value: Lane | None) -> Lane | None:
    if value is not None and value not in get_args(Lane):
        raise InputError(f"lane must be one of {', '.join(get_args(Lane))}")
    return value


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
    """A text or JSON value, stored as the setting says. The error names only the kinds of the secrets."""
    if secrets == "keep":
        return value
    masked, found = masked_value(value)
    if found and secrets == "refuse":
        raise InputError(f"{name} contains a secret: {', '.join(dict.fromkeys(found))}")
    return cast("Value", masked)


def within(name: str, value: int, most: int, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}")
    return value
