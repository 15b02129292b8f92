"""A harbour books berths, and its assistant remembers the customers: both are stored together, or neither is.

README.md says how to run it.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeVar

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from memory_sql import Memory

from .models import Booking, Customer

AGENT = "harbour-master"
SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
T = TypeVar("T")


@dataclass(frozen=True)
class Wish:
    """What a customer asked for, and the conversation in which that was."""

    customer: str
    club: str
    berth: str
    night: date
    conversation: str
    messages: Sequence[dict[str, Any]]
    boat: str | None = None


async def book(sessions: async_sessionmaker[AsyncSession], memory: Memory, wish: Wish) -> int:
    """The number of the booking. Raises `IntegrityError` when the berth is taken; then nothing is remembered either."""
    async with sessions.begin() as session:
        booking_id = await store(session, wish)
        await remember(session, memory, wish, booking_id)
    return booking_id


async def store(session: AsyncSession, wish: Wish) -> int:
    await session.execute(insert(Customer).values(customer_id=wish.customer).on_conflict_do_nothing())
    booking = Booking(customer_id=wish.customer, berth=wish.berth, night=wish.night, boat=wish.boat)
    session.add(booking)
    await session.flush()
    return booking.booking_id


async def remember(session: AsyncSession, memory: Memory, wish: Wish, booking_id: int) -> None:
    await memory.add(
        wish.messages,
        agent_id=AGENT,
        user_id=wish.customer,
        conversation_id=wish.conversation,
        group_ids=[wish.club],
        session=session,
    )
    await memory.observe(
        f"Booked berth {wish.berth} for the night of {wish.night}.",
        agent_id=AGENT,
        user_id=wish.customer,
        metadata={"booking_id": booking_id},
        session=session,
    )


async def retrying(transaction: Callable[[], Awaitable[T]], attempts: int = 5) -> T:
    """Runs the whole transaction again when Postgres asks for it: what REPEATABLE READ and SERIALIZABLE call for."""
    for attempt in range(1, attempts):
        try:
            return await transaction()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in (SERIALIZATION_FAILURE, DEADLOCK):
                raise
        await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))
    return await transaction()


async def catch_up(memory: Memory) -> int:
    """What a scheduler calls once a minute: asks the model about what is due. The number of new observations."""
    done = await memory.run_due(agent_id=AGENT)
    return sum(len(formed.observations) for formed in done.formed)


async def main(url: str) -> None:
    said = "I prefer a berth near the crane, and my boat Skua draws two metres."
    wish = Wish(
        customer="mia",
        club="yacht-club",
        berth="C4",
        night=date(2026, 6, 5),
        conversation="phone-17",
        messages=[{"id": "17-1", "role": "user", "content": said}],
        boat="Skua",
    )
    engine = create_async_engine(url, hide_parameters=True)  # errors that end up in a log must not quote a customer
    async with Memory(url) as memory:
        try:
            await retrying(lambda: book(async_sessionmaker(engine), memory, wish))
        except IntegrityError:
            print(f"Berth {wish.berth} is taken.")  # noqa: T201
        await catch_up(memory)
        print(await memory.context(agent_id=AGENT, user_id="mia"))  # noqa: T201
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(os.environ["HARBOUR_URL"]))
