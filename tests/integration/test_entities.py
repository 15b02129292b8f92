"""What memory names, and its heaviest terms."""

from __future__ import annotations

from datetime import date, timedelta
from math import log
from typing import Any

import pytest

from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import statements
from tests.factories import MONDAY

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}


@pytest.fixture
async def known(memory: Memory) -> Memory:
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", **ADA, user_id=user)
    said = ("The units are by Larch & Latch.", "LARCH and I met.", "I paid larch & latch.", "Tea is in the pot.")
    for n, text in enumerate(said):
        await memory.observe(text, **MIA, observed_at=MONDAY + timedelta(days=n))
    await memory.observe(
        "The crew asked Larch & Latch.", **ADA, group_id="crew", observed_at=MONDAY - timedelta(days=9)
    )
    await memory.observe("I owe Larch & Latch nothing.", **JONAS, observed_at=MONDAY)
    return memory


async def test_everything_that_names_it_is_found_newest_first(known: Memory) -> None:
    """R161, R162: one thing however it is written, in each scope that the user may see."""
    with statements(known) as seen:
        found = await known.entities.get("Larch & latch", **MIA)
    assert len(seen) == 1
    assert [one.content for one in found.newest] == [
        "I paid larch & latch.",
        "The units are by Larch & Latch.",
        "The crew asked Larch & Latch.",
    ]
    assert (found.observations, found.first, found.last) == (3, date(2026, 2, 21), date(2026, 3, 4))
    assert [(str(one.scope), one.observations, one.first, one.last) for one in found.scopes] == [
        ("individual:mia", 2, date(2026, 3, 2), date(2026, 3, 4)),
        ("group:crew", 1, date(2026, 2, 21), date(2026, 2, 21)),
    ]


async def test_all_are_counted_however_few_are_returned(known: Memory) -> None:
    found = await known.entities.get("Larch & Latch", **MIA, limit=1)
    assert found.observations == 3
    assert [str(one.scope) for one in found.newest] == ["individual:mia", "group:crew"]


async def test_what_is_set_aside_or_anothers_names_nothing(known: Memory) -> None:
    mine = (await known.entities.get("Larch & Latch", **MIA)).newest[0].id
    await known.observations.quarantine(mine, **MIA)
    assert (await known.entities.get("Larch & Latch", **MIA)).observations == 2
    await known.forget(Selection(user_id="mia"), **ADA)
    assert [one.content for one in (await known.entities.get("Larch & Latch", **JONAS)).newest] == [
        "I owe Larch & Latch nothing.",
        "The crew asked Larch & Latch.",
    ]
    with pytest.raises(NotFoundError):
        await known.entities.get("Larch & Latch", agent_id="bob", user_id="mia")


@pytest.mark.parametrize("name", ["Nobody", "", " ", "🙂", "Larch or Latch", "arch", "风暴"])
async def test_what_nothing_names_is_not_found(known: Memory, name: str) -> None:
    with pytest.raises(NotFoundError if name.strip() else InputError):
        await known.entities.get(name, **MIA)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The ferry 🙂 runs.", "🙂"),
        ("PC-40771 is her appeal.", "pc-40771"),
        ("由于风暴，围栏倒了。", "风暴"),
        ("Zoë sailed.", "Zoë"),
        ("We saw The Who.", "the who"),
    ],
)
async def test_names_of_any_form_are_found(memory: Memory, text: str, name: str) -> None:
    await memory.observe(text, **MIA)
    assert (await memory.entities.get(name, **MIA)).observations == 1


async def test_listing_has_each_once_and_most_first(known: Memory) -> None:
    with statements(known) as seen:
        found = await known.entities.list(**MIA)
    assert len(seen) == 1
    assert [(one.name, one.observations) for one in found] == [("Larch & Latch", 2), ("LARCH", 1)]
    assert await known.entities.list(**JONAS, limit=1) == (await known.entities.list(**JONAS))[:1]
    assert await known.entities.list(agent_id="bob", user_id="mia") == []


async def test_topics_are_the_heaviest_terms(known: Memory) -> None:
    """R168."""
    with statements(known) as seen:
        found = await known.topics.list(**MIA)
    assert len(seen) == 1
    larch = next(one for one in found if one.term.lower() == "larch")
    assert larch.observations == 4
    assert larch.weight == pytest.approx(4 * log(6 / 4))
    assert [one.weight for one in found] == sorted((one.weight for one in found), reverse=True)
    assert {"Tea", "pot", "paid", "units", "crew", "asked"} <= {one.term for one in found}
    assert not {"is", "and", "the", "nothing"} & {one.term.lower() for one in found}
    assert len(await known.topics.list(**MIA, limit=2)) == 2
    with pytest.raises(InputError):
        await known.topics.list(**MIA, limit=51)


async def test_what_stands_everywhere_weighs_little(memory: Memory) -> None:
    for n in range(9):
        await memory.observe(f"Boats and {'ropes' if n < 3 else f'word{n}x'}.", **MIA)
    found = await memory.topics.list(**MIA)
    assert found[0].term == "ropes"
    assert (await memory.topics.list(**JONAS)) == []


def test_commands_print_them(database_url: str) -> None:
    whose = ("--agent", "ada", "--user", "mia", "--url", database_url)
    for text in ("The units are by Larch & Latch.", "I paid Larch & Latch."):
        memory_sql("observe", text, *whose)
    assert memory_sql("entity", "list", *whose).out.startswith("Larch & Latch  2 observations, ")
    assert "individual:mia: 2" in memory_sql("entity", "get", "larch & latch", *whose).out
    assert memory_sql("topic", "list", *whose, "--limit", 3).out.count("observation") == 3
