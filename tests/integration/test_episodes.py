"""Episodes of conversations, the whole way: formed, shown, searched, ended, forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.episodes import Episode
from memory_sql.domain.exports import ExportedEpisode, ExportedObservation
from memory_sql.domain.selection import Selection
from memory_sql.errors import InvalidIdError, LanguageModelError, NotFoundError, StaleError
from memory_sql.memory import Memory
from memory_sql.tools.bound import MemoryTools
from tests.database import rows
from tests.factories import MONDAY, Clock, message
from tests.fakes import Meanings, Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
ON = Settings(episodes=True, llm="offline", embedding="off")
KITCHEN, BEES = ["kitchen", "builder"], ["bees", "hive"]
MOST_OPEN = """
    SELECT coalesce(max(n), 0)
    FROM (SELECT count(*) AS n FROM memory.episodes WHERE sealed_at IS NULL GROUP BY conversation_id) e
"""
ALL = "SELECT episode_id, conversation_id, seal_reason FROM memory.episodes ORDER BY episode_id"


@pytest.fixture
async def episodic(database_url: str, llm: Scripted, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, ON, clock=clock) as memory:
        yield memory


def found(*items: tuple[str, list[str]], scope: str = "individual", private: str = "no") -> str:
    """An answer with what each item is about; the nth is of the nth message."""
    return json.dumps(
        {
            "observations": [
                {"content": text, "scope": scope, "sources": [n], "topics": topics, "private": private}
                for n, (text, topics) in enumerate(items, 1)
            ]
        }
    )


async def told(
    memory: Memory,
    llm: Scripted,
    clock: Clock,
    *items: tuple[str, list[str]],
    who: Any = HERE,
    scope: str = "individual",
) -> Any:
    """The user says something about each, a minute after the other, and it is formed."""
    said = []
    for text, _ in items:
        clock.goes_on(minutes=1)
        said.append(message(f"I say: {text}", created_at=clock.now) | {"id": f"m{clock.now.isoformat()}"})
    await memory.add(said, **who)
    llm.then(found(*items, scope=scope))
    return await memory.conversations.form(agent_id=who["agent_id"], conversation_id=who["conversation_id"])


async def seen(memory: Memory, **more: Any) -> list[Episode]:
    return await memory.episodes.list(**{**MIA, **more})


async def sound(memory: Memory) -> None:
    assert list(await memory.admin.verify()) == []


async def test_a_conversation_is_divided_by_what_it_is_about(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a new kitchen.", KITCHEN), ("Kev builds it.", ["builder"]))
    await told(episodic, llm, clock, ("Kev is dear.", KITCHEN))
    await told(episodic, llm, clock, ("Ada is a hive.", BEES))
    second, first = await seen(episodic)
    assert (first.seal_reason, first.topics, first.observations) == ("topic_shift", ("builder", "kitchen"), 3)
    assert (second.sealed_at, second.topics, second.conversation_id) == (None, ("bees", "hive"), "s")
    assert first.goal == "I say: Mia has a new kitchen."
    assert (first.trace, first.trace_since, second.trace) == (first.id, None, None)
    whole = await episodic.episodes.get(first.id, **MIA)
    assert [one.content for one in whole.members] == ["Mia has a new kitchen.", "Kev builds it.", "Kev is dear."]
    await sound(episodic)


async def test_nothing_is_kept_and_nothing_asked_where_it_is_off(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("I have a kitchen.")], **HERE)
    llm.then(found(("Mia has a kitchen.", KITCHEN)))
    await memory.conversations.form(agent_id="ada", conversation_id="s")
    (request,) = llm.requests
    assert "topics" not in request.prompt + request.instructions + json.dumps(request.output.model_json_schema())
    assert await rows(memory, ALL) == []
    assert "RecentEpisodes" not in (await memory.context(**MIA, message="my kitchen?")).xml


async def test_what_has_no_topic_is_kept_all_the_same(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", []), ("Kev builds it.", []))
    assert [(one.topics, one.observations) for one in await seen(episodic)] == [((), 2)]
    assert "] no topic (2 memories, e1)" in (await episodic.context(**MIA, message="hello")).xml
    await sound(episodic)


async def test_where_it_is_on_a_model_is_asked_what_it_is_about(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    (request,) = llm.requests
    assert "- `topics`: one to three subjects" in request.instructions
    assert "topics" in json.dumps(request.output.model_json_schema())


async def test_an_idle_episode_ends_at_the_same_time_whenever_maintenance_comes(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    last = clock.now
    clock.goes_on(minutes=29)
    assert (await episodic.work.maintain()).episodes == 0
    clock.goes_on(days=2)
    assert (await episodic.work.maintain()).episodes == 1
    assert (await episodic.work.maintain()).episodes == 0
    (one,) = await seen(episodic)
    assert (one.seal_reason, one.sealed_at) == ("time_gap", last + timedelta(minutes=30))
    await sound(episodic)


async def test_what_waits_to_be_formed_keeps_it_open(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    clock.goes_on(minutes=5)
    await episodic.add([message("And a hall.", n=50, created_at=clock.now)], **HERE)
    clock.goes_on(hours=3)
    assert (await episodic.work.maintain()).episodes == 0


async def test_the_host_ends_one(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    where: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
    assert await episodic.episodes.seal(**where) is True
    assert await episodic.episodes.seal(**where) is False
    with pytest.raises(NotFoundError):
        await episodic.episodes.seal(agent_id="ada", conversation_id="elsewhere")
    (one,) = await seen(episodic)
    assert one.seal_reason == "forced"
    await told(episodic, llm, clock, ("The kitchen is green.", KITCHEN))
    second, first = await seen(episodic)
    assert second.sealed_at is None
    await episodic.episodes.seal(**where)
    second, first = await seen(episodic)
    assert (second.trace, second.trace_since) == (first.id, first.opened_at)


async def test_a_trace_goes_on_for_seven_days_and_not_longer(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    for days in (0, 3, 9):
        clock.goes_on(days=days)
        await told(
            episodic,
            llm,
            clock,
            (f"The kitchen is {days} days old.", KITCHEN),
            who=HERE | {"conversation_id": f"s{days}"},
        )
        clock.goes_on(hours=1)
        await episodic.work.maintain()
        shown = (await episodic.context(**MIA, message="hello")).xml
        assert ("goes on from 2026-03-02]" in shown) == (days == 3)
    third, second, first = await seen(episodic)
    assert (first.trace, second.trace, third.trace) == (first.id, first.id, third.id)
    assert second.trace_since == first.opened_at


async def test_a_trace_is_not_that_of_other_people(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    for user in ("mia", "tom"):
        await told(
            episodic,
            llm,
            clock,
            ("The kitchen is green.", KITCHEN),
            who={**MIA, "user_id": user, "conversation_id": user},
        )
        clock.goes_on(hours=1)
        await episodic.work.maintain()
    assert [trace for (trace,) in await rows(episodic, "SELECT trace_id = episode_id FROM memory.episodes")] == [
        True,
        True,
    ]


async def test_a_window_of_several_days_makes_several(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    said = [
        message("The kitchen is green.", n=1),
        message("Ada is a hive.", n=2) | {"created_at": MONDAY + timedelta(days=1)},
    ]
    clock.goes_on(days=2)
    await episodic.add(said, **HERE)
    llm.then(found(("Mia's kitchen is green.", KITCHEN), ("Ada is a hive.", BEES)))
    await episodic.conversations.form(agent_id="ada", conversation_id="s")
    second, first = await seen(episodic)
    assert (first.last_at, second.opened_at) == (said[0]["created_at"], said[1]["created_at"])


# What the agent sees


async def test_a_context_shows_the_latest_of_other_conversations(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a <kitchen>.", [*KITCHEN, "a <b>"]))
    shown = await episodic.context(**MIA, message="hello")
    (part,) = [part for part in shown.parts if part.element == "RecentEpisodes"]
    (line,) = part.lines
    assert line.text == "- [Monday 2026-03-02 09:01] kitchen, builder, a &lt;b&gt; (1 memory, e1)"
    assert "RecentEpisodes" not in (await episodic.context(**HERE, message="hello")).xml  # it goes on there
    clock.goes_on(days=4)
    assert "RecentEpisodes" not in (await episodic.context(**MIA, message="hello")).xml
    asked = await episodic.context(**MIA, message="what did we talk about on Monday?")
    assert "[Monday 2026-03-02 09:01] kitchen" in asked.xml


async def test_a_context_shows_five_and_keeps_its_budget(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    for n in range(7):
        who = HERE | {"conversation_id": f"s{n}"}
        await told(
            episodic, llm, clock, (f"Kitchen number {n} is green.", [f"kitchen {n}", "paint", "colour"]), who=who
        )
    shown = await episodic.context(**MIA, message="hello")
    (part,) = [part for part in shown.parts if part.element == "RecentEpisodes"]
    assert [line.id for line in part.lines] == ["e7", "e6", "e5", "e4", "e3"]
    small = await episodic.context(**MIA, message="hello", budget_tokens=130)
    assert small.tokens <= 130
    assert small.truncated


async def test_search_names_episodes_and_is_narrowed_to_one(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a green kitchen.", KITCHEN), ("Kev builds houses.", ["builder"]))
    await told(episodic, llm, clock, ("Ada is a green hive.", BEES))
    green = await episodic.search("green", **MIA)
    assert {hit.observation.content: hit.episode for hit in green.results} == {
        "Mia has a green kitchen.": "e1", "Ada is a green hive.": "e2"
    }  # fmt: skip
    assert [hit.episode for hit in (await episodic.search("green episode:e2", **MIA)).results] == ["e2"]
    neighbours = await episodic.search("episode:e1", **MIA)
    assert {hit.observation.content for hit in neighbours.results} == {"Mia has a green kitchen.", "Kev builds houses."}
    assert neighbours.messages == ()
    assert (await episodic.search("episode:e77", **MIA)).results == ()


async def test_tools_name_and_take_episodes_where_it_is_on(
    episodic: Memory, memory: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia has a green kitchen.", KITCHEN), ("Kev builds houses.", ["builder"]))
    tools = MemoryTools(episodic, **MIA)
    answer = await tools.call("recall", {"query": "kitchen"})
    assert "(2026-03-02, episode e1" in answer.text
    assert len((await tools.call("recall", {"episode": "e1"})).data["memories"]) == 2
    assert "looks like e12" in (await tools.call("recall", {"episode": "12"})).text
    (on,) = [one for one in tools.openai() if one["name"] == "recall"]
    (off,) = [one for one in MemoryTools(memory, **MIA).openai() if one["name"] == "recall"]
    assert ("episode" in on["parameters"]["properties"], "episode" in off["parameters"]["properties"]) == (True, False)


# Walls


async def test_what_others_were_told_in_private_is_in_no_topic(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    group: dict[str, Any] = {"group_ids": ["crew"]}
    for user in ("mia", "tom"):
        clock.goes_on(minutes=1)
        said = message(f"{user} says that.", created_at=clock.now) | {"id": f"m{user}", "name": user}
        await episodic.add([said], **{**HERE, "user_id": user}, **group)
    answer = [
        {"content": "Mia's kitchen is secret.", "scope": "individual_P1", "sources": [1], "topics": ["kitchen"]},
        {"content": "Tom keeps a hive.", "scope": "individual_P2", "sources": [2], "topics": ["hive"]},
    ]
    llm.then(json.dumps({"observations": answer}))
    await episodic.conversations.form(agent_id="ada", conversation_id="s")
    assert [(one.topics, one.observations) for one in await seen(episodic)] == [(("kitchen",), 1)]
    assert [one.topics for one in await seen(episodic, user_id="tom")] == [("hive",)]
    assert "hive" not in (await episodic.context(**MIA, message="hello")).xml
    assert await seen(episodic, user_id="eve") == []
    with pytest.raises(NotFoundError):
        await episodic.episodes.get("e1", agent_id="ada", user_id="eve")
    with pytest.raises(InvalidIdError):
        await episodic.episodes.get("o1-1", **MIA)
    assert [one.content for one in (await episodic.episodes.get("e1", **MIA)).members] == ["Mia's kitchen is secret."]


async def test_a_hit_names_no_episode_of_a_conversation_of_others(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await said_by_both(episodic, llm, clock)
    tom: dict[str, Any] = {"agent_id": "ada", "user_id": "tom"}
    await episodic.add([message("Hello.", created_at=clock.now)], **tom, conversation_id="t", group_ids=["crew"])
    for who, episode in ((MIA, "e1"), (KEV, "e1"), (tom, None)):
        (hit,) = (await episodic.search("Oslo", **who, messages=0)).results
        assert (hit.observation.content, hit.episode) == (QUIT, episode)


# Forgetting and correcting


async def test_topics_are_those_of_what_is_left_and_an_empty_one_goes(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    done = await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN), ("The canary is yellow.", ["canary"]))
    canary = next(one.id for one in done.observations if "canary" in one.content)
    await episodic.forget(Selection(observation_id=canary), agent_id="ada")
    (one,) = await seen(episodic)
    assert (one.topics, one.observations) == (("kitchen", "builder"), 1)
    await sound(episodic)
    await episodic.forget(Selection(user_id="mia"), agent_id="ada")
    assert (await rows(episodic, ALL), await seen(episodic)) == ([], [])
    await sound(episodic)


QUIT = "The office moves to Oslo in May, and somebody quits."


async def said_by_both(memory: Memory, llm: Scripted, clock: Clock, again: str = "b") -> None:
    """Mia says it in conversation a, and Kev says it again in another; each is heard by the other."""
    group: dict[str, Any] = {"agent_id": "ada", "group_ids": ["crew"]}
    said = {"content": QUIT, "scope": "group_1", "sources": [1], "terms": ["resignation", "offices", "globex"]}
    topics = ["quit globex", "office", "somebody quits"]
    for id_, user, conversation, words, *found in (
        ("m1", "kev", "a", "Good morning, everybody."),
        ("m2", "mia", "a", "The office moves to Oslo in May, I want to quit Globex.", said | {"topics": topics}),
        ("m3", "mia", again, "Good evening, everybody."),
        ("m4", "kev", again, "The office moves to Oslo in May, somebody quits.", said | {"topics": ["oslo"]}),
    ):
        clock.goes_on(minutes=1)
        one = message(words, name=user, created_at=clock.now) | {"id": id_}
        await memory.add([one], user_id=user, conversation_id=conversation, **group)
        llm.then(json.dumps({"observations": found}))
        await memory.conversations.form(agent_id="ada", conversation_id=conversation)
    assert await rows(memory, WORDED) == [("resignation\noffices\nglobex", "a", topics)]
    assert await rows(memory, "SELECT count(*) FROM memory.evidence") == [(2,)]


WORDED = """
    SELECT o.terms, e.conversation_id, n.topics
    FROM memory.observations o
    LEFT JOIN memory.observation_episodes n USING (agent_key, scope_id, seq)
    LEFT JOIN memory.episodes e USING (agent_key, episode_id)
    ORDER BY o.scope_id, o.seq
