"""Row-level security: without a principal nobody sees anything; with one they see what is theirs.

`walled` is a Memory of a login role that is only a member of the application's role; `memory` is a superuser's, which
passes every wall.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql.config import Settings
from memory_sql.db import ddl
from memory_sql.db.connecting import POOLED
from memory_sql.db.contents import ENTER
from memory_sql.db.direct import ask
from memory_sql.db.hashes import keyed_hashes
from memory_sql.db.models import Base, ObservationRow
from memory_sql.db.principals import Principal, service
from memory_sql.db.queries.search import COLUMNS, FOUND
from memory_sql.db.repositories.observations import OBSERVATION
from memory_sql.db.roles import Roles, drop, erased_columns, make, script
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.query import Weights
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, InputError, NotFoundError
from memory_sql.languages.text import normal_form
from memory_sql.memory import Memory
from memory_sql.retrieval.query import parse
from tests.commands import memory_sql
from tests.conftest import administer, as_login, login
from tests.database import connect_once, owners_url, rows, statements
from tests.factories import conversation
from tests.fakes import Parrot, Scripted, extracted
from tests.migrations.databases import downgrade, execute, fetch, psql, schema_of, upgrade
from tests.pooler import Pooler

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
_ASKED = parse("gate", datetime(2026, 3, 2, tzinfo=UTC), UTC).to_json(Weights())
GATE = f"'{_ASKED}'::jsonb, 10, 10, NULL, now(), NULL, false, NULL, NULL"  # what memory.search is given behind whom it is for
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}
AS_MIA: Principal = {**MIA, "conversation_id": None}
SECRET = "The gate of dock 4711 is hers."

TABLES = sorted(table.name for table in Base.metadata.sorted_tables)
OF_IMPORTS = {"imports", "import_rejects", "imported", "imported_messages", "forgotten_refs", "forgotten_ids"}
OF_OBSERVATIONS = {"observation_vectors", "observation_retrievals", "observation_feedback", "rechecked", "links"}
FOR_USERS = sorted(
    set(TABLES)
    - OF_IMPORTS
    - OF_OBSERVATIONS
    - {"runs", "events", "holds", "retrievals", "departures", "prompts", "prices", "dialects", "api_keys"}
    - {"shards", "agent_shards", "moved_agents"}
)


@pytest.fixture
async def memory(walled_database: str, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(walled_database, llm, settings) as opened:
        yield opened


@pytest.fixture
async def walled(walled_database: str, roles: Roles, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(as_login(walled_database, roles), llm, settings) as opened:
        yield opened


@pytest.fixture
async def raw(walled_database: str, roles: Roles) -> AsyncIterator[Any]:
    """asyncpg's own connection of the application's role."""
    connection = await asyncpg.connect(driver_url(as_login(walled_database, roles)))
    yield connection
    await connection.close()


def driver_url(url: str) -> str:
    return url.replace("postgresql+asyncpg://", "postgresql://", 1)


async def enter(connection: Any, agent: str | None, user: str | None = None, *, serves: bool = False) -> None:
    await connection.execute("SELECT memory.enter($1, $2, NULL, $3)", agent, user, serves)


async def refused(connection: Any, sql: str, *values: Any, **principal: Any) -> None:
    """By a policy, before any constraint could tell what is there."""
    transaction = connection.transaction()
    await transaction.start()
    await enter(connection, **principal)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await connection.execute(sql, *values)
    await transaction.rollback()


async def counts(connection: Any, names: list[str]) -> dict[str, int]:
    return {name: await connection.fetchval(f"SELECT count(*) FROM memory.{name}") for name in names}


async def live(memory: Memory, llm: Scripted) -> None:
    """Something in every table: Mia and Jonas in a group, each with a secret."""
    llm.then(extracted((SECRET, "individual")), "Mia knows the gate code 4711.", "Jonas's code is 4711, as hers.")
    await memory.add(conversation(5, saying=SECRET), **MIA, conversation_id="s-mia", group_ids=["harbor"])
    await memory.conversations.form(agent_id="ada", conversation_id="s-mia")
    await memory.add(conversation(2), **JONAS, conversation_id="s-jonas", group_ids=["harbor"])
    for who in (MIA, JONAS):
        scope = (await memory.observe(f"{SECRET} It is {who['user_id']}'s.", **who)).scope
        await memory.scopes.consolidate(agent_id="ada", scope_id=scope.id)
    group = (await memory.observe("Ship in April.", agent_id="ada", group_id="harbor")).scope.key
    await memory.observe("A gate for all.", agent_id="ada", collective=True)
    (mine,) = [scope.ref.key for scope in await memory.scopes.list(**MIA) if scope.ref.kind == "individual"]
    for sql in (
        f"INSERT INTO memory.observation_states (agent_key, scope_id, seq) VALUES (1, {mine}, 1)",
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        f" VALUES (1, {group}, 1, {mine}, 1)",
        "INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, seq)"
        f" VALUES (1, {mine}, 1, {group}, 'propagated', 'shared', 1)",
        "INSERT INTO memory.events (agent_key, kind) VALUES (1, 'status')",
        """UPDATE memory.consolidations SET contradictions = '[{"newer": 1, "older": null, "was": "no", "now": "yes"}]'""",
        "INSERT INTO memory.holds (agent_key, kind, target) VALUES (1, 'user', 'mia')",
        "INSERT INTO memory.user_aliases (agent_key, user_id, into_user_id) VALUES (1, 'anonymous', 'mia')",
        f"INSERT INTO memory.departures (agent_key, user_hash, scope_id) VALUES (1, 'somebody', {group})",
        f"INSERT INTO memory.prompts (agent_key, scope_id, name, version, mode, body) VALUES (1, {mine}, 'extraction', 1,"
        " 'guidance', 'Her gate.')",
        "INSERT INTO memory.imports (source, state, key_hash, accounts) VALUES ('dump', 'running', 'k',"
        """ '{"collections": {"memory_user": {"source": 1}}}')""",
        "INSERT INTO memory.import_rejects VALUES (1, 1, 'memory_user', NULL, 'f', 1, 0, 'rejected', 'empty')",
        f"INSERT INTO memory.imported VALUES (1, {mine}, 'memory_user:1', 1, NULL, 'a', 'b', 'c')",
        "INSERT INTO memory.imported_messages SELECT agent_key, conversation_id, number, 1, 'a', 'b', 'c'"
        " FROM memory.messages LIMIT 1",
        "INSERT INTO memory.forgotten_refs VALUES (1, 'c')",
        "INSERT INTO memory.forgotten_ids VALUES (1, 'user', 'c')",
        f"INSERT INTO memory.observation_vectors VALUES (1, {mine}, 1, 'm:1', '1')",
        f"INSERT INTO memory.observation_retrievals VALUES (1, {mine}, 1, '2026-03-02', 'search', 1)",
        f"INSERT INTO memory.observation_feedback VALUES (1, {mine}, 1, '2026-03-02', 0.5, 1)",
        "DO $$ BEGIN SET LOCAL session_replication_role = replica;"  # no scope here has a second observation
        f" INSERT INTO memory.rechecked VALUES (1, {mine}, 1, 2, 'same', now()); SET LOCAL session_replication_role = origin;"
        " END $$",
        f"INSERT INTO memory.links (agent_key, scope_id, seq, to_seq, kind, label) VALUES (1, {mine}, 1, 2, 'time', '')",
        "INSERT INTO memory.episodes (agent_key, conversation_id, opened_at, last_at)"
        " SELECT agent_key, conversation_id, '2000-01-01', '2100-01-01' FROM memory.conversations"
        " WHERE conversation_id = 's-mia'",
        f"INSERT INTO memory.observation_episodes SELECT agent_key, {mine}, 1, episode_id FROM memory.episodes",
        "INSERT INTO memory.prices VALUES ('scripted', '2026-01-01', 'EUR', 1, 2)",
        "INSERT INTO memory.dialects VALUES ('http://localhost', 'scripted', 'chat', 'text')",
        "INSERT INTO memory.api_keys (secret_hash, prefix, name, rights) VALUES (sha256('k'), 'ms_k', 'chat', '{read}')",
        "INSERT INTO memory.retrievals VALUES (1, '2026-03-02', 'search', 'asked', 1, 0, 0.1, 0.1)",
        "INSERT INTO memory.shards (shard, number, version) VALUES ('a', 0, 1)",
        "INSERT INTO memory.agent_shards (agent_id, shard, version) VALUES ('ada', 'a', 1)",
        "INSERT INTO memory.moved_agents (agent_id, moved_key, shard) VALUES ('zoe', 999, 'a')",
    ):
        await rows(memory, sql)


# Nobody, and somebody else


@pytest.mark.slow
async def test_who_names_no_principal_sees_no_row_of_any_table_or_view(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    full = {name: (await rows(memory, f"SELECT count(*) FROM memory.{name}"))[0][0] for name in (*TABLES, *ddl.VIEWS)}
    assert 0 not in full.values(), full
    assert set((await counts(raw, [*TABLES, *ddl.VIEWS])).values()) == {0}
    async with raw.transaction():
        assert set((await counts(raw, [*TABLES, *ddl.VIEWS])).values()) == {0}


@pytest.mark.parametrize(
    ("agent", "user"),
    [("bob", "mia"), ("ad", "mia"), ("%", "mia"), ("ada%", "mia"), ("nobody", "nobody"), ("", ""), (None, None),
     ("ada", None)],
)  # fmt: skip
async def test_user_of_another_agent_sees_no_row(
    memory: Memory, llm: Scripted, raw: Any, agent: str | None, user: str | None
) -> None:
    await live(memory, llm)
    await memory.observe("Bob's.", agent_id="bob", collective=True)
    async with raw.transaction():
        await enter(raw, agent, user)
        seen = await counts(raw, [*TABLES, *ddl.VIEWS])
        own = (
            {"agents", "scopes", "observations", "evidence", "v_observations", "v_lifecycle", "v_pending"}
            if agent == "bob"
            else set()
        )
        own |= {"agents"} if agent == "ada" else set()
        assert {name for name, count in seen.items() if count} == own
        assert not await raw.fetch("SELECT FROM memory.observations WHERE content <> 'Bob''s.'")


@pytest.mark.parametrize(
    "user", ["mi", "mia2", "%", "m_a", "MIA", "u:mia", "c", "harbor", "g:harbor", "mia' OR '1'='1"]
)
async def test_id_that_is_a_pattern_or_a_prefix_sees_what_everybody_sees(
    memory: Memory, llm: Scripted, raw: Any, user: str
) -> None:
    await live(memory, llm)
    async with raw.transaction():
        await enter(raw, "ada", user)
        seen = await raw.fetch("SELECT content FROM memory.observations")
        assert [row["content"] for row in seen] == ["A gate for all."]
        assert set((await counts(raw, ["conversations", "messages", "members", "runs", "user_aliases"])).values()) == {
            0
        }


async def test_user_sees_what_is_theirs_in_every_table(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        seen = await counts(raw, TABLES)
        assert {name for name, count in seen.items() if count} == set(FOR_USERS)
        assert {row["owner"] for row in await raw.fetch("SELECT owner FROM memory.scopes")} == {
            "u:mia",
            "g:harbor",
            "c",
        }
        assert {row["conversation_id"] for row in await raw.fetch("SELECT conversation_id FROM memory.messages")} == {
            "s-mia"
        }
        contents = {row["content"] for row in await raw.fetch("SELECT content FROM memory.observations")}
        assert contents == {SECRET, f"{SECRET} It is mia's.", "Ship in April.", "A gate for all."}
        await enter(raw, "ada", "jonas")
        assert seen["lineage"] == 1
        assert await raw.fetch("SELECT FROM memory.lineage") == []  # of the group, which is his, but made of what isn't
        assert (seen["judged"], await raw.fetch("SELECT FROM memory.judged")) == (1, [])  # nor what was decided on it


async def test_link_to_a_person_s_page_works_once_behind_walls(walled: Memory) -> None:
    made = await walled.keys.create("chat", rights=["read"], agents=["ada"])
    code = await walled.keys.link(made.secret, **MIA)
    found = await walled.keys.redeem(code)
    assert found is not None
    assert found[1:] == ("ada", "mia")
    assert await walled.keys.redeem(code) is None


@pytest.mark.slow
async def test_propagation_works_behind_walls_and_users_see_of_it_what_is_between_scopes_of_theirs(
    memory: Memory, walled: Memory, raw: Any
) -> None:
    for user in ("mia", "jonas"):
        await memory.add(conversation(1), agent_id="ada", user_id=user, conversation_id=user, group_ids=["harbor"])
    said = await walled.observe("The project deadline is 24 April 2026.", **MIA)
    await walled.observe("Mia likes her tea with milk.", **MIA)
    async with Memory(walled.database.url.render_as_string(hide_password=False), Parrot()) as parroting:
        await parroting.scopes.consolidate(agent_id="ada", scope_id=said.scope.id)
        assert len((await parroting.scopes.propagate(agent_id="ada")).propagated) == 1
        assert await parroting.work.reviews(agent_id="ada") == []
        assert (await parroting.work.backlog(agent_id="ada")).held == 0
        assert (await parroting.admin.stats(agent_id="ada")).propagated == 1
    (seen,) = await walled.observations.list(**JONAS)
    assert await walled.observations.sources(seen.id, **JONAS) == ()
    assert await walled.observations.spread(said.id, **MIA) == (seen,)
    assert await walled.observations.spread(seen.id, **JONAS) == ()
    with pytest.raises(NotFoundError):
        await walled.observations.spread(said.id, **JONAS)
    judged = "SELECT outcome FROM memory.judged ORDER BY 1"
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert [row["outcome"] for row in await raw.fetch(judged)] == ["propagated", "refused"]
        assert await raw.fetchval("SELECT sum(observations) FROM memory.v_propagation_flow") == 2
        await enter(raw, "ada", "jonas")
        assert await raw.fetch(judged) == []
        assert await raw.fetch("SELECT FROM memory.v_propagation_flow") == []
    insert = "INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason)"
    await refused(raw, f"{insert} VALUES (1, 1, 1, 2, 'refused', 'no')", agent="ada", user="mia")
    await refused(raw, f"{insert} VALUES (1, 1, 1, 2, 'refused', 'no')", agent="bob", serves=True)
    assert list(await memory.admin.verify()) == []


async def test_user_sees_what_is_of_an_id_that_stands_for_them_and_not_the_other_way_round(
    memory: Memory, llm: Scripted, walled: Memory, raw: Any
) -> None:
    await live(memory, llm)
    anonymous: dict[str, Any] = {"agent_id": "ada", "user_id": "anonymous"}
    await memory.observe("The gate of a visitor.", **anonymous)
    await memory.add(conversation(1), **anonymous, conversation_id="s-anonymous")
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await raw.fetchval("SELECT count(*) FROM memory.observations WHERE content ~ 'visitor'") == 1
        conversations = await raw.fetch("SELECT DISTINCT conversation_id FROM memory.messages ORDER BY 1")
        assert [row["conversation_id"] for row in conversations] == ["s-anonymous", "s-mia"]
        await enter(raw, "ada", "anonymous")
        assert await raw.fetchval("SELECT count(*) FROM memory.observations WHERE content ~ 'mia'") == 0
        assert await raw.fetch("SELECT FROM memory.user_aliases") == []
    for read in (memory, walled):
        assert len(await read.observations.list(**MIA)) == 5
        assert len(await read.observations.list(**anonymous)) == 2


@pytest.mark.slow
async def test_messages_are_read_and_end_behind_walls_as_they_do_without(
    memory: Memory, llm: Scripted, walled: Memory, raw: Any
) -> None:
    await live(memory, llm)
    for who, count in ((MIA, 5), (JONAS, 2)):
        assert await walled.conversations.messages(**who) == await memory.conversations.messages(**who)
        assert len(await walled.conversations.messages(**who)) == count
    (secret,) = [o for o in await walled.observations.list(**MIA) if o.content == SECRET]
    assert [m.id for m in await walled.observations.sources(secret.id, **MIA)] == ["m1"]
    with pytest.raises(NotFoundError):
        await walled.observations.sources(secret.id, **JONAS)
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await raw.fetchval("SELECT count(*) FROM memory.messages") == 5
    await walled.conversations.exclude(agent_id="ada", conversation_id="s-mia")
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await raw.fetch("SELECT FROM memory.messages") == []
        assert await raw.fetch("SELECT FROM memory.visible_conversations('ada', 'jonas')") == []
    await walled.configure(agent_id="ada", message_retention_days=0)
    assert (await walled.work.maintain()).messages == 2  # the agent's: Mia's are held, Jonas's not formed
    await walled.holds.release((await walled.holds.list(agent_id="ada"))[0].hold_id, agent_id="ada")
    assert (await walled.work.maintain()).messages == 3


@pytest.mark.slow
async def test_groups_are_managed_behind_walls_and_who_has_left_one_reads_no_row_of_it(
    memory: Memory, llm: Scripted, walled: Memory, raw: Any
) -> None:
    await live(memory, llm)
    await walled.observe("Mia's plan.", **MIA, group_id="harbor")
    left = await walled.groups.remove_member("harbor", "mia", agent_id="ada", actor="desk")
    assert len(left.archived) == 1
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        owners = {row["owner"] for row in await raw.fetch("SELECT owner FROM memory.scopes")}
        assert owners == {"u:mia", "c"}
        assert set((await counts(raw, ["conversations", "messages", "members"])).values()) == {0}
        assert await raw.fetch("SELECT FROM memory.observations WHERE content ~ 'Ship'") == []
        await enter(raw, "ada", "jonas")
        assert await counts(raw, ["conversations", "messages", "members"]) == {
            "conversations": 1,
            "messages": 2,
            "members": 2,
        }
    assert await walled.conversations.messages(**MIA) == []
    assert {m.user_id for m in await walled.groups.members("harbor", agent_id="ada")} == {"jonas"}
    made = await walled.groups.create("quay", agent_id="ada")
    assert await walled.groups.list(agent_id="ada") == await memory.groups.list(agent_id="ada")
    assert (await walled.groups.rename("quay", "Quay", agent_id="ada")).scope_id == made.scope_id
    await walled.groups.add_member("harbor", "mia", agent_id="ada")
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await counts(raw, ["conversations", "messages"]) == {"conversations": 1, "messages": 5}
    assert list(await memory.admin.verify()) == []


@pytest.mark.slow
async def test_user_reads_no_row_of_what_is_forgotten_and_held(
    memory: Memory, llm: Scripted, walled: Memory, raw: Any
) -> None:
    """By the role of the application, which may neither delete nor bring back what is withdrawn."""
    await live(memory, llm)
    llm.then("Ship in April.")
    receipt = await walled.forget(Selection(user_id="mia"), agent_id="ada")
    assert receipt.withdrawn
    for user in ("mia", "jonas", "anonymous"):
        async with raw.transaction():
            await enter(raw, "ada", user)
            for name in ("observations", "v_observations", "messages", "evidence", "user_aliases", "consolidations"):
                assert "mia" not in str(await raw.fetch(f"SELECT * FROM memory.{name}")), name
    assert await rows(memory, "SELECT count(*) FROM memory.observations WHERE content ~ 'mia'") == [(1,)]
    ((hold_id,),) = await rows(memory, "SELECT hold_id FROM memory.holds")
    await walled.holds.release(hold_id, agent_id="ada")
    assert await rows(memory, "SELECT count(*) FROM memory.observations WHERE content ~ 'mia'") == [(0,)]
    assert await rows(memory, "SELECT content FROM memory.messages WHERE user_id = 'mia' AND content IS NOT NULL") == []
    assert await rows(memory, "SELECT user_id FROM memory.user_aliases") == []


async def test_user_lets_nobody_into_a_group_and_nobody_out(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    (scope,) = [s.ref.key for s in await memory.scopes.list(**MIA) if s.ref.kind == "group"]
    insert = "INSERT INTO memory.members (agent_key, scope_id, user_id) VALUES (1, $1, 'eve')"
    await refused(raw, insert, scope, agent="ada", user="mia")
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await raw.execute("UPDATE memory.members SET left_at = now()") == "UPDATE 0"
        assert await raw.execute("UPDATE memory.scopes SET display_name = 'Mine'") == "UPDATE 0"
    assert len(await memory.groups.members("harbor", agent_id="ada")) == 2


async def test_views_show_a_user_what_the_tables_show(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    async with raw.transaction():
        await enter(raw, "ada", "jonas")
        found = await raw.fetch(
            "SELECT content FROM memory.v_observations UNION SELECT content FROM memory.v_scope_timeline"
        )
        assert {row["content"] for row in found} == {
            f"{SECRET} It is jonas's.", "Ship in April.", "A gate for all.", "Jonas's code is 4711, as hers.",
        }  # fmt: skip
        assert await counts(raw, ["v_formation_funnel", "v_model_cost"]) == {"v_formation_funnel": 1, "v_model_cost": 0}


# Writing


async def test_user_writes_nothing_not_even_what_is_theirs(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    (scope,) = await rows(memory, "SELECT agent_key, scope_id FROM memory.scopes WHERE owner = 'u:mia'")
    insert = "INSERT INTO memory.members (agent_key, scope_id, user_id) VALUES ($1, $2, 'eve')"
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await raw.execute("UPDATE memory.scopes SET display_name = 'mine'") == "UPDATE 0"
        assert await raw.fetch("SELECT FROM memory.scopes FOR UPDATE") == []
    await refused(raw, insert, *scope, agent="ada", user="mia")


ADD = "SELECT * FROM memory.add_messages($1, $2, $3, $4, $5, '{}', now(), $6, NULL, NULL)"


def told(user: str) -> str:
    said = {"id": "forged", "role": "user", "user_id": user, "content": "I said so.", "cleaned": [], "weight": 1.0}
    return json.dumps([{**said, "eligible": True}])


@pytest.mark.parametrize(
    "call",
    [
        "memory.observe('ada', NULL, NULL, '[]', '{}', '{}', 10, now())",
        "memory.correct_one('ada', 'mia', NULL, 1, 1, NULL, '{}', 10, NULL, NULL, now())",
        "memory.forget_one('ada', 1, 1, '', '{}', NULL, NULL, 10, now())",
        "memory.apply_formation('ada', '{}', '[]', '{}', '[]', 10, '{}', now())",
    ],
)
async def test_user_stores_no_observation_by_a_function(memory: Memory, raw: Any, call: str) -> None:
    await memory.observe("The ferry leaves at nine.", agent_id="ada", user_id="mia")
    for principal in ({"agent": "ada", "user": "mia"}, {"agent": "bob", "serves": True}):
        transaction = raw.transaction()
        await transaction.start()
        await enter(raw, **principal)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="adds nothing to this one"):
            await raw.fetch(f"SELECT 1 FROM {call}")
        await transaction.rollback()


async def test_user_joins_no_group_and_says_nothing_for_another(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    await memory.observe("The crew's secret.", agent_id="ada", group_id="crew")
    everything = await rows(
        memory, "SELECT count(*) FROM memory.messages UNION ALL SELECT count(*) FROM memory.members"
    )
    for principal in ({"agent": "ada", "user": "mia"}, {"agent": "ada"}, {"agent": "bob", "serves": True}):
        for user, conversation_id, groups in (
            ("mia", "s-new", ["crew"]), ("jonas", "s-jonas", []), ("mia", "s-mia", []), ("mia", "s-jonas", ["crew"])
        ):  # fmt: skip
            transaction = raw.transaction()
            await transaction.start()
            await enter(raw, **principal)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="adds nothing to this one"):
                await raw.fetch(ADD, "ada", conversation_id, user, groups, told(user), True)
            await transaction.rollback()
    again = "SELECT count(*) FROM memory.messages UNION ALL SELECT count(*) FROM memory.members"
    assert await rows(memory, again) == everything
    for agent in ("ada", None):
        async with raw.transaction():
            await enter(raw, agent, serves=True)
            await raw.fetch(ADD, "ada", "s-new", "mia", [], told("mia"), None)


async def test_user_asks_for_nobody_else(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    calls = {
        "search": f"SELECT (observation).content FROM memory.search('ada', 'jonas', NULL, {GATE})",
        "static_layer": "SELECT * FROM memory.static_layer('ada', 'jonas', NULL, 10, 200)",
        "scopes": "SELECT * FROM memory.visible_scopes('ada', 'jonas')",
        "conversations": "SELECT * FROM memory.visible_conversations('ada', 'jonas')",
    }
    for name, sql in calls.items():
        assert await raw.fetch(sql) != [] or name in ("scopes", "conversations")
        async with raw.transaction():
            await enter(raw, "ada", "jonas")
            assert await raw.fetch(sql) != [], name
            await enter(raw, "ada", "mia")
            assert await raw.fetch(sql) == [], name


async def test_episodes_are_told_to_who_may_see_them(memory: Memory, llm: Scripted, raw: Any) -> None:
    """By whomever they are asked for, whatever keys they guess."""
    await live(memory, llm)
    ((scope, seq, episode),) = await rows(memory, "SELECT scope_id, seq, episode_id FROM memory.observation_episodes")
    calls = (
        "SELECT episode_id FROM memory.episodes_seen('ada', '{}', NULL, NULL, NULL, NULL, NULL, NULL, 9, NULL, now())",
        f"SELECT (observation).seq FROM memory.episode_observations('ada', '{{}}', NULL, {episode})",
        f"SELECT e FROM memory.episode_of('ada', '{{}}', NULL, {scope}, {seq}) e WHERE e IS NOT NULL",
    )
    for sql in calls:
        for entered, asked, told in (("mia", "mia", 1), ("jonas", "mia", 0), ("jonas", "jonas", 0)):
            async with raw.transaction():
                await enter(raw, "ada", entered)
                assert len(await raw.fetch(sql.format(asked))) == told, (sql, entered, asked)


async def test_settings_of_an_agent_are_told_to_who_works_for_it(memory: Memory, raw: Any) -> None:
    """And before anybody has named a principal, as a read does that names whom it is for."""
    for agent in ("ada", "bob"):
        await memory.observe("Tea.", agent_id=agent, user_id="mia")
        await memory.configure(agent_id=agent, language="german")
    own, none = {"language": "german"}, None
    for principal, told in (
        (None, {"ada": own, "bob": own}),
        ({"agent": "ada", "user": "mia"}, {"ada": own, "bob": none}),
        ({"agent": "ada", "serves": True}, {"ada": own, "bob": none}),
        ({"agent": None, "serves": True}, {"ada": own, "bob": own}),
    ):
        async with raw.transaction():
            if principal is not None:
                await enter(raw, **principal)
            found = {agent: await raw.fetchval("SELECT memory.agent_settings($1)", agent) for agent in told}
        assert {agent: settings and json.loads(settings) for agent, settings in found.items()} == told, principal


@pytest.mark.slow
async def test_library_reads_and_adds_for_another_in_a_transaction_of_the_hosts_user(
    memory: Memory, llm: Scripted, walled: Memory, host: AsyncSession
) -> None:
    await live(memory, llm)
    await host.execute(text("SELECT memory.enter('ada', 'mia', NULL, false)"))
    for who in (JONAS, MIA):
        alone = await walled.search("gate", **who), await walled.conversations.messages(**who)
        joined = (
            await walled.search("gate", **who, session=host),
            await walled.conversations.messages(**who, session=host),
        )
        assert [h.observation.id for h in joined[0].results] == [h.observation.id for h in alone[0].results]
        assert [m.id for m in joined[1]] == [m.id for m in alone[1]] != []
        assert str(await walled.context(**who, session=host)) == str(await walled.context(**who))
    assert (await walled.add(conversation(1), **JONAS, conversation_id="joined", session=host)).accepted == 1


async def test_work_for_one_agent_neither_sees_nor_writes_another_ones(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    await memory.observe("Bob's.", agent_id="bob", user_id="mia")
    (key,) = await rows(memory, "SELECT agent_key, scope_id FROM memory.scopes WHERE owner = 'g:harbor'")
    async with raw.transaction():
        await enter(raw, "bob", serves=True)
        assert await counts(raw, ["agents", "scopes", "observations", "messages", "runs"]) == {
            "agents": 1, "scopes": 1, "observations": 1, "messages": 0, "runs": 0,
        }  # fmt: skip
        assert await raw.execute("UPDATE memory.scopes SET name = 'bob''s'") == "UPDATE 1"
    for sql, values in (
        ("INSERT INTO memory.members (agent_key, scope_id, user_id) VALUES ($1, $2, 'eve')", key),
        ("INSERT INTO memory.agents (agent_id) VALUES ('ada')", ()),  # no word of its existing
        ("INSERT INTO memory.agents (agent_id) VALUES ('carl')", ()),
        ("INSERT INTO memory.scopes (agent_key, kind, owner) VALUES ($1, 'group', 'g:' || $2::bigint)", key),
        ("INSERT INTO memory.scopes (agent_key, kind, owner) VALUES (999, 'group', 'g:x')", ()),
        ("UPDATE memory.scopes SET agent_key = $1 WHERE $2::bigint > 0", key),
    ):
        await refused(raw, sql, *values, agent="bob", serves=True)


async def test_application_deletes_nothing_but_what_is_forgotten(
    memory: Memory, llm: Scripted, walled: Memory, raw: Any
) -> None:
    await live(memory, llm)
    for table in (*TABLES, "alembic_version"):
        for sql in (f"DELETE FROM memory.{table}", f"TRUNCATE memory.{table}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await raw.execute(sql)
    await rows(memory, "UPDATE memory.holds SET released_at = now()")
    llm.then("Ship in April.")
    receipt = await walled.forget(Selection(user_id="mia"), agent_id="ada")
    assert receipt.counts["observations"] >= 2
    assert await rows(memory, "SELECT count(*) FROM memory.observations WHERE content ~ 'mia'") == [(0,)]
    assert await rows(memory, "SELECT count(*) FROM memory.observations WHERE content ~ 'jonas'") == [(1,)]


async def test_superuser_forgets_although_the_role_that_erases_is_walled(memory: Memory, llm: Scripted) -> None:
    await live(memory, llm)
    await rows(memory, "UPDATE memory.holds SET released_at = now()")
    llm.then("Ship in April.")
    assert (await memory.forget(Selection(user_id="mia"), agent_id="ada")).counts["observations"] >= 2
    assert await rows(memory, "SELECT count(*) FROM memory.observations WHERE content ~ 'mia'") == [(0,)]


async def test_erasing_reaches_what_the_principal_serves_and_nothing_else(
    memory: Memory, llm: Scripted, raw: Any
) -> None:
    await live(memory, llm)
    await memory.observe("Bob's.", agent_id="bob", collective=True)
    before = await rows(memory, "SELECT count(*) FROM memory.observations")
    for principal in ({}, {"agent": "bob", "serves": True}, {"agent": "ada", "user": "mia"}):
        async with raw.transaction():
            if principal:
                await enter(raw, **principal)
            rows_of_each_kind = ", ".join(["'{1}'", "'{1}'", *["'{}'"] * 8])
            for call in (
                "erase_agent(1, now())",
                f"erase(1, {rows_of_each_kind}, '{{1}}', '{{1}}', '{{mia}}', '{{}}', 'f', now())",
            ):
                savepoint = raw.transaction()
                await savepoint.start()
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="does not work for agent 1"):
                    await raw.fetch(f"SELECT * FROM memory.{call}")
                await savepoint.rollback()
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == before


# The setting


async def test_principal_ends_with_its_transaction(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    async with raw.transaction():
        await enter(raw, None, serves=True)
        assert await raw.fetchval("SELECT count(*) FROM memory.observations") == 5
    assert await raw.fetchval("SELECT current_setting('memory.principal', true)") == ""
    assert await raw.fetchval("SELECT count(*) FROM memory.observations") == 0
    await enter(raw, None, serves=True)  # without BEGIN: gone before the next statement
    assert await raw.fetchval("SELECT count(*) FROM memory.observations") == 0


@pytest.mark.slow
async def test_setting_that_a_conversation_was_poisoned_with_opens_nothing(
    memory: Memory, llm: Scripted, raw: Any
) -> None:
    await live(memory, llm)
    async with raw.transaction():  # the setting of this very transaction, made to last
        await enter(raw, None, serves=True)
        await raw.execute("SELECT set_config('memory.principal', current_setting('memory.principal'), false)")
    poison = await raw.fetchval("SELECT current_setting('memory.principal')")
    assert poison.endswith(' {"serves_all": true}')
    for value in (poison, '{"serves_all": true}', "rubbish", " {", "1 {", "\n", "💣"):
        await raw.execute("SELECT set_config('memory.principal', $1, false)", value)
        assert set((await counts(raw, [*TABLES, *ddl.VIEWS])).values()) == {0}
        async with raw.transaction():
            assert await raw.fetchval("SELECT memory.principal()") is None
            assert await raw.fetchval("SELECT count(*) FROM memory.observations") == 0
            await enter(raw, "ada", "jonas")
            assert await raw.fetchval("SELECT count(*) FROM memory.observations WHERE content ~ 'jonas'") == 1
            assert await raw.fetchval("SELECT count(*) FROM memory.observations WHERE content ~ 'mia'") == 0


@pytest.fixture
async def host(walled_database: str, roles: Roles) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(asyncpg_url(as_login(walled_database, roles)))
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def setting(session: AsyncSession, name: str) -> Any:
    return await session.scalar(text(f"SELECT current_setting('{name}', true)"))


async def test_two_principals_in_one_transaction_of_the_host_do_not_mix(walled: Memory, host: AsyncSession) -> None:
    await host.execute(text("SET LOCAL app.tenant = 'harbour'"))
    await walled.add(conversation(1), **MIA, conversation_id="s", session=host)
    await walled.observe(f"{SECRET} It is mia's.", **MIA, session=host)
    await walled.observe(f"{SECRET} It is jonas's.", **JONAS, session=host)
    for who in (MIA, JONAS, MIA):
        (hit,) = (await walled.search("gate", **who, session=host)).results
        assert hit.observation.content.endswith(f"{who['user_id']}'s.")
        assert f"{who['user_id']}'s." in str(await walled.context(**who, session=host))
        assert not await setting(host, "memory.principal")
        assert await host.scalar(text("SELECT count(*) FROM memory.observations")) == 0
    assert await setting(host, "app.tenant") == "harbour"
    await host.commit()
    assert len(await walled.observations.list(**MIA)) == len(await walled.observations.list(**JONAS)) == 1


async def test_hosts_own_principal_is_put_back_also_after_an_error(walled: Memory, host: AsyncSession) -> None:
    await walled.observe("Mia's.", **MIA)
    await host.execute(text("SELECT memory.enter('ada', 'mia', NULL, false)"))
    before = await setting(host, "memory.principal")
    await walled.observe("Jonas's.", **JONAS, session=host)
    assert await setting(host, "memory.principal") == before
    await walled.add(conversation(1), **JONAS, conversation_id="t", session=host)
    assert await setting(host, "memory.principal") == before
    with pytest.raises(ZeroDivisionError):  # whatever goes wrong in Python while we are in
        async with walled.database.transaction(host, service("ada")):
            raise ZeroDivisionError
    assert await setting(host, "memory.principal") == before
    savepoint = await host.begin_nested()
    with pytest.raises(Exception, match="division by zero"):
        async with walled.database.transaction(host, service("ada")):
            await host.execute(text("SELECT 1/0"))
    await savepoint.rollback()
    assert await setting(host, "memory.principal") == before
    assert (await host.scalars(text("SELECT content FROM memory.observations"))).all() == ["Mia's."]


@pytest.mark.slow
async def test_clients_of_one_pooled_connection_see_what_is_theirs(
    memory: Memory, walled: Memory, walled_database: str, roles: Roles
) -> None:
    """As behind PgBouncer in transaction mode: transactions of several clients in turn on one server connection."""
    url = asyncpg_url(as_login(walled_database, roles))
    engine = create_async_engine(url, pool_size=1, max_overflow=0, connect_args=POOLED)
    assert await poisoned(memory, walled, [async_sessionmaker(engine)] * CLIENTS) == (1, [])
    await engine.dispose()


@pytest.mark.slow
async def test_clients_of_a_real_pgbouncer_see_what_is_theirs(
    memory: Memory, walled_database: str, roles: Roles, llm: Scripted, settings: Settings, pooler: Pooler
) -> None:
    """Each with a connection of its own, to a PgBouncer that has one of the server for all of them."""
    url = pooler.url(as_login(walled_database, roles))
    async with Memory(url, llm, settings) as pooled:
        assert pooled.database.walled
        engines = [
            create_async_engine(asyncpg_url(url), poolclass=NullPool, connect_args=POOLED) for _ in range(CLIENTS)
        ]
        assert await poisoned(memory, pooled, [async_sessionmaker(engine) for engine in engines]) == (1, [])
        for engine in engines:
            await engine.dispose()
        llm.then(extracted(("Mia likes tea.", "individual")), "Mia likes tea.")
        await pooled.add(conversation(5), **MIA, conversation_id="s", group_ids=["harbor"])
        await pooled.conversations.form(agent_id="ada", conversation_id="s")
        assert "Mia likes tea." in {o.content for o in await pooled.observations.list(**MIA)}
        assert (await pooled.forget(Selection(user_id="mia"), agent_id="ada", wait=False)).counts["observations"] == 1
    assert list(await memory.admin.verify()) == []


CLIENTS = 6


async def poisoned(memory: Memory, walled: Memory, clients: Sequence[Any]) -> tuple[int, list[str]]:
    """How many processes of the server all of them had, and what somebody saw who had said nobody's name."""
    users = [f"u{n}" for n in range(len(clients))]
    for user in users:
        await memory.observe(f"The gate of {user}.", agent_id="ada", user_id=user)
    backends: set[int] = set()
    leaks: list[str] = []

    async def client(user: str, units: Any) -> None:
        mine = [f"The gate of {user}."]
        for n in range(12):
            async with units.begin() as unit:
                backends.add(await unit.scalar(text("SELECT pg_backend_pid()")))
                if n % 4 == 3:  # forgets whom it works for
                    leaks.extend(await unit.scalars(text("SELECT content FROM memory.observations")))
                    continue
                if n % 4 == 2:  # poisons the session for all who come after
                    await unit.execute(text("SELECT memory.enter(NULL, NULL, NULL, true)"))
                    poison = "SELECT set_config('memory.principal', current_setting('memory.principal'), false)"
                    await unit.execute(text(poison))
                    continue
                found = await walled.search("gate", agent_id="ada", user_id=user, session=unit)
                assert [hit.observation.content for hit in found.results] == mine
                await asyncio.sleep(0)
                async with walled.database.transaction(unit, {**AS_MIA, "user_id": user}):
                    assert (await unit.scalars(text("SELECT content FROM memory.observations"))).all() == mine

    await asyncio.gather(*map(client, users, clients))
    return len(backends), leaks


