"""`Memory.context` on a database: what differs by agent, who speaks, where it reads, how many queries it makes."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from memory_sql.config import Settings
from memory_sql.db.queries.context import read_context
from memory_sql.db.queries.digest_candidates import Wanted
from memory_sql.db.queries.search import Sought
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.reading import Context
from memory_sql.domain.scopes import ScopeText, StaticLayer
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, DatabaseError, InputError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows, statements
from tests.factories import message
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HARBOR: dict[str, Any] = {"agent_id": "ada", "group_id": "harbor"}


async def layer_of(memory: Memory, **who: Any) -> StaticLayer:
    wanted = Wanted({"conversation_id": None, **MIA, **who}, memory.settings, "", {}, searched=False)
    sought = Sought(memory.now(), 0)
    async with memory.database.reading() as reader:
        return (await read_context(reader, memory.settings, wanted, Query(), sought, Weights(), digests=False)).layer


async def scopes_of(memory: Memory, **who: Any) -> dict[str, ScopeText]:
    return {str(scope.ref): scope for scope in (await layer_of(memory, **who)).scopes}


async def speakers_of(memory: Memory, scope: str = "individual:mia") -> tuple[str, ...]:
    return (await scopes_of(memory))[scope].speakers


# Who speaks


async def test_scope_knows_who_spoke_last_first_each_once(memory: Memory) -> None:
    for n, speaker in enumerate(("Mia", "Jonas", None, "Mia", "Sofia", "Mia")):
        await memory.observe(f"fact {n}", **MIA, speaker=speaker)
    assert await speakers_of(memory) == ("Mia", "Sofia", "Jonas")
    await memory.observe("fact 9", **MIA, scope="menu", speaker="Ali")
    assert await speakers_of(memory) == ("Mia", "Sofia", "Jonas")
    assert await speakers_of(memory, "individual:mia:menu") == ("Ali",)


async def test_scope_keeps_the_fifty_who_spoke_last(memory: Memory) -> None:
    for n in range(53):
        await memory.observe(f"fact {n}", **MIA, speaker=f"S{n}")
    assert await speakers_of(memory) == tuple(f"S{n}" for n in range(52, 2, -1))
    assert await rows(memory, "SELECT memory.speakers_of(agent_key, scope_id) = speakers FROM memory.scopes") == [
        (True,)
    ]


async def test_name_is_gone_once_nothing_it_stood_by_is_left(memory: Memory) -> None:
    gone = await memory.observe("The gate mark is 4711.", **MIA, speaker="Quirin")
    await memory.observe("Tea.", **MIA, speaker="Mia")
    await memory.forget(gone.id, agent_id="ada")
    assert await speakers_of(memory) == ("Mia",)
    assert await rows(memory, "SELECT count(*) FROM memory.scopes s WHERE s::text LIKE '%Quirin%'") == [(0,)]


async def test_name_goes_also_where_the_observation_stays_for_what_others_said(memory: Memory) -> None:
    await memory.add([message()], **MIA, conversation_id="s", group_ids=["harbor"])
    for user, speaker in (("jonas", "Quirin"), ("mia", None)):
        await memory.observe("Ship in April.", **HARBOR, user_id=user, speaker=speaker)
    assert await speakers_of(memory, "group:harbor") == ("Quirin",)
    await memory.forget(Selection(user_id="jonas"), agent_id="ada")
    assert [kept.content for kept in await memory.observations.list(**MIA)] == ["Ship in April."]
    assert await speakers_of(memory, "group:harbor") == ()


async def test_agents_own_settings_count_in_the_same_round_trip(memory: Memory) -> None:
    for n in range(5):
        await memory.observe(f"The gate fact {n}.", **MIA)
    await memory.configure(agent_id="ada", pending_max=2, context_top_k=1)
    with statements(memory) as seen:
        context = await memory.context(**MIA, message="gate", retrieve=True)
    assert context.parts[0].sources == ("o1-5", "o1-4")
    assert len(seen) == 2
    assert sum(len(part.sources) for part in context.parts) <= 3
    await memory.configure(
        agent_id="ada", pending_max=None, context_order=["collective", "group"], context_max_tokens=50
    )
    assert str(await memory.context(**MIA)) == "<MemoryContext/>"
    assert (await memory.admin.settings(agent_id="ada"))["context_order"] == ["collective", "group"]
    await memory.configure(agent_id="ada", context_order=None)
    assert (await memory.context(**MIA)).tokens <= 50
    assert (await memory.context(**MIA)).truncated
    assert not (await memory.context(**MIA, budget_tokens=500)).truncated
    await memory.configure(agent_id="ada", context_format="legacy", context_max_tokens=None)
    assert "## Recent user directives:\n    - The gate fact 0. (age: 0 days ago)" in str(await memory.context(**MIA))
    assert "<RecentObservations>" in str(await memory.context(**MIA, format="standard"))


async def test_what_is_pending_beyond_the_newest_is_counted(memory: Memory) -> None:
    for n in range(5):
        await memory.observe(f"The gate fact {n}.", **MIA)
    await memory.observe("All know the gate.", agent_id="ada", collective=True)
    then = memory.now()
    assert (await memory.context(**MIA)).left_out == 0
    await memory.configure(agent_id="ada", pending_max=2)
    assert (await memory.context(**MIA)).left_out == 3
    assert (await memory.context(**MIA, budget_tokens=40)).left_out > 3
    await memory.observe("The gate fact 5.", **MIA)
    assert ((await memory.context(**MIA)).left_out, (await memory.context(**MIA, as_of=then)).left_out) == (4, 3)
    await memory.configure(agent_id="ada", pending_max=0)
    assert (await memory.context(**MIA)).left_out == 7
    await memory.configure(agent_id="ada", context_order=("collective",))
    assert (await memory.context(**MIA)).left_out == 1  # of what is shown


async def test_of_too_many_scopes_those_are_shown_that_matter_and_then_what_changed_last(memory: Memory) -> None:
    for group in ("harbor", "ferry", "board", "choir"):
        await memory.add([message(n=1)], **MIA, conversation_id=group, group_ids=[group])
    for owner in ({"group_id": "harbor"}, {"user_id": "mia"}, {"group_id": "ferry"}, {"collective": True}):
        await memory.observe("The gate opens at seven.", agent_id="ada", **owner)
    then = memory.now()
    await memory.observe("The board meets on Monday.", agent_id="ada", group_id="board")
    await memory.observe("The gate opens at eight.", agent_id="ada", group_id="harbor")  # the choir has nothing to show
    for most, groups in ((5, {"harbor", "board", "ferry"}), (4, {"harbor", "board"}), (3, {"harbor"}), (2, set())):
        await memory.configure(agent_id="ada", context_scopes_max=most)
        context, legacy = await memory.context(**MIA), await memory.context(**MIA, format="legacy")
        assert set(await scopes_of(memory)) == {"individual:mia", "collective", *(f"group:{group}" for group in groups)}
        assert context.scopes_left_out == legacy.scopes_left_out == 5 - most
        assert scopes_in(context) == scopes_in(legacy)
        assert len(scopes_in(context)) == most
    past = await memory.context(**MIA, as_of=then)
    assert (len(scopes_in(past)), past.scopes_left_out) == (2, 3)  # the board was there, and holds something now
    await memory.configure(agent_id="ada", context_scopes_max=1)
    assert set(await scopes_of(memory)) == {"individual:mia"}
    only = await memory.context(**MIA, message="When does the gate open?", assembly="digest")
    assert (only.scopes_left_out, "eight" in str(only)) == (0, True)  # a digest is made of all


def scopes_in(context: Context) -> set[str]:
    """The numbers of the scopes whose observations it shows."""
    return {source.partition("-")[0] for source in context.sources}


async def test_bound_on_scopes_costs_no_round_trip(memory: Memory) -> None:
    for n in range(40):
        await memory.observe("The gate opens at seven.", **MIA, scope=f"topic {n}")
    await memory.configure(agent_id="ada", context_scopes_max=10)
    await memory.context(**MIA)
    with statements(memory) as seen:
        context = await memory.context(**MIA)
    assert (len(seen), len(scopes_in(context)), context.scopes_left_out) == (1, 10, 30)
    newest = {f"individual:mia:topic {n}" for n in range(30, 40)}
    assert set(await scopes_of(memory)) == newest


async def test_agents_settings_are_known_where_no_scope_is_visible(memory: Memory) -> None:
    await memory.configure(agent_id="ada", context_top_k=1)
    layer, nobody = await layer_of(memory), await layer_of(memory, agent_id="eve")
    assert (layer.scopes, layer.settings) == ((), {"context_top_k": 1})
    assert (nobody.scopes, nobody.settings) == ((), {})
    assert str(await memory.context(agent_id="eve", user_id="mia")) == "<MemoryContext/>"


async def test_setting_that_makes_no_sense_is_refused(memory: Memory) -> None:
    for wrong in (
        {"context_order": "collective,collective"}, {"context_order": "everything"}, {"context_format": "html"},
        {"context_max_tokens": 3}, {"context_message_max_characters": 0}, {"pending_max": -1}, {"context_scopes_max": 0},
    ):  # fmt: skip
        with pytest.raises(InputError):
            await memory.configure(agent_id="ada", **wrong)
    for call in ({"budget_tokens": 3}, {"budget_tokens": True}, {"format": "html"}):
        with pytest.raises(InputError):
            await memory.context(**MIA, **cast("dict[str, Any]", call))


def test_order_can_be_said_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("individual, collective", '["individual","collective"]'):
        monkeypatch.setenv("MEMORY_SQL_CONTEXT_ORDER", said)
        assert Settings.load().context_order == ("individual", "collective")


@pytest.mark.slow
def test_command_line_gives_budget_and_layout(database_url: str) -> None:
    to = ("--agent", "ada", "--user", "mia", "--url", database_url)
    for n in range(9):
        memory_sql("observe", f"The gate fact {n}.", *to)
    assert 'truncated="true"' in memory_sql("context", *to, "--budget", "60").out
    assert "-- User Memory for mia --" in memory_sql("context", *to, "--format", "legacy").out
    assert "format must be one of" in memory_sql("context", *to, "--format", "html", code=1).err


async def test_lines_of_the_prompt_lead_to_their_history(memory: Memory, llm: Scripted) -> None:
    scope_id = (await memory.observe("Tea.", **MIA)).scope.key
    llm.then("Mia drinks tea.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.observe("Coffee.", **MIA)
    [part] = (await memory.context(**MIA)).parts
    assert part.scope is not None
    versions = await memory.scopes.history(**MIA, scope_id=part.scope.id)
    assert [v.content for v in versions if v.version == part.version] == ["Mia drinks tea."]
    assert (await memory.observations.get(part.lines[0].id, **MIA)).content == "Coffee."


# Where it reads


@pytest.fixture
async def read_only(database_url: str, memory: Memory) -> AsyncIterator[Memory]:
    """On a connection that may not write, as a replica's."""
    await memory.observe("The gate mark is 4711.", **MIA, speaker="Mia")
    only = asyncpg_url(database_url).update_query_dict({"options": "-c default_transaction_read_only=on"})
    async with Memory(only.render_as_string(hide_password=False), Scripted(), Settings(llm="offline")) as opened:
        yield opened


