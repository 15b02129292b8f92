"""The same done with many, one after another, where one that fails stops no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from memory_sql.cli import output
from memory_sql.errors import ConfigurationError, DatabaseError, InputError, MemorySQLError, NotFoundError

if TYPE_CHECKING:
    from memory_sql.domain.results import ConsolidateResult, FormResult
    from memory_sql.memory import Memory

K = TypeVar("K")
T = TypeVar("T")

HOPELESS = (ConfigurationError, DatabaseError, InputError, NotFoundError)  # going on would help nothing


async def form_each(
    memory: Memory, agent: str, conversations: Sequence[str]
) -> tuple[list[FormResult], dict[str, str]]:
    """What was formed, and of which conversation it failed and why."""
    return await _each(
        "forming conversations",
        conversations,
        lambda s: memory.conversations.form(agent_id=agent, conversation_id=s),
        lambda s: f"conversation {s} of agent {agent}",
    )


async def consolidate_each(
    memory: Memory, agent: str, scopes: Sequence[str]
) -> tuple[list[ConsolidateResult], dict[str, str]]:
    return await _each(
        "consolidating scopes",
        scopes,
        lambda s: memory.scopes.consolidate(agent_id=agent, scope_id=s),
        lambda s: f"scope {s} of agent {agent}",
    )


async def _each(
    what: str, keys: Sequence[K], work: Callable[[K], Awaitable[T]], name: Callable[[K], str]
) -> tuple[list[T], dict[str, str]]:
    """Each piece of work done, or why not: one that fails stops no other."""
    done, failed = [], {}
    with output.Progress(what, len(keys)) as progress:
        for key in keys:
            try:
                done.append(await work(key))
            except HOPELESS:
                raise
            except MemorySQLError as error:
                failed[name(key)] = str(error)
            progress.step()
    return done, failed


def refused(formed: Sequence[FormResult]) -> dict[str, int]:
    """By reason, over all."""
    reasons = dict.fromkeys(reason for result in formed for reason in result.refused)
    return {reason: sum(result.refused.get(reason, 0) for result in formed) for reason in reasons}


def model_of(formed: Sequence[FormResult]) -> str | None:
    """`none` is what formations say that had nothing to ask."""
    models = [result.model for result in formed if result.model]
    return next((model for model in models if model != "none"), models[0] if models else None)


def end(failed: dict[str, str]) -> None:
    output.complain_of(failed)
    if failed:
        raise typer.Exit(1)