async def test_pooled_memory_works_behind_walls(walled_database: str, roles: Roles, llm: Scripted) -> None:
    url = asyncpg_url(as_login(walled_database, roles)).update_query_dict({"prepared_statement_cache_size": "0"})
    async with Memory(url.render_as_string(hide_password=False), llm) as memory:
        assert memory.database.walled
        await memory.add(conversation(2), **MIA, conversation_id="s")
        await memory.observe(SECRET, **MIA)
        assert len(await memory.observations.list(**MIA)) == len((await memory.search("gate", **MIA)).results) == 1
        assert await memory.observations.list(**JONAS) == []


# What can't be used to get around


@pytest.mark.slow
async def test_connection_goes_on_after_a_principal_could_not_be_named(walled_database: str, walled: Memory) -> None:
    """It is named together with BEGIN, whose transaction is then open and failed."""
    told = await walled.observe(SECRET, **MIA)
    await administer(walled_database, "ALTER FUNCTION memory.enter RENAME TO unknown")
    with pytest.raises(DatabaseError, match="42883"):  # no such function
        await walled.observations.confirm(told.id, **MIA)
    await administer(walled_database, "ALTER FUNCTION memory.unknown RENAME TO enter")
    assert (await walled.observations.confirm(told.id, **MIA)).verification == "confirmed"
    assert [hit.observation.id for hit in (await walled.search("gate", **MIA)).results] == [told.id]


