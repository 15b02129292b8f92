"""From a request to the arguments of a call."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastapi import Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from memory_sql.domain.ids import host_id
from memory_sql.domain.messages import Message
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.server.arguments import (
    BY_NAME,
    CONDITIONS,
    HEADERS,
    IdText,
    MessageObject,
    Parameters,
    method_of,
    model_of,
    parameters_of,
)
from memory_sql.server.calls import Call
from memory_sql.server.headers import header
from memory_sql.server.identity import Identity
from memory_sql.server.paths import ids_of
from memory_sql.server.problems import RefusalError, denied, wrong_input

Given = dict[str, Any]
_NOTHING = (b"", b"{}", b"null")  # some clients send one with each request
_OF_SELECTION = tuple(inspect.signature(Selection.__init__).parameters)[1:]


@dataclass(frozen=True)
class Asked:
    """A call with the models of its parameters: those in the path, and the others, in the query or in the body."""

    call: Call

    @cached_property
    def parameters(self) -> Parameters:
        """All that a request may give, by the method's names."""
        found = {name: one for name, one in parameters_of(self.call.target).items() if name not in self.call.fixed}
        if "replace" in self.call.fixed:  # one message, whose id is in the path
            del found["messages"], found["idempotency_key"]
            empty = inspect.Parameter.empty
            return {"message_id": (IdText, empty), "message": (MessageObject, empty), **found}
        return {name: one for name, one in found.items() if name != "replace"}

    @cached_property
    def in_path(self) -> Parameters:
        """By their names in the path."""
        names = (self.call.renamed.get(name, name) for name in self.parameters)
        return {
            name: (BY_NAME.get(name, IdText), inspect.Parameter.empty)
            for name in ("agent_id", *filter(self._is_in_path, names))
        }

    def _is_in_path(self, name: str) -> bool:
        return f"{{{name}}}" in self.call.path

    @cached_property
    def others(self) -> Parameters:
        """In the query of a GET or DELETE, else in the body."""
        return {
            name: one
            for name, one in self.parameters.items()
            if not self._is_in_path(self.call.renamed.get(name, name)) and name not in HEADERS
        }

    @cached_property
    def has_body(self) -> bool:
        return self.call.method not in ("GET", "DELETE") and bool(self.others)

    @cached_property
    def path_model(self) -> type[BaseModel]:
        return model_of(f"{self.call.name}_path", self.in_path)

    @cached_property
    def model(self) -> type[BaseModel]:
        return model_of(self.call.name, self.others)

    @property
    def condition(self) -> str | None:
        """The parameter that is If-Match, if it takes that."""
        return next((name for name in CONDITIONS if name in self.parameters), None)

    @property
    def takes_key(self) -> bool:
        """Whether it takes Idempotency-Key."""
        return "idempotency_key" in self.parameters

    @cached_property
    def tells(self) -> bool:
        """Whether it says meanwhile how far it is, to who asks for events."""
        return "progress" in inspect.signature(method_of(self.call.target)).parameters

    async def read(self, request: Request, identity: Identity) -> Given:
        """The arguments, by the method's names, with the user and actor that the identity decides. Raises `InputError`."""
        path = self._validated(self.path_model, ids_of(request), is_text=True)
        raw = await self._raw(request)
        user = self._own_user(identity, path, raw)
        if user is not None:
            raw["user_id"] = user
        given = {**path, **self._validated(self.model, raw, is_text=not self.has_body), **self._headers(request)}
        for name, shown in self.call.renamed.items():
            given[name] = given.pop(shown)
        if "actor" in given and given["actor"] is None and identity.user_id is None:
            given["actor"] = identity.name
        return given

    async def _raw(self, request: Request) -> Given:
        """Raises `InputError` for what stands where nobody would read it: `POST forget?dry_run=true` would delete."""
        if self.has_body:
            if request.url.query:
                named = next((name for name in request.query_params if name in self.others), "what is in the query")
                raise InputError(f"{named}: it belongs in the body; this request takes no query")
            return await _body(request)
        if (await request.body()).strip() not in _NOTHING:
            raise InputError("the body: this request takes none; what it is given stands in the query")
        return _query(request)

    def _own_user(self, identity: Identity, path: Given, raw: Given) -> str | None:
        """The user to be put in. A key that stands for a user is that user: another one, wherever it stands, is refused."""
        if identity.user_id is None:
            return None
        for name in ("user_id", "actor"):
            for place in (path, raw):
                if place.get(name) is not None and not _same(place[name], identity.user_id):
                    raise denied()
        return identity.user_id if "user_id" in self.others else None

    def _validated(self, model: type[BaseModel], raw: Given, *, is_text: bool) -> Given:
        try:
            made = (
                model.model_validate_strings(raw) if is_text else model.model_validate_json(to_json(raw), strict=True)
            )
        except ValidationError as error:
            raise wrong_input(error) from None
        return {name: getattr(made, name) for name in model.model_fields}

    def _headers(self, request: Request) -> Given:
        found: Given = {}
        key, match = header(request, "idempotency-key"), header(request, "if-match")
        if key is not None and not self.takes_key:
            raise InputError("Idempotency-Key: only messages that are added take one")
        if match is not None and self.condition is None:
            raise InputError("If-Match: this request takes none")
        if self.takes_key:
            found["idempotency_key"] = key
        if self.condition is not None:
            found[self.condition] = _matching(self.condition, match)
        return found

    def arguments(self, given: Given) -> Given:
        """As the method takes them."""
        made = {**given, **self.call.fixed}
        if "message_id" in self.in_path:
            made["messages"] = [_of_the_path(made.pop("message"), made.pop("message_id"))]
        if self.call.target == "forget":
            made["selection"] = Selection(**{name: made.pop(name) for name in _OF_SELECTION})
        if made.get("request") is not None:  # a user asks, so it has to be theirs
            chosen = {"user_id": made.pop("user_id"), "observation_id": made["selection"]}
            made["selection"] = Selection(**chosen, replaced=True)
        return made


