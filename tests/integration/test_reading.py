import re
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from xml.etree import ElementTree

import pytest

from memory_sql.config import Settings
from memory_sql.config.kinds import ObservationKind
from memory_sql.domain.positions import position
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, InvalidIdError, NotFoundError, TooLargeError
from memory_sql.memory import Memory
from tests.database import rows, statements
from tests.factories import MONDAY, conversation
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}


async def group_of(memory: Memory, *users: str, group: str = "harbor") -> None:
    for user in users:
        await memory.add(
            conversation(1), agent_id="ada", user_id=user, conversation_id=f"s-{user}-{group}", group_ids=[group]
        )


async def test_context_holds_consolidations_and_what_is_pending(memory: Memory, llm: Scripted) -> None:
    """R073–R075, R116."""
    await group_of(memory, "mia")
    scope_id = (await memory.observe("Tea.", **MIA)).scope.key
    await memory.observe("Ship in April.", agent_id="ada", group_id="harbor")
    await memory.observe("Split exports.", agent_id="ada", collective=True)
    llm.then("Mia drinks tea.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    last = await memory.observe("Berth 12 & 13.", **MIA, observed_at=MONDAY)
    context = await memory.context(**MIA)
    root = ElementTree.fromstring(str(context))
    assert [element.tag for element in root] == ["UserMemory", "RecentObservations", "RecentObservations"]
    user = root[0]
    assert user.get("user") == "mia"
    assert (user.text or "").strip() == "Mia drinks tea."
    assert "Berth 12 & 13. (" in "".join(user.itertext())
    assert [element.get("scope") for element in root[1:]] == ["collective", "group"]
    assert context.sources[:2] == (f"s{scope_id}v1", last.id)
    assert not context.fired


async def test_context_shows_the_newest_pending_only(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(pending_max=2)) as memory:
        for n in range(5):
            await memory.observe(f"fact {n}", **MIA)
        assert [part.sources for part in (await memory.context(**MIA)).parts] == [("o1-5", "o1-4")]


async def test_question_sets_off_retrieval(memory: Memory, llm: Scripted) -> None:
    """R076–R079."""
    scope_id = (await memory.observe("The gate mark is 4711.", **MIA)).scope.key
    await memory.observe("Boats are blue.", **MIA)
    llm.then("Mia has a boat.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    context = await memory.context(**MIA, message="Do you remember the gate?")
    assert (context.fired, context.reason) == (True, "recall phrase")
    assert "<RetrievedObservations>\n- The gate mark is 4711. (" in context.xml
    assert "Boats are blue." not in context.xml
    assert (await memory.context(**MIA, message="Paint the gate!")).reason == "found"
    assert not (await memory.context(**MIA, message="Paint the shed!")).fired
    assert (await memory.context(**MIA, message="Paint the gate!", retrieve=True)).reason == "asked"
    assert not (await memory.context(**MIA, message="Do you remember the gate?", retrieve=False)).fired


async def test_context_is_one_statement_whatever_it_retrieves(memory: Memory) -> None:
    await memory.observe("The gate mark is 4711.", **MIA)
    for message in (None, "Paint the gate!", "Do you remember the gate?"):
        with statements(memory) as seen:
            await memory.context(**MIA, message=message)
        assert len(seen) == 1
    await memory.configure(agent_id="ada", context_top_k=3)
    for count in (2, 1):  # what an agent has of its own is read with the rest, and guessed from then on
        with statements(memory) as seen:
            await memory.context(**MIA, message="Do you remember the gate?")
        assert len(seen) == count
    with statements(memory) as seen:
        await memory.search("gate", **MIA)
    assert len(seen) == 1


async def test_static_layer_is_the_same_bytes_until_memory_changes(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    now = MONDAY
    async with Memory(database_url, llm, settings, clock=lambda: now) as memory:
        scope_id = (await memory.observe("Tea.", **MIA)).scope.key
        llm.then("Mia drinks tea.")
        await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
        first = str(await memory.context(**MIA))
        now += timedelta(days=3)
        assert str(await memory.context(**MIA)) == first


async def test_search_finds_any_of_the_words_best_first(memory: Memory) -> None:
    for text in ("Boats are blue.", "The harbour gate opens at seven.", "The gate mark is 4711."):
        await memory.observe(text, **MIA)
    found = await memory.search("What was the mark of the gates?", **MIA)
    assert [hit.observation.content for hit in found.results] == [
        "The gate mark is 4711.", "The harbour gate opens at seven.",
    ]  # fmt: skip
    assert found.results[0].score > found.results[1].score > 0
    assert found.terms == ("mark", "gates")
    assert len((await memory.search("gate", **MIA, top_k=1)).results) == 1


@pytest.mark.parametrize(
    "query",
    ["", "  ", "the of", "-zzz", "'; DROP TABLE memory.observations; --", "a & b | !c", '"', "(", ":*", "\x00", "\ud83d",
     "w " * 100_000, "x" * 1_000_000, "%", "日本"],
    ids=lambda query: query[:12] or "empty",
)  # fmt: skip
async def test_hostile_query_finds_nothing_and_does_no_harm(memory: Memory, query: str) -> None:
    await memory.observe("The gate mark is 4711.", **MIA)
    assert (await memory.search(query, **MIA)).results == ()
    assert len((await memory.search("gate", **MIA)).results) == 1


async def test_search_looks_in_the_language_of_the_scope(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(language="german")) as memory:
        await memory.observe("Die Häuser am Hafen sind rot.", **MIA)
        assert len((await memory.search("Haus", **MIA)).results) == 1


@pytest.mark.slow
async def test_long_text_is_found_by_a_word_at_its_end(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(observation_max_characters=200_000)) as memory:
        await memory.observe("boat " * 10_000 + "zebra", **MIA)
        await memory.observe(" ".join(f"w{n}" for n in range(25_000)), **MIA)
        assert len((await memory.search("zebra", **MIA)).results) == 1


async def test_user_sees_own_group_and_collective_memory_and_nothing_else(memory: Memory) -> None:
    """R038–R041; every way to read."""
    await group_of(memory, "mia", "jonas")
    await group_of(memory, "jonas", group="board")
    own = await memory.observe("gate of Mia", **MIA)
    foreign = await memory.observe("gate of Jonas", **JONAS)
    await memory.observe("gate of the harbor", agent_id="ada", group_id="harbor")
    await memory.observe("gate of the board", agent_id="ada", group_id="board")
    await memory.observe("gate of all", agent_id="ada", collective=True)
    await memory.observe("gate of another agent", agent_id="bob", user_id="mia")
    visible = {"gate of Mia", "gate of the harbor", "gate of all"}
    assert {hit.observation.content for hit in (await memory.search("gate", **MIA)).results} == visible
    assert {o.content for o in await memory.observations.list(**MIA)} == visible
    context = str(await memory.context(**MIA, message="Do you remember the gate?"))
    assert all(text in context for text in visible)
    assert "Jonas" not in context
    assert "board" not in context
    assert [str(s.ref) for s in await memory.scopes.list(**MIA)] == ["collective", "group:harbor", "individual:mia"]
    assert (await memory.observations.get(own.id, **MIA)).content == "gate of Mia"
    for missing in (foreign.id, "o999-1", f"o{own.scope.key}-99"):
        with pytest.raises(NotFoundError):
            await memory.observations.get(missing, **MIA)


async def test_id_that_is_a_pattern_or_a_prefix_of_another_sees_nothing(memory: Memory) -> None:
    await group_of(memory, "mia")
    await memory.observe("A secret.", **MIA)
    await memory.observe("A secret.", agent_id="ada", group_id="harbor")
    for user in ("mi", "mia2", "%", "*", "m_a", "MIA", "u:mia", "mia' OR '1'='1", "harbor", "g:harbor", "c"):
        assert await memory.observations.list(agent_id="ada", user_id=user) == []
    for agent in ("ad", "%", "ADA"):
        assert await memory.observations.list(agent_id=agent, user_id="mia") == []


async def test_nobody_is_no_principal(memory: Memory) -> None:
    await memory.observe("A secret.", agent_id="ada", collective=True)
    for user in (None, "", ["mia"]):
        with pytest.raises(InvalidIdError):
            await memory.context(agent_id="ada", user_id=user)  # type: ignore[arg-type]
    assert await rows(memory, "SELECT * FROM memory.visible_scopes('ada', NULL)") == []
    assert await rows(memory, "SELECT * FROM memory.visible_scopes(NULL, 'mia')") == []


async def test_leaving_a_group_ends_visibility_at_once(memory: Memory) -> None:
    await group_of(memory, "mia")
    await memory.observe("Ship in April.", agent_id="ada", group_id="harbor")
    assert len(await memory.observations.list(**MIA)) == 1
    await rows(memory, "UPDATE memory.members SET left_at = now()")
    assert await memory.observations.list(**MIA) == []
    as_of = "SELECT count(*) FROM memory.visible_scopes('ada', 'mia', NULL, now() - interval '1 microsecond')"
    assert await rows(memory, as_of) == [(0,)]


async def test_conversation_scope_is_for_those_who_took_part(memory: Memory) -> None:
    await memory.add(conversation(1), **MIA, conversation_id="s")
    await rows(
        memory,
        "INSERT INTO memory.scopes (agent_key, kind, owner) SELECT agent_key, 'conversation', 's:s' FROM memory.agents",
    )
    assert [str(s.ref) for s in await memory.scopes.list(**MIA, conversation_id="s")] == ["conversation:s"]
    assert await memory.scopes.list(**MIA, conversation_id="t") == []
    assert await memory.scopes.list(**JONAS, conversation_id="s") == []


async def test_list_goes_on_where_the_page_before_ended(memory: Memory) -> None:
    for n in range(7):
        await memory.observe(f"fact {n}", **MIA)
    pages, before = [], None
    while page := await memory.observations.list(**MIA, limit=3, before=before):
        pages.append([o.content for o in page])
        before = page[-1]
    assert pages == [["fact 6", "fact 5", "fact 4"], ["fact 3", "fact 2", "fact 1"], ["fact 0"]]
    for limit in (0, -1, 2**63, True, "10"):
        with pytest.raises(InputError):
            await memory.observations.list(**MIA, limit=limit)  # type: ignore[arg-type]


async def test_observe_keeps_what_it_is_given(memory: Memory) -> None:
    kept = await memory.observe(
        " Tea\x00. ", agent_id=7, group_id="harbor", user_id="mia", observed_at=MONDAY, conversation_id="s", speaker="Mia",
        scope="menu", tags=["drink"], metadata={"a": [1]},
    )  # fmt: skip
    assert (kept.content, kept.observed_at, kept.tags, kept.metadata) == ("Tea\ufffd.", MONDAY, ("drink",), {"a": [1]})
    assert str(kept.scope) == "group:harbor:menu"
    assert (kept.source.kind, kept.source.conversation_id, kept.source.speaker) == ("observe", "s", "Mia")
    assert await rows(memory, "SELECT user_id FROM memory.evidence") == [("mia",)]


async def test_observe_keeps_what_the_host_knows_of_it(memory: Memory) -> None:
    known: dict[str, Any] = {"kind": "procedure", "category": "how-to", "confidence": 0.8, "importance": 1}
    kept = await memory.observe("Restart the pump twice.", **MIA, **known)
    assert {name: getattr(kept, name) for name in known} == known
    assert kept.sensitivity == "private"
    assert await memory.observations.get(kept.id, **MIA) == kept
    assert [one.kind for one in await memory.observations.list(**MIA)] == ["procedure"]
    (line,) = [one async for one in memory.people.export(**MIA) if one.type == "observation"]
    assert {name: getattr(line, name) for name in known} == known
    moved = await memory.observations.update(kept.id, **MIA, text="Restart the pump once.")
    assert (moved.kind, moved.category, moved.importance) == ("procedure", "how-to", 1)
    assert moved.confidence is None  # that was of the other text


async def test_observe_is_never_less_private_than_its_text(memory: Memory) -> None:
    told = {text: await memory.observe(text, **MIA, sensitivity="public") for text in ("Tea.", "I have diabetes.")}
    assert [one.sensitivity for one in told.values()] == ["private", "sensitive"]
    assert (await memory.observe("Milk.", **MIA, sensitivity="sensitive")).sensitivity == "sensitive"
    assert (await memory.observe("Milk.", **MIA)).sensitivity == "sensitive"


async def test_what_is_said_again_as_more_private_becomes_so(memory: Memory) -> None:
    first = await memory.observe("We ship in May.", **MIA)
    again = await memory.observe("We ship in May.", **MIA, sensitivity="sensitive", kind="episode")
    assert (again.id, again.sensitivity, again.kind) == (first.id, "sensitive", None)
    assert (await memory.observations.get(first.id, **MIA)).sensitivity == "sensitive"
    assert await rows(memory, "SELECT kind, detail ->> 'to' FROM memory.events") == [
        ("privacy", '{"sensitivity": "sensitive"}')
    ]


async def test_digest_has_a_budget_for_each_kind_that_is_observed(memory: Memory) -> None:
    kinds: tuple[ObservationKind, ...] = get_args(ObservationKind)
    for number, kind in enumerate((*kinds, kinds[2])):
        await memory.observe(f"Pump {number}.", agent_id="ada", user_id="mia", kind=kind)
    digest = await memory.digest(**MIA, budgets={"procedure": {"items": 1}, "episode": {"items": 0}})
    assert sorted(re.findall(r"\[(fact|note|procedure|episode)\]", str(digest))) == ["fact", "note", "procedure"]


async def test_group_without_members_is_told_of(memory: Memory) -> None:
    group: dict[str, Any] = {"agent_id": "ada", "group_id": "harbor"}
    assert (await memory.observe("We ship in May.", **group)).empty_group
    assert (await memory.observe("We ship in May.", **group)).empty_group  # known already
    assert (await memory.observe("We ship in June.", **group, fact_key="when")).empty_group
    assert not (await memory.observe("Tea.", **MIA)).empty_group
    here: dict[str, Any] = {**MIA, "conversation_id": "s", "group_ids": ["harbor", "pier"]}
    assert (await memory.add(conversation(1), **here)).empty_groups == ()
    assert not (await memory.observe("We ship in July.", **group)).empty_group
    await memory.groups.remove_member("harbor", agent_id="ada", user_id="mia")
    assert (await memory.add(conversation(1, first=2), **here)).empty_groups == ("harbor",)
    assert (await memory.observe("We ship in August.", **group, scope="plans")).empty_group


async def test_observe_refuses_what_makes_no_sense(memory: Memory) -> None:
    wrong: list[dict[str, object]] = [
        {"text": ""}, {"text": "  "}, {"text": 5}, {"user_id": None}, {"collective": True, "group_id": "g"},
        {"observed_at": MONDAY.replace(tzinfo=None)}, {"metadata": {"x": object()}}, {"kind": "guideline"},
        {"category": "Mia's own"}, {"category": ""}, {"confidence": 1.1}, {"importance": float("nan")},
        {"importance": True}, {"sensitivity": "secret"},
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(InputError):
            await memory.observe(**{"text": "Tea.", **MIA, **change})
    with pytest.raises(TooLargeError):
        await memory.observe("x" * 8001, **MIA)
    assert await rows(memory, "SELECT count(*) FROM memory.observations") == [(0,)]


async def test_stats_count_what_is_there(memory: Memory, llm: Scripted) -> None:
    await memory.add(conversation(5), **MIA, conversation_id="s")
    scope_id = (await memory.observe("Tea.", **MIA)).scope.key
    await memory.observe("Boats.", agent_id="ada", collective=True)
    llm.then("Mia drinks tea.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    stats = await memory.admin.stats(agent_id="ada")
    assert (stats.conversations, stats.messages, stats.unformed_messages, stats.due_conversations) == (1, 5, 5, 0)
    assert (stats.observations, stats.pending, stats.consolidations) == (2, 1, 1)
    assert stats.scopes == {"individual": 1, "collective": 1}
    assert stats.runs == {"consolidation.succeeded": 1}
    assert (stats.input_tokens, stats.output_tokens) == (100, 10)
    with pytest.raises(NotFoundError):
        await memory.admin.stats(agent_id="nobody")


@pytest.mark.parametrize("forged", ["x", 7, {"said_at": 1}, object()])
async def test_what_is_forged_is_refused(memory: Memory, forged: Any) -> None:
    with pytest.raises(InputError):
        await memory.conversations.messages(**MIA, before=forged)
    with pytest.raises(InputError):
        await memory.observations.list(**MIA, before=forged)
    with pytest.raises(InputError):
        await memory.observations.list(**MIA, scope_id=forged)
    for call in (memory.observe("x", **MIA, session=forged), memory.context(**MIA, session=forged),
                 memory.search("x", **MIA, session=forged)):  # fmt: skip
        with pytest.raises(InputError, match="AsyncSession"):
            await call


async def test_place_of_a_page_that_no_list_has_given_is_refused(memory: Memory) -> None:
    await memory.add(conversation(1), **MIA, conversation_id="s")
    (shown,) = await memory.conversations.messages(**MIA)
    for changed in (
        {"number": 10**30},
        {"said_at": MONDAY.replace(tzinfo=None)},
        {"said_at": None},
        {"conversation_id": "\x00"},
    ):
        with pytest.raises(InputError):
            await memory.conversations.messages(**MIA, before=shown.model_copy(update=changed))
    observed = await memory.observe("One.", **MIA)
    for changed in ({"created_at": None}, {"id": "o1-0"}, {"id": 7}):
        with pytest.raises(InputError):
            await memory.observations.list(**MIA, before=observed.model_copy(update=changed))
    listed = await memory.observations.list(**MIA, before=observed.model_copy(update={"id": "o1-9999999999"}))
    assert [one.id for one in listed] == [observed.id]


async def test_what_is_stored_under_an_id_that_is_refused_now_is_still_reached(memory: Memory) -> None:
    await memory.observe("Boats.", **MIA)
    hidden = "mi\u200ba"
    await rows(memory, "UPDATE memory.scopes SET owner = 'u:' || CAST(:id AS text)", id=hidden)
    await rows(memory, "UPDATE memory.observations SET related_users = ARRAY[CAST(:id AS text)]", id=hidden)
    await rows(memory, "UPDATE memory.evidence SET user_id = :id", id=hidden)
    with pytest.raises(InvalidIdError):
        await memory.observe("Tea.", agent_id="ada", user_id=hidden)
    lines = [line async for line in memory.people.export(agent_id="ada", user_id=hidden)]
    assert any(getattr(line, "content", None) == "Boats." for line in lines)
    assert (await memory.forget(Selection(user_id=hidden), agent_id="ada", dry_run=True)).observations == ("o1-1",)
    await memory.people.rename(kind="user", old=hidden, new="mia", agent_id="ada")
    assert [one.content for one in await memory.observations.list(**MIA)] == ["Boats."]


async def test_page_goes_on_at_a_position_after_what_it_names_is_forgotten(memory: Memory) -> None:
    told = [await memory.observe(f"fact {n}", **MIA) for n in range(3)]
    await memory.forget(told[1].id, agent_id="ada")
    assert [one.content for one in await memory.observations.list(**MIA, before=told[1].position)] == ["fact 0"]
    as_of = datetime.now(UTC)
    assert [o.id for o in await memory.observations.list(**MIA, before=told[2].position, as_of=as_of)] == [told[0].id]
    await memory.add(conversation(4), **MIA, conversation_id="s" * 255)
    first, *rest = await memory.conversations.messages(**MIA)
    assert await memory.conversations.messages(**MIA, before=first.position) == rest
    for forged in (first.position, told[0].position[:-3], "W10", "bnVsbA", "[" * 1990, "ü", ""):
        with pytest.raises(InputError, match="position"):
            await memory.observations.list(**MIA, before=forged)
    for forged in (told[0].position, position(MONDAY, "\x00", 1), position(MONDAY, "s", 2**70)):
        with pytest.raises(InputError):
            await memory.conversations.messages(**MIA, before=forged)


async def test_own_is_what_the_user_owns_or_has_said(memory: Memory) -> None:
    await group_of(memory, "mia", "jonas")
    mine = await memory.observe("Tea.", **MIA)
    said = await memory.observe("Ship in April.", **MIA, group_id="harbor")
    theirs = await memory.observe("Ship in May.", **JONAS, group_id="harbor")
    nobodys = await memory.observe("Ship in June.", agent_id="ada", group_id="harbor")
    for one in (mine, said, theirs, nobodys):
        assert await memory.observations.get(one.id, **MIA) == one
    for one in (mine, said):
        assert await memory.observations.get(one.id, **MIA, own=True) == one
    for one in (theirs, nobodys):
        with pytest.raises(NotFoundError):
            await memory.observations.get(one.id, **MIA, own=True)
    with pytest.raises(NotFoundError):
        await memory.observations.get(mine.id, agent_id="ben", user_id="mia", own=True)
    with pytest.raises(InputError):
        await memory.observations.get(mine.id, **MIA, own=1)  # type: ignore[arg-type]
    await memory.people.merge(agent_id="ada", user_id="visitor", into_user_id="mia")
    assert await memory.observations.get(said.id, **MIA, own=True) == said


async def test_who_has_observed_it_is_recorded(memory: Memory) -> None:
    told = await memory.observe("Tea.", **MIA, actor="agent")
    assert told.version == (await memory.observations.get(told.id, **MIA)).version == 2
    await memory.observe("Coffee.", **MIA)
    events = await rows(memory, "SELECT kind, actor, 'o' || scope_id || '-' || seq FROM memory.events")
    assert [tuple(row) for row in events] == [("observe", "agent", told.id)]
