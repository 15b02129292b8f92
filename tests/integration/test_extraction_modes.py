"""What the benchmark of batched and isolated extraction measures: calls, what each shows, where observations end up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.extraction_modes import MODES, Play, main, pairs, play, report
from benchmarks.played import FACTS, Stored, Written, conversations_of, earlier, written
from memory_sql.config import Settings


async def played(url: str, shared: Path, mode: str) -> Play:
    conversations = conversations_of(shared / "data" / "played")
    model = Written(conversations, written())
    return await play(url, model, conversations, MODES[mode], Settings(llm="offline"))


@pytest.mark.slow
async def test_batch_asks_once_a_conversation_and_shows_what_its_scopes_know(database_url: str, shared: Path) -> None:
    batch = await played(database_url, shared, "batch")
    assert [(call.conversation, len(call.knows)) for call in batch.calls] == [
        ("team-1", 7), ("private-nadia", 4), ("team-2", 7),
    ]  # fmt: skip
    assert [call.foreign > 0 for call in batch.calls] == [False, True, True]


@pytest.mark.slow
async def test_batch_puts_each_fact_where_it_belongs(database_url: str, shared: Path) -> None:
    batch = await played(database_url, shared, "batch")
    assert batch.kept.keys() == set(FACTS)
    assert [places for places in batch.kept.values() if len(places) > 1] == []
    assert batch.elsewhere == []


@pytest.mark.slow
async def test_isolated_call_shows_no_text_of_another_scope(database_url: str, shared: Path) -> None:
    isolated = await played(database_url, shared, "isolated")
    texts = {one.content for one in isolated.stored}
    assert (len(isolated.calls), isolated.foreign) == (17, 0)
    shown = [{text for text in texts if text in call.sent} for call in isolated.calls]
    known = [{text for [knows] in [call.knows.values()] for text in knows} for call in isolated.calls]
    assert shown == known
    assert sum(map(bool, shown)) == 3  # Nadia's own, the group's, its infrastructure's
    assert isolated.kept.keys() == set(FACTS)


@pytest.mark.slow
async def test_subject_of_a_named_scope_apart_is_told_in_the_main_scope_too(database_url: str, shared: Path) -> None:
    apart = await played(database_url, shared, "named apart")
    assert [len(call.knows) for call in apart.calls] == [5, 1, 1, 3, 1, 5, 1, 1]
    assert {one.place for one in apart.elsewhere} == {"tern", "nadia"}
    table = report({"named apart": apart}, earlier(shared / "data" / "played"))
    assert f"| model calls {' ' * 30}|           8 |" in table


def test_claims_are_paired_once_and_in_the_same_scope_first() -> None:
    def stored(place: str, text: str) -> Stored:
        return Stored("team-1", place, text, frozenset({1}))

    here, there = stored("tern", "Atlas is due on 24 April"), stored("piet", "The deadline of Atlas is 24 April")
    other = stored("tern", "Atlas is due on 25 April")
    assert pairs([here], [there, here, other]) == [(here, here)]
    assert pairs([here], [other, there]) == [(here, there)]


async def test_without_the_conversations_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await main(["--data", str(tmp_path)])
    assert capsys.readouterr().out == "skipped: team-1.jsonl isn't there: it needs the material beside the checkout\n"
