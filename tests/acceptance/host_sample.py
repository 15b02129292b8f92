"""A host's code, checked by mypy and pyright against the wheel. It isn't run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, SecretStr
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from memory_sql import (
    AddResult,
    AgentSettings,
    Answer,
    ConfigurationError,
    Context,
    Digest,
    Group,
    HeldError,
    Hold,
    Id,
    ImportRun,
    LanguageModel,
    LanguageModelError,
    Memory,
    MemorySQLError,
    Message,
    NotFoundError,
    Observation,
    Receipt,
    Request,
    Scope,
    ScopePrompt,
    SearchResult,
    Selection,
    Settings,
    TooLargeError,
    Usage,
    UserSummary,
    VersionError,
    Worked,
    Worker,
    __version__,
    sync,
)
from memory_sql.sync import Memory as SyncMemory

T = TypeVar("T", bound=BaseModel | str)

SETTINGS = Settings(
    pool_size=10,
    url=SecretStr("postgresql://db.example/app"),
    data_dir=Path("data"),
    llm="openai",
    message_retention_days=None,
    context_order=("collective", "individual"),
    digest_tags=("pinned",),
    time_zone="Europe/Berlin",
)
LOADED = Settings.load(pool_size=10)


class Echo:
    """A language model of the host's."""

    async def generate(self, request: Request[T]) -> Answer[T]:
        raise LanguageModelError(f"{request.model} has nothing to say")


def model() -> LanguageModel:
    return Echo()


def messages(user: Id) -> list[Message]:
    return [
        Message(role="user", content="I like tea.", id=1, user_id=user, created_at=datetime.now(UTC)),
        Message(role="assistant", content=None, tool_calls=[{"function": {"name": "kettle"}}]),
        Message(role="user", content=["Two cups, ", {"type": "text", "text": "please."}], name="Mia"),
    ]


async def turn(memory: Memory, user: UUID, question: str) -> str:
    added: AddResult = await memory.add(messages(user), agent_id="ada", user_id=user, conversation_id=42, wait=True)
    await memory.add([{"role": "user", "content": question}], agent_id="ada", user_id=user, conversation_id=42)
    context: Context = await memory.context(agent_id="ada", user_id=user, message=question, budget_tokens=2000)
    digest: Digest = await memory.digest(agent_id="ada", user_id=user)
    found: SearchResult = await memory.search(question, agent_id="ada", user_id=user, top_k=3)
    told: list[str] = [hit.observation.content for hit in found.results]
    return "\n".join([str(context), str(digest), *told, str(added.accepted), str(added.run_id), __version__])


async def correct(memory: Memory, user: int) -> Observation | None:
    learnt: Observation = await memory.observe("Mia lives in Oslo.", agent_id="ada", user_id=user, tags=["home"])
    try:
        moved = await memory.observations.update(
            learnt.id, agent_id="ada", user_id=user, text="Mia lives in Bergen.", if_version=learnt.version
        )
    except VersionError as error:
        superseded_by: str | None = error.by
        return None if superseded_by is None else learnt
    await memory.observations.confirm(moved.id, agent_id="ada", user_id=user)
    since: datetime = moved.observed_at
    return moved if since.tzinfo else None


async def forget(memory: Memory, user: str) -> Receipt | int:
    try:
        return await memory.forget(Selection(user_id=user), agent_id="ada", reason="asked to")
    except HeldError as error:
        return error.holds
    except (NotFoundError, TooLargeError, ConfigurationError):
        raise
    except LanguageModelError as error:
        usage: Usage | None = error.usage
        reason: str = error.reason
        raise RuntimeError(reason, usage) from error
    except MemorySQLError as error:
        stored: AddResult | None = error.added
        return 0 if stored is None else stored.accepted


def in_one_transaction(memory: sync.Memory, engine: Engine) -> list[Observation]:
    """Without await."""
    with Session(engine) as joined, joined.begin():
        told: Observation = memory.observe("Likes tea.", agent_id="ada", user_id="mia", session=joined)
        memory.forget(told.id, agent_id="ada", session=joined)
        return memory.observations.list(agent_id="ada", user_id="mia", session=joined)


async def joined(memory: Memory, session: AsyncSession) -> Observation:
    return await memory.observe("Likes tea.", agent_id="ada", user_id="mia", session=session)


async def look(memory: Memory, user: str) -> list[str]:
    scopes: list[Scope] = await memory.scopes.list(agent_id="ada", user_id=user)
    known: list[Observation] = await memory.observations.list(agent_id="ada", user_id=user)
    groups: list[Group] = await memory.groups.list(agent_id="ada")
    people: list[UserSummary] = await memory.people.list(agent_id="ada")
    holds: list[Hold] = await memory.holds.list(agent_id="ada")
    prompts: list[ScopePrompt] = await memory.prompts.list(agent_id="ada")
    imports: list[ImportRun] = await memory.imports.list()
    lines: list[str] = [line.type async for line in memory.people.export(agent_id="ada", user_id=user)]
    texts = [*(scope.consolidation or "" for scope in scopes), *(one.content for one in known)]
    return [*texts, *lines, str(len([*groups, *people, *holds, *prompts, *imports]))]


async def configure(memory: Memory) -> dict[str, Any]:
    await memory.configure(agent_id="ada", formation_messages=20, time_zone="Asia/Tokyo", formation_rest_minutes=5)
    await memory.configure(agent_id="ada", digest_tags=["work"], message_retention_days="forever", sharing=None)
    own: AgentSettings = {"context_order": ("collective", "group"), "digest_sensitivities": ["public"]}
    return await memory.configure(agent_id="ada", **own)


def configure_and_list(memory: SyncMemory) -> list[Observation]:
    memory.configure(agent_id="ada", pending_max=5)
    return memory.observations.list(agent_id="ada", user_id="mia")


async def main(stop: asyncio.Event) -> tuple[str, Worked]:
    async with Memory("postgresql://db.example/app", model(), SETTINGS, clock=lambda: datetime.now(UTC)) as memory:
        await memory.run_due(limit=10)
        worked: Worked = await Worker(memory, concurrency=LOADED.pool_size).run(stop)
        return await turn(memory, UUID(int=1), "What do I drink?"), worked
