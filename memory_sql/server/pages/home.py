"""The way in: agents, and the people of an agent."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import RedirectResponse

from memory_sql.domain.ids import host_id
from memory_sql.errors import InputError
from memory_sql.server.pages.visits import Visit, path, shown

MOST_AGENTS = 200
MOST_PEOPLE = 100


async def start(visit: Visit) -> Response:
    """The agents that the key is for. With one of a person: their page."""
    known = visit.identity.agents
    if known is not None and len(known) == 1:
        (only,) = known
        to = path("agents", only, *(("people", visit.identity.user_id) if visit.is_own else ()))
        return RedirectResponse(to, 303)
    if known is None and visit.may("admin.agents"):
        after = visit.query("after")
        agents = [one.id for one in await visit.memory.admin.agents(after=after, limit=MOST_AGENTS)]
        more = agents[-1] if len(agents) == MOST_AGENTS else None
        return shown(visit, "agents", agents=agents, more=more)
    return shown(visit, "agents", agents=None if known is None else sorted(known), more=None)


async def named_agent(visit: Visit) -> Response:
    """On to the agent whose id was typed."""
    agent = _typed(visit, "agent")
    return RedirectResponse(path("agents", agent, *(("people", visit.identity.user_id) if visit.is_own else ())), 303)


async def named_person(visit: Visit) -> Response:
    """On to the person whose id was typed."""
    return RedirectResponse(path("agents", visit.agent, "people", _typed(visit, "user")), 303)


def _typed(visit: Visit, name: str) -> str:
    value = visit.query(name)
    if value is None:
        raise InputError(f"type the id of the {'person' if name == 'user' else name}")
    return host_id(value, name)


async def agent(visit: Visit) -> Response:
    """Its people and groups, and how much work waits."""
    memory, of_agent = visit.memory, visit.of_agent
    people, backlog, after = None, None, visit.query("after")
    if visit.may("people.list"):
        people = await memory.people.list(**of_agent, after=after, limit=MOST_PEOPLE)
    if visit.may("work.backlog"):
        backlog = await memory.work.backlog(**of_agent)
    groups = (await memory.groups.list(**of_agent))[:MOST_PEOPLE]
    more = people[-1].user_id if people and len(people) == MOST_PEOPLE else None
    return shown(visit, "agent", people=people, groups=groups, backlog=backlog, more=more)