@pytest.mark.slow
async def test_foreign_id_costs_the_same_statements_as_one_that_never_was(walled: Memory) -> None:
    foreign = await walled.observe(SECRET, **JONAS)
    await walled.observe("Tea.", **MIA)
    seen = []
    for missing in (foreign.id, "o999-1", f"o{foreign.scope.key}-99"):
        with statements(walled) as sent, pytest.raises(NotFoundError, match=missing):
            await walled.observations.get(missing, **MIA)
        seen.append(sent[:])
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 1
    for scope in (foreign.scope.key, 999):
        assert await walled.observations.list(**MIA, scope_id=f"s{scope}") == []
        assert await walled.scopes.history(**MIA, scope_id=f"s{scope}") == []


async def test_hot_calls_are_one_statement_behind_walls(walled: Memory) -> None:
    await walled.observe(SECRET, **MIA)
    with statements(walled) as sent:
        await walled.add(conversation(2), **MIA, conversation_id="s", group_ids=["harbor"])
        await walled.context(**MIA)
        await walled.search("gate", **MIA)
        await walled.digest(**MIA)
    assert len(sent) == 4
    with statements(walled) as sent:
        shown = await walled.context(**MIA, message="gate", assembly="both", retrieve=True)
    assert len(sent) == 1
    assert SECRET in shown.xml
    assert SECRET in str(shown.digest)
    then = walled.now()
    for whose, found in ((MIA, ("o1-1",)), (JONAS, ())):
        for at in (None, then):
            assert (await walled.digest(**whose, query="gate", as_of=at)).included == found