"""
VECTORS = "SELECT count(*) FROM memory.observation_vectors"
KEV: dict[str, Any] = {"agent_id": "ada", "user_id": "kev"}


@pytest.mark.parametrize(
    "gone",
    [Selection(user_id="mia"), Selection(conversation_id="a"), Selection(conversation_id="a", message_id="m2")],
)
async def test_no_topic_nor_cue_outlives_the_words_that_gave_it(
    episodic: Memory, llm: Scripted, clock: Clock, gone: Selection
) -> None:
    await said_by_both(episodic, llm, clock)
    assert "quit globex" in (await episodic.context(**KEV, message="hello")).xml
    assert [hit.observation.content for hit in (await episodic.search("globex", **KEV)).results] == [QUIT]
    await episodic.forget(gone, agent_id="ada")
    assert await rows(episodic, WORDED) == [("offices", None, None)]
    assert await rows(episodic, ALL) == []
    assert await seen(episodic, user_id="kev") == []
    assert "quit globex" not in (await episodic.context(**KEV, message="hello")).xml
    assert (await episodic.search("globex", **KEV)).results == ()
    assert [hit.observation.content for hit in (await episodic.search("offices", **KEV)).results] == [QUIT]
    await sound(episodic)


async def test_what_is_said_again_in_its_conversation_keeps_the_topics_that_it_says(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await said_by_both(episodic, llm, clock, again="a")
    await episodic.forget(Selection(conversation_id="a", message_id="m2"), agent_id="ada")
    assert await rows(episodic, WORDED) == [("offices", "a", ["office", "somebody quits"])]
    await sound(episodic)


async def test_topics_and_cues_stay_where_somebody_goes_who_only_said_it_again(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await said_by_both(episodic, llm, clock)
    before = await rows(episodic, WORDED)
    await episodic.forget(Selection(conversation_id="b"), agent_id="ada")
    assert await rows(episodic, WORDED) == before
    await sound(episodic)


async def test_topics_go_where_a_message_is_replaced(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await said_by_both(episodic, llm, clock)
    other = message("Never mind.", created_at=clock.now) | {"id": "m2", "name": "mia"}
    here: dict[str, Any] = {**MIA, "conversation_id": "a", "group_ids": ["crew"]}
    await episodic.add([other], **here, replace=True)
    assert await rows(episodic, WORDED) == [("offices", None, None)]
    await sound(episodic)


async def test_what_loses_cues_is_embedded_again(database_url: str, llm: Scripted, clock: Clock) -> None:
    settings, model = Settings(episodes=True, llm="offline"), Meanings()
    async with Memory(database_url, llm, settings, embeddings=model, clock=clock) as memory:
        await said_by_both(memory, llm, clock)
        await memory.work.embed()
        assert model.texts[-1] == f"{QUIT} (resignation, offices, globex)"
        await memory.forget(Selection(conversation_id="a"), agent_id="ada")
        assert await rows(memory, VECTORS) == [(0,)]
        await memory.work.embed()
        assert (await rows(memory, VECTORS), model.texts[-1]) == ([(1,)], f"{QUIT} (offices)")


async def test_what_loses_cues_while_it_is_embedded_gets_no_vector_of_them(
    database_url: str, llm: Scripted, clock: Clock
) -> None:
    settings, model = Settings(episodes=True, llm="offline"), Meanings()
    async with Memory(database_url, llm, settings, embeddings=model, clock=clock) as memory:
        await said_by_both(memory, llm, clock)
        model.meanwhile = lambda: memory.forget(Selection(conversation_id="a"), agent_id="ada")
        await memory.work.embed()
        assert await rows(memory, VECTORS) == [(0,)]
        await memory.work.embed()
        assert (await rows(memory, VECTORS), model.texts[-1]) == ([(1,)], f"{QUIT} (offices)")


async def test_what_was_taken_out_of_a_text_is_no_topic_of_its_correction(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia meets somebody on Mondays.", ["secret affair", "otto", "mondays"]))
    await episodic.observations.update("o1-1", text="Mia meets Lotto players each Monday.", **MIA)
    (one,) = await seen(episodic)
    assert one.topics == ("mondays",)
    (said,) = await rows(episodic, "SELECT message_id FROM memory.messages")
    await episodic.forget(Selection(conversation_id="s", message_id=said[0]), agent_id="ada")
    assert [row[2] for row in await rows(episodic, WORDED)] == [["mondays"]]
    await sound(episodic)


async def test_a_goal_goes_with_its_message(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    (one,) = await seen(episodic)
    assert one.goal == "I say: Mia has a kitchen."
    clock.goes_on(days=31)
    (one,) = await seen(episodic)
    assert (one.goal, one.topics) == (None, ("kitchen", "builder"))


async def test_what_is_set_aside_counts_for_nothing_until_it_is_back(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    done = await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    (one,) = done.observations
    await episodic.observations.quarantine(one.id, **MIA)
    assert await seen(episodic) == []
    await sound(episodic)
    await episodic.observations.unquarantine(one.id, **MIA)
    assert [one.topics for one in await seen(episodic)] == [("kitchen", "builder")]


async def test_what_is_disputed_is_no_topic_until_it_is_confirmed(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN), ("The canary is yellow.", ["canary"]))
    (canary,) = [one for one in await episodic.observations.list(**MIA) if "canary" in one.content]
    for verify, topics in (("dispute", {*KITCHEN}), ("confirm", {*KITCHEN, "canary"})):
        await getattr(episodic.observations, verify)(canary.id, **MIA)
        (one,) = await seen(episodic)
        assert ({*one.topics}, one.observations) == (topics, 2)
        shown = await episodic.context(**MIA, message="hello")
        (part,) = [part for part in shown.parts if part.element == "RecentEpisodes"]
        assert ("canary" in part.lines[0].text) == ("canary" in topics)
    await sound(episodic)


async def test_what_is_held_is_hidden_and_stays_until_the_hold_ends(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    hold = await episodic.holds.place(**MIA, reason="case")
    await episodic.forget(Selection(user_id="mia"), agent_id="ada")
    assert (await seen(episodic), len(await rows(episodic, ALL))) == ([], 1)
    await episodic.holds.release(hold.hold_id, agent_id="ada")
    assert await rows(episodic, ALL) == []
    await sound(episodic)


async def test_an_agent_goes_with_its_episodes(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    await episodic.forget(Selection(everything=True), agent_id="ada")
    assert await rows(
        episodic, "SELECT (SELECT count(*) FROM memory.episodes), (SELECT count(*) FROM memory.observation_episodes)"
    ) == [(0, 0)]


async def test_an_excluded_conversation_has_none_that_anybody_sees(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    await episodic.conversations.exclude(agent_id="ada", conversation_id="s")
    assert await seen(episodic) == []
    clock.goes_on(hours=1)
    assert (await episodic.work.maintain()).episodes == 1


async def test_ids_change_and_people_are_merged(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    await episodic.people.rename(kind="conversation", old="s", new="t", agent_id="ada")
    assert [one.conversation_id for one in await seen(episodic)] == ["t"]
    await episodic.people.merge(user_id="mia", into_user_id="maria", agent_id="ada")
    assert [one.id for one in await seen(episodic, user_id="maria")] == ["e1"]
    await sound(episodic)


async def test_a_correction_has_the_place_of_what_it_corrects(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(
        episodic, llm, clock, ("Mia has a canary kitchen.", ["canary", "kitchen", "house"]), ("Kev builds.", ["kev"])
    )
    await episodic.observations.update("o1-1", text="Mia has a green kitchen.", **MIA)
    (one,) = await seen(episodic)
    assert ({*one.topics}, one.observations) == ({"kitchen", "kev"}, 2)
    members = (await episodic.episodes.get("e1", **MIA)).members
    assert {o.content for o in members} == {"Mia has a green kitchen.", "Kev builds."}
    await sound(episodic)


@pytest.mark.slow
async def test_what_is_formed_again_is_in_the_episode_in_which_it_was_said(
    episodic: Memory, llm: Scripted, clock: Clock
) -> None:
    await told(episodic, llm, clock, ("Mia has a canary.", ["canary"]))
    clock.goes_on(hours=1)
    await told(episodic, llm, clock, ("Kev builds a kitchen.", KITCHEN))
    llm.then(found(("Mia has a kitchen.", ["house"])), found(("Kev builds a kitchen.", KITCHEN)))
    await episodic.conversations.form(agent_id="ada", conversation_id="s", again=True)
    second, first = await seen(episodic)
    assert [(one.topics, one.observations) for one in (first, second)] == [(("house",), 1), (("kitchen", "builder"), 1)]
    await episodic.observations.reinstate("o1-1", **MIA)
    second, first = await seen(episodic)
    assert set(first.topics) == {"house", "canary"}
    await sound(episodic)


async def test_an_export_has_them(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    lines = [line async for line in episodic.people.export(**MIA)]
    (episode,) = [line for line in lines if isinstance(line, ExportedEpisode)]
    (observation,) = [line for line in lines if isinstance(line, ExportedObservation)]
    assert (episode.id, episode.conversation_id, episode.seal_reason) == ("e1", "s", None)
    assert (observation.episode, observation.topics) == ("e1", ("kitchen", "builder"))


# At the same time


@pytest.mark.slow
async def test_one_is_open_whoever_comes_at_the_same_time(episodic: Memory, llm: Scripted, clock: Clock) -> None:
    await told(episodic, llm, clock, ("Mia has a kitchen.", KITCHEN))
    clock.goes_on(hours=1)

    async def talk() -> None:
        with suppress(StaleError):  # something was forgotten meanwhile: it is formed below
            await told(episodic, llm, clock, ("The kitchen is green.", KITCHEN), ("Ada is a hive.", BEES))

    await asyncio.gather(
        talk(),
        *(episodic.work.maintain() for _ in range(3)),
        episodic.episodes.seal(agent_id="ada", conversation_id="s"),
        episodic.forget(Selection(observation_id="o1-1"), agent_id="ada"),
    )
    llm.may_run_out = True
    with suppress(LanguageModelError):
        await episodic.conversations.form(agent_id="ada", conversation_id="s")
    ((most,),) = await rows(episodic, MOST_OPEN)
    assert most <= 1
    await sound(episodic)
