"""The accidents, and how each is judged: by what the store holds afterwards, never by what a library says of itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import asyncpg  # type: ignore[import-untyped]

from benchmarks.server import fresh_database, plain_url
from benchmarks.survival.model import Fact, Model, serving
from benchmarks.survival.system import Known, NoSuchCallError, Place, Said, System, stored_texts
from benchmarks.wire import counted

FACT, OTHER = Fact("parrot", "Quzovak"), Fact("boat", "Wibbelon")
MIA, BEN = "mia", "ben"
ODD_IDS = ("%", "*", "_", "", "a/b", "../x", "mi", "mi_", "mi%", "mia/..", "' OR 'a'='a")
TOGETHER, CONVERSATIONS = 8, 10
FIRST_LOOKS = 0.25


class Outcome(NamedTuple):
    """A word or a few, and a line that says how it came about."""

    words: str
    detail: str = ""


@dataclass(frozen=True)
class Patience:
    outage_seconds: float = 10  # as long as a library keeps trying
    afterwards_seconds: float = 60  # for work that goes on in the background


class Stage:
    """One system, with a model, a database and a folder of its own."""

    def __init__(self, known: Known, place: Place, model: Model, patience: Patience) -> None:
        self.known, self.place, self.model, self.patience = known, place, model, patience

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[System]:
        async with self.known.opened(self.place) as system:
            yield system

    async def remembered(self, system: System, fact: Fact, user: str) -> bool:
        """Whether the user's memories name it, once what goes on in the background has had its time."""
        until = time.monotonic() + (self.patience.afterwards_seconds if self.known.works_later else 0)
        while not _names(await system.texts(user), fact):
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(FIRST_LOOKS)
        return True

    async def where(self, fact: Fact) -> Counter[str]:
        """The tables and files that contain its name, with the number of rows."""
        found = Counter[str]()
        async for place, text in stored_texts(self.place):
            found[place] += fact.name.lower() in text.lower()
        return +found

    async def kept(self, system: System, error: str | None, detail: str = "") -> Outcome:
        """The judgement of the accidents in which something may be lost."""
        if await self.remembered(system, FACT, MIA):
            return Outcome("kept", detail)
        left = await self.where(FACT)
        told = f"the caller is told: {error}" if error else "the caller isn't told"
        rest = f"; what was said is still in {', '.join(left)}" if left else ""
        return Outcome("lost, and says so" if error else "lost", f"{detail}; {told}{rest}".removeprefix("; "))


Scenario = Callable[[Stage], Awaitable[Outcome]]


async def model_down(stage: Stage) -> Outcome:
    """The model answers 503 while a conversation is added, and works again later."""
    stage.model.is_down = True
    async with stage.opened() as system:
        began = time.monotonic()
        adding = asyncio.create_task(_error_of(system.add(conversation(FACT), MIA, "c1")))
        await asyncio.wait({adding}, timeout=stage.patience.outage_seconds)
        returned = f"add returned after {time.monotonic() - began:.1f} s"
        gave_up = adding.done() and adding.result() is not None
        if not gave_up and stage.known.works_later:
            await asyncio.sleep(max(0, began + stage.patience.outage_seconds - time.monotonic()))
        down, asked = time.monotonic() - began, stage.model.calls.total()
        stage.model.is_down = False
        error = await adding
        back = time.monotonic()
        outcome = await stage.kept(system, error)
        later = f", then {time.monotonic() - back:.1f} s" if outcome.words == "kept" else ""
        detail = f"{returned}; down for {down:.1f} s with {asked} calls refused{later}"
        return Outcome(outcome.words, "; ".join(filter(None, (detail, outcome.detail))))


async def cut_answer(stage: Stage) -> Outcome:
    """The first answer ends in the middle of its JSON; later ones are whole."""
    stage.model.cut = 1
    async with stage.opened() as system:
        error = await _error_of(system.add(conversation(FACT), MIA, "c1"))
        outcome = await stage.kept(system, error)
    if stage.model.cut:
        return Outcome("asks no model")
    calls = f"{stage.model.calls['chat']} calls"
    return Outcome(outcome.words, "; ".join(filter(None, (calls, outcome.detail))))