def _of_the_path(given: Given, message_id: str) -> Message:
    """The message under the id in the path; it may name that itself, under any name that `add` reads."""
    message, known = Message.parse(given, 0), host_id(message_id, "message_id")
    if message.id not in (None, known):
        raise InputError("message: it names another id than the path")
    return message.model_copy(update={"id": known})


def _same(value: object, user_id: str) -> bool:
    try:
        return host_id(value, "user_id") == user_id
    except InputError:
        return False


def _query(request: Request) -> Given:
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("the query names a parameter twice")
    return found


async def _body(request: Request) -> Given:
    kind = header(request, "content-type")
    if kind is not None and not _is_json(kind):
        raise RefusalError(415, "UnsupportedMediaType", "the body must be application/json, in UTF-8")
    body = await request.body()
    try:
        found = _parsed(body) if body else {}
    except ValueError:
        raise RefusalError(400, "BadRequest", "the body isn't JSON in UTF-8, or names something twice") from None
    if not isinstance(found, dict):
        raise InputError("the body must be a JSON object")
    return found


def _is_json(kind: str) -> bool:
    name, *parameters = (part.strip().lower() for part in kind.split(";"))
    return name == "application/json" and {*parameters} <= {"charset=utf-8", 'charset="utf-8"', ""}


def _parsed(body: bytes) -> Any:
    """Raises `ValueError` also for what parsers read differently: names that are given twice, numbers that no float holds."""
    found = from_json(body, allow_inf_nan=False)
    json.loads(body, object_pairs_hook=_once, parse_float=_finite)
    return found


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError


def _finite(number: str) -> None:
    if math.isinf(float(number)):
        raise ValueError


def _matching(name: str, match: str | None) -> int | str | None:
    """The version or the fingerprint of an `ETag` that we have given."""
    if match is None or match == "*":
        return None
    try:
        tag = _ETAGS[name].validate_python(match).strip('"')
    except ValidationError as error:
        raise wrong_input(error, ["If-Match"]) from None
    return int(tag) if name == "if_version" else tag


_ETAGS: dict[str, TypeAdapter[str]] = {name: TypeAdapter(BY_NAME[name]) for name in CONDITIONS}
