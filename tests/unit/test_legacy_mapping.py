"""What becomes of legacy memory: each planted anomaly, every document accounted for, states, texts and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_sql.config.scopes import settings_of_scope
from memory_sql.errors import ConfigurationError, InputError
from memory_sql.importers.anomalies import ANOMALIES, REASONS
from memory_sql.importers.drafts import DuplicateDraft, ObservationDraft
from memory_sql.importers.mongo.options import ImportOptions, groups_of
from memory_sql.importers.mongo.sources.dump import DumpSource
from memory_sql.importers.mongo.texts import statements
from tests.legacy.cases import CASES
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.legacy.homes import Home, at
from tests.legacy.surveying import NOW, Read, dumped, reading, spooled, surveyed


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    with reading(tmp_path) as read:
        yield read


def states(found: list[ObservationDraft]) -> Counter[tuple[str, str]]:
    return Counter((row.lane, row.state) for row in found)


@pytest.mark.parametrize("case", CASES)
async def test_each_anomaly_is_counted_as_planted_and_nothing_else(read: Read, case: str) -> None:
    legacy = Legacy(cases=(case,), copies=3, messages=CASES[case].of_messages)
    options = ImportOptions(messages=legacy.messages)
    found, manifest = await read(legacy, options), legacy.manifest()
    assert found.accounts.anomalies == manifest.anomalies
    assert found.accounts.outcomes == manifest.outcomes
    assert list(found.accounts.unaccounted()) == []


async def test_every_document_is_accounted_for(read: Read) -> None:
    legacy = Legacy(agents=3, copies=2)
    found, manifest = await read(legacy), legacy.manifest()
    assert found.accounts.source == manifest.source
    assert found.accounts.outcomes == manifest.outcomes
    assert found.accounts.anomalies == manifest.anomalies
    for counts in found.accounts.collections().values():
        assert counts["source"] == sum(counts[outcome] for outcome in ("migrated", "merged", "skipped", "rejected"))


async def test_messages_come_where_they_are_asked_for(read: Read) -> None:
    legacy, options = Legacy(agents=2, messages=True), ImportOptions(messages=True)
    found, manifest = await read(legacy, options), legacy.manifest()
    assert found.accounts.source == manifest.source
    assert found.accounts.outcomes == manifest.outcomes
    assert found.accounts.anomalies == manifest.anomalies
    assert "messages" not in (await read(legacy)).accounts.source


async def test_messages_come_by_conversation_with_what_was_formed(read: Read) -> None:
    found = await read(Legacy(cases=("A25",), messages=True), ImportOptions(messages=True))
    (agent,) = found.plan.agents()
    (conversation,) = found.plan.conversations(agent.agent_id)
    messages = list(found.plan.messages(agent.agent_id, conversation.conversation_id))
    assert sorted((m.role, m.user_id is None, bool(m.content)) for m in messages) == [
        ("assistant", True, False),
        ("user", False, True),
        ("user", False, True),
        ("user", False, True),
    ]
    assert {message.speaker for message in messages} == {"mia"}
    formed = [message.is_formed for message in messages]
    assert any(formed)
    assert formed == sorted(formed, reverse=True)


async def test_refused_documents_are_named_with_place_and_reason(read: Read) -> None:
    legacy = Legacy(agents=1)
    found, manifest = await read(legacy), legacy.manifest()
    refused = {
        (r.collection, r.legacy_id): (r.outcome, r.reason)
        for r in found.spool.refusals()
        if r.reason not in ("directory", "episode")
    }
    assert refused == manifest.fates
    assert {reason for _, _, reason in found.accounts.outcomes} - {""} <= set(REASONS)
    assert found.accounts.anomalies.keys() <= set(ANOMALIES)


async def test_two_readings_come_out_the_same(read: Read) -> None:
    legacy = Legacy(agents=2)
    assert (await read(legacy)).fingerprint() == (await read(legacy)).fingerprint()


async def test_records_have_the_state_that_they_really_had(read: Read) -> None:
    found = await read(Legacy(agents=1, cases=()))
    assert (
        len(found.observations()) == 3 * (6 + 1) + 2 * (5 + 5) + 3
    )  # sentences: one of each user, one of each shard, one of both
    assert states(found.observations(found.scope("collective"))) == {
        ("absorb", "absorbed"): 2 * 3 + 3,
        ("absorb", "pending"): 2 * 2,
        ("buffer", "pending"): 2 * 5,
    }


async def test_absorbed_rows_come_first_then_what_waits_each_by_age(read: Read) -> None:
    found = await read(Legacy(agents=1))
    for scope in found.scopes():
        rows = found.observations(scope)
        absorbed = [row.state == "absorbed" for row in rows]
        assert absorbed == sorted(absorbed, reverse=True)
        assert scope.text or not any(absorbed)
        waiting = [row.observed_at for row in rows if (row.lane, row.state) == ("absorb", "pending")]
        assert waiting == sorted(waiting)
        refs = [row.legacy_ref for row in found.rows(scope)]
        assert len(set(refs)) == len(refs)


async def test_a_sentence_that_a_record_says_is_its_evidence(read: Read) -> None:
    found = await read(Legacy(agents=1, users=1, shards=0, cases=()))
    rows = found.observations(found.scope())
    assert [bool(row.also) for row in rows if row.state == "absorbed"].count(True) == 2  # every other of four
    assert [row.content for row in rows if "#" in row.legacy_ref] == [
        next(iter(statements(found.scope().text or ""))).content
    ]
    refs = [ref for row in rows for ref in (row.legacy_ref, *row.also) if "#" in ref]
    assert len(refs) == len(set(refs)) == len(list(statements(found.scope().text or "")))


async def test_shards_are_joined_under_their_names_in_the_order_of_age(read: Read) -> None:
    scope = (await read("A19")).scope("collective")
    headings = [line for line in (scope.text or "").splitlines() if line.startswith("## ")]
    assert headings == ["## festival", "## festival 2", "## Unnamed shard"]
    assert scope.settings["buffer_max"] == 300
    assert scope.settings["consolidation_max_words"] == 3000
    assert scope.prompts[0].name == "extraction"


async def test_shards_can_be_scopes_of_their_own(read: Read) -> None:
    options = ImportOptions(keep_shards="named")
    found = await read("A18", options)
    scopes = {scope.name: scope for scope in found.scopes()}
    assert set(scopes) == {"festival", "tides"}
    assert not scopes["festival"].is_active
    assert scopes["tides"].is_active
    assert states(found.observations(scopes["festival"]))["absorb", "archived"] == 1
    assert found.accounts.of("memory_agent", "migrated") == 2
    assert list(found.accounts.unaccounted()) == []


async def test_an_inactive_shard_isn_t_told_and_its_records_are_archived(read: Read) -> None:
    found = await read("A18")
    scope = found.scope("collective")
    assert "festival is in June" in (scope.text or "")  # of the shard that doesn't say whether it is active
    assert (scope.text or "").count("##") == 1
    assert states(found.observations(scope)) == {("absorb", "absorbed"): 1, ("absorb", "archived"): 1}


async def test_facts_over_their_limit_stay_told_and_those_of_no_list_are_archived(read: Read) -> None:
    found = await read("A20")
    scope = found.scope("collective")
    assert scope.settings["buffer_max"] == 2
    assert scope.settings["lanes"] == "both"
    assert states(found.observations(scope))["buffer", "pending"] == 2
    assert states(found.observations(scope))["buffer", "archived"] == 1
    assert states((await read("A20", ImportOptions(evicted_facts="evicted"))).observations())["buffer", "evicted"] == 1


async def test_a_directive_of_several_users_has_a_row_in_the_scope_of_each(read: Read) -> None:
    found = await read("A13")
    rows = [row for row in found.observations() if row.legacy_ref.startswith("memory_sessions")]
    assert len({row.legacy_ref for row in rows}) == 1
    assert sorted(row.state for row in rows) == ["absorbed", "pending"]
    assert {len(row.related_users) for row in rows} == {2}


async def test_without_a_text_what_was_absorbed_waits_or_is_archived(read: Read) -> None:
    assert states((await read("absorbed_without_text")).observations()) == {("absorb", "pending"): 1}
    archived = await read("absorbed_without_text", ImportOptions(without_text="archived"))
    assert states(archived.observations()) == {("absorb", "archived"): 1}


async def test_what_is_younger_than_its_blob_can_wait_again(read: Read) -> None:
    assert states((await read("A16")).observations())["absorb", "pending"] == 0
    assert states((await read("A16", ImportOptions(requeue_lost=True))).observations())["absorb", "pending"] == 1


async def test_blobs_of_one_user_are_one_text_the_newest_first(read: Read) -> None:
    for case in ("A9", "A10"):
        scope = (await read(case)).scope()
        newest, divider, oldest = (scope.text or "").split("\n\n")
        assert newest.startswith("Mia plans")
        assert divider == "---"
        assert oldest in ("Mia rows.", "Mia dives.")
        assert len(scope.legacy_refs) == 2


async def test_version_and_word_count_are_no_part_of_a_text(read: Read) -> None:
    found = await read("A4")
    assert found.scope().text == "Mia sails."
    assert found.scope("collective").text == "## festival\n\nThe stage is blue."
    assert found.scope("collective").version == 7


async def test_scopes_of_people_and_agents_who_are_gone_are_inactive(read: Read) -> None:
    found = await read("A11")
    assert sorted((scope.display_name or "", scope.is_active) for scope in found.scopes()) == [
        ("", False),
        ("mia", True),
    ]
    assert not any(scope.is_active for scope in (await read("A12 missing")).scopes())


async def test_agents_who_are_gone_can_be_left_out(read: Read) -> None:
    found = await read("A12", ImportOptions(missing_agents="skip"))
    assert list(found.scopes()) == []
    assert found.accounts.outcomes["memory_user", "skipped", "agent_missing"] == 1


async def test_episodes_can_become_the_newest_of_their_conversation(read: Read) -> None:
    found = await read(Legacy(agents=1, episodes=11, cases=()), ImportOptions(episodes="conversation"))
    scope = found.scope("conversation")
    assert scope.settings["buffer_max"] == 8
    assert states(found.observations(scope)) == {("buffer", "pending"): 8, ("buffer", "archived"): 3}
    told = [row for row in found.observations(scope) if row.state == "pending"]
    archived = [row for row in found.observations(scope) if row.state == "archived"]
    assert max(row.observed_at for row in archived) <= min(row.observed_at for row in told)


async def test_the_same_text_again_is_evidence_of_one_row(read: Read) -> None:
    found = await read("A28")
    (duplicate,) = [row for row in found.rows() if isinstance(row, DuplicateDraft)]
    kept = [row for row in found.observations() if row.legacy_ref == duplicate.of]
    assert [row.content for row in kept] == ["Answer in  short."]


async def test_of_what_waits_the_last_of_equal_texts_is_kept(tmp_path: Path) -> None:
    """Between "tea" and "tea" somebody may have said "coffee"."""
    home = Home(("waits",))
    said = [home.directive(n, content=text, createdAt=at(n)) for n, text in enumerate(("Tea.", "Coffee.", "Tea."))]
    blob = home.blob(unabsorbed_memory_ids=[document["_id"] for document in said])
    dump(tmp_path, [("memory_user", [blob]), ("memory_sessions", said)])
    with spooled() as spool:
        found = await surveyed(DumpSource(tmp_path), spool)
        waiting = [row.content for row in found.observations() if row.state == "pending"]
    assert waiting == ["Coffee.", "Tea."]


async def test_secrets_are_masked_or_refused(read: Read) -> None:
    assert "[secret: key]" in " ".join(row.content for row in (await read("masked")).observations())
    refused = await read("masked", ImportOptions(secrets="refuse"))
    assert refused.accounts.outcomes["memory_sessions", "rejected", "secret"] == 1


async def test_unstorable_characters_are_replaced(read: Read) -> None:
    assert {row.content for row in (await read("A29")).observations() if "#" not in row.legacy_ref} == {
        "Answer\N{REPLACEMENT CHARACTER} in rhyme.",
        "Answer with \N{REPLACEMENT CHARACTER}.",
    }


async def test_settings_are_those_of_the_old_system_and_can_be_set(read: Read) -> None:
    found = await read(Legacy(agents=1), ImportOptions(keep_shards="named", episodes="conversation"))
    for scope in found.scopes():
        settings_of_scope(scope.settings)  # raises for what no scope may have
    first = next(scope for scope in found.scopes() if scope.kind == "individual")
    assert first.settings["consolidation_threshold"] == 5
    assert first.settings["consolidation_max_words"] == 400


async def test_metadata_keep_what_the_old_system_knew(read: Read) -> None:
    rows = {row.metadata["legacy"]["memory_type"]: row for row in (await read("A17")).observations()}
    assert rows["suggestion"].metadata["legacy"]["orphan_shard"] is True
    assert "shard_id" in rows["fact"].metadata["legacy"]
    assert rows["fact"].metadata["legacy"]["updated_at"] == "2025-09-01T08:03:00+00:00"


async def test_imported_rows_have_no_trust_unless_they_are_said_to(read: Read) -> None:
    assert {row.verification for row in (await read(Legacy())).observations()} == {"unverified"}
    trusted = await read(Legacy(), ImportOptions(trusted=True))
    assert {row.verification for row in trusted.observations()} == {"confirmed"}


async def test_groups_are_one_of_all_a_mapping_or_none(read: Read) -> None:
    legacy = Legacy(agents=1, users=3, cases=())
    (agent,) = (await read(legacy)).plan.agents()
    (everybody,) = (await read(legacy)).plan.groups(agent.agent_id)
    assert everybody.group_id == "default"
    assert len(everybody.user_ids) == 3
    some = ImportOptions(groups={"harbour": (everybody.user_ids[0], "f" * 24), "nobody": ("f" * 24,)})
    (mapped,) = (await read(legacy, some)).plan.groups(agent.agent_id)
    assert mapped.user_ids == everybody.user_ids[:1]
    assert list((await read(legacy, ImportOptions(groups=None))).plan.groups(agent.agent_id)) == []


@pytest.mark.parametrize("value", [[], "default", {"harbour": "mia"}, {" harbour": []}, {"harbour": [None]}])
def test_a_mapping_of_groups_that_isn_t_one_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        groups_of(value)


def test_a_mapping_of_groups_names_each_user_once() -> None:
    assert groups_of({"harbour": ["mia", "jonas", "mia"]}) == {"harbour": ("mia", "jonas")}


async def test_without_room_for_its_temporary_file_a_survey_says_so(tmp_path: Path) -> None:
    with spooled() as spool:
        spool._base.execute("PRAGMA max_page_count=40")
        with pytest.raises(ConfigurationError, match="no room"):
            await surveyed(dumped(tmp_path, Legacy(agents=20)), spool)


async def test_the_later_system_s_text_and_lists_count(read: Read) -> None:
    found = await read("later")
    scope = found.scope()
    assert scope.text == "Mia plans two festivals."
    assert scope.settings["consolidation_threshold"] == 4
    rows = [row for row in found.observations() if "#" not in row.legacy_ref]
    assert states(rows) == {
        ("absorb", "absorbed"): 1,
        ("absorb", "pending"): 2,
        ("buffer", "archived"): 1,
    }


async def test_a_time_ahead_counts_as_now_and_is_kept(tmp_path: Path) -> None:
    home = Home(("ahead",))
    dump(tmp_path, [("memory_sessions", [home.directive(createdAt="2031-01-01T00:00:00Z")])])
    with spooled() as spool:
        (row,) = (await surveyed(DumpSource(tmp_path), spool)).observations()
    assert row.observed_at == NOW
    assert row.given_at == datetime(2031, 1, 1, tzinfo=UTC)
