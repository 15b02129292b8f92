"""Named scopes, their settings, and what they tell their models."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from memory_sql.config import SCOPE_SETTINGS, ScopeSettings, Settings
from memory_sql.config.scopes import DEFAULTS, OF_AGENT, settings_of_scope
from memory_sql.db.models import ScopeRow
from memory_sql.domain.exports import ExportedPrompt
from memory_sql.domain.ids import OwnedKind
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, InputError, LanguageModelError, NotFoundError, StaleError, TooLargeError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import conversation
from tests.fakes import Scripted, extracted, offered

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {**ADA, "conversation_id": "s"}


async def own(memory: Memory, **settings: Any) -> str:
    """The id of mia's scope, with settings of its own."""
    made = await memory.scopes.create("individual", **ADA, owner_id="mia", settings=ScopeSettings(**settings))
    return made.ref.id


def test_every_setting_is_a_column_and_has_something_to_count_without_it() -> None:
    assert set(SCOPE_SETTINGS) <= {column.key for column in ScopeRow.__table__.columns}
    assert set(SCOPE_SETTINGS) == DEFAULTS.keys() | OF_AGENT.keys()
    assert set(OF_AGENT.values()) <= Settings.model_fields.keys()


async def test_scope_is_created_once(memory: Memory) -> None:
    made = await memory.scopes.create("individual", **ADA, owner_id="mia", name="boat", display_name="Mia's boat")
    again = await memory.scopes.create("individual", **ADA, owner_id="mia", name="boat", display_name="Other")
    assert again == made
    assert (str(made.ref), made.display_name) == ("individual:mia:boat", "Mia's boat")
    assert (await memory.observe("Blue.", **MIA, scope="boat")).scope == made.ref
    assert await rows(memory, "SELECT kind, detail FROM memory.events") == [
        ("scope", {"action": "create", "settings": []})
    ]


