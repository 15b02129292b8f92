"""Named scopes that come ready, and scopes that are due by how much waits."""

import json
from typing import Any

import pytest

from memory_sql.config import ScopeSettings
from memory_sql.config.templates import CHARACTERS, TEMPLATES
from memory_sql.errors import InputError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.mark.parametrize("called", TEMPLATES)
async def test_a_template_brings_name_prompts_and_caps(memory: Memory, called: Any) -> None:
    made = await memory.scopes.create("individual", **ADA, owner_id="mia", template=called)
    ready = TEMPLATES[called]
    assert made.ref.name == called
    assert made.settings["consolidation_characters"].value == CHARACTERS == 8_000
    assert made.settings["consolidation_max_words"].value == ready.settings.consolidation_max_words
    assert made.prompts == {"extraction": 1, "consolidation": 1}
    for name, body in ready.prompts.items():
        prompt = await memory.prompts.get(made.ref.id, name, **ADA)
        assert (prompt.body, prompt.mode) == (body, "guidance")
    assert list(await memory.admin.verify()) == []


async def test_what_is_given_goes_before_the_template(memory: Memory) -> None:
    from_memory = await memory.scopes.create(
        "agent", **ADA, name="self", template="identity", settings=ScopeSettings(consolidation_max_words=90)
    )
    assert from_memory.ref.name == "self"
    assert from_memory.settings["consolidation_max_words"].value == 90
    assert from_memory.settings["consolidation_characters"].value == CHARACTERS
    with pytest.raises(InputError, match="template must be one of profile, identity"):
        await memory.scopes.create("agent", **ADA, template="diary")  # type: ignore[arg-type]


async def test_due_by_characters_as_well_as_by_count(memory: Memory, llm: Scripted) -> None:
    own = ScopeSettings(consolidation_characters=300)
    made = await memory.scopes.create("individual", **ADA, owner_id="mia", name="long", settings=own)
    text = "Mia asks for the reason of each step, and wants it in one sentence, not in three. Note {}."
    due = "SELECT due_at IS NOT NULL FROM memory.scopes WHERE name = 'long'"
    for n in range(3):
        await memory.observe(text.format(n), **MIA, scope="long")
        assert await rows(memory, due) == [(False,)]
    await memory.observe(text.format(3), **MIA, scope="long")
    assert await rows(memory, due) == [(True,)]
    assert list(await memory.admin.verify()) == []
    llm.then(json.dumps({"text": " ".join(text.format(n) for n in range(4))}))
    await memory.scopes.consolidate(**ADA, scope_id=made.ref.id)
    assert await rows(memory, due) == [(False,)]
    assert list(await memory.admin.verify()) == []


def test_the_command(database_url: str) -> None:
    asked = ("scope", "create", "individual", "--owner", "mia", "--template", "profile", "--agent", "ada")
    made = memory_sql(*asked, "--url", database_url, "--json").value
    assert (made["ref"]["name"], made["prompts"]) == ("profile", {"extraction": 1, "consolidation": 1})
