"""Ids and times, validated where they come in; the base class of all values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo

from memory_sql.errors import InputError, InvalidIdError
from memory_sql.languages.invisible import hidden_in_id
from memory_sql.languages.text import clean, lower_uuid

ID_MAX_CHARACTERS = 255
UUID_CHARACTERS = 36
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)  # what every driver can read back


LONGEST_AHEAD = timedelta(days=1)  # a later time counts as now; memory.add_messages has the same limit


ScopeKind = Literal["individual", "group", "collective", "conversation", "entity", "agent", "guideline"]


OwnedKind = Literal[
    "individual", "group", "collective", "conversation", "agent", "guideline"
]  # which a host may create


OWNER_PREFIX: Mapping[str, str] = {
    "individual": "u:",
    "group": "g:",
    "collective": "c",
    "conversation": "s:",
    "entity": "e:",
    "agent": "a",
    "guideline": "p",
}


def host_id(value: object, name: str = "id") -> str:
    """The host's own id as text: a string, integer or UUID of 1–255 characters, compared character by character.

    An id that couldn't be returned exactly as it came is refused, not changed: control characters, leading or trailing
    white space, invisible characters that could make two ids look alike, and anything that Unicode normalisation (NFC)
    would alter. A UUID of 36 characters is written in lower case.
    """
    text = stored_id(value, name)
    if text.isascii() and text.isprintable():
        return text  # nothing that follows can be wrong with it
    if any(unicodedata.category(c) == "Cc" for c in text) or hidden_in_id(text) or clean(text)[1]:
        raise InvalidIdError(name, "contains control characters or others that aren't seen")
    if unicodedata.normalize("NFC", text) != text:
        raise InvalidIdError(name, f"is not in Unicode normal form C; pass unicodedata.normalize('NFC', {name})")
    return text


def stored_id(value: object, name: str = "id") -> str:
    """Like `host_id`, but accepts older ids that its rules now refuse, to forget, export and rename what is under them."""
    text = as_written(value, name)
    return lower_uuid(text) if len(text) == UUID_CHARACTERS else text


def as_written(value: object, name: str = "id") -> str:
    """Like `stored_id`, but a UUID in capitals stays so: only SQL stores such ids, and `people.rename` can change them."""
    if isinstance(value, bool) or not isinstance(value, str | int | UUID):
        raise InvalidIdError(name, f"must be text, an integer or a UUID, not {type(value).__name__}")
    if isinstance(value, int) and abs(value) >= 10**ID_MAX_CHARACTERS:
        raise InvalidIdError(name, f"must have 1 to {ID_MAX_CHARACTERS} characters")
    text = str(value)
    if not 1 <= len(text) <= ID_MAX_CHARACTERS:
        raise InvalidIdError(name, f"must have 1 to {ID_MAX_CHARACTERS} characters, not {len(text)}")
    if text != text.strip() or _UNSTORABLE.search(text):
        raise InvalidIdError(name, "contains control characters, or white space at its start or end")
    return text


def host_ids(**values: object) -> dict[str, str]:
    """Each value by its name, checked by `host_id`."""
    return {name: host_id(value, name) for name, value in values.items()}


def owner_key(kind: ScopeKind, owner_id: str | None = None) -> str:
    """The value of `scopes.owner`, the key column that says whose scope it is."""
    prefix = OWNER_PREFIX[kind]
    return f"{prefix}{owner_id}" if prefix.endswith(":") else prefix


def aware(value: datetime, name: str = "time") -> datetime:
    """The time in UTC. Raises `InputError` if it is naive or out of range."""
    if not isinstance(value, datetime):
        raise InputError(f"{name} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InputError(f"{name} needs a time zone (write 2026-03-02T10:15:00Z)")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise InputError(f"{name} is out of range") from None
    if not EARLIEST <= moment < LATEST:
        raise InputError(f"{name} is out of range")
    return moment


def moved(moment: datetime, by: timedelta) -> datetime:
    """The time that much later or earlier, but no time that can't be stored."""
    try:
        return min(max(moment + by, EARLIEST), LATEST)
    except OverflowError:
        return EARLIEST if by < timedelta(0) else LATEST


def _id_or_none(value: object, field: ValidationInfo) -> str | None:
    return None if value is None else host_id(value, field.field_name or "id")


Id = str | int | UUID  # of the host
OptionalId = Annotated[str | None, BeforeValidator(_id_or_none)]


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


MOST_SEQ = 2**31 - 1  # of a scope; there is none with a higher number
_SCOPE_ID = re.compile(r"s([1-9]\d{0,17})")
_OBSERVATION_ID = re.compile(r"o([1-9]\d{0,17})-([1-9]\d{0,9})")


def scope_id(key: int) -> str:
    return f"s{key}"


def parse_scope_id(value: str) -> int:
    """The key of the scope. Raises `InvalidIdError`."""
    found = _SCOPE_ID.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidIdError("scope_id", "must look like s12")
    return int(found[1])


def _written_scope(value: object) -> object:
    return scope_id(value) if isinstance(value, int) else value


ScopeId = Annotated[str, BeforeValidator(_written_scope)]  # made of a key, or as it is written: s12


def observation_id(scope_key: int, seq: int) -> str:
    return f"o{scope_key}-{seq}"


def parse_observation_id(value: str) -> tuple[int, int]:
    """`(scope_id, seq)`; raises `InvalidIdError`."""
    found = _OBSERVATION_ID.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidIdError("observation id", "must look like o12-3")
    return int(found[1]), min(int(found[2]), MOST_SEQ)
