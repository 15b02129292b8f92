"""Messages as they are passed to `add`, and as they are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from memory_sql.domain.ids import ID_MAX_CHARACTERS, Id, OptionalId, Value, aware
from memory_sql.domain.message_shapes import NO_MOMENT, as_chat, moment
from memory_sql.domain.message_text import text_of
from memory_sql.domain.positions import position
from memory_sql.errors import InputError, InvalidMessageError, TooLargeError
from memory_sql.languages.text import clean, one_line

Role = Literal["user", "assistant", "agent", "system", "developer", "tool", "function"]

_NUMBER = re.compile(r"\s*[+-]?[\d_]+(\.\d*)?([eE][+-]?\d+)?\s*")
_ROLES = get_args(Role)


def _whole(value: object) -> object:
    """JSON has one kind of number: 18.0 is whole, where a float says exactly which."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _moment(value: object) -> object:
    """Numbers are read as those of the other names for a time."""
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        return moment("created_at", value)
    if not isinstance(value, str | datetime | None):
        raise InputError(f"created_at {NO_MOMENT}")
    return value


class Message(BaseModel):
    """One message in the OpenAI chat format; other keys are ignored.

    `add` also takes messages as OpenAI's Responses, Anthropic, Gemini, LangChain and the AI SDK write them, objects with
    `model_dump()`, and plain text, which is a user's. A tool's result has the role tool, also where a user sends it.

    `content` may be a list of parts, or null beside `tool_calls` or a `refusal`. Without it, `parts` are read. A message with
    nothing of the kind is refused; one that is meant to be empty has `content` "".

    The id is also read from message_id, messageId, uuid and _id, the name from speaker, the time from createdAt, timestamp,
    time, date, ts, said_at, sent_at and create_time: an ISO 8601 time with a zone, or seconds or milliseconds since 1970.
    Another name that clearly means one of these fields is refused, where that is missing.

    `user_id` is the user who wrote it, if that isn't the
    `user_id` of `add`; `name` is the speaker's name. `trigger` names what caused a message that nobody wrote, for example a
    scheduled one; formation skips it. `cleaned` lists the changes that were needed to store the text.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: Role
    content: str = ""
    id: OptionalId = None
    name: Annotated[str | None, Field(max_length=ID_MAX_CHARACTERS)] = None
    user_id: OptionalId = None
    created_at: Annotated[datetime | None, BeforeValidator(_moment)] = None
    trigger: OptionalId = None
    cleaned: tuple[str, ...] = ()

    if TYPE_CHECKING:  # the parameters accept more types than the fields

        def __init__(
            self,
            *,
            role: Role,
            content: str | Sequence[str | Mapping[str, Any]] | None = None,
            parts: Sequence[str | Mapping[str, Any]] | None = None,
            tool_calls: Sequence[Mapping[str, Any]] | None = None,
            id: Id | None = None,
            name: str | None = None,
            user_id: Id | None = None,
            created_at: datetime | str | float | None = None,
            trigger: Id | None = None,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _take_text(cls, data: object) -> object:
        data = as_chat(data)
        text, changes = clean(text_of(data) if data.get("role") in _ROLES else "")
        name = data.get("name")
        if isinstance(name, str):
            name, name_changes = clean(one_line(name))
            name, changes = name or None, (*changes, *name_changes)
        kept = {k: _whole(data[k]) for k in ("role", "id", "user_id", "created_at", "trigger") if k in data}
        return {**kept, "content": text, "name": name, "cleaned": tuple(dict.fromkeys(changes))}

    @field_validator("created_at")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        return None if value is None else aware(value, "created_at")

    @classmethod
    def parse(cls, data: object, position: int, max_characters: int | None = None) -> Self:
        """Raises `InvalidMessageError` or `TooLargeError` with the position (from 0), and never with text."""
        try:
            message = data if isinstance(data, cls) else cls.model_validate(data)
        except InputError as error:
            raise InvalidMessageError(position, str(error)) from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_context=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidMessageError(position, f"{where}: {first['msg']}" if where else first["msg"]) from None
        if max_characters is not None and len(message.content) > max_characters:
            raise TooLargeError(f"message {position}", len(message.content), max_characters)
        return message


class RetainedMessage(Value):
    """A message whose text is still kept. `id` is the host's id within the conversation; `number` its place there.

    `given_at` is the time that the host gave, if that was more than a day ahead; `said_at` is then when it was stored.
    """

    conversation_id: str
    id: str
    number: int
    role: str
    speaker: str | None = None
    user_id: str | None = None
    content: str
    said_at: datetime
    given_at: datetime | None = None

    @property
    def position(self) -> str:
        """Where a page that ends with it ends, for `before=` of `conversations.messages`, also after it is gone."""
        return position(self.said_at, self.conversation_id, self.number)
