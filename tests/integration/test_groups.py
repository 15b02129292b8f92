"""Groups: who belongs to them, that leaving ends all access at once, and what happens to what a former member said."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql.config import Settings
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.groups import Departure, Member
from memory_sql.domain.ids import parse_scope_id
from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.errors import AnswerError, InputError, InvalidIdError, NotFoundError, StaleError, TooLargeError
from memory_sql.formation import formation
from memory_sql.formation.sieve import drafts_of
from memory_sql.memory import Memory
from tests.database import TOLD, rows, serving, statements
from tests.factories import Clock, message
from tests.fakes import Parrot
from tests.forming import loading

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
WHY: dict[str, Any] = {"actor": "desk", "reason": "changed teams"}
SECONDS = 30.0
PAGE = (Path(__file__).parents[2] / "docs" / "groups.md").read_text("utf-8")


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    async with Memory(
        database_url, parrot, Settings(llm="offline", consolidation_threshold=3, shared_conversations=True)
    ) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


@pytest.fixture
async def host(database_url: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(asyncpg_url(database_url))
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def crew(memory: Memory, *users: str) -> int:
    """A group of these users; its scope."""
    group = await memory.groups.create("crew", **ADA)
    for user in users:
        await memory.groups.add_member("crew", user, **ADA)
    return parse_scope_id(group.scope_id)


async def say(memory: Memory, words: str, user: str = "mia", session: str = "s", n: int = 1, **more: Any) -> None:
    await memory.add([message(words, n=n, user_id=user)], **ADA, user_id=user, conversation_id=session, **more)


async def leave(memory: Memory, user: str = "mia", **more: Any) -> Departure:
    return await memory.groups.remove_member("crew", user, **ADA, **more)


async def stated(memory: Memory, content: str, user: str | None = "mia") -> Observation:
    return await memory.observe(content, **ADA, user_id=user, group_id="crew")


async def tell(memory: Memory) -> None:
    for (scope_id,) in await rows(memory, "SELECT scope_id FROM memory.scopes ORDER BY 1"):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")


async def told(memory: Memory, owner: str = "g:crew") -> str | None:
    ((content,),) = await rows(memory, f"SELECT content FROM {TOLD} WHERE owner = :owner", owner=owner)  # noqa: S608
    return content  # type: ignore[no-any-return]


async def listed(memory: Memory, who: dict[str, Any]) -> set[str]:
    return {o.content for o in await memory.observations.list(**who)}


async def standing(memory: Memory) -> dict[str, str]:
    """The status of every observation by its text."""
    found = await rows(
        memory,
        "SELECT content, coalesce(status, 'active') FROM memory.observations"
        " LEFT JOIN memory.observation_states USING (agent_key, scope_id, seq)",
    )
    return {str(content): str(status) for content, status in found}


async def events(memory: Memory, kind: str) -> list[tuple[Any, ...]]:
    return await rows(
        memory, "SELECT actor, reason, detail FROM memory.events WHERE kind = :kind ORDER BY event_id", kind=kind
    )


async def spread(memory: Memory, child: Observation, source: Observation) -> None:
    """As propagation does it: the child was made of this."""
    await rows(
        memory,
        "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)"
        " SELECT agent_key, :scope_id, :seq, :from_scope, :from_seq FROM memory.agents",
        scope_id=child.scope.key,
        seq=int(child.id.partition("-")[2]),
        from_scope=source.scope.key,
        from_seq=int(source.id.partition("-")[2]),
    )


# The interface


async def test_group_is_made_once_and_called_by_its_name(memory: Memory) -> None:
    made = await memory.groups.create("crew", **ADA, display_name="The  crew\n", **WHY)
    assert (made.group_id, made.display_name, made.members) == ("crew", "The crew", 0)
    assert await memory.groups.create("crew", **ADA, display_name="Another") == made
    renamed = await memory.groups.rename("crew", "Deck", **ADA, **WHY)
    assert renamed == made.model_copy(update={"display_name": "Deck"})
    assert await memory.groups.rename("crew", "Deck", **ADA) == renamed
    assert await memory.groups.list(**ADA) == [renamed]
    assert (await memory.groups.create("quay", **ADA)).display_name == "quay"
    assert [(a, r, d["action"]) for a, r, d in await events(memory, "group")] == [
        ("desk", "changed teams", "create"), ("desk", "changed teams", "name"), (None, None, "create"),
    ]  # fmt: skip
    assert "Deck" not in str(await events(memory, "group"))  # what a person wrote stays where forgetting finds it


async def test_group_called_default_is_one_as_any_other(memory: Memory) -> None:
    """R140: imports put there who belongs to no other."""
    await memory.groups.create("default", **ADA)
    member = await memory.groups.add_member("default", "mia", **ADA, source="import")
    assert (member.group_id, member.user_id, member.source, member.left_at) == ("default", "mia", "import", None)
    await memory.observe("All hands.", **ADA, group_id="default")
    assert await listed(memory, MIA) == {"All hands."}
    assert await memory.groups.list(**MIA) == await memory.groups.list(**ADA)


async def test_who_belongs_to_a_group_is_listed_now_and_as_of_then(memory: Memory) -> None:
    before = memory.now()
    await crew(memory, "mia", "jonas")
    both = memory.now()
    await leave(memory, keep=True)
    assert [m.user_id for m in await memory.groups.members("crew", **ADA)] == ["jonas"]
    (jonas, mia) = await memory.groups.members("crew", **ADA, as_of=both)
    assert (jonas.user_id, mia.user_id) == ("jonas", "mia")
    assert mia.left_at is not None
    assert await memory.groups.members("crew", **ADA, as_of=before) == []
    assert [group.members for group in await memory.groups.list(**ADA)] == [1]
    assert await memory.groups.list(**MIA) == []


async def test_who_is_a_member_stays_one_as_they_are(memory: Memory) -> None:
    await crew(memory)
    first = await memory.groups.add_member("crew", "mia", **ADA, source="inferred", **WHY)
    assert await memory.groups.add_member("crew", "mia", **ADA) == first
    assert [(a, r, d) for a, r, d in await events(memory, "membership")] == [
        ("desk", "changed teams", {"action": "join", "group_id": "crew", "user_id": "mia"})
    ]


@pytest.mark.slow
async def test_leaving_twice_is_leaving_once(memory: Memory) -> None:
    await crew(memory, "mia")
    await stated(memory, "We sail.")
    first = await leave(memory, keep=True)
    assert await leave(memory, keep=True) == first
    assert len(await events(memory, "membership")) == 2
    again = await leave(memory)  # what was kept then isn't any more
    assert (again.left_at, len(again.archived)) == (first.left_at, 1)
    assert await leave(memory) == first
    assert len(await events(memory, "membership")) == 3


@pytest.mark.slow
async def test_what_was_given_up_of_who_leaves_is_not_tried_again(
    database_url: str, parrot: Parrot, clock: Clock
) -> None:
    settings = Settings(llm="offline", consolidation_threshold=1, max_errors=1)
    async with Memory(database_url, parrot, settings, clock=clock) as memory:
        await crew(memory, "mia", "jonas")
        await stated(memory, "Mia's plan is to sell the boat.")
        parrot.failing = AnswerError("nonsense")
        for _ in range(4):
            await memory.run_due()
            clock.goes_on(hours=1)
        parrot.failing = None
        assert list((await standing(memory)).values()) == ["given_up"]
        assert len((await leave(memory)).archived) == 1
        clock.goes_on(days=40)
        await memory.run_due()
        assert list((await standing(memory)).values()) == ["archived"]
        assert (await told(memory), await memory.work.dead()) == (None, [])
        assert list(await memory.admin.verify()) == []


@pytest.mark.slow
async def test_comes_back_at_the_very_moment_of_leaving(database_url: str, parrot: Parrot) -> None:
    now = datetime(2026, 3, 2, 9, tzinfo=UTC)
    async with Memory(
        database_url, parrot, Settings(llm="offline", shared_conversations=True), clock=lambda: now
    ) as memory:
        await crew(memory, "mia")
        for _ in range(3):
            await leave(memory)
            assert (await memory.groups.add_member("crew", "mia", **ADA)).joined_at > now - timedelta(seconds=1)
        assert list(await memory.admin.verify()) == []


async def test_what_is_not_there_is_not_found(memory: Memory) -> None:
    async def missing(what: str, call: Awaitable[Any]) -> None:
        with pytest.raises(NotFoundError, match=f"^no {what}$"):
            await call

    groups = memory.groups
    for _ in range(2):  # without the agent, and with it
        await missing("group crew", groups.rename("crew", "Deck", **ADA))
        await missing("group crew", groups.add_member("crew", "mia", **ADA))
        await missing("group crew", groups.remove_member("crew", "mia", **ADA))
        await missing("group crew", groups.members("crew", **ADA))
        assert await groups.list(**ADA) == []
        await memory.observe("Tea.", **MIA)
    await groups.create("crew", **ADA)
    await missing("member of group crew: mia", groups.remove_member("crew", "mia", **ADA))
    assert await rows(memory, "SELECT epoch FROM memory.scopes WHERE owner = 'g:crew'") == [(0,)]


async def test_what_cant_be_accepted_is_refused(memory: Memory) -> None:
    await crew(memory)
    with pytest.raises(InvalidIdError):
        await memory.groups.create("", **ADA)
    with pytest.raises(InputError, match="display_name needs some text"):
        await memory.groups.rename("crew", " \n", **ADA)
    with pytest.raises(TooLargeError):
        await memory.groups.rename("crew", "x" * 256, **ADA)
    with pytest.raises(InputError, match="source must be one of host, import, inferred"):
        await memory.groups.add_member("crew", "mia", **ADA, source="gossip")  # type: ignore[arg-type]


@pytest.mark.slow
async def test_group_stands_and_falls_with_the_host(memory: Memory, host: AsyncSession) -> None:
    for commit in (False, True):
        await memory.groups.create("crew", **ADA, session=host)
        await memory.groups.add_member("crew", "mia", **ADA, session=host)
        await memory.groups.rename("crew", "Deck", **ADA, session=host)
        assert len(await memory.groups.members("crew", **ADA, session=host)) == 1
        assert len(await memory.groups.list(**ADA, session=host)) == 1
        await memory.observe("We sail.", **MIA, group_id="crew", session=host)
        await memory.groups.remove_member("crew", "mia", **ADA, session=host)
        await memory.groups.add_member("crew", "jonas", **ADA, session=host)
        assert await memory.groups.list(**ADA) == []
        await (host.commit() if commit else host.rollback())
    assert [m.user_id for m in await memory.groups.members("crew", **ADA)] == ["jonas"]
    assert await standing(memory) == {"We sail.": "archived"}


async def test_example_of_the_page_works(memory: Memory, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/groups.md", "exec"), names)
    await names["teams"](memory)
    assert "source='import'" in capsys.readouterr().out
    assert [m.user_id for m in await memory.groups.members("harbor", **ADA)] == ["jonas"]


# Leaving ends visibility


async def remembered(memory: Memory, parrot: Parrot) -> None:
    """Something of the crew's in every place that can be read; of what Mia said and of what Jonas did."""
    await crew(memory, "mia", "jonas")
    await say(memory, "We moor at the gate.", group_ids=["crew"])
    await say(memory, "We paint the gate.", user="jonas", n=2, group_ids=["crew"])
    await say(memory, "I have a gate at home.", session="own")
    for session in ("s", "own"):
        await memory.conversations.form(**ADA, conversation_id=session)
    await tell(memory)
    await stated(memory, "The gate has bay 4711.", "jonas")
    await memory.observe("The gate is heavy.", **ADA, group_id="crew", scope="tools")
    await rows(
        memory,
        "WITH made AS (INSERT INTO memory.scopes (agent_key, kind, owner, version)"
        " SELECT agent_key, 'conversation', 's:s', 1 FROM memory.agents RETURNING *)"
        " INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)"
        " SELECT agent_key, scope_id, 1, 0, 0, 0, 'A gate of the conversation.', 5, 'import' FROM made",
    )


