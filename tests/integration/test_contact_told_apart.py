"""Three people who name different addresses, numbers or handles say three things, though all read the same once cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.memory import Memory
from memory_sql.privacy.contact import CUT
from tests.database import rows
from tests.factories import Clock
from tests.fakes import Parrot
from tests.integration.test_propagation import belong, known, learn, learn_in_group, propagate

PEOPLE = (("eden", "gene"), ("eden", "mia"), ("atlas", "jo"))
SAID = {
    "e-mail": ("Invoices go to {} only.", "anna@x.org", "ben@y.org", "carl@z.org"),
    "spelt out": ("Invoices go to {} only.", "anna at x dot org", "ben at y dot org", "carl at z dot org"),
    "telephone": ("The hotline of the supplier is {}.", "+49 30 1234567", "+49 30 7654321", "+49 89 1112223"),
    "national": ("The hotline of the supplier is {}.", "030 1234567", "030 7654321", "089 1112223"),
    "handle": ("Orders of paper go to {} on the chat.", "@anna_x", "@ben_y", "@carl_z"),
    "address": ("Deliveries go to {}.", "12 Harbour Street", "14 Garden Street", "3 Mill Lane"),
    "street": ("Die Ware geht an die {}.", "Gartenstraße 12", "Hafenstraße 3", "Mühlweg 7"),
    "box": ("Letters of the club go to {}.", "P.O. Box 12", "P.O. Box 77", "P.O. Box 903"),
    "account": (
        "Rent is paid to {}.",
        "DE89 3704 0044 0532 0130 00",
        "GB29 NWBK 6016 1331 9268 19",
        "FR76 3000 6000 0112",
    ),
    "link": ("The plan of the yard is at {}.", "https://x.org/a", "https://y.org/b", "https://z.org/c"),
    "domain": ("The shop orders at {} only.", "acme.example", "globex.example", "initech.example"),
    "channel": ("Alerts of the build go to {}.", "#ops", "#sales", "#night"),
}


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    """Where nobody is new."""
    settings = Settings(llm="offline", propagation_new_user_days=0)
    async with Memory(database_url, parrot, settings, clock=Clock()) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


async def by_way_of_groups(memory: Memory, texts: tuple[str, ...]) -> None:
    """Said in private, shared with the groups, and from there with everybody."""
    for group in ("eden", "atlas"):
        await belong(memory, group, *(user for its, user in PEOPLE if its == group), f"{group}-other")
    for (_, user), text in zip(PEOPLE, texts, strict=True):
        await propagate(memory, await learn(memory, user, text))
    for _ in range(2):  # the second time also what the first group waited for
        for (scope,) in await rows(memory, "SELECT scope_id FROM memory.scopes WHERE kind = 'group' ORDER BY scope_id"):
            await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope}")
            await memory.scopes.propagate(agent_id="ada", scope_id=f"s{scope}")


async def in_groups(memory: Memory, texts: tuple[str, ...]) -> None:
    """Said in the groups, and shared from there with everybody."""
    for group in ("eden", "atlas"):
        await belong(memory, group, *(user for its, user in PEOPLE if its == group), f"{group}-other")
    for (group, user), text in zip(PEOPLE, texts, strict=True):
        await propagate(memory, await learn_in_group(memory, group, user, text))


WAYS: dict[str, Any] = {"private": by_way_of_groups, "in groups": in_groups}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", SAID)
async def test_three_who_name_different_contacts_are_no_three_who_say_it(memory: Memory, what: str, way: str) -> None:
    form, *contacts = SAID[what]
    await WAYS[way](memory, tuple(form.format(one) for one in contacts))
    assert await known(memory, "c") == []


@pytest.mark.parametrize("what", ["e-mail", "telephone", "handle", "address"])
async def test_three_who_name_the_same_contact_say_it(memory: Memory, what: str) -> None:
    form, contact, *_ = SAID[what]
    await in_groups(memory, (form.format(contact),) * 3)
    assert await known(memory, "c") == [form.format(CUT)]


async def test_what_was_cut_before_supports_nothing(memory: Memory) -> None:
    """By way of the groups nobody knows any more whether they named the same."""
    form, contact, *_ = SAID["e-mail"]
    await by_way_of_groups(memory, (form.format(contact),) * 3)
    assert await known(memory, "c") == []
    assert await known(memory, "g:eden") == [form.format(CUT)]
