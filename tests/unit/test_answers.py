from __future__ import annotations

import time
import traceback
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from memory_sql.consolidation.answers import ConsolidatedText, NamedContradiction
from memory_sql.errors import AnswerError, LanguageModelError, TruncatedError
from memory_sql.llm import answers


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: str
    scope: str
    sources: list[int] = []


class Items(BaseModel):
    observations: list[Item]


BARE = '{"observations": [{"content": "Mia uses {braces} and [brackets], \\"quoted\\" }", "scope": "individual"}]}'
VALUE = Items.model_validate_json(BARE)


def outcome(raw: str, output: type[Items] | type[str]) -> object:
    try:
        return answers.read(raw, output)
    except LanguageModelError as error:
        return error


@pytest.mark.parametrize(
    "raw",
    [
        BARE,
        f"\ufeff{BARE}",
        f"\ufeff\n  {BARE} \n\n",
        f"```json\n{BARE}\n```",
        f"```\n{BARE}```",
        f"```JSON\r\n{BARE}\r\n```",
        f"Here is what I found:\n\n```json\n{BARE}\n```\nTell me if you need more!",
        f"Sure! {BARE} That's all.",
        f"I looked at [1] and {{placeholder}} and kept this: {BARE} (see [2], {{a}}).",
        f'An open brace :{{ and a quote " first: {BARE}',
        f"<think>Mia {{maybe}} {{}} likes [{{}}] it</think>\n{BARE}",
        f"the template opened the thinking {{}}\n</think>\n\n{BARE}",
    ],
)
def test_one_object_is_found_however_it_is_dressed(raw: str) -> None:
    assert answers.read(raw, Items) == VALUE


def test_a_closing_tag_inside_of_a_string_is_not_thinking() -> None:
    raw = '{"observations": [{"content": "the server leaves </think> in", "scope": "s"}]}'
    assert answers.read(raw, Items).observations[0].content == "the server leaves </think> in"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "empty"),
        (" \n\t\ufeff ", "empty"),
        ("<think>nothing to say</think>", "empty"),
        ("I could not find anything.", "not_json"),
        ("See [1] and {this}.", "not_json"),
        ("[]", "wrong_shape"),
        ("```json\n[]\n```", "wrong_shape"),
        ('[{"content": "Mia likes tea", "scope": "individual"}]', "wrong_shape"),
        ('Here: [{"content": "Mia likes tea", "scope": "individual"}]', "wrong_shape"),
        ('"text"', "wrong_shape"),
        ("null", "wrong_shape"),
        ('{"observations": []} {"observations": [], "n": 1}', "wrong_shape"),
        (f'{BARE}\n{{"observations": []}}', "wrong_shape"),
        ("42", "wrong_shape"),
        ("{}", "wrong_shape"),
        ('{"memories": []}', "wrong_shape"),
        ('{"observations": {"content": "a", "scope": "b"}}', "wrong_shape"),
        ('{"observations": [{"content": "a"}]}', "wrong_shape"),
        ('{"observations": [{"content": 5, "scope": "b"}]}', "wrong_shape"),
        ('{"observations": [], "n": ' + "1" * 5000 + "}", "not_json"),
    ],
)
def test_everything_else_has_a_reason(raw: str, reason: str) -> None:
    with pytest.raises(AnswerError) as caught:
        answers.read(raw, Items)
    assert caught.value.reason == reason
    assert caught.value.raw == raw


@pytest.mark.parametrize("cut", range(1, len(BARE)))
@pytest.mark.parametrize("before", ["", "```json\n", "Here you are: "])
def test_json_cut_anywhere_is_truncated(cut: int, before: str) -> None:
    with pytest.raises(TruncatedError):
        answers.read(before + BARE[:cut], Items)


@pytest.mark.parametrize("raw", ['{"observations": [], "a": tru', '{"a": "\\u00', '{"a": "\\', '{"a": -', "<think>so"])
def test_odd_cuts_are_truncated_too(raw: str) -> None:
    with pytest.raises(TruncatedError):
        answers.read(raw, Items)


