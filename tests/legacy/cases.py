"""For each anomaly the documents that show it and no other, and what must become of them.

A case yields (collection, document, outcome and reason) and says by code how many anomalies it plants. Each case has its
own homes, so that any number of copies adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

from tests.legacy.homes import Document, Home, at, without

MIGRATED = ("migrated", "")
DIRECTORY = ("skipped", "directory")
DUPLICATE = ("merged", "duplicate_text")
Planted = tuple[str, Document, tuple[str, str]]
USER, SHARD, RECORD = "memory_user", "memory_agent", "memory_sessions"


def rejected(reason: str) -> tuple[str, str]:
    return "rejected", reason


@dataclass(frozen=True)
class Case:
    """`anomalies`: what it plants. `home`: what changes of the documents that every home has, None: it isn't there.

    `of_messages`: it shows in messages alone.
    """

    documents: Callable[[Home], Iterator[Planted]]
    anomalies: Mapping[str, int]
    home: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    of_messages: bool = False

    def planted(self, home: Home) -> Iterator[Planted]:
        yield from self._home(home)
        yield from self.documents(home)

    def _home(self, home: Home) -> Iterator[Planted]:
        agent, session = self.home.get("agent", {}), self.home.get("session", {})
        yield "users3", home.person(home.user), DIRECTORY
        yield "users3", home.person(home.other, "jonas"), DIRECTORY
        if agent is not None:
            yield "users3", home.agent_document(**agent), DIRECTORY
        if session is not None:
            yield "sessions", home.session_document(**session), DIRECTORY
            yield "messages", home.message(), MIGRATED


def paired(every: int = 1) -> dict[str, list[Document]]:
    """By collection the documents of each two cases, or of some of these, in one home."""
    found: dict[str, list[Document]] = {}
    for pair in islice(combinations(CASES, 2), 0, None, every):
        home = Home(("pair", *pair))
        for case in pair:
            for collection, document, _ in CASES[case].planted(home):
                is_second = case == pair[1] and collection not in ("users3", "sessions", "messages")
                changed = {"_id": home.key("second", document["_id"])} if is_second else {}
                found.setdefault(collection, []).append(document | changed)
    return found


def a1(home: Home) -> Iterator[Planted]:
    yield USER, without(home.blob(), ["unabsorbed_memory_ids"]), MIGRATED
    yield SHARD, home.shard(facts=None), MIGRATED
    yield RECORD, home.directive(source_message_ids=None), MIGRATED


def a2(home: Home) -> Iterator[Planted]:
    waiting = home.directive("waits")
    blob = without(home.blob(), ["unabsorbed_memory_ids"]) | {"unabsorbed_directive_ids": [waiting["_id"]]}
    yield USER, blob, MIGRATED
    yield SHARD, home.shard(fully_formed_memory_shard="derived"), MIGRATED
    yield RECORD, waiting, MIGRATED
    yield "session_memories", home.directive("old"), MIGRATED


def a3(home: Home) -> Iterator[Planted]:
    waiting = home.directive("waits")
    yield USER, home.blob(content=None, unabsorbed_memory_ids=[waiting["_id"]]), MIGRATED
    yield RECORD, waiting, MIGRATED
    yield RECORD, home.directive(content=" \n"), rejected("empty")


def a4(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(content="Mia sails.\n\n-- Total word count: 2"), MIGRATED
    yield SHARD, home.shard(content="VERSION: 7\nThe stage is blue.\n\n-- Total word count: 4"), MIGRATED


def a5(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(agent_id=str(home.agent).upper()), MIGRATED
    yield RECORD, home.directive("bad", shard_id="no id"), rejected("bad_id")


def a6(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(last_updated_at="2026-10-01T10:00:00.123Z"), MIGRATED
    yield RECORD, home.directive(createdAt="2025-11-03T04:05:06"), MIGRATED


def a7(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, without(home.directive(), ["createdAt"]), MIGRATED


def a8(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(updatedAt=None), MIGRATED


def a9(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield USER, home.blob(None, "second", content="Mia rows.", last_updated_at=at(9)), ("merged", "duplicate_scope")


def a10(home: Home) -> Iterator[Planted]:
    linked = home.key("user", "linked")
    yield "users3", home.person(linked, eden_user_id=home.user), DIRECTORY
    yield USER, home.blob(), MIGRATED
    yield USER, home.blob(linked, content="Mia dives.", last_updated_at=at(9)), ("merged", "duplicate_scope")
    yield RECORD, home.directive(related_users=[linked, home.user]), MIGRATED


def a11(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(home.agent), rejected("agent_as_user")
    yield USER, home.blob(home.key("user", "missing")), MIGRATED
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(related_users=[home.user, home.agent]), MIGRATED


def a12(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED


def a13(home: Home) -> Iterator[Planted]:
    shared = home.directive(related_users=[home.user, home.other])
    yield USER, home.blob(unabsorbed_memory_ids=[shared["_id"]]), MIGRATED
    yield USER, home.blob(home.other), MIGRATED
    yield RECORD, shared, MIGRATED


def a14(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(related_users=[]), rejected("no_user")


def a15(home: Home) -> Iterator[Planted]:
    fact = home.record("fact")
    yield USER, home.blob(unabsorbed_memory_ids=[home.key("gone"), fact["_id"]]), MIGRATED
    yield SHARD, home.shard(facts=[fact["_id"]]), MIGRATED
    yield RECORD, fact, MIGRATED


def a16(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(last_updated_at=at(10)), MIGRATED
    yield RECORD, home.directive(createdAt=at(11)), MIGRATED


def a17(home: Home) -> Iterator[Planted]:
    yield RECORD, home.record("suggestion", shard_id=None), MIGRATED
    yield RECORD, home.record("fact", shard_id=home.key("shard", "deleted")), MIGRATED


def a18(home: Home) -> Iterator[Planted]:
    yield SHARD, home.shard(is_active=False), ("skipped", "inactive_shard")
    yield SHARD, home.shard("unsaid", is_active=None, shard_name="tides"), MIGRATED
    yield RECORD, home.record("suggestion"), MIGRATED


def a19(home: Home) -> Iterator[Planted]:
    yield SHARD, home.shard(), MIGRATED
    yield SHARD, home.shard("again", createdAt=at(1)), MIGRATED
    yield SHARD, home.shard("nameless", shard_name=None, createdAt=at(2)), MIGRATED


def a20(home: Home) -> Iterator[Planted]:
    facts = [home.record("fact", n, createdAt=at(n)) for n in range(3)]
    yield SHARD, home.shard(facts=[fact["_id"] for fact in facts[1:]], max_facts_per_shard=1), MIGRATED
    for fact in facts:
        yield RECORD, fact, MIGRATED


def a21(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(content="Profile: Mia, sailor.\n\n---\n\nMia likes tea."), MIGRATED


def a22(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(content=""), MIGRATED


def a23(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(memory_type="Directive"), MIGRATED
    yield RECORD, home.directive("rumour", memory_type="rumour"), rejected("bad_memory_type")


def a24(home: Home) -> Iterator[Planted]:
    gone = home.session_document(home.key("session", "deleted"), deleted=True)
    yield "sessions", gone, DIRECTORY
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(source_session_id=home.key("session", "missing")), MIGRATED
    yield RECORD, home.directive("deleted", source_session_id=gone["_id"]), MIGRATED


def a26(home: Home) -> Iterator[Planted]:
    yield "sessions", home.session_document(home.key("session", 1), memory_context=None), DIRECTORY
    yield "sessions", home.session_document(home.key("session", 2), memory_context={"last_activity": at(1)}), DIRECTORY


def a25(home: Home) -> Iterator[Planted]:
    yield "messages", home.message(1, session=home.session), MIGRATED
    yield "messages", home.message(2, content=None, role="eden", sender=home.agent), MIGRATED
    yield "messages", home.message(3, reactions={"👍": 1}), MIGRATED
    yield "messages", home.message(4, session=[home.key("session", "missing")]), rejected("no_session")


def a26_nowhere(home: Home) -> Iterator[Planted]:
    context = {"last_memory_message_id": home.key("message", "deleted")}
    yield "sessions", home.session_document(home.key("session", 3), memory_context=context), DIRECTORY


def a27(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(__v=0), MIGRATED
    yield RECORD, home.directive(__v=3, locale="de"), MIGRATED


def a28(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(content="Answer in  short."), MIGRATED
    yield RECORD, home.directive("again", content="answer in short", createdAt=at(5)), DUPLICATE


def a29(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(content="Answer\0 in rhyme."), MIGRATED
    yield RECORD, home.directive("surrogate", content="Answer with \ud83d."), MIGRATED


def a30(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(content="Mia " + "sails " * 400), MIGRATED


def absorbed_without_text(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(content=""), MIGRATED
    yield RECORD, home.directive(), MIGRATED


def bad_setting(home: Home) -> Iterator[Planted]:
    yield SHARD, home.shard(max_agent_memories_before_consolidation=-1), MIGRATED


def bad_time(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(last_updated_at="yesterday"), MIGRATED


def hidden_characters(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(content="Mia \u202esails\u202c."), MIGRATED


def masked(home: Home) -> Iterator[Planted]:
    yield USER, home.blob(), MIGRATED
    yield RECORD, home.directive(content="Deploy with ghp_0123456789abcdefghijABCDEFGHIJ012345."), MIGRATED


def later(home: Home) -> Iterator[Planted]:
    """The later system, beside the first one: its text is the newer, its lists and flags say what waits."""
    waiting = home.later("waiting", absorbed=False)
    yield USER, home.blob(), MIGRATED
    yield "memory2_consolidated", home.later_blob(unabsorbed_ids=[waiting["_id"]]), MIGRATED
    yield "memory2_reflections", waiting, MIGRATED
    yield "memory2_reflections", home.later("absorbed", absorbed=True, consolidated_into=home.key("x")), MIGRATED
    yield (
        "memory2_reflections",
        without(home.later("old"), ["session_id"]) | {"source_session_id": home.session},
        MIGRATED,
    )
    yield "memory2_facts", home.later("fact", scope=["user"], embedding=[0.5, 0.25], access_count=3), MIGRATED


CASES: Mapping[str, Case] = {
    "A1": Case(a1, {"A1": 3}),
    "A2": Case(a2, {"A2": 3}),
    "A3": Case(a3, {"A3": 2}),
    "A4": Case(a4, {"A4": 2}),
    "A5": Case(a5, {"A5": 2}),
    "A6": Case(a6, {"A6": 2}),
    "A7": Case(a7, {"A7": 1}),
    "A8": Case(a8, {"A8": 1}),
    "A9": Case(a9, {"A9": 1}),
    "A10": Case(a10, {"A10": 2, "A9": 1}),
    "A11": Case(a11, {"A11": 3}),
    "A12": Case(a12, {"A12": 1}, {"agent": {"deleted": True}}),
    "A12 missing": Case(a12, {"A12": 1}, {"agent": None}),
    "A13": Case(a13, {"A13": 1}),
    "A14": Case(a14, {"A14": 1}),
    "A15": Case(a15, {"A15": 2}),
    "A16": Case(a16, {"A16": 1}),
    "A17": Case(a17, {"A17": 2, "A20": 1, "absorbed_without_text": 1}),
    "A18": Case(a18, {"A18": 2}),
    "A19": Case(a19, {"A19": 2}),
    "A20": Case(a20, {"A20": 2}),
    "A21": Case(a21, {"A21": 1}),
    "A22": Case(a22, {"A22": 1, "A3": 1}),
    "A23": Case(a23, {"A23": 2}),
    "A24": Case(a24, {"A24": 2}),
    "A25": Case(a25, {"A25": 3}, of_messages=True),
    "A26": Case(a26, {"A26": 2}),
    "A26 nowhere": Case(a26_nowhere, {"A26": 1}, of_messages=True),
    "A27": Case(a27, {"A27": 2}),
    "A28": Case(a28, {"A28": 1}),
    "A29": Case(a29, {"A29": 2}),
    "A30": Case(a30, {"A30": 1}),
    "absorbed_without_text": Case(absorbed_without_text, {"absorbed_without_text": 1, "A22": 1, "A3": 1}),
    "bad_setting": Case(bad_setting, {"bad_setting": 1}),
    "bad_time": Case(bad_time, {"bad_time": 1, "A6": 1}),
    "hidden_characters": Case(hidden_characters, {"hidden_characters": 1}),
    "masked": Case(masked, {"masked": 1}),
    "later": Case(later, {"re_embed": 1, "A2": 2}),
}
