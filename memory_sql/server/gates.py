"""What a key that stands for a user may change, beyond what its right says: its own, and nothing in another's name.

The host's own calls trust whom the host names. A user's key is in the user's hands, so each gate asks the database first.
What isn't there and what isn't theirs look the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from memory_sql.domain.messages import Message
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError
from memory_sql.memory import Memory
from memory_sql.server.problems import denied

Gate = Callable[[Memory, str, str, Mapping[str, Any]], Awaitable[None]]
"""Given the agent, the user and the arguments: raises `RefusalError` or `NotFoundError`."""


async def adds(memory: Memory, agent: str, user: str, given: Mapping[str, Any]) -> None:
    """To a conversation that the host has begun with them; a user can't begin one under an id that the host may use later.

    They speak for themselves, by no name but their own and not as the agent, whose words would lead what is made of others';
    and neither bring the conversation into a group nor take it out of memory. Nor do they wait for what is made of it, which
    may be others'.
    """
    said = [
        Message.parse(message, n) for n, message in enumerate(given["messages"])
    ]  # as it will be read, in any shape
    named = {name for message in said for name in (message.user_id, message.name)} - {None, user}
    if named or any(message.role != "user" for message in said):
        raise denied()
    if given["group_ids"] or given["excluded"] is not None or given["time_zone"] is not None or given["wait"]:
        raise denied()
    await _takes_part(memory, agent, user, given["conversation_id"])


async def observes(memory: Memory, agent: str, user: str, given: Mapping[str, Any]) -> None:
    """For themselves or a group of theirs, not for everybody, and as nobody else.

    Where others speak as well, a fact_key would replace what another has said, and a sensitivity hide it from the group.
    """
    kind, is_group = given["scope_kind"], given["group_id"] is not None
    if given["collective"] or kind not in (None, "conversation", "individual") or given["speaker"] not in (None, user):
        raise denied()
    if (is_group or kind == "conversation") and (given["fact_key"] is not None or given["sensitivity"] is not None):
        raise denied()
    if is_group:
        await belongs(memory, agent, user, given)
    if given["conversation_id"] is not None:
        await _takes_part(memory, agent, user, given["conversation_id"])


async def belongs(memory: Memory, agent: str, user: str, given: Mapping[str, Any]) -> None:
    """To the group."""
    groups = await memory.groups.list(agent_id=agent, user_id=user)
    if given["group_id"] not in {group.group_id for group in groups}:
        raise NotFoundError("group", given["group_id"])


async def owns(memory: Memory, agent: str, user: str, given: Mapping[str, Any]) -> None:
    """Or has said it: in a group, what another member said stays theirs."""
    key = given.get("observation_id") or given["selection"]
    found = await memory.forget(Selection(user_id=user, observation_id=key), agent_id=agent, dry_run=True)
    if not found.found:
        raise NotFoundError("observation", key)


async def forgets(memory: Memory, agent: str, user: str, given: Mapping[str, Any]) -> None:
    """Of what is theirs or was said by them; what others said about them is the host's to decide."""
    if given["everything"] or given["message_id"] is not None or given["about"]:
        raise denied()


async def _takes_part(memory: Memory, agent: str, user: str, conversation_id: str) -> None:
    if not await memory.conversations.takes_part(agent_id=agent, user_id=user, conversation_id=conversation_id):
        raise NotFoundError("conversation", conversation_id)
