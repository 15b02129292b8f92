"""Lines of corrections: in use is the newest that isn't set aside, in whatever order they were set aside and released."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from itertools import pairwise, permutations, product
from typing import Any

import pytest

from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import TOLD, rows
from tests.fakes import Parrot
from tests.integration.test_corrections import ADA, JONAS, LONG_AGO, MIA, SETTINGS, events, listed, statuses, tell
from tests.sizes import few_in_every_run


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), SETTINGS) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def line_of(memory: Memory, *cities: str, **more: Any) -> list[Observation]:
    first, *others = cities
    line: list[Observation] = [await memory.observe(f"Mia lives in {first}.", **MIA, tags=[first], **more)]
    for city in others:
        line.append(await memory.observations.update(line[-1].id, **MIA, text=f"Mia lives in {city}.", tags=[city]))
    return line


CITIES = ("Rome", "Oslo", "Lima")


@pytest.mark.slow
@pytest.mark.parametrize(
    "aside", [pytest.param(pair, marks=[pytest.mark.slow] * (pair != (2, 1))) for pair in permutations(range(3), 2)]
)
async def test_two_of_a_line_set_aside_one_after_the_other_end_as_at_once(
    memory: Memory, aside: tuple[int, ...]
) -> None:
    """And back in any order, as if nothing had been."""
    line = await line_of(memory, *CITIES)
    before = await statuses(memory)
    (left,) = {0, 1, 2} - {*aside}
    for first, last in permutations(aside):
        for place in aside:
            await memory.observations.quarantine(line[place].id, **MIA)
        assert [o.id for o in await memory.observations.list(**MIA)] == [line[left].id]
        await memory.observations.unquarantine(line[first].id, **MIA)
        assert [o.id for o in await memory.observations.list(**MIA)] == [line[max(left, first)].id]
        await memory.observations.unquarantine(line[last].id, **MIA)
        assert await statuses(memory) == before


async def test_correction_made_while_another_is_set_aside_comes_after_it(memory: Memory) -> None:
    rome, moon = await line_of(memory, "Rome", "Luna")
    await memory.observations.quarantine(moon.id, **MIA)
    oslo = await memory.observations.update(rome.id, **MIA, text="Mia lives in Oslo.")
    await memory.observations.unquarantine(moon.id, **MIA)
    assert await listed(memory) == ["Mia lives in Oslo."]
    await memory.observations.quarantine(oslo.id, **MIA)
    assert await listed(memory) == ["Mia lives in Luna."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "fact"), few_in_every_run([*product(range(8), (None, "home"))], [(0, None), (1, "home")])
)
async def test_newest_of_a_line_that_is_not_set_aside_is_in_use(memory: Memory, seed: int, fact: str | None) -> None:
    dice = random.Random(seed)
    for n in range(3):
        await live(memory, dice, Line(f"{seed}{n}"), fact)
        await memory.forget(Selection(user_id="mia"), **ADA)


@pytest.mark.slow
async def test_what_says_the_same_as_something_set_aside_does_not_come_back(memory: Memory) -> None:
    first, second, last = await line_of(memory, "Rome", "Oslo", "Rome")
    before = await statuses(memory)
    await memory.observations.quarantine(last.id, **MIA)
    await memory.observations.quarantine(second.id, **MIA)
    assert await listed(memory) == []
    await memory.observations.unquarantine(last.id, **MIA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [last.id]
    await memory.observations.unquarantine(second.id, **MIA)
    assert await statuses(memory) == before
    await memory.observations.quarantine(last.id, **MIA)
    await memory.observations.quarantine(second.id, **MIA)
    await memory.forget(last.id, **ADA)
    assert [o.id for o in await memory.observations.list(**MIA)] == [first.id]


async def test_one_that_says_what_it_replaces_again_is_released(memory: Memory) -> None:
    """The other, which is active only for its sake, doesn't keep it out."""
    first, second = await line_of(memory, "Rome", "Oslo")
    await memory.observations.update(second.id, **MIA, text="Mia lives in Rome!")
    before = await statuses(memory)
    await memory.observations.quarantine(second.id, **MIA)
    await memory.observations.quarantine(Selection(query="Rome", user_id="mia"), **ADA)
    await memory.observations.unquarantine(Selection(query="Rome", user_id="mia"), **ADA)
    await memory.observations.unquarantine(second.id, **MIA)
    assert await statuses(memory) == before
    assert first.id not in [o.id for o in await memory.observations.list(**MIA)]


