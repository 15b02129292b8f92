"""`memory-sql mcp`: the tools of memory for a program that speaks MCP."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from memory_sql.cli.options import Agent, Data, Url, run
from memory_sql.errors import ConfigurationError


def mcp(
    agent: Agent,
    user: Annotated[str, typer.Option("--user", metavar="ID", help="Whose memory it is; no tool can name another.")],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="ID", help="A group of this user that may be written to. Repeatable."),
    ] = None,
    forget: Annotated[
        Literal["no", "hide", "erase"],
        typer.Option("--forget", metavar="HOW", help="no, hide (can be taken back), or erase."),
    ] = "hide",
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes anything.")] = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Serves memory to a program that speaks MCP, on stdin and stdout.

    \b
    memory-sql mcp --agent ada --user mia

    The program starts it: docs/mcp.md has what to paste into Claude Desktop, Claude Code, Cursor, VS Code and Codex.
    """
    from memory_sql.tools import Policy

    try:
        from memory_sql.mcp.stdio import serve
    except ModuleNotFoundError as error:
        raise ConfigurationError('MCP needs a package: pip install "memory-sql[mcp]"') from error
    groups = tuple(group or ())
    policy = Policy(writes=not read_only, groups=frozenset(groups), forget="no" if read_only else forget)
    run(url, data, lambda memory: serve(memory, agent_id=agent, user_id=user, group_ids=groups, policy=policy))
