"""People's own rights: aliases and how they are undone, renaming, export, legal holds."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import BIT
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.db.models import Base
from memory_sql.db.queries import exports
from memory_sql.domain.exports import ExportLine, export_uuid
from memory_sql.domain.people import RenameKind
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConflictError, InputError, NotFoundError, StaleError, TooLargeError
from memory_sql.memory import Memory
from tests.database import are_waiting, refusing, rows, statements
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, extracted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ANON: dict[str, Any] = {"agent_id": "ada", "user_id": "anon-1"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", shared_conversations=True)


async def contents(memory: Memory, user: str) -> set[str]:
    return {o.content for o in await memory.observations.list(**ADA, user_id=user)}


async def merge(memory: Memory, user: str, into: str) -> None:
    await memory.people.merge(**ADA, user_id=user, into_user_id=into)


# Aliases


async def test_merged_user_is_seen_by_the_one_they_stand_for_and_not_the_other_way_round(memory: Memory) -> None:
    await memory.add(conversation(1), **ANON, conversation_id="s", group_ids=["harbor"])
    await memory.observe("Likes tea.", **ANON)
    await memory.observe("Likes boats.", **MIA)
    await memory.observe("We ship in April.", **ADA, group_id="harbor")
    assert await contents(memory, "mia") == {"Likes boats."}
    alias = await memory.people.merge(**ANON, into_user_id="mia")
    assert (alias.user_id, alias.into_user_id, alias.ended_at) == ("anon-1", "mia", None)
    assert await contents(memory, "mia") == {"Likes tea.", "Likes boats.", "We ship in April."}
    assert await contents(memory, "anon-1") == {"Likes tea.", "We ship in April."}
    assert await contents(memory, "jonas") == set()
    assert [hit.observation.content for hit in (await memory.search("tea", **MIA)).results] == ["Likes tea."]


async def test_context_shows_what_stands_for_a_user_as_further_scopes_in_stable_order(memory: Memory) -> None:
    for user in ("anon-2", "mia", "anon-1"):
        await memory.observe(f"{user} says hello.", **ADA, user_id=user)
    await merge(memory, "anon-2", "mia")
    await merge(memory, "anon-1", "mia")
    context = await memory.context(**MIA)
    owners = [part.scope.owner_id for part in context.parts if part.scope]
    assert owners == ["mia", "anon-1", "anon-2"]  # hers in her element, theirs behind
    assert str(await memory.context(**MIA)) == str(context)


async def test_what_is_said_under_the_old_id_after_the_merge_is_the_users_as_well(
    memory: Memory, llm: Scripted
) -> None:
    await merge(memory, "anon-1", "mia")
    await memory.add([message("I moved to Bergen.")], **ANON, conversation_id="s")
    llm.then(extracted(("Lives in Bergen.", "individual")))
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await contents(memory, "mia") == await contents(memory, "anon-1") == {"Lives in Bergen."}
    (found,) = await memory.observations.list(**MIA)
    assert found.scope.owner_id == "anon-1"


async def test_unmerging_undoes_a_merge_exactly(memory: Memory) -> None:
    await memory.observe("Likes tea.", **ANON)
    await memory.observe("Likes boats.", **MIA)
    kept = "SELECT * FROM memory.observations ORDER BY scope_id, seq"
    before, stored = await memory.context(**MIA), await rows(memory, kept)
    await merge(memory, "anon-1", "mia")
    assert await memory.context(**MIA) != before
    ended = await memory.people.unmerge(**ANON)
    assert ended.into_user_id == "mia"
    assert ended.ended_at is not None
    assert await memory.context(**MIA) == before
    assert await rows(memory, kept) == stored
    with pytest.raises(NotFoundError):
        await memory.people.unmerge(**ANON)
    with pytest.raises(NotFoundError):
        await memory.people.unmerge(agent_id="unknown", user_id="anon-1")
    assert await rows(memory, "SELECT agent_id FROM memory.agents") == [("ada",)]


@pytest.mark.slow
async def test_user_merged_again_at_the_same_moment_stands_for_another_again(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    async with Memory(database_url, llm, settings, clock=lambda: MONDAY) as memory:
        for into in ("mia", "mia", "jonas"):
            await merge(memory, "anon-1", into)
            await memory.people.unmerge(**ANON)
        found = await rows(memory, "SELECT into_user_id, ended_at >= created_at FROM memory.user_aliases")
        assert sorted(found) == [("jonas", True), ("mia", True), ("mia", True)]


async def test_aliases_stand_through_others_and_are_told_oldest_first(memory: Memory) -> None:
    await memory.observe("Likes tea.", **ANON)
    await merge(memory, "anon-1", "tablet")
    await merge(memory, "tablet", "mia")
    assert await contents(memory, "mia") == {"Likes tea."}
    found = await memory.people.aliases(**MIA)
    assert [(alias.user_id, alias.into_user_id) for alias in found] == [("anon-1", "tablet"), ("tablet", "mia")]
    assert await memory.people.aliases(**ANON) == []
    assert await memory.people.aliases(agent_id="unknown", user_id="mia") == []


async def test_merge_that_would_circle_or_stand_for_two_is_refused(memory: Memory) -> None:
    await merge(memory, "a", "b")
    await merge(memory, "b", "c")
    for user, into in (("c", "a"), ("c", "b"), ("a", "c"), ("a", "a")):
        with pytest.raises(InputError):
            await merge(memory, user, into)
    assert await rows(memory, "SELECT user_id, into_user_id FROM memory.user_aliases ORDER BY 1") == [
        ("a", "b"),
        ("b", "c"),
    ]


async def test_merge_is_an_event_once(memory: Memory) -> None:
    for _ in range(2):
        await memory.people.merge(**ANON, into_user_id="mia", actor="support", reason="Logged in.")
    await memory.people.unmerge(**ANON)
    found = await rows(memory, "SELECT kind, actor, reason, detail FROM memory.events ORDER BY event_id")
    ids = {"user_id": "anon-1", "into_user_id": "mia"}
    assert found == [
        ("alias", "support", "Logged in.", {"action": "merge", **ids}),
        ("alias", None, None, {"action": "unmerge", **ids}),
    ]


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
async def test_of_two_merges_at_once_that_would_circle_one_wins(memory: Memory, isolation: str) -> None:
    await memory.observe("Hello.", **MIA)

    async def both_read_first(user: str, into: str, ready: asyncio.Barrier) -> None:
        async with memory.database.transaction() as session:
            await session.connection(execution_options={"isolation_level": isolation})
            await session.execute(text("SELECT * FROM memory.user_aliases"))
            await ready.wait()
            await memory.people.merge(**ADA, user_id=user, into_user_id=into, session=session)

    ready = asyncio.Barrier(2)
    outcomes = await asyncio.gather(
        both_read_first("a", "b", ready), both_read_first("b", "a", ready), return_exceptions=True
    )
    failed = [outcome for outcome in outcomes if outcome is not None]
    assert len(failed) == 1
    assert isinstance(failed[0], InputError if isolation == "READ COMMITTED" else ConflictError)
    assert len(await rows(memory, "SELECT 1 FROM memory.user_aliases")) == 1


async def test_alias_that_came_later_shows_nothing_of_the_past(memory: Memory) -> None:
    await memory.observe("Likes tea.", **ANON)
    await merge(memory, "anon-1", "mia")
    seen = "SELECT count(*) FROM memory.visible_scopes('ada', 'mia', NULL, now() {})"
    assert await rows(memory, seen.format("")) == [(1,)]
    assert await rows(memory, seen.format("- interval '1 hour'")) == [(0,)]


async def test_conversation_scope_is_for_those_who_took_part_under_another_id(memory: Memory) -> None:
    await memory.add(conversation(1), **ANON, conversation_id="s")
    await rows(
        memory,
        "INSERT INTO memory.scopes (agent_key, kind, owner) SELECT agent_key, 'conversation', 's:s' FROM memory.agents",
    )
    assert await memory.scopes.list(**MIA, conversation_id="s") == []
    await merge(memory, "anon-1", "mia")
    assert [str(scope.ref) for scope in await memory.scopes.list(**MIA, conversation_id="s")] == ["conversation:s"]


async def test_ids_of_a_user_are_looked_up_in_the_same_plan(memory: Memory) -> None:
    """A function that isn't inlined would be planned anew, or called, in every context and search."""
    plan = await rows(memory, "EXPLAIN SELECT * FROM memory.visible_scopes('ada', 'mia', 's')")
    told = "\n".join(line for (line,) in plan)
    assert told.count("user_aliases") >= 2
    assert told.count("Function Scan") == told.count("Function Scan on unnest")