BOMBS = {
    "lists": "[" * 10_000,
    "closed lists": "[" * 10_000 + "]" * 10_000,
    "objects": '{"a":' * 10_000,
    "closed objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "deep field": '{"observations":' + "[" * 10_000 + "]" * 10_000 + "}",
    "braces": "{" * 10_000_000,
    "ten megabytes": '{"observations": [], "a": "' + "x" * 10_000_000 + '"}',
    "ten megabytes of objects": "{}" * 5_000_000,
    "half a megabyte of objects": "{}" * 249_000,
    "prose in braces": "{a}" * 160_000,
    "late error": "[" * 32 + "1," * 240_000 + "x",
    "open strings": '{"a' * 160_000,
    "blanks": "```\n" + " " * 490_000,
    "thoughts": "<think></think>" * 33_000,
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("output", [Items, str])
def test_bombs_end_quickly_in_an_error_of_ours(name: str, output: type[Items] | type[str]) -> None:
    started = time.process_time()
    end = outcome(BOMBS[name], output)
    if not (output is str and isinstance(end, str)):
        assert isinstance(end, AnswerError | TruncatedError)
        assert len(str(end)) < 200
    assert time.process_time() - started < 5  # milliseconds in fact; a quadratic reader takes minutes


@pytest.mark.slow
@given(st.text() | st.text(alphabet='{}[]":,\\ `1atn\n<think/>', max_size=60))
def test_any_text_gives_a_value_or_an_error_of_ours(raw: str) -> None:
    assert isinstance(outcome(raw, Items), Items | AnswerError | TruncatedError)
    assert isinstance(outcome(raw, str), str | AnswerError | TruncatedError)


SECRET = "Miaiscalledzebra"


class Picky(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Literal["a", "b"]
    by_name: dict[str, int] = {}

    @field_validator("by_name")
    @classmethod
    def refuse(cls, value: dict[str, int]) -> dict[str, int]:
        raise ValueError(f"the validator quotes {value}")


@pytest.mark.parametrize(
    "raw",
    [
        f'{{"content": "{SECRET}", "{SECRET}": 1}}',
        f'{{"content": "a", "by_name": {{"{SECRET}": "x"}}}}',
        f'{{"content": "a", "by_name": {{"{SECRET}": 1}}}}',
        f'{{"content": "{SECRET}',
        f"{SECRET}",
        f'["{SECRET}", {{}}]',
        f'{{"a": "{SECRET}"}} {{"a": "{SECRET}"}}',
        f'{{"content": "{SECRET}" "',
        f"<think>{SECRET}",
    ],
)
def test_neither_message_nor_traceback_repeats_the_answer(raw: str) -> None:
    with pytest.raises(LanguageModelError) as caught:
        answers.read(raw, Picky)
    assert SECRET not in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    # Source lines of this test are part of a traceback; the value isn't among them.
    assert SECRET not in shown


def test_a_wrong_shape_says_where_and_how() -> None:
    with pytest.raises(AnswerError, match=r"observations\.0\.scope: missing; observations\.0\.\?: extra_forbidden"):
        answers.read('{"observations": [{"content": "a", "zebra": 1}]}', Items)
    with pytest.raises(AnswerError, match=r"and 7 more$"):
        answers.read('{"observations": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}', Items)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("  Mia likes tea. \n", "Mia likes tea."),
        ("\ufeffMia likes tea.", "Mia likes tea."),
        ("```\nMia likes tea.\n```", "Mia likes tea."),
        ("```text\r\nMia likes tea.\r\n```", "Mia likes tea."),
        ("```Mia likes tea.```", "Mia likes tea."),
        ("```\nMia\n``` and ```\ntea\n```", "```\nMia\n``` and ```\ntea\n```"),
        ("Mia wrote ```code```", "Mia wrote ```code```"),
        ("<think>short?</think>\nMia likes tea.", "Mia likes tea."),
        ("Mia\x00 likes tea.", "Mia likes tea."),
        ('{"text": "Mia"}', '{"text": "Mia"}'),
    ],
)
def test_plain_text_is_the_text_itself(raw: str, text: str) -> None:
    assert answers.read(raw, str) == text


