"""How servers and models write answers, each habit with its outcome: read where it has one reading, else refused.

Through the real client. What a habit does to the messages of a chat completion stands in `MESSAGES`, what it does to the
text in `TEXTS`; each text is also what the Responses API gives.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, get_args

import pytest
from pydantic import BaseModel

from memory_sql.consolidation.answers import ConsolidatedText
from memory_sql.errors import AnswerError, LanguageModelError, RefusedError, TruncatedError
from memory_sql.formation.answers import ExtractionAnswer, answer_for
from memory_sql.llm import Request
from memory_sql.llm.dialect import Api
from memory_sql.llm.openai import OpenAI
from memory_sql.propagation.answers import PropagationAnswer
from tests.loopback import garbage, good, loopback

T = TypeVar("T", bound=BaseModel)

FOUND = {"content": "Mia likes tea.", "sources": [1]}
TWO = [FOUND, {"content": "Mia's cat is \"Mog\".\nIt's old.", "sources": [2]}]
ONE_SCOPE, SCOPES = ("individual",), ("individual", "group_1")
LISTS = {"individual": TWO, "group_1": []}
PLAIN = json.dumps(LISTS)
RAW_NEWLINE = PLAIN.replace("\\n", "\n")
TEXT = {"text": "Mia likes tea.", "contradictions": []}
QUOTED = "{'individual': [{'content': 'Mia likes tea.', 'sources': [1]}], 'group_1': []}"
ONCE = [("individual", "Mia likes tea.")]
TWICE = [("individual", item["content"]) for item in TWO]
NOWHERE = [(None, item["content"]) for item in TWO]  # placed by whose words they are
NOTHING: list[tuple[str | None, str]] = []

TEXTS: dict[str, tuple[str, object]] = {
    "as asked for": (PLAIN, TWICE),
    "nothing to keep": ('{"individual": [], "group_1": []}', NOTHING),
    "a byte order mark": (f"\ufeff{PLAIN}", TWICE),
    "a fence": (f"```json\n{PLAIN}\n```", TWICE),
    "a fence that isn't closed": (f"```json\n{PLAIN}", TWICE),
    "prose around it": (f"Sure! Here it is:\n{PLAIN}\nAnything else?", TWICE),
    "thinking before it": (f"<think>{{'a': [maybe]}} or {PLAIN}</think>\n{PLAIN}", TWICE),
    "thinking that the template opened": (f"tea {{}} then\n</think>\n{PLAIN}", TWICE),
    "under a name": (f'{{"answer": {PLAIN}}}', TWICE),
    "under a name, as a string": (json.dumps({"result": PLAIN}), TWICE),
    "in a JSON string": (json.dumps(PLAIN), TWICE),
    "in a JSON string, fenced": (f"```json\n{json.dumps(PLAIN)}\n```", TWICE),
    "in a list of one": (f"[{PLAIN}]", TWICE),
    "said twice": (f"{PLAIN}\n\n{PLAIN}", TWICE),
    "a raw newline in a string": (RAW_NEWLINE, TWICE),
    "a raw newline, and prose": (f"Here: {RAW_NEWLINE} Done.", TWICE),
    "a tab in a string": (PLAIN.replace("likes tea", "likes\ttea"), [("individual", "Mia likes\ttea."), TWICE[1]]),
    "trailing commas": (PLAIN.replace("}]", "},],").replace("[]}", "[],}").replace(",, ", ", "), TWICE),
    "single quotes": (QUOTED, ONCE),
    "single quotes, and prose": (f"It's this: {QUOTED}", ONCE),
    "keys without quotes": ('{individual: [{content: "Mia likes tea.", sources: [1]}], group_1: []}', ONCE),
    "comments": (PLAIN.replace("{", "{ // the findings\n", 1), TWICE),
    "half a surrogate": (
        PLAIN.replace("likes tea", "likes \\ud83d tea"),
        [("individual", "Mia likes \ufffd tea."), TWICE[1]],
    ),
    "no list for a scope": (json.dumps({"individual": TWO}), TWICE),
    "null for a scope": (json.dumps(LISTS | {"group_1": None}), TWICE),
    "one finding without a list": (json.dumps({"individual": FOUND, "group_1": []}), ONCE),
    "a flat list that names scopes": (json.dumps({"observations": [FOUND | {"scope": "individual"}]}), ONCE),
    "a flat list of another name": (json.dumps({"findings": TWO}), NOWHERE),
    "a bare list": (json.dumps(TWO), NOWHERE),
    "a bare list, fenced": (f"```json\n{json.dumps(TWO)}\n```", NOWHERE),
    "a bare list that names scopes": (json.dumps([FOUND | {"scope": "individual"}]), ONCE),
    "a line for each finding": ("\n".join(map(json.dumps, TWO)), NOWHERE),
    "one finding alone": (json.dumps(FOUND), [(None, "Mia likes tea.")]),
    "other keys": (json.dumps(LISTS | {"reasoning": "because"}), TWICE),
    # What has no reading, or more than one.
    "an empty list": ("[]", AnswerError),
    "an empty object": ("{}", AnswerError),
    "a bare list of strings": (json.dumps(["Mia likes tea."]), AnswerError),
    "two different answers": (f'{PLAIN} or {{"individual": [], "group_1": []}}', AnswerError),
    "a key twice": (PLAIN.replace("group_1", "individual"), AnswerError),
    "prose alone": ("Mia likes tea.", AnswerError),
    "a missing quote": (PLAIN.replace('"Mia likes', "Mia likes"), AnswerError),
    "cut off": (PLAIN[:50], TruncatedError),
    "cut off in single quotes": (QUOTED[:50], AnswerError),
    "thinking alone": ("<think>tea</think>", AnswerError),
    "nothing": ("", AnswerError),
}
SUMMED_UP: dict[str, tuple[str, object]] = {
    "as asked for": (json.dumps(TEXT), TEXT["text"]),
    "the text alone": ("Mia likes tea.", TEXT["text"]),
    "the text in quotes": ('"Mia likes tea."', TEXT["text"]),
    "under a name": (json.dumps({"output": TEXT}), TEXT["text"]),
    "raw newlines": (
        '{"text": "Mia likes tea.\nMia has a cat.", "contradictions": []}',
        "Mia likes tea.\nMia has a cat.",
    ),
    "in a JSON string": (json.dumps(json.dumps(TEXT)), TEXT["text"]),
    "single quotes": ("{'text': 'Mia likes tea.', 'left_out': [],}", TEXT["text"]),
    "a list of sentences": ('["Mia likes tea.", "Mia has a cat."]', AnswerError),
    "another key": ('{"memory": "Mia likes tea."}', AnswerError),
}
MESSAGES: dict[str, tuple[dict[str, Any], object]] = {
    "parts": ({"content": [{"type": "text", "text": PLAIN[:40]}, {"type": "text", "text": PLAIN[40:]}]}, TWICE),
    "parts with thinking": (
        {"content": [{"type": "thinking", "thinking": "tea?"}, {"type": "text", "text": PLAIN}]},
        TWICE,
    ),
    "no content, the answer in the reasoning": ({"content": None, "reasoning_content": f"So: {PLAIN}"}, TWICE),
    "empty content, the answer in `reasoning`": ({"content": "", "reasoning": PLAIN}, TWICE),
    "no content, thoughts in the reasoning": ({"content": None, "reasoning_content": "Mia likes tea."}, AnswerError),
    "content and reasoning": ({"content": PLAIN, "reasoning_content": "{'individual': []}"}, TWICE),
    "the arguments of a call": (
        {"content": None, "tool_calls": [{"function": {"name": "Extraction", "arguments": PLAIN}}]},
        TWICE,
    ),
    "an object as content": ({"content": LISTS}, TWICE),
    "no content": ({"content": None}, AnswerError),
    "a refusal": ({"content": None, "refusal": "no"}, RefusedError),
}


SHARED = {"n": 1, "to": "group_1", "personal": False, "general": True, "valuable": True, "text": "Tea is at four."}
JUDGED: dict[str, tuple[str, object]] = {
    "as asked for": (json.dumps({"decisions": [SHARED]}), [1]),
    "nothing decided": ('{"decisions": []}', []),
    "under a name": (json.dumps({"answer": {"decisions": [SHARED]}}), [1]),
    "a bare list": (json.dumps([SHARED, SHARED | {"n": 2}]), [1, 2]),
    "one alone": (json.dumps(SHARED), [1]),
    "a line for each": (f"{json.dumps(SHARED)}\n{json.dumps(SHARED | {'n': 2})}", [1, 2]),
    "single quotes": (str(SHARED | {"personal": 0}).replace("True", "true").replace("0", "false"), [1]),
    "an empty object": ("{}", AnswerError),
    "another key": ('{"verdicts": "yes"}', AnswerError),
}


@asynccontextmanager
async def asked(api: Api, script: Any) -> AsyncIterator[OpenAI]:
    async with loopback(script) as server:
        model = OpenAI(api=api, base_url=server.base_url, timeout_seconds=60, max_retries=0)
        try:
            yield model
        finally:
            await model.close()


async def outcome(model: OpenAI, output: type[T]) -> T | type[LanguageModelError]:
    try:
        return (await model.generate(Request("extraction", "small", "Keep notes.", "Tea.", output))).value
    except LanguageModelError as error:
        return type(error)


def placed(answer: ExtractionAnswer | type[LanguageModelError]) -> object:
    """The observations with the scopes that they name."""
    if isinstance(answer, type):
        return answer
    return [(item.scope, item.content) for item in answer.extraction.observations]


@pytest.fixture(params=get_args(Api))
def api(request: pytest.FixtureRequest) -> Api:
    found: Api = request.param
    return found


@pytest.mark.parametrize("habit", TEXTS)
async def test_findings_are_read_where_they_have_one_reading(api: Api, habit: str) -> None:
    text, wanted = TEXTS[habit]
    async with asked(api, good(text)) as model:
        assert placed(await outcome(model, answer_for(SCOPES))) == wanted


@pytest.mark.parametrize("habit", MESSAGES)
async def test_an_answer_is_found_where_the_server_puts_it(habit: str) -> None:
    message, wanted = MESSAGES[habit]
    body = json.dumps({"choices": [{"message": {"role": "assistant", **message}}]}).encode()
    async with asked("chat", garbage(body)) as model:
        assert placed(await outcome(model, answer_for(SCOPES))) == wanted


@pytest.mark.parametrize("habit", JUDGED)
async def test_verdicts_are_read_where_they_have_one_reading(api: Api, habit: str) -> None:
    text, wanted = JUDGED[habit]
    async with asked(api, good(text)) as model:
        found = await outcome(model, PropagationAnswer)
    assert (found if isinstance(found, type) else [decision.n for decision in found.decisions]) == wanted


@pytest.mark.parametrize("habit", SUMMED_UP)
async def test_a_text_is_read_where_it_has_one_reading(api: Api, habit: str) -> None:
    text, wanted = SUMMED_UP[habit]
    async with asked(api, good(text)) as model:
        found = await outcome(model, ConsolidatedText)
    assert (found if isinstance(found, type) else found.text) == wanted


async def test_a_bare_list_belongs_to_the_only_scope(api: Api) -> None:
    async with asked(api, good(json.dumps(TWO))) as model:
        assert placed(await outcome(model, answer_for(ONE_SCOPE))) == TWICE


@pytest.mark.parametrize("items", [["Mia likes tea."], [{"content": 7}], "Mia likes tea.", {"text": "Mia likes tea."}])
async def test_a_list_of_something_else_is_missing_and_harms_no_other(items: object) -> None:
    async with asked("chat", good(json.dumps({"individual": items, "group_1": [FOUND]}))) as model:
        found = await outcome(model, answer_for(SCOPES))
    assert isinstance(found, ExtractionAnswer)
    assert found.extraction.missing == ("individual",)
    assert placed(found) == [("group_1", "Mia likes tea.")]


async def test_thoughts_are_never_taken_for_a_text() -> None:
    body = json.dumps({"choices": [{"message": {"content": None, "reasoning_content": "I sum up."}}]}).encode()
    async with asked("chat", garbage(body)) as model:
        assert await outcome(model, ConsolidatedText) is AnswerError