async def test_what_was_set_aside_in_a_line_becomes_private_with_it(memory: Memory) -> None:
    _, moon, lima = await line_of(memory, "Rome", "Luna", "Lima")
    await memory.observations.quarantine(moon.id, **MIA)
    await memory.observations.mark(lima.id, **MIA, private=True)
    assert await rows(memory, "SELECT no_propagate FROM memory.observations ORDER BY seq") == [(True,)] * 3


async def test_line_that_ends_with_the_word_of_who_leaves(memory: Memory) -> None:
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", user, **ADA)
    dawn = await memory.observe("We sail at dawn.", **JONAS, group_id="crew")
    noon = await memory.observations.update(dawn.id, **JONAS, text="We sail at noon.")
    await memory.observations.update(noon.id, **MIA, text="We sail at dusk.")
    await memory.observations.quarantine(noon.id, **JONAS)
    await memory.groups.remove_member("crew", "mia", **ADA)
    assert await listed(memory, **JONAS) == ["We sail at dawn."]
    await memory.observations.unquarantine(noon.id, **JONAS)
    assert await listed(memory, **JONAS) == ["We sail at noon."]


@pytest.mark.slow
async def test_what_was_in_quarantine_when_somebody_left_does_not_come_back(memory: Memory) -> None:
    """It is archived, as it would have been; what it had superseded, another's word, stays active."""
    await memory.groups.create("crew", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("crew", user, **ADA)
    dawn = await memory.observe("We sail at dawn.", **JONAS, group_id="crew")
    dusk = await memory.observations.update(dawn.id, **MIA, text="We sail at dusk.")
    first = await memory.observe("We eat at six.", **MIA, group_id="crew")
    last = await memory.observations.update(first.id, **MIA, text="We eat at seven.")
    for one in (first, last, dusk):
        await memory.observations.quarantine(one.id, **MIA)
    assert (await memory.groups.remove_member("crew", "mia", **ADA)).archived == ()
    told = await events(memory, "status")
    await memory.groups.remove_member("crew", "mia", **ADA)  # again
    assert await events(memory, "status") == told
    for one in (first, last, dusk):
        await memory.observations.unquarantine(one.id, **JONAS)
    assert await listed(memory, **JONAS) == ["We sail at dawn."]
    assert [row[:2] for row in await statuses(memory)] == [(2, "archived"), (3, "superseded"), (4, "archived")]


async def test_older_value_of_a_fact_gives_way_to_one_that_comes_back_after_a_forgetting(memory: Memory) -> None:
    """It was known while the newer one was superseded by something of no fact; the text is rewritten."""
    rome = await memory.observe("Mia lives in Rome.", **MIA, fact_key="home")
    nowhere = await memory.observe("Mia lives nowhere.", **MIA)
    await memory.observations.supersede(rome.id, nowhere.id, **MIA)
    bonn = await memory.observe("Mia lived in Bonn.", **MIA, fact_key="home", observed_at=LONG_AGO)
    await tell(memory)
    await memory.forget(nowhere.id, **ADA, wait=False)
    assert await listed(memory) == ["Mia lives in Rome."]
    assert (await memory.observations.get(bonn.id, **MIA)).superseded_by == rome.id
    assert len((await memory.run_due()).consolidated) == 1


class Line:
    """What must be so: the ids of a line in their order, and which are set aside."""

    def __init__(self, name: str) -> None:
        self.name, self.ids, self.aside, self.made = name, list[str](), set[str](), 0

    @property
    def in_use(self) -> list[str]:
        return [one for one in self.ids if one not in self.aside][-1:]

    def text(self) -> str:
        self.made += 1
        return f"It is w{self.name}x{self.made}."


async def live(memory: Memory, dice: random.Random, line: Line, fact: str | None) -> None:
    first = await memory.observe(line.text(), **MIA, fact_key=fact)
    line.ids.append(first.id)
    done = ["observe"]
    for _ in range(16):
        done.append(await step(memory, dice, line))
        shown = [o.id for o in await memory.observations.list(**MIA)]
        assert shown == line.in_use, done
    for one in dice.sample(sorted(line.aside), len(line.aside)):
        await memory.observations.unquarantine(one, **MIA)
        done.append(f"unquarantine {one}")
        line.aside -= {one}
        assert [o.id for o in await memory.observations.list(**MIA)] == line.in_use, done
    by = {seq: by for seq, _, by in await statuses(memory)}
    seqs = [int(one.partition("-")[2]) for one in line.ids]
    assert by == dict(pairwise(seqs)), done
    assert list(await memory.admin.verify()) == []


async def step(memory: Memory, dice: random.Random, line: Line) -> str:
    """One thing that happens to a line that is never empty."""
    one = dice.choice(line.ids)
    match dice.choice("quarantine quarantine quarantine unquarantine unquarantine forget update tell due".split()):
        case "quarantine" if one not in line.aside:
            await memory.observations.quarantine(one, **MIA)
            line.aside |= {one}
            return f"quarantine {one}"
        case "unquarantine" if one in line.aside:
            await memory.observations.unquarantine(one, **MIA)
            line.aside -= {one}
            return f"unquarantine {one}"
        case "forget" if len(line.ids) > 2:
            await memory.forget(one, **ADA, wait=False)
            line.ids.remove(one)
            line.aside -= {one}
            return f"forget {one}"
        case "update" if line.in_use and len(line.ids) < 4:
            new = await memory.observations.update(line.in_use[0], **MIA, text=line.text())
            line.ids.append(new.id)
            return f"update {new.id}"
        case "tell":
            await tell(memory)
            return "tell"
        case "due":
            await memory.run_due()
            await told(memory, line)
            return "due"
        case _:
            return "nothing"


async def told(memory: Memory, line: Line) -> None:
    """No text holds what is set aside."""
    ((content,),) = await rows(memory, f"SELECT coalesce(content, '') FROM {TOLD}")  # noqa: S608
    for one in line.aside:
        ((text,),) = await rows(
            memory, "SELECT content FROM memory.v_observations WHERE observation_id = :one", one=one
        )
        assert text not in content


@pytest.mark.parametrize("how", ["update", "supersede", "fact"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("between", [0, 1])
async def test_one_of_two_that_the_same_had_superseded_is_corrected(
    memory: Memory, how: str, which: int, between: int
) -> None:
    """While that is quarantined: the other stays as it is, and the correction comes after what is quarantined."""
    keys: dict[str, Any] = {"fact_key": "home"} if how == "fact" else {}
    home: Observation = await memory.observe("Mia lives in Rome.", **MIA, **(keys if which == 0 else {}))
    work: Observation = await memory.observe("Mia works in Oslo.", **MIA, **(keys if which == 1 else {}))
    both: Observation = await memory.observe("Mia lives and works in Lima.", **MIA)
    for one in (home, work):
        await memory.observations.supersede(one.id, both.id, **MIA)
    aside: list[Observation] = [both]
    for n in range(between):
        aside.append(await memory.observations.update(aside[-1].id, **MIA, text=f"Mia lives and works in Lima {n}."))
    for one in reversed(aside):
        await memory.observations.quarantine(one.id, **MIA)
    corrected, other = (home, work) if which == 0 else (work, home)
    if how == "update":
        new: Observation = await memory.observations.update(corrected.id, **MIA, text="Mia is in Bern.")
    else:
        new = await memory.observe("Mia is in Bern.", **MIA, **keys)
    if how == "supersede":
        await memory.observations.supersede(corrected.id, new.id, **MIA)
    assert {o.id for o in await memory.observations.list(**MIA)} == {other.id, new.id}
    assert list(await memory.admin.verify()) == []
    for one in aside:
        await memory.observations.unquarantine(one.id, **MIA)
        assert {o.id for o in await memory.observations.list(**MIA)} == {other.id, new.id}
        assert list(await memory.admin.verify()) == []