async def test_merge_joins_the_hosts_transaction(memory: Memory) -> None:
    await memory.observe("Likes tea.", **ANON)
    async with memory.database.transaction() as session:
        await memory.people.merge(**ANON, into_user_id="mia", session=session)
        await session.rollback()
    assert await memory.people.aliases(**MIA) == []


# Renaming


SEEN = "runs.seen"  # ids and names that stand elsewhere, until a run ends


HOST_IDS = [
    column
    for table in Base.metadata.sorted_tables
    for column in table.columns
    if column.info.get("text") == "host_id" or str(column) == SEEN
]


async def columns_that_hold(memory: Memory, value: str) -> set[str]:
    """The host's columns in which the id stands: by itself, behind a prefix, in an array or in JSON."""
    found = set()
    for column in HOST_IDS:
        words = f"regexp_split_to_table({column.name}::text, '[^a-z0-9-]+')"
        sql = f"SELECT EXISTS (SELECT FROM {column.table}, {words} word WHERE word = :value)"  # noqa: S608
        if (await rows(memory, sql, value=value))[0][0]:
            found.add(str(column).removeprefix("memory."))
    return found


async def live(memory: Memory, llm: Scripted) -> None:
    """Leaves ids of a user (mia-1), a group (harbor-1) and a conversation (monday-1) in every column that holds such."""
    mia: dict[str, Any] = {**ADA, "user_id": "mia-1"}
    await memory.add(conversation(5), **mia, conversation_id="monday-1", group_ids=["harbor-1"])
    await memory.add(conversation(1, first=9), **JONAS, conversation_id="monday-1")
    llm.then(extracted(("Likes tea.", "individual_P1"), ("Ships in April.", "group_1", [1])))
    await memory.conversations.form(**ADA, conversation_id="monday-1")
    await rows(memory, "UPDATE memory.observations SET subjects = related_users")
    await memory.observe("Likes boats.", **mia, conversation_id="monday-1")
    keyed: dict[str, Any] = {"group_ids": ["harbor-1"], "idempotency_key": "k"}
    await memory.add([{"role": "user", "content": "Hello."}], **mia, conversation_id="monday-1", **keyed)
    targets: list[dict[str, Any]] = [{"user_id": "mia-1"}, {"group_id": "harbor-1"}, {"conversation_id": "monday-1"}]
    for target in targets:
        await memory.holds.place(**ADA, **target, actor="mia-1")
    await merge(memory, "anon-1", "mia-1")
    await merge(memory, "mia-1", "person-1")
    await rows(memory, "UPDATE memory.events SET conversation_id = 'monday-1' WHERE kind = 'hold'")
    await rows(
        memory,
        "INSERT INTO memory.episodes (agent_key, conversation_id, opened_at, last_at)"
        " SELECT agent_key, conversation_id, '2000-01-01', '2100-01-01' FROM memory.conversations",
    )
    await rows(
        memory,
        "INSERT INTO memory.observation_episodes SELECT o.agent_key, o.scope_id, o.seq, e.episode_id"
        " FROM memory.episodes e JOIN memory.observations o USING (agent_key, conversation_id)",
    )
    await rows(
        memory,
        "INSERT INTO memory.imported_messages SELECT agent_key, conversation_id, number, 1, 'a', 'b', 'c'"
        " FROM memory.messages",
    )
    await rows(
        memory,
        "INSERT INTO memory.scopes (agent_key, kind, owner) SELECT agent_key, k.kind, k.owner FROM memory.agents"
        " CROSS JOIN (VALUES ('conversation', 's:monday-1'), ('entity', 'e:mia-1')) k (kind, owner)",
    )


