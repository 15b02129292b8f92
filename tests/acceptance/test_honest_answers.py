"""What an honest model answers is what gets remembered: the table of `tests/honest.py`, through the real client."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_sql.domain.classification import CONFIDENCE
from memory_sql.domain.observations import Observation
from tests import honest
from tests.database import TOLD, rows
from tests.honest import Claim, Consolidation, Extraction, Item, Propagation, Table, as_parameters, expected, stored

FILES = honest.files()

# Of each observation what it says, what became of it, and whether a text was found to repeat in it what was said before.
STATES = """
    SELECT o.content, coalesce(t.status, 'active'), EXISTS (
        SELECT FROM memory.consolidations c, jsonb_array_elements(c.repetitions) r
        WHERE (c.agent_key, c.scope_id) = (o.agent_key, o.scope_id) AND (r ->> 'newer')::integer = o.seq
    )
    FROM memory.observations o LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
"""


@pytest.fixture
async def laid(database_url: str) -> AsyncIterator[Table]:
    async with honest.table(database_url) as laid:
        yield laid


@pytest.mark.parametrize("case", as_parameters({name: file.extraction for name, file in FILES.items()}))
async def test_what_is_extracted_is_stored_as_it_was_written(laid: Table, case: Extraction) -> None:
    formed = await honest.extract(laid, case)
    kept = [item for item in case.answer if item.kept_in is not None]
    assert await lying(laid, formed.observations) == sorted(map(expected, kept), key=repr)
    assert formed.refused == case.refused
    assert len(laid.server.requests) == 1
    for item in kept:
        if item.label:
            assert await classes_of(laid, item) == (
                item.category,
                item.sure and CONFIDENCE[item.sure],
                item.is_until or item.until or None,
            )
        if item.days is not None:
            assert await days_of(laid, item) == item.days
        if item.terms or item.about:
            assert await found_by(laid, item) == (
                item.terms if item.cues is None else item.cues,
                [honest.id_of(name) for name in item.about],
            )


@pytest.mark.parametrize("case", as_parameters({name: file.consolidation for name, file in FILES.items()}))
async def test_text_that_was_written_honestly_takes_the_place_of_the_old_one(laid: Table, case: Consolidation) -> None:
    consolidated = await honest.consolidate(laid, case)
    assert consolidated.content == case.answer
    assert await rows(laid.memory, f"SELECT content FROM {TOLD}") == [(case.answer,)]  # noqa: S608
    assert len(laid.server.requests) == 1 + (case.text is not None)
    states = await rows(laid.memory, STATES)
    assert {text for text, state, repeats in states if state == "superseded" and not repeats} == {*case.superseded}
    assert {text for text, state, repeats in states if repeats} == {*case.repeated}
    assert {state for text, state, _ in states if text not in (*case.superseded, *case.repeated)} <= {"active"}
    assert await rows(laid.memory, "SELECT DISTINCT refused - 'words_gone' FROM memory.runs") == [({},)]


@pytest.mark.parametrize("case", as_parameters({name: file.propagation for name, file in FILES.items()}))
async def test_what_is_shared_arrives_word_for_word_and_nothing_else(laid: Table, case: Propagation) -> None:
    result = await honest.propagate(laid, case)
    owner = "c" if case.to == "collective" else f"g:{case.to.removeprefix('group ')}"
    arrived = await rows(
        laid.memory,
        "SELECT o.content FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)"
        " WHERE s.owner = :owner AND o.source_kind = 'propagation'",
        owner=owner,
    )
    assert result.failed == {}
    stayed = {one.source: one.reason for one in result.judged if one.outcome != "propagated" and one.reason != "known"}
    why = [claim.no or claim.withheld for claim in case.claims if claim.shared is None]
    assert sorted(stayed.values()) == sorted(reason for reason in why if reason and reason != honest.NOT_OFFERED)
    assert {text for (text,) in arrived} == {claim.shared for claim in case.claims if claim.shared}
    assert len(laid.server.requests) == (1 if any(claim.withheld is None for claim in case.claims) else 0)


async def lying(laid: Table, observations: Sequence[Observation]) -> list[tuple[Any, ...]]:
    """As they were stored, in the order in which `expected` ones are compared with them."""
    named = await rows(laid.memory, "SELECT 's' || scope_id, 'group ' || substr(owner, 3) FROM memory.scopes")
    return sorted((stored(one, dict(named)) for one in observations), key=repr)


async def days_of(laid: Table, item: honest.Item) -> list[str]:
    """The days that the observation is found by, each range by its first and, where it is longer, its last day."""
    found = await rows(
        laid.memory,
        "SELECT lower(d)::text, (upper(d) - 1)::text FROM memory.observations o, unnest(o.dates) d WHERE o.content = :text",
        text=item.kept_as or item.content,
    )
    return [first if first == last else f"{first}/{last}" for first, last in sorted(found)]


async def classes_of(laid: Table, item: honest.Item) -> tuple[str | None, float | None, str | None]:
    """Category, confidence and the day on which it is over."""
    [found] = await rows(
        laid.memory,
        "SELECT category, confidence, until::text FROM memory.observations WHERE content = :text",
        text=item.kept_as or item.content,
    )
    return tuple(found)


async def found_by(laid: Table, item: honest.Item) -> tuple[list[str], list[str]]:
    """The cues by which the observation is found, and of whom it speaks."""
    [(terms, subjects)] = await rows(
        laid.memory,
        "SELECT terms, subjects FROM memory.observations WHERE content = :text",
        text=item.kept_as or item.content,
    )
    return terms.splitlines(), subjects


# What was played with a team of three, beside the checkout

PLAYED = {
    "individual_P1": "nadia",
    "individual_P2": "piet",
    "individual_P3": "lena",
    "individual": "nadia",
    "group_1": "group tern",
}
CUT = {"joost@harbourlines.example": "[contact]"}
ALSO = {  # more sources, whose words these have
    "Tern's API moves": [23],
    "Nadia's team decided": [5],
    "Tern's docs live": [1],
    "Nadia wants the release mail": [1, 2],
}
LESSON_OF = {"On iOS": "piet", "Users tend": "lena"}  # who has learnt what would help anybody


@pytest.mark.parametrize("name", ["team-1", "team-2", "private-nadia"])
async def test_what_was_played_is_stored_as_it_was_written(laid: Table, shared: Path, name: str) -> None:
    folder = shared / "data" / "played"
    said = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
    [answer] = [row["answer"] for row in played(folder) if row["of"] == name]
    case = Extraction(
        name=name,
        language="en",
        said=[(m.get("name", m["role"]), m["created_at"], m["content"]) for m in said],
        groups=said[0].get("group_ids", []),
        answer=[placed(scope, item) for scope, items in answer.items() for item in items],
    )
    formed = await honest.extract(laid, case)
    assert await lying(laid, formed.observations) == sorted(map(expected, case.answer), key=repr)
    assert "7731" not in str(await rows(laid.memory, "SELECT content FROM memory.messages"))


def placed(scope: str, item: dict[str, Any]) -> Item:
    """Where it has to lie: what is for everybody with its author, and the customer's address nowhere but there."""
    content, cut = item["content"], None
    [item["also"]] = [also for beginning, also in ALSO.items() if content.startswith(beginning)] or [[]]
    if scope == "collective":
        [author] = [who for beginning, who in LESSON_OF.items() if content.startswith(beginning)]
        return Item(**item, scope=scope, **{"in": author}, proposed="collective")
    if scope == "group_1" and any(contact in content for contact in CUT):
        cut = content.replace(*next(iter(CUT.items())))
    return Item(**item, scope=scope, **{"in": PLAYED[scope], "as": cut})