OTHERS = ("moor", "paint", "4711", "heavy", "gate of the conversation")


async def everything(memory: Memory, who: dict[str, Any]) -> str:
    """All that a user can read, in every way, as text."""
    here = {**who, "conversation_id": "s"}
    found: list[Any] = [
        await memory.context(**here),
        await memory.context(**here, message="Do you remember the gate?", retrieve=True, assembly="both"),
        await memory.search("gate", **here, top_k=100),
        await memory.search("gate", **who, top_k=100, as_of=memory.now()),
        await memory.digest(**who),
        await memory.digest(**who, query="gate"),
        await memory.observations.list(**who),
        await memory.observations.list(**who, as_of=memory.now()),
        await memory.scopes.list(**here),
        await memory.scopes.history(**who),
        await memory.conversations.messages(**who),
        await memory.conversations.messages(**here),
    ]
    return "\n".join(map(str, found))


@pytest.mark.slow
async def test_who_has_left_sees_nothing_of_the_group_in_any_way(memory: Memory, parrot: Parrot) -> None:
    await remembered(memory, parrot)
    seen = await everything(memory, MIA)
    assert all(word in seen for word in (*OTHERS, "gate at home"))
    (code,) = [o for o in await memory.observations.list(**MIA) if "4711" in o.content]
    (mine,) = [o for o in await memory.observations.list(**MIA) if "home" in o.content]
    await leave(memory, keep=True)
    seen = await everything(memory, MIA)
    assert [word for word in OTHERS if word in seen] == []
    assert "gate at home" in seen
    for read in (memory.observations.get, memory.observations.sources):
        with pytest.raises(NotFoundError):
            await read(code.id, **MIA)
    with pytest.raises(NotFoundError):
        await memory.scopes.diff(**MIA, scope_id=code.scope.id)
    assert [m.conversation_id for m in await memory.observations.sources(mine.id, **MIA)] == ["own"]
    seen = await everything(memory, JONAS)
    assert all(word in seen for word in OTHERS)
    await memory.groups.add_member("crew", "mia", **ADA)
    seen = await everything(memory, MIA)
    assert all(word in seen for word in (*OTHERS, "gate at home"))