async def killed(stage: Stage) -> Outcome:
    """A process is killed (SIGKILL) as soon as its call has returned. The model takes a second for each answer."""
    stage.model.delay_seconds = 1
    place = {"url": stage.place.url, "folder": str(stage.place.folder), "model": stage.model.base_url}
    command = [sys.executable, "-m", "benchmarks.survival", "--child", stage.known.name, "--place", json.dumps(place)]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    try:
        while (line := await asyncio.wait_for(child.stdout.readline(), timeout=120)) not in (b"ok\n", b""):
            pass
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)  # with a server that it has started
    _, errors = await child.communicate()
    if line != b"ok\n":
        raise RuntimeError(f"the child hasn't added anything: {errors.decode()[-2000:]}")
    stage.model.delay_seconds = 0
    async with stage.opened() as system:
        return await stage.kept(system, None)


async def child(known: Known, place: Place) -> None:
    """What the process that is killed does."""
    async with known.opened(place) as system:
        await system.add(conversation(FACT), MIA, "c1")
        print("ok", flush=True)
        await asyncio.sleep(600)


async def eight_adds(stage: Stage) -> Outcome:
    """The same conversation, with the same ids where there are any, is added eight times at once."""
    async with stage.opened() as system:
        await _told(stage, system, OTHER, BEN)  # some create a table when they first store
        await _quiet(stage)
        stage.model.calls.clear()
        adds = [_error_of(system.add(conversation(FACT), MIA, "c1")) for _ in range(TOGETHER)]
        errors = [error for error in await asyncio.gather(*adds) if error is not None]
        if not await stage.remembered(system, FACT, MIA):
            return Outcome("lost", f"{len(errors)} errors: {', '.join(sorted(set(errors)))}".removeprefix("0 errors: "))
        await _quiet(stage)
        times = sum(_names([text], FACT) for text in await system.texts(MIA))
    detail = f"{stage.model.calls['chat']} calls" + (f", {len(errors)} errors: {errors[0]}" if errors else "")
    return Outcome("stored once" if times == 1 else f"stored {times} times", detail)


async def foreign_id(stage: Stage) -> Outcome:
    """Ben reads and deletes a memory of Mia by its id."""
    async with stage.opened() as system:
        await _told(stage, system, FACT, MIA)
        (memory_id, *_) = await system.ids(MIA)
        try:
            found = await system.get(memory_id, BEN)
            read = "read" if found is not None and _names([found], FACT) else "not read"
        except NoSuchCallError as none:
            read = f"not read: no such call ({none})"
        except Exception as error:  # noqa: BLE001  # whatever a library refuses with
            read = f"not read ({type(error).__name__})"
        refused = await _error_of(system.delete(memory_id, BEN))
        deleted = "not deleted" if _names(await system.texts(MIA), FACT) else "deleted"
        return Outcome(f"{read.split(':')[0].split(' (')[0]}, {deleted}", "; ".join(filter(None, (read, refused))))


async def wildcard_id(stage: Stage) -> Outcome:
    """Under ids such as `%`, somebody lists, searches and forgets, while Mia has a memory."""
    async with stage.opened() as system:
        await _told(stage, system, FACT, MIA)
        refused, shown, lost = list[str](), list[str](), list[str]()
        for odd in ODD_IDS:
            asked = system.texts(odd), system.search(f"{FACT.thing} {FACT.name}", odd)
            found = [await _found(one) for one in asked]
            if any(texts is not None and _names(texts, FACT) for texts in found):
                shown.append(odd)
            error = await _error_of(system.forget(odd))
            if error is not None and found == [None, None]:
                refused.append(odd)
            if not _names(await system.texts(MIA), FACT):
                lost.append(odd)
                await _told(stage, system, FACT, MIA)
    said = [f"shows to {_quoted(shown)}"] * bool(shown) + [f"deletes by {_quoted(lost)}"] * bool(lost)
    return Outcome(
        "; ".join(said) or "kept apart",
        f"refused whatever is called: {_quoted(refused)}" if refused else "none refused",
    )


async def forgotten(stage: Stage) -> Outcome:
    """What was said is remembered, then forgotten by the documented call; tables and files are read."""
    async with stage.opened() as system:
        await _told(stage, system, FACT, MIA)
        before = await stage.where(FACT)
        assert before, "what is remembered has to be somewhere"
        await system.forget(MIA)
        await _quiet(stage)
    left = await stage.where(FACT)
    if not left:
        return Outcome("gone", f"before in {', '.join(before)}")
    return Outcome("still there", f"in {', '.join(f'{place} ({rows})' for place, rows in left.items())}")


