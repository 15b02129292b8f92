"""The parameters of a call over HTTP: those of its method, with types that JSON Schema can say exactly."""

from __future__ import annotations

import collections.abc as abc
import inspect
import re
import types
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    WithJsonSchema,
    create_model,
)
from typing_extensions import TypedDict

from memory_sql.db.queries.reviews import REVIEW_IDS
from memory_sql.domain.ids import EARLIEST, ID_MAX_CHARACTERS
from memory_sql.domain.limits import MOST_DAYS, MOST_GROUPS, MOST_MESSAGES, MOST_TAGS
from memory_sql.domain.message_shapes import MOST_MILLISECONDS, MOST_SECONDS
from memory_sql.domain.messages import Role
from memory_sql.domain.selection import Selection
from memory_sql.later import imported
from memory_sql.memory import Memory
from memory_sql.resources import faces
from memory_sql.server.positions import MAX_CHARACTERS


def _whole(value: object) -> object:
    """JSON has one kind of number: 18.0 is whole."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _written(value: object) -> datetime:
    """Read here: not seconds since 1970, which pydantic takes for a time too, and in strict mode it takes no text from us."""
    try:
        if isinstance(value, str) and _DAY.match(value):
            return datetime.fromisoformat(value.upper())
    except ValueError:
        pass
    raise ValueError("write 2026-03-02T10:15:00Z")


def _written_day(value: object) -> date:
    try:
        if isinstance(value, str) and _DAY_ALONE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ValueError("write 2026-03-02")


_DAY_ALONE = re.compile(r"\d{4}-\d\d-\d\d")
_DAY = re.compile(rf"{_DAY_ALONE.pattern}[Tt ]")
_WHOLE = BeforeValidator(_whole)
Moment = Annotated[AwareDatetime, BeforeValidator(_written)]
Day = Annotated[date, BeforeValidator(_written_day)]
_ID = {"type": "string", "minLength": 1, "maxLength": ID_MAX_CHARACTERS, "format": "host-id"}
IdText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ID_MAX_CHARACTERS),
    WithJsonSchema({**_ID, "description": "An id of the host's: no control or invisible characters, in Unicode NFC."}),
]
WORDS = dict[str, str]()  # what is wrong with a text that doesn't match, by the pattern: callers are never shown that


def _written_as(pattern: str, words: str, **more: Any) -> Any:
    """A field that must match; `words` say so to whoever writes it otherwise."""
    WORDS[pattern] = words
    return Field(pattern=pattern, **more)


ObservationId = Annotated[
    str, _written_as(r"^o[1-9]\d{0,17}-[1-9]\d{0,9}$", "must look like o12-3", examples=["o12-3"])
]
EpisodeId = Annotated[str, _written_as(r"^e[1-9]\d{0,17}$", "must look like e12", examples=["e12"])]
ScopeId = Annotated[str, _written_as(r"^s[1-9]\d{0,17}$", "must look like s12", examples=["s12"])]


def _position(of: str) -> Any:
    schema = {"type": "string", "format": f"{of}-position", "description": "`next` of the page before."}
    return Annotated[str, StringConstraints(max_length=MAX_CHARACTERS), WithJsonSchema(schema)]


# A character that is neither white space nor removed before anything is stored (languages/invisible.py). Not by escapes,
# which differ between the languages of patterns.
_SEEN = (
    "[^\x01-\x20\x7f-\xa0\u115f\u1160\u1680\u180b-\u180f\u2000-\u200d\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
Words = Annotated[str, Field(max_length=ID_MAX_CHARACTERS)]
_NO_TEXT = "needs some text"
SomeText = Annotated[str, _written_as(_SEEN, _NO_TEXT)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Feedback = Annotated[float, Field(json_schema_extra={"minimum": -1, "maximum": 1})]  # the method's error says it better
_Pieces = Annotated[int, Field(ge=1, le=10**9), _WHOLE]
_Items = Annotated[int, Field(ge=0, le=1000), _WHOLE]  # as config.sections has it
_Characters = Annotated[int, Field(ge=0, le=200_000), _WHOLE]
_Tokens = Annotated[int, Field(ge=0, le=400_000), _WHOLE]


class _Budget(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    items: _Items
    characters: _Characters
    tokens: _Tokens


Budgets = dict[Literal["total", "fact", "note", "procedure", "episode"], _Budget]

_KEY, _NUMBER = r"[1-9]\d{0,17}", r"[1-9]\d{0,8}"
_REVIEW = rf"^(o{_KEY}-{_NUMBER}>s{_KEY}|s{_KEY}v{_NUMBER}-{_NUMBER}|g{_KEY}-{_NUMBER}|q{_KEY}(-{_NUMBER})?|r{_KEY})$"

_CATEGORY = "is one word of a-z, 0-9, _ and -, which begins with a letter"
_ETAG = "must be an ETag as it was given, or *"
_VERSION = r'"[1-9]\d{0,8}"'
_TAG = {"type": "string", "pattern": f"^{_VERSION}$", "examples": ['"3"']}
_FINGERPRINT = '"[0-9a-f]{64}"'
_FINGERPRINT_TAG = {"type": "string", "pattern": f"^{_FINGERPRINT}$", "examples": [f'"{"0f" * 32}"']}
_MESSAGE_ID = {"anyOf": [_ID, {"type": "integer"}, {"type": "null"}]}  # programs number what they have stored
_FIRST = int(EARLIEST.timestamp())
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"enum": [*get_args(Role)]},
        "content": {"type": "string"},
        "id": _MESSAGE_ID,
        "name": {"type": ["string", "null"], "maxLength": ID_MAX_CHARACTERS},
        "user_id": _MESSAGE_ID,
        "created_at": {
            "anyOf": [
                {"type": "string", "format": "moment"},
                {"type": "number", "minimum": _FIRST, "maximum": MOST_MILLISECONDS - 1},
                {"type": "number", "minimum": _FIRST * 1000, "maximum": -MOST_SECONDS - 1},  # milliseconds before 1966
                {"type": "null"},
            ]
        },
    },
    "description": "In the format of OpenAI's chat, or another that `add` reads (docs/conversations.md).",
}
MessageObject = Annotated[dict[str, Any], WithJsonSchema(_MESSAGE)]
Messages = Annotated[list[MessageObject], Field(max_length=MOST_MESSAGES)]

# Types of parameters by name, where the annotation of the method says less than is accepted; by `target.name` of one method.
BY_NAME: Mapping[str, Any] = {
    "observations.list.before": _position("observation"),
    "conversations.messages.before": _position("message"),
    "limit": Annotated[int, Field(ge=1, le=1000), _WHOLE],
    "observations.feedback.value": Feedback,
    "run_due.limit": _Pieces,
    "work.costs.days": Annotated[int, Field(ge=1, le=MOST_DAYS), _WHOLE],
    "work.embed.limit": _Pieces,
    "work.recheck.limit": _Pieces,
    "topics.list.limit": Annotated[int, Field(ge=1, le=50), _WHOLE],
    "observation_id": ObservationId,
    "old_id": ObservationId,
    "new_id": ObservationId,
    "episode_id": EpisodeId,
    "episodes.list.before": EpisodeId,
    "scope_id": ScopeId,
    "add.messages": Messages,
    "message": MessageObject,
    "context.message": str,
    "search.messages": Annotated[int, Field(ge=0, le=100), _WHOLE],
    "top_k": Annotated[int, Field(ge=1, le=100), _WHOLE],
    "budget_tokens": Annotated[int, Field(ge=4, le=2**31), _WHOLE],
    "budgets": Budgets,
    "text": SomeText,
    "group_ids": Annotated[list[IdText], Field(max_length=MOST_GROUPS)],
    "tags": Annotated[list[Words], Field(max_length=MOST_TAGS)],
    "category": Annotated[str, _written_as("^[a-z][a-z0-9_-]{0,39}$", _CATEGORY)],
    "confidence": Share,
    "importance": Share,
    "speaker": Words,
    "reason": Annotated[str, Field(max_length=1000)],
    "observations.quarantine.request": Annotated[str, _written_as(_SEEN, _NO_TEXT, max_length=1000)],
    "display_name": Annotated[str, _written_as(_SEEN, _NO_TEXT, max_length=ID_MAX_CHARACTERS)],
    "hold_id": Annotated[int, Field(ge=1, le=2**63 - 1), _WHOLE],
    "from_version": Annotated[int, Field(ge=0, le=2**31 - 1), _WHOLE],
    "to_version": Annotated[int, Field(ge=0, le=2**31 - 1), _WHOLE],
    "run_id": Annotated[int, Field(ge=0, le=2**63 - 1), _WHOLE],
    "if_version": Annotated[
        str, _written_as(rf"^({_VERSION}|\*)$", _ETAG), WithJsonSchema({"anyOf": [_TAG, {"const": "*"}]})
    ],
    "if_fingerprint": Annotated[
        str,
        _written_as(rf"^({_FINGERPRINT}|\*)$", _ETAG),
        WithJsonSchema({"anyOf": [_FINGERPRINT_TAG, {"const": "*"}]}),
    ],
    "review_id": Annotated[str, _written_as(_REVIEW, REVIEW_IDS, examples=["o12-3>s4"])],
    "time_zone": Annotated[str, WithJsonSchema({"type": "string", "format": "time-zone", "examples": ["Europe/Oslo"]})],
}
CONDITIONS = ("if_version", "if_fingerprint")  # parameters that are If-Match
HEADERS = (*CONDITIONS, "idempotency_key")  # parameters that are headers
Parameters = dict[str, tuple[Any, Any]]  # annotation and default, by name


def method_of(target: str) -> Callable[..., Any]:
    """`observe` of `Memory`, `observations.get` of a face."""
    face, _, name = target.rpartition(".")
    return getattr(_faces()[face], name)  # type: ignore[no-any-return]


@cache
def _faces() -> dict[str, type]:
    found = {name: getattr(imported(f"memory_sql.resources.{name}"), kind) for name, kind in faces.FACES.items()}
    return {"": Memory, **found}


def parameters_of(target: str) -> Parameters:
    """Those of the method that a request may give, as it may give them; a `Selection` by its fields."""
    method, found = method_of(target), Parameters()
    hints = get_type_hints(method)
    for parameter in inspect.signature(method).parameters.values():
        name, annotation = parameter.name, hints.get(parameter.name)
        if name in ("self", "agent_id", "session", "progress"):
            continue
        if target == "forget" and name == "selection":
            found |= _of(Selection.__init__, target)
            continue
        if name == "user_id" and "selection" in hints:  # one observation, of which a user asks
            found[name] = IdText, inspect.Parameter.empty
            continue
        found[name] = typed(target, name, annotation), parameter.default
    return found


def _of(function: Callable[..., Any], target: str) -> Parameters:
    hints = get_type_hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {one.name: (typed(target, one.name, hints[one.name]), one.default) for one in parameters}


def typed(target: str, name: str, annotation: Any) -> Any:
    """The annotation as a type of JSON."""
    own = BY_NAME.get(f"{target}.{name}", BY_NAME.get(name))
    if own is None:
        return _plain(annotation)
    return own | None if type(None) in get_args(annotation) else own


def _plain(annotation: Any) -> Any:
    origin, of = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _union(of)
    if annotation is datetime:
        return Moment
    if annotation is date:
        return Day
    if annotation is int:
        return Annotated[int, _WHOLE]
    if origin in (abc.Iterable, abc.Sequence, list, tuple):
        return list[_plain(of[0])]  # type: ignore[misc]
    if origin is abc.Mapping:
        return dict[_plain(of[0]), _plain(of[1])]  # type: ignore[misc]
    return annotation


def _union(of: tuple[Any, ...]) -> Any:
    kinds = list(of)
    if {str, int, UUID} <= set(kinds):
        kinds = [IdText, *(kind for kind in kinds if kind not in (str, int, UUID))]
    made = _plain(kinds[0])
    for kind in kinds[1:]:
        made = made | _plain(kind)
    return made


def model_of(name: str, parameters: Parameters) -> type[BaseModel]:
    """A model of the parameters, which refuses any other by name."""
    fields: dict[str, Any] = {
        key: (kind, ... if default is inspect.Parameter.empty else default)
        for key, (kind, default) in parameters.items()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema with everything in its place, without `$ref`."""
    schema = TypeAdapter(kind).json_schema()
    return _inlined(schema, schema.pop("$defs", {}))  # type: ignore[no-any-return]


def _inlined(schema: Any, of: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, of) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(of[schema["$ref"].rpartition("/")[2]], of)
    return {key: _inlined(value, of) for key, value in schema.items() if key != "title" or not isinstance(value, str)}
