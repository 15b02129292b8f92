"""The same work on many items, one after another; a failure doesn't stop the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import typer

from memory_sql.cli import output
from memory_sql.cli.progress import each
from memory_sql.errors import BusyError, ConfigurationError, DatabaseError, InputError, MemorySQLError, NotFoundError

if TYPE_CHECKING:
    from memory_sql.domain.results import ConsolidateResult, FormResult
    from memory_sql.memory import Memory

K = TypeVar("K")
T = TypeVar("T")

HOPELESS = (ConfigurationError, DatabaseError, InputError, NotFoundError)  # continuing would be pointless


async def form_each(
    memory: Memory, agent: str, conversations: Sequence[str], *, quiet: bool = False
) -> tuple[list[FormResult], dict[str, str]]:
    """The results, and by conversation the reason of each failure. `quiet`: no progress is shown."""
    done: list[FormResult] = []
    return done, await form_into(done.append, memory, agent, conversations, quiet=quiet)


async def form_into(
    take: Callable[[FormResult], None],
    memory: Memory,
    agent: str,
    conversations: Sequence[str],
    busy: set[str] | None = None,
    *,
    quiet: bool = False,
) -> dict[str, str]:
    """As `form_each`; `take` gets each result, and `busy` the conversations that another process is forming."""
    return await _each(
        each(conversations, "forming", "conversations", quiet=quiet),
        lambda s: memory.conversations.form(agent_id=agent, conversation_id=s),
        take,
        lambda s: f"conversation {s} of agent {agent}",
        busy,
    )


async def consolidate_each(
    memory: Memory, agent: str, scopes: Sequence[str], *, quiet: bool = False
) -> tuple[list[ConsolidateResult], dict[str, str]]:
    done: list[ConsolidateResult] = []
    failed = await _each(
        each(scopes, "consolidating", "scopes", quiet=quiet),
        lambda s: memory.scopes.consolidate(agent_id=agent, scope_id=s),
        done.append,
        lambda s: f"scope {s} of agent {agent}",
    )
    return done, failed


async def _each(
    keys: Generator[K],
    work: Callable[[K], Awaitable[T]],
    take: Callable[[T], None],
    name: Callable[[K], str],
    busy: set[K] | None = None,
) -> dict[str, str]:
    """By name the reason of each failure; a failure doesn't stop the rest."""
    failed = {}
    with closing(keys):
        for key in keys:
            try:
                take(await work(key))
            except HOPELESS:
                raise
            except MemorySQLError as error:
                if busy is not None and isinstance(error, BusyError):
                    busy.add(key)
                else:
                    failed[name(key)] = str(error)
    return failed


def refused(formed: Sequence[FormResult]) -> dict[str, int]:
    """The total counts, by reason."""
    reasons = dict.fromkeys(reason for result in formed for reason in result.refused)
    return {reason: sum(result.refused.get(reason, 0) for result in formed) for reason in reasons}


def model_of(formed: Sequence[FormResult]) -> str | None:
    """The model that was used; `none` if no formation needed one."""
    models = [result.model for result in formed if result.model]
    return next((model for model in models if model != "none"), models[0] if models else None)


def end(failed: dict[str, str]) -> None:
    output.complain_of(failed)
    if failed:
        raise typer.Exit(1)