OF_USERS = {
    "scopes.owner", "members.user_id", "conversations.user_id", "conversations.participants", "messages.user_id",
    "messages.owner", "evidence.user_id", "runs.seen", "observations.related_users", "observations.subjects",
    "events.actor", "holds.actor", "holds.target", "user_aliases.user_id", "user_aliases.into_user_id",
}  # fmt: skip
OF_GROUPS = {"scopes.owner", "conversations.group_ids", "messages.group_ids", "runs.seen", "holds.target"}
OF_SESSIONS = {
    "scopes.owner", "conversations.conversation_id", "messages.conversation_id", "evidence.conversation_id",
    "runs.conversation_id", "observations.conversation_id", "events.conversation_id", "holds.target",
    "imported_messages.conversation_id", "episodes.conversation_id",
}  # fmt: skip
OTHERWISE = {
    "agent_shards.agent_id",
    "moved_agents.agent_id",
    "agents.agent_id",
    "api_keys.agents",
    "api_keys.created_by",
    "api_keys.name",
    "api_keys.user_id",
    "scopes.name",
    "messages.message_id",
    "observations.message_ids",
    "observations.category",
    "observations.legacy_ref",
    "imported.legacy_ref",
}

renames = pytest.mark.parametrize(
    ("kind", "old", "new", "places"),
    [
        ("user", "mia-1", "mia-2", OF_USERS),
        ("group", "harbor-1", "harbor-2", OF_GROUPS),
        ("conversation", "monday-1", "monday-2", OF_SESSIONS),
    ],
)


def test_every_column_of_the_hosts_ids_is_known_to_hold_some_kind() -> None:
    known = OF_USERS | OF_GROUPS | OF_SESSIONS | OTHERWISE
    assert {str(column).removeprefix("memory.") for column in HOST_IDS} == known


