"""What clients do in a concurrent life: every operation of the library, and its effect on the ledger."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.prove.concurrent_life.correcting import Correcting
from tests.prove.concurrent_life.forgetting import Forgetting
from tests.prove.concurrent_life.importing import Importing
from tests.prove.concurrent_life.looking import Looking
from tests.prove.concurrent_life.talking import Talking
from tests.prove.concurrent_life.world import CALL_SECONDS, REFUSALS, NothingToDoError, World


class Client(Talking, Correcting, Forgetting, Importing, Looking):
    """Does one operation after another."""

    def __init__(self, world: World, memory: Memory, seed: int) -> None:
        super().__init__(world, memory, seed)
        self.operations: dict[str, Callable[[], Awaitable[None]]] = {name: getattr(self, name) for name in WEIGHTS}

    async def do(self, name: str) -> None:
        """One operation; what it raises is a refusal of ours, or something found."""
        crashes = self.world.crashes
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self.operations[name]()
        except NothingToDoError:
            self.world.refused[f"{name}: nothing to do it with"] += 1
        except REFUSALS as error:
            self.world.refused[f"{name}: {type(error).__name__}"] += 1
        except DatabaseError as error:
            if not self.world.excuses(error, crashes):
                self.world.found(f"{name} surfaced {type(error).__name__}: {error}")
        except TimeoutError as error:
            self.world.found(f"{name} took more than {CALL_SECONDS} s, at {_place(error.__cause__ or error)}")
        except Exception as error:  # noqa: BLE001 (that is what is looked for)
            self.world.found(f"{name} ended in {type(error).__name__} at {_place(error)}: {str(error)[:300]}")
        else:
            self.world.did[name] += 1

    async def verify(self) -> None:
        """At any moment, also under load. What was stored just as a setting changed is due once a worker has caught up."""
        found = await self.memory.admin.verify()
        for _ in range(CATCHES_UP):  # what somebody holds meanwhile is left
            if not any(one.invariant.endswith("_are_due") for one in found):
                break
            await self.memory.work.catch_up()
            found = await self.memory.admin.verify()
        for one in found:
            if one.invariant not in self.world.unjudged:
                self.world.found(f"meanwhile, {one.invariant}: {one.key} {one.detail}")

    async def export(self) -> None:
        agent = self.agent()
        gone = self.ledger.gone()
        async for line in self.memory.people.export(agent_id=agent, user_id=self.name(agent, "user")):
            self.none_of(gone, line.model_dump_json(), f"an export of {line}")

    async def read(self) -> None:
        await self.read_without(self.agent(), self.ledger.gone())


def _place(error: BaseException) -> str:
    """Where in the library it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames if "memory_sql" in frame.filename]
    return " ".join(ours[-3:])


CATCHES_UP = 20
WEIGHTS = {
    "add": 30, "observe": 10, "host": 3, "form": 6, "form_again": 5, "consolidate": 8, "propagate": 5, "run_due": 3,
    "undo": 3, "update": 4, "supersede": 3, "reinstate": 3, "resolve": 2, "confirm": 2, "dispute": 1, "quarantine": 3,
    "feedback": 3, "say_again": 6,
    "quarantine_selected": 2, "unquarantine": 3, "mark": 2, "retry": 1, "discard": 1, "merge": 2, "unmerge": 2,
    "rename": 2, "join": 2, "leave": 3,
    "exclude": 1, "configure": 2, "create_scope": 3, "set_scope": 3,
    "set_prompt": 2, "hold": 2, "release": 2, "forget_user": 3, "forget_conversation": 2, "forget_group": 1,
    "forget_message": 2, "forget_observation": 2, "forget_query": 1, "forget_tag": 1, "forget_fact": 1, "forget_source": 1,
    "forget_run": 1, "forget_everything": 1, "forget_dry": 1, "trim": 1, "maintain": 1, "review": 1, "verify": 2,
    "export": 1, "read": 6, "look": 8, "claim": 2, "import_new": 4, "import_again": 3, "import_dry": 1, "rollback": 2,
    "verify_imports": 1,
}  # fmt: skip
