"""A harbour's desk as a web service: bookings and what is remembered of the customers, on one engine."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from memory_sql import Memory
from memory_sql.errors import MemorySQLError, http_status

from .models import Booking

AGENT = "harbour-desk"
log = logging.getLogger(__name__)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """One engine for the process, and the memory on it; closed in the other order."""
    engine = create_async_engine(os.environ["HARBOUR_URL"], hide_parameters=True)
    try:
        async with Memory(engine=engine) as memory:
            app.state.memory = memory
            app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
            yield
    finally:
        await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(MemorySQLError)
async def failed(_request: Request, error: MemorySQLError) -> JSONResponse:
    """What the caller can change is said to the caller; the rest, which names hosts and settings, is logged."""
    status = http_status(error)
    if status < 500:
        return JSONResponse({"detail": str(error)}, status)
    log.error("memory: %s", error)
    return JSONResponse({"detail": "memory isn't available"}, status)


def memory_of(request: Request) -> Memory:
    memory: Memory = request.app.state.memory
    return memory


async def session_of(request: Request) -> AsyncIterator[AsyncSession]:
    sessions: async_sessionmaker[AsyncSession] = request.app.state.sessions
    async with sessions() as session:
        yield session


Remembering = Annotated[Memory, Depends(memory_of)]
Transaction = Annotated[AsyncSession, Depends(session_of)]


class Wish(BaseModel):
    customer: str
    berth: str
    message_id: str
    message: str


@app.post("/bookings", status_code=201)
async def book(wish: Wish, memory: Remembering, session: Transaction) -> dict[str, int]:
    """The booking and what the customer said are stored together, or neither is."""
    try:
        async with session.begin():
            booking = Booking(customer_id=wish.customer, berth=wish.berth)
            session.add(booking)
            await session.flush()
            said = {"id": wish.message_id, "role": "user", "content": wish.message}
            await memory.add(
                [said],
                agent_id=AGENT,
                user_id=wish.customer,
                conversation_id=f"desk-{wish.customer}",
                session=session,
            )
            await memory.observe(
                f"Booked berth {wish.berth}.", agent_id=AGENT, user_id=wish.customer, kind="episode", session=session
            )
    except IntegrityError:
        raise HTTPException(409, "that berth is taken") from None
    return {"booking_id": booking.booking_id}


@app.get("/context/{customer}")
async def context(customer: str, memory: Remembering, message: str | None = None) -> dict[str, str]:
    """What goes into the prompt of this customer's next turn."""
    return {"context": str(await memory.context(agent_id=AGENT, user_id=customer, message=message))}
