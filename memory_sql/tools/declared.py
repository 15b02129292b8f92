"""The five tools, said once: name, parameters, what a model reads of them, and what they do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from memory_sql.context.digest import as_data, cut

ARGUMENTS_MAX_CHARACTERS = 50_000
QUERY_MAX_CHARACTERS = 1000
_BOUNDS = ("default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")
_IDENTITY = ("user", "user_id", "agent", "agent_id", "conversation_id", "group_id", "group_ids", "actor", "scope_id")
Given = TypeVar("Given", bound="Arguments")


class ArgumentsError(Exception):
    """What the model has to change; holds no value that it gave."""


def _a_day(value: str) -> str:
    try:
        date.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError("day", "write a day as 2026-11-24") from None
    return value


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_a_day)]
ObservationId = Annotated[str, Field(pattern=r"^o[1-9]\d{0,17}-[1-9]\d{0,9}$")]
EpisodeId = Annotated[str, Field(pattern=r"^e[1-9]\d{0,17}$")]
Flag = Annotated[bool, Field(strict=True)]


class Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Recall(Arguments):
    query: Annotated[str | None, Field(max_length=QUERY_MAX_CHARACTERS)] = None
    limit: Annotated[int, Field(strict=True, ge=1, le=20)] = 5
    after: Annotated[Day | None, Field(description="Only said after this day: 2026-11-24.")] = None
    before: Annotated[Day | None, Field(description="Only said before this day.")] = None
    episode: Annotated[EpisodeId | None, Field(description="Only what was said in this episode: e12.")] = None
    include_past: Annotated[Flag, Field(description="Also what is no longer true.")] = False


class Remember(Arguments):
    text: Annotated[
        str,
        Field(
            min_length=1,
            description='One sentence that stands alone: names and dates, no "I", no "tomorrow".',
        ),
    ]
    group: Annotated[str | None, Field(description="Only if all members of this group shall see it.")] = None


class Correct(Arguments):
    observation_id: ObservationId
    text: Annotated[
        str | None, Field(min_length=1, description="What is true instead; one sentence that stands alone.")
    ] = None
    ended: Annotated[
        Literal["fulfilled", "expired", "no"] | None,
        Field(description="Instead of `text`: the plan or promise was done, or came to nothing; no: it isn't over."),
    ] = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if (self.text is None) == (self.ended is None):
            raise PydanticCustomError("one_of", "give either text or ended")
        return self


class Forget(Arguments):
    observation_ids: Annotated[list[ObservationId], Field(min_length=1, max_length=10)]
    confirmed: Annotated[Flag, Field(description="True only after the user has agreed to what was shown.")] = False


class Sources(Arguments):
    observation_id: ObservationId


class Tool(NamedTuple):
    """`changes`: what it writes: nothing, something that history keeps, or something that goes."""

    name: str
    description: str
    arguments: type[Arguments]
    reads_only: bool = False
    destroys: bool = False

    def schema(self, groups: tuple[str, ...] = (), *, episodes: bool = False) -> dict[str, Any]:
        """JSON Schema 2020-12 of the arguments, each time anew. `groups`: those that `remember` may name.

        `episodes`: `recall` may name one.
        """
        made = self.arguments.model_json_schema()
        properties = {name: _plain(one) for name, one in made["properties"].items()}
        if "group" in properties:
            if groups:
                properties["group"]["enum"] = list(groups)
            else:
                del properties["group"]
        if not episodes:
            properties.pop("episode", None)
        required = {"required": made["required"]} if "required" in made else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False}

    def strict_schema(self, groups: tuple[str, ...] = (), *, episodes: bool = False) -> dict[str, Any]:
        """As OpenAI's strict mode takes it: everything required and, where it may be left out, nullable; no bounds."""
        schema = self.schema(groups, episodes=episodes)
        needed = schema.get("required", [])
        properties = {name: _unbounded(one, name not in needed) for name, one in schema["properties"].items()}
        return {**schema, "properties": properties, "required": list(properties)}


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without titles; null is what isn't given."""
    one = {key: value for key, value in found.items() if key not in ("title", "anyOf")}
    one |= next((option for option in found.get("anyOf", ()) if option != {"type": "null"}), {})
    if one.get("default", 0) is None:
        del one["default"]
    return deepcopy(one)


