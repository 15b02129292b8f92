"""The rules of those anomalies A1 to A30 that `test_legacy_mapping` doesn't show, and facts about the legacy system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_sql.importers.anomalies import ANOMALIES
from memory_sql.importers.drafts import ObservationDraft, ScopeDraft
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.importers.mongo.reading import KNOWN_KEYS
from memory_sql.importers.mongo.sources.dump import DumpSource
from tests.legacy.cases import CASES
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.legacy.homes import BEGIN, WRITTEN, Home, at, without
from tests.legacy.surveying import Read, Surveyed, reading, spooled, surveyed

HOME = Home(("anomalies",))


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    with reading(tmp_path) as read:
        yield read


def test_every_anomaly_has_a_case_and_a_rule() -> None:
    numbered = {f"A{n}" for n in range(1, 31)}
    assert numbered <= set(ANOMALIES)
    assert numbered == {code for case in CASES.values() for code in case.anomalies} & numbered
    assert all(anomaly.what and anomaly.rule for anomaly in ANOMALIES.values())


async def test_a_list_that_is_missing_is_empty(read: Read) -> None:
    """A1"""
    rows = records(await read("A1"))
    assert [(row.state, row.message_ids) for row in rows] == [("absorbed", ())]


async def test_older_names_of_fields_and_collections_are_read(read: Read) -> None:
    """A2"""
    rows = records(await read("A2"))
    assert sorted((row.state, row.legacy_ref.partition(":")[0]) for row in rows) == [
        ("absorbed", "memory_sessions"),
        ("pending", "memory_sessions"),
    ]


async def test_of_a_document_in_both_collections_the_current_one_counts(tmp_path: Path) -> None:
    """A2: the old collection was copied and kept, and the copies went on to change."""
    old = without(HOME.record("fact", content="The stage is red."), ["shard_id"])
    new = HOME.record("fact", content="The stage is blue.")
    dump(tmp_path, [("session_memories", [old]), ("memory_sessions", [new]), ("memory_agent", [HOME.shard()])])
    with spooled() as spool:
        found = await surveyed(DumpSource(tmp_path), spool)
        (row,) = [row for row in found.observations() if row.legacy_ref.startswith("memory_sessions")]
        assert (row.content, row.metadata["legacy"]["shard_id"]) == (new["content"], str(new["shard_id"]))
        assert found.accounts.outcomes["memory_sessions", "merged", "same_document"] == 1
        (refused,) = [refusal for refusal in spool.refusals() if refusal.reason == "same_document"]
        assert (refused.legacy_id, refused.part) == (str(old["_id"]), "session_memories.bson")


@pytest.mark.parametrize("bad", ["no id", 5, {"$oid": "x"}, None])
async def test_a_bad_id_in_a_list_costs_nothing_but_itself(tmp_path: Path, bad: Any) -> None:
    """A5: as an entry that names no record (A15). The texts, and what else is listed, are good."""
    waits, fact = HOME.directive("waits", source_message_ids=[bad, HOME.key("message")]), HOME.record("fact")
    docs = {
        "users3": [HOME.person(HOME.user)],
        "sessions": [HOME.session_document(users=[bad, HOME.user], agents=[bad, HOME.agent])],
        "memory_user": [HOME.blob(unabsorbed_memory_ids=[bad, waits["_id"]])],
        "memory_agent": [HOME.shard(facts=[bad, fact["_id"]], unabsorbed_memory_ids=[bad])],
        "memory_sessions": [waits | {"related_users": [bad, HOME.user]}, fact],
    }
    dump(tmp_path, docs.items())
    with spooled() as spool:
        found = await surveyed(DumpSource(tmp_path), spool)
        assert found.accounts.anomalies["bad_list_id"] == 4
        assert {outcome for _, outcome, _ in found.accounts.outcomes} == {"skipped", "migrated"}
        rows = {row.content: row for row in found.observations()}
        assert rows[waits["content"]].state == rows[fact["content"]].state == "pending"
        assert rows[waits["content"]].related_users == (str(HOME.user),)
        assert rows[waits["content"]].message_ids == (str(HOME.key("message")),)
        assert "Mia plans the harbour festival." in rows


@pytest.mark.parametrize(("case", "waiting"), [("A3", 1), ("A22", 0)])
async def test_an_empty_blob_is_a_scope_without_text(read: Read, case: str, waiting: int) -> None:
    found = await read(case)
    scope = found.scope()
    assert (scope.text, scope.settings["consolidation_max_words"]) == (None, 400)
    assert [row.state for row in found.observations(scope)] == ["pending"] * waiting


async def test_ids_of_every_form_lead_to_the_same_agent(read: Read) -> None:
    """A5"""
    assert len(list((await read("A5")).scopes())) == 1


async def test_a_time_without_a_zone_is_in_utc(read: Read) -> None:
    """A6"""
    found = await read("A6")
    assert [row.observed_at.isoformat() for row in records(found)] == ["2025-11-03T04:05:06+00:00"]
    assert found.scope().written_at == datetime(2026, 10, 1, 10, 0, 0, 123_000, tzinfo=UTC)


async def test_without_a_time_of_creation_it_is_that_of_the_id(read: Read) -> None:
    """A7"""
    (row,) = records(await read("A7"))
    assert row.observed_at == BEGIN.replace(tzinfo=UTC)


async def test_without_a_time_of_its_last_change_nothing_is_kept_of_one(read: Read) -> None:
    """A8"""
    (row,) = records(await read("A8"))
    assert "updated_at" not in row.metadata["legacy"]


async def test_entries_of_lists_that_name_nothing_are_left_out(read: Read) -> None:
    """A15: a blob that waits for a fact, and for what is gone."""
    found = await read("A15")
    assert records(found, found.scope()) == []
    assert [(row.lane, row.state) for row in records(found)] == [("buffer", "pending")]


async def test_what_has_no_shard_is_in_the_collective_scope(read: Read) -> None:
    """A17"""
    found = await read("A17")
    assert [scope.owner for scope in found.scopes()] == ["c"]
    assert len(found.observations(found.scope("collective"))) == 2


async def test_a_divider_in_a_text_stays(read: Read) -> None:
    """A21"""
    found = await read("A21")
    assert found.scope().text == "Profile: Mia, sailor.\n\n---\n\nMia likes tea."
    assert [row.content for row in found.observations()] == ["Profile: Mia, sailor.", "Mia likes tea."]


async def test_a_type_in_capitals_is_the_same(read: Read) -> None:
    """A23"""
    (row,) = records(await read("A23"))
    assert row.metadata["legacy"]["memory_type"] == "directive"


async def test_a_session_that_is_gone_keeps_its_id(read: Read) -> None:
    """A24"""
    rows = records(await read("A24"))
    assert len({row.conversation_id for row in rows} - {None}) == 2


@pytest.mark.parametrize(
    ("context", "is_formed"),
    [({"last_memory_message_id": HOME.key("message")}, True), ({"last_activity": at(1)}, False), (None, False)],
)
async def test_without_a_place_up_to_which_memory_was_formed_none_is(
    tmp_path: Path, context: object, is_formed: bool
) -> None:
    """A26"""
    dump(
        tmp_path,
        [
            ("users3", [HOME.person(HOME.user), HOME.agent_document()]),
            ("sessions", [HOME.session_document(memory_context=context)]),
            ("messages", [HOME.message()]),
        ],
    )
    options = ImportOptions(messages=True)
    with spooled(options) as spool:
        found = await surveyed(DumpSource(tmp_path), spool, options)
        (message,) = found.plan.messages(str(HOME.agent), str(HOME.session))
    assert message.is_formed is is_formed


async def test_keys_that_nobody_knows_are_left_out(read: Read) -> None:
    """A27"""
    found = await read("A27")
    assert "locale" not in str(found.rows())
    assert "__v" not in str(found.rows())


async def test_a_text_over_its_limit_is_kept_and_marked(read: Read) -> None:
    """A30"""
    found = await read("A30")
    scope = found.scope()
    assert len((scope.text or "").split()) == 401
    assert scope.over_limit
    (row,) = found.observations(scope)
    assert row.metadata["legacy"]["over_limit"] is True


async def test_the_version_of_a_text_is_kept(read: Read) -> None:
    """A4"""
    found = await read("A4")
    (row,) = found.observations(found.scope("collective"))
    assert row.metadata["legacy"]["version"] == 7


# What the old system was


async def test_old_types_go_where_they_belong(read: Read) -> None:
    found = await read(Legacy(agents=1, cases=()), ImportOptions(episodes="conversation"))
    where = Counter(
        (row.metadata["legacy"]["memory_type"], scope.kind) for scope in found.scopes() for row in records(found, scope)
    )
    assert where == {
        ("directive", "individual"): 3 * 6,
        ("fact", "collective"): 2 * 5,
        ("suggestion", "collective"): 2 * 5,
        ("episode", "conversation"): 4,
    }


async def test_a_user_s_text_is_that_of_their_scope(read: Read) -> None:
    found = await read(Legacy(agents=2, users=3, cases=()))
    texts = [scope for scope in found.scopes() if scope.kind == "individual"]
    assert len(texts) == found.accounts.source["memory_user"] == 6
    assert all((scope.text or "").startswith("User ") for scope in texts)
    assert {scope.written_at for scope in texts} == {WRITTEN.replace(tzinfo=UTC)}


async def test_limits_are_those_of_the_old_system(read: Read) -> None:
    found = await read(Legacy(agents=1, shards=1, cases=()), ImportOptions(episodes="conversation"))
    settings = {scope.kind: scope.settings for scope in found.scopes()}
    assert settings["individual"] == {
        "consolidation_threshold": 5, "consolidation_max_words": 400, "observation_max_words": 25,
    }  # fmt: skip
    assert settings["collective"] == {
        "consolidation_threshold": 16, "consolidation_max_words": 1000, "observation_max_words": 35, "lanes": "both",
        "buffer_max": 100, "buffer_max_words": 30,
    }  # fmt: skip
    assert settings["conversation"] == {
        "consolidate": False, "lanes": "buffer", "buffer_max": 8, "buffer_max_words": 50,
    }  # fmt: skip
    (prompt,) = found.scope("collective").prompts
    assert (prompt.name, prompt.mode, prompt.body) == ("extraction", "guidance", "What concerns the festival.")


FIELDS = {
    "memory_sessions": "agent_id source_session_id memory_type content source_message_ids related_users shard_id "
    "agent_owner",
    "memory_user": "agent_id user_id content unabsorbed_memory_ids fully_formed_memory last_updated_at",
    "memory_agent": "agent_id shard_name extraction_prompt is_active content unabsorbed_memory_ids facts "
    "fully_formed_memory last_updated_at max_facts_per_shard max_agent_memories_before_consolidation",
}


@pytest.mark.parametrize("collection", FIELDS)
def test_fields_of_the_old_collections_are_known(collection: str) -> None:
    """By the importer, and to what writes legacy databases for the tests."""
    home = Home(("fields",))
    written = {"memory_sessions": home.directive(), "memory_user": home.blob(), "memory_agent": home.shard()}
    assert set(FIELDS[collection].split()) <= KNOWN_KEYS[collection] & written[collection].keys()


def records(found: Surveyed, scope: ScopeDraft | None = None) -> list[ObservationDraft]:
    """Without the sentences of texts."""
    return [row for row in found.observations(scope) if "#" not in row.legacy_ref]