@pytest.mark.slow
@renames
async def test_renamed_id_stands_nowhere_any_more(
    memory: Memory, llm: Scripted, kind: Any, old: str, new: str, places: set[str]
) -> None:
    await live(memory, llm)
    llm.then(extracted(("Says hello.", "individual")))
    async with refusing(memory, "evidence"):  # a run that hasn't ended knows what it has shown
        with pytest.raises(Exception, match="refused"):
            await memory.conversations.form(**ADA, conversation_id="monday-1")
    assert await columns_that_hold(memory, old) == places
    everything = await counts(memory)
    renamed = await memory.people.rename(
        **ADA, kind=kind, old=old, new=new, actor="support", reason="Changed their name."
    )
    assert await columns_that_hold(memory, old) == set()
    assert places - {"runs.seen"} <= await columns_that_hold(memory, new)
    assert not await rows(memory, "SELECT 1 FROM memory.events WHERE detail::text LIKE :old", old=f'%"{old}"%')
    assert set(renamed.rows) == {place.partition(".")[0] for place in places} | {"events"}
    (event,) = await rows(
        memory, "SELECT actor, reason, detail - 'id' - 'was' FROM memory.events WHERE kind = 'rename'"
    )
    assert event == ("support", "Changed their name.", {"what": kind, f"{kind}_id": new, "rows": renamed.rows})
    assert await counts(memory) == {**everything, "events": everything["events"] + 1}
    assert await memory.admin.verify() == []


async def counts(memory: Memory) -> dict[str, int]:
    return {
        table.name: (await rows(memory, f"SELECT count(*) FROM {table}"))[0][0]  # noqa: S608
        for table in Base.metadata.sorted_tables
    }


@pytest.mark.slow
async def test_memory_goes_on_under_the_new_ids(memory: Memory, llm: Scripted) -> None:
    await live(memory, llm)
    before = await contents(memory, "mia-1")
    await memory.people.rename(**ADA, kind="user", old="mia-1", new="mia-2")
    await memory.people.rename(**ADA, kind="group", old="harbor-1", new="harbor-2")
    await memory.people.rename(**ADA, kind="conversation", old="monday-1", new="monday-2")
    assert await contents(memory, "mia-2") == before == {"Likes tea.", "Ships in April.", "Likes boats."}
    assert await contents(memory, "mia-1") == set()
    assert 'group="harbor-2"' in str(await memory.context(**ADA, user_id="mia-2"))
    told = conversation(5)
    again = await memory.add(told, **ADA, user_id="mia-2", conversation_id="monday-2", group_ids=["harbor-2"])
    assert (again.accepted, again.duplicates) == (0, 5)
    llm.then(extracted(("Likes rain.", "individual")))
    await memory.add([message("Rain!", n=20)], **ADA, user_id="mia-2", conversation_id="monday-2")
    await memory.conversations.form(**ADA, conversation_id="monday-2")
    assert "Likes rain." in await contents(memory, "mia-2")
    assert await memory.admin.verify() == []


@renames
async def test_rename_to_an_id_that_exists_or_of_one_that_does_not_is_refused(
    memory: Memory, llm: Scripted, kind: Any, old: str, new: str, places: set[str]
) -> None:
    await live(memory, llm)
    await memory.add(conversation(1), **ADA, user_id="mia-2", conversation_id="monday-2", group_ids=["harbor-2"])
    state = await rows(memory, "SELECT * FROM memory.conversations ORDER BY conversation_id")
    with pytest.raises(InputError, match="exists"):
        await memory.people.rename(**ADA, kind=kind, old=old, new=new)
    with pytest.raises(InputError, match="exists"):
        await memory.people.rename(**ADA, kind=kind, old=old, new=old)
    for agent, missing in (("ada", "mia"), ("unknown", old)):
        with pytest.raises(NotFoundError):
            await memory.people.rename(agent_id=agent, kind=kind, old=missing, new="other")
    assert await rows(memory, "SELECT * FROM memory.conversations ORDER BY conversation_id") == state
    assert await rows(memory, "SELECT 1 FROM memory.events WHERE kind = 'rename'") == []
    with pytest.raises(InputError):
        await memory.people.rename(**ADA, kind="agent", old="ada", new="bob")  # type: ignore[arg-type]