def _unbounded(found: Mapping[str, Any], nullable: bool) -> dict[str, Any]:
    one = {key: value for key, value in found.items() if key not in _BOUNDS}
    if "items" in one:
        one["items"] = _unbounded(one["items"], nullable=False)
    if nullable:
        one["type"] = [one["type"], "null"]
        if "enum" in one:
            one["enum"] = [*one["enum"], None]
    return one


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "recall",
            "Search what is remembered about the user and their groups. Without a query: the most important and newest. Use"
            " it before answering anything that may have been said before, and to find ids.",
            Recall,
            reads_only=True,
        ),
        Tool(
            "remember",
            "Remember one fact, preference, decision or plan that the user has stated and that will matter in later"
            " conversations. Not for guesses, nor for what recall shows already.",
            Remember,
        ),
        Tool(
            "correct",
            "Replace a memory of the user's that is wrong or no longer true, or say that a plan is over. It stays in the"
            " history. Find its id with recall.",
            Correct,
        ),
        Tool(
            "forget",
            "Make memory forget what the user asks it to forget. Call it first without `confirmed`: it shows what would go."
            " Quote that to the user; when they agree, call it again with the same ids and `confirmed`.",
            Forget,
            destroys=True,
        ),
        Tool(
            "sources",
            "The messages that a memory was made of: who said it, when, in which words.",
            Sources,
            reads_only=True,
        ),
    )
}


def read_arguments(kind: type[Given], given: object) -> Given:
    """Checks what a model gave, JSON or a mapping; null is what isn't given. Raises `ArgumentsError`."""
    values = _object(given)
    try:
        return kind.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise ArgumentsError(
            "; ".join(dict.fromkeys(_said(kind, one) for one in error.errors(include_url=False)[:5]))
        ) from None


def _object(given: object) -> dict[str, Any]:
    values = given
    if isinstance(given, str | bytes):
        if len(given) > ARGUMENTS_MAX_CHARACTERS:
            raise ArgumentsError(f"the arguments are too long: at most {ARGUMENTS_MAX_CHARACTERS} characters")
        try:
            values = json.loads(given or "{}")
        except (ValueError, RecursionError):
            raise ArgumentsError("the arguments must be a JSON object") from None
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ArgumentsError("the arguments must be a JSON object")
    return {str(name): value for name, value in values.items()}


def _said(kind: type[Arguments], error: Any) -> str:
    where, limits = error["loc"], error.get("ctx", {})
    name = ".".join(str(part) for part in where) if where[:1] and where[0] in kind.model_fields else _shown(where)
    match error["type"]:
        case "extra_forbidden":
            whose = "; whose memory it is, the host has said" if where[0] in _IDENTITY else ""
            return f"{name}: there is no such argument{whose}. There are: {', '.join(kind.model_fields)}"
        case "missing":
            return f"{name}: it is missing"
        case "less_than_equal":
            return f"{name}: at most {limits['le']}"
        case "greater_than_equal":
            return f"{name}: at least {limits['ge']}"
        case "string_too_long":
            return f"{name}: at most {limits['max_length']} characters"
        case "too_long":
            return f"{name}: at most {limits['max_length']} of them"
        case "string_too_short" | "too_short":
            return f"{name}: it may not be empty"
        case "string_pattern_mismatch" if "observation" in name:
            return f"{name}: an id looks like o12-3; find it with recall"
        case "string_pattern_mismatch" if name == "episode":
            return f"{name}: an id looks like e12; find it with recall"
        case "string_pattern_mismatch":
            return f"{name}: write a day as 2026-11-24"
        case "day":
            return f"{name}: {error['msg']}"
        case _:
            return f"{name}: {error['msg'].replace('Input should be', 'it should be')}"


def _shown(where: tuple[Any, ...]) -> str:
    return cut(as_data(str(where[0])), 40) if where else "arguments"
