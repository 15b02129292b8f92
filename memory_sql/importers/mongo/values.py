"""The values in legacy documents, such as ids and times, and what is unusual about them.

Pure. Sources return documents of plain Python values, in which an ObjectId is an `ObjectKey`. A value that no reader here
knows counts as one of the wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from memory_sql.domain.ids import aware
from memory_sql.domain.message_shapes import EPOCH
from memory_sql.errors import InputError

Fields = Mapping[str, Any]
_HEX = re.compile(r"[0-9a-fA-F]{24}")
_WRAPPED_DATE = ("$date", "$numberLong")


class ObjectKey(str):
    """An ObjectId as 24 hexadecimal digits in lower case."""

    __slots__ = ()

    @property
    def made_at(self) -> datetime:
        """The time in its first four bytes, in seconds."""
        return EPOCH + timedelta(seconds=int(self[:8], 16))


class Notes(set[str]):
    """The codes of `anomalies.ANOMALIES` that apply to a document."""


class UnreadableError(ValueError):
    """A field of a document holds an invalid value. `reason` is one of `anomalies.REASONS`."""

    def __init__(self, reason: str, field: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.reason = reason


def legacy_id(value: Any, field: str, notes: Notes) -> ObjectKey | None:
    """None for null. Ids as text or as `{"$oid": …}` are noted (A5). Raises `UnreadableError`."""
    if value is None or isinstance(value, ObjectKey):
        return value
    notes.add("A5")
    text = value.get("$oid") if isinstance(value, Mapping) else value
    if isinstance(text, str) and _HEX.fullmatch(text):
        return ObjectKey(text.lower())
    raise UnreadableError("bad_id", field)


def needed_id(value: Any, field: str, notes: Notes) -> ObjectKey:
    found = legacy_id(value, field, notes)
    if found is None:
        notes.add("A5")
        raise UnreadableError("bad_id", field)
    return found


def legacy_ids(document: Fields, field: str, notes: Notes, *older: str) -> tuple[ObjectKey, ...]:
    """The distinct ids in order. A missing list is empty and noted (A1); a list under an older name is noted (A2).

    An entry that is no id is left out and noted: it names nothing, and the rest of the document is good.
    """
    value = document.get(field)
    for name in older:
        if value is None and document.get(name) is not None:
            value = document[name]
            notes.add("A2")
    if value is None:
        notes.add("A1")
        return ()
    if not isinstance(value, list):
        raise UnreadableError("bad_type", field)
    return good_ids(value, field, notes)


def good_ids(values: Iterable[Any], field: str, notes: Notes) -> tuple[ObjectKey, ...]:
    found = dict[ObjectKey, None]()
    for value in values:
        try:
            found[needed_id(value, field, notes)] = None
        except UnreadableError:
            notes.add("bad_list_id")
    return tuple(found)


def moment(value: Any, notes: Notes) -> datetime | None:
    """The time in UTC, with millisecond precision. None if there is none, or none that a database can store (noted).

    A time without a zone is in UTC. ISO 8601 and `{"$date": …}` are noted (A6).
    """
    if value is None:
        return None
    found = value if isinstance(value, datetime) else _written_moment(value)
    if isinstance(value, str | Mapping):
        notes.add("A6")
    try:
        if found is not None:
            return aware(found if found.tzinfo else found.replace(tzinfo=UTC))
    except InputError:  # out of range: noted like an unreadable one
        found = None
    notes.add("bad_time")
    return found


def moment_of_milliseconds(value: int) -> datetime | None:
    """The UTC time without a zone, as drivers return it; None: Python has no such year."""
    try:
        return (EPOCH + timedelta(milliseconds=value)).replace(tzinfo=None)
    except OverflowError:
        return None


def _written_moment(value: Any, *, milliseconds: bool = False) -> datetime | None:
    if isinstance(value, Mapping) and len(value) == 1:
        (key, inner), *_ = value.items()
        return _written_moment(inner, milliseconds=key in _WRAPPED_DATE) if key in _WRAPPED_DATE else None
    if milliseconds and isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if milliseconds and isinstance(value, int):
        return moment_of_milliseconds(value)
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def created_at(document: Fields, key: ObjectKey, notes: Notes) -> datetime:
    """The time of creation; if that is missing, the time in the id (A7)."""
    found = moment(document.get("createdAt"), notes)
    if found is None:
        notes.add("A7")
    return found or key.made_at


def optional_text(document: Fields, field: str) -> str | None:
    """Raises `UnreadableError` unless the value is text or null."""
    value = document.get(field)
    if value is None or isinstance(value, str):
        return value
    raise UnreadableError("bad_type", field)


def whole(document: Fields, field: str, least: int, most: int, notes: Notes) -> int | None:
    """An integer within these bounds. Any other value is ignored and noted."""
    value = document.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        notes.add("bad_setting")
        return None
    return int(value)