async def test_rename_reaches_a_uuid_that_is_stored_in_capitals(memory: Memory) -> None:
    """SQL can store one so; every other call writes it in lower case, so that nothing else finds it."""
    capitals = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
    await memory.observe("Hello.", **ADA, user_id="mia")
    await rows(memory, "UPDATE memory.scopes SET owner = 'u:' || :id", id=capitals)
    await rows(memory, "UPDATE memory.evidence SET user_id = :id", id=capitals)
    for old, new in ((capitals, "zoe"), ("zoe", capitals), (capitals, "lena")):
        assert (await memory.people.rename(**ADA, kind="user", old=old, new=new)).rows["scopes"] == 1
    assert len((await memory.forget(Selection(user_id="lena"), **ADA)).observations) == 1


async def test_other_agents_and_ids_that_are_alike_stay(memory: Memory) -> None:
    for user in ("mia", "mia-1", "u:mia", "m_a"):
        await memory.observe("Hello.", **ADA, user_id=user)
    await memory.observe("Hello.", agent_id="bob", user_id="mia")
    await memory.people.rename(**ADA, kind="user", old="mia", new="zoe")
    owners = "SELECT agent_id, owner FROM memory.scopes JOIN memory.agents USING (agent_key) ORDER BY 1, 2"
    assert await rows(memory, owners) == [
        ("ada", "u:m_a"), ("ada", "u:mia-1"), ("ada", "u:u:mia"), ("ada", "u:zoe"), ("bob", "u:mia")
    ]  # fmt: skip


@renames
async def test_formation_under_way_is_refused_when_an_id_changes_and_done_again(
    memory: Memory, llm: Scripted, kind: Any, old: str, new: str, places: set[str]
) -> None:
    await memory.add(conversation(5), **ADA, user_id="mia-1", conversation_id="monday-1", group_ids=["harbor-1"])

    async def meanwhile(_: object) -> str:
        await memory.people.rename(**ADA, kind=kind, old=old, new=new)
        return extracted(("Likes tea.", "individual"))

    llm.then(meanwhile, extracted(("Likes tea.", "individual")))
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="monday-1")
    assert await rows(memory, "SELECT 1 FROM memory.observations") == []
    await memory.conversations.form(**ADA, conversation_id="monday-2" if kind == "conversation" else "monday-1")
    assert await contents(memory, "mia-2" if kind == "user" else "mia-1") == {"Likes tea."}
    assert await columns_that_hold(memory, old) == set()
    assert await memory.admin.verify() == []


async def test_consolidation_under_way_is_refused_when_an_id_changes(memory: Memory, llm: Scripted) -> None:
    scope_id = (await memory.observe("Likes tea.", **MIA)).scope.key

    async def meanwhile(_: object) -> str:
        await memory.people.rename(**ADA, kind="user", old="mia", new="zoe")
        return "Mia likes tea."

    llm.then(meanwhile, "Zoe likes tea.")
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    assert "Zoe likes tea." in str(await memory.context(**ADA, user_id="zoe"))


async def test_stored_answer_of_before_a_renaming_is_not_applied(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("Tea, please.")], **MIA, conversation_id="s")
    llm.then(extracted(("Likes tea.", "individual")))
    async with refusing(memory, "evidence"):
        with pytest.raises(Exception, match="refused"):
            await memory.conversations.form(**ADA, conversation_id="s")
    assert await rows(memory, "SELECT state FROM memory.runs") == [("answered",)]
    await memory.people.rename(**ADA, kind="user", old="mia", new="zoe")
    llm.then(extracted(("Loves tea.", "individual")))
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await contents(memory, "zoe") == {"Loves tea."}
    assert await contents(memory, "mia") == set()