def names(members: Sequence[Member]) -> list[str]:
    return [member.user_id for member in members]


async def participants(memory: Memory) -> list[str]:
    ((found,),) = await rows(memory, "SELECT participants FROM memory.conversations WHERE conversation_id = 's'")
    return list(found)


async def test_who_left_and_was_forgotten_stays_out_until_they_are_added(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    await say(memory, "Ahoy.", group_ids=["crew"])
    await say(memory, "The anchor is blue.", user="jonas", n=2, group_ids=["crew"])
    await leave(memory)
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await participants(memory) == ["jonas"]
    await say(memory, "Anybody here?", user="jonas", n=3, group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas"]
    await stated(memory, "The anchor is blue.", "jonas")
    for session in ("s", "new"):  # nor by what they say themselves
        await say(memory, "It's me.", n=4, session=session, group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas"]
    assert "anchor" not in await everything(memory, MIA)
    await memory.groups.add_member("crew", "mia", **ADA)
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas", "mia"]
    assert "anchor" in await everything(memory, MIA)


async def test_who_left_by_one_of_their_ids_stays_out_by_all_of_them_when_forgotten(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    await memory.people.merge(**ADA, user_id="tablet", into_user_id="mia")
    await leave(memory)
    await memory.forget(Selection(user_id="mia"), **ADA)
    for user in ("mia", "tablet"):
        await say(memory, "Late.", user=user, session=f"late {user}", group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas"]
    await memory.people.rename(**ADA, kind="user", old="tablet", new="phone")
    await say(memory, "Later.", user="phone", session="later", group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas"]
    await memory.groups.add_member("crew", "mia", **ADA)
    await memory.forget(Selection(user_id="mia"), **ADA)  # as a member: they may come again
    await say(memory, "A new start.", session="anew", group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas", "mia"]


async def test_what_outlives_a_forgetting_names_nobody(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    await leave(memory)
    await memory.forget(Selection(user_id="mia"), **ADA)
    ((digest, scope),) = await rows(memory, "SELECT user_hash, scope_id FROM memory.departures")
    assert f"s{scope}" == (await memory.groups.list(**ADA))[0].scope_id
    assert len(digest) == 32
    assert digest not in {hashlib.sha256(b"mia").digest(), hmac.digest(b"", b"mia", "sha256")}
    assert await rows(memory, "SELECT memory.user_hash(agent_key, 'mia') FROM memory.agents") == [(digest,)]
    await memory.forget(Selection(everything=True), **ADA)
    assert await rows(memory, "SELECT 1 FROM memory.departures") == []


async def test_add_makes_members_only_of_those_who_speak_in_that_call(memory: Memory) -> None:
    await say(memory, "Before there was a group.", user="eve")
    told = [message("Ahoy.", n=2, user_id="mia"), message("Ahoy, Mia.", n=3, role="assistant")]
    await memory.add(told, **ADA, user_id="host", conversation_id="s", group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["mia"]
    await memory.add(told[1:], **ADA, user_id="eve", conversation_id="s", group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["mia"]
    await memory.add(told, **ADA, user_id="mia", conversation_id="s", group_ids=["quay"])  # told again: of this group
    assert names(await memory.groups.members("quay", **ADA)) == ["mia"]


async def test_message_that_was_forgotten_makes_nobody_a_member_when_it_comes_again(memory: Memory) -> None:
    await say(memory, "Ahoy.", group_ids=["crew"])
    await say(memory, "Ahoy, Mia.", user="jonas", n=2, group_ids=["crew"])
    await memory.forget(Selection(user_id="mia"), **ADA)
    await say(memory, "Ahoy.", group_ids=["crew"])
    assert names(await memory.groups.members("crew", **ADA)) == ["jonas"]
    assert await participants(memory) == ["jonas"]


async def test_who_is_forgotten_is_related_to_nothing_that_others_said_as_well(memory: Memory, parrot: Parrot) -> None:
    await crew(memory, "mia", "jonas")
    both = [message("Ship in April.", n=1, user_id="mia"), message("Ship in April.", n=2, user_id="jonas")]
    both[0]["id"] = "of mia"
    await memory.add(both, **ADA, user_id="jonas", conversation_id="s", group_ids=["crew"])
    await memory.observe("Ship in April.", **JONAS, group_id="crew")
    await rows(
        memory,
        "INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id)"
        " SELECT agent_key, scope_id, seq, 's', 1, 'mia' FROM memory.observations",
    )
    await rows(memory, "UPDATE memory.observations SET related_users = ARRAY['mia', 'jonas']")
    await memory.forget(Selection(conversation_id="s", message_id="of mia"), **ADA)
    assert await rows(memory, "SELECT related_users FROM memory.observations") == [(["jonas"],)]


async def test_name_goes_with_the_only_message_under_it(memory: Memory) -> None:
    """Else it stays when the user is forgotten: by then nothing relates them to what another has said as well."""
    await crew(memory, "mia", "jonas")
    said = message("We ship in April.", name="Mia Marsh")
    await memory.add([said], **MIA, conversation_id="s", group_ids=["crew"])
    await memory.conversations.share(**ADA, conversation_id="s")
    await memory.conversations.form(**ADA, conversation_id="s")
    await memory.observe("We ship in April.", **JONAS, group_id="crew")
    assert await rows(memory, "SELECT speaker FROM memory.observations") == [("Mia Marsh",)]
    await memory.forget(Selection(conversation_id="s", message_id="m1"), **ADA)
    assert await rows(memory, "SELECT speaker FROM memory.observations") == [(None,)]
    await memory.forget(Selection(user_id="mia"), **ADA)
    names_left = "SELECT speaker, speakers FROM memory.observations JOIN memory.scopes USING (agent_key, scope_id)"
    assert await rows(memory, names_left) == [(None, [])]


async def test_forgetting_somebody_leaves_conversations_of_those_forgotten_before(memory: Memory) -> None:
    await say(memory, "Keep this.", session="held")  # by a hold, when Mia was forgotten
    await rows(memory, "UPDATE memory.conversations SET participants = '{}'")
    await say(memory, "Mine.", user="jonas")
    await memory.forget(Selection(user_id="jonas"), **ADA)
    kept = "SELECT content FROM memory.messages ORDER BY conversation_id"
    assert await rows(memory, kept) == [("Keep this.",), (None,)]
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await rows(memory, kept) == [(None,), (None,)]


async def test_who_has_left_one_of_a_conversations_groups_reads_no_more_of_it(memory: Memory) -> None:
    await say(memory, "Ahoy.", group_ids=["crew", "quay"])
    await say(memory, "Alone.", session="own")
    await memory.groups.remove_member("quay", "mia", **ADA)
    assert [m.conversation_id for m in await memory.conversations.messages(**MIA)] == ["own"]
    await memory.groups.add_member("quay", "mia", **ADA)
    assert [m.conversation_id for m in await memory.conversations.messages(**MIA)] == ["s", "own"]


@pytest.mark.slow
async def test_who_leaves_leaves_by_all_ids_that_stand_for_them(memory: Memory) -> None:
    await crew(memory, "mia", "jonas", "visitor")
    await memory.people.merge(**ADA, user_id="visitor", into_user_id="mia")
    await memory.people.merge(**ADA, user_id="tablet", into_user_id="visitor")
    for user in ("mia", "visitor"):
        await stated(memory, f"Of {user}.", user)
    await stated(memory, "Of jonas.", "jonas")
    left = await leave(memory)
    assert left.user_ids == ("mia", "tablet", "visitor")
    assert len(left.archived) == 2
    assert await listed(memory, MIA) == set()
    assert [m.user_id for m in await memory.groups.members("crew", **ADA)] == ["jonas"]
    for user in ("mia", "visitor", "tablet"):  # a late message brings them back by none of their ids
        await say(memory, "Late.", user=user, session=f"late {user}", group_ids=["crew"])
    assert await listed(memory, MIA) == set()
    await memory.groups.add_member("crew", "mia", **ADA)
    assert await listed(memory, MIA) == {"Of jonas."}


async def test_leaving_as_an_id_that_stands_for_a_member_leaves_the_member_in(memory: Memory) -> None:
    await crew(memory, "mia", "visitor")
    await memory.people.merge(**ADA, user_id="visitor", into_user_id="mia")
    await stated(memory, "We sail.", "jonas")
    await leave(memory, "visitor")
    assert await listed(memory, MIA) == {"We sail."}
    assert await listed(memory, {**ADA, "user_id": "visitor"}) == set()


async def test_renamed_group_keeps_who_has_left_out(memory: Memory) -> None:
    await say(memory, "Ahoy.", group_ids=["crew"])
    await leave(memory)
    await memory.people.rename(**ADA, kind="group", old="crew", new="deck")
    assert await memory.conversations.messages(**MIA) == []
    assert [d["group_id"] for _, _, d in await events(memory, "membership")] == ["deck"]


async def test_leaving_costs_readers_no_statement(memory: Memory) -> None:
    await crew(memory, "mia")
    await leave(memory)
    for read in (
        lambda: memory.context(**MIA),
        lambda: memory.search("gate", **MIA),
        lambda: memory.conversations.messages(**MIA),
    ):
        with statements(memory) as seen:
            await read()
        assert len(seen) == 1


# What is formed while somebody leaves


async def placed(memory: Memory) -> set[tuple[str, str]]:
    found = await rows(
        memory, "SELECT s.owner, o.content FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
    )
    return {(str(owner), str(content)) for owner, content in found}


async def refused(memory: Memory) -> dict[str, int]:
    found = await rows(memory, "SELECT refused FROM memory.runs WHERE kind = 'formation' ORDER BY run_id DESC LIMIT 1")
    return dict(found[0][0])


@pytest.mark.slow
async def test_running_conversation_places_nothing_more_into_the_group_for_who_has_left(
    memory: Memory, parrot: Parrot
) -> None:
    await crew(memory, "mia", "jonas")
    await stated(memory, "The code is 4711.", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    await memory.conversations.form(**ADA, conversation_id="s")
    await leave(memory, keep=True)
    await say(memory, "We paint.", n=2)
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await placed(memory) == {("g:crew", "The code is 4711."), ("g:crew", "We moor."), ("u:mia", "We paint.")}
    task = parrot.requests[-1].material
    assert [scope.kind for scope in task.scopes] == ["individual", "collective"]  # type: ignore[attr-defined]
    assert "4711" not in parrot.requests[-1].prompt
    await memory.groups.add_member("crew", "mia", **ADA)
    await say(memory, "We sail.", n=3)
    await memory.conversations.form(**ADA, conversation_id="s")
    assert ("g:crew", "We sail.") in await placed(memory)


@pytest.mark.slow
async def test_of_several_who_speak_only_members_give_to_the_group(memory: Memory, parrot: Parrot) -> None:
    await crew(memory, "mia", "jonas")
    await stated(memory, "The code is 4711.", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    await say(memory, "We paint.", user="jonas", n=2)
    await leave(memory, keep=True)
    parrot.extracted = [("Mia's.", "group", [1]), ("Jonas's.", "group", [2]), ("Of both.", "group", [1, 2])]
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await placed(memory) == {("g:crew", "The code is 4711."), ("u:mia", "Mia's."), ("g:crew", "Jonas's.")}
    assert await refused(memory) == {"not_a_member": 2, "no_single_author": 1}
    assert "4711" not in parrot.requests[-1].prompt  # an obedient model may put it where Mia sees it


async def test_model_that_names_a_group_it_was_not_offered_gives_it_nothing(memory: Memory, parrot: Parrot) -> None:
    await crew(memory, "mia", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    await leave(memory)
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, memory.now(), "asked")
    assert loaded is not None
    assert [target.is_open for target in loaded.targets if target.kind == "group"] == [False]
    extraction = (await formation.decide(parrot, loaded, memory.settings)).extraction
    (item,) = extraction.observations
    invented = replace(extraction, observations=(item.model_copy(update={"scope": "group_1"}),))
    drafts, counted = drafts_of(invented, loaded, memory.settings)
    assert [draft.scope.owner for draft in drafts] == ["u:mia"]
    assert +counted == {"not_a_member": 1}


async def test_leaving_while_the_model_works_refuses_its_answer(memory: Memory, parrot: Parrot) -> None:
    await crew(memory, "mia", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    parrot.meanwhile = lambda: leave(memory)
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="s")
    assert await placed(memory) == set()
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await placed(memory) == {("u:mia", "We moor.")}


async def test_answer_that_lies_stored_is_not_applied_for_who_has_left_since(memory: Memory, parrot: Parrot) -> None:
    await crew(memory, "mia", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, memory.now(), "asked")
    assert loaded is not None
    answered = await formation.decide(parrot, loaded, memory.settings)
    async with serving(memory) as unit:
        await formation.keep(unit, loaded, answered, memory.settings)
    await rows(memory, "UPDATE memory.conversations SET lease_until = now()")
    await leave(memory)
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await placed(memory) == {("u:mia", "We moor.")}


async def test_membership_that_ended_by_other_hands_is_seen_under_the_lock(memory: Memory, parrot: Parrot) -> None:
    await crew(memory, "mia", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    parrot.meanwhile = lambda: rows(memory, "UPDATE memory.members SET left_at = joined_at WHERE user_id = 'mia'")
    await memory.conversations.form(**ADA, conversation_id="s")
    assert await placed(memory) == set()
    assert await refused(memory) == {"not_a_member": 1}


async def are_waiting(memory: Memory, count: int) -> None:
    """Until so many connections wait for a lock; asks again and again, since nobody tells."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(SECONDS):
        while True:
            if (await rows(memory, waiting))[0][0] >= count:
                return
            await asyncio.sleep(0.01)


async def begun(memory: Memory, parrot: Parrot) -> Callable[[Any], Awaitable[Any]]:
    """A formation of Mia's word to the crew, up to its apply."""
    await crew(memory, "mia", "jonas")
    await say(memory, "We moor.", group_ids=["crew"])
    async with serving(memory) as unit:
        _, loaded = await loading(unit, "ada", "s", memory.settings, memory.now(), "asked")
    assert loaded is not None
    answered = await formation.decide(parrot, loaded, memory.settings)
    return lambda unit: formation.apply(unit, loaded, answered, memory.settings, memory.now())


@pytest.mark.slow
async def test_leaving_waits_for_an_apply_and_archives_what_it_placed(memory: Memory, parrot: Parrot) -> None:
    apply = await begun(memory, parrot)
    async with serving(memory) as unit:
        await apply(unit)
        leaving = asyncio.ensure_future(leave(memory))
        await are_waiting(memory, 1)
    async with asyncio.timeout(SECONDS):
        left = await leaving
    assert len(left.archived) == 1
    assert await standing(memory) == {"We moor.": "archived"}


@pytest.mark.slow
async def test_apply_waits_for_a_leaving_and_is_refused(memory: Memory, parrot: Parrot, host: AsyncSession) -> None:
    apply = await begun(memory, parrot)

    async def applied() -> None:
        async with serving(memory) as unit:
            await apply(unit)

    await leave(memory, session=host)
    applying = asyncio.ensure_future(applied())
    await are_waiting(memory, 1)
    await host.commit()
    with pytest.raises(StaleError):
        async with asyncio.timeout(SECONDS):
            await applying
    assert await placed(memory) == set()


async def test_leaving_while_the_text_is_written_refuses_it(memory: Memory, parrot: Parrot) -> None:
    scope_id = await crew(memory, "mia", "jonas")
    await stated(memory, "We moor.")
    await stated(memory, "We paint.", "jonas")
    parrot.meanwhile = lambda: leave(memory)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    assert await told(memory) == "We paint."


@pytest.mark.slow
async def test_many_leave_join_and_form_at_once_without_a_deadlock(memory: Memory) -> None:
    users = [f"u{n}" for n in range(4)]
    await crew(memory, *users)
    for user in users:
        await say(memory, "We moor.", user=user, session=user, group_ids=["crew"])

    async def come_and_go(user: str) -> None:
        for _ in range(3):
            await leave(memory, user)
            await memory.groups.add_member("crew", user, **ADA)

    async def form(user: str) -> None:
        try:
            await memory.conversations.form(**ADA, conversation_id=user)
        except StaleError:
            await memory.observe(f"{user} tried.", **ADA, user_id=user, collective=True)

    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*map(come_and_go, users), *map(form, users))
    assert len(await memory.groups.members("crew", **ADA)) == len(users)


# What a leaver contributed


@pytest.mark.slow
async def test_what_only_the_leaver_said_is_archived_and_the_text_told_anew(memory: Memory) -> None:
    scope_id = await crew(memory, "mia", "jonas")
    await stated(memory, "We sail.", "jonas")
    await tell(memory)
    mine = await stated(memory, "Mia's plan.")
    await stated(memory, "Of both.", "jonas")
    await stated(memory, "Of both.")
    await stated(memory, "The host's.", None)
    await tell(memory)
    assert await told(memory) == "We sail. Mia's plan. Of both. The host's."
    left = await leave(memory, **WHY)
    assert (left.archived, left.retracted, left.held, left.withheld) == ((mine.id,), (), 0, (f"s{scope_id}",))
    assert await told(memory) == "We sail."  # as it was before it took that in
    assert await standing(memory) == {
        "We sail.": "active", "Mia's plan.": "archived", "Of both.": "active", "The host's.": "active",
    }  # fmt: skip
    result = await memory.run_due()  # two are fewer than the threshold
    assert [one.scope.key for one in result.consolidated] == [scope_id]
    assert await told(memory) == "We sail. Of both. The host's."
    assert await listed(memory, JONAS) == {"We sail.", "Of both.", "The host's."}
    assert [(a, r, d["from"], d["to"], d["why"]) for a, r, d in await events(memory, "status")] == [
        ("desk", "changed teams", "active", "archived", "leave")
    ]
    (*_, (actor, reason, detail)) = await events(memory, "membership")
    assert (actor, reason) == ("desk", "changed teams")
    assert detail == {
        "action": "leave", "group_id": "crew", "user_id": "mia", "archived": [mine.id], "retracted": [],
    }  # fmt: skip


@pytest.mark.slow
async def test_text_of_the_leaver_alone_goes_and_nothing_is_due(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    await stated(memory, "Mia's plan.")
    await tell(memory)
    left = await leave(memory)
    assert left.withheld == ()
    assert await told(memory) is None
    due = await memory.run_due()
    assert (due.formed, due.consolidated, [judged.judged for judged in due.propagated]) == ((), (), [()])
    assert "Mia's plan" not in str(await memory.context(**JONAS))


async def test_what_is_kept_stays_as_it_was(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    await stated(memory, "Mia's plan.")
    await tell(memory)
    left = await leave(memory, keep=True)
    assert (left.archived, left.withheld) == ((), ())
    assert await told(memory) == "Mia's plan."
    assert await listed(memory, JONAS) == {"Mia's plan."}


async def test_coming_back_does_not_bring_back_what_was_archived_but_saying_it_again_does(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    old = await stated(memory, "Mia's plan.")
    await leave(memory)
    await memory.groups.add_member("crew", "mia", **ADA)
    assert await listed(memory, MIA) == set()
    assert (await memory.observations.get(old.id, **MIA)).status == "archived"
    assert (await stated(memory, "Mia's plan.", "jonas")).id != old.id
    assert await listed(memory, MIA) == {"Mia's plan."}


async def test_who_came_back_sees_also_what_they_saw_before(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    said = await memory.observe("We sail.", **JONAS, group_id="crew")
    member = memory.now()
    await memory.groups.remove_member("crew", "mia", **ADA)
    gone = memory.now()
    assert await memory.observations.list(**MIA, as_of=member) == []
    await memory.groups.add_member("crew", "mia", **ADA)
    assert [one.id for one in await memory.observations.list(**MIA, as_of=member)] == [said.id]
    assert await memory.observations.list(**MIA, as_of=gone) == []


async def test_what_the_leaver_had_replaced_stands_again(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    old = await stated(memory, "We sail at dawn.", "jonas")
    mine = await memory.observations.update(old.id, **MIA, text="We sail at noon.")
    await leave(memory)
    assert await standing(memory) == {"We sail at dawn.": "active", "We sail at noon.": "archived"}
    (event,) = [d for _, _, d in await events(memory, "status") if d["to"] == "archived"]
    assert (event["from"], mine.status) == ("active", "active")


async def test_what_others_have_corrected_since_stays_superseded_when_its_corrector_leaves(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    old = await stated(memory, "We sail at dawn.", "jonas")
    mine = await memory.observations.update(old.id, **MIA, text="We sail at noon.")
    await memory.observations.update(mine.id, **JONAS, text="We sail at dusk.")
    await leave(memory)
    assert await listed(memory, JONAS) == {"We sail at dusk."}


async def test_what_of_the_leavers_had_given_way_does_not_stand_again_later(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    mine = await stated(memory, "We sail at dawn.")
    newer = await memory.observations.update(mine.id, **JONAS, text="We sail at noon.")
    await leave(memory)
    assert await standing(memory) == {"We sail at dawn.": "superseded", "We sail at noon.": "active"}
    await memory.forget(newer.id, **ADA)
    assert await listed(memory, JONAS) == set()


async def test_what_was_superseded_is_not_found_again_when_its_author_leaves(memory: Memory) -> None:
    """By what others say now, or by what goes with it."""
    await crew(memory, "mia", "jonas")
    mine, own = await stated(memory, "We sail at dawn."), await stated(memory, "We moor at sunset.")
    await memory.observations.update(mine.id, **JONAS, text="We sail at noon.")
    newest = await memory.observations.update(own.id, **MIA, text="We moor at midnight.")
    left = await leave(memory)
    assert left.archived == (newest.id,)
    found = {hit.observation.content for hit in (await memory.search("sail moor", **JONAS)).results}
    assert found == {"We sail at noon.", "We moor at midnight."}
    told = len(await events(memory, "status"))
    assert (await leave(memory)).archived == ()
    assert len(await events(memory, "status")) == told


@pytest.mark.slow
async def test_what_was_made_of_it_in_wider_scopes_is_taken_out(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    mine, theirs = await stated(memory, "Mia's ruby."), await stated(memory, "Jonas's opal.", "jonas")
    high = await memory.observe("Somebody's ruby.", **ADA, collective=True)
    other = await memory.observe("Somebody's opal.", **ADA, collective=True)
    await spread(memory, high, mine)
    await spread(memory, other, theirs)
    await tell(memory)
    left = await leave(memory)
    assert (left.archived, left.retracted) == ((mine.id,), (high.id,))
    assert left.withheld == tuple(sorted({mine.scope.id, high.scope.id}))
    assert await told(memory, "c") is None
    await memory.run_due()
    assert (await told(memory), await told(memory, "c")) == ("Jonas's opal.", "Somebody's opal.")
    assert "Somebody's ruby." not in await standing(memory)


async def test_leaving_is_not_refused_by_a_legal_hold(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    mine = await stated(memory, "Mia's ruby.")
    high = await memory.observe("Somebody's ruby.", **ADA, collective=True)
    await spread(memory, high, mine)
    await memory.holds.place(**ADA, observation_id=high.id)
    left = await leave(memory)
    assert (left.archived, left.retracted, left.held) == ((mine.id,), (), 1)
    assert await standing(memory) == {"Mia's ruby.": "archived", "Somebody's ruby.": "withdrawn"}


async def test_what_lies_in_the_leavers_own_scope_stays(memory: Memory) -> None:
    await crew(memory, "mia", "jonas")
    await memory.observe("Mia's tea.", **MIA)
    await memory.observe("Mia's tool.", **MIA, group_id="crew", scope="tools")
    left = await leave(memory)
    assert len(left.archived) == 1
    assert await standing(memory) == {"Mia's tea.": "active", "Mia's tool.": "archived"}
