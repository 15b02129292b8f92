"""A message that was edited: its new text takes the place of the old, and of all that was made of that.

What was formed of the old text goes as if it had been forgotten, in one transaction with the new text; the conversation is
formed anew from there on, and so is another of which something was formed together with it. Whatever a model is making of
the old text meanwhile is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_sql.db import Session
from memory_sql.db.locks import Locks, Rows, under_locks
from memory_sql.db.queries.protected import protected_of
from memory_sql.db.queries.read_together import read_with
from memory_sql.db.repositories.additions import Known, compared, replace_messages
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.errors import InvalidMessageError
from memory_sql.lifecycle.corrections import Asked
from memory_sql.lifecycle.forgetting import take_back

Given = Sequence[Mapping[str, Any]]


async def replace(
    session: Session, asked: Asked, conversation_id: str, given: Given, positions: Sequence[int]
) -> tuple[str, ...]:
    """The ids of the messages that had another text, and have this one now.

    `given`: as the database takes them; `positions`: of these in the call.

    Raises `InvalidMessageError` where somebody else said it, another system formed it, or a person has taken what was made of
    it out of sight: what comes of the new text would be in sight again; `HeldError`.
    """
    agent_key = await agent_key_of(session, asked.agent_id)
    if agent_key is None:
        return ()

    async def act(locks: Locks) -> tuple[str, ...]:
        known = await compared(session, agent_key, conversation_id, given)
        differing = {one.message_id: one for one in known if one.differs}
        if not differing:
            return ()
        numbers = [one.number for one in differing.values()]
        _refuse(differing.values(), await protected_of(session, agent_key, conversation_id, numbers), positions)
        target: dict[str, Any] = {"conversation_id": conversation_id, "message_ids": list(differing)}
        messages = [(conversation_id, one.number) for one in differing.values()]
        beside = await read_with(session, agent_key, conversation_id, numbers)
        locks.need(conversations=beside)
        await take_back(session, asked, locks, messages, target)
        new = [
            {**given[one.place], "number": one.number, "eligible": _is_read(one, given)} for one in differing.values()
        ]
        await replace_messages(session, asked.settings, agent_key, conversation_id, new, asked.now)
        for other, theirs in beside.items():  # what was taken from these too has gone
            again = [{"number": number, "eligible": True} for number in theirs]
            await replace_messages(session, asked.settings, agent_key, other, again, asked.now)
        return tuple(differing)

    known = Rows(conversations=frozenset([conversation_id]))
    return await under_locks(session, agent_key, act, known=known, shared=True)


def _is_read(known: Known, given: Given) -> bool:
    """What was said while the conversation was excluded stays out."""
    return known.eligible and bool(given[known.place]["eligible"])


def _refuse(differing: Iterable[Known], protected: Mapping[int, str], positions: Sequence[int]) -> None:
    for one in differing:
        position = positions[one.place]
        if one.is_others:
            raise InvalidMessageError(
                position,
                "only its text can be replaced, not its role or who said it; pass the user_id under which it was said",
            )
        if one.is_imported:
            raise InvalidMessageError(
                position, "it was imported, and can't be replaced; import it again from its source"
            )
        if one.number in protected:
            made = protected[one.number]
            raise InvalidMessageError(
                position,
                f"a person has quarantined or hidden {made}, which was made of it; decide about that first, or correct it",
            )
