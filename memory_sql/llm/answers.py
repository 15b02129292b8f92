"""Reads the requested value from the text of an answer, and makes the schema that requests it.

Pure. What isn't quite what was asked for is read where it can mean nothing else; no value is ever guessed. No error raised
here quotes the answer, which may contain remembered text: messages end up in logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from memory_sql.errors import AnswerError, TruncatedError

T = TypeVar("T", bound=BaseModel | str)

MAX_CHARACTERS = 500_000
MAX_STARTS = 32
MAX_REPORTED = 3
MAX_JSON5_CHARACTERS = 50_000  # its reader takes a second for 60,000
MAX_WRAPPINGS = 3  # a string in an object in a list

_THINKING = re.compile(r"<think(?:ing)?>")
_THOUGHT = re.compile(r"</think(?:ing)?>")
_THOUGHT_UNOPENED = re.compile(r"^</think(?:ing)?>\s*$", re.MULTILINE)
_OPENING = re.compile(r"[{\[]")


class _RepeatedKeyError(ValueError):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses a repeated key, of which a parser would silently keep the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError
    return found


def _no_constant(_: str) -> NoReturn:
    raise ValueError("JSON has no NaN and no Infinity")


_LIKE_JSON = re.compile(r"""\A(?:```\w*\s*)?(?:\{|\[\s*["{\[\]])|\{\s*["}]""")
# Used only to find where a value ends. `int` refuses more than 4,300 digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=_distinct)


class SaidInProse(BaseModel):
    """A type that can also be read from an answer that is only its text, as models without JSON mode give.

    All other fields need defaults.
    """

    text: str


class AlsoRead(BaseModel):
    """A type that can be read from other values than those of its schema."""

    @classmethod
    def in_form(cls, value: object) -> object:
        """The value as the schema has it, where it can mean nothing else; else None, as here for any."""
        return None


def read(raw: str, output: type[T]) -> T:
    """Returns the value in `raw`.

    A pydantic type is read from the only JSON object in `raw`, bare, fenced or surrounded by prose; also from JSON5
    (single quotes, trailing commas, comments), with raw line ends in strings, from a JSON string, from an object or a list
    that holds nothing else, and as an `AlsoRead` says. `str` is the text itself, stripped and without a surrounding fence,
    and so is a `SaidInProse` if nothing in `raw` looks like JSON. The thinking of a reasoning model before the answer is
    skipped.

    Raises `TruncatedError` if the JSON (or the thinking) was cut off, else `AnswerError` with the reason `empty`,
    `too_long`, `not_json` or `wrong_shape`.
    """
    if len(raw) > MAX_CHARACTERS:
        raise AnswerError(f"the answer has more than {MAX_CHARACTERS:,} characters", raw=raw, reason="too_long")
    text = _spoken(raw)
    if issubclass(output, SaidInProse):
        text = _unquoted(text)
        if not _LIKE_JSON.search(text):
            return cast(T, output(text=_plain(text, raw)))
    if issubclass(output, BaseModel):
        return cast(T, _structured(text, output, raw))
    return cast(T, _plain(text, raw))


def may_hold_json(text: str) -> bool:
    return _LIKE_JSON.search(text) is not None


def strict_schema(output: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of `output` in the dialect of strict structured output: all properties required, no others.

    Raises `TypeError` for a type that the dialect can't express (a dict with free keys).
    """
    schema = output.model_json_schema()
    if "$ref" in schema:  # a recursive type; the root must be an object
        schema |= schema["$defs"][schema.pop("$ref").rpartition("/")[2]]
    return cast(dict[str, Any], _strict(schema))


_LONE_SURROGATE = re.compile(
    r"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def _spoken(raw: str) -> str:
    """The answer without the thinking that some servers leave in the text of reasoning models."""
    # Half a surrogate pair in an escape can't be decoded, but the rest of the answer is good.
    text = _LONE_SURROGATE.sub(r"\1\\ufffd", raw.strip("\ufeff \t\r\n"))
    if _THINKING.match(text):
        end = _THOUGHT.search(text)
        if end is None:
            raise TruncatedError("the answer ends before the thinking does")
    else:  # many chat templates open the thinking themselves; JSON has no such line, strings can't span lines
        end = _THOUGHT_UNOPENED.search(text)
    text = text[end.end() :].strip() if end else text
    if not text:
        raise _empty(raw)
    return text


def _plain(text: str, raw: str) -> str:
    # Postgres can't store NUL, and no language needs it.
    plain = _unfenced(text).replace("\x00", "").strip()
    if not plain:
        raise _empty(raw)
    return plain


def _unfenced(text: str) -> str:
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    inside = text[3:-3]
    if "```" in inside:
        return text
    language, newline, rest = inside.partition("\n")
    return rest if newline and " " not in language.strip() else inside


def _structured(text: str, output: type[BaseModel], raw: str) -> BaseModel:
    try:
        value = _whole(_unfenced(text))
    except _RepeatedKeyError:
        raise _repeated(raw) from None
    if value is None:
        return _validated(_the_object(text, raw), output, raw)
    first: AnswerError | None = None
    for reading in _readings(value, output):
        try:
            return _validated(json.dumps(reading), output, raw)
        except AnswerError as error:
            first = first or error
    assert first is not None
    raise first


def _readings(value: object, output: type[BaseModel], left: int = MAX_WRAPPINGS) -> Iterator[object]:
    """The value itself, then what else it may stand for."""
    yield value
    formed = output.in_form(value) if issubclass(output, AlsoRead) else None
    if formed is not None:
        yield formed
    inner = _inner(value)
    if inner is not None and left:
        yield from _readings(inner, output, left - 1)


def _inner(value: object) -> object:
    """What a string, an object or a list holds, and nothing besides."""
    if isinstance(value, str):
        return _whole(_unfenced(value.strip()))
    if isinstance(value, dict | list) and len(value) == 1:
        (inner,) = value.values() if isinstance(value, dict) else value
        return inner if isinstance(inner, str | dict | list) else None
    return None


def _whole(text: str) -> object:
    """The value, if from its first bracket to its last the text is JSON, or JSON5, or each line is; None: it isn't."""
    if text.startswith('"'):
        return _loaded(text)
    start, end = _OPENING.search(text), max(text.rfind("}"), text.rfind("]"))
    if start is None or end < start.start():
        return None
    inside = text[start.start() : end + 1]
    found = _loaded(inside)
    if found is None:
        lines = [_loaded(line) for line in inside.splitlines() if line.strip()] if "\n" in inside else []
        if lines and all(isinstance(line, dict) for line in lines):
            return lines[0] if all(line == lines[0] for line in lines) else lines
    return _loaded_json5(inside) if found is None else found


def _loaded(text: str) -> object:
    """None: it is no JSON, or null. Line ends may stand in strings as they are."""
    try:
        return json.loads(text, strict=False, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except _RepeatedKeyError:
        raise
    except (ValueError, RecursionError):
        return None


def _loaded_json5(text: str) -> object:
    if len(text) > MAX_JSON5_CHARACTERS or find_spec("json5") is None:
        return None
    try:
        return import_module("json5").loads(text, strict=False, allow_duplicate_keys=False, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _unquoted(text: str) -> str:
    """What is in it, where it is a JSON string."""
    inside = _loaded(text) if text.startswith('"') and text.endswith('"') else None
    return inside.strip() if isinstance(inside, str) else text


def _the_object(text: str, raw: str) -> str:
    """The only JSON object at the top level of `text`."""
    found: list[str] = []
    position = 0
    lists = False
    for _ in range(MAX_STARTS):  # limits the work on hostile text, in which every start may be read to the end
        start = _OPENING.search(text, position)
        if start is None:
            break
        end = _end_of_json(text, start.start(), raw)
        if end is None:
            position = start.end()
        else:
            position = end
            value = text[start.start() : end]
            if start.group() == "{":
                found.append(value)
            else:
                lists = lists or "{" in value  # and not just a footnote like [1]
    if len(set(found)) == 1:
        return found[0]
    raise _no_object(text, raw, len(found), lists)


def _end_of_json(text: str, start: int, raw: str) -> int | None:
    """Where the JSON value that starts at `start` ends; None: there is none. Raises if it was cut off."""
    try:
        return _DECODER.raw_decode(text, start)[1]
    except json.JSONDecodeError:
        if _is_beginning_of_json(text[start:]):
            raise TruncatedError("the JSON of the answer was cut off") from None
        return None
    except _RepeatedKeyError:
        raise _repeated(raw) from None
    except RecursionError:
        raise AnswerError("the JSON of the answer is nested too deeply", raw=raw, reason="not_json") from None


def _is_beginning_of_json(text: str) -> bool:
    try:
        from_json(text, allow_partial=True)
    except ValueError:
        return False
    return True


def _no_object(text: str, raw: str, objects: int, lists: bool) -> AnswerError:
    if objects > 1:
        return AnswerError("the answer holds several JSON objects", raw=raw, reason="wrong_shape")
    if lists or _is_json(_unfenced(text)):
        return AnswerError("the answer is JSON, but not an object", raw=raw, reason="wrong_shape")
    return AnswerError("the answer holds no JSON object", raw=raw, reason="not_json")


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True


def _validated(text: str, output: type[BaseModel], raw: str) -> BaseModel:
    try:
        return output.model_validate_json(text)
    except ValidationError as error:
        details = error.errors(include_input=False, include_context=False, include_url=False)
    # Raised outside of the handler: pydantic's error quotes the answer and would be in the traceback as context.
    if details[0]["type"] == "json_invalid":
        raise AnswerError("the JSON of the answer is nested too deeply or malformed", raw=raw, reason="not_json")
    known = _names(output.model_json_schema())
    wrong = "; ".join(f"{_location(e['loc'], known)}: {e['type']}" for e in details[:MAX_REPORTED])
    more = f" and {len(details) - MAX_REPORTED:,} more" if len(details) > MAX_REPORTED else ""
    raise AnswerError(f"the answer has the wrong shape: {wrong}{more}", raw=raw, reason="wrong_shape")


def _location(path: tuple[int | str, ...], known: set[str]) -> str:
    """A path in the answer. A key that the type doesn't have is the model's text, and is shown as `?`."""
    return ".".join(str(part) if isinstance(part, int) or part in known else "?" for part in path) or "answer"


def _names(schema: object) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_names, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())).union(*map(_names, schema.values()))


def _strict(schema: Any) -> Any:
    """The schema without what the dialect refuses: defaults, `oneOf`, and anything beside a `$ref`."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if schema.get("additionalProperties"):
        raise TypeError("strict structured output has no objects with free keys")
    strict: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):  # the names inside are the type's: a field may be called "default"
            strict[key] = {name: _strict(inside) for name, inside in value.items()}
        elif key not in ("default", "title", "discriminator"):
            strict["anyOf" if key == "oneOf" else key] = _strict(value)
    if strict.get("type") == "object":
        strict |= {"required": list(strict.setdefault("properties", {})), "additionalProperties": False}
    return strict


def _repeated(raw: str) -> AnswerError:
    return AnswerError("the JSON of the answer has a key twice", raw=raw, reason="wrong_shape")


def _empty(raw: str) -> AnswerError:
    return AnswerError("the answer is empty", raw=raw, reason="empty")