@pytest.mark.parametrize("kind", get_args(OwnedKind))
async def test_scope_of_each_kind_can_be_created(memory: Memory, kind: OwnedKind) -> None:
    await memory.groups.create("harbor", **ADA)
    await memory.add(conversation(1), **MIA, conversation_id="harbor")
    owner = "harbor" if kind in ("individual", "group", "conversation") else None
    made = await memory.scopes.create(kind, **ADA, owner_id=owner, name="more")
    assert (made.ref.kind, made.ref.owner_id, made.ref.name) == (kind, owner, "more")
    assert await memory.admin.verify() == []


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("individual", {}),
        ("collective", {"owner_id": "mia"}),
        ("shard", {"owner_id": "mia"}),
        ("entity", {"owner_id": "boat"}),
        ("individual", {"owner_id": "mia", "name": ""}),
        ("individual", {"owner_id": "mia", "settings": ScopeSettings(sharing="off")}),
    ],
)
async def test_scope_that_can_not_be_is_refused(memory: Memory, kind: Any, more: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        await memory.scopes.create(kind, **ADA, **more)
    assert await rows(memory, "SELECT 1 FROM memory.scopes") == []


async def test_scope_of_an_unknown_group_is_refused(memory: Memory) -> None:
    with pytest.raises(NotFoundError, match="group harbor"):
        await memory.scopes.create("group", **ADA, owner_id="harbor", name="tools")


async def test_each_setting_says_where_it_comes_from(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_OBSERVATION_MAX_WORDS", "40")
    async with Memory(database_url, llm, Settings(observation_max_items=7)) as memory:
        await memory.configure(**ADA, consolidation_max_words=300)
        scope = await own(memory, consolidation_threshold=5, is_active=True)
        found = (await memory.scopes.get(scope, **ADA)).settings
        assert {
            name: (found[name].value, found[name].source)
            for name in (
                *("consolidation_threshold", "consolidation_max_words", "observation_max_words"),
                *("observation_max_items", "extraction_model", "is_active", "sharing"),
            )
        } == {
            "consolidation_threshold": (5, "scope"),
            "consolidation_max_words": (300, "agent"),
            "observation_max_words": (40, "environment"),
            "observation_max_items": (7, "argument"),
            "extraction_model": ("gpt-5-mini", "default"),
            "is_active": (True, "default"),
            "sharing": (None, "default"),
        }
        group = await memory.groups.create("harbor", **ADA)
        of_group = (await memory.scopes.get(f"s{group.scope_key}", **ADA)).settings
        assert (of_group["observation_max_items"].value, of_group["sharing"].value) == (30, "auto")


async def test_setting_is_changed_and_taken_back_alone(memory: Memory) -> None:
    scope = await own(memory, consolidation_threshold=5, observation_max_items=3)
    changed = await memory.scopes.set(
        scope, ScopeSettings(consolidation_threshold=None, is_active=False), **ADA, actor="op", reason="quiet"
    )
    assert changed == await memory.scopes.get(scope, **ADA)
    shown = {name: setting.value for name, setting in changed.settings.items() if setting.source == "scope"}
    assert shown == {"observation_max_items": 3, "is_active": False, "language": "english"}
    assert await rows(memory, "SELECT actor, reason, detail FROM memory.events ORDER BY event_id DESC LIMIT 1") == [
        ("op", "quiet", {"action": "set", "settings": ["consolidation_threshold", "is_active"]})
    ]
    back = await memory.scopes.set(scope, ScopeSettings(is_active=None), **ADA)
    assert back.settings["is_active"].value is True


async def test_changing_nothing_is_no_event(memory: Memory) -> None:
    scope = await own(memory)
    before = await rows(memory, "SELECT count(*) FROM memory.events")
    await memory.scopes.set(scope, ScopeSettings(), **ADA)
    assert await rows(memory, "SELECT count(*) FROM memory.events") == before


async def test_lower_threshold_makes_due_at_once_and_switching_off_takes_it_back(memory: Memory) -> None:
    """Rule 11."""
    scope = (await memory.observe("Tea.", **MIA)).scope.id
    await memory.scopes.set(scope, ScopeSettings(consolidation_threshold=1), **ADA)
    due = "SELECT due_at IS NOT NULL FROM memory.scopes"
    assert await rows(memory, due) == [(True,)]
    await memory.scopes.set(scope, ScopeSettings(consolidate=False), **ADA)
    assert await rows(memory, due) == [(False,)]
    await memory.scopes.set(scope, ScopeSettings(consolidate=None), **ADA)
    assert await rows(memory, due) == [(True,)]
    assert await memory.admin.verify() == []


async def test_what_a_model_makes_while_its_scope_is_switched_off_is_refused(memory: Memory, llm: Scripted) -> None:
    """Rule 6."""
    scope = (await memory.observe("Tea.", **MIA)).scope.id

    async def switched_off(_: Request[Any]) -> str:
        await memory.scopes.set(scope, ScopeSettings(is_active=False), **ADA)
        return "Mia drinks tea."

    llm.then(switched_off)
    with pytest.raises(StaleError):
        await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert await memory.scopes.history(**MIA) == []


async def test_host_may_take_back_a_setting(memory: Memory, database_url: str) -> None:
    scope = await own(memory)
    async with memory.database.transaction() as session:
        await memory.scopes.set(scope, ScopeSettings(buffer_max=3), **ADA, session=session)
        assert (await memory.scopes.get(scope, **ADA, session=session)).settings["buffer_max"].value == 3
        await session.rollback()
    assert (await memory.scopes.get(scope, **ADA)).settings["buffer_max"].value == 100


async def test_unknown_scope_or_agent_has_no_settings(memory: Memory) -> None:
    scope = await own(memory)
    for agent, wanted in (("ada", "s999999"), ("nobody", scope)):
        with pytest.raises(NotFoundError):
            await memory.scopes.get(wanted, agent_id=agent)
        with pytest.raises(NotFoundError):
            await memory.scopes.set(wanted, ScopeSettings(is_active=False), agent_id=agent)
        with pytest.raises(NotFoundError):
            await memory.prompts.set(wanted, "extraction", "Boats.", agent_id=agent)


@pytest.mark.parametrize(
    "wrong",
    [
        {"consolidation_threshold": 0},
        {"consolidation_threshold": 10**12},
        {"observation_max_items": -1},
        {"lanes": "left"},
        {"language": "klingon"},
        {"extraction_model": "a\x00b"},
        {"sharing": "always"},
        {"nonsense": 1},
    ],
)
def test_settings_have_bounds(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"settings: {name}: ") as told:
        ScopeSettings(**wrong)
    assert "klingon" not in str(told.value)
    with pytest.raises(InputError, match=name):
        settings_of_scope(wrong)


def test_setting_that_does_not_exist_comes_with_the_nearest() -> None:
    with pytest.raises(InputError, match="settings: bufer_max: there is no such setting; did you mean buffer_max\\?"):
        ScopeSettings(bufer_max=1)  # type: ignore[call-arg]


@pytest.mark.slow
async def test_extremes_of_every_setting_stop_nothing(memory: Memory, llm: Scripted) -> None:
    scope = (await memory.observe("Tea.", **MIA)).scope.id
    for name, field in ScopeSettings.model_fields.items():
        least, most = (next((getattr(m, k) for m in field.metadata if hasattr(m, k)), None) for k in ("ge", "le"))
        for value in filter(lambda v: v is not None, (least, most)):
            await memory.scopes.set(scope, ScopeSettings(**{name: value}), **ADA)
            assert await memory.admin.verify() == [], (name, value)
        await memory.scopes.set(scope, ScopeSettings(**{name: None}), **ADA)
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("Boats.", "individual")))
    assert len((await memory.conversations.form(**SESSION)).observations) == 1


