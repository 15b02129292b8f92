"""Importing legacy memory: completely, once, and without what was forgotten here."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.results import ImportReport
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.conftest import Lend, as_login
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted, extracted
from tests.legacy.cases import paired
from tests.legacy.formats import FORMATS, dump, load
from tests.legacy.generator import Legacy
from tests.legacy.server import stand_in
from tests.legacy.stored import state
from tests.sizes import few_in_ci

KEY = b"k" * 32
MEMBER = """
    SELECT agent_id, user_id FROM memory.members JOIN memory.agents USING (agent_key)
    WHERE left_at IS NULL ORDER BY agent_key, user_id
"""
LARGEST = """
    SELECT agent_id, owner FROM memory.scopes JOIN memory.agents USING (agent_key)
    WHERE owner LIKE 'u:%' ORDER BY last_seq DESC, scope_id
"""


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


@pytest.fixture(scope="module")
def legacy() -> Legacy:
    return Legacy(agents=2)


@pytest.fixture(scope="module")
def folder(legacy: Legacy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("legacy")
    dump(path, legacy.collections())
    return path


@pytest.fixture(scope="module")
async def wanted(folder: Path, lend: Lend) -> list[tuple[Any, ...]]:
    """What an import of it into an empty database leaves."""
    async with lend() as url, Memory(url, settings=Settings(llm="offline")) as memory:
        return (await state_of(memory, dump=folder))[0]


async def bring(
    memory: Memory, folder: Path, *, key: bytes = KEY, dry_run: bool = False, **options: Any
) -> ImportReport:
    return await memory.imports.mongo(dump=folder, key=key, options=ImportOptions(**options), dry_run=dry_run)


async def test_every_document_is_accounted_for(memory: Memory, legacy: Legacy, folder: Path) -> None:
    manifest = legacy.manifest()
    report = await bring(memory, folder)
    assert report.unaccounted == ()
    assert {name: counts["source"] for name, counts in report.collections.items()} == dict(manifest.source)
    wanted = {
        (name, outcome): sum(n for (c, o, _), n in manifest.outcomes.items() if (c, o) == (name, outcome))
        for name in report.collections
        for outcome in ("migrated", "merged", "skipped", "rejected")
    }
    assert {(n, o): counts[o] for n, counts in report.collections.items() for o in counts if o != "source"} == wanted
    views = "SELECT collection, source, migrated, merged, skipped, rejected FROM memory.v_imports"
    assert {row[0]: row[1:] for row in await rows(memory, views)} == {
        name: tuple(counts.values()) for name, counts in report.collections.items()
    }
    assert {code: report.anomalies.get(code, 0) for code in manifest.anomalies} == dict(manifest.anomalies)


@pytest.mark.slow
async def test_what_is_imported_is_classified_by_maintenance(memory: Memory, folder: Path) -> None:
    """That takes longer than storing it."""
    await bring(memory, folder)
    counts = (
        "SELECT count(*), count(*) FILTER (WHERE importance IS NULL) FROM memory.observations WHERE classified_by = {}"
    )
    [(waiting, unknown)] = await rows(memory, counts.format(0))
    assert waiting == unknown > 0
    done = await memory.work.maintain()
    [(left, _)] = await rows(memory, f"{counts.format(0)} AND standing IN ('active', 'archived', 'superseded')")
    assert (done.classified > 0, left) == (True, 0)
    assert await rows(memory, counts.format(1)) == [(done.classified, 0)]


@pytest.mark.slow
async def test_dry_run_says_the_same_and_writes_nothing(memory: Memory, folder: Path) -> None:
    planned = await bring(memory, folder, dry_run=True)
    assert (planned.run, await state(memory)) == (None, [])
    done = await bring(memory, folder)
    assert done.model_copy(update={"run": None}) == planned


@pytest.mark.slow
async def test_second_run_adds_nothing(memory: Memory, folder: Path) -> None:
    first = await bring(memory, folder)
    before = await state(memory)
    second = await bring(memory, folder)
    assert await state(memory) == before
    assert second.unaccounted == ()
    for name, counts in second.collections.items():
        assert counts["migrated"] == 0, name
        assert counts["skipped"] == first.collections[name]["skipped"] + first.collections[name]["migrated"]


@pytest.mark.slow
@pytest.mark.parametrize("keep_shards", few_in_ci(["merged", "named"], ["named"]))
async def test_anomalies_in_pairs_come_once_and_go(memory: Memory, tmp_path: Path, keep_shards: str) -> None:
    """With the messages; every seventh pair."""
    dump(tmp_path, paired(7).items())
    options: dict[str, Any] = {"messages": True, "episodes": "conversation", "keep_shards": keep_shards}
    planned = await bring(memory, tmp_path, dry_run=True, **options)
    done = await bring(memory, tmp_path, **options)
    assert done.model_copy(update={"run": None}) == planned
    assert done.unaccounted == ()
    before = await state(memory)
    again = await bring(memory, tmp_path, **options)
    assert {counts["migrated"] for counts in again.collections.values()} == {0}
    assert again.unaccounted == ()
    assert await state(memory) == before
    for run in (again.run, done.run):
        await memory.imports.rollback(run or 0)
    assert await state(memory) == []


@pytest.mark.slow
async def test_what_was_forgotten_does_not_come_again(memory: Memory, folder: Path) -> None:
    first = await bring(memory, folder)
    (agent, owner), *_ = await rows(memory, LARGEST)
    await memory.forget(Selection(user_id=owner[2:]), agent_id=agent)
    before = await state(memory)
    again = await bring(memory, folder)
    assert await state(memory) == before
    assert again.unaccounted == ()
    assert sum(count for reason, count in again.reasons.items() if reason.endswith("skipped, forgotten")) > 5
    assert again.collections.keys() == first.collections.keys()


@pytest.mark.slow
async def test_other_key_is_refused(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    with pytest.raises(InputError, match="another key"):
        await bring(memory, folder, key=b"o" * 32)


@pytest.mark.slow
async def test_rollback_leaves_what_was_there_before(memory: Memory, legacy: Legacy, folder: Path) -> None:
    before = await state(memory)
    report = await bring(memory, folder)
    assert report.run is not None
    brought = await state(memory)
    planned = await memory.imports.rollback(report.run, dry_run=True)
    assert await state(memory) == brought
    done = await memory.imports.rollback(report.run, actor="ops")
    assert done == planned.model_copy(update={"dry_run": False})
    assert await state(memory) == before == []
    assert done.withheld == ()
    (run,) = await memory.imports.list()
    assert run.state == "rolled_back"
    with pytest.raises(NotFoundError):
        await memory.imports.rollback(report.run)
    again = await bring(memory, folder)
    assert again.collections == report.collections
    assert await state(memory) == brought


@pytest.mark.slow
async def test_what_was_formed_since_survives_a_rollback(memory: Memory, llm: Scripted, folder: Path) -> None:
    report = await bring(memory, folder)
    (agent, owner), *_ = await rows(memory, LARGEST)
    who = {"agent_id": agent, "user_id": owner[2:]}
    kept = await memory.observe("Likes tea.", **who)
    llm.then("All that was known, and tea.")
    built = await memory.scopes.consolidate(agent_id=agent, scope_id=kept.scope.id)
    assert built.version == 2
    done = await memory.imports.rollback(report.run or 0)
    assert done.withheld == (kept.scope.id,)
    assert [o.content for o in await memory.observations.list(**who)] == ["Likes tea."]
    assert "<UserMemory" in str(await memory.context(**who))
    assert "calendar" not in str(await memory.context(**who))


@pytest.mark.slow
async def test_links_to_what_was_brought_go_with_a_rollback(database_url: str, folder: Path) -> None:
    async with Memory(database_url, settings=Settings(llm="offline", graph=True, episodes=True)) as memory:
        report = await bring(memory, folder)
        (agent, owner), *_ = await rows(memory, LARGEST)
        who = {"agent_id": agent, "user_id": owner[2:]}
        texts = [one.content for one in await memory.observations.list(**who, limit=200)]
        ((word, _),) = Counter(word for text in texts for word in re.findall(r"\b[a-z]{5,}\b", text)).most_common(1)
        name = word.capitalize()  # as a name in what is said of it now
        for kept in (f"She met {name} once more.", f"She often asks for {name}."):
            await memory.observe(kept, **who)
        before = await rows(memory, "SELECT count(*) FROM memory.links")
        assert before > [(1,)]
        await memory.imports.rollback(report.run or 0)
        assert await rows(memory, "SELECT count(*) FROM memory.links") == [(1,)]  # between the two that stay
        assert len(await memory.observations.list(**who)) == 2
        assert await memory.admin.verify() == []


@pytest.mark.slow
async def test_what_differs_from_the_source_is_named(memory: Memory, folder: Path) -> None:
    run = (await bring(memory, folder)).run or 0
    same = await memory.imports.verify(run, dump=folder)
    assert same.compared is not None
    assert same.compared > 100
    assert (same.changed_here, same.changed_there, same.missing) == ((), (), ())
    await rows(memory, "UPDATE memory.imported SET stored_hash = '' WHERE seq = 1 AND scope_id = 1")
    (ref,) = (await memory.imports.verify(run)).changed_here
    await rows(memory, "UPDATE memory.imported SET source_hash = '' WHERE legacy_ref = :ref", ref=ref)
    assert (await memory.imports.verify(run, dump=folder)).changed_there == (ref,)
    await rows(memory, "DELETE FROM memory.imported WHERE legacy_ref = :ref", ref=ref)
    assert (await memory.imports.verify(run, dump=folder)).missing == (ref,)


# The same target, whatever happens on the way


@pytest.mark.parametrize(
    "form", few_in_ci([name for name in FORMATS if name != "dump"], ["packed dump", "relaxed lines"])
)
@pytest.mark.slow
async def test_all_formats_give_the_same_target(
    memory: Memory, legacy: Legacy, wanted: list[tuple[Any, ...]], tmp_path: Path, form: str
) -> None:
    FORMATS[form](tmp_path, legacy.collections())
    where: dict[str, Any] = {"dump" if "dump" in form else "export": tmp_path}
    assert (await state_of(memory, **where))[0] == wanted


@pytest.mark.slow
async def test_live_server_gives_the_same_target(memory: Memory, legacy: Legacy, wanted: list[tuple[Any, ...]]) -> None:
    """Half a surrogate pair, which no client sends, is a NUL there: both are stored as U+FFFD."""
    with stand_in() as url:
        await load(url, "eden", legacy.collections())
        found, _ = await state_of(memory, mongo_url=f"{url.rstrip('/')}/eden")
    assert found == wanted


@pytest.mark.slow
async def test_login_that_can_not_delete_imports_and_rolls_back(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings, folder: Path
) -> None:
    async with Memory(as_login(walled_database, roles), llm, settings) as walled:
        report = await bring(walled, folder)
        assert report.unaccounted == ()
        assert await walled.admin.verify() == []
        again = await bring(walled, folder)
        assert sum(counts["migrated"] for counts in again.collections.values()) == 0
        await walled.imports.rollback(report.run or 0)
        assert await state(walled) == []


async def state_of(memory: Memory, **where: Any) -> tuple[list[tuple[Any, ...]], int]:
    run = (await memory.imports.mongo(key=KEY, **where)).run
    return await state(memory), run or 0


@pytest.mark.slow
async def test_tables_in_which_rows_are_staged_go_with_the_import(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    for _ in range(100):
        if not await rows(memory, "SELECT 1 FROM pg_class WHERE relname = 'import_rows'"):
            return
        await asyncio.sleep(0.05)  # a server goes on for a moment after its connection was closed
    raise AssertionError


class BrokenOffError(Exception):
    """The power has gone."""


@pytest.mark.parametrize("seed", few_in_ci(range(3), [0]))
@pytest.mark.slow
async def test_broken_off_at_any_statement_it_goes_on(memory: Memory, folder: Path, seed: int) -> None:
    wanted, run = await state_of(memory, dump=folder)
    report = (await memory.imports.list())[0].accounts
    await memory.imports.rollback(run)
    chance, broken = random.Random(seed), 0
    while broken < 35:
        with broken_off(chance.randrange(1, 120)):
            try:
                await memory.imports.mongo(dump=folder, key=KEY)
                break
            except BrokenOffError:
                broken += 1
    assert broken > 5
    await memory.imports.mongo(dump=folder, key=KEY)
    assert await state(memory) == wanted
    assert report["anomalies"] == (await memory.imports.list())[-1].accounts["anomalies"]


@pytest.mark.slow
async def test_two_at_once_bring_it_once(
    memory: Memory, llm: Scripted, settings: Settings, database_url: str, folder: Path, wanted: list[tuple[Any, ...]]
) -> None:
    async with Memory(database_url, llm, settings) as other:
        await asyncio.gather(bring(memory, folder), bring(other, folder, trusted=True))
    assert await state(memory) == wanted


@pytest.mark.slow
async def test_the_same_again_while_it_runs_helps_to_finish_it(
    memory: Memory, llm: Scripted, settings: Settings, database_url: str, folder: Path
) -> None:
    """As an interrupted one is gone on with: nobody can tell it from one that runs."""
    wanted, run = await state_of(memory, dump=folder)
    accounts = (await memory.imports.list())[0].accounts
    await memory.imports.rollback(run)
    async with Memory(database_url, llm, settings) as other:
        done = await asyncio.gather(bring(memory, folder), bring(other, folder))
    assert done[0] == done[1]
    assert await state(memory) == wanted
    _, last = await memory.imports.list()
    assert (last.state, last.accounts) == ("finished", accounts)


@pytest.mark.slow
async def test_of_two_keys_at_once_one_is_refused(
    memory: Memory, llm: Scripted, settings: Settings, database_url: str, folder: Path
) -> None:
    """Both had been taken, and every later import was refused under either."""
    async with Memory(database_url, llm, settings) as other:
        both = asyncio.gather(
            bring(memory, folder), bring(other, folder, key=b"l" * 32, trusted=True), return_exceptions=True
        )
        done = await both
    assert [type(one) for one in done if isinstance(one, Exception)] == [InputError]
    key = KEY if isinstance(done[0], ImportReport) else b"l" * 32
    assert (await bring(memory, folder, key=key)).unaccounted == ()


@contextmanager
def broken_off(after: int) -> Iterator[None]:
    """So many statements are still sent, by whatever connection."""
    left = iter(range(after))

    def count(*_: Any) -> None:
        if next(left, None) is None:
            raise BrokenOffError

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", count)


# What happened here between


@pytest.mark.slow
async def test_what_somebody_says_again_outlives_a_rollback(memory: Memory, llm: Scripted, folder: Path) -> None:
    """With the messages behind it, and what else was said in them."""
    run = (await bring(memory, folder)).run or 0
    (agent, scope_id, content, owner), *_ = await rows(
        memory,
        "SELECT a.agent_id, s.scope_id, o.content, s.owner FROM memory.scopes s JOIN memory.agents a USING (agent_key)"
        " JOIN memory.observations o USING (agent_key, scope_id) WHERE s.kind = 'individual' AND o.seq = s.last_seq"
        " AND o.seq > s.done_seq ORDER BY s.last_seq DESC, s.scope_id",
    )
    here: dict[str, Any] = {"agent_id": agent, "user_id": owner[2:], "conversation_id": "t"}
    await memory.add([message(f"{content} So it is, and I have bought a boat.")], **here)
    llm.then(extracted((content, "individual", [1]), ("Has bought a boat.", "individual", [1])))
    formed = await memory.conversations.form(agent_id=agent, conversation_id="t")
    assert formed.duplicates == 1
    await memory.imports.rollback(run)
    kept = await rows(memory, "SELECT content FROM memory.observations WHERE scope_id = :id ORDER BY seq", id=scope_id)
    assert kept == [(content,), ("Has bought a boat.",)]
    assert await rows(memory, "SELECT content FROM memory.messages") == [
        (f"{content} So it is, and I have bought a boat.",)
    ]


@pytest.mark.slow
async def test_who_has_left_a_group_stays_away(memory: Memory, folder: Path) -> None:
    run = (await bring(memory, folder)).run or 0
    (agent, user), *_ = await rows(memory, MEMBER)
    await memory.groups.remove_member("default", user, agent_id=agent)
    await memory.observe("The Zeppelin lands at nine.", agent_id=agent, group_id="default")
    await bring(memory, folder)
    assert "Zeppelin" not in str(await memory.context(agent_id=agent, user_id=user))
    await memory.imports.rollback(run)
    left = await rows(memory, "SELECT user_id FROM memory.members WHERE left_at IS NOT NULL")
    assert left == [(user,)]


@pytest.mark.slow
async def test_of_who_was_forgotten_nothing_is_made_again(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    (agent, user), *_ = await rows(memory, MEMBER)
    await memory.forget(Selection(user_id=user), agent_id=agent)
    await bring(memory, folder)
    assert await rows(memory, "SELECT 1 FROM memory.members WHERE user_id = :user", user=user) == []
    names = "SELECT display_name FROM memory.scopes WHERE owner = :owner AND display_name IS NOT NULL"
    assert await rows(memory, names, owner=f"u:{user}") == []


@pytest.mark.slow
async def test_what_is_forgotten_under_a_hold_does_not_come_by_a_rollback(memory: Memory, folder: Path) -> None:
    run = (await bring(memory, folder)).run or 0
    (agent, owner), *_ = await rows(memory, LARGEST)
    who = {"agent_id": agent, "user_id": owner[2:]}
    secret = next(o for o in await memory.observations.list(**who) if o.source.kind == "import")
    await memory.holds.place(**who)
    await memory.forget(Selection(observation_id=secret.id), agent_id=agent)
    await memory.imports.rollback(run)
    await bring(memory, folder)
    assert secret.content not in {o.content for o in await memory.observations.list(**who, limit=1000)}


@pytest.mark.slow
async def test_conversation_is_forgotten_with_what_was_imported_of_it(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    (agent, session), *_ = await rows(
        memory,
        "SELECT agent_id, conversation_id FROM memory.observations JOIN memory.agents USING (agent_key)"
        " WHERE conversation_id IS NOT NULL ORDER BY 1, 2",
    )
    await memory.forget(Selection(conversation_id=session), agent_id=agent)
    left = "SELECT count(*) FROM memory.observations WHERE conversation_id = :session"
    assert await rows(memory, left, session=session) == [(0,)]


@pytest.mark.slow
async def test_restored_database_knows_from_the_journal_what_must_not_come(
    memory: Memory, llm: Scripted, folder: Path, tmp_path: Path
) -> None:
    """It is from before the import, and knows neither the agents nor what was forgotten of them."""
    journal, url = tmp_path / "journal", memory.database.url.render_as_string(hide_password=False)
    settings = memory.settings.model_copy(update={"forget_journal": journal})
    async with Memory(url, llm, settings) as kept:
        await bring(kept, folder)
        (agent, owner), *_ = await rows(kept, LARGEST)
        await kept.forget(Selection(user_id=owner[2:]), agent_id=agent)
    await rows(memory, "TRUNCATE memory.agents, memory.imports, memory.import_rejects CASCADE")
    assert len(await memory.admin.restore_check(journal)) == 1
    await bring(memory, folder)
    assert await rows(memory, "SELECT 1 FROM memory.scopes WHERE owner = :owner", owner=owner) == []
    assert await memory.admin.restore_check(journal) == []