@pytest.mark.slow
async def test_texts_that_were_played_take_the_place_of_the_old_ones(laid: Table, shared: Path) -> None:
    rows_played = [row for row in played(shared / "data" / "played") if row["kind"] == "consolidation"]
    assert len(rows_played) == 9
    for row in rows_played:
        kind, owner = row["of"].split()
        case = text_played(row, f"{owner}-{row['n']}" if kind == "individual" else f"group {owner}-{row['n']}")
        assert (await honest.consolidate(laid, case)).content == case.answer
    assert await rows(laid.memory, "SELECT DISTINCT state, refused FROM memory.runs") == [("succeeded", {})]


def text_played(row: dict[str, Any], of: str) -> Consolidation:
    """The text so far stands for what it was made of."""
    told = {item["n"]: item["text"] for item in row["given"]}
    text = None if row["current"] == honest.NOTHING_YET else json.loads(row["current"])
    return Consolidation(
        name=of,
        language="en",
        of=of,
        text=text,
        known=[] if text is None else [("2026-11-18T10:00:00Z", text)],
        new=[(item["observed_at"].split()[0], item["text"]) for item in row["given"]],
        answer=row["answer"]["text"],
        contradictions=[
            {"newer": f"n: {told[item['newer']]}", "was": item["was"], "now": item["now"]}
            for item in row["answer"]["contradictions"]
        ],
    )


async def test_what_was_played_as_shared_arrives(laid: Table, shared: Path) -> None:
    [row] = [row for row in played(shared / "data" / "played") if row["kind"] == "propagation"]
    said = {item["n"]: item["text"] for item in row["answer"]["decisions"]}
    claims = [Claim(text=item["text"], shared=said[item["n"]]) for item in row["given"]]
    case = Propagation(name="nadia", language="en", of="nadia", to="group tern", claims=claims)
    result = await honest.propagate(laid, case)
    assert sorted(one.text or "" for one in result.propagated) == sorted(said.values())


WITHOUT_NAMES = {
    "Nadia decided to ship Tern 2.0 on 24 April 2027.": "Tern 2.0 ships on 24 April 2027.",
    "Piet wrote the ingest service.": None,
}


@pytest.mark.slow
async def test_shareable_sentences_of_eight_walks_of_life_are_shared(laid: Table, shared: Path) -> None:
    """By a judge that shares all of them, but for what only says who did something."""
    sentences = [line.split("\t")[1] for line in (shared / "data/played/sentences.txt").read_text("utf-8").splitlines()]
    claims = [
        Claim(text=text, shared=(said := WITHOUT_NAMES.get(text, text)), no=None if said else "personal")
        for text in sentences
    ]
    case = Propagation(name="sentences", language="en", of="mia", to="group town", claims=claims)
    result = await honest.propagate(laid, case)
    assert {one.text for one in result.propagated} == {claim.shared for claim in claims if claim.shared}


def played(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text("utf-8").splitlines()]


def test_table_is_of_many_walks_of_life_and_languages() -> None:
    cases = [(file.software, case.language) for file in FILES.values() for case in file.cases]
    assert len(cases) >= 80
    assert sum(software for software, _ in cases) <= len(cases) / 2
    by_language = Counter(language for _, language in cases)
    assert min(by_language[language] for language in ("en", "de", "fr", "es", "nl")) >= 5
    assert {point for file in FILES.values() for case in file.cases for point in case.points} >= {
        1,
        3,
        4,
        5,
        6,
        7,
        8,
        10,
    }