# Prompts


async def test_prompt_has_versions_that_never_change(memory: Memory) -> None:
    scope = await own(memory)
    first = await memory.prompts.set(scope, "extraction", " Boats.\n", **ADA)
    second = await memory.prompts.set(scope, "extraction", "Boats and sails.", **ADA, actor="op")
    assert [(p.version, p.mode, p.body) for p in (first, second)] == [
        (1, "guidance", "Boats."), (2, "guidance", "Boats and sails.")
    ]  # fmt: skip
    assert await memory.prompts.get(scope, "extraction", **ADA) == second
    assert await memory.prompts.get(scope, "extraction", **ADA, version=1) == first
    assert await memory.prompts.list(**ADA) == await memory.prompts.list(**ADA, scope_id=scope) == [second, first]
    with pytest.raises(DatabaseError, match="23000"):
        await rows(memory, "UPDATE memory.prompts SET body = 'Cars.'")
    with pytest.raises(NotFoundError):
        await memory.prompts.get(scope, "consolidation", **ADA)
    with pytest.raises(NotFoundError):
        await memory.prompts.get(scope, "extraction", **ADA, version=3)
    assert (await memory.scopes.get(scope, **ADA)).prompts == {"extraction": 2}
    assert await rows(memory, "SELECT detail FROM memory.events WHERE actor = 'op'") == [
        ({"action": "prompt", "name": "extraction", "mode": "guidance", "prompt_version": 2},)
    ]


OVERRIDE = "You log what happens to boats, nothing else.\n\n{{data}}\n\n{{answer}}"


@pytest.mark.parametrize(
    ("body", "mode", "error"),
    [
        (" ", "guidance", InputError),
        ("x" * 20_001, "guidance", TooLargeError),
        ("Boats.", "override", InputError),
        (OVERRIDE + "{{answer}}", "override", InputError),
        (OVERRIDE + "{{conversation}}", "override", InputError),
        ("Boats.", "base", InputError),
        ("Boats.", "other", InputError),
    ],
)
async def test_prompt_that_would_break_its_step_is_refused(
    memory: Memory, body: str, mode: Any, error: type[Exception]
) -> None:
    scope = await own(memory)
    with pytest.raises(error):
        await memory.prompts.set(scope, "extraction", body, **ADA, mode=mode)
    with pytest.raises(InputError):
        await memory.prompts.set(scope, "other", "Boats.", **ADA)  # type: ignore[arg-type]
    assert await memory.prompts.list(**ADA) == []


