"""The routes of `CALLS`, for our own application and for a host's."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from memory_sql.domain.exports import ExportLine
from memory_sql.errors import DatabaseError, MemorySQLError
from memory_sql.memory import Memory
from memory_sql.server import answers, problems
from memory_sql.server.arguments import BY_NAME, IdText, Parameters, method_of, schema_of
from memory_sql.server.calls import CALLS, Call
from memory_sql.server.events import EVENTS, Told, described
from memory_sql.server.identity import Identify, Identity, allowed
from memory_sql.server.paths import ids_of
from memory_sql.server.problems import RefusalError, denied, problem_of, unknown_caller
from memory_sql.server.requests import Asked
from memory_sql.telemetry import joined

Remembering = Callable[[Request], Memory]
EXPORTS = 4  # at once; each holds a connection for as long as its client reads
TRACE = ("traceparent", "tracestate")
PREFIX = "/v1/agents/{agent_id}/"
POSITION = "Memory-Position"  # of a writing request with a replica, for `after` of a reading one


def router(memory: Remembering, identity: Identify) -> APIRouter:
    """The routes, for a host's own application: `app.include_router(router(memory, identity), prefix="/memory")`.

    `memory` gives the open `Memory` of a request, `identity` who sends it; keys aren't involved. Errors of these routes are
    answered as problem+json by the routes themselves, so the host's own handlers stay as they are. The host limits bodies.
    """
    made, exports = APIRouter(), asyncio.Semaphore(EXPORTS)
    for call in CALLS:
        _add(made, Asked(call), memory, identity, exports)
    return made


def _add(to: APIRouter, asked: Asked, memory: Remembering, identity: Identify, exports: asyncio.Semaphore) -> None:
    call = asked.call

    async def endpoint(request: Request) -> Response:
        try:
            return await _answered(asked, memory(request), await identity(request), request, exports)
        except (MemorySQLError, RefusalError) as error:
            return problem_of(request, error, conditional="if-match" in request.headers)

    summary, description = _docs(call)
    kind = answers.kind_of(call.target)
    is_json = kind is not None and kind is not ExportLine
    to.add_api_route(
        PREFIX + call.path,
        endpoint,
        methods=[call.method],
        status_code=call.status,
        response_model=kind if is_json else None,
        response_class=JSONResponse if is_json else Response,
        name=call.name,
        operation_id=call.name,
        summary=summary,
        description=description,
        tags=[_tag(call)],
        responses=_responses(asked, kind),
        openapi_extra=_extra(asked),
    )


async def _answered(
    asked: Asked, memory: Memory, identity: Identity | None, request: Request, exports: asyncio.Semaphore
) -> Response:
    call = asked.call
    if identity is None:
        raise unknown_caller()
    right = call.right if identity.user_id is None else call.own
    if right is None:
        raise denied()
    allowed(identity, right, ids_of(request)["agent_id"])
    with joined(memory, *(",".join(request.headers.getlist(name)) for name in TRACE)):
        return await _done(asked, memory, identity, request, exports)


async def _done(
    asked: Asked, memory: Memory, identity: Identity, request: Request, exports: asyncio.Semaphore
) -> Response:
    call = asked.call
    given = await asked.read(request, identity)
    if identity.user_id is not None and call.gate is not None:
        await call.gate(memory, given["agent_id"], identity.user_id, given)
    method = partial(_method(memory, call.target), **asked.arguments(given))
    if answers.kind_of(call.target) is ExportLine:
        return await answers.streamed(method(), exports)

    async def work(**told: Any) -> Response:
        found = await method(**told)
        tag = answers.tag_of(found)  # of all of it, also of what isn't told
        if identity.user_id is not None and call.others:
            found = found.model_copy(update=dict.fromkeys(call.others, ()))
        answer = answers.answer(
            request, call.target, found, call.status, given.get("limit"), tag, may_be_text=call.text
        )
        if call.right != "read" and (memory._spread or memory.database).has_replica:
            with suppress(DatabaseError):  # what was written is written, so that is what the client is told
                answer.headers[POSITION] = await memory.admin.position()
        return answer

    if asked.tells and answers.wants(request, EVENTS):
        return Told(request, lambda tell: work(progress=tell))
    return await work()


def _method(memory: Memory, target: str) -> Callable[..., Any]:
    face, _, name = target.rpartition(".")
    return getattr(getattr(memory, face) if face else memory, name)  # type: ignore[no-any-return]


# OpenAPI


def _tag(call: Call) -> str:
    return call.target.partition(".")[0] if "." in call.target else "memory"


def _docs(call: Call) -> tuple[str, str]:
    """The docstring of the method, its first sentence and the whole."""
    whole = inspect.cleandoc(method_of(call.target).__doc__ or "")
    if "replace" in call.fixed:
        return (
            "Replaces the text of a message",
            "What was made of the old text is deleted, and it is formed anew.\n\n" + whole,
        )
    first = re.split(r"(?<=[.:;]) |\n\n", " ".join(whole.split("\n\n")[0].split()))[0]
    return first.rstrip(".:;"), whole


def _responses(asked: Asked, kind: Any) -> dict[int | str, dict[str, Any]]:
    call = asked.call
    found: dict[int | str, dict[str, Any]] = {"default": problems.RESPONSE}
    if kind is ExportLine:
        lines = {"schema": {"type": "string", "description": "A line each: docs/api.md, ExportLine."}}
        found[200] = {"description": "Everything that is stored about the person.", "content": {answers.LINES: lines}}
    if call.text:
        text = {"text/plain": {"schema": {"type": "string"}}}
        found[200] = {"description": "As JSON, or as the text for a prompt.", "content": text}
    if asked.tells:
        content = {EVENTS: described(kind)}
        found[200] = {"description": "As JSON, or as events that say meanwhile how far it is.", "content": content}
    return found


def _extra(asked: Asked) -> dict[str, Any]:
    """Parameters and body, from the models that also check them."""
    where = "body" if asked.has_body else "query"
    parameters = [*_parameters(asked.in_path, "path")]
    parameters += _parameters(asked.others, "query") if where == "query" else []
    if asked.condition is not None:
        parameters.append(_header("If-Match", asked.condition, _OF_CONDITION[asked.condition]))
    if asked.takes_key:
        parameters.append(_header("Idempotency-Key", "idempotency_key", "Identifies the call: it is stored once."))
    extra: dict[str, Any] = {"parameters": parameters}
    if asked.has_body:
        media: dict[str, Any] = {"schema": schema_of(asked.model)}
        if asked.call.example is not None:
            media["example"] = dict(asked.call.example)
        needed = any(default is inspect.Parameter.empty for _, default in asked.others.values())
        extra["requestBody"] = {"required": needed, "content": {"application/json": media}}
    return extra


_OF_CONDITION = {
    "if_version": "The ETag of the observation: only if it has that version.",
    "if_fingerprint": "The ETag of a dry run's answer: only if that is still what would be forgotten.",
}


def _parameters(parameters: Parameters, place: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path" or default is inspect.Parameter.empty,
            "schema": _schema(kind),
        }
        for name, (kind, default) in parameters.items()
    ]


@cache
def _schema(kind: Any) -> dict[str, Any]:
    schema = schema_of(kind)
    schemas = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return schemas[0] if len(schemas) == 1 else schema  # a query has no null


def _header(name: str, of: str, description: str) -> dict[str, Any]:
    schema = schema_of(BY_NAME.get(of, IdText))
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


_PATTERNS = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", PREFIX + call.path) + "$"), call.method) for call in CALLS]


def methods_at(path: str) -> set[str]:
    """The methods of our routes at the end of that path, which a host may have prefixed."""
    return {method for pattern, method in _PATTERNS if pattern.search(path)}