async def test_own_work_names_its_principal_in_each_statement_and_leaves_none(walled: Memory) -> None:
    await walled.observe(SECRET, **MIA)
    database, told = walled.database, select(func.count()).select_from(ObservationRow)
    with statements(walled) as sent:
        async with database.statement(principal=service("ada")) as unit:
            assert await ask(unit, told, {}) == [(1,)]
        async with database.reading(principal=service("bob")) as reader:
            assert await reader.execute(told, {}) == [(0,)]
        async with database.naming_nobody().reading() as reader:
            assert await reader.execute(told, {}) == [(0,)]
    assert len(sent) == 3
    async with database.statement(principal=service("ada")) as unit:
        assert await unit.scalar(told) == 1  # begins a transaction
        assert await ask(unit, told, {}) == [(1,)]


PLANS = ("nestloop", "hashjoin", "indexscan", "seqscan")


@pytest.mark.direct  # a pooler passes on no options
@pytest.mark.parametrize("without", PLANS)
async def test_own_work_is_named_before_anything_is_read_whatever_the_plan(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings, without: str
) -> None:
    url = asyncpg_url(as_login(walled_database, roles)).update_query_dict({"options": f"-c enable_{without}=off"})
    own = settings.model_copy(update={"consolidation_threshold": 1})
    async with Memory(url.render_as_string(hide_password=False), Parrot(), own) as memory:
        for n in range(2):
            await memory.add(conversation(4), **MIA, conversation_id=f"s{n}", group_ids=["harbor"])
        formed = await memory.conversations.form(agent_id="ada", conversation_id="s0")
        assert formed.messages == 4
        done = await memory.run_due()
        assert not done.failed
        assert {one.scope.kind for one in done.consolidated} == {"individual"}
        again = await memory.scopes.list(**MIA)
        assert [one.consolidation is not None for one in again if one.ref.kind == "individual"] == [True]


