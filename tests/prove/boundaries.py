"""The same small life, killed at every point where it talks to the database, and then resumed.

    python -m tests.prove.boundaries --url postgresql://… [--every 7]

A point is before or after a statement or a commit. Each time a separate agent adds messages, forms, consolidates, undoes and
consolidates again; then what is said against one of them is added, formed, consolidated and found by a recheck. After the
kill the same messages are sent again, and whatever is due is run. Then every message must have been formed once and be in
the text once, and what was spoken against be superseded. `verify` runs at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections import Counter
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import event, text

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.memory import Memory
from tests.prove.kills import SETTINGS
from tests.prove.models import Copying

# A lease that is renewed under load would be a point that no other life comes to.
QUICK = Settings(**{**SETTINGS.model_dump(), "lease_seconds": 600.0, "formation_cold_minutes": 0.0, "llm": "offline"})
ONLY_ONCE = 5  # points at most that only the first life comes to
SAID = [{"role": "user", "content": f"m{n}", "id": f"m{n}"} for n in range(12)]
AGAINST = [{"role": "user", "content": "m12, not fact m3", "id": "m12"}]  # the text has absorbed m3 by then


async def live(memory: Memory, agent: str) -> None:
    await memory.add(SAID, agent_id=agent, user_id="u", conversation_id="s")
    await memory.conversations.form(agent_id=agent, conversation_id="s")
    (scope,) = await memory.scopes.list(agent_id=agent, user_id="u")
    await memory.scopes.consolidate(agent_id=agent, scope_id=scope.ref.id)
    await memory.scopes.undo(agent_id=agent, scope_id=scope.ref.id)
    await memory.scopes.consolidate(agent_id=agent, scope_id=scope.ref.id)
    await memory.add(AGAINST, agent_id=agent, user_id="u", conversation_id="s")
    await memory.conversations.form(agent_id=agent, conversation_id="s")
    await memory.scopes.consolidate(agent_id=agent, scope_id=scope.ref.id)
    await memory.work.recheck(agent_id=agent, scope_id=scope.ref.id)


async def live_until(url: str, agent: str, point: int) -> int:
    """Lives, and kills the process at that point; says how many points there are if there is no such."""
    passed = 0

    def reach(*_: Any) -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async with Memory(url, Copying(), QUICK) as memory:
        engine = memory.database.engine.sync_engine
        event.listen(engine, "before_cursor_execute", reach)
        event.listen(engine, "after_cursor_execute", reach)
        commit = engine.dialect.do_commit

        def watched(connection: Any) -> None:
            reach()
            commit(connection)
            reach()

        setattr(engine.dialect, "do_commit", watched)  # noqa: B010 (a method, replaced)
        fetch = asyncpg.Connection.fetch

        async def fetched(connection: Any, statement: str, *parameters: Any) -> Any:
            """Of what goes past SQLAlchemy; it commits by itself."""
            reach()
            rows = await fetch(connection, statement, *parameters)
            reach()
            return rows

        asyncpg.Connection.fetch = fetched
        try:
            await live(memory, agent)
        finally:
            asyncpg.Connection.fetch = fetch
    return passed


async def take_up(url: str, agent: str) -> list[str]:
    """What a client and a worker do after the crash, and what is wrong then."""
    async with Memory(url, Copying(), QUICK) as memory:
        await memory.add([*SAID, *AGAINST], agent_id=agent, user_id="u", conversation_id="s")
        await end_leases(memory)
        await memory.conversations.form(agent_id=agent, conversation_id="s")
        for scope in await memory.scopes.list(agent_id=agent, user_id="u"):
            await memory.scopes.consolidate(agent_id=agent, scope_id=scope.ref.id)
            await memory.work.recheck(agent_id=agent, scope_id=scope.ref.id)
        facts = Counter(o.content[5:] for o in await memory.observations.list(agent_id=agent, user_id="u", limit=1000))
        (scope,) = await memory.scopes.list(agent_id=agent, user_id="u")
    told = Counter(line[5:] for line in (scope.consolidation or "").splitlines())
    said = Counter(str(message["content"]) for message in (*SAID, *AGAINST))
    found = (("formed", facts, said - Counter(["m3"])), ("told", told, said))
    return [f"{name}: {there}" for name, there, wanted in found if there != wanted]


async def end_leases(memory: Memory) -> None:
    """As if what the dead one had taken had run out."""
    async with memory.database.statement() as session:
        for table in ("conversations", "scopes"):
            ended = f"UPDATE memory.{table} SET lease_until = now() - interval '1 second' WHERE lease_until > now()"  # noqa: S608
            await session.execute(text(ended))


def killed_at(url: str, agent: str, point: int) -> bool:
    pid = os.fork()
    if not pid:
        asyncio.run(live_until(url, agent, point))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


async def verify(url: str) -> list[str]:
    async with Memory(url, Copying(), QUICK) as memory:
        return [f"{v.invariant}: {v.key} {v.detail}" for v in await memory.admin.verify()]


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--every", type=int, default=1, help="each how manieth point is tried")
    given = arguments.parse_args()
    migrate.upgrade(given.url)
    points = asyncio.run(live_until(given.url, "whole", 0))
    tried = range(1, points + 1, given.every)
    problems = []
    for point in tried:
        if not killed_at(given.url, f"a{point}", point):
            assert point > points - ONLY_ONCE, f"point {point} was not reached"
        problems += [f"point {point}: {problem}" for problem in asyncio.run(take_up(given.url, f"a{point}"))]
    problems += asyncio.run(verify(given.url))
    print("\n".join(problems) or f"{len(tried)} of {points} points: nothing lost, nothing doubled")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