@pytest.mark.slow
async def test_two_renamings_to_one_id_make_one(memory: Memory) -> None:
    for user in ("a", "b"):
        await memory.observe("Hello.", **ADA, user_id=user)
    outcomes = await asyncio.gather(
        *(memory.people.rename(**ADA, kind="user", old=user, new="c") for user in ("a", "b")), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["InputError", "Renamed"]


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("kind", ["user", "group", "conversation"])
async def test_rename_to_an_id_that_is_first_used_meanwhile_is_refused(
    memory: Memory, kind: RenameKind, joins: bool
) -> None:
    """Whoever uses it holds no lock that a renaming waits for: it is met when the ids are rewritten."""
    where = {"user": "mia", "group": "harbor", "conversation": "s"}

    async def say(ids: dict[str, str], session: AsyncSession | None = None) -> None:
        await memory.add(
            [message("Hello.")],
            **ADA,
            user_id=ids["user"],
            conversation_id=ids["conversation"],
            group_ids=[ids["group"]],
            session=session,
        )
        await memory.observe("Likes tea.", **ADA, user_id=ids["user"], session=session)

    async def rename(session: AsyncSession | None = None) -> None:
        await memory.people.rename(**ADA, kind=kind, old=where[kind], new="new", session=session)

    await say(where)
    async with memory.database.transaction() as renames:
        async with memory.database.transaction() as uses:
            await say({"user": "zoe", "group": "yard", "conversation": "t"} | {kind: "new"}, uses)
            renaming = asyncio.create_task(rename(renames if joins else None))
            await are_waiting(memory, 1)
        with pytest.raises(InputError, match=f"{kind} new exists"):
            await renaming
        if joins:
            await memory.observe("The host goes on.", **ADA, user_id=where["user"], session=renames)
    renamed = await memory.people.rename(**ADA, kind=kind, old=where[kind], new="newer")
    assert (renamed.old, renamed.new) == (where[kind], "newer")


# Legal holds


async def test_hold_is_one_however_often_it_is_asked_for_and_ends_once(memory: Memory) -> None:
    observation = await memory.observe("Likes tea.", **MIA)
    targets: list[dict[str, Any]] = [
        {"user_id": "mia"}, {"conversation_id": "s"}, {"group_id": "harbor"}, {"observation_id": observation.id}
    ]  # fmt: skip
    placed = [await memory.holds.place(**ADA, **target, actor="legal", reason="Case 7.") for target in targets]
    assert [await memory.holds.place(**ADA, **target) for target in targets] == placed
    assert [(hold.observations, hold.messages) for hold in placed] == [(1, 0), (0, 0), (0, 0), (1, 0)]
    first = [hold.hold_id for hold in placed]
    assert len(set(first)) == 4
    found = await memory.holds.list(**ADA)
    assert [(hold.kind, hold.target, hold.actor, hold.reason) for hold in found] == [
        ("user", "mia", "legal", "Case 7."),
        ("conversation", "s", "legal", "Case 7."),
        ("group", "harbor", "legal", "Case 7."),
        ("observation", observation.id, "legal", "Case 7."),
    ]
    for _ in range(2):
        released = await memory.holds.release(first[0], **ADA, actor="legal", reason="Closed.")
        assert released.released_at is not None
    assert [hold.hold_id for hold in await memory.holds.list(**ADA)] == first[1:]
    assert [hold.hold_id for hold in await memory.holds.list(**ADA, released=True)] == first
    assert (await memory.holds.place(**ADA, user_id="mia")).hold_id not in first
    events = await rows(memory, "SELECT detail ->> 'action' FROM memory.events WHERE kind = 'hold' ORDER BY event_id")
    assert [action for (action,) in events] == ["hold"] * 4 + ["release", "hold"]


async def test_hold_names_exactly_one_thing_that_can_be_held(memory: Memory) -> None:
    await memory.observe("Likes tea.", **MIA)
    for wrong in ({}, {"user_id": "mia", "group_id": "harbor"}, {"observation_id": "mia"}, {"user_id": ""}):
        with pytest.raises(InputError):
            await memory.holds.place(**ADA, **wrong)  # type: ignore[arg-type]
    with pytest.raises(TooLargeError):
        await memory.holds.place(**MIA, reason="x" * 1001)
    for agent, observation_id in (("ada", "o1-2"), ("ada", "o99-1"), ("bob", "o1-1")):
        with pytest.raises(NotFoundError):
            await memory.holds.place(agent_id=agent, observation_id=observation_id)
    assert await memory.holds.list(**ADA) == await memory.holds.list(agent_id="bob") == []
    assert await rows(memory, "SELECT agent_id FROM memory.agents") == [("ada",)]


async def test_hold_of_another_agent_is_not_found(memory: Memory) -> None:
    hold_id = (await memory.holds.place(**MIA)).hold_id
    await memory.observe("Hello.", agent_id="bob", user_id="mia")
    for agent, number in (("bob", hold_id), ("unknown", hold_id), ("ada", hold_id + 1)):
        with pytest.raises(NotFoundError):
            await memory.holds.release(number, agent_id=agent)
    assert len(await memory.holds.list(**ADA)) == 1


async def test_holds_at_once_are_one(memory: Memory) -> None:
    found = await asyncio.gather(*(memory.holds.place(**MIA) for _ in range(6)))
    assert len({hold.hold_id for hold in found}) == 1


# Export


async def exported(memory: Memory, user: str = "mia") -> list[ExportLine]:
    async with aclosing(memory.people.export(**ADA, user_id=user)) as lines:
        return [line async for line in lines]


def of_type(lines: list[ExportLine], kind: str) -> list[Any]:
    return [line for line in lines if line.type == kind]


TEXTS = [
    column
    for table in Base.metadata.sorted_tables
    for column in table.columns
    if column.info.get("text") == "erase" and not isinstance(column.type, BIT) and str(column) != SEEN
]
MADE_OF_THE_TEXT = {
    f"{table}.{column}" for table in ("observations", "messages") for column in ("search", "search_extra")
} | {"observations.cues"}


async def plant(memory: Memory, llm: Scripted, user: str, other: str) -> None:
    """Leaves words that begin with `<user>-` in every text column; nobody else's words are near them."""
    who: dict[str, Any] = {**ADA, "user_id": user}
    await memory.add([message(f"{user}-said", name=f"{user}-name")], **who, conversation_id=f"{user}-s")
    llm.then(extracted((f"{user}-fact", "individual")))
    await memory.conversations.form(**ADA, conversation_id=f"{user}-s")
    await memory.add([message(f"{user}-answer", n=2, role="assistant")], **who, conversation_id=f"{user}-s")
    together = [message(f"{user}-in-group", name=f"{user}-name"), message("an answer to all", n=99, role="assistant")]
    together[0]["id"] = f"{user}-m"
    await memory.add(together, **who, conversation_id="both", group_ids=["g"])
    details: dict[str, Any] = {"tags": [f"{user}-tag"], "metadata": {"k": f"{user}-meta"}}
    own = await memory.observe(f"{user}-own", **who, speaker=f"{user}-speaker", **details)
    llm.then(f"{user}-text")
    await memory.scopes.consolidate(**ADA, scope_id=own.scope.id)
    await memory.prompts.set(own.scope.id, "extraction", f"{user}-prompt", **ADA)
    await memory.observe(f"{user}-for-group", **who, group_id="g")
    await memory.observe(f"{user}-for-all", **who, collective=True)
    await memory.holds.place(**who, actor=other, reason=f"{user}-hold")
    await memory.people.merge(**ADA, user_id=f"{user}-anon", into_user_id=user, actor=other, reason=f"{user}-alias")
    for insert in (
        "links (agent_key, scope_id, seq, to_seq, kind, label) SELECT agent_key, scope_id, max(seq), min(seq), 'entity',"
        " :u || '-link' FROM memory.observations WHERE content IN (:u || '-fact', :u || '-own') GROUP BY 1, 2",
        "episodes (agent_key, conversation_id, opened_at, last_at) SELECT agent_key, conversation_id, now(), now()"
        " FROM memory.conversations WHERE conversation_id = :u || '-s'",
        "observation_episodes (agent_key, scope_id, seq, episode_id, topics) SELECT agent_key, o.scope_id, o.seq,"
        " e.episode_id, ARRAY[:u || '-topic'] FROM memory.episodes e JOIN memory.observations o USING (agent_key)"
        " WHERE e.conversation_id = :u || '-s' AND o.content = :u || '-fact'",
    ):
        await rows(memory, f"INSERT INTO memory.{insert.replace(':u', 'CAST(:u AS text)')} RETURNING 1", u=user)
    for update in (
        "observations SET fact_key = :u || '-key', search_extra = :u || '-extra', terms = :u || '-term',"
        " dates = '{[2026-03-02,2026-03-05)}'"
        " WHERE content = :u || '-own'",
        "scopes SET display_name = :u || '-display' WHERE owner = 'u:' || :u",
        "consolidations SET contradictions = jsonb_build_array(jsonb_build_object('was', :u || '-was', 'newer', 2))"
        " WHERE content = :u || '-text'",
        "runs SET answer = :u || '-raw' WHERE conversation_id = :u || '-s'",
        "runs SET held = jsonb_build_object('text', :u || '-held') WHERE scope_id IN"
        " (SELECT scope_id FROM memory.scopes WHERE owner = 'u:' || :u)",
        "messages SET search_extra = :u || '-extra' WHERE content = :u || '-said'",
    ):
        await rows(memory, f"UPDATE memory.{update.replace(':u', 'CAST(:u AS text)')}", u=user)


async def words(memory: Memory, column: Any, user: str) -> set[str]:
    """The words of that person which stand in the column."""
    sql = f"SELECT DISTINCT m[1] FROM {column.table}, regexp_matches({column.name}::text, :pattern, 'g') m"  # noqa: S608
    return {word for (word,) in await rows(memory, sql, pattern=rf"\m({user}-[a-z-]+)")}


@pytest.mark.slow
async def test_export_holds_every_text_about_a_person_and_nothing_of_others(memory: Memory, llm: Scripted) -> None:
    await plant(memory, llm, "mia", "jonas")
    await plant(memory, llm, "jonas", "mia")
    await memory.add([message("bob-said")], agent_id="bob", user_id="mia", conversation_id="s")
    told = "\n".join(line.model_dump_json() for line in await exported(memory))
    for column in TEXTS:
        planted = await words(memory, column, "mia")
        assert planted, column
        if str(column).removeprefix("memory.") not in MADE_OF_THE_TEXT:
            assert planted - set(re.findall(r"\bmia-[a-z-]+", told)) == set(), column
    assert "jonas" not in told
    assert "an answer to all" not in told
    assert "bob" not in told


async def test_export_of_somebody_unknown_has_a_header_and_nothing_else(memory: Memory) -> None:
    await memory.observe("Likes tea.", **MIA)
    (header,) = of_type(await exported(memory, "zoe"), "header")
    assert set(header.counts.values()) == {0}
    with pytest.raises(NotFoundError):
        await anext(memory.people.export(agent_id="unknown", user_id="mia"))


async def test_export_counts_its_lines_first_and_tells_them_in_one_order(memory: Memory, llm: Scripted) -> None:
    await plant(memory, llm, "mia", "jonas")
    first, again = await exported(memory), await exported(memory)
    header: Any = first[0]
    assert first[1:] == again[1:]
    assert (header.format, header.agent_id, header.user_ids) == (1, "ada", ("mia", "mia-anon"))
    assert header.counts == {kind: len(of_type(first, kind)) for kind in header.counts}
    assert sum(header.counts.values()) == len(first) - 1
    assert {line.type for line in first} == {"header", *header.counts} - {"derivation"}


async def test_exported_observation_has_its_sources_and_an_id_for_every_database(memory: Memory, llm: Scripted) -> None:
    await plant(memory, llm, "mia", "jonas")
    by_text = {line.content: line for line in of_type(await exported(memory), "observation")}
    fact, own = by_text["mia-fact"], by_text["mia-own"]
    assert (fact.conversation_id, fact.message_ids, fact.user_ids) == ("mia-s", ("m1",), ("mia",))
    assert [(item.conversation_id, item.message_id, item.user_id) for item in fact.evidence] == [("mia-s", "m1", "mia")]
    assert fact.uuid == export_uuid("ada", "u:mia", "", "o", 1)
    assert fact.uuid != own.uuid
    assert own.dates == ("2026-03-02/2026-03-04",)
    assert (own.status, own.verification, own.shared) == ("active", "unverified", False)


async def test_what_others_said_first_is_told_without_what_is_known_of_it(memory: Memory) -> None:
    mine: dict[str, Any] = {"speaker": "Mia", "tags": ["m"]}
    yours: dict[str, Any] = {"speaker": "Jonas", "tags": ["j"], "metadata": {"by": "jonas"}}
    await memory.observe("We ship in April.", **JONAS, group_id="g", **yours)
    await memory.observe("We ship in April.", **MIA, group_id="g", **mine)
    await memory.observe("We ship in May.", **JONAS, group_id="g", **yours)
    lines = await exported(memory)
    (observation,) = of_type(lines, "observation")
    assert (observation.content, observation.shared, observation.speaker) == ("We ship in April.", True, None)
    assert [item.user_id for item in observation.evidence] == ["mia"]
    assert "onas" not in "".join(line.model_dump_json() for line in lines)


async def test_what_was_made_of_theirs_is_told_unless_others_words_are_in_it(memory: Memory) -> None:
    mine = await memory.observe("Mia ships in April.", **MIA)
    yours = await memory.observe("Jonas ships in May.", **JONAS)
    made = [await memory.observe(f"made {n}", **ADA, group_id="g") for n in range(3)]
    top = [await memory.observe(f"top {n}", **ADA, collective=True) for n in range(3)]
    for child, source in (
        (made[0], mine), (made[1], mine), (made[1], yours), (made[2], yours),
        (top[0], made[0]), (top[1], made[1]), (top[2], made[2]),
    ):  # fmt: skip
        places = [int(number) for o in (child, source) for number in o.id.removeprefix("o").split("-")]
        names = dict(zip(("a", "b", "c", "d"), places, strict=True))
        await rows(
            memory,
            "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
            " SELECT agent_key, :a, :b, :c, :d FROM memory.agents",
            **names,
        )
    found = {line.id: line for line in of_type(await exported(memory), "derivation")}
    assert {key: (line.content, line.shared, line.sources) for key, line in found.items()} == {
        made[0].id: ("made 0", False, (mine.id,)),
        made[1].id: (None, True, (mine.id,)),
        top[0].id: ("top 0", False, (made[0].id,)),
        top[1].id: (None, True, (made[1].id,)),
    }


async def test_export_is_of_one_moment_and_in_bounded_memory(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "BATCH", 10)
    for n in range(40):
        await memory.observe(f"fact {n}", **MIA)
    with statements(memory) as seen:
        async with aclosing(memory.people.export(**MIA)) as lines:
            header: Any = await anext(lines)
            await memory.observe("fact 40", **MIA)
            found = [line async for line in lines]
    assert header.counts["observation"] == len([line for line in found if line.type == "observation"]) == 40
    assert len(seen) < 40