@pytest.mark.open
async def test_memory_without_walls_names_no_principal(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm) as memory:
        await memory.observe(SECRET, **MIA)
        with statements(memory) as sent:
            await memory.observations.list(**MIA)
            await memory.admin.stats(agent_id="ada")
            await memory.run_due()
        assert not [statement for statement in sent if "enter" in statement]


async def test_functions_that_read_for_whom_they_are_told_are_for_the_application_alone(
    memory: Memory, roles: Roles, walled_database: str
) -> None:
    definers = await rows(memory, DEFINERS)
    assert {name: owner for name, owner, *_ in definers} == {
        **dict.fromkeys(READERS, roles.reader),
        **dict.fromkeys(
            ("detach", "drop_empty_episode", "end_counts", "erase", "erase_agent", "take_back_evidence", "undo_import"),
            roles.eraser,
        ),
        **dict.fromkeys(("installation_id", "incarnation", "ancestors", "keyed_hash", "keyed_hashes"), roles.owner),
        **dict.fromkeys(("journal_read", "note_journal_read", "shard"), roles.owner),
    }
    for name, _, config, arguments, public in definers:
        assert config[0] == "search_path=pg_catalog, memory, pg_temp"
        assert public == (arguments == 0 and name != "drop_empty_episode"), name
    for role in (roles.analyst, roles.content):
        with pytest.raises(Exception, match="permission denied for function search"):
            await execute(
                walled_database, f'SET LOCAL ROLE "{role}"', f"SELECT memory.search('ada', 'mia', '', {GATE})"
            )


