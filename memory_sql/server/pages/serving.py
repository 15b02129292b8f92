"""The pages as routes: sign-in, and around each page who asks, what that allows, and how errors look."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from memory_sql.domain.ids import host_id
from memory_sql.domain.keys import hash_of
from memory_sql.domain.links import LINK_SECONDS
from memory_sql.errors import InputError, MemorySQLError, http_status
from memory_sql.memory import Memory
from memory_sql.server.identity import Bearer, Identity, allowed
from memory_sql.server.pages import asking, home, observations, operating, people, scopes
from memory_sql.server.pages.framing import cookie, is_in_frame, let_frame, origins_of
from memory_sql.server.pages.origins import check_origin
from memory_sql.server.pages.rendering import HEADERS, file, page
from memory_sql.server.pages.sessions import COOKIE, HOURS, Entry, Sessions
from memory_sql.server.pages.visits import Visit, form_of, id_in
from memory_sql.server.problems import RefusalError, denied, problem_of, request_id_of, unknown_caller

log = logging.getLogger("memory_sql.server")

_AGENT = "/agents/{agent_id}"
_PERSON = f"{_AGENT}/people/{{user_id}}"
_ONE = f"{_PERSON}/observations/{{observation_id}}"
_SCOPE = f"{_PERSON}/scopes/{{scope_id}}"


class Page(NamedTuple):
    """`target`: the call of which it needs the right (`visits.RIGHTS`); None: any that is signed in."""

    method: str
    path: str
    target: str | None
    show: Callable[[Visit], Awaitable[Response]]


PAGES = (
    Page("GET", "/", None, home.start),
    Page("GET", "/agents", None, home.named_agent),
    Page("GET", _AGENT, "scopes.get", home.agent),
    Page("GET", f"{_AGENT}/people", None, home.named_person),
    Page("GET", _PERSON, "scopes.list", people.person),
    Page("GET", f"{_PERSON}/export", "people.export", people.export),
    Page("GET", f"{_PERSON}/forget", "forget", people.preview),
    Page("POST", f"{_PERSON}/forget", "forget", people.forget),
    Page("GET", _SCOPE, "scopes.history", scopes.scope),
    Page("POST", f"{_SCOPE}/consolidate", "scopes.consolidate", scopes.consolidate),
    Page("POST", f"{_SCOPE}/undo", "scopes.undo", scopes.undo),
    Page("GET", f"{_PERSON}/observations", "observations.list", observations.listing),
    Page("GET", _ONE, "observations.get", observations.one),
    Page("GET", f"{_ONE}/forget", "forget", people.preview_one),
    Page("POST", f"{_ONE}/forget", "forget", people.forget_one),
    *(Page("POST", f"{_ONE}/{name}", act.target, act.done) for name, act in observations.ACTS.items()),
    Page("GET", f"{_PERSON}/ask", "context", asking.form),
    Page("POST", f"{_PERSON}/ask", "context", asking.answer),
    Page("GET", f"{_AGENT}/work", "work.backlog", operating.work),
    Page("POST", f"{_AGENT}/work/reviews/{{review_id}}", "work.decide", operating.decide),
    Page("POST", f"{_AGENT}/work/runs/{{run_id}}/retry", "work.retry", operating.retry),
    Page("POST", f"{_AGENT}/work/runs/{{run_id}}/discard", "work.discard", operating.discard),
    Page("GET", f"{_AGENT}/groups", "scopes.get", operating.groups),
    Page("GET", f"{_AGENT}/groups/{{group_id}}", "scopes.get", operating.group),
    Page("GET", f"{_AGENT}/holds", "holds.list", operating.holds),
    Page("POST", f"{_AGENT}/holds", "holds.place", operating.place),
    Page("POST", f"{_AGENT}/holds/{{hold_id}}/release", "holds.release", operating.release),
    Page("GET", "/keys", "keys.list", operating.keys),
    Page("POST", "/keys", "keys.create", operating.create_key),
    Page("POST", "/keys/{key_id}/revoke", "keys.revoke", operating.revoke),
    Page("GET", "/imports", "imports.list", operating.imports),
)


def add_pages(
    app: FastAPI, memory_of: Callable[[Request], Memory], bearer: Bearer, frame_origins: Sequence[str] = ()
) -> None:
    """Adds the pages at `/`; `/enter?code=…` signs in by a code of `memory.keys.link`.

    `frame_origins` may show a person's own page in a frame. Raises `ConfigurationError`.
    """
    _Pages(app, memory_of, bearer, origins_of(frame_origins))


class _Pages:
    def __init__(
        self, app: FastAPI, memory_of: Callable[[Request], Memory], bearer: Bearer, frame_origins: Sequence[str]
    ) -> None:
        self._memory_of, self._bearer, self._frame_origins = memory_of, bearer, frame_origins
        self._sessions = Sessions(lambda: app.state.memory.now())
        for path, endpoint, method in (
            ("/style.css", _style, "GET"),
            ("/icon.svg", _icon, "GET"),
            ("/enter", self._enter, "GET"),
            ("/sign-in", self._sign_in, "POST"),
            ("/sign-out", self._sign_out, "POST"),
        ):
            self._add(app, path, method, endpoint)
        app.add_api_route("/entrances", self._entrance, methods=["POST"], include_in_schema=False)
        for one in PAGES:
            self._add(app, one.path, one.method, self._endpoint(one))

    def _add(self, app: FastAPI, path: str, method: str, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        async def answered(request: Request) -> Response:
            try:
                if method == "POST":
                    check_origin(request)
                answer = await endpoint(request)
            except (MemorySQLError, RefusalError) as error:
                answer = _failed(request, error)
            if self._frame_origins and getattr(request.state, "is_own", False):
                let_frame(answer, self._frame_origins)
            return answer

        app.add_api_route(path, answered, methods=[method], include_in_schema=False)

    def _endpoint(self, one: Page) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            identity = await self._identity(request)
            if identity is None:
                return self._unknown(request, one)
            request.state.is_own = identity.user_id is not None
            agent, user = id_in(request, "agent_id"), id_in(request, "user_id")
            form = await form_of(request) if one.method == "POST" else {}
            visit = Visit(request, self._memory_of(request), identity, agent, user, form)
            if one.target is not None:
                visit.check(one.target)
            answer = await one.show(visit)
            answer.headers.update(HEADERS)
            return answer

        return endpoint

    # Who asks

    async def _identity(self, request: Request) -> Identity | None:
        entry = self._sessions.entry(request.cookies.get(COOKIE, ""))
        identity = None if entry is None else await self._bearer.known(request, bytes.fromhex(entry.secret_hash))
        return identity if entry is None or identity is None else narrowed(identity, entry)

    def _unknown(self, request: Request, one: Page) -> Response:
        if one.method == "POST":
            raise RefusalError(403, "Forbidden", "you aren't signed in, or your session is over")
        if one.path == "/":
            return page("sign_in", done=request.query_params.get("done"), problem=None)
        return _to("/")

    async def _sign_in(self, request: Request) -> Response:
        secret = (await form_of(request)).get("key", "").strip()
        if await self._bearer.identity(request, secret) is None:
            return page("sign_in", 401, done=None, problem="No key like this is accepted.")
        return self._signed_in(request, Entry(hash_of(secret).hex()))

    async def _enter(self, request: Request) -> Response:
        found = await self._memory_of(request).keys.redeem(request.query_params.get("code", ""))
        if found is None:
            return page("sign_in", 401, done=None, problem="This link was used already, or is older than a minute.")
        secret_hash, agent, user = found
        return self._signed_in(request, Entry(secret_hash.hex(), agent, user))

    def _signed_in(self, request: Request, entry: Entry) -> Response:
        """Always with a new session: what cookie came along, whoever set it, becomes none."""
        self._sessions.end(request.cookies.get(COOKIE, ""))
        in_frame = bool(self._frame_origins) and entry.user_id is not None and is_in_frame(request)
        answer = _to("/")
        answer.headers.update(cookie(COOKIE, self._sessions.begin(entry), HOURS * 3600, request, in_frame=in_frame))
        return answer

    async def _entrance(self, request: Request) -> Response:
        """For the program of a host, with its key: a link that signs one person in to their own page, and nothing else."""
        try:
            identity = await self._bearer(request)
            if identity is None:
                raise unknown_caller()
            agent, user = _person_of(await request.body())
            if identity.user_id not in (None, user):
                raise denied()
            allowed(identity, "read", agent)
            secret = request.headers["authorization"].partition(" ")[2].strip()
            code = await self._memory_of(request).keys.link(secret, agent_id=agent, user_id=user)
        except (MemorySQLError, RefusalError) as error:
            return problem_of(request, error)
        return JSONResponse({"path": f"/enter?code={code}", "seconds": LINK_SECONDS}, 201, HEADERS)

    async def _sign_out(self, request: Request) -> Response:
        self._sessions.end(request.cookies.get(COOKIE, ""))
        answer = _to("/?done=signed_out")
        in_frame = bool(self._frame_origins) and is_in_frame(request)
        answer.headers.update(cookie(COOKIE, "", 0, request, in_frame=in_frame))
        return answer


def narrowed(identity: Identity, entry: Entry) -> Identity:
    """Of a link to one person's page: what a key of theirs would allow, as far as the host's key allows it."""
    if entry.agent_id is None:
        return identity
    agents = frozenset({entry.agent_id}) if identity.agents is None else identity.agents & {entry.agent_id}
    return identity._replace(agents=agents, rights=identity.rights - {"admin"}, user_id=entry.user_id)


def _person_of(body: bytes) -> tuple[str, str]:
    """The agent and the user of a JSON object. Raises `InputError`."""
    try:
        given = json.loads(body)
    except ValueError:
        raise InputError("the body isn't JSON") from None
    if not isinstance(given, dict) or given.keys() != {"agent_id", "user_id"}:
        raise InputError("give agent_id and user_id")
    if not all(isinstance(value, str) for value in given.values()):
        raise InputError("agent_id and user_id are text")
    return host_id(given["agent_id"], "agent_id"), host_id(given["user_id"], "user_id")


async def _style(_request: Request) -> Response:
    return Response(file("style.css"), 200, _FILE, "text/css; charset=utf-8")


async def _icon(_request: Request) -> Response:
    return Response(file("icon.svg"), 200, _FILE, "image/svg+xml")


_FILE = {**HEADERS, "Cache-Control": "no-cache"}


def _to(address: str) -> Response:
    return RedirectResponse(address, 303, HEADERS)


_TITLES = {
    401: "Sign in",
    403: "This isn't allowed",
    404: "There is nothing here",
    409: "It has changed meanwhile",
    422: "That doesn't work",
    423: "A legal hold covers it",
    429: "Too many requests",
}


def _failed(request: Request, error: MemorySQLError | RefusalError) -> Response:
    """An error as a page. What is wrong with the server or the model is logged, and not told in detail."""
    if isinstance(error, RefusalError):
        return page("failed", error.status, title=_TITLES.get(error.status, "That doesn't work"), detail=error.detail)
    status = http_status(error)
    if status >= 500:
        log.warning("request %s: %s: %s", request_id_of(request), type(error).__name__, error)
    detail = "Something didn't answer. Try again later." if status >= 500 else str(error)
    return page("failed", status, title=_TITLES.get(status, "That doesn't work"), detail=detail)
