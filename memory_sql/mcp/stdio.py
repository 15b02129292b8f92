"""For one person on their own machine: a client starts the process and speaks to it by its standard streams."""

from __future__ import annotations

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from memory_sql import __version__
from memory_sql.domain.arguments import id_of
from memory_sql.domain.ids import Id
from memory_sql.mcp.server import Caller, Request, server_for
from memory_sql.memory import Memory
from memory_sql.tools import MemoryTools, Policy


def server(
    memory: Memory,
    *,
    agent_id: Id,
    user_id: Id,
    group_ids: tuple[Id, ...] = (),
    policy: Policy = Policy(),  # noqa: B008  # frozen
) -> Server:
    """A server whose every request is of this user. Raises `InputError`."""
    tools = MemoryTools(memory, agent_id=agent_id, user_id=user_id, group_ids=group_ids, policy=policy)
    caller = Caller(memory, tools, id_of("agent_id", agent_id), id_of("user_id", user_id))

    async def calling(_: Request) -> Caller:
        return caller

    return server_for(calling, __version__)


async def serve(
    memory: Memory,
    *,
    agent_id: Id,
    user_id: Id,
    group_ids: tuple[Id, ...] = (),
    policy: Policy = Policy(),  # noqa: B008  # frozen
) -> None:
    """Answers on the standard streams until the client closes them. Nothing else may write to stdout."""
    served = server(memory, agent_id=agent_id, user_id=user_id, group_ids=group_ids, policy=policy)
    async with stdio_server() as (read, write):
        await served.run(read, write, served.create_initialization_options())