READERS = """
agent_settings digest_candidates entity episode_observations episode_of episodes_seen known_at listed my_agent my_groups
my_left_groups my_scopes my_user_ids observation_version
read_messages search search_messages search_observations served_agent static_layer static_layer_at topics
""".split()
DEFINERS = """
    SELECT proname, proowner::regrole::text, proconfig, pronargs, has_function_privilege('public', oid, 'EXECUTE')
    FROM pg_proc WHERE pronamespace = 'memory'::regnamespace AND prosecdef ORDER BY proname
"""


async def test_objects_of_the_callers_own_do_not_get_into_definer_functions(
    memory: Memory, walled_database: str, roles: Roles, raw: Any
) -> None:
    """They run with more rights than the caller's: what they call must not be what the caller has put in the way."""
    await memory.observe(SECRET, **JONAS)
    await execute(walled_database, f"CREATE SCHEMA evil AUTHORIZATION {login(roles)}")
    for sql in (
        "CREATE FUNCTION evil.ts_rank(tsvector, tsquery) RETURNS real LANGUAGE sql AS 'SELECT 1/0'",
        "CREATE FUNCTION evil.hashtextextended(text, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0'",
        "CREATE FUNCTION evil.to_tsvector(regconfig, text) RETURNS tsvector LANGUAGE sql AS 'SELECT 1/0'",
        "CREATE FUNCTION evil.same(tsvector, tsquery) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN 1/0; END'",
        "CREATE OPERATOR evil.@@ (LEFTARG = tsvector, RIGHTARG = tsquery, FUNCTION = evil.same)",
        "CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END'",
        "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.same)",
        "CREATE FUNCTION evil.visible_scopes(text, text, text) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0'",
        "CREATE TEMP TABLE scopes (agent_key bigint)",
        "CREATE TEMP TABLE agents (agent_key bigint)",
    ):
        await raw.execute(sql.replace("'SELECT 1/0'", "$$ SELECT 1/0 $$") if "AS 'SELECT" not in sql else _typed(sql))
    await raw.execute("SET search_path = evil, pg_temp, memory, pg_catalog")
    assert await raw.fetch(f"SELECT (observation).content FROM memory.search('ada', 'mia', NULL, {GATE})") == []
    assert len(await raw.fetch(f"SELECT (observation).content FROM memory.search('ada', 'jonas', NULL, {GATE})")) == 1
    assert len(await raw.fetch("SELECT * FROM memory.static_layer('ada', 'jonas', NULL, 10, 200)")) == 1
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        assert await raw.fetchval("SELECT memory.my_scopes()") == []
        assert await raw.fetchval("SELECT pg_catalog.count(*) FROM memory.observations") == 0