async def test_guidance_stands_beside_the_base_prompt_and_the_run_names_it(memory: Memory, llm: Scripted) -> None:
    scope = await own(memory)
    await memory.prompts.set(scope, "extraction", "Boats above all.", **ADA)
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("A boat.", "individual")))
    await memory.conversations.form(**SESSION)
    (request,) = llm.requests
    assert "What to look for: Boats above all." in request.prompt
    assert offered(request) == ["individual", "collective"]
    assert request.prompt_version.endswith(f"+{scope}.1")
    assert await rows(memory, "SELECT prompt_version FROM memory.runs") == [(request.prompt_version,)]


async def test_override_takes_a_call_of_its_own_and_keeps_what_is_data_and_the_answers_form(
    memory: Memory, llm: Scripted
) -> None:
    """C24."""
    scope = await own(memory)
    await memory.prompts.set(scope, "extraction", OVERRIDE, **ADA, mode="override")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("Split.", "collective")), extracted(("A boat.", "individual")))
    await memory.conversations.form(**SESSION)
    shared, alone = llm.requests
    assert (offered(shared), offered(alone)) == (["collective"], ["individual"])
    assert alone.instructions.startswith("You log what happens to boats, nothing else.\n\nWhat is data\n")
    assert "What to answer\nOne JSON object" in alone.instructions
    assert "What to write down" not in alone.instructions
    assert shared.instructions != alone.instructions
    assert alone.prompt_version == f"{shared.prompt_version}+{scope}.1"
    assert await rows(memory, "SELECT prompt_version FROM memory.runs") == [
        (f"{shared.prompt_version} {alone.prompt_version}",)
    ]


async def test_scope_may_have_models_of_its_own(memory: Memory, llm: Scripted) -> None:
    """R321: a model of its own for extraction means a call of its own."""
    scope = await own(memory, extraction_model="tiny", consolidation_model="huge")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(), extracted(("A boat.", "individual")), "Mia has a boat.")
    await memory.conversations.form(**SESSION)
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert [request.model for request in llm.requests] == ["gpt-5-mini", "tiny", "huge"]


async def test_text_is_written_by_the_scopes_own_instructions_and_says_so(memory: Memory, llm: Scripted) -> None:
    scope = (await memory.observe("Tea.", **MIA)).scope.id
    await memory.prompts.set(scope, "consolidation", OVERRIDE, **ADA, mode="override")
    llm.then("Mia drinks tea.")
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    (request,) = llm.requests
    assert request.instructions.startswith("You log what happens to boats")
    assert "How to answer\nOne JSON object" in request.instructions
    assert await rows(memory, "SELECT prompt_version FROM memory.consolidations") == [(request.prompt_version,)]
    await memory.prompts.set(scope, "consolidation", None, **ADA)
    await memory.observe("Boats.", **MIA)
    llm.then("Mia drinks tea and has boats.")
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert llm.requests[1].prompt_version == request.prompt_version.removesuffix(f"+{scope}.1")


async def test_what_a_model_makes_of_an_old_prompt_is_refused(memory: Memory, llm: Scripted) -> None:
    scope = (await memory.observe("Tea.", **MIA)).scope.id

    async def told_anew(_: Request[Any]) -> str:
        await memory.prompts.set(scope, "consolidation", "Be brief.", **ADA)
        return "Mia drinks tea."

    llm.then(told_anew)
    with pytest.raises((StaleError, LanguageModelError)):
        await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert await memory.scopes.history(**MIA) == []


