"""What a model is told of the tools, and what becomes of its arguments and proposals, without a database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from memory_sql.errors import InputError
from memory_sql.languages.text import count_tokens
from memory_sql.memory import Memory
from memory_sql.tools import TOOLS, Decision, Eligibility, MemoryTools, Policy, decide
from memory_sql.tools.actions import action_of, eligibility_of
from memory_sql.tools.declared import ArgumentsError, read_arguments

NOWHERE = Memory("postgresql://nobody@127.0.0.1:9/nothing")
ID = "o12-3"
VALID: dict[str, dict[str, Any]] = {
    "recall": {"query": "tea", "limit": 20, "after": "2026-11-01", "before": "2026-11-30", "include_past": True},
    "remember": {"text": "Mia likes tea."},
    "correct": {"observation_id": ID, "text": "Mia likes coffee."},
    "forget": {"observation_ids": [ID], "confirmed": True},
    "sources": {"observation_id": ID},
}
WRONG = [
    ("recall", {"query": 7}, "query: it should be a valid string"),
    ("recall", {"query": "x" * 1001}, "query: at most 1000 characters"),
    ("recall", {"limit": 21}, "limit: at most 20"),
    ("recall", {"limit": 0}, "limit: at least 1"),
    ("recall", {"limit": True}, "limit: it should be a valid integer"),
    ("recall", {"limit": "5"}, "limit: it should be a valid integer"),
    ("recall", {"after": "yesterday"}, "after: write a day as 2026-11-24"),
    ("recall", {"before": "2026-13-01"}, "before: write a day as 2026-11-24"),
    ("recall", {"include_past": "yes"}, "include_past: it should be a valid boolean"),
    ("remember", {}, "text: it is missing"),
    ("remember", {"text": None}, "text: it is missing"),
    ("remember", {"text": ""}, "text: it may not be empty"),
    ("remember", {"text": ["x"]}, "text: it should be a valid string"),
    ("remember", {"text": "x", "group": 7}, "group: it should be a valid string"),
    ("correct", {"observation_id": "12", "text": "x"}, "observation_id: an id looks like o12-3; find it with recall"),
    ("correct", {"observation_id": ID}, "arguments: give either text or ended"),
    ("correct", {"observation_id": ID, "text": "x", "ended": "no"}, "arguments: give either text or ended"),
    ("correct", {"observation_id": ID, "ended": "done"}, "ended: it should be 'fulfilled', 'expired' or 'no'"),
    ("forget", {"observation_ids": []}, "observation_ids: it may not be empty"),
    ("forget", {"observation_ids": [ID] * 11}, "observation_ids: at most 10 of them"),
    ("forget", {"observation_ids": ["o0-1"]}, "observation_ids.0: an id looks like o12-3; find it with recall"),
    ("forget", {"observation_ids": ID}, "observation_ids: it should be a valid list"),
    ("forget", {"observation_ids": [ID], "confirmed": "true"}, "confirmed: it should be a valid boolean"),
    ("sources", {"observation_id": f"{ID}\n"}, "observation_id: an id looks like o12-3; find it with recall"),
]


def tools(**given: Any) -> MemoryTools:
    return MemoryTools(NOWHERE, agent_id="ada", user_id="mia", **given)


def in_group() -> MemoryTools:
    return tools(group_ids=["harbor", "club"], policy=Policy(groups=frozenset({"harbor", "other"})))


@pytest.mark.parametrize("strict", [False, True])
def test_schemas_are_valid_and_take_valid_arguments(strict: bool) -> None:
    declared = in_group().openai(strict=strict)
    assert [one["name"] for one in declared] == [*TOOLS]
    for one in declared:
        schema = one["parameters"]
        Draft202012Validator.check_schema(schema)
        given = VALID[one["name"]]
        if strict:
            given = {**dict.fromkeys(schema["properties"]), **given}
        Draft202012Validator(schema).validate(given)
        assert read_arguments(TOOLS[one["name"]].arguments, json.dumps(given)).model_fields_set
        assert not Draft202012Validator(schema).is_valid({**given, "user_id": "jonas"})


def test_strict_schemas_require_everything_and_bound_nothing() -> None:
    for one in in_group().openai(strict=True):
        assert one["parameters"]["required"] == [*one["parameters"]["properties"]]
        assert not {"minimum", "maximum", "default", "pattern", "minLength", "maxItems"} & {
            key for found in one["parameters"]["properties"].values() for key in (*found, *found.get("items", ()))
        }


def test_both_kinds_have_the_same_schemas_each_time_anew() -> None:
    kept = in_group()
    of_both = zip(kept.openai(), kept.anthropic(), strict=True)
    assert all(one["parameters"] == other["input_schema"] for one, other in of_both)
    kept.openai()[0]["parameters"]["properties"].clear()
    assert kept.openai()[0]["parameters"]["properties"]


def test_all_of_them_cost_at_most_700_tokens() -> None:
    assert max(count_tokens(json.dumps(made)) for made in (in_group().openai(), in_group().anthropic())) <= 700


def test_what_isnt_allowed_isnt_offered() -> None:
    def names(policy: Policy) -> list[str]:
        return [one["name"] for one in tools(policy=policy).anthropic()]

    assert names(Policy(writes=False)) == ["recall", "forget", "sources"]
    assert names(Policy(forget="no")) == ["recall", "remember", "correct", "sources"]
    assert names(Policy(writes=False, forget="no")) == ["recall", "sources"]
    assert "group" not in tools(policy=Policy(groups=frozenset({"harbor"}))).openai()[1]["parameters"]["properties"]
    assert in_group().openai()[1]["parameters"]["properties"]["group"]["enum"] == ["harbor"]


@pytest.mark.parametrize(("name", "given", "told"), WRONG)
async def test_a_wrong_argument_is_named_with_what_it_should_be(name: str, given: dict[str, Any], told: str) -> None:
    answer = await tools().call(name, given)
    assert answer == (told, {"error": told}, True)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("given", ["{", "[]", "7", "null7", "[" * 20_000, "{" + " " * 50_000, 7, [], object()])
async def test_what_isnt_an_object_is_refused(name: str, given: Any) -> None:
    answer = await tools().call(name, given)
    assert answer.is_error
    assert answer.text.startswith("the arguments ")


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("field", ["user_id", "agent_id", "conversation_id", "group_id", "actor"])
async def test_identity_is_no_argument(name: str, field: str) -> None:
    answer = await tools().call(name, {**VALID[name], field: "jonas"})
    assert answer.is_error
    assert f"{field}: there is no such argument; whose memory it is, the host has said" in answer.text
    assert "jonas" not in answer.text


async def test_no_name_and_no_argument_is_taken_as_it_comes() -> None:
    for name in ("recal", "", None, 7, "__init__", "call"):
        answer = await tools().call(name, {})  # type: ignore[arg-type]
        assert answer.text == "there is no such tool here. There are: recall, remember, correct, forget, sources"
    answer = await tools().call("recall", {"<b>" + "x" * 500 + "\n": 1, 7: 2})  # type: ignore[dict-item]
    assert "<" not in answer.text
    assert len(answer.text) < 400
    with pytest.raises(ArgumentsError):
        read_arguments(TOOLS["recall"].arguments, {"limit": 10**400})


async def test_a_memory_that_fails_is_an_answer_and_its_words_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "memory_sql")
    for name, given in VALID.items():
        answer = await tools().call(name, {**given, "text": "canary"} if "text" in given else given)
        assert answer.is_error
    assert "canary" not in caplog.text
    assert "tea" not in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_id": ""},
        {"agent_id": "a\n"},
        {"conversation_id": "\x00"},
        {"group_ids": "harbor"},
        {"policy": Policy(forget="all")},  # type: ignore[arg-type]
        {"policy": Policy(changes_per_turn=-1)},
        {"policy": Policy(groups="harbor")},  # type: ignore[arg-type]
        {"policy": (True,)},
    ],
)
def test_what_a_host_gives_wrong_is_told_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        MemoryTools(NOWHERE, **{"agent_id": "ada", "user_id": "mia", **wrong})


@pytest.mark.parametrize(
    ("action", "about", "decision"),
    [
        ("store_note", {"confidence": 0.9, "source": "manual"}, ("allow", "")),
        ("store_note", {"confidence": 0.34, "source": "extraction"}, ("defer", "unsure")),
        ("store_note", {"confidence": 0.35, "source": "extraction"}, ("allow", "")),
        ("store_note", {"confidence": 0.1, "source": "unknown"}, ("allow", "")),
        ("discard", {"importance": 0.8}, ("deny", "important")),
        ("discard", {"importance": 0.79, "confidence": 0.0, "source": "manual"}, ("allow", "")),
        ("update_note", {"lifecycleState": "stale", "confidence": 1.0}, ("deny", "past")),
        ("create_artifact", {"lifecycleState": "archived"}, ("deny", "past")),
        ("link_graph", {"lifecycleState": "archived"}, ("deny", "past")),
        ("store_episode", {"lifecycleState": "archived", "confidence": 0.9, "source": "replay"}, ("allow", "")),
        ("summarize_node", {"confidence": 0.9}, ("allow", "")),
        ("delete_all", {"importance": 0.9}, ("deny", "important")),
        ("store_note", {"confidence": 1.1, "importance": 0.9, "source": "manual"}, ("allow", "")),
        ("discard", {"importance": 0.9, "more": 1}, ("allow", "")),
        ("store_note", "nothing", ("allow", "")),
    ],
)
def test_policy_of_actions(action: str, about: object, decision: tuple[str, str]) -> None:
    """R175–R179."""
    assert decide(action, about) == Decision(*decision)  # type: ignore[arg-type]


def test_policy_of_actions_denies_first_what_is_off_and_defers_what_costs_too_much() -> None:
    """R175–R179."""
    assert decide("discard", {"importance": 0.9}, enabled=False) == ("deny", "disabled")
    assert decide("summarize_node", {}, token_budget=0) == ("defer", "budget")
    assert action_of(None) == action_of("Store_Note") == "discard"
    nothing = Eligibility(confidence=0.0, lifecycleState="candidate", importance=0.0, source="unknown")
    assert {eligibility_of(x) for x in (None, {"confidence": "1"}, {"lifecycle": "gone"}, {"source": ""})} == {nothing}
    assert eligibility_of({"confidence": float("nan")}) == nothing
