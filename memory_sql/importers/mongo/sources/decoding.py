"""Decodes documents with `bson`, so that ids, times and broken characters look the same from every source."""

from __future__ import annotations

import codecs
import json
from datetime import datetime
from typing import Any

import bson
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion, TypeDecoder, TypeRegistry
from bson.datetime_ms import DatetimeMS
from bson.errors import BSONError
from bson.objectid import ObjectId

from memory_sql.importers.mongo.sources.files import BrokenError
from memory_sql.importers.mongo.values import ObjectKey, moment_of_milliseconds

_BROKEN_TEXT = "memory_sql.broken_text"
_TOO_DEEP = "it is nested too deeply"
_MOST_LEVELS = 200
"""MongoDB itself takes 100. Python's own limit is the stack's on some versions, and then many thousands."""


def _broken_text(error: UnicodeError) -> tuple[str | bytes, int]:
    """Half a surrogate pair becomes one character, as in JSON. Of other invalid bytes, each becomes one."""
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        return codecs.lookup_error("surrogateescape")(error)


codecs.register_error(_BROKEN_TEXT, _broken_text)


class _Keys(TypeDecoder):
    bson_type = ObjectId

    def transform_bson(self, value: ObjectId) -> ObjectKey:
        return ObjectKey(value)


OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    type_registry=TypeRegistry([_Keys()]),
    unicode_decode_error_handler=_BROKEN_TEXT,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,  # the year 292,000,000 is a value, not an error
)


def from_bson(frame: bytes) -> dict[str, Any]:
    """Raises `BrokenError`."""
    try:
        return _shallow(bson.decode(frame, OPTIONS))
    except RecursionError:
        raise BrokenError(_TOO_DEEP) from None
    except (BSONError, ValueError, OverflowError, TypeError) as error:
        raise BrokenError("it isn't valid BSON") from error


def from_json(text: bytes) -> dict[str, Any]:
    """Extended JSON, canonical or relaxed. Raises `BrokenError`."""
    try:
        found = _JSON.decode(text.decode("utf-8", _BROKEN_TEXT))
        if isinstance(found, dict):
            return _shallow(found)
    except RecursionError:
        raise BrokenError(_TOO_DEEP) from None
    except (BSONError, ValueError, OverflowError, TypeError, KeyError) as error:
        raise BrokenError("it isn't valid extended JSON") from error
    raise BrokenError("it isn't a document")


def _shallow(document: dict[str, Any]) -> dict[str, Any]:
    """The same. Raises `BrokenError` if it is nested deeper than `_MOST_LEVELS`."""
    level: list[Any] = [document]
    for _ in range(_MOST_LEVELS):
        inside = (value for one in level for value in (one.values() if isinstance(one, dict) else one))
        level = [value for value in inside if isinstance(value, dict | list)]
        if not level:
            return document
    raise BrokenError(_TOO_DEEP)


def _unwrapped(item: dict[str, Any]) -> Any:
    """What a wrapper of extended JSON stands for; any other object unchanged."""
    if len(item) == 1:
        ((key, value),) = item.items()
        known = _WRAPPERS.get(key)
        if known is not None:
            return known(value)
    first = next(iter(item), "")
    return json_util.object_hook(item, _JSON_OPTIONS) if first[:1] == "$" else item


def _key(value: Any) -> Any:
    """An invalid id stays in its wrapper, so that only its field is refused, not the file."""
    return ObjectKey(value.lower()) if isinstance(value, str) and ObjectId.is_valid(value) else {"$oid": value}


def _date(value: Any) -> Any:
    """Dates are text in relaxed JSON and milliseconds in canonical JSON. Anything else stays in its wrapper."""
    if isinstance(value, int) and not isinstance(value, bool):
        return moment_of_milliseconds(value) or DatetimeMS(value)
    try:
        return datetime.fromisoformat(value).replace(tzinfo=None) if _is_utc(value) else {"$date": value}
    except ValueError:
        return {"$date": value}


def _is_utc(value: Any) -> bool:
    return isinstance(value, str) and value.endswith(("Z", "+0000", "+00:00"))


def _number(value: Any) -> int:
    return int(value)


def _float(value: Any) -> float:
    return float(value)


_WRAPPERS = {"$oid": _key, "$date": _date, "$numberLong": _number, "$numberInt": _number, "$numberDouble": _float}
_JSON_OPTIONS = json_util.JSONOptions(tz_aware=False, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
_JSON = json.JSONDecoder(object_hook=_unwrapped, strict=False)