async def test_prompt_goes_with_its_owner_and_is_exported(memory: Memory) -> None:
    scope = await own(memory)
    await memory.prompts.set(scope, "extraction", "The Petrel, Mia's boat.", **ADA)
    lines = [line async for line in memory.people.export(**MIA)]
    assert [line.body for line in lines if isinstance(line, ExportedPrompt)] == ["The Petrel, Mia's boat."]
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await rows(memory, "SELECT 1 FROM memory.prompts") == []
    assert await memory.admin.verify() == []


# The command line


def test_commands(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    made = memory_sql(*"scope create individual --owner mia --name boat --agent ada --set lanes=both --json".split())
    scope = made.value["ref"]["id"]
    assert made.value["settings"]["lanes"] == {"value": "both", "source": "scope"}
    shown = memory_sql(*f"scope set {scope} --agent ada --set consolidation_threshold=3 --unset lanes".split()).out
    assert "consolidation_threshold = 3  (scope)" in shown
    assert "lanes = absorb  (default)" in shown
    assert memory_sql("scope", "show", scope, "--agent", "ada").out == shown
    memory_sql("scope", "set", scope, "--agent", "ada", "--set", "nonsense=1", code=1)
    memory_sql("scope", "set", scope, "--agent", "ada", code=1)
    memory_sql("prompt", "set", scope, "extraction", "--agent", "ada", "--text", "Boats.")
    memory_sql("prompt", "set", scope, "extraction", "--agent", "ada", "--file", "-", stdin=b"Boats.\nSails.\n")
    assert "Sails." in memory_sql("prompt", "show", scope, "extraction", "--agent", "ada").out
    assert "+Sails." in memory_sql("prompt", "diff", scope, "extraction", "--agent", "ada", "--from", "1").out
    memory_sql("prompt", "set", scope, "extraction", "--agent", "ada", "--base")
    listed = memory_sql("prompt", "list", scope, "--agent", "ada").out.splitlines()
    assert [line.split("  ")[:2] for line in listed] == [
        [f"{scope} extraction v3", "base"], [f"{scope} extraction v2", "guidance"], [f"{scope} extraction v1", "guidance"]
    ]  # fmt: skip
    memory_sql("prompt", "set", scope, "extraction", "--agent", "ada", code=1)
    memory_sql("prompt", "set", scope, "extraction", "--agent", "ada", "--text", "No slots.", "--override", code=1)


async def test_what_was_said_before_a_change_of_language_is_found(memory: Memory) -> None:
    """Each observation is indexed in the language that its scope had when it was said."""
    first = await memory.observe("She likes sailing boats.", **MIA)
    for _ in range(2):
        await memory.scopes.set(first.scope.id, ScopeSettings(language="german"), **ADA)
    assert await rows(memory, "SELECT former_languages FROM memory.scopes") == [(["english"],)]
    second = await memory.observe("Sie mag Segelboote.", **MIA)
    await memory.scopes.set(first.scope.id, ScopeSettings(language="french"), **ADA)
    for query, one in (("sailed boat", first), ("Segelboot", second)):
        (hit,) = (await memory.search(query, **MIA)).results
        assert hit.observation.id == one.id


async def test_refused_observation_names_its_scope(memory: Memory) -> None:
    with pytest.raises(InputError, match=r"^the new scope has no lane buffer"):
        await memory.observe("Blue.", **MIA, lane="buffer")
    scope = await own(memory)
    with pytest.raises(InputError, match=rf"^scope {scope} has no lane buffer"):
        await memory.observe("Blue.", **MIA, lane="buffer")
    blue = await memory.observe("Blue.", **MIA)
    await memory.scopes.set(scope, ScopeSettings(is_active=False), **ADA)
    with pytest.raises(InputError, match=rf"^scope {scope} is inactive"):
        await memory.observe("Green.", **MIA)
    with pytest.raises(InputError, match=rf"^scope {scope} is inactive"):
        await memory.observations.update(blue.id, **MIA, text="Green.")