@pytest.mark.direct
async def test_context_and_search_only_read(read_only: Memory) -> None:
    with pytest.raises(DatabaseError, match="25006"):
        await read_only.observe("Tea.", **MIA)
    context = await read_only.context(**MIA, message="Do you remember the gate?")
    assert context.fired
    assert "4711" in str(context)
    now = read_only.now()
    assert "4711" in str(await read_only.context(**MIA, message="Do you remember the gate?", as_of=now))
    assert len((await read_only.search("gate", **MIA)).results) == 1
    assert len((await read_only.search("gate", **MIA, as_of=now)).results) == 1
    for query in (None, "gate"):
        assert "4711" in str(await read_only.digest(**MIA, query=query))
        assert "4711" in str(await read_only.context(**MIA, message=query, assembly="digest", as_of=now))


async def test_replica_of_another_release_is_refused(database_url: str, empty_database: str) -> None:
    memory = Memory(database_url, Scripted(), Settings(llm="offline"), read_url=empty_database)
    with pytest.raises(DatabaseError):
        await memory.open()


@pytest.mark.parametrize("wrong", ["a=postgresql://u:pw@x/y", "mysql://u:pw@x/y"])
async def test_replica_whose_url_cannot_be_read_is_named(database_url: str, wrong: str) -> None:
    memory = Memory(database_url, Scripted(), Settings(llm="offline"), read_url=wrong)
    with pytest.raises(ConfigurationError, match=r"^read_url: the ") as refused:
        await memory.open()
    assert "u:pw" not in str(refused.value)


async def test_what_was_overtaken_is_shown_of_no_scope_that_the_host_leaves_out(memory: Memory, llm: Scripted) -> None:
    here: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
    first = await memory.observe("The gate opens at six.", **here, group_id="harbor")
    await memory.groups.add_member("harbor", "mia", agent_id="ada")
    await memory.observe("The gate is open all night.", **here, group_id="harbor")
    await memory.observe("Mia's gate squeaks.", **here)
    llm.then(
        '{"text": "The gate is open all night.",'
        ' "contradictions": [{"newer": "n2", "older": "n1", "was": "opens at six", "now": "open all night"}]}'
    )
    await memory.scopes.consolidate(agent_id="ada", scope_id=first.scope.id)
    await memory.configure(agent_id="ada", context_order=["individual"], pending_max=0)
    context = await memory.context(**here, message="Which gate opens at six?", retrieve=True)
    assert "squeaks" in context.xml
    assert "six" not in context.xml