async def cost(stage: Stage) -> Outcome:
    """Ten conversations of four messages with one thing each to remember."""
    facts = [Fact(f"{FACT.thing}{n}", f"{FACT.name}{'abcdefghij'[n]}") for n in range(CONVERSATIONS)]
    async with counted(stage.place.url) as wire:
        through = Stage(
            stage.known, Place(wire.url, stage.place.folder, stage.model.base_url), stage.model, stage.patience
        )
        async with through.opened() as system:
            await _quiet(stage)
            stage.model.calls.clear()
            stage.model.bytes_sent = 0
            wire.types.clear()
            before = await _size(stage.place)
            for n, fact in enumerate(facts):
                await system.add(conversation(fact), MIA, f"c{n}")
            await _quiet(stage)
            sent = wire.statements
            kept = [await stage.remembered(system, fact, MIA) for fact in facts]
            after = await _size(stage.place)
    calls = (
        f"{stage.model.calls['chat']} + {stage.model.calls['embeddings']} calls, {stage.model.bytes_sent // 1024} KB"
    )
    statements = f"{sent} statements" if stage.known.in_postgres else "no Postgres"
    detail = f"{sum(kept)} of {CONVERSATIONS} remembered; calls of the model + of the embedder, and what both were sent"
    return Outcome(f"{calls}; {statements}; {(after - before) // 1024} KB kept", detail)


SCENARIOS: Mapping[str, Scenario] = {
    "the model is down": model_down,
    "an answer is cut": cut_answer,
    "killed after acknowledging": killed,
    "eight identical adds": eight_adds,
    "a foreign id": foreign_id,
    "a wildcard id": wildcard_id,
    "forgotten, then dumped": forgotten,
    "ten conversations": cost,
}


async def judged(known: Known, scenario: Scenario, server: str, patience: Patience) -> Outcome:
    """One accident of one system, with nothing left of earlier ones."""
    with serving(known.answers) as model, TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with fresh_database(server, migrated=known.is_migrated) as url:
            try:
                return await scenario(Stage(known, Place(url, Path(folder), model.base_url), model, patience))
            except NoSuchCallError as none:
                return Outcome("no such call", str(none))


def conversation(fact: Fact) -> list[Said]:
    said = [
        ("user", "Hello! How are you today?"),
        ("assistant", "Very well, thank you. What can I do for you?"),
        ("user", f"Please remember that my {fact.thing} is called {fact.name}."),
        ("assistant", "I'll keep that in mind."),
    ]
    return [Said(id=f"{fact.thing}-{n}", role=role, content=content) for n, (role, content) in enumerate(said)]


async def _told(stage: Stage, system: System, fact: Fact, user: str) -> None:
    await system.add(conversation(fact), user, f"c-{user}-{time.monotonic_ns()}")
    if not await stage.remembered(system, fact, user):
        raise RuntimeError(f"{stage.known.name} hasn't remembered what this accident needs")


async def _error_of(call: Awaitable[None]) -> str | None:
    """What the caller of a library would see."""
    try:
        await call
    except Exception as error:  # noqa: BLE001  # each library has its own
        return type(error).__name__
    return None


async def _found(call: Awaitable[list[str]]) -> list[str] | None:
    """None if it is refused."""
    try:
        return await call
    except Exception:  # noqa: BLE001  # each library has its own
        return None


async def _quiet(stage: Stage) -> None:
    """Waits until the model hasn't been asked for two seconds, where work goes on in the background."""
    if stage.known.works_later:
        asked, now = -1, stage.model.calls.total()
        while asked != now:
            await asyncio.sleep(2)
            asked, now = now, stage.model.calls.total()


async def _size(place: Place) -> int:
    connection = await asyncpg.connect(plain_url(place.url))
    try:
        database = int(await connection.fetchval("SELECT pg_database_size(current_database())"))
    finally:
        await connection.close()
    return database + sum(path.stat().st_size for path in place.folder.rglob("*") if path.is_file())


def _names(texts: list[str], fact: Fact) -> bool:
    return any(fact.name.lower() in text.lower() for text in texts)


def _quoted(ids: list[str]) -> str:
    return ", ".join(f'"{one}"' for one in ids)
