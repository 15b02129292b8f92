"""Values of wrong types: every call of `Memory` refuses them at once, by `InputError` or Python's own `TypeError`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.config.scopes import ScopeSettings
from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from memory_sql.resources.faces import FACES
from memory_sql.sync import Memory as SyncMemory
from tests.database import rows
from tests.factories import message
from tests.fakes import Parrot

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
OWN = ("add", "observe", "configure", "run_due", "context", "digest", "search", "forget")
WRONG: dict[str, Any] = {
    "None": None,
    "whole": 2**70,
    "minus": -1,
    "number": 1.5,
    "nan": float("nan"),
    "bool": True,
    "bytes": b"x",
    "text": "no",
    "half": "\ud83d",
    "list": [5],
    "lists": [[None]],
    "mapping": {"a": {1: float("nan")}},
    "empty": (),
    "no text": "",
    "set": {5},
    "naive": datetime(2026, 1, 1),  # noqa: DTZ001
    "object": object(),
    "class": Exception,
    "path": Path("nowhere"),
}
# By words in the annotation of a parameter, the wrong values that it may take: they are right, or an unknown name.
RIGHT: dict[str, set[str]] = {
    "None": {"None"},
    "bool": {"bool"},
    "Id": {"whole", "minus", "text"},
    "str": {"text", "half", "no text"},
    "Iterable": {"empty"},
    "Iterable[Id]": {"list", "set"},
    "Decimal": {"number"},
    "float": {"number"},
    "Callable": {"class"},
    "Sequence": {"empty"},
    "Path": {"path", "text", "half"},
    "MessageLike": {"text", "half", "no text", "empty"},  # what a user said
}


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), Settings(llm="offline")) as opened:
        yield opened
        assert await opened.admin.verify() == []


async def values(memory: Memory) -> dict[str, Any]:
    """A right value for each parameter that has no default."""
    await memory.groups.create("harbor", **ADA)
    await memory.add([message("I sail a sloop.", n=1)], **MIA, conversation_id="s")
    await memory.conversations.form(**ADA, conversation_id="s")
    older, newer = [await memory.observe(text, **MIA) for text in ("She likes tea.", "She likes rum.")]
    hold = await memory.holds.place(**ADA, user_id="zoe")
    made = await memory.keys.create("chat", rights=["read"])
    return {
        **MIA,
        "conversation_id": "s",
        "group_id": "harbor",
        "scope_id": older.scope.id,
        "observation_id": older.id,
        "old_id": older.id,
        "new_id": newer.id,
        "messages": [message("Hi.", n=7)],
        "text": "She likes ale.",
        "value": 1,
        "texts": ["tea"],
        "kind": "user",
        "selection": Selection(tag="unknown"),
        "query": "tea",
        "hold_id": hold.hold_id,
        "run_id": 1,
        "run": 1,
        "into_user_id": "mara",
        "old": "nobody",
        "new": "somebody",
        "review_id": f"claim-{older.id}-{older.scope.id}",
        "accept": False,
        "resolved": "fulfilled",
        "journal_file": Path("nowhere"),
        "view": "v_users",
        "to": BytesIO(),
        "settings": ScopeSettings(),
        "episode_id": "e1",
        "name": "extraction",
        "display_name": "Harbor",
        "body": "Boats.",
        "sharing": "auto",
        "key": b"k" * 32,
        "mem0_url": "postgresql://nobody@127.0.0.1:9/mem0",
        "key_id": made.key_id,
        "rights": ["read"],
        "secret": made.secret,
        "secret_hash": sha256(made.secret.encode()).digest(),
        "code": "x",
        "action": "store_note",
        "outcome": "applied",
        "model": "m",
        "input_per_million": 1,
        "output_per_million": 1,
        "currency": "EUR",
    }


def calls(memory: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield from ((name, getattr(memory, name)) for name in OWN)
    for face in FACES:
        of = getattr(memory, face)
        names = (name for name, value in inspect.getmembers_static(type(of)) if inspect.isroutine(value))
        yield from ((f"{face}.{name}", getattr(of, name)) for name in names if not name.startswith("_"))


def parameters(call: Callable[..., Any]) -> dict[str, str]:
    """The annotation of each by its name."""
    found = inspect.signature(call).parameters.values()
    return {p.name: str(p.annotation) for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


async def done(call: Callable[..., Any], given: dict[str, Any]) -> None:
    found = call(**given)
    if inspect.isasyncgen(found):
        async for _ in found:
            pass
    elif inspect.isawaitable(found):
        await found


def is_pythons(error: TypeError) -> bool:
    """Not a driver's, nor SQLAlchemy's."""
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    return not any("sqlalchemy" in frame.filename or "asyncpg" in frame.filename for frame in frames)


@pytest.mark.slow
async def test_values_of_wrong_types_are_refused(memory: Memory) -> None:
    right, odd = await values(memory), list[str]()
    for name, call in calls(memory):
        wanted = {p.name for p in inspect.signature(call).parameters.values() if p.default is p.empty}
        more = {"user_id": "mia"} if name in ("observe", "holds.place") else {}
        more |= {"kind": "formation"} if name == "work.claim" else {}
        for parameter, annotation in parameters(call).items():
            base = {n: right[n] for n in parameters(call) if n in wanted} | more
            taken = {value for word, some in RIGHT.items() if word in annotation for value in some}
            taken |= {"minus"} if parameter == "value" else set()  # of no use, says feedback
            for label, value in WRONG.items():
                if label in taken:
                    continue
                try:
                    async with asyncio.timeout(10):
                        await done(call, {**base, parameter: value})
                except InputError:
                    continue
                except TypeError as error:
                    if is_pythons(error):
                        continue
                    odd.append(f"{name}({parameter}={label}): {error!r}")
                except Exception as error:  # noqa: BLE001 — named below
                    odd.append(f"{name}({parameter}={label}): {error!r}"[:160])
                else:
                    odd.append(f"{name}({parameter}={label}) is taken")
    assert odd == [], "\n".join(odd)


async def test_observation_is_not_stored_with_nonsense(memory: Memory) -> None:
    wrongs: list[dict[str, Any]] = [
        {"collective": "no"}, {"metadata": []}, {"tags": [None]}, {"tags": {"red": 1}}, {"collective": -1}
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(InputError):
            await memory.observe("She likes tea.", **MIA, **wrong)
    with pytest.raises(InputError):
        await memory.add([message("Hi.")], **MIA, conversation_id="s", group_ids={"harbor": 1})
    assert await rows(memory, "SELECT count(*) FROM memory.agents") == [(0,)]


async def test_nothing_is_deleted_by_a_dry_run_that_is_no_bool(memory: Memory) -> None:
    told = await memory.observe("She likes tea.", **MIA)
    wrongs: list[Any] = [None, 0, "", []]
    for dry_run in wrongs:
        with pytest.raises(InputError, match=r"^dry_run must be True or False"):
            await memory.forget(told.id, **ADA, dry_run=dry_run)
    assert isinstance(await memory.observations.get(told.id, **MIA), Observation)


async def test_journal_may_be_named_by_text(memory: Memory, tmp_path: Path) -> None:
    assert (await memory.admin.journal_status(str(tmp_path / "journal"))).missing == ()


def test_wrong_types_are_refused_without_awaiting_as_well(database_url: str) -> None:
    with SyncMemory(database_url, Parrot(), Settings(llm="offline")) as memory:
        told = memory.observe("She likes tea.", **MIA)
        for call in (
            lambda: memory.forget({}, **ADA),  # type: ignore[arg-type]
            lambda: memory.search(5, **MIA),  # type: ignore[arg-type]
            lambda: memory.observe(None, **MIA),  # type: ignore[arg-type]
            lambda: memory.observations.mark(told.id, **MIA, private="no"),  # type: ignore[arg-type]
        ):
            with pytest.raises(InputError):
                call()
        with pytest.raises(NotFoundError):
            memory.forget("o1-99", **ADA)