@pytest.mark.parametrize("raw", ["", " \n", "\ufeff", "```\n\n```", "``````", "\x00", "<think>a</think>\n"])
def test_blank_plain_text_is_empty(raw: str) -> None:
    with pytest.raises(AnswerError) as caught:
        answers.read(raw, str)
    assert caught.value.reason == "empty"


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Node(BaseModel):
    default: int = Field(3, title="a field with the name of a keyword", ge=0)
    title: str | None = None
    child: Node | None = Field(None, description="beside a reference")
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    items: list[Item] = []


class Nothing(BaseModel):
    pass


class Free(BaseModel):
    metadata: dict[str, str]


def objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    inside = [found for value in schema.values() for found in objects(value)]
    return [schema, *inside] if schema.get("type") == "object" else inside


@pytest.mark.parametrize("output", [Items, Node, Nothing])
def test_a_strict_schema_requires_every_property_and_no_others(output: type[BaseModel]) -> None:
    schema = answers.strict_schema(output)
    assert schema["type"] == "object"
    for found in objects(schema):
        assert found["required"] == list(found["properties"])
        assert found["additionalProperties"] is False


def test_a_strict_schema_drops_keywords_but_not_fields_of_the_same_name() -> None:
    schema = answers.strict_schema(Node)
    assert list(schema["properties"]) == ["default", "title", "child", "pet", "items"]
    assert schema["properties"]["default"] == {"type": "integer", "minimum": 0}
    assert schema["properties"]["child"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}],
                                             "description": "beside a reference"}  # fmt: skip
    assert schema["properties"]["pet"] == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    assert schema["$defs"]["Dog"]["required"] == ["kind"]


def test_a_strict_schema_refuses_free_keys() -> None:
    with pytest.raises(TypeError):
        answers.strict_schema(Free)


def test_a_schema_does_not_change_the_type() -> None:
    answers.strict_schema(Node)
    assert Node.model_json_schema()["$defs"]["Node"]["properties"]["default"]["default"] == 3


@pytest.mark.parametrize(
    "raw",
    [
        "Mia uses {braces} and [brackets] and notes [1].",
        "[Offline: quotes.]\nMia sails.",
        "```\nMia sails.\n```",
        "<think>{}</think>\nMia sails.",
    ],
)
def test_text_alone_is_a_consolidated_text_without_contradictions(raw: str) -> None:
    value = answers.read(raw, ConsolidatedText)
    assert (value.text, list(value.contradictions)) == (answers.read(raw, str), [])


@pytest.mark.parametrize(
    ("raw", "error", "reason"),
    [
        ('{"text": "Mia sa', TruncatedError, "truncated"),
        ('{"text": "Mia said "yes" to it."}', TruncatedError, "truncated"),
        ('Here it is: {"summary": "Mia sails."}', AnswerError, "wrong_shape"),
        ('["Mia sails."]', AnswerError, "wrong_shape"),
        ("{}", AnswerError, "wrong_shape"),
        (" ", AnswerError, "empty"),
    ],
)
def test_json_that_is_not_what_was_asked_for_is_not_taken_for_text(
    raw: str, error: type[LanguageModelError], reason: str
) -> None:
    with pytest.raises(error) as raised:
        answers.read(raw, ConsolidatedText)
    assert raised.value.reason == reason


def test_text_is_kept_where_its_contradictions_cannot_be_read() -> None:
    good = '{"newer": 2, "older": 1, "was": "tea", "now": "coffee", "sure": true}'
    value = answers.read(
        f'{{"text": "Coffee.", "contradictions": [{good}, "2 > 1", {{"older": 1}}]}}', ConsolidatedText
    )
    assert list(value.contradictions) == [
        NamedContradiction(newer="n2", older="n1", was="tea", now="coffee"),
        NamedContradiction(newer="n0"),
        NamedContradiction(newer="n0"),
    ]
    assert list(answers.read('{"text": "Coffee.", "contradictions": null}', ConsolidatedText).contradictions) == []


def test_schema_of_a_consolidation_asks_for_text_and_contradictions() -> None:
    schema = answers.strict_schema(ConsolidatedText)
    assert list(schema["properties"]) == schema["required"] == [
        "text", "contradictions", "same_as", "left_out", "figures",
    ]  # fmt: skip
    assert schema["$defs"]["NamedContradiction"]["required"] == ["newer", "older", "was", "now", "still"]