def _typed(sql: str) -> str:
    """A body that fails when it is run, of the type that is declared."""
    kind = sql.split("RETURNS ")[1].split()[0]
    return sql.replace("'SELECT 1/0'", f"'SELECT (1/0)::text::{kind}'")


@pytest.mark.slow
async def test_copy_explain_statistics_and_errors_show_nothing(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    await rows(memory, "ANALYZE")
    heard: list[str] = []
    raw.add_log_listener(lambda _, message: heard.append(message.message))
    await raw.execute(
        "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001"
        " AS 'BEGIN RAISE NOTICE ''%'', $1; RETURN true; END'"
    )
    for entered in (None, "nobody"):
        async with raw.transaction():
            if entered:
                await enter(raw, "bob", entered)
            assert await raw.fetch("SELECT FROM memory.observations WHERE pg_temp.leak(content)") == []
            plan = await raw.fetch(
                "EXPLAIN (ANALYZE, VERBOSE) SELECT content FROM memory.observations WHERE content ~ '4711'"
            )
            assert not any("gate" in row[0] for row in plan)
            copied = bytearray()

            async def keep(data: bytes, into: bytearray = copied) -> None:
                into += data

            await raw.copy_from_query("SELECT * FROM memory.observations", output=keep)
            assert not copied
            assert (
                await raw.fetch("SELECT FROM pg_stats WHERE schemaname = 'memory' AND tablename = 'observations'") == []
            )
    assert heard == []
    async with raw.transaction():
        await enter(raw, "ada", "mia")
        await raw.fetch("SELECT FROM memory.observations WHERE pg_temp.leak(content)")
    assert sorted(heard) == sorted([SECRET, f"{SECRET} It is mia's.", "Ship in April.", "A gate for all."])


@pytest.mark.slow
async def test_error_of_a_constraint_does_not_quote_the_row(memory: Memory, llm: Scripted, raw: Any) -> None:
    await live(memory, llm)
    transaction = raw.transaction()
    await transaction.start()
    await enter(raw, "ada", serves=True)
    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await raw.execute("UPDATE memory.observations SET confidence = 2 WHERE content ~ '4711'")
    await transaction.rollback()
    assert "4711" not in f"{caught.value} {caught.value.detail}"


# The key of the database


async def test_only_the_owner_reads_the_key(memory: Memory, roles: Roles, walled_database: str, raw: Any) -> None:
    ((installation, key),) = await rows(memory, "SELECT id, key FROM memory.installation")
    assert len(key) == 32
    assert await raw.fetchval("SELECT memory.installation_id()") == installation
    assert len(await raw.fetchval("SELECT memory.keyed_hash('text', 'tea')")) == 32  # the application hashes by it
    for column in ("key", "id", "count(*)"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for table installation"):
            await raw.fetch(f"SELECT {column} FROM memory.installation")
    for role in (roles.app, roles.reader, roles.eraser, roles.analyst, roles.content):
        with pytest.raises(Exception, match="permission denied for table installation"):
            await execute(walled_database, f'SET LOCAL ROLE "{role}"', "SELECT id FROM memory.installation")
    for role in (roles.analyst, roles.content):
        for call in ("memory.keyed_hash('text', 'tea')", "memory.keyed_hashes('text', '{tea}')"):
            with pytest.raises(Exception, match="permission denied for function keyed_hash"):
                await execute(walled_database, f'SET LOCAL ROLE "{role}"', f"SELECT {call}")
    await execute(walled_database, f'SET LOCAL ROLE "{roles.owner}"', "SELECT 1 / count(*) FROM memory.installation")


@pytest.mark.slow
async def test_key_given_away_by_mistake_has_no_row_and_is_reported(memory: Memory, roles: Roles) -> None:
    await rows(memory, f'GRANT SELECT ON ALL TABLES IN SCHEMA memory TO "{roles.analyst}"')
    await rows(memory, f'GRANT EXECUTE ON FUNCTION memory.keyed_hash TO "{roles.analyst}"')
    found = {v.key: v.detail for v in await memory.admin.verify() if v.invariant == "the_key_is_the_owners"}
    assert set(found) == {f"role {roles.analyst}"}
    async with memory.database.transaction() as unit:
        await unit.execute(text(f'SET LOCAL ROLE "{roles.analyst}"'))
        assert (await unit.scalars(text("SELECT key FROM memory.installation"))).all() == []
    await rows(memory, f'REVOKE ALL ON ALL TABLES IN SCHEMA memory FROM "{roles.analyst}"')


async def test_hmac_is_that_of_python(memory: Memory) -> None:
    ((key,),) = await rows(memory, "SELECT key FROM memory.installation")
    assert len(key) == 32
    values = [
        b"",
        b"tea",
        "Grüße \U0001f375".encode(),
        *(Random(4711).randbytes(size) for size in (1, 55, 56, 64, 300)),
    ]
    hashes = [hmac.digest(key, b"text\0" + value, "sha256") for value in values]
    for value, wanted in zip(values, hashes, strict=True):
        assert await rows(memory, "SELECT memory.keyed_hash('text', :value)", value=value) == [(wanted,)]
    async with memory.database.transaction() as unit:
        assert await keyed_hashes(unit, "text", values) == hashes
    found = await rows(
        memory,
        "SELECT hash = memory.content_hash(7, '\\xaa')"
        " FROM memory.content_hashes('{7,8,7}', '{NULL,\"\\\\xaa\",\"\\\\xaa\"}') ORDER BY place",
    )
    assert found == [(None,), (False,), (True,)]


@pytest.mark.slow
async def test_database_has_one_key_and_another_database_another(
    memory: Memory, empty_database: str, database_url: str
) -> None:
    with pytest.raises(DatabaseError, match="23505"):
        await rows(memory, "INSERT INTO memory.installation DEFAULT VALUES")
    await upgrade(empty_database)
    asked = "SELECT id::text, key FROM memory.installation"
    (other,), (own,) = [
        [tuple(row) for row in await fetch(url, asked)] for url in (empty_database, owners_url(database_url))
    ]
    assert not set(other) & set(own)


# One source of what a search returns, and its plan


async def test_search_returns_the_columns_of_an_observation(memory: Memory) -> None:
    (found,) = await rows(
        memory,
        "SELECT proargnames[pronargs + 1:] FROM pg_proc WHERE oid = 'memory.search'::regproc",
    )
    assert sorted(found[0]) == sorted(column.name for column in COLUMNS)  # which are read by their names
    assert {item.name for item in FOUND} >= set(OBSERVATION.selected_columns.keys())


@pytest.mark.slow
async def test_search_behind_walls_reads_its_own_scopes_by_the_index(memory: Memory, walled: Memory) -> None:
    await memory.observe("The gate of Mia.", **MIA)
    await rows(memory, MANY)
    await rows(memory, "ANALYZE")
    async with walled.database.transaction() as unit:
        assert len((await walled.search("gate", **MIA, session=unit)).results) == 1
        (read,) = await unit.execute(text(READ))
    assert (read.seq_scan, read.idx_scan >= 1) == (0, True)
    assert read.idx_tup_fetch < 50


MANY = """
    WITH s AS (
        INSERT INTO memory.scopes (agent_key, kind, owner, last_seq)
        SELECT 1, 'individual', 'u:x' || n, 20 FROM generate_series(1, 500) n RETURNING agent_key, scope_id
    )
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT agent_key, scope_id, n, 'The gate of ' || n, now(), 'observe', 1 FROM s, generate_series(1, 20) n
"""
READ = "SELECT seq_scan, idx_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'memory.observations'::regclass"


# The roles


@pytest.mark.slow
def test_roles_are_made_twice_and_taken_back_without_a_trace(
    empty_database: str, walled_template: str, roles: Roles
) -> None:
    memory_sql("db", "upgrade", "--url", empty_database)
    names = ("--owner", roles.owner, "--app", roles.app, "--analyst", roles.analyst, "--url", empty_database, "--json")
    before = schema_of(empty_database)
    assert memory_sql("db", "roles", *names).value["eraser"] == roles.eraser
    walled = schema_of(empty_database)
    assert "FORCE ROW LEVEL SECURITY" in walled
    memory_sql("db", "roles", *names)
    assert schema_of(empty_database) == walled
    left = memory_sql("db", "roles", "--drop", *names).value["left"]
    assert left == sorted([roles.owner, roles.app, roles.eraser, roles.reader, roles.analyst, roles.content])
    assert schema_of(empty_database) == before
    psql(empty_database, memory_sql("db", "roles", "--print", *names).out)
    assert schema_of(empty_database) == walled


@pytest.mark.slow
@pytest.mark.open
async def test_roles_that_nothing_depends_on_are_dropped(database_url: str) -> None:
    own = Roles.of("walls'; owner", 'walls "app', "walls analyst")
    await make(database_url, own)
    async with Memory(database_url, Scripted()) as memory:
        made = await rows(
            memory, "SELECT rolname, rolcanlogin OR rolsuper OR rolbypassrls FROM pg_roles WHERE rolname ~ '^walls'"
        )
        assert sorted(made) == sorted((name, False) for name in (
            own.owner, own.app, own.eraser, own.reader, own.analyst, own.content
        ))  # fmt: skip
        assert script(own).count("walls''; owner") == 1
        assert await drop(database_url, own) == []
        assert await rows(memory, "SELECT 1 FROM pg_roles WHERE rolname ~ '^walls'") == []


@pytest.mark.slow
async def test_role_that_is_no_superuser_makes_the_roles(empty_database: str, server_url: str) -> None:
    own = Roles.of("crew_owner", "crew_app", "crew_analyst")
    await execute(
        empty_database,
        "CREATE ROLE crew_deployer LOGIN CREATEROLE PASSWORD 'crew'",
        "CREATE SCHEMA memory AUTHORIZATION crew_deployer",
    )
    url = asyncpg_url(empty_database).set(username="crew_deployer", password="crew")
    deployer = url.render_as_string(hide_password=False)
    try:
        await upgrade(deployer)
        await make(deployer, own)
        await downgrade(deployer)
        await upgrade(deployer)
        await make(deployer, own)
        assert await drop(deployer, own) == []
        await downgrade(deployer)
    finally:
        await execute(empty_database, "DROP OWNED BY crew_deployer CASCADE", "DROP ROLE crew_deployer")


@pytest.mark.slow
async def test_upgrade_sees_the_rows_although_the_owner_is_walled(
    memory: Memory, walled_database: str, roles: Roles
) -> None:
    await memory.observe(SECRET, **MIA)
    async with connect_once(walled_database) as connection:
        await connection.exec_driver_sql(f"SET LOCAL ROLE {roles.owner}")
        assert await connection.scalar(text("SELECT count(*) FROM memory.observations")) == 0
        await connection.exec_driver_sql(ENTER)
        assert await connection.scalar(text("SELECT count(*) FROM memory.observations")) == 1


def test_names_of_roles_are_checked() -> None:
    for names in (("a", "a", "b"), ("a_eraser", "a", "b"), ("", "a", "b"), ("a", "x" * 60, "b"), ("a", "\x00", "b")):
        with pytest.raises(InputError):
            Roles.of(*names)


@pytest.mark.slow
async def test_analyst_sees_everything_but_what_was_said(
    memory: Memory, llm: Scripted, walled_database: str, roles: Roles
) -> None:
    await live(memory, llm)
    closed_views = {"v_observations", "v_messages", "v_scope_timeline", "v_contradictions"}
    for view in ddl.VIEWS:
        full = await rows(memory, f"SELECT count(*) FROM memory.{view}")
        assert await as_role(walled_database, roles.content, f"SELECT count(*) FROM memory.{view}") == full
        if view not in closed_views:
            assert await as_role(walled_database, roles.analyst, f"SELECT count(*) FROM memory.{view}") == full
        else:
            with pytest.raises(DatabaseError, match="42501"):
                await as_role(walled_database, roles.analyst, f"SELECT * FROM memory.{view}")
    for column in erased_columns():
        table, name = column.split(".")
        with pytest.raises(DatabaseError, match="42501"):
            await as_role(walled_database, roles.analyst, f'SELECT "{name}" FROM memory.{table}')
    assert await as_role(walled_database, roles.analyst, "SELECT count(seq) FROM memory.observations") == [(5,)]
    for role in (roles.analyst, roles.content):
        with pytest.raises(DatabaseError, match="42501"):
            await as_role(walled_database, role, "UPDATE memory.scopes SET name = ''")


@pytest.mark.slow
async def test_analyst_confirms_no_guess_by_a_hash_and_sees_nobody_say_the_same(
    memory: Memory, walled: Memory, walled_database: str, roles: Roles
) -> None:
    said = [await walled.observe(SECRET, **who) for who in (MIA, JONAS)]  # Jonas guesses what Mia has
    again = await walled.observe(SECRET, **MIA)
    assert again.id == said[0].id
    found = await as_role(walled_database, roles.analyst, "SELECT content_hash FROM memory.observations")
    hashes = {bytes(digest) for (digest,) in found}
    assert len(hashes) == 2
    guesses = {SECRET.encode(), normal_form(SECRET).encode()}
    assert not hashes & {hashlib.sha256(guess).digest() for guess in guesses}
    assert not hashes & {hmac.digest(b"", guess, "sha256") for guess in guesses}
    assert list(await walled.admin.verify()) == []


@pytest.mark.slow
async def test_no_login_locks_a_table_against_others(memory: Memory, raw: Any, roles: Roles) -> None:
    modes = ("SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE", "SHARE UPDATE EXCLUSIVE")
    tables = [name for (name,) in await rows(memory, TABLES_OF_THE_SCHEMA)]
    for table, mode in [(table, mode) for table in tables for mode in modes]:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with raw.transaction():
                await raw.execute(f"LOCK TABLE memory.{table} IN {mode} MODE")
    await rows(memory, f"GRANT UPDATE ON memory.messages TO {roles.app}")
    found = [v for v in await memory.admin.verify() if v.invariant == "nobody_who_logs_in_deletes"]
    assert [v.detail for v in found] == ["may lock the table"]


TABLES_OF_THE_SCHEMA = "SELECT tablename FROM pg_tables WHERE schemaname = 'memory' ORDER BY 1"


async def as_role(url: str, role: str, sql: str) -> list[tuple[Any, ...]]:
    as_it = asyncpg_url(url).update_query_dict({"options": f"-c role={role}"}).render_as_string(hide_password=False)
    async with Memory(as_it, Scripted()) as memory:
        return await rows(memory, sql)


@pytest.mark.slow
async def test_verify_finds_nothing_behind_walls_and_sees_everything(
    memory: Memory, llm: Scripted, walled: Memory
) -> None:
    await live(memory, llm)
    await rows(memory, "DELETE FROM memory.lineage")
    assert list(await walled.admin.verify()) == list(await memory.admin.verify())
    await rows(memory, "UPDATE memory.conversations SET unformed_messages = unformed_messages + 1")
    assert [v.invariant for v in await walled.admin.verify()] == ["unformed_messages_are_counted"] * 2


async def test_verify_finds_who_may_delete_without_being_the_owner(memory: Memory, roles: Roles) -> None:
    assert list(await memory.admin.verify()) == []
    await rows(memory, f"GRANT DELETE, TRIGGER ON memory.messages TO {roles.app}, {roles.eraser}")
    await rows(memory, "ALTER TABLE memory.evidence NO FORCE ROW LEVEL SECURITY")
    assert [(v.invariant, v.key, v.detail) for v in await memory.admin.verify()] == [
        ("nobody_who_logs_in_deletes", f"role {login(roles)} on messages", "may delete"),
        ("nobody_who_logs_in_deletes", f"role {login(roles)} on messages", "may trigger"),
        (
            "walls_stand",
            "table evidence",
            "row-level security is forced elsewhere, not here: run `memory-sql db roles` again",
        ),
    ]
