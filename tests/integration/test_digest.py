"""The digest, and when a context is the digest, the XML or both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config import Settings
from memory_sql.domain.observations import Observation
from memory_sql.errors import InputError
from memory_sql.languages.text import count_tokens
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows, statements
from tests.factories import MONDAY, message
from tests.fakes import Scripted, extracted
from tests.scoping import set_scopes

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
ASK = "Do you remember the gate?"


async def gates(memory: Memory, count: int = 3) -> list[Observation]:
    return [
        await memory.observe(f"Gate {n} opens at {n + 6}.", **MIA, observed_at=MONDAY + timedelta(days=n))
        for n in range(count)
    ]


async def test_interactive_and_delegated_turns_get_the_same_part(memory: Memory) -> None:
    """R235, R236, R265, R266, R270, R271: the prompts of both hold the title, the ids and the texts."""
    await gates(memory)
    await memory.configure(**ADA, assembly="digest")
    interactive = await memory.context(**MIA, conversation_id="monday", message=ASK)
    delegated = await memory.digest(**MIA, conversation_id="monday", query=ASK)
    for prompt in (f"You are Ada.\n\n{interactive}\n\nUser: {ASK}", f"Plan the week.\n\n{delegated}"):
        assert prompt.count("Memory digest:\n") == 1
        assert "- [note] o1-3 (private, prov=observe, 2026-03-04) Gate 2 opens at 8.\n" in prompt
    assert str(interactive) == str(delegated)
    assert interactive.sources == delegated.included == ("o1-3", "o1-2", "o1-1")
    assert (interactive.xml, interactive.fired, interactive.reason) == ("", True, "digest")
    without = await memory.context(**MIA)
    assert str(without) == str(await memory.digest(**MIA)) == str(delegated)
    assert (without.digest or delegated).counts["structured"] == 3


async def test_same_memory_gives_the_same_bytes(memory: Memory) -> None:
    """R264."""
    await gates(memory, 9)
    texts = {str(await memory.digest(**MIA, query=query)) for query in (ASK, "gate", "GATE?") for _ in range(3)}
    assert len(texts) == 1
    assert len((await memory.digest(**MIA, query="gate")).included) == 4  # the budget of notes


async def test_messages_and_conversation_are_the_source(memory: Memory, llm: Scripted) -> None:
    """R248."""
    llm.then(extracted(("Mia drinks tea.", "individual", [1])))
    await memory.add([message("I prefer tea.")], **MIA, conversation_id="monday")
    formed = await memory.conversations.form(**ADA, conversation_id="monday")
    assert [o.source.message_ids for o in formed.observations] == [("m1",)]
    assert "conversation=monday, messages=1: m1, " in str(await memory.digest(**MIA))


async def test_what_is_pinned_comes_first_in_the_order_of_the_settings(memory: Memory) -> None:
    """R240, R245, R257: by agent."""
    await memory.configure(**ADA, digest_fact_keys=["home", "diet"], digest_tags=["work", "boat"])
    await memory.observe("Rows.", **MIA, tags=["boat"], observed_at=MONDAY)
    await memory.observe("Files.", **MIA, tags=["work", "boat"], observed_at=MONDAY + timedelta(days=1))
    await memory.observe("Unpinned.", **MIA)
    await memory.observe("No meat.", **MIA, fact_key="diet")
    await memory.observe("All live in Bergen.", **MIA, collective=True, fact_key="home", observed_at=MONDAY)
    await memory.observe("In Oslo.", **MIA, fact_key="home", tags=["work"], observed_at=MONDAY + timedelta(days=2))
    digest = await memory.digest(**MIA)
    assert digest.included == ("o1-5", "o1-4", "o1-2", "o1-1")
    with_words = await memory.digest(**MIA, query="unpinned files")
    assert with_words.included == (*digest.included, "o1-3")
    assert with_words.counts["repeated"] == 1
    assert (await memory.digest(agent_id="bob", user_id="mia")).included == ()


@pytest.mark.slow
async def test_newest_of_a_fact_that_may_not_be_shown_is_not_replaced_by_an_older_one(memory: Memory) -> None:
    await memory.configure(**ADA, digest_fact_keys=["home"])
    await memory.observe("All live in Bergen.", **MIA, collective=True, fact_key="home", observed_at=MONDAY)
    newest = await memory.observe("In Oslo.", **MIA, fact_key="home")
    await memory.observations.mark(newest.id, **MIA, sensitivity="sensitive")
    digest = await memory.digest(**MIA)
    assert (digest.text, digest.counts["sensitivity"]) == ("", 1)
    assert (await memory.digest(**JONAS)).included == ("o1-1",)


async def test_what_may_not_be_shown_is_not_found_either_way(memory: Memory) -> None:
    """R246, R256, R269; and what was set aside, given up or is doubted."""
    found = await gates(memory, 7)
    sensitive, disputed, quarantined, corrected, archived, shown, _ = found
    await memory.observations.mark(sensitive.id, **MIA, sensitivity="sensitive")
    await memory.observations.dispute(disputed.id, **MIA)
    await memory.observations.quarantine(quarantined.id, **MIA)
    new = await memory.observations.update(corrected.id, **MIA, text="Gate 3 is shut.")
    await rows(
        memory,
        "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
        " SELECT agent_key, scope_id, seq, 'archived' FROM memory.observations WHERE seq = :seq",
        seq=int(archived.id.partition("-")[2]),
    )
    for query in (None, "gate"):
        assert set((await memory.digest(**MIA, query=query)).included) == {new.id, shown.id, found[-1].id}
    await memory.configure(**ADA, digest_sensitivities=["sensitive"])
    for query in (None, "gate"):
        assert (await memory.digest(**MIA, query=query)).included == (sensitive.id,)
    await memory.configure(**ADA, digest_tags=["x"], digest_sensitivities=None)
    await memory.observe("Tagged.", **MIA, tags=["x"])
    assert len((await memory.digest(**MIA)).included) == 1


async def test_user_sees_only_their_own(memory: Memory) -> None:
    """R237: of one agent, and of what this user may see; also by pins."""
    await memory.configure(**ADA, digest_fact_keys=["home"], digest_tags=["work"])
    await memory.add([message()], **JONAS, conversation_id="j", group_ids=["harbor"])
    await memory.observe("Jonas lives in Bergen.", **JONAS, fact_key="home", tags=["work"])
    await memory.observe("The harbour has a home.", **ADA, group_id="harbor", fact_key="home", observed_at=MONDAY)
    await memory.observe("Elsewhere.", agent_id="bob", user_id="mia", fact_key="home", tags=["work"])
    for query in (None, "home Bergen Jonas"):
        assert str(await memory.digest(**MIA, query=query)) == ""
        assert len((await memory.digest(**JONAS, query=query)).included) >= 1
    await set_scopes(memory, is_active=False)
    assert str(await memory.digest(**JONAS)) == ""


async def test_nobody_knows_nothing(memory: Memory) -> None:
    digest = await memory.digest(**MIA)
    assert (str(digest), digest.included, sum(digest.counts.values())) == ("", (), 0)
    assert str(await memory.context(**MIA, assembly="both")) == "<MemoryContext/>"


async def test_context_is_what_the_setting_says_and_never_both_unasked(memory: Memory) -> None:
    """C22; R253, R254: and going back is one setting."""
    await gates(memory)
    asking: dict[str, Any] = {**MIA, "message": ASK}
    before, part = await memory.context(**asking), await memory.digest(**MIA, query=ASK)
    assert before.digest is None
    assert "Memory digest:" not in str(before)
    await memory.configure(**ADA, assembly="digest")
    assert str(await memory.context(**asking)) == str(part)
    assert await memory.context(**asking, assembly="eden") == before
    await memory.configure(**ADA, assembly="both")
    both = await memory.context(**asking)
    assert (both.xml, both.digest, str(both)) == (before.xml, part, f"{before}\n\n{part}")
    assert both.tokens >= before.tokens + len(str(part)) / 4.5
    assert both.sources == before.sources + part.included
    await memory.configure(**ADA, digest_enabled=False)
    assert str(await memory.context(**asking)) == str(before)
    assert str(await memory.context(**asking, assembly="digest")) == str(await memory.digest(**MIA)) == ""
    await memory.configure(**ADA, assembly="eden", digest_enabled=None)
    assert await memory.context(**asking) == before
    await memory.configure(**ADA, assembly=None)
    assert await memory.context(**asking) == before


async def test_digest_looks_for_words_of_any_message_unless_told_not_to(memory: Memory) -> None:
    await memory.configure(**ADA, digest_tags=["none"])
    await gates(memory)
    assert (await memory.context(**MIA, message="Paint the gate!", assembly="digest")).sources == (
        "o1-3",
        "o1-2",
        "o1-1",
    )
    assert str(await memory.context(**MIA, message="Paint the gate!", assembly="digest", retrieve=False)) == ""
    both = await memory.context(**MIA, message="Paint the gate!", assembly="both")
    assert (both.fired, "Retrieved" in both.xml, len((both.digest or both).included)) == (False, False, 3)  # type: ignore[union-attr]
    await memory.configure(**ADA, digest_keyword_limit=2)
    assert (await memory.digest(**MIA, query="gate")).counts["keyword"] == 2
    await memory.configure(**ADA, digest_keyword_limit=0)
    assert str(await memory.digest(**MIA, query="gate")) == ""


async def test_digest_is_one_statement_and_two_with_words(memory: Memory) -> None:
    await gates(memory)
    for query, count in ((None, 1), ("what was it", 1), ("gate", 2)):
        with statements(memory) as seen:
            await memory.digest(**MIA, query=query)
        assert len(seen) == count
    for assembly in ("eden", "digest", "both"):
        for asked in (None, "Thanks.", ASK):
            with statements(memory) as seen:
                await memory.context(**MIA, message=asked, assembly=assembly)
            assert len(seen) == 1, assembly


async def test_both_retrieve_what_each_does_alone_however_much_is_found(memory: Memory) -> None:
    """The digest looks at more than the XML shows; the first of it are the same, also among equals."""
    for n in range(24):
        text = f"Gate {n % 3} is open{' today' * (n % 2)} for {n}."
        await memory.observe(text, **MIA, observed_at=MONDAY, collective=n > 11)
    await memory.configure(**ADA, pending_max=0, context_top_k=7)
    for top_k in (1, 5, 13, 20):
        few = await memory.search("gate today", **MIA, top_k=top_k, messages=0)
        many = await memory.search("gate today", **MIA, top_k=24, messages=0)
        assert (few.results, len(many.results)) == (many.results[:top_k], 24)
    eden, both = [await memory.context(**MIA, message=ASK, assembly=assembly) for assembly in ("eden", "both")]
    assert both.xml == eden.xml
    assert len(both.parts[-1].sources) == 7
    assert (both.digest or await memory.digest(**MIA)).counts["keyword"] == 24
    assert both.digest == await memory.digest(**MIA, query=ASK)


async def test_budget_bounds_the_xml_and_the_digest_keeps_to_its_own(memory: Memory) -> None:
    """C30."""
    await gates(memory, 9)
    part = await memory.digest(**MIA, query=ASK)
    whole = await memory.context(**MIA, message=ASK, assembly="both")
    both = await memory.context(**MIA, message=ASK, assembly="both", budget_tokens=60)
    assert count_tokens(both.xml) <= 60 < count_tokens(whole.xml)
    assert both.truncated
    assert both.digest == part == (await memory.context(**MIA, message=ASK, assembly="digest", budget_tokens=4)).digest
    assert both.tokens == count_tokens(str(both)) > 60
    less = await memory.context(**MIA, assembly="both", budget_tokens=60, message=ASK)
    await memory.configure(**ADA, digest_tokens=60)
    assert (await memory.context(**MIA, assembly="both", budget_tokens=60, message=ASK)).tokens <= 121 < less.tokens


async def test_what_looks_like_an_operator_is_a_word_like_any(memory: Memory) -> None:
    await gates(memory)
    for query in ('"gate 1" -gate from:nobody', "-gate", "tag:gate"):
        digest = await memory.digest(**MIA, query=query)
        assert set(digest.included) == {"o1-1", "o1-2", "o1-3"}
        assert (await memory.context(**MIA, message=query, assembly="digest")).digest == digest


async def test_as_of_the_context_has_the_digest_of_then(memory: Memory) -> None:
    await gates(memory)
    then = memory.now()
    await memory.observe("Gate 9 is shut.", **MIA)
    for query in (None, ASK):
        part = await memory.digest(**MIA, query=query, as_of=then)
        assert len(part.included) == 3
        for assembly in ("digest", "both"):
            shown = await memory.context(**MIA, message=query, assembly=assembly, as_of=then)
            assert shown.digest == part


async def test_budgets_of_a_call_go_before_those_of_the_agent(database_url: str, llm: Scripted) -> None:
    """R243–R245, R260."""
    async with Memory(database_url, llm, Settings(digest_note_items=3)) as memory:
        await gates(memory, 6)
        assert len((await memory.digest(**MIA)).included) == 3
        await memory.configure(**ADA, digest_note_items=5, digest_note_characters=5000)
        assert len((await memory.digest(**MIA)).included) == 5
        assert len((await memory.digest(**MIA, budgets={"note": {"items": 6}})).included) == 6
        assert len((await memory.digest(**MIA, budgets={"total": {"items": 1}})).included) == 1
        few = await memory.digest(**MIA, budgets={"total": {"tokens": 60}})
        assert len(few.included) == 2
        assert len(str(few)) <= 270
        for nothing in ({"items": 0}, {"characters": 0}, {"tokens": 0}):
            assert str(await memory.digest(**MIA, query="gate", budgets={"total": nothing})) == ""


async def test_without_pins_it_chooses_from_the_newest_of_each_scope(memory: Memory) -> None:
    await gates(memory, 5)
    await memory.observe("Everybody rows.", **MIA, collective=True, observed_at=MONDAY)
    await rows(memory, "UPDATE memory.observations SET importance = 0.9 WHERE content LIKE 'Gate 0%'")
    assert (await memory.digest(**MIA)).included[0] == "o1-1"
    await memory.configure(**ADA, digest_newest=2)
    assert (await memory.digest(**MIA)).included == ("o1-5", "o1-4", "o2-1")


@pytest.mark.parametrize(
    "wrong",
    [{"assembly": "all"}, {"digest_items": -1}, {"digest_items": 1001}, {"digest_fact_tokens": 400_001},
     {"digest_sensitivities": ["secret"]}, {"digest_keyword_limit": 201}, {"digest_fact_keys": 3}],
)  # fmt: skip
async def test_settings_that_are_none_are_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        await memory.configure(**ADA, **wrong)
    with pytest.raises(InputError):
        await memory.context(**MIA, assembly="xml")  # type: ignore[arg-type]


def test_lists_come_from_the_environment_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_DIGEST_FACT_KEYS", "home, diet")
    monkeypatch.setenv("MEMORY_SQL_DIGEST_SENSITIVITIES", "public")
    settings = Settings.load()
    assert (settings.digest_fact_keys, settings.digest_sensitivities) == (("home", "diet"), ("public",))
    assert 'digest_fact_keys = ["home", "diet"]\n' in memory_sql("admin", "settings").out


async def test_in_the_hosts_transaction_it_shows_what_that_has_written(memory: Memory) -> None:
    async with AsyncSession(memory.database.engine) as session:
        await memory.observe("Gate 7.", **MIA, session=session)
        assert (await memory.digest(**MIA, query="gate", session=session)).included == ("o1-1",)
        assert (await memory.context(**MIA, assembly="digest", session=session)).sources == ("o1-1",)
        await session.rollback()
    assert str(await memory.digest(**MIA)) == ""


@pytest.mark.slow
def test_commands(database_url: str) -> None:
    def run(*args: object, **options: Any) -> Any:
        return memory_sql(*args, "--agent", "ada", "--user", "mia", "--url", database_url, **options)

    assert run("digest").out == "nothing to show\n"
    for n in range(3):
        run("observe", f"Gate {n} is open.")
    shown = run("digest", "--query", "gate", "--budget", "total.items=2", "--budget", "note.tokens=90").out
    assert shown.startswith("Memory digest:\n")
    assert shown.count("- [note] o1-") == 2
    value = run("digest", "--json").value
    assert (value["text"].count("\n"), len(value["included"]), value["counts"]["included"]) == (4, 3, 3)
    assert run("context", "--assembly", "both").out.count("Memory digest:") == 1
    assert run("context", "--assembly", "digest", "--json").value["xml"] == ""
    for wrong in ("total.items", "total=3", "total.items=x", "total.items=-1", "total.lines=3", "all.items=3"):
        assert "budget" in run("digest", "--budget", wrong, code=1).err
    assert "assembly" in run("context", "--assembly", "xml", code=1).err


MANY = """
    INSERT INTO memory.observations
        (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version, fact_key, tags)
    SELECT agent_key, scope_id, n, 'Boat ' || n, now(), 'observe', 1,
           CASE WHEN n % 100 = 0 THEN 'boat' || n END, CASE WHEN n % 100 = 0 THEN '{hundred}'::text[] ELSE '{}' END
    FROM memory.scopes, generate_series(2, 5000) n
"""
READ = """
    SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class
    WHERE oid = 'memory.observations'::regclass
       OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'memory.observations'::regclass)
"""


@pytest.mark.parametrize(
    ("pins", "most"),
    [({"digest_fact_keys": ["boat300", "home"]}, 20), ({"digest_newest": 50}, 200), ({"digest_tags": ["hundred"]}, 150)],
)  # fmt: skip
async def test_no_more_is_read_than_it_takes(memory: Memory, pins: dict[str, Any], most: int) -> None:
    """Pinned facts and tags by their index, the newest by their number; each time anew for what is shown."""
    await memory.observe("Boat 1.", **MIA)
    await rows(memory, MANY)
    await rows(memory, "UPDATE memory.scopes SET last_seq = 5000")
    await rows(memory, "ANALYZE memory.observations")
    await memory.configure(**ADA, **pins)
    async with AsyncSession(memory.database.engine) as session:
        before = (await session.execute(text(READ))).scalar_one()
        digest = await memory.digest(**MIA, session=session)
        read = (await session.execute(text(READ))).scalar_one() - before
    assert 1 <= digest.counts["structured"] <= 24
    assert digest.counts["structured"] <= read <= most
