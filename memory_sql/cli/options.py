"""The options that commands share, and how they become settings and an open Memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from memory_sql.cli import output
from memory_sql.errors import InputError

if TYPE_CHECKING:
    from memory_sql.config import Settings
    from memory_sql.memory import Memory

T = TypeVar("T")

Agent = Annotated[str, typer.Option("--agent", metavar="ID", help="The agent whose memory it is.")]
OneAgent = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only this agent; else all.")]
User = Annotated[str, typer.Option("--user", metavar="ID", help="The user who asks: only what they may see is shown.")]
AnyUser = Annotated[str | None, typer.Option("--user", metavar="ID", help="The user.")]
Person = Annotated[str, typer.Option("--user", metavar="ID", help="The user.")]
InConversation = Annotated[str | None, typer.Option("--conversation", metavar="ID", help="The current conversation.")]
ObservationId = Annotated[str, typer.Argument(metavar="ID", help="The observation: o12-3.")]
Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope: s12, as `scope list` shows it.")]
MaybeScope = Annotated[str | None, typer.Argument(metavar="[SCOPE]", help="Only this scope: s12.")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="As of this moment of recorded time: 2026-03-02T10:15:00Z."),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most this many, 1 to 1000.")]
Before = Annotated[
    str | None,
    typer.Option("--before", metavar="POSITION", help="Continue after the page whose last one has this position."),
]
After = Annotated[str | None, typer.Option("--after", metavar="ID", help="Continue after this id, the last one shown.")]
Actor = Annotated[str | None, typer.Option("--actor", metavar="ID", help="Who does it, for the record.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm.")]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Your Postgres: postgresql://user:password@host:5432/name."),
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="The embedded Postgres in this directory instead.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one object, or one line per row of a list.")]


def resolve(url: str | None, data: Path | None) -> Settings:
    """The settings, with the database of the command line if it names one, which may be one of the shards."""
    from memory_sql.config import Settings

    if url is not None and data is not None:
        raise InputError("use either --url or --data")
    settings = Settings.load(url=url, data_dir=data)
    if url is None and data is None:
        return settings
    if settings.shards is not None:  # whose replicas are named like them
        settings = settings.model_copy(update={"shards": None, "read_url": None})
    return settings if data is None else settings.model_copy(update={"url": None})


def named_database(settings: Settings) -> str:
    """The database in words, without its password."""
    from memory_sql.config.shards import shards_of

    if settings.shards is not None:
        return f"shards {', '.join(shards_of(settings.shards))}"
    if settings.url is not None:
        return output.masked(settings.url.get_secret_value())
    return f"embedded Postgres in {settings.embedded_data_dir}"


def tell_database(url: str | None, data: Path | None, settings: Settings) -> None:
    """One line on stderr, if the command line itself doesn't say which database it is."""
    if url is None and data is None:
        other = " (set MEMORY_SQL_URL, or pass --url, for yours)" if settings.is_embedded_by_default else ""
        output.complain(f"database: {named_database(settings)}{other}")


def run(
    url: str | None,
    data: Path | None,
    work: Callable[[Memory], Awaitable[T]],
    *,
    clock: Callable[[], datetime] | None = None,
    restoring: bool = False,
    settings: Settings | None = None,
) -> T:
    """Runs `work` with an open Memory in a new event loop and returns its result. `restoring`: as in `Memory.open`.

    `settings`: instead of those that `resolve` finds.
    """
    import asyncio

    from memory_sql import Memory

    if settings is None:
        settings = resolve(url, data)
        tell_database(url, data, settings)

    async def with_memory() -> T:
        memory = Memory(settings=settings, clock=clock)
        await memory.open(restoring=restoring)
        try:
            return await work(memory)
        finally:
            await memory.close()

    return asyncio.run(with_memory())


def day(option: str, text: str | None) -> date | None:
    """Raises `InputError`."""
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} must be a day: 2026-03-01") from None


def moment(option: str, text: str | None) -> datetime | None:
    """Raises `InputError` if it isn't an ISO 8601 time."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} must be an ISO 8601 time with a zone: 2026-03-02T10:15:00Z") from None
