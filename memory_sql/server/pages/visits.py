"""One request for a page: who asks, of which agent and person, and what they may do there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from memory_sql.domain.ids import host_id
from memory_sql.domain.keys import Right
from memory_sql.errors import InputError
from memory_sql.memory import Memory
from memory_sql.server.calls import CALLS
from memory_sql.server.gates import Gate
from memory_sql.server.identity import Identity, allowed
from memory_sql.server.pages.rendering import page
from memory_sql.server.paths import ids_of
from memory_sql.server.problems import denied

MOST_FIELDS = 20
FORM = "application/x-www-form-urlencoded"

# The calls of the API, of which a page needs the right and passes the gate; and what only pages show.
_CALLS = {call.target: (call.right, call.own, call.gate) for call in CALLS if not call.fixed}
_MORE: Mapping[str, tuple[Right, Right | None, Gate | None]] = {
    "work.dead": ("admin", None, None),
    "work.failures": ("admin", None, None),
    "work.retry": ("admin", None, None),
    "work.discard": ("admin", None, None),
    "admin.agents": ("admin", None, None),
    "imports.list": ("admin", None, None),
    "keys.list": ("admin", None, None),
    "keys.create": ("admin", None, None),
    "keys.revoke": ("admin", None, None),
}
RIGHTS = {**_CALLS, **_MORE}


@dataclass(frozen=True)
class Visit:
    """`agent` and `user` None: the page isn't about one."""

    request: Request
    memory: Memory
    identity: Identity
    agent: str | None = None
    user: str | None = None
    form: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def path_ids(self) -> dict[str, str]:
        return ids_of(self.request)

    @property
    def whose(self) -> dict[str, Any]:
        """The agent and the user, for a call."""
        return {name: value for name, value in (("agent_id", self.agent), ("user_id", self.user)) if value is not None}

    @property
    def of_agent(self) -> dict[str, Any]:
        """The agent, for a call that names no user."""
        assert self.agent is not None
        return {"agent_id": self.agent}

    @property
    def actor(self) -> str | None:
        """Who did it, for the events; None: the user themselves."""
        return self.identity.name if self.identity.user_id is None else None

    @property
    def is_own(self) -> bool:
        """Whether the key stands for the person whose page it is."""
        return self.identity.user_id is not None

    def may(self, target: str) -> bool:
        """Whether the key has the right for that call, by which a page shows a link or a button."""
        right = self._right(target)
        return right is not None and self.identity.may(right, self.agent)

    def check(self, target: str) -> None:
        """Raises the one 403."""
        right = self._right(target)
        if right is None or (self.is_own and self.user not in (None, self.identity.user_id)):
            raise denied()
        allowed(self.identity, right, self.agent)

    async def pass_gate(self, target: str, **given: Any) -> None:
        """As the API does before the call: raises `RefusalError` or `NotFoundError`."""
        gate = RIGHTS[target][2]
        if self.is_own and gate is not None:
            assert self.agent is not None
            assert self.identity.user_id is not None
            await gate(self.memory, self.agent, self.identity.user_id, given)

    def _right(self, target: str) -> Right | None:
        right, own, _ = RIGHTS[target]
        return own if self.is_own else right

    def query(self, name: str) -> str | None:
        """Of the address; None: it isn't there, or empty."""
        return self.request.query_params.get(name, "").strip() or None

    # Addresses

    @property
    def agent_path(self) -> str:
        return path("agents", self.agent)

    @property
    def person_path(self) -> str:
        return path("agents", self.agent, "people", self.user)

    @property
    def home(self) -> str:
        """The page of what is visited."""
        if self.agent is None:
            return "/"
        return self.agent_path if self.user is None else self.person_path


def path(*parts: str | None) -> str:
    """An address of ours, with ids as one piece each."""
    return "".join(f"/{quote(part, safe='')}" for part in parts if part is not None)


def id_in(request: Request, name: str) -> str | None:
    """The id in the address. Raises `InputError` for what can't be one."""
    value = ids_of(request).get(name)
    return None if value is None else host_id(value, name)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, each once. Raises `InputError`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise InputError(f"send {FORM}")
    body = await request.body()
    try:
        text = body.decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise InputError("the form can't be read") from None
    found = dict(fields)
    if len(found) < len(fields):
        raise InputError("a field of the form is given twice")
    return {name: value.replace("\r\n", "\n") for name, value in found.items()}


def back(address: str, done: str) -> Response:
    """On to that page, which then says what was done (`wording.TOLD`)."""
    return RedirectResponse(f"{address}?done={done}", 303)


def shown(visit: Visit, name: str, status: int = 200, **values: Any) -> Response:
    """The template for this visit."""
    return page(name, status, visit=visit, done=visit.request.query_params.get("done"), **values)
