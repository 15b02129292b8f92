"""The same work on many items, one after another; a failure doesn't stop the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import typer

from memory_sql.cli import output
from memory_sql.errors import BusyError, ConfigurationError, DatabaseError, InputError, MemorySQLError, NotFoundError

if TYPE_CHECKING:
    from memory_sql.domain.results import ConsolidateResult, FormResult
    from memory_sql.memory import Memory

K = TypeVar("K")
T = TypeVar("T")

HOPELESS = (ConfigurationError, DatabaseError, InputError, NotFoundError)  # continuing would be pointless


async def form_each(
    memory: Memory, agent: str, conversations: Sequence[str], busy: set[str] | None = None
) -> tuple[list[FormResult], dict[str, str]]:
    """The results, and by conversation the reason of each failure. `busy` gets those that another process is forming."""
    return await _each(
        "forming conversations",
        conversations,
        lambda s: memory.conversations.form(agent_id=agent, conversation_id=s),
        lambda s: f"conversation {s} of agent {agent}",
        busy,
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
    what: str,
    keys: Sequence[K],
    work: Callable[[K], Awaitable[T]],
    name: Callable[[K], str],
    busy: set[K] | None = None,
) -> tuple[list[T], dict[str, str]]:
    """The results, and by name the reason of each failure; a failure doesn't stop the rest."""
    done, failed = [], {}
    with output.Progress(what, len(keys)) as progress:
        for key in keys:
            try:
                done.append(await work(key))
            except HOPELESS:
                raise
            except MemorySQLError as error:
                if busy is not None and isinstance(error, BusyError):
                    busy.add(key)
                else:
                    failed[name(key)] = str(error)
            progress.step()
    return done, failed


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
