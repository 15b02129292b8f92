"""group create, rename, add, remove, members, list."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.commands import Ran, memory_sql

Run = Callable[..., Ran]

ADA = ("--agent", "ada")
MIA = (*ADA, "--user", "mia")


@pytest.fixture
def run(database_url: str) -> Run:
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


def test_group_is_made_named_and_listed(run: Run) -> None:
    assert run("group", "list", *ADA).out == "there are no groups\n"
    assert run("group", "create", "harbor", *ADA, "--name", "The harbor").out == (
        "harbor (The harbor)  s1, 0 members\n"
    )
    assert run("group", "create", "default", *ADA).out == "default  s2, 0 members\n"
    renamed = run("group", "rename", "harbor", "Harbor and quay", *ADA, "--json").value
    assert (renamed["group_id"], renamed["display_name"]) == ("harbor", "Harbor and quay")
    assert [row["group_id"] for row in run("group", "list", *ADA, "--json").rows] == ["default", "harbor"]
    assert run("group", "rename", "quay", "Quay", *ADA, code=1).err == "memory-sql: no group quay\n"


@pytest.mark.slow
def test_members_come_and_go(run: Run) -> None:
    run("group", "create", "harbor", *ADA)
    joined = run("group", "add", "harbor", *MIA, "--source", "import").out
    assert joined.startswith("mia  harbor, since 2")
    assert joined.endswith("(import)\n")
    assert run("group", "members", "harbor", *ADA).out == joined
    assert [row["members"] for row in run("group", "list", *MIA, "--json").rows] == [1]
    since = run("group", "members", "harbor", *ADA, "--json").value["joined_at"]
    observed = run("observe", "Mia's plan.", *MIA, "--group", "harbor", "--json").value["id"]
    run("observe", "Everybody's plan.", *ADA, "--group", "harbor")
    left = run("group", "remove", "harbor", *MIA, "--actor", "desk", "--reason", "Changed teams").out
    assert left.startswith("mia left harbor, 2")
    assert left.endswith(f"\narchived: {observed}\n")
    assert run("observation", "list", *MIA, "--json").rows == []
    assert run("group", "members", "harbor", *ADA).out == "nobody belongs to this group\n"
    assert run("group", "members", "harbor", *ADA, "--as-of", since).out.startswith("mia  harbor, since 2")
    assert run("group", "remove", "harbor", *MIA, "--json").value["archived"] == []
    assert run("group", "remove", "harbor", *ADA, "--user", "eve", code=1).err == (
        "memory-sql: no member of group harbor: eve\n"
    )


def test_what_somebody_contributed_can_be_kept(run: Run) -> None:
    run("group", "create", "harbor", *ADA)
    run("group", "add", "harbor", *MIA)
    run("observe", "Mia's plan.", *MIA, "--group", "harbor")
    assert run("group", "remove", "harbor", *MIA, "--keep", "--json").value["archived"] == []
    run("group", "add", "harbor", *MIA)
    assert [row["status"] for row in run("observation", "list", *MIA, "--json").rows] == ["active"]


def test_group_without_a_command_shows_its_help(run: Run) -> None:
    assert memory_sql("group").out == memory_sql("group", "--help").out
